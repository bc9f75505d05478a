//! Circles of waits between actors and the children that they end, have rest, or start again.

use std::sync::Arc;
use std::time::Duration;

use ringpost::Strategy;
use ringpost::prelude::*;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, timeout};

use crate::actors::node;
use crate::log::Log;
use crate::supervising::quick;

/// The gates that the actors of a test share, and where they say what they were told.
#[derive(Clone)]
struct World {
    /// Opened for one that is to panic.
    panics: Arc<Semaphore>,
    /// Opened for one that is to ask.
    asks: Arc<Semaphore>,
    told: mpsc::UnboundedSender<String>,
}

impl World {
    fn new() -> (Self, mpsc::UnboundedReceiver<String>) {
        let gate = || Arc::new(Semaphore::new(0));
        let (told, heard) = mpsc::unbounded_channel();
        (World { panics: gate(), asks: gate(), told }, heard)
    }
}

/// One of a family, which has younger ones if it is the elder.
struct Kin {
    world: World,
    name: &'static str,
    asks_as_it_starts: Option<&'static str>,
    younger: usize,
}

impl Kin {
    fn child(world: &World, name: &'static str) -> Child<Kin> {
        let world = world.clone();
        let make = move || Kin { world: world.clone(), name, asks_as_it_starts: None, younger: 1 };
        Child::new(make).named(name).restart(quick())
    }

    /// An elder with so many younger ones, the first of which has the name.
    fn elder(world: &World, younger: usize) -> Child<Kin> {
        let world = world.clone();
        let make =
            move || Kin { world: world.clone(), name: "elder", asks_as_it_starts: None, younger };
        Child::new(make).named("elder").restart(quick())
    }

    async fn ask(&self, whom: &str, cx: &Context<Self>) {
        let text = if whom == "supervisor" {
            let supervisor = cx.node().actor::<Supervisor>(whom).await.unwrap();
            let child = Kin::child(&self.world, "late");
            supervisor.start_child(child).await.map(|_| ()).map_err(|error| error.to_string())
        } else if whom == "host" {
            let host = cx.node().actor::<Host>(whom).await.unwrap();
            host.visit().await.map_err(|error| error.to_string())
        } else {
            let other = cx.node().actor::<Kin>(whom).await.unwrap();
            other.greet().await.map_err(|error| error.to_string())
        };
        drop(self.world.told.send(text.err().unwrap_or_default()));
    }
}

#[actor]
impl Actor for Kin {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        if self.name == "elder" {
            cx.spawn(Kin::child(&self.world, "younger")).await?;
            for _ in 1..self.younger {
                let world = self.world.clone();
                let make = move || Kin {
                    world: world.clone(),
                    name: "",
                    asks_as_it_starts: None,
                    younger: 0,
                };
                cx.spawn(Child::new(make)).await?;
            }
        }
        if let Some(whom) = self.asks_as_it_starts {
            self.ask(whom, cx).await;
        }
        Ok(())
    }
}

#[handlers]
impl Kin {
    #[handler]
    fn greet(&mut self) {}

    #[handler]
    async fn explode(&mut self) {
        self.world.panics.acquire().await.unwrap().forget();
        panic!("as it was told");
    }

    #[handler]
    async fn ask_other(&mut self, whom: String, cx: &mut Context<Self>) {
        self.world.asks.acquire().await.unwrap().forget();
        self.ask(&whom, cx).await;
    }
}

async fn quiet() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// Has `asks` ask `whom`, and `fails` panic before or after. Returns what `asks` was told, in how
/// much time.
async fn asked(
    (node, world): (&Node, &World),
    heard: &mut mpsc::UnboundedReceiver<String>,
    [asks, whom, fails]: [&str; 3],
    asks_first: bool,
) -> (String, Duration) {
    let asks = node.actor::<Kin>(asks).await.unwrap();
    let fails = node.actor::<Kin>(fails).await.unwrap();
    let start = Instant::now();
    fails.tell(Explode).await.unwrap();
    asks.tell(AskOther { whom: whom.into() }).await.unwrap();
    quiet().await;
    let (first, second) = match asks_first {
        true => (&world.asks, &world.panics),
        false => (&world.panics, &world.asks),
    };
    first.add_permits(1);
    // A rest before a restart is shorter.
    let _ = timeout(Duration::from_millis(200), std::future::pending::<()>()).await;
    second.add_permits(1);
    (heard.recv().await.unwrap(), start.elapsed())
}

