//! Children and restarts.

mod family;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use ringpost::Local;
use ringpost::prelude::*;
use ringpost::spawn::{Child, Restart, Strategy, Supervisor};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::actors::node;
use crate::cause;
use crate::log::Log;

pub const MINUTE: Duration = Duration::from_secs(60);
pub const MS: Duration = Duration::from_millis(1);

/// The events of the workers of one test, in order.
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

/// Counts its messages, and fails in every way on request.
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

    /// Returns a notifier that makes its next `stumble` panic.
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
    let exploded = worker.ask(Explode { why: "boom".into() }).try_send().unwrap();
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
    // The others of a group are restarted without it.
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

/// An actor that is ended while it rests ends in that way; the failure before is in the log once.
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
