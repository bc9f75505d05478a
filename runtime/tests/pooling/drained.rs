//! Pools that are drained.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use ringpost::DeadLetterCause;
use ringpost::pool::Pool;
use ringpost::prelude::*;
use tokio::time::timeout;

use super::{Fail, Job, MINUTE, MS, StopAndHold, StopYourself, builder, fill, hold, job};
use crate::actors::node;
use crate::cause;

/// PL-4. The pool takes nothing more before the first worker is closed.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn senders_that_wait_for_a_pool_that_is_drained_get_their_messages_back() {
    let node = node().await;
    let (desk, builder) = builder();
    let pool = builder.size(2).spawn(&node, "pool").await.unwrap();
    let workers = pool.workers();
    let gates = fill(&desk, &pool).await;
    let mut tell = Box::pin(pool.tell(job(1)));
    let mut ask = Box::pin(pool.ask(job(2)).timeout(MINUTE).into_future());
    assert!(futures::poll!(&mut tell).is_pending());
    assert!(futures::poll!(&mut ask).is_pending());
    // A change of the size that comes after it makes no workers.
    let (drained, resized) = tokio::join!(pool.drain(), async {
        let resized = pool.resize(3);
        gates.iter().for_each(|gate| gate.add_permits(1));
        resized.await
    });
    assert_eq!(drained, Ok(()));
    assert!(matches!(resized, Err(SpawnError::NoSupervisor(_))), "{resized:?}");
    let unsent = tell.await.unwrap_err();
    assert_eq!((unsent.cause, unsent.message), (Cause::Stopped, job(1)));
    assert_eq!(cause(ask.await), Err(AskCause::NotSent(Cause::Stopped)));
    assert_eq!(pool.supervisor().wait_stopped().await, ActorExit::Stopped);
    assert_eq!(pool.workers(), workers);
    assert_eq!(workers.iter().map(|worker| desk.done_by(worker)).collect::<Vec<_>>(), [[0]; 2]);
    assert_eq!(pool.drain().await, Ok(()), "it has ended");
}

/// PL-4. A worker fails while its pool is drained, and rests when it is.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_worker_that_fails_while_its_pool_is_drained_handles_what_it_has_all_the_same() {
    let node = node().await;
    let (desk, builder) = builder();
    let builder = builder.size(2).mailbox_capacity(16).restart_backoff(100 * MS, MINUTE);
    let pool = builder.spawn(&node, "pool").await.unwrap();
    let [resting, failing] = <[_; 2]>::try_from(pool.workers()).unwrap();
    assert_eq!(cause(resting.fail().await), Err(AskCause::Panicked));
    resting.tell(job(1)).await.unwrap();
    let gate = hold(&desk, &failing).await;
    failing.tell(Fail).await.unwrap();
    let asked = tokio::spawn(failing.ask(job(2)).timeout(MINUTE).into_ask());
    tokio::time::sleep(MS).await;
    pool.drain().await.unwrap();
    assert!(desk.done().is_empty());
    gate.add_permits(1);
    assert_eq!(asked.await.unwrap(), Ok(failing.address().to_string()));
    assert_eq!(pool.supervisor().wait_stopped().await, ActorExit::Stopped);
    assert_eq!((desk.done_by(&resting), desk.done_by(&failing)), (vec![1], vec![2]));
    assert!(node.snapshot().actors.is_empty());
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_worker_that_was_removed_before_its_pool_is_drained_handles_what_it_has() {
    let node = node().await;
    let (desk, builder) = builder();
    let pool = builder.size(2).spawn(&node, "pool").await.unwrap();
    let [stays, removed] = <[_; 2]>::try_from(pool.workers()).unwrap();
    let gates = fill(&desk, &pool).await;
    pool.resize(1).await.unwrap();
    pool.drain().await.unwrap();
    gates[0].add_permits(1);
    assert_eq!(stays.wait_stopped().await, ActorExit::Stopped);
    assert!(desk.done_by(&removed).is_empty());
    // Its supervisor has had its turn.
    tokio::task::yield_now().await;
    gates[1].add_permits(1);
    assert_eq!(pool.supervisor().wait_stopped().await, ActorExit::Stopped);
    assert_eq!((desk.done_by(&stays), desk.done_by(&removed)), (vec![0], vec![0]));
}

