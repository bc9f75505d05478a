//! Children and restarts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use ringpost::prelude::*;
use ringpost::{Cause, NotBegun, Strategy};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::actors::node;
use crate::cause;
use crate::log::Log;

pub const MINUTE: Duration = Duration::from_secs(60);
pub const MS: Duration = Duration::from_millis(1);

/// What happened to the workers of one test, in order.
#[derive(Clone, Default)]
pub struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    pub fn note(&self, who: &str, what: &str) {
        self.0.lock().push(format!("{who} {what}"));
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// Counts what it is told, and fails in every way that it is told.
pub struct Worker {
    name: &'static str,
    diary: Diary,
    /// The starts that fail, as long as there are any.
    pub bad_starts: Arc<AtomicU64>,
    told: u64,
    idle: Arc<Notify>,
}

impl Worker {
    pub fn factory(name: &'static str, diary: &Diary) -> impl Fn() -> Worker + Send + Sync + use<> {
        let (diary, bad_starts) = (diary.clone(), Arc::default());
        move || Worker {
            name,
            diary: diary.clone(),
            bad_starts: Arc::clone(&bad_starts),
            told: 0,
            idle: Arc::default(),
        }
    }

    pub fn child(name: &'static str, diary: &Diary) -> Child<Worker> {
        Child::new(Worker::factory(name, diary)).named(name)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.diary.note(self.name, "dropped");
    }
}

#[actor]
impl Actor for Worker {
    async fn on_start(&mut self, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        let left = |bad: u64| bad.checked_sub(1);
        if self.bad_starts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left).is_ok() {
            self.diary.note(self.name, "could not start");
            return Err("no luck".into());
        }
        self.diary.note(self.name, "started");
        Ok(())
    }

    async fn on_stop(&mut self, _cx: &mut Context<Self>) {
        self.diary.note(self.name, "stopped");
    }
}

#[handlers]
impl Worker {
    #[handler]
    pub fn work(&mut self) -> u64 {
        self.told += 1;
        self.told
    }

    #[handler]
    pub fn explode(&mut self, why: String) -> u64 {
        panic!("{why}")
    }

    #[handler]
    pub fn have_bad_starts(&mut self, count: u64) {
        self.bad_starts.store(count, Ordering::SeqCst);
    }

    #[handler]
    pub async fn hang(&mut self) {
        self.idle.notified().await;
    }

    /// Returns what has its next `stumble` panic.
    #[handler]
    pub fn falter(&mut self) -> Local<Arc<Notify>> {
        Local(self.idle.clone())
    }

    #[handler]
    pub async fn stumble(&mut self) {
        self.idle.notified().await;
        panic!("stumbled");
    }
}

