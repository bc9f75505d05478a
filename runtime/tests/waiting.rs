//! Circles of actors in which one waits for a start or an end.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use ringpost::Strategy;
use ringpost::prelude::*;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::actors::node;
use crate::log::Log;

/// Asks a host as it starts, or later.
#[derive(Clone)]
struct Guest {
    host: ActorRef<Host>,
    gate: Arc<Semaphore>,
    /// What came of its first message.
    asked: Arc<parking_lot::Mutex<Option<Result<bool, String>>>>,
    asks_at_start: bool,
}

#[actor]
impl Actor for Guest {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        if self.asks_at_start {
            self.host.is_there().await?;
        } else {
            // It is handled as soon as this has started, before the spawner goes on.
            cx.actor().tell(AskIt).await?;
        }
        Ok(())
    }
}

#[handlers]
impl Guest {
    #[handler]
    async fn ask_it(&mut self) {
        let asked = self.host.is_there().await.map_err(|error| error.to_string());
        *self.asked.lock() = Some(asked);
    }

    /// Asks when the gate is open.
    #[handler]
    async fn ask_late(&mut self) -> Result<bool, String> {
        self.gate.acquire().await.unwrap().forget();
        self.host.is_there().await.map_err(|error| error.to_string())
    }

    /// Asks the host to end this one.
    #[handler]
    async fn ask_for_the_end(&mut self, cx: &mut Context<Self>) -> Result<(), String> {
        let end = EndIt { guest: cx.actor().clone(), how: "stop" };
        self.host.ask(end).await.map(drop).map_err(|error| error.cause.to_string())
    }
}

/// Waits for others in ways that are no sends.
#[actor]
struct Host {
    gate: Arc<Semaphore>,
}

#[message(local)]
struct SpawnIt {
    guest: Guest,
    way: &'static str,
}

#[message(local)]
struct EndIt {
    guest: ActorRef<Guest>,
    how: &'static str,
}

#[message(local)]
struct Pass {
    to: ActorRef<Back>,
}

#[handlers]
impl Host {
    #[handler]
    fn is_there(&self) -> bool {
        true
    }

    /// Spawns an actor that asks this one.
    #[handler]
    async fn spawn_it(&mut self, msg: SpawnIt, cx: &mut Context<Self>) -> Result<(), String> {
        let SpawnIt { guest, way } = msg;
        let child = Child::new(move || guest.clone()).restart(Restart::never());
        let spawned = match way {
            "as a child" => cx.spawn(child).await.map(drop),
            "on its node" => cx.node().supervise(child).await.map(drop),
            _ => {
                let supervisor = Supervisor::new(Strategy::OneForOne).child(child);
                cx.node().spawn_anonymous(supervisor).await.map(drop)
            }
        };
        spawned.map_err(|error| error.to_string())
    }

    /// Ends an actor, or does not, and waits for its end or for the gate.
    #[handler]
    async fn end_it(&mut self, msg: EndIt) -> Option<String> {
        let EndIt { guest, how } = msg;
        match how {
            "stop" => guest.stop().await.unwrap(),
            "drain" => guest.drain().await.unwrap(),
            "kill" => guest.kill().await.unwrap(),
            _ => {}
        }
        tokio::select! {
            biased;
            exit = guest.wait_stopped() => Some(exit.to_string()),
            permit = self.gate.acquire() => {
                permit.unwrap().forget();
                None
            }
        }
    }

    /// The same as `pass`, in a handler that never waits.
    #[handler]
    fn pass_at_once(&mut self, to: ActorRef<Back>, cx: &mut Context<Self>) {
        let mut ask = Box::pin(to.ask(AskBack { host: cx.actor().clone() }).into_ask());
        assert!((&mut ask).now_or_never().is_none());
        cx.spawn_task(async move {
            let answer = ask.await.unwrap();
            assert_eq!(answer, Ok(true));
        });
    }

    /// Begins to ask in its handler, and leaves the rest to a task.
    #[handler]
    async fn pass(&mut self, msg: Pass, cx: &mut Context<Self>) {
        let mut ask = Box::pin(msg.to.ask(AskBack { host: cx.actor().clone() }).into_ask());
        assert!(futures::poll!(&mut ask).is_pending());
        cx.spawn_task(async move {
            let answer = ask.await.unwrap();
            assert_eq!(answer, Ok(true));
        });
    }
}

/// Asks a host back.
#[actor]
struct Back {
    done: Arc<Semaphore>,
}

#[message]
struct AskBack {
    host: ActorRef<Host>,
}

#[handlers]
impl Back {
    #[handler]
    async fn ask_back(&mut self, msg: AskBack) -> Result<bool, String> {
        let asked = msg.host.is_there().await.map_err(|error| error.to_string());
        if asked.is_ok() {
            self.done.add_permits(1);
        }
        asked
    }
}

async fn host(node: &Node) -> (ActorRef<Host>, Guest) {
    let gate = Arc::new(Semaphore::new(0));
    let host = node.spawn("host", Host { gate: gate.clone() }).await.unwrap();
    let (asked, at_start) = (Arc::default(), true);
    (host.clone(), Guest { host, gate, asked, asks_at_start: at_start })
}