/// Which of the circle is named first depends on which wait closed it.
fn assert_told((text, took): (String, Duration), circle: &[&str]) {
    assert!(text.contains("not sent: actors would wait for each other"), "{text}");
    for name in circle {
        assert!(
            text.contains(&format!("alpha/{name} waits for alpha/"))
                || text.contains(&format!("alpha/{name}, which waits for alpha/")),
            "{text}"
        );
    }
    // Much less than a child has to stop, or to rest.
    assert!(took < Duration::from_secs(1), "{took:?}");
}

/// WC-1: a parent that is restarted ends its children first, and keeps what they ask.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_child_that_asks_its_parent_as_that_is_restarted_is_told_at_once() {
    for (asks_first, younger) in [(true, 1), (false, 1), (true, 70), (false, 70)] {
        let (node, (world, mut heard)) = (node().await, World::new());
        let supervisor = Supervisor::new(Strategy::OneForOne).child(Kin::elder(&world, younger));
        node.spawn("supervisor", supervisor).await.unwrap();
        let who = ["younger", "elder", "elder"];
        let told = asked((&node, &world), &mut heard, who, asks_first).await;
        assert_told(told, &["younger", "elder"]);
    }
}

/// WC-1: a child that is to rest with others asks their supervisor, or one that rests already.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_child_that_is_to_rest_and_asks_who_waits_for_that_is_told_at_once() {
    for (whom, asks_first) in [("a", true), ("a", false), ("supervisor", false)] {
        let (node, (world, mut heard)) = (node().await, World::new());
        let supervisor = Supervisor::new(Strategy::OneForAll)
            .child(Kin::child(&world, "a"))
            .child(Kin::child(&world, "b"));
        node.spawn("supervisor", supervisor).await.unwrap();
        let told = asked((&node, &world), &mut heard, ["b", whom, "a"], asks_first).await;
        assert_told(told, &["b", "supervisor", whom]);
        let a = node.actor::<Kin>("a").await.unwrap();
        a.greet().await.unwrap();
    }
}

/// WC-1: a child that starts again asks a younger one, which is started after it.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_child_that_asks_one_that_rests_as_it_starts_again_is_told_at_once() {
    let (node, (world, mut heard)) = (node().await, World::new());
    let first = {
        let (world, incarnations) = (world.clone(), std::sync::atomic::AtomicUsize::new(0));
        move || {
            let count = incarnations.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let asks_as_it_starts = (count > 0).then_some("b");
            Kin { world: world.clone(), name: "a", asks_as_it_starts, younger: 0 }
        }
    };
    let supervisor = Supervisor::new(Strategy::OneForAll)
        .child(Child::new(first).named("a").restart(quick()))
        .child(Kin::child(&world, "b"));
    node.spawn("supervisor", supervisor).await.unwrap();
    let (a, start) = (node.actor::<Kin>("a").await.unwrap(), Instant::now());
    world.panics.add_permits(1);
    a.explode().await.unwrap_err();
    let told = heard.recv().await.unwrap();
    assert_told((told, start.elapsed()), &["a", "b", "supervisor"]);
    a.greet().await.unwrap();
    node.actor::<Kin>("b").await.unwrap().greet().await.unwrap();
}

/// WC-1: also a child that waits for room in the mailbox of its parent.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_child_that_waits_for_room_at_its_parent_as_that_is_restarted_is_told_at_once() {
    let (node, (world, mut heard)) = (node().await, World::new());
    let elder = Kin::elder(&world, 1).mailbox_capacity(1);
    node.spawn("supervisor", Supervisor::new(Strategy::OneForOne).child(elder)).await.unwrap();
    let elder = node.actor::<Kin>("elder").await.unwrap();
    elder.tell(Explode).await.unwrap();
    quiet().await;
    elder.try_tell(Greet).unwrap();
    let younger = node.actor::<Kin>("younger").await.unwrap();
    world.asks.add_permits(1);
    younger.tell(AskOther { whom: "elder".into() }).await.unwrap();
    quiet().await;
    let start = Instant::now();
    world.panics.add_permits(1);
    let told = heard.recv().await.unwrap();
    assert_told((told, start.elapsed()), &["younger", "elder"]);
}

