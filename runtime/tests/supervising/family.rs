//! Parents and their children, which end before them.

use std::time::Duration;

use futures::FutureExt;
use ringpost::prelude::*;
use ringpost::spawn::{Child, Restart};
use ringpost::{Cause, NotBegun};

use super::{Diary, Hang, MINUTE, Worker, quick};
use crate::actors::node;
use crate::cause;

/// Has children of its own.
struct Parent {
    diary: Diary,
    children: Vec<ActorRef<Worker>>,
}

#[actor]
impl Actor for Parent {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        for name in ["a", "b", "c"] {
            let restart = Restart::on_failure().at_most(1, MINUTE);
            let restart = restart.backoff(Duration::ZERO, Duration::ZERO);
            let child = Worker::child(name, &self.diary).restart(restart);
            self.children.push(cx.spawn(child.stop_within(Duration::from_secs(1))).await?);
        }
        Ok(())
    }

    async fn on_stop(&mut self, _cx: &mut Context<Self>) {
        self.diary.note("parent", "stopped");
    }
}

#[handlers]
impl Parent {
    #[handler]
    fn children(&self) -> Vec<ActorRef<Worker>> {
        self.children.clone()
    }

    #[handler]
    fn burst(&mut self) {
        panic!("burst")
    }

    /// Answers another day.
    #[handler]
    fn put_aside(&mut self, msg: PutAside, reply: ReplyTo<u64>, cx: &mut Context<Self>) {
        cx.stash_ask(msg, reply).unwrap();
    }
}

#[message]
struct PutAside;