/// Messages that wait are left then, and the pool is not made anew, also after a kill.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_pool_that_is_stopped_or_killed_while_it_is_drained_ends_at_once() {
    for is_kill in [false, true] {
        let node = node().await;
        let (desk, builder) = builder();
        let pool = builder.size(2).spawn(&node, "pool").await.unwrap();
        let gates = fill(&desk, &pool).await;
        pool.drain().await.unwrap();
        let supervisor = pool.supervisor();
        if is_kill {
            supervisor.kill().await.unwrap();
        } else {
            supervisor.stop().await.unwrap();
            // The message that it is handling has its time.
            gates.iter().for_each(|gate| gate.add_permits(1));
        }
        supervisor.wait_stopped().await;
        assert!(desk.done().is_empty());
        assert_eq!(node.dead_letters().count(DeadLetterCause::Stopped), 2, "kill: {is_kill}");
        assert!(node.snapshot().actors.is_empty());
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_shutdown_waits_for_a_pool_that_is_drained() {
    let node = node().await;
    let (desk, builder) = builder();
    let pool = builder.size(2).spawn(&node, "pool").await.unwrap();
    let gates = fill(&desk, &pool).await;
    pool.drain().await.unwrap();
    let ends = node.clone();
    let shutdown = tokio::spawn(async move { ends.shutdown(MINUTE).await });
    tokio::task::yield_now().await;
    gates.iter().for_each(|gate| gate.add_permits(1));
    assert_eq!(shutdown.await.unwrap(), []);
    assert_eq!(desk.done().len(), 2);
    assert_eq!(node.dead_letters().count(DeadLetterCause::Stopped), 0);
}

/// Also where a worker fails or stops itself: it begins anew for what it still has.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn workers_handle_what_they_have_when_their_node_shuts_down() {
    let node = node().await;
    let (desk, builder) = builder();
    let builder = builder.mailbox_capacity(16).restart_backoff(100 * MS, MINUTE);
    let pool = builder.spawn(&node, "pool").await.unwrap();
    let worker = pool.workers().remove(0);
    let gate = hold(&desk, &worker).await;
    worker.tell(StopYourself).await.unwrap();
    worker.tell(job(1)).await.unwrap();
    worker.tell(Fail).await.unwrap();
    worker.tell(job(2)).await.unwrap();
    let ends = node.clone();
    let shutdown = tokio::spawn(async move { ends.shutdown(MINUTE).await });
    tokio::time::sleep(MS).await;
    gate.add_permits(1);
    assert_eq!(shutdown.await.unwrap(), []);
    assert_eq!(desk.done_by(&worker), [1, 2]);
    assert_eq!(node.dead_letters().count(DeadLetterCause::Stopped), 0);
}

/// It takes nothing more either.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn draining_a_pool_whose_node_shuts_down_is_no_error() {
    let node = node().await;
    let (desk, builder) = builder();
    let pool = builder.size(2).spawn(&node, "pool").await.unwrap();
    let gates = fill(&desk, &pool).await;
    let ends = node.clone();
    let shutdown = tokio::spawn(async move { ends.shutdown(MINUTE).await });
    while pool.try_tell(job(1)).unwrap_err().cause == Cause::MailboxFull {
        tokio::task::yield_now().await;
    }
    assert_eq!(pool.drain().await, Ok(()));
    gates.iter().for_each(|gate| gate.add_permits(1));
    assert_eq!(shutdown.await.unwrap(), []);
    assert_eq!(desk.done().len(), 2);
    assert_eq!(pool.drain().await, Ok(()), "it has ended");
}

/// Each returns when the pool takes nothing more, and not when its workers have ended.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_pool_may_be_drained_by_several_at_once() {
    let node = node().await;
    let (desk, builder) = builder();
    let pool = builder.size(2).spawn(&node, "pool").await.unwrap();
    let gates = fill(&desk, &pool).await;
    let all = async { tokio::join!(pool.drain(), pool.drain(), pool.resize(3), pool.drain()) };
    let (first, second, resized, third) = timeout(MINUTE, all).await.expect("the workers wait");
    assert_eq!([first, second, third], [Ok(()), Ok(()), Ok(())]);
    assert!(matches!(resized, Err(SpawnError::NoSupervisor(_))), "{resized:?}");
    assert_eq!(timeout(MINUTE, pool.drain()).await, Ok(Ok(())), "a later one, too");
    assert!(desk.done().is_empty());
    gates.iter().for_each(|gate| gate.add_permits(1));
    assert_eq!(pool.supervisor().wait_stopped().await, ActorExit::Stopped);
    assert_eq!(desk.done().len(), 2);
    assert_eq!(node.dead_letters().count(DeadLetterCause::Stopped), 0);
}

