//! The tree of supervision in a snapshot, and the gauges of what actors have registered.

use std::sync::Arc;
use std::time::Duration;

use futures::stream;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use ringpost::observe::{ActorState, ActorView, Snapshot};
use ringpost::prelude::*;
use ringpost::spawn::{Child, Restart, Strategy, Supervisor};
use tokio::sync::Semaphore;

use crate::actors::node;

const HOUR: Duration = Duration::from_secs(3600);

/// An actor of the tree. Each `serve` takes one permit of its gate, and so does its start.
struct Desk {
    gate: Arc<Semaphore>,
}

#[actor(name = "bank::Desk")]
impl Actor for Desk {
    async fn on_start(&mut self, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.gate.acquire().await?.forget();
        Ok(())
    }
}

#[message(name = "bank::Serve")]
struct Serve;

#[message(name = "bank::Later")]
#[derive(Clone, PartialEq, Debug)]
struct Later;

#[handlers]
impl Desk {
    #[handler]
    async fn serve(&mut self, msg: Serve) {
        let Serve = msg;
        self.gate.acquire().await.unwrap().forget();
    }

    #[handler]
    fn later(&mut self, msg: Later, cx: &mut Context<Self>) {
        cx.stash(msg).unwrap();
    }

    #[handler]
    fn unstash(&mut self, cx: &mut Context<Self>) -> u64 {
        cx.unstash() as u64
    }

    #[handler]
    fn register(&mut self, cx: &mut Context<Self>) {
        cx.tell_after("first", HOUR, Later);
        cx.tell_after("second", HOUR, Later);
        cx.spawn_task(std::future::pending());
        cx.attach(stream::pending::<Later>());
    }

    #[handler]
    fn cancel(&mut self, cx: &mut Context<Self>) -> bool {
        cx.cancel("first")
    }

    #[handler]
    fn fail(&mut self) {
        panic!("as it was told");
    }
}

/// A desk with room for one start.
fn desk() -> (Child<Desk>, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(1));
    let child = Child::new({
        let gate = gate.clone();
        move || Desk { gate: gate.clone() }
    });
    (child, gate)
}

/// Looks until `found` finds something in a snapshot.
async fn look<T>(node: &Node, found: impl Fn(&Snapshot) -> Option<T>) -> T {
    loop {
        match found(&node.snapshot()) {
            Some(found) => return found,
            None => tokio::task::yield_now().await,
        }
    }
}

