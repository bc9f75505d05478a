//! Workers that are removed, and those that are killed while they rest.

use ringpost::DeadLetterCause;
use ringpost::prelude::*;

use super::{Job, MINUTE, MS, builder, hold, job};
use crate::actors::node;
use crate::cause;

/// PL-4. Both orders: the worker fails and rests before it is removed, and it fails afterwards.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_worker_that_is_removed_and_fails_handles_what_it_has_all_the_same() {
    for rests in [true, false] {
        let node = node().await;
        let (desk, builder) = builder();
        let builder = builder.restart_at_most(3, MINUTE).restart_backoff(100 * MS, MINUTE);
        let pool = builder.size(2).mailbox_capacity(16).spawn(&node, "pool").await.unwrap();
        let last = pool.workers().pop().unwrap();
        let gate = hold(&desk, &last).await;
        last.tell(super::Fail).await.unwrap();
        for number in 1..4 {
            last.tell(job(number)).await.unwrap();
        }
        if rests {
            gate.add_permits(1);
            tokio::time::sleep(MS).await;
        }
        pool.resize(1).await.unwrap();
        gate.add_permits(1);
        desk.until_done(3).await;
        assert_eq!(desk.done_by(&last), [1, 2, 3], "rests: {rests}");
        assert_eq!(last.wait_stopped().await, ActorExit::Stopped);
        assert!(last.tell(Job { key: 0, number: 4 }).await.is_err());
        assert_eq!(node.snapshot().actors.len(), 2, "the pool and its other worker");
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_worker_that_is_killed_while_it_rests_is_made_anew_all_the_same() {
    let node = node().await;
    let (desk, builder) = builder();
    let builder = builder.restart_at_most(3, MINUTE).restart_backoff(100 * MS, MINUTE);
    let pool = builder.mailbox_capacity(16).spawn(&node, "pool").await.unwrap();
    let worker = pool.workers().pop().unwrap();
    let gate = hold(&desk, &worker).await;
    worker.tell(super::Fail).await.unwrap();
    pool.tell(job(1)).await.unwrap();
    gate.add_permits(1);
    for _ in 0..3 {
        tokio::time::sleep(MS).await;
        worker.kill().await.unwrap();
    }
    assert!(desk.done().is_empty());
    let start = tokio::time::Instant::now();
    assert_eq!(pool.ask(job(2)).await, Ok(worker.address().to_string()));
    assert!(start.elapsed() > 90 * MS, "its rest is not cut short");
    assert_eq!(desk.done_by(&worker), [1, 2]);
    pool.supervisor().stop().await.unwrap();
    assert_eq!(worker.wait_stopped().await, ActorExit::Stopped);
}

/// PL-4. As one that is killed in a handler, a moment before.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_worker_that_is_killed_while_it_rests_after_its_removal_handles_what_it_has() {
    for drains in [false, true] {
        let node = node().await;
        let (desk, builder) = builder();
        let builder = builder.restart_at_most(3, MINUTE).restart_backoff(100 * MS, MINUTE);
        let pool = builder.size(2).mailbox_capacity(16).spawn(&node, "pool").await.unwrap();
        let last = pool.workers().pop().unwrap();
        let gate = hold(&desk, &last).await;
        last.tell(super::Fail).await.unwrap();
        for number in 1..4 {
            last.tell(job(number)).await.unwrap();
        }
        gate.add_permits(1);
        tokio::time::sleep(MS).await;
        if drains {
            pool.drain().await.unwrap();
        } else {
            pool.resize(1).await.unwrap();
        }
        last.kill().await.unwrap();
        assert_eq!(last.wait_stopped().await, ActorExit::Stopped, "drains: {drains}");
        assert_eq!(desk.done_by(&last), [1, 2, 3], "drains: {drains}");
        assert_eq!(node.dead_letters().count(DeadLetterCause::Stopped), 0);
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_worker_that_is_removed_while_it_rests_ends_when_it_is_stopped() {
    let node = node().await;
    let (desk, builder) = builder();
    let builder = builder.restart_at_most(3, MINUTE).restart_backoff(MINUTE, MINUTE);
    let pool = builder.size(2).mailbox_capacity(16).spawn(&node, "pool").await.unwrap();
    let last = pool.workers().pop().unwrap();
    let gate = hold(&desk, &last).await;
    last.tell(super::Fail).await.unwrap();
    gate.add_permits(1);
    tokio::time::sleep(MS).await;
    pool.resize(1).await.unwrap();
    let start = tokio::time::Instant::now();
    last.stop().await.unwrap();
    assert_eq!(last.wait_stopped().await, ActorExit::Stopped);
    assert!(start.elapsed() < MINUTE / 2, "it did not rest to the end");
}

/// PL-4. A removed worker takes no more, and handles what it has; of what it cannot, its askers are
/// told.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn askers_of_a_worker_that_is_removed_are_answered_or_told_that_it_never_begins() {
    for fails in [false, true] {
        let node = node().await;
        let (desk, builder) = builder();
        let builder = builder.restart_at_most(1, MINUTE);
        let pool = builder.size(2).mailbox_capacity(16).spawn(&node, "pool").await.unwrap();
        let last = pool.workers().pop().unwrap();
        let gate = hold(&desk, &last).await;
        let first = tokio::spawn(last.ask(job(1)).timeout(MINUTE).into_ask());
        tokio::time::sleep(MS).await;
        let failures = if fails { 2 } else { 0 };
        for _ in 0..failures {
            last.tell(super::Fail).await.unwrap();
        }
        let second = tokio::spawn(last.ask(job(2)).timeout(MINUTE).into_ask());
        tokio::time::sleep(MS).await;
        pool.resize(1).await.unwrap();
        let late = cause(last.ask(job(3)).await);
        assert_eq!(late, Err(AskCause::NotSent(Cause::Stopped)));
        gate.add_permits(1);
        let done = last.address().to_string();
        assert_eq!(first.await.unwrap(), Ok(done.clone()));
        let never = Err(AskCause::NotBegun(NotBegun::Stopped));
        let wanted = if fails { never } else { Ok(done) };
        assert_eq!(cause(second.await.unwrap()), wanted, "fails: {fails}");
        assert_eq!(last.wait_stopped().await.is_failure(), fails);
        assert_eq!(desk.done_by(&last).len(), if fails { 1 } else { 2 });
        assert_eq!(pool.ask(job(4)).await, Ok(pool.workers()[0].address().to_string()));
    }
}