/// A worker that stops by itself would be made anew for what it has: so it is, and ends then. A
/// stop that comes after its removal ends it.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_worker_that_is_stopping_when_it_is_removed_or_drained_handles_what_it_has() {
    for (drains, stops_again) in [(true, false), (false, false), (true, true), (false, true)] {
        let node = node().await;
        let (desk, builder) = builder();
        let pool = builder.size(2).mailbox_capacity(16).spawn(&node, "pool").await.unwrap();
        let last = pool.workers().pop().unwrap();
        let gate = hold(&desk, &last).await;
        last.tell(StopAndHold).await.unwrap();
        for number in 1..4 {
            last.tell(job(number)).await.unwrap();
        }
        gate.add_permits(1);
        desk.held.notified().await;
        if drains {
            pool.drain().await.unwrap();
        } else {
            pool.resize(1).await.unwrap();
        }
        if stops_again {
            last.stop().await.unwrap();
        }
        gate.add_permits(1);
        assert_eq!(last.wait_stopped().await, ActorExit::Stopped);
        let (done, lost) = if stops_again { (vec![], 3) } else { (vec![1, 2, 3], 0) };
        assert_eq!(desk.done_by(&last), done, "drains: {drains}, stops: {stops_again}");
        assert_eq!(node.dead_letters().count(DeadLetterCause::Stopped), lost);
        if drains {
            assert_eq!(pool.supervisor().wait_stopped().await, ActorExit::Stopped);
        } else {
            assert!(pool.ask(job(4)).await.is_ok());
        }
    }
}

/// A worker that stops by itself is made anew for what it has, also when its pool has no other work
/// for it, as often as its restarts allow: what is left then are dead letters (PL-4).
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_worker_that_stops_itself_after_its_removal_or_the_drain_handles_what_it_has() {
    for (drains, stops) in [(true, 3), (false, 3), (true, 4), (false, 4)] {
        let node = node().await;
        let (desk, builder) = builder();
        let pool = builder.size(2).mailbox_capacity(16).spawn(&node, "pool").await.unwrap();
        let last = pool.workers().pop().unwrap();
        let gate = hold(&desk, &last).await;
        for number in 0..stops {
            last.tell(StopYourself).await.unwrap();
            last.tell(job(number)).await.unwrap();
        }
        if drains {
            pool.drain().await.unwrap();
        } else {
            pool.resize(1).await.unwrap();
        }
        gate.add_permits(1);
        assert_eq!(last.wait_stopped().await, ActorExit::Stopped);
        assert_eq!(desk.done_by(&last), [0, 1, 2], "drains: {drains}, stops: {stops}");
        assert_eq!(node.dead_letters().count(DeadLetterCause::Stopped), stops - 3);
        if drains {
            assert_eq!(pool.supervisor().wait_stopped().await, ActorExit::Stopped);
        } else {
            assert!(pool.ask(job(4)).await.is_ok(), "the pool has not failed");
        }
    }
}

/// A stop by others ends it, before or after its own one.
#[tokio::test(start_paused = true)]
async fn a_worker_that_stops_itself_after_the_drain_and_is_stopped_by_others_ends() {
    for is_first in [true, false] {
        let node = node().await;
        let (desk, builder) = builder();
        let pool = builder.mailbox_capacity(16).spawn(&node, "pool").await.unwrap();
        let last = pool.workers().pop().unwrap();
        let gate = hold(&desk, &last).await;
        last.tell(StopAndHold).await.unwrap();
        for number in 1..4 {
            last.tell(job(number)).await.unwrap();
        }
        pool.drain().await.unwrap();
        if is_first {
            last.stop().await.unwrap();
        } else {
            gate.add_permits(1);
            desk.held.notified().await;
            last.stop().await.unwrap();
        }
        gate.add_permits(1);
        assert_eq!(last.wait_stopped().await, ActorExit::Stopped);
        assert!(desk.done().is_empty(), "is first: {is_first}");
        let lost = if is_first { 4 } else { 3 };
        assert_eq!(node.dead_letters().count(DeadLetterCause::Stopped), lost);
    }
}

