//! Workers that end and restart, and pools that end.

use std::sync::atomic::Ordering;

use ringpost::observe::DeadLetterCause;
use ringpost::prelude::*;
use ringpost::spawn::{SpawnError, Strategy, Supervisor};

use super::{Fail, Job, MINUTE, MS, StopAndHold, StopYourself, builder, fill, hold, job};
use crate::actors::node;
use crate::cause;

/// The next worker takes the messages of a closed one; if all are closed, they come back.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_closed_worker_is_passed_over_and_where_all_are_closed_the_message_comes_back() {
    let node = node().await;
    let (desk, builder) = builder();
    let pool = builder.size(2).by_key(|job: &Job| job.key).spawn(&node, "pool").await.unwrap();
    let workers = pool.workers();
    let first = pool.ask(job(1)).await.unwrap();
    let (mine, other) = match workers[0].address().to_string() == first {
        true => (&workers[0], &workers[1]),
        false => (&workers[1], &workers[0]),
    };
    // One waits for room as it closes, and the other ones find it closed.
    let gate = hold(&desk, mine).await;
    mine.tell(StopAndHold).await.unwrap();
    let mut waiting = Box::pin(pool.tell(job(1)));
    assert!(futures::poll!(&mut waiting).is_pending());
    gate.add_permits(1);
    desk.held.notified().await;
    waiting.await.unwrap();
    assert_eq!(pool.ask(job(1)).await, Ok(other.address().to_string()));
    other.tell(StopAndHold).await.unwrap();
    desk.held.notified().await;
    let unsent = pool.try_tell(job(1)).unwrap_err();
    assert_eq!((unsent.cause, unsent.message), (Cause::Stopped, job(1)));
    let unsent = pool.tell(job(1)).await.unwrap_err();
    assert_eq!((unsent.cause, unsent.message), (Cause::Stopped, job(1)));
    assert_eq!(cause(pool.ask(job(1)).await), Err(AskCause::NotSent(Cause::Stopped)));
    // Both restart in their places.
    for worker in &workers {
        desk.gate(&worker.address().to_string()).add_permits(1);
        while worker.ask(job(2)).await.is_err() {
            tokio::time::sleep(MS).await;
        }
    }
    assert_eq!(pool.ask(job(1)).await, Ok(first));
    assert_eq!(pool.workers(), workers);
}

