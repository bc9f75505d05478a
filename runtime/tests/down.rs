//! A node that is down: sends to it fail at once, and sends that ask to wait go there later.

use std::time::{Duration, Instant};

use ringpost::net::NodeDownCause;
use ringpost::observe::NodeEvent;
use ringpost::prelude::*;
use ringpost::send::Unasked;

use crate::actors::{Held, Note, Notebook, held};
use crate::cause;
use crate::remote::{PATIENCE, end, listening, pair};

/// Much less than `down_after`, for many sends together.
const SOON: Duration = Duration::from_secs(1);

/// Has `beta` leave, and waits until `alpha` knows.
async fn leave(alpha: &Node, beta: Node) {
    let mut events = alpha.events();
    beta.shutdown(PATIENCE).await;
    while !matches!(events.recv().await.unwrap(), NodeEvent::NodeDown { .. }) {}
}

/// Notes the end of an actor that it watches.
#[derive(Default)]
struct Watcher {
    downs: Vec<ActorExit>,
}

#[actor]
impl Actor for Watcher {}

#[message(local)]
struct WatchIt(ActorRef<Notebook>);

#[handlers]
impl Watcher {
    #[handler]
    async fn watch_it(&mut self, msg: WatchIt, cx: &mut Context<Self>) {
        cx.watch(&msg.0);
    }

    #[handler]
    fn down(&mut self, msg: Down) {
        self.downs.push(msg.exit);
    }

    #[handler]
    fn downs(&self) -> u64 {
        assert!(self.downs.iter().all(|exit| *exit == ActorExit::NodeDown), "{:?}", self.downs);
        self.downs.len() as u64
    }
}