/// One rests when its pool is drained, and one fails afterwards: neither has anything to handle.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_drain_does_not_wait_for_the_rest_of_a_worker_that_has_nothing_left() {
    let node = node().await;
    let (desk, builder) = builder();
    let builder = builder.size(2).restart_backoff(MINUTE, MINUTE);
    let pool = builder.spawn(&node, "pool").await.unwrap();
    let [resting, failing] = <[_; 2]>::try_from(pool.workers()).unwrap();
    assert_eq!(cause(resting.fail().await), Err(AskCause::Panicked));
    let gate = hold(&desk, &failing).await;
    failing.tell(Fail).await.unwrap();
    tokio::time::sleep(MS).await;
    let start = tokio::time::Instant::now();
    pool.drain().await.unwrap();
    assert_eq!(resting.wait_stopped().await, ActorExit::Stopped);
    gate.add_permits(1);
    assert_eq!(failing.wait_stopped().await, ActorExit::Stopped);
    assert_eq!(pool.supervisor().wait_stopped().await, ActorExit::Stopped);
    assert!(start.elapsed() < MINUTE / 2, "a worker rested to the end");
    assert_eq!(desk.made.load(Ordering::Relaxed), 2, "none was made anew");
}

/// A sender has room at a worker that rests: it is waited for until that is used or given back.
/// (One that was stopped meanwhile takes nothing any more.)
#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_the_rest_of_a_worker_that_may_be_sent_something() {
    for (is_used, is_stopped) in [(true, false), (false, false), (true, true), (false, true)] {
        let node = node().await;
        let (desk, builder) = builder();
        let pool = builder.restart_backoff(MINUTE, MINUTE).spawn(&node, "pool").await.unwrap();
        let worker = pool.workers().remove(0);
        assert_eq!(cause(worker.fail().await), Err(AskCause::Panicked));
        tokio::time::sleep(MS).await;
        let room = worker.reserve::<Job>().await.unwrap();
        if is_stopped {
            worker.stop().await.unwrap();
        }
        pool.drain().await.unwrap();
        assert!(timeout(MS, worker.wait_stopped()).await.is_err());
        let start = tokio::time::Instant::now();
        if is_used {
            room.tell(job(1)).unwrap();
        } else {
            drop(room);
        }
        assert_eq!(worker.wait_stopped().await, ActorExit::Stopped);
        let is_taken = is_used && !is_stopped;
        assert_eq!(desk.done_by(&worker).len(), usize::from(is_taken));
        assert_eq!(start.elapsed() > MINUTE / 2, is_taken, "it begins anew for what it has alone");
        let lost = u64::from(is_used && is_stopped);
        assert_eq!(node.dead_letters().count(DeadLetterCause::Stopped), lost);
    }
}

/// A stop of a worker that rests takes nothing from it: it begins anew all the same.
#[tokio::test(start_paused = true)]
async fn a_worker_that_was_stopped_while_it_rests_handles_what_it_has_when_its_pool_is_drained() {
    let node = node().await;
    let (desk, builder) = builder();
    let builder = builder.mailbox_capacity(16).restart_backoff(100 * MS, MINUTE);
    let pool = builder.spawn(&node, "pool").await.unwrap();
    let worker = pool.workers().remove(0);
    assert_eq!(cause(worker.fail().await), Err(AskCause::Panicked));
    for number in 1..4 {
        worker.tell(job(number)).await.unwrap();
    }
    tokio::time::sleep(MS).await;
    worker.stop().await.unwrap();
    pool.drain().await.unwrap();
    assert_eq!(pool.supervisor().wait_stopped().await, ActorExit::Stopped);
    assert_eq!(desk.done_by(&worker), [1, 2, 3]);
    assert_eq!(node.dead_letters().count(DeadLetterCause::Stopped), 0);
}

