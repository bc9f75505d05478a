//! Supervisors: children that are restarted together.

mod changes;

use std::sync::atomic::Ordering;
use std::time::Duration;

use ringpost::prelude::*;
use ringpost::spawn::{Child, Restart, Strategy, Supervisor};

use crate::actors::node;
use crate::log::Log;
use crate::registered::{Clerk, within};
use crate::supervising::{Diary, Explode, Hang, MINUTE, MS, Stumble, Work, Worker, quick};

/// Describes a child whose every start fails.
fn unable(name: &'static str, diary: &Diary) -> Child<Worker> {
    let make = Worker::factory(name, diary);
    Child::new(move || {
        let worker = make();
        worker.bad_starts.store(1, Ordering::SeqCst);
        worker
    })
}

async fn supervised(node: &Node, strategy: Strategy, diary: &Diary) -> ActorRef<Supervisor> {
    let supervisor = ["a", "b", "c"].into_iter().fold(Supervisor::new(strategy), |all, name| {
        all.child(Worker::child(name, diary).restart(quick()))
    });
    node.spawn("supervisor", supervisor).await.unwrap()
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_supervisor_restarts_the_failed_child_or_those_after_it_or_all() {
    let (b, rest) = (["b dropped", "b started"], ["b started", "c started"]);
    let rest = [&["b dropped", "c stopped", "c dropped"][..], &rest].concat();
    let all = ["b dropped", "c stopped", "c dropped", "a stopped", "a dropped"];
    let all = [&all[..], &["a started", "b started", "c started"]].concat();
    for (strategy, expected) in [
        (Strategy::OneForOne, b.to_vec()),
        (Strategy::RestForOne, rest),
        (Strategy::OneForAll, all),
    ] {
        let (node, diary) = (node().await, Diary::default());
        let supervisor = supervised(&node, strategy, &diary).await;
        let mut workers = Vec::new();
        for name in ["a", "b", "c"] {
            let worker = node.actor::<Worker>(name).await.unwrap();
            assert_eq!(worker.work().await, Ok(1));
            workers.push(worker);
        }
        assert_eq!(diary.take(), ["a started", "b started", "c started"]);
        workers[1].explode("boom".into()).await.unwrap_err();
        let mut events = Vec::new();
        while events.len() < expected.len() {
            tokio::task::yield_now().await;
            events.extend(diary.take());
        }
        assert_eq!(events, expected, "{strategy:?}");
        let mut counts = Vec::new();
        for worker in workers.iter().rev() {
            counts.push(worker.work().await.unwrap());
        }
        counts.reverse();
        let expected_counts = match strategy {
            Strategy::OneForOne => [2, 1, 2],
            Strategy::RestForOne => [2, 1, 1],
            Strategy::OneForAll => [1, 1, 1],
        };
        assert_eq!(counts, expected_counts, "{strategy:?}");
        supervisor.stop().await.unwrap();
        supervisor.wait_stopped().await;
        let ends = ["c stopped", "c dropped", "b stopped", "b dropped", "a stopped", "a dropped"];
        assert_eq!(diary.take(), ends);
    }
}

/// Each has its whole time to stop, when the one after it has ended.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn children_of_a_supervisor_end_with_it_the_youngest_first() {
    let (node, diary) = (node().await, Diary::default());
    let supervisor =
        ["a", "b", "c"].into_iter().fold(Supervisor::new(Strategy::OneForOne), |all, name| {
            all.child(Worker::child(name, &diary).stop_within(1000 * MS))
        });
    let supervisor = node.spawn("supervisor", supervisor).await.unwrap();
    for name in ["a", "c"] {
        node.actor::<Worker>(name).await.unwrap().tell(Hang).await.unwrap();
    }
    tokio::task::yield_now().await;
    diary.take();
    let start = tokio::time::Instant::now();
    supervisor.stop().await.unwrap();
    assert_eq!(supervisor.wait_stopped().await, ActorExit::Stopped);
    assert_eq!(diary.take(), ["c dropped", "b stopped", "b dropped", "a dropped"]);
    assert_eq!(start.elapsed(), 2000 * MS);
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_child_that_fails_to_start_among_others_is_tried_again_with_them() {
    let (node, diary) = (node().await, Diary::default());
    let supervisor = supervised(&node, Strategy::OneForAll, &diary).await;
    let [a, b, c] = ["a", "b", "c"].map(async |name| node.actor::<Worker>(name).await.unwrap());
    let (a, b, c) = tokio::join!(a, b, c);
    b.have_bad_starts(2).await.unwrap();
    diary.take();
    c.explode("boom".into()).await.unwrap_err();
    assert_eq!((c.work().await, b.work().await, a.work().await), (Ok(1), Ok(1), Ok(1)));
    let diary = diary.take();
    let count = |what: &str| diary.iter().filter(|line| *line == what).count();
    assert_eq!((count("b could not start"), count("b started"), count("c started")), (2, 1, 1));
    assert_eq!(count("a started"), 3, "{diary:?}");
    b.have_bad_starts(9).await.unwrap();
    b.explode("boom".into()).await.unwrap_err();
    let ActorExit::Failed(chain) = supervisor.wait_stopped().await else { panic!() };
    assert!(chain.ends_with("ended again: it failed: no luck"), "{chain}");
    assert_eq!(a.wait_stopped().await, ActorExit::Stopped);
    assert_eq!(c.wait_stopped().await, ActorExit::Stopped);
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_supervisor_whose_child_cannot_start_does_not_start_and_leaves_nothing() {
    let (node, diary) = (node().await, Diary::default());
    let supervisor = Supervisor::new(Strategy::OneForOne)
        .child(Worker::child("a", &diary))
        .child(unable("b", &diary).named("b"));
    let error = node.spawn("supervisor", supervisor).await.unwrap_err();
    let text = "the actor could not start: its child alpha/b did not start: \
                the actor could not start: no luck";
    assert_eq!(error.to_string(), text);
    let all = ["a started", "b could not start", "b dropped", "a stopped", "a dropped"];
    assert_eq!(diary.take(), all);
    assert_eq!(node.snapshot().actors.len(), 0);
}

#[tokio::test]
async fn a_child_that_is_never_restarted_ends_when_the_others_are_restarted() {
    let (node, diary) = (node().await, Diary::default());
    let supervisor = Supervisor::new(Strategy::OneForAll)
        .child(Worker::child("a", &diary).restart(Restart::never()))
        .child(Worker::child("b", &diary).restart(quick()))
        .child(Worker::child("c", &diary).restart(quick()));
    node.spawn("supervisor", supervisor).await.unwrap();
    let b = node.actor::<Worker>("b").await.unwrap();
    let a = node.actor::<Worker>("a").await.unwrap();
    b.explode("boom".into()).await.unwrap_err();
    assert_eq!(b.work().await, Ok(1));
    assert_eq!(node.actor::<Worker>("c").await.unwrap().work().await, Ok(1));
    assert_eq!(a.wait_stopped().await, ActorExit::Stopped);
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_ends_at_once_while_its_children_wait_to_be_restarted() {
    let (node, diary) = (node().await, Diary::default());
    let restart = Restart::on_failure().backoff(MINUTE, MINUTE);
    let supervisor = Supervisor::new(Strategy::OneForAll)
        .child(Worker::child("a", &diary))
        .child(Worker::child("b", &diary).restart(restart));
    let supervisor = node.spawn("supervisor", supervisor).await.unwrap();
    let b = node.actor::<Worker>("b").await.unwrap();
    b.explode("boom".into()).await.unwrap_err();
    let start = tokio::time::Instant::now();
    tokio::time::sleep(MS).await;
    supervisor.stop().await.unwrap();
    assert_eq!(supervisor.wait_stopped().await, ActorExit::Stopped);
    assert!(start.elapsed() < Duration::from_secs(1));
    assert_eq!(node.snapshot().actors.len(), 0);
}

/// The second of a group fails at once with the first, or while that rests.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_pause_is_not_cut_short_by_another_child_that_fails() {
    let second = Duration::from_secs(1);
    for (strategy, later) in [(Strategy::OneForAll, false), (Strategy::RestForOne, true)] {
        let (node, diary) = (node().await, Diary::default());
        let slow = Restart::on_failure().backoff(second, second);
        let supervisor = Supervisor::new(strategy)
            .child(Worker::child("a", &diary).restart(quick()))
            .child(Worker::child("b", &diary).restart(slow));
        node.spawn("supervisor", supervisor).await.unwrap();
        let a = node.actor::<Worker>("a").await.unwrap();
        let b = node.actor::<Worker>("b").await.unwrap();
        let start = tokio::time::Instant::now();
        b.tell(Explode { why: "boom".into() }).await.unwrap();
        if later {
            tokio::time::sleep(second / 2).await;
        }
        a.tell(Explode { why: "boom".into() }).await.unwrap();
        assert_eq!(b.work().await, Ok(1));
        assert_eq!(start.elapsed().as_secs(), 1, "{strategy:?}");
    }
}

/// Two children fail at once, again and again, on several threads: now one is told to rest while
/// its report is on its way, now while it is about to restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn children_that_fail_at_once_are_all_restarted() {
    for strategy in [Strategy::OneForAll, Strategy::RestForOne] {
        let (node, diary) = (node().await, Diary::default());
        let restart = Restart::on_failure().at_most(10_000, MINUTE);
        let restart = restart.backoff(Duration::ZERO, Duration::ZERO);
        let names = ["a", "b", "c", "d"];
        let supervisor = names.into_iter().fold(Supervisor::new(strategy), |all, name| {
            all.child(Worker::child(name, &diary).restart(restart))
        });
        node.spawn("supervisor", supervisor).await.unwrap();
        let find = names.map(async |name| node.actor::<Worker>(name).await.unwrap());
        let workers = futures::future::join_all(find).await;
        for _ in 0..400 {
            let explode = || Explode { why: "boom".into() };
            let fail = |at: usize| {
                let worker = workers[at].clone();
                tokio::spawn(async move { worker.ask(explode()).await.unwrap_err().cause })
            };
            let (first, second) = tokio::join!(fail(0), fail(2));
            assert_eq!((first.unwrap(), second.unwrap()), (AskCause::Panicked, AskCause::Panicked));
        }
        for worker in &workers {
            assert!(worker.work().await.is_ok(), "{strategy:?}");
        }
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_shutdown_has_children_handle_what_they_accepted() {
    let (node, diary) = (node().await, Diary::default());
    supervised(&node, Strategy::OneForOne, &diary).await;
    for name in ["a", "b", "c"] {
        let worker = node.actor::<Worker>(name).await.unwrap();
        for _ in 0..100 {
            worker.tell(Work).await.unwrap();
        }
    }
    assert_eq!(node.shutdown(MINUTE).await, []);
    assert_eq!(node.dead_letters().total(), 0);
}

/// The task of one child blocks its thread for longer than the others wait for it to rest.
// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_child_that_rests_too_late_for_its_group_is_restarted_all_the_same() {
    let (node, diary) = (node().await, Diary::default());
    let slow = Child::new(Clerk::default).named("c").restart(quick()).stop_within(MS);
    let group = Supervisor::new(Strategy::OneForAll)
        .child(Worker::child("a", &diary).restart(quick()))
        .child(slow);
    node.spawn("group", group).await.unwrap();
    let a = node.actor::<Worker>("a").await.unwrap();
    let c = node.actor::<Clerk>("c").await.unwrap();
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let (begun, begins) = tokio::sync::oneshot::channel();
    within(&c, |clerk, cx| {
        clerk.notes.push(7);
        cx.spawn_task(async move {
            begun.send(()).unwrap();
            // An error says that it is released.
            let _released = blocked.recv();
        });
    })
    .await;
    begins.await.unwrap();
    a.explode("boom".into()).await.unwrap_err();
    assert_eq!(a.work().timeout(MINUTE).await, Ok(1), "the group goes on without it");
    drop(release);
    assert_eq!(c.notes().timeout(MINUTE).await, Ok(vec![]), "it begins anew, with the group");
    assert_eq!(a.work().await, Ok(1));
}

/// Its failure is its own, although it is restarted with a child that failed before.
#[tokio::test]
async fn a_panic_of_a_child_that_is_told_to_rest_is_in_the_log_once() {
    let log = Log::default();
    let _here = log.listen();
    let (node, diary) = (node().await, Diary::default());
    let group = Supervisor::new(Strategy::OneForAll)
        .child(Worker::child("a", &diary).restart(quick()))
        .child(Worker::child("b", &diary).restart(quick()))
        .child(Worker::child("c", &diary).restart(quick()));
    node.spawn("group", group).await.unwrap();
    let [a, b] = ["a", "b"].map(async |name| node.actor::<Worker>(name).await.unwrap());
    let (a, b) = tokio::join!(a, b);
    let gate = b.falter().await.unwrap().0;
    b.tell(Stumble).await.unwrap();
    a.explode("boom".into()).await.unwrap_err();
    // The youngest one rests: the next one is told to.
    while !diary.take().contains(&"c dropped".to_owned()) {
        tokio::task::yield_now().await;
    }
    gate.notify_one();
    assert_eq!(a.work().await, Ok(1));
    assert_eq!(log.count("an actor is restarted"), 2);
    assert_eq!(log.count_all(&["an actor is restarted actor=alpha/b", "stumbled", "Stumble"]), 1);
    assert_eq!(log.count("an actor panicked"), 0);
}

/// Pauses longer than a clock counts.
#[tokio::test(start_paused = true)]
async fn a_pause_without_an_end_leaves_the_supervisor_alone() {
    let (node, diary) = (node().await, Diary::default());
    let forever = Restart::on_failure().backoff(Duration::MAX, Duration::MAX);
    let group =
        Supervisor::new(Strategy::OneForAll).child(Worker::child("a", &diary).restart(forever));
    let group = node.spawn("group", group).await.unwrap();
    let a = node.actor::<Worker>("a").await.unwrap();
    a.explode("boom".into()).await.unwrap_err();
    tokio::time::sleep(MINUTE).await;
    group.stop().await.unwrap();
    assert_eq!(group.wait_stopped().await, ActorExit::Stopped);
}

/// An actor with a child that takes a second to stop.
struct Slow;

#[actor]
impl Actor for Slow {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        cx.spawn(Child::new(|| Lingering)).await?;
        Ok(())
    }
}

#[handlers]
impl Slow {
    #[handler]
    fn fail(&mut self) {
        panic!("slow")
    }
}

struct Lingering;

#[actor]
impl Actor for Lingering {
    async fn on_stop(&mut self, _cx: &mut Context<Self>) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[handlers]
impl Lingering {}

pub async fn others_run() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// It still ends its own children when another one of its group fails.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_child_that_failed_too_often_does_not_rest_with_others() {
    let node = node().await;
    let supervisor = Supervisor::new(Strategy::OneForAll);
    let supervisor = node.spawn("supervisor", supervisor).await.unwrap();
    let never = Restart::on_failure().at_most(0, Duration::from_secs(60));
    let slow = supervisor.start_child(Child::new(|| Slow).restart(never)).await.unwrap();
    let other = supervisor.start_child(Child::new(|| Slow).restart(quick())).await.unwrap();
    slow.tell(Fail).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    other.tell(Fail).await.unwrap();
    let text = slow.wait_stopped().await.to_string();
    assert!(text.contains("restarted 0 times"), "{text}");
    assert!(supervisor.wait_stopped().await.is_failure());
}