async fn quiet() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn an_actor_that_asks_its_spawner_as_it_starts_is_told_at_once() {
    for way in ["as a child", "on its node", "by a supervisor"] {
        let node = node().await;
        let (host, guest) = host(&node).await;
        let start = Instant::now();
        let Ok(Err(text)) = host.ask(SpawnIt { guest, way }).await else { panic!("{way}") };
        assert!(text.contains("actors would wait for each other"), "{way}: {text}");
        assert!(text.contains("waits for alpha/host, which waits for "), "{way}: {text}");
        assert_eq!((start.elapsed(), host.is_there().await), (Duration::ZERO, Ok(true)), "{way}");
    }
}

/// WC-2: a start is over before its spawner knows.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn an_actor_that_has_started_may_ask_its_spawner() {
    for way in ["as a child", "on its node", "by a supervisor"] {
        let node = node().await;
        let (host, guest) = host(&node).await;
        let (asked, guest) = (guest.asked.clone(), Guest { asks_at_start: false, ..guest });
        host.ask(SpawnIt { guest, way }).await.unwrap().unwrap();
        quiet().await;
        assert_eq!(asked.lock().take(), Some(Ok(true)), "{way}");
    }
}

/// The guest waits for the host: it asks before the host waits for its end, or after.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn who_asks_the_actor_that_waits_for_its_end_is_told_at_once() {
    for how in ["stop", "drain"] {
        let node = node().await;
        let (host, guest) = host(&node).await;
        let gate = guest.gate.clone();
        let guest = Guest { asks_at_start: false, ..guest };
        let guest = node.spawn("guest", guest).await.unwrap();
        quiet().await;
        let start = Instant::now();
        let asked = guest.clone();
        let asked = tokio::spawn(async move { asked.ask_late().await });
        quiet().await;
        let ended = host.ask(EndIt { guest, how });
        let mut ended = Box::pin(ended);
        assert!(futures::poll!(&mut ended).is_pending());
        quiet().await;
        // The guest was the first to wait for the gate.
        gate.add_permits(1);
        let Ok(Err(text)) = asked.await.unwrap() else { panic!("{how}") };
        let circle = "alpha/guest waits for alpha/host, which waits for alpha/guest";
        assert!(text.contains(circle), "{how}: {text}");
        assert_eq!(ended.await, Ok(Some("it stopped".into())));
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn who_has_asked_the_actor_that_waits_for_its_end_is_told_at_once() {
    let log = Log::default();
    let _listening = log.listen();
    let node = node().await;
    let (host, guest) = host(&node).await;
    let guest = node.spawn("guest", Guest { asks_at_start: false, ..guest }).await.unwrap();
    quiet().await;
    let start = Instant::now();
    let Ok(Err(text)) = guest.ask_for_the_end().await else { panic!() };
    assert_eq!(text, AskCause::NoReply.to_string(), "the host had begun it");
    assert_eq!(guest.wait_stopped().await, ActorExit::Stopped);
    assert_eq!((start.elapsed(), host.is_there().await), (Duration::ZERO, Ok(true)));
    let circle = "alpha/host waits for alpha/guest, which waits for alpha/host";
    assert_eq!(log.count_all(&["an actor waits for the end of one that", circle]), 1);
}

/// WC-2: an end for which nobody has asked may not come, and one by a kill comes in any case.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_wait_for_an_end_that_does_not_wait_for_a_handler_closes_no_circle() {
    for how in ["nothing", "kill"] {
        let node = node().await;
        let (host, guest) = host(&node).await;
        let gate = guest.gate.clone();
        let guest = Guest { asks_at_start: false, ..guest };
        let guest = node.spawn("guest", guest).await.unwrap();
        quiet().await;
        let ended = host.ask(EndIt { guest: guest.clone(), how });
        let mut ended = Box::pin(ended);
        assert!(futures::poll!(&mut ended).is_pending());
        quiet().await;
        if how == "nothing" {
            let asked = tokio::spawn(async move { guest.ask_late().await });
            quiet().await;
            // One for the host, which waits first, and one for the guest.
            gate.add_permits(2);
            assert_eq!((ended.await, asked.await.unwrap()), (Ok(None), Ok(Ok(true))));
        } else {
            assert_eq!(ended.now_or_never(), Some(Ok(Some("it was killed".into()))));
        }
    }
}

/// WC-2: a handler that has ended waits for nothing, whoever has its ask.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn an_ask_that_a_handler_leaves_to_a_task_closes_no_circle() {
    let node = node().await;
    let (host, _) = host(&node).await;
    let done = Arc::new(Semaphore::new(0));
    let back = node.spawn("back", Back { done: done.clone() }).await.unwrap();
    host.tell(Pass { to: back.clone() }).await.unwrap();
    quiet().await;
    assert_eq!(done.available_permits(), 1);
    host.tell(PassAtOnce { to: back }).await.unwrap();
    quiet().await;
    assert_eq!(done.available_permits(), 2);
    assert!(host.is_there().await.is_ok(), "its task has not panicked");
}