/// A pool that has not begun is none, whoever has its name.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_pool_that_has_not_begun_drains_and_resizes_no_other_pool_of_its_name() {
    let node = node().await;
    let (_desk, described) = builder();
    let (second, _child) = described.size(2).child(&node, "pool").unwrap();
    let (_desk, described) = builder();
    let first = described.size(2).spawn(&node, "pool").await.unwrap();
    assert_eq!(second.drain().await, Err(Cause::NoSuchActor));
    let Err(SpawnError::NoSupervisor(error)) = second.resize(1).await else {
        panic!("it has no workers");
    };
    assert_eq!(error.cause, AskCause::NotSent(Cause::NoSuchActor));
    assert_eq!(first.workers().len(), 2);
    assert!(first.ask(job(1)).await.is_ok());
}

/// As an actor that is drained is, where its restart says so.
#[tokio::test]
async fn a_pool_that_is_restarted_also_after_a_drain_begins_anew_with_its_size() {
    let node = node().await;
    let (_desk, described) = builder();
    let (pool, child) = described.size(2).child(&node, "pool").unwrap();
    assert_eq!(pool.drain().await, Err(Cause::NoSuchActor), "it has not begun");
    let restart = Restart::always().at_most(3, MINUTE).backoff(MS, MS);
    node.supervise(child.restart(restart)).await.unwrap();
    let workers = pool.workers();
    pool.drain().await.unwrap();
    for worker in &workers {
        assert_eq!(worker.wait_stopped().await, ActorExit::Stopped);
    }
    while pool.workers() == workers {
        tokio::time::sleep(MS).await;
    }
    assert_eq!(pool.workers().len(), 2);
    assert!(pool.ask(job(1)).await.is_ok());
}

/// Ends its own pool.
#[actor]
struct Closer {
    pool: Arc<OnceLock<Pool<Closer>>>,
}

#[handlers]
impl Closer {
    #[handler]
    async fn close(&mut self) -> bool {
        self.pool.get().expect("it was spawned").drain().await.is_ok()
    }
}

#[tokio::test]
async fn a_worker_may_drain_its_own_pool() {
    let node = node().await;
    let cell = Arc::new(OnceLock::new());
    let own = cell.clone();
    let pool = Pool::builder(move || Closer { pool: own.clone() });
    let pool = pool.size(2).spawn(&node, "pool").await.unwrap();
    assert!(cell.set(pool.clone()).is_ok());
    assert_eq!(pool.ask(Close).await, Ok(true));
    assert_eq!(pool.supervisor().wait_stopped().await, ActorExit::Stopped);
    assert_eq!(cause(pool.ask(Close).await), Err(AskCause::NotSent(Cause::Stopped)));
}

/// Neither waits for the other one, which has its answer before its supervisor waits for its end.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn workers_may_drain_their_own_pool_at_once() {
    let log = crate::log::Log::default();
    let _listening = log.listen();
    let node = node().await;
    let cell = Arc::new(OnceLock::new());
    let own = cell.clone();
    let pool = Pool::builder(move || Closer { pool: own.clone() });
    let pool = pool.size(2).spawn(&node, "pool").await.unwrap();
    assert!(cell.set(pool.clone()).is_ok());
    let [first, second] = <[_; 2]>::try_from(pool.workers()).unwrap();
    let closed = tokio::join!(first.ask(Close), second.ask(Close));
    assert_eq!(closed, (Ok(true), Ok(true)));
    assert_eq!(pool.supervisor().wait_stopped().await, ActorExit::Stopped);
    assert_eq!(log.count("waits for the end of one that waits for it"), 0);
}

/// The log is told of handlers that wait for long by mistake: this one is meant to.
#[tokio::test(start_paused = true)]
async fn a_drain_that_takes_long_is_not_in_the_log_for_that() {
    let log = crate::log::Log::default();
    let _listening = log.listen();
    let node = Node::builder("alpha").report_handlers_after(100 * MS).start().await.unwrap();
    let (desk, builder) = builder();
    let pool = builder.spawn(&node, "pool").await.unwrap();
    let gate = hold(&desk, &pool.workers()[0]).await;
    pool.drain().await.unwrap();
    let line = "a handler waits for long";
    log.wait(line).await;
    gate.add_permits(1);
    pool.supervisor().wait_stopped().await;
    assert_eq!((log.count(line), log.count_all(&[line, "Hold"])), (1, 1));
}