/// WC-2: a parent that takes nothing any more is not waited for.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_child_that_asks_its_parent_which_has_stopped_is_told_so() {
    for shuts_down in [false, true] {
        let (node, (world, mut heard)) = (node().await, World::new());
        let kin = Kin { world: world.clone(), name: "elder", asks_as_it_starts: None, younger: 1 };
        let elder = node.spawn("elder", kin).await.unwrap();
        let younger = node.actor::<Kin>("younger").await.unwrap();
        younger.tell(AskOther { whom: "elder".into() }).await.unwrap();
        quiet().await;
        let leaving = node.clone();
        let shutdown = tokio::spawn(async move {
            match shuts_down {
                true => drop(leaving.shutdown(Duration::from_secs(4)).await),
                false => elder.stop().await.unwrap(),
            }
        });
        quiet().await;
        world.asks.add_permits(1);
        let text = heard.recv().await.unwrap();
        assert!(!text.contains("wait for each other"), "{text}");
        assert!(text.contains("not sent: the actor") || text.contains("shut"), "{text}");
        shutdown.await.unwrap();
    }
}

/// WC-2: the spawner no longer waits for a start, though it has kept the future of the first one.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn an_actor_that_starts_again_may_ask_the_spawner_of_its_first_start() {
    let (node, (world, mut heard)) = (node().await, World::new());
    let host = Host { node: node.clone(), world: world.clone() };
    let host = node.spawn("host", host).await.unwrap();
    host.tell(Begin).await.unwrap();
    quiet().await;
    let guest = node.actor::<Kin>("guest").await.unwrap();
    world.panics.add_permits(1);
    guest.tell(Explode).await.unwrap();
    quiet().await;
    world.asks.add_permits(1);
    assert_eq!(heard.recv().await.unwrap(), "", "it was answered");
}

/// Spawns a guest, and keeps what tells that it has started.
#[actor]
struct Host {
    node: Node,
    world: World,
}

#[handlers]
impl Host {
    #[handler]
    async fn begin(&mut self) {
        let (world, incarnations) = (self.world.clone(), std::sync::atomic::AtomicUsize::new(0));
        let make = move || {
            let count = incarnations.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let asks_as_it_starts = (count > 0).then_some("host");
            Kin { world: world.clone(), name: "guest", asks_as_it_starts, younger: 0 }
        };
        let child = Child::new(make).named("guest").restart(quick());
        let mut spawned = Box::pin(self.node.supervise(child));
        assert!(futures::poll!(&mut spawned).is_pending());
        self.world.asks.acquire().await.unwrap().forget();
        spawned.await.unwrap();
    }

    #[handler]
    fn visit(&mut self) {}
}

/// WC-1: an actor that failed with its child, and ends its other children, is ended by its parent.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_child_of_one_that_failed_and_that_is_to_end_is_told_at_once() {
    let (node, (world, mut heard)) = (node().await, World::new());
    let fails_at_once = Restart::on_failure().at_most(0, Duration::from_secs(60));
    let inner = {
        let world = world.clone();
        move || {
            Supervisor::new(Strategy::OneForOne)
                .child(Kin::child(&world, "e").restart(fails_at_once))
                .child(Kin::child(&world, "c"))
                .child(Kin::child(&world, "d").restart(fails_at_once))
        }
    };
    let outer = Supervisor::new(Strategy::OneForAll)
        .child(Kin::child(&world, "a"))
        .child(Child::new(inner).named("inner").restart(quick()));
    node.spawn("outer", outer).await.unwrap();
    let kin = async |name: &str| node.actor::<Kin>(name).await.unwrap();
    let (a, c, d, e) = (kin("a").await, kin("c").await, kin("d").await, kin("e").await);
    c.tell(AskOther { whom: "a".into() }).await.unwrap();
    d.tell(Explode).await.unwrap();
    quiet().await;
    let start = Instant::now();
    world.panics.add_permits(1);
    quiet().await;
    // Its parent has failed, and ends its children, of which this one is not the youngest.
    e.tell(Explode).await.unwrap();
    world.panics.add_permits(1);
    quiet().await;
    a.tell(Explode).await.unwrap();
    world.panics.add_permits(1);
    quiet().await;
    world.asks.add_permits(1);
    let told = heard.recv().await.unwrap();
    assert_told((told, start.elapsed()), &["c", "a", "outer"]);
}

