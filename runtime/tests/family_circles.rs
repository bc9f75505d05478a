//! Circles of waits between actors and the children that they end, have rest, or start again.

use std::sync::Arc;
use std::time::Duration;

use ringpost::Strategy;
use ringpost::prelude::*;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, timeout};

use crate::actors::node;
use crate::supervising::quick;

/// What the actors of a test share.
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

/// One of a family, which has a younger one if it is the elder.
struct Kin {
    world: World,
    name: &'static str,
    asks_as_it_starts: Option<&'static str>,
}

impl Kin {
    fn child(world: &World, name: &'static str) -> Child<Kin> {
        let world = world.clone();
        let make = move || Kin { world: world.clone(), name, asks_as_it_starts: None };
        Child::new(make).named(name).restart(quick())
    }

    async fn ask(&self, whom: &str, cx: &Context<Self>) {
        let text = if whom == "supervisor" {
            let supervisor = cx.node().actor::<Supervisor>(whom).await.unwrap();
            let child = Kin::child(&self.world, "late");
            supervisor.start_child(child).await.map(|_| ()).map_err(|error| error.to_string())
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
    for asks_first in [true, false] {
        let (node, (world, mut heard)) = (node().await, World::new());
        let supervisor = Supervisor::new(Strategy::OneForOne).child(Kin::child(&world, "elder"));
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
            Kin { world: world.clone(), name: "a", asks_as_it_starts }
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
