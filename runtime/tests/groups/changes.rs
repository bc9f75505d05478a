//! Children that are started and ended while their supervisor runs.

use std::time::Duration;

use ringpost::NotBegun;
use ringpost::prelude::*;
use ringpost::spawn::{Child, Restart, SpawnError, Strategy, Supervisor};

use super::{others_run, unable};
use crate::actors::node;
use crate::supervising::{Diary, Worker, quick};

/// They are children like the others.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn children_are_started_and_ended_while_their_supervisor_runs() {
    for strategy in [Strategy::OneForOne, Strategy::RestForOne, Strategy::OneForAll] {
        let (node, diary) = (node().await, Diary::default());
        let supervisor =
            Supervisor::new(strategy).child(Worker::child("a", &diary).restart(quick()));
        let supervisor = node.spawn("supervisor", supervisor).await.unwrap();
        let child = |name| Worker::child(name, &diary).restart(quick());
        let b = supervisor.start_child(child("b")).await.unwrap();
        let always = Restart::always().backoff(Duration::ZERO, Duration::ZERO);
        let c = supervisor.start_child(child("c").restart(always)).await.unwrap();
        assert_eq!(c.work().await, Ok(1));
        assert_eq!(diary.take(), ["a started", "b started", "c started"]);
        b.explode("boom".into()).await.unwrap_err();
        assert_eq!(b.work().await, Ok(1));
        let kept = if strategy == Strategy::OneForOne { 2 } else { 1 };
        assert_eq!(c.work().await, Ok(kept), "{strategy:?}");
        let a = node.actor::<Worker>("a").await.unwrap();
        assert_eq!(a.work().await, Ok(1));
        diary.take();
        assert_eq!(supervisor.end_child(&c).await, Ok(true));
        assert_eq!(c.wait_stopped().await, ActorExit::Stopped, "whatever its `Restart` says");
        assert_eq!(diary.take(), ["c stopped", "c dropped"]);
        assert_eq!(supervisor.end_child(&c).await, Ok(false));
        b.explode("boom".into()).await.unwrap_err();
        assert_eq!((b.work().await, a.work().await.is_ok()), (Ok(1), true));
        assert!(node.actor::<Worker>("c").await.is_err(), "it is not revived by the others");
        diary.take();
        supervisor.stop().await.unwrap();
        supervisor.wait_stopped().await;
        assert_eq!(diary.take(), ["b stopped", "b dropped", "a stopped", "a dropped"]);
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_child_that_cannot_be_started_is_none_of_its_supervisor() {
    let (node, diary) = (node().await, Diary::default());
    let again = diary.clone();
    let make = move || {
        Supervisor::new(Strategy::OneForAll).child(Worker::child("a", &again).restart(quick()))
    };
    let supervisor = node.supervise(Child::new(make).restart(quick())).await.unwrap();
    let taken = supervisor.start_child(Worker::child("a", &diary)).await;
    assert!(matches!(taken, Err(SpawnError::NameTaken(_))));
    let error = supervisor.start_child(unable("b", &diary)).await.unwrap_err();
    assert_eq!(error.to_string(), "the actor could not start: no luck");
    let panics = Child::new(|| -> Leaver { panic!("no recipe") });
    let error = supervisor.start_child(panics).await.unwrap_err();
    assert!(matches!(error, SpawnError::Panicked(reason) if &*reason == "no recipe"));
    let c = supervisor.start_child(Worker::child("c", &diary)).await.unwrap();
    diary.take();
    supervisor.kill().await.unwrap();
    assert_eq!(c.wait_stopped().await, ActorExit::Killed);
    let a = loop {
        // The supervisor is restarted, with its original child.
        match supervisor.start_child(Worker::child("d", &diary)).await {
            Ok(_) => break node.actor::<Worker>("a").await.unwrap(),
            Err(error) => assert!(matches!(error, SpawnError::NoSupervisor(_)), "{error}"),
        }
    };
    assert_eq!(diary.take(), ["c dropped", "a dropped", "a started", "d started"]);
    supervisor.end_child(&a).await.unwrap();
    supervisor.stop().await.unwrap();
    supervisor.wait_stopped().await;
    let late = supervisor.start_child(Worker::child("e", &diary)).await;
    assert!(matches!(late, Err(SpawnError::NoSupervisor(_))));
    assert!(supervisor.end_child(&a).await.is_err());
}

/// Asks its supervisor to end it.
#[actor]
struct Leaver;

#[message(local)]
struct Leave(ActorRef<Supervisor>);

#[handlers]
impl Leaver {
    #[handler]
    async fn leave(&mut self, msg: Leave, cx: &mut Context<Self>) -> Result<bool, String> {
        let ended = msg.0.end_child(cx.actor()).await;
        ended.map_err(|error| error.cause.to_string())
    }
}

/// Never starts.
struct Unready;

#[actor]
impl Actor for Unready {
    async fn on_start(&mut self, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        std::future::pending().await
    }
}

#[handlers]
impl Unready {}

/// Also a child whose own handler waits for its end.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_supervisor_that_is_stopped_while_a_child_starts_ends_its_children_in_order() {
    let node = node().await;
    let supervisor = Supervisor::new(Strategy::OneForOne);
    let supervisor = node.spawn("supervisor", supervisor).await.unwrap();
    let leaver = supervisor.start_child(Child::new(|| Leaver)).await.unwrap();
    let unready = Child::new(|| Unready).stop_within(Duration::from_secs(1));
    let start = tokio::time::Instant::now();
    let (starting, leave) = (supervisor.clone(), leaver.ask(Leave(supervisor.clone())).into_ask());
    let starting = tokio::spawn(async move { starting.start_child(unready).await });
    others_run().await;
    let leave = tokio::spawn(leave);
    others_run().await;
    supervisor.stop().await.unwrap();
    assert_eq!(supervisor.wait_stopped().await, ActorExit::Stopped);
    assert_eq!(start.elapsed(), Duration::from_secs(1), "the time of the one that never starts");
    assert!(matches!(starting.await.unwrap(), Err(SpawnError::Killed)));
    let never = AskCause::NotBegun(NotBegun::Stopped).to_string();
    assert_eq!(leave.await.unwrap(), Ok(Err(never)));
    assert_eq!(leaver.wait_stopped().await, ActorExit::Stopped);
}