/// WC-2: a child that rests is in no circle with the supervisor that ends it.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_supervisor_whose_children_rest_is_no_circle() {
    let log = Log::default();
    let _listening = log.listen();
    for stops in [true, false] {
        let (node, (world, _heard)) = (node().await, World::new());
        let slowly = Restart::on_failure()
            .at_most(1, Duration::from_secs(3600))
            .backoff(Duration::from_secs(60), Duration::from_secs(60));
        let supervisor = Supervisor::new(Strategy::OneForAll)
            .child(Kin::child(&world, "a").restart(slowly))
            .child(Kin::child(&world, "b").restart(slowly));
        let supervisor = node.spawn("supervisor", supervisor).await.unwrap();
        world.panics.add_permits(2);
        let a = node.actor::<Kin>("a").await.unwrap();
        a.tell(Explode).await.unwrap();
        quiet().await;
        if stops {
            supervisor.stop().await.unwrap();
        } else {
            a.tell(Explode).await.unwrap();
        }
        supervisor.wait_stopped().await;
    }
    assert_eq!(log.count_all(&["an actor waits for the end"]), 0);
}

/// WC-1: the circle leads through one of many children, and an actor of another family.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_circle_through_one_of_many_children_that_are_ended_is_seen() {
    let (node, (world, mut heard)) = (node().await, World::new());
    let elder = Kin::elder(&world, 70);
    node.spawn("supervisor", Supervisor::new(Strategy::OneForOne).child(elder)).await.unwrap();
    node.supervise(Kin::child(&world, "outsider")).await.unwrap();
    let kin = async |name: &str| node.actor::<Kin>(name).await.unwrap();
    let (younger, outsider) = (kin("younger").await, kin("outsider").await);
    younger.tell(AskOther { whom: "outsider".into() }).await.unwrap();
    quiet().await;
    outsider.tell(AskOther { whom: "elder".into() }).await.unwrap();
    quiet().await;
    // The younger one asks.
    world.asks.add_permits(1);
    quiet().await;
    kin("elder").await.tell(Explode).await.unwrap();
    world.panics.add_permits(1);
    quiet().await;
    let start = Instant::now();
    world.asks.add_permits(1);
    let told = heard.recv().await.unwrap();
    assert_told((told, start.elapsed()), &["outsider", "elder", "younger"]);
}

/// WC-1: a child that is restarted also after a stop rests on when it is stopped.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_child_that_asks_one_that_was_stopped_and_rests_is_told_at_once() {
    let (node, (world, mut heard)) = (node().await, World::new());
    let always = Restart::always().backoff(Duration::ZERO, Duration::ZERO);
    let supervisor = Supervisor::new(Strategy::OneForAll)
        .child(Kin::child(&world, "b"))
        .child(Kin::child(&world, "a").restart(always))
        .child(Kin::child(&world, "c"));
    node.spawn("supervisor", supervisor).await.unwrap();
    let kin = async |name: &str| node.actor::<Kin>(name).await.unwrap();
    let (a, b, c) = (kin("a").await, kin("b").await, kin("c").await);
    // Each waits in a handler; what b asks then waits in the mailbox of a.
    b.tell(AskOther { whom: "a".into() }).await.unwrap();
    quiet().await;
    a.tell(AskOther { whom: "b".into() }).await.unwrap();
    quiet().await;
    world.asks.add_permits(1);
    quiet().await;
    c.tell(Explode).await.unwrap();
    world.panics.add_permits(1);
    quiet().await;
    a.request_stop().unwrap();
    let start = Instant::now();
    // The handler of a asks b, which waits for a: one of them is told, and so a comes to rest.
    world.asks.add_permits(1);
    let first = heard.recv().await.unwrap();
    let second = heard.recv().await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}: {first}, {second}", start.elapsed());
}