pub fn quick() -> Restart {
    Restart::on_failure().at_most(3, MINUTE).backoff(Duration::ZERO, Duration::ZERO)
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn an_actor_that_is_restarted_keeps_its_name_its_references_and_what_waits_for_it() {
    let (node, diary) = (node().await, Diary::default());
    let worker = node.supervise(Worker::child("w", &diary).restart(quick())).await.unwrap();
    assert_eq!(worker.work().await, Ok(1));
    let exploded = worker.ask(Explode { why: "boom".into() });
    let mut exploded = Box::pin(exploded);
    assert!(futures::poll!(&mut exploded).is_pending());
    let next = futures::future::join_all([worker.work(), worker.work()]);
    let (exploded, next) = tokio::join!(exploded, next);
    assert_eq!(cause(exploded), Err(AskCause::Panicked), "the message in hand is not tried again");
    assert_eq!(next, [Ok(1), Ok(2)], "what waited is handled by the next incarnation");
    assert_eq!(node.actor::<Worker>("w").await.unwrap(), worker);
    assert_eq!(diary.take(), ["w started", "w dropped", "w started"]);
    worker.stop().await.unwrap();
    assert_eq!(worker.wait_stopped().await, ActorExit::Stopped, "a stop is no failure");
    assert_eq!(diary.take(), ["w stopped", "w dropped"]);
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn an_actor_that_fails_too_often_ends_and_says_why() {
    let (node, diary) = (node().await, Diary::default());
    let worker = node.supervise(Worker::child("w", &diary).restart(quick())).await.unwrap();
    for _ in 0..3 {
        assert_eq!(cause(worker.explode("boom".into()).await), Err(AskCause::Panicked));
    }
    assert_eq!(worker.work().await, Ok(1));
    worker.kill().await.unwrap();
    let ended = worker.wait_stopped().await;
    let why = "alpha/w was restarted 3 times within 60s and ended again: it was killed";
    assert_eq!(ended, ActorExit::Failed(why.into()));
    assert!(node.actor::<Worker>("w").await.is_err(), "its name is free");
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn starts_that_fail_count_as_failures() {
    let (node, diary) = (node().await, Diary::default());
    let worker = node.supervise(Worker::child("w", &diary).restart(quick())).await.unwrap();
    worker.have_bad_starts(2).await.unwrap();
    worker.explode("boom".into()).await.unwrap_err();
    assert_eq!(worker.work().await, Ok(1), "the third restart went well");
    let failed = ["w dropped", "w could not start", "w dropped", "w could not start", "w dropped"];
    assert_eq!(diary.take()[1..], [&failed[..], &["w started"]].concat());
    worker.have_bad_starts(1).await.unwrap();
    worker.explode("boom".into()).await.unwrap_err();
    assert!(matches!(worker.wait_stopped().await, ActorExit::Failed(_)));
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_restart_waits_longer_each_time() {
    let (node, diary) = (node().await, Diary::default());
    let second = Duration::from_secs(1);
    let restart = Restart::on_failure().backoff(second, 3 * second);
    let worker = node.supervise(Worker::child("w", &diary).restart(restart)).await.unwrap();
    for pause in [1, 2, 3, 3] {
        let start = tokio::time::Instant::now();
        worker.explode("boom".into()).await.unwrap_err();
        assert_eq!(worker.work().await, Ok(1));
        assert_eq!(start.elapsed().as_secs(), pause);
    }
    worker.explode("boom".into()).await.unwrap_err();
    assert_eq!(node.shutdown(second).await, [], "one that waits to be restarted ends at once");
    assert_eq!(worker.wait_stopped().await, ActorExit::Stopped);
}

/// In an incarnation a kill is a failure; between two of them it is the end.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_kill_or_a_stop_ends_an_actor_that_rests() {
    let (node, diary) = (node().await, Diary::default());
    let long = |restart: Restart| restart.backoff(MINUTE, MINUTE);
    let start = tokio::time::Instant::now();
    for (restart, is_kill) in
        [(Restart::on_failure(), true), (Restart::on_failure(), false), (Restart::always(), true)]
    {
        let worker = Worker::child("w", &diary).restart(long(restart));
        let worker = node.supervise(worker).await.unwrap();
        worker.explode("boom".into()).await.unwrap_err();
        tokio::time::sleep(MS).await;
        let exit = if is_kill {
            worker.kill().await.unwrap();
            ActorExit::Killed
        } else {
            worker.request_stop().unwrap();
            ActorExit::Stopped
        };
        assert_eq!(timeout(MINUTE / 2, worker.wait_stopped()).await, Ok(exit));
        assert!(node.actor::<Worker>("w").await.is_err(), "its name is free");
        assert_eq!(diary.take(), ["w started", "w dropped"]);
    }
    // The others of a group begin anew without it.
    let group = ["a", "b"].into_iter().fold(Supervisor::new(Strategy::OneForAll), |all, name| {
        all.child(Worker::child(name, &diary).restart(long(Restart::on_failure())))
    });
    node.spawn("group", group).await.unwrap();
    let a = node.actor::<Worker>("a").await.unwrap();
    let b = node.actor::<Worker>("b").await.unwrap();
    a.explode("boom".into()).await.unwrap_err();
    tokio::time::sleep(MS).await;
    a.kill().await.unwrap();
    assert_eq!(timeout(MINUTE / 2, a.wait_stopped()).await, Ok(ActorExit::Killed));
    assert!(start.elapsed() < Duration::from_secs(1), "nothing waits for the pause");
    assert_eq!(b.work().timeout(2 * MINUTE).await, Ok(1));
    assert!(node.actor::<Worker>("a").await.is_err());
}

/// What ends an actor that rests is its end; the failure before is in the log once.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn an_actor_that_is_stopped_while_it_rests_has_stopped_and_panicked_once() {
    for ends in ["stop", "shutdown", "parent"] {
        let log = Log::default();
        let _here = log.listen();
        let (node, diary) = (node().await, Diary::default());
        let restart = Restart::on_failure().backoff(MINUTE, MINUTE);
        let child = Worker::child("w", &diary).restart(restart);
        let group = Supervisor::new(Strategy::OneForAll).child(child);
        let group = node.spawn("group", group).await.unwrap();
        let worker = node.actor::<Worker>("w").await.unwrap();
        worker.explode("boom".into()).await.unwrap_err();
        tokio::time::sleep(MS).await;
        match ends {
            "stop" => worker.stop().await.unwrap(),
            "shutdown" => assert_eq!(node.shutdown(MINUTE).await, []),
            _ => group.stop().await.unwrap(),
        }
        assert_eq!(worker.wait_stopped().await, ActorExit::Stopped, "{ends}");
        assert_eq!((log.count("an actor is restarted"), log.count("an actor panicked")), (1, 0));
    }
}

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

/// One that is late holds up none of the others, and each has its whole time.
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

/// Nothing waits for the children of an actor that has failed for good.
// Promised in docs/SEMANTICS.md.
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

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn an_actor_that_was_stopped_or_drained_is_not_restarted_whatever_its_last_handler_does() {
    let (node, diary) = (node().await, Diary::default());
    let child = || Worker::child("w", &diary).restart(quick());
    let worker = node.supervise(child()).await.unwrap();
    worker.tell(Explode { why: "drained".into() }).await.unwrap();
    worker.drain().await.unwrap();
    assert_eq!(worker.wait_stopped().await, ActorExit::Panicked("drained".into()));
    let worker = node.supervise(child()).await.unwrap();
    worker.tell(Hang).await.unwrap();
    tokio::task::yield_now().await;
    worker.stop().await.unwrap();
    worker.kill().await.unwrap();
    assert_eq!(worker.wait_stopped().await, ActorExit::Killed);
    let always = Worker::child("w", &diary).restart(Restart::always().backoff(MS, MS));
    let worker = node.supervise(always).await.unwrap();
    assert_eq!(worker.work().await, Ok(1));
    worker.stop().await.unwrap();
    while worker.work().await != Ok(1) {}
    assert_eq!(node.shutdown(MINUTE).await, [], "a shutdown is the end of all");
}

/// Panics wherever it can.
struct Bomb;

struct Shrapnel;

impl Drop for Shrapnel {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("in a drop");
        }
    }
}

#[actor]
impl Actor for Bomb {
    async fn on_stop(&mut self, _cx: &mut Context<Self>) {
        panic!("in on_stop");
    }
}

#[handlers]
impl Bomb {
    #[handler]
    async fn hold(&mut self) {
        let _shrapnel = Shrapnel;
        std::future::pending::<()>().await;
    }

    #[handler]
    fn is_whole(&self) -> bool {
        true
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn what_panics_while_an_incarnation_ends_does_not_keep_it_from_beginning_anew() {
    let node = node().await;
    let bomb = node.supervise(Child::new(|| Bomb).restart(quick())).await.unwrap();
    bomb.tell(Hold).await.unwrap();
    tokio::task::yield_now().await;
    bomb.kill().await.unwrap();
    assert_eq!(bomb.is_whole().await, Ok(true));
    bomb.stop().await.unwrap();
    assert_eq!(bomb.wait_stopped().await, ActorExit::Panicked("in on_stop".into()));
}