/// Looks until an actor is so.
async fn until(node: &Node, name: &str, is_so: impl Fn(&ActorView) -> bool) -> ActorView {
    let of_name = |actor: &&ActorView| actor.address.name() == Some(name) && is_so(actor);
    look(node, |snapshot| snapshot.actors.iter().find(of_name).cloned()).await
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_snapshot_is_the_tree_of_supervision_with_what_each_actor_does_and_has() {
    let node = node().await;
    let ((till, till_gate), (safe, _), (lone, _)) = (desk(), desk(), desk());
    let branch = Supervisor::new(Strategy::OneForAll).child(till.named("till"));
    let bank = Supervisor::new(Strategy::OneForOne)
        .child(Child::new(move || branch.clone()).named("branch"))
        .child(safe.named("safe"))
        .child(desk().0);
    node.spawn("bank", bank).await.unwrap();
    node.supervise(lone.named("alone")).await.unwrap();

    let till: ActorRef<Desk> = node.actor("till").await.unwrap();
    till_gate.add_permits(1);
    till.tell(Fail).await.unwrap();
    until(&node, "till", |till| till.restarts == 1 && till.state == ActorState::Running).await;
    till.tell(Serve).await.unwrap();
    until(&node, "till", |till| till.in_hand.is_some() && till.mailbox.local == 0).await;
    till.tell(Later).await.unwrap();
    let safe: ActorRef<Desk> = node.actor("safe").await.unwrap();
    safe.register().await.unwrap();
    safe.tell(Later).await.unwrap();
    until(&node, "safe", |safe| safe.stashed == 1).await;

    let serving = until(&node, "till", |till| till.in_hand.is_some()).await.in_hand.unwrap();
    assert_eq!((serving.name, serving.waits_for), ("bank::Serve", None));
    let later = until(&node, "till", |till| {
        till.in_hand.as_ref().is_some_and(|handler| handler.age > serving.age)
    });
    later.await;

    let snapshot = node.snapshot();
    let (tree, mut drawing) = (snapshot.tree(), snapshot.tree().to_string());
    let (from, to) = (drawing.find(" for ").unwrap(), drawing.find(" s\n").unwrap());
    drawing.replace_range(from..to, " for T");
    let unnamed = tree.branches().iter().find(|branch| branch.actor.address.name().is_none());
    let unnamed = unnamed.unwrap().actor;
    let number = unnamed.address.to_string().replace("alpha/", "");
    let expected = format!(
        "alpha/alone (bank::Desk): running\n\
         alpha/bank (ringpost::Supervisor): running\n\
         \x20 alpha/branch (ringpost::Supervisor): running, 1 stream\n\
         \x20   alpha/till (bank::Desk): running, 1 message waiting, 1 restart, \
         bank::Serve in hand for T s\n\
         \x20 alpha/safe (bank::Desk): running, 2 timers, 1 task, 1 stream, 1 message put aside\n\
         \x20 alpha/bank::Desk{number}: running\n",
    );
    assert_eq!(drawing, expected);
    let names = |actor: &ActorView| actor.address.name().unwrap_or("none").to_owned();
    assert_eq!(tree.roots().map(names).collect::<Vec<_>>(), ["alone", "bank"]);
    let bank = tree.roots().find(|root| root.address.name() == Some("bank")).unwrap();
    let children: Vec<_> = tree.children(&bank.address).map(names).collect();
    assert_eq!(children, ["branch", "safe", "none"]);
    assert!(bank.parent.is_none() && unnamed.parent.as_ref() == Some(&bank.address));
    node.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_snapshot_says_which_actors_start_rest_drain_and_stop() {
    let node = node().await;
    let (child, gate) = desk();
    let restart = Restart::on_failure().backoff(HOUR, HOUR);
    gate.forget_permits(1);
    let starts = tokio::spawn({
        let node = node.clone();
        async move { node.supervise(child.named("desk").restart(restart)).await.unwrap() }
    });
    let starting = until(&node, "desk", |desk| desk.in_hand.is_some()).await;
    assert_eq!(starting.state, ActorState::Starting);
    assert_eq!(starting.in_hand.map(|hook| hook.name), Some("on_start"));
    gate.add_permits(1);
    let desk = starts.await.unwrap();
    until(&node, "desk", |desk| desk.state == ActorState::Running && desk.in_hand.is_none()).await;
    desk.tell(Fail).await.unwrap();
    until(&node, "desk", |desk| desk.state == ActorState::Resting).await;

    let (child, other_gate) = desk_named("other");
    let other = node.supervise(child).await.unwrap();
    other.tell(Serve).await.unwrap();
    until(&node, "other", |other| other.in_hand.is_some()).await;
    let drains = tokio::spawn({
        let other = other.clone();
        async move { other.drain().await }
    });
    until(&node, "other", |other| other.state == ActorState::Draining).await;
    other.request_stop().unwrap();
    until(&node, "other", |other| other.state == ActorState::Stopping).await;
    other_gate.add_permits(1);
    drains.await.unwrap().unwrap();
    other.wait_stopped().await;
    node.shutdown(Duration::ZERO).await;
}

fn desk_named(name: &str) -> (Child<Desk>, Arc<Semaphore>) {
    let (child, gate) = desk();
    (child.named(name), gate)
}

/// The gauges are of all actors together, and 0 when these have ended.
#[tokio::test]
async fn gauges_sum_up_timers_tasks_streams_and_messages_put_aside() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let node = node().await;
    let mut sums = [0.0; 4];
    let (one, two) = (desk_named("one").0, desk_named("two").0);
    let (one, two) = (node.supervise(one).await.unwrap(), node.supervise(two).await.unwrap());
    for desk in [&one, &two] {
        desk.register().await.unwrap();
        desk.tell(Later).await.unwrap();
    }
    until(&node, "two", |two| two.stashed == 1).await;
    assert!(one.cancel().await.unwrap());
    gauges(&snapshotter, &mut sums);
    assert_eq!(sums, [3.0, 2.0, 2.0, 2.0]);
    assert_eq!(one.unstash().await, Ok(1), "it is put aside again");
    until(&node, "one", |one| one.stashed == 1).await;
    // The next incarnation has none, but the message that was put aside.
    two.tell(Fail).await.unwrap();
    one.stop().await.unwrap();
    one.wait_stopped().await;
    until(&node, "two", |two| two.timers == 0 && two.tasks == 0).await;
    two.kill().await.unwrap();
    node.shutdown(Duration::ZERO).await;
    gauges(&snapshotter, &mut sums);
    assert_eq!(sums, [0.0; 4]);
}

/// Adds the changes since the last look.
fn gauges(snapshotter: &Snapshotter, sums: &mut [f64; 4]) {
    let document = include_str!("../../../docs/OPERATING.md");
    let names = ["timers", "tasks", "streams", "stashed"];
    for (key, (_, _, value)) in snapshotter.snapshot().into_hashmap() {
        let name = key.key().name();
        let of_actors = name.strip_prefix("ringpost_actor_");
        let Some(at) = names.iter().position(|known| of_actors == Some(known)) else { continue };
        assert!(document.contains(&format!("| `{name}` | |")), "{name} is not documented");
        let DebugValue::Gauge(value) = value else { panic!("{name} is no gauge") };
        sums[at] += value.0;
    }
}