fn is_left(cause: &Cause) -> bool {
    matches!(cause, Cause::NodeUnreachable(down) if down.cause == NodeDownCause::Left)
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn whatever_is_sent_to_a_node_that_is_down_fails_at_once_with_the_cause() {
    let (alpha, beta) = pair().await;
    beta.spawn("notebook", Notebook::new()).await.unwrap();
    let notebook = alpha.actor::<Notebook>("beta/notebook").await.unwrap();
    let watcher = alpha.spawn("watcher", Watcher::default()).await.unwrap();
    leave(&alpha, beta).await;
    let began = Instant::now();
    for number in 0..1000 {
        let back = notebook.tell(Note { number }).await.unwrap_err();
        assert!(is_left(&back.cause) && back.message.number == number, "{back}");
    }
    let note = || Note { number: 0 };
    let timed = notebook.tell(note()).timeout(PATIENCE * 4).await.unwrap_err();
    let confirmed = notebook.tell(note()).confirmed().await.unwrap_err();
    let tried = notebook.try_tell(note()).unwrap_err();
    let sent = notebook.ask(note()).try_send().err().unwrap();
    for back in [timed, confirmed, tried, sent] {
        assert!(is_left(&back.cause) && back.cause.is_retryable(), "{back}");
    }
    let AskCause::NotSent(cause) = notebook.notes().await.unwrap_err().cause else { panic!() };
    let said = cause.to_string();
    let since = [" ms: it left", "just found to be down: it left"];
    assert!(is_left(&cause) && since.iter().any(|since| said.contains(since)), "{said}");
    assert!(is_left(&notebook.stop().await.unwrap_err()));
    assert!(is_left(&notebook.request_stop().unwrap_err()));
    let looked = alpha.actor::<Notebook>("beta/other").await.unwrap_err();
    assert!(is_left(looked.cause().unwrap()), "{looked}");
    let looked = alpha.recipient::<Note, Unasked>("beta/notebook").await.unwrap_err();
    assert!(is_left(looked.cause().unwrap()), "{looked}");
    assert_eq!(notebook.wait_stopped().await, ActorExit::NodeDown);
    watcher.tell(WatchIt(notebook)).await.unwrap();
    while watcher.downs().await != Ok(1) {}
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    alpha.shutdown(PATIENCE).await;
}

/// A task that tries again and again has no pause of its own: the others of its thread run.
#[tokio::test]
async fn a_task_that_looks_for_a_node_that_is_down_lets_others_run() {
    let (alpha, beta) = pair().await;
    leave(&alpha, beta).await;
    let node = alpha.clone();
    let looking =
        tokio::spawn(
            async move { while node.actor::<Notebook>("beta/notebook").await.is_err() {} },
        );
    tokio::time::sleep(Duration::from_millis(10)).await;
    looking.abort();
    assert!(looking.await.unwrap_err().is_cancelled());
    alpha.shutdown(PATIENCE).await;
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn what_asks_to_wait_for_a_link_goes_to_the_next_run_of_a_node_that_is_down() {
    let (alpha, beta) = pair().await;
    beta.spawn("notebook", Notebook::new()).await.unwrap();
    let notebook = alpha.named::<Notebook>("beta/notebook").unwrap();
    leave(&alpha, beta).await;
    // The time-outs still count.
    let brief = Duration::from_millis(20);
    let late = notebook.tell(Note { number: 0 }).wait_for_link().timeout(brief).await.unwrap_err();
    assert_eq!(late.cause, Cause::Timeout);
    let late = notebook.notes().wait_for_link().timeout(brief).into_ask().await;
    assert_eq!(cause(late), Err(AskCause::NotSent(Cause::Timeout)));
    let late = notebook.notes().wait_for_link().tell().timeout(brief).await.unwrap_err();
    assert_eq!(late.cause, Cause::Timeout, "it waits as it was told to");
    let told = async {
        loop {
            match notebook.tell(Note { number: 1 }).wait_for_link().await {
                Ok(()) => return,
                // The link is there before the actor is.
                Err(back) => assert_eq!(back.cause, Cause::NoSuchActor),
            }
        }
    };
    let asked = async {
        loop {
            match notebook.notes().wait_for_link().timeout(PATIENCE * 4).into_ask().await {
                Ok(notes) => return notes,
                Err(why) => assert_eq!(why.cause, AskCause::NotSent(Cause::NoSuchActor)),
            }
        }
    };
    let again = async {
        let again = listening("beta", &[&alpha]).await;
        again.spawn("notebook", Notebook::new()).await.unwrap();
        again
    };
    let found = alpha.when_named::<Notebook>("beta/notebook");
    let ((), _, found, again) = tokio::join!(told, asked, found, again);
    assert_eq!(found.unwrap().notes().await, Ok(vec![1]));
    end([alpha, again]).await;
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn what_waits_for_a_link_outlasts_a_goodbye() {
    let (alpha, beta) = pair().await;
    let Held { gate, .. } = held(&beta, 1024).await;
    let there = alpha.named::<Notebook>("beta/held").unwrap();
    there.tell(Note { number: 0 }).await.unwrap();
    // The window is full: later sends wait for room when the goodbye comes.
    while there.try_tell(Note { number: 0 }).is_ok() {}
    let waits = there.clone();
    let told = tokio::spawn(async move {
        loop {
            match waits.tell(Note { number: 1 }).wait_for_link().await {
                Ok(()) => return,
                // The link is there before the actor is.
                Err(back) => assert_eq!(back.cause, Cause::NoSuchActor),
            }
        }
    });
    let impatient = there.clone();
    let impatient = tokio::spawn(async move { impatient.tell(Note { number: 2 }).await });
    let node = alpha.clone();
    let named = tokio::spawn(async move { node.when_named::<Notebook>("beta/late").await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    gate.close();
    beta.shutdown(Duration::from_millis(100)).await;
    let back = impatient.await.unwrap().unwrap_err();
    assert!(matches!(back.cause, Cause::Leaving | Cause::Stopped), "{}", back.cause);
    let beta = listening("beta", &[&alpha]).await;
    beta.spawn("held", Notebook::new()).await.unwrap();
    let late = beta.spawn("late", Notebook::new()).await.unwrap();
    told.await.unwrap();
    assert_eq!(named.await.unwrap().unwrap(), late);
    assert_eq!(there.notes().await, Ok(vec![1]));
    end([alpha, beta]).await;
}

/// Waits for a name before it starts.
struct Late(&'static str);

#[actor]
impl Actor for Late {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        cx.node().when_named::<Notebook>(self.0).await?;
        Ok(())
    }
}

#[handlers]
impl Late {}

#[tokio::test]
async fn a_wait_for_a_name_ends_when_its_own_node_shuts_down() {
    let (alpha, beta) = pair().await;
    let waits = ["beta/nobody", "nobody", "gamma/nobody"].map(|path| {
        let node = alpha.clone();
        tokio::spawn(async move { node.spawn_anonymous(Late(path)).await.err() })
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let began = Instant::now();
    assert_eq!(alpha.shutdown(PATIENCE).await, vec![], "none had to be killed");
    for wait in waits {
        let why = wait.await.unwrap().unwrap().to_string();
        assert!(why.contains("is shutting down"), "{why}");
    }
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    beta.shutdown(PATIENCE).await;
}