/// A kill of an actor that rests is its end.
#[tokio::test(start_paused = true)]
async fn a_worker_that_has_ended_for_good_is_replaced_in_its_place() {
    let node = node().await;
    let (desk, builder) = builder();
    let pool = builder.size(2).restart_backoff(MINUTE, MINUTE).spawn(&node, "pool").await.unwrap();
    let [first, second] = <[_; 2]>::try_from(pool.workers()).unwrap();
    assert_eq!(cause(first.fail().await), Err(AskCause::Panicked));
    first.tell(job(1)).await.unwrap();
    first.kill().await.unwrap();
    assert_eq!(first.wait_stopped().await, ActorExit::Killed);
    while pool.workers()[0] == first {
        tokio::time::sleep(MS).await;
    }
    assert_eq!(pool.workers()[1..], [second]);
    assert_eq!(pool.workers()[0].ask(job(2)).await, Ok(pool.workers()[0].address().to_string()));
    // The job of the first worker is a dead letter.
    assert_eq!(desk.done().len(), 1);
    assert_eq!(node.dead_letters().count(DeadLetterCause::Stopped), 1);
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_pool_with_a_worker_that_fails_too_often_begins_anew_with_the_same_size() {
    let node = node().await;
    let (desk, builder) = builder();
    let pool = builder.size(2).spawn(&node, "pool").await.unwrap();
    pool.resize(3).await.unwrap();
    let workers = pool.workers();
    for _ in 0..4 {
        assert_eq!(cause(workers[0].fail().await), Err(AskCause::Panicked));
    }
    while pool.workers() == workers {
        tokio::time::sleep(MS).await;
    }
    assert_eq!(pool.workers().len(), 3);
    let done = desk.done().len();
    pool.tell(job(1)).await.unwrap();
    desk.until_done(done + 1).await;
    // It ends with its supervisor, and says so.
    pool.supervisor().stop().await.unwrap();
    assert_eq!(pool.workers()[0].wait_stopped().await, ActorExit::Stopped);
    let unsent = pool.tell(job(2)).await.unwrap_err();
    assert_eq!((unsent.cause, unsent.message), (Cause::Stopped, job(2)));
    assert_eq!(cause(pool.ask(job(3)).await), Err(AskCause::NotSent(Cause::Stopped)));
    assert!(matches!(pool.resize(1).await, Err(SpawnError::NoSupervisor(_))));
}

#[tokio::test]
async fn a_pool_is_the_child_of_a_supervisor_and_has_no_workers_before() {
    let node = node().await;
    let (_desk, described) = builder();
    let (pool, child) = described.size(2).child(&node, "pool").unwrap();
    assert_eq!(pool.try_tell(job(1)).unwrap_err().cause, Cause::Stopped);
    let error = pool.ask(job(1)).await.unwrap_err();
    assert_eq!(error.cause, AskCause::NotSent(Cause::Stopped));
    assert!(error.to_string().contains("alpha/pool"), "{error}");
    let supervisor = Supervisor::new(Strategy::OneForOne).child(child);
    let supervisor = node.spawn("supervisor", supervisor).await.unwrap();
    pool.ask(job(1)).await.unwrap();
    supervisor.stop().await.unwrap();
    supervisor.wait_stopped().await;
    assert_eq!(pool.try_tell(job(1)).unwrap_err().cause, Cause::Stopped);
    let (_desk, named) = builder();
    let invalid = named.spawn(&node, "a/b").await;
    assert!(matches!(invalid, Err(SpawnError::InvalidName(_))), "{invalid:?}");
}

/// A worker that is closed is passed over; it handles its messages after its restart. (A stop in
/// the very moment in which the message is put there makes a dead letter of it.)
// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_sent_while_workers_stop_is_handled_once_or_a_dead_letter() {
    const SENDERS: u64 = 4;
    const EACH: u64 = 400;
    let node = node().await;
    let (desk, builder) = builder();
    let builder = builder.size(2).restart_at_most(u32::MAX, MINUTE).restart_backoff(MS / 10, MS);
    let pool = builder.spawn(&node, "pool").await.unwrap();
    let letters = || node.dead_letters().count(ringpost::observe::DeadLetterCause::Stopped);
    let senders: Vec<_> = (0..SENDERS)
        .map(|sender| {
            let pool = pool.clone();
            tokio::spawn(async move {
                let mut unsent = 0;
                for number in 0..EACH {
                    if number % 20 == 10 {
                        pool.tell(StopYourself).await.ok();
                    }
                    let job = Job { key: sender, number: sender * EACH + number };
                    unsent += u64::from(pool.tell(job).await.is_err());
                }
                unsent
            })
        })
        .collect();
    let mut unsent = 0;
    for sender in senders {
        unsent += sender.await.unwrap();
    }
    while (desk.done().len() as u64) + letters() + unsent < SENDERS * EACH {
        tokio::time::sleep(MS).await;
    }
    let mut done: Vec<_> = desk.done().into_iter().map(|(_, number)| number).collect();
    let count = done.len();
    done.sort();
    done.dedup();
    assert_eq!(done.len(), count, "none is handled twice");
    assert!(desk.made.load(Ordering::Relaxed) > 2, "workers have stopped");
}

#[tokio::test]
async fn a_pool_that_has_ended_leads_to_no_other_pool_of_its_name() {
    let node = node().await;
    let old = builder().1.spawn(&node, "pool").await.unwrap();
    old.supervisor().stop().await.unwrap();
    old.supervisor().wait_stopped().await;
    let new = builder().1.spawn(&node, "pool").await.unwrap();
    assert_eq!(old.try_tell(job(1)).unwrap_err().cause, Cause::Stopped);
    assert_eq!(old.tell(job(1)).await.unwrap_err().cause, Cause::Stopped);
    let asked = old.ask(job(1)).await;
    assert_eq!(cause(asked), Err(AskCause::NotSent(Cause::Stopped)));
    assert!(matches!(old.resize(3).await, Err(SpawnError::NoSupervisor(_))));
    old.supervisor().kill().await.unwrap();
    assert_eq!(new.workers().len(), 1);
    assert!(new.ask(job(2)).await.is_ok());
}

/// The pool takes nothing more before the first worker is closed.
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
    assert_eq!(pool.workers(), []);
    assert_eq!(workers.iter().map(|worker| desk.done_by(worker)).collect::<Vec<_>>(), [[0]; 2]);
    assert_eq!(pool.drain().await, Ok(()), "it has ended");
}

/// A worker fails while its pool is drained, and rests when it is.
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

/// Messages that wait are left then, and the pool is not restarted, even after a kill.
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