/// A child that is late holds up none of the others, and each has its whole time.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn children_end_with_their_parent_and_all_at_once() {
    for late in 0..=3 {
        let (node, diary) = (node().await, Diary::default());
        let family = Parent { diary: diary.clone(), children: Vec::new() };
        let parent = node.spawn("parent", family).await.unwrap();
        let children = parent.children().await.unwrap();
        for child in &children[..late] {
            child.tell(Hang).await.unwrap();
        }
        tokio::task::yield_now().await;
        diary.take();
        let start = tokio::time::Instant::now();
        parent.stop().await.unwrap();
        for child in &children[late..] {
            assert_eq!(child.wait_stopped().await, ActorExit::Stopped);
            assert_eq!(start.elapsed(), Duration::ZERO);
        }
        assert_eq!(parent.wait_stopped().await, ActorExit::Stopped);
        assert_eq!(start.elapsed(), Duration::from_secs(u64::from(late > 0)));
        for child in &children[..late] {
            assert_eq!(child.wait_stopped().now_or_never(), Some(ActorExit::Killed));
        }
        assert_eq!(diary.take().last().unwrap(), "parent stopped", "its children ended before");
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_child_that_does_not_stop_in_time_is_killed_and_so_are_those_of_a_killed_parent() {
    let (node, diary) = (node().await, Diary::default());
    let family = || Parent { diary: diary.clone(), children: Vec::new() };
    let parent = node.spawn("parent", family()).await.unwrap();
    let children = parent.children().await.unwrap();
    children[1].tell(Hang).await.unwrap();
    tokio::task::yield_now().await;
    let start = tokio::time::Instant::now();
    parent.stop().await.unwrap();
    assert_eq!(parent.wait_stopped().await, ActorExit::Stopped);
    assert_eq!(start.elapsed(), Duration::from_secs(1));
    assert_eq!(children[1].wait_stopped().await, ActorExit::Killed);
    assert_eq!(children[0].wait_stopped().await, ActorExit::Stopped);
    let parent = node.spawn("parent", family()).await.unwrap();
    let children = parent.children().await.unwrap();
    children[0].tell(Hang).await.unwrap();
    tokio::task::yield_now().await;
    parent.kill().await.unwrap();
    assert_eq!(parent.wait_stopped().await, ActorExit::Killed);
    assert_eq!(children[0].wait_stopped().await, ActorExit::Killed);
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_child_that_fails_too_often_has_its_parent_fail() {
    let (node, diary) = (node().await, Diary::default());
    let restart = Restart::on_failure().at_most(1, MINUTE).backoff(Duration::ZERO, Duration::ZERO);
    let again = diary.clone();
    let make = move || Parent { diary: again.clone(), children: Vec::new() };
    let parent = node.supervise(Child::new(make).restart(restart)).await.unwrap();
    for round in 0..2 {
        let children = parent.children().await.unwrap();
        for _ in 0..2 {
            children[2].explode("boom".into()).await.unwrap_err();
        }
        let why = "alpha/c was restarted 1 times within 60s and ended again: it panicked: boom";
        assert_eq!(children[2].wait_stopped().await, ActorExit::Failed(why.into()));
        // They are gone before there are new ones of their names.
        assert_eq!(children[0].wait_stopped().await, ActorExit::Stopped);
        if round == 1 {
            let ActorExit::Failed(chain) = parent.wait_stopped().await else { panic!() };
            assert!(chain.contains("ended again: it failed: alpha/c was restarted"), "{chain}");
        }
    }
    assert!(node.actor::<Worker>("a").await.is_err());
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_parent_that_panics_takes_its_children_along_before_it_begins_anew() {
    let (node, diary) = (node().await, Diary::default());
    let again = diary.clone();
    let make = move || Parent { diary: again.clone(), children: Vec::new() };
    let parent = node.supervise(Child::new(make).restart(quick())).await.unwrap();
    let first = parent.children().await.unwrap();
    diary.take();
    parent.burst().await.unwrap_err();
    let second = parent.children().await.unwrap();
    assert_ne!(first, second);
    let ends = ["c stopped", "c dropped", "b stopped", "b dropped", "a stopped", "a dropped"];
    let starts = ["a started", "b started", "c started"];
    assert_eq!(diary.take(), [&ends[..], &starts].concat());
}

/// Nothing waits for the children of an actor that has failed and is not restarted.
#[tokio::test(start_paused = true)]
async fn who_asks_an_actor_that_failed_for_good_is_told_before_its_children_have_ended() {
    let node = node().await;
    let family = || Parent { diary: Diary::default(), children: Vec::new() };
    let never = || Restart::on_failure().at_most(0, MINUTE);
    for is_supervised in [false, true] {
        let parent = if is_supervised {
            node.supervise(Child::new(family).restart(never())).await.unwrap()
        } else {
            node.spawn("plain", family()).await.unwrap()
        };
        for child in parent.children().await.unwrap() {
            child.tell(Hang).await.unwrap();
        }
        let start = tokio::time::Instant::now();
        let mut aside = std::pin::pin!(parent.ask(PutAside));
        assert!((&mut aside).now_or_never().is_none());
        parent.tell(Burst).await.unwrap();
        let (aside, waited) = tokio::join!(aside, parent.children());
        assert_eq!(cause(aside), Err(AskCause::NoReply));
        assert_eq!(cause(waited), Err(AskCause::NotBegun(NotBegun::Stopped)));
        let later = parent.children().await;
        assert_eq!(cause(later), Err(AskCause::NotSent(Cause::Stopped)));
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert!(parent.wait_stopped().await.is_failure());
        assert_eq!(start.elapsed(), Duration::from_secs(1), "the children had their time");
    }
}

/// The youngest child hangs while its parent stops, and then the parent is killed.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn no_child_outlives_a_parent_that_is_killed_while_it_stops_them() {
    let (node, diary) = (node().await, Diary::default());
    let family = Parent { diary: diary.clone(), children: Vec::new() };
    let parent = node.spawn("parent", family).await.unwrap();
    let children = parent.children().await.unwrap();
    children[2].tell(Hang).await.unwrap();
    tokio::task::yield_now().await;
    parent.stop().await.unwrap();
    for _ in 0..5 {
        tokio::task::yield_now().await;
    }
    parent.kill().await.unwrap();
    assert_eq!(parent.wait_stopped().await, ActorExit::Killed);
    let ends = [ActorExit::Killed, ActorExit::Stopped];
    for child in &children {
        let ended = child.wait_stopped().now_or_never();
        assert!(ended.is_some_and(|exit| ends.contains(&exit)), "before its parent's end is told");
    }
    assert_eq!(node.snapshot().actors.len(), 0);
}
