//! Routers: actors that hand messages to the workers of a pool.

use ringpost::NotBegun;
use ringpost::observe::DeadLetterCause;
use ringpost::prelude::*;
use ringpost::spawn::SpawnOptions;
use tokio::time::timeout;

use super::{Job, MINUTE, MS, builder, fill, hold, job};
use crate::actors::node;
use crate::cause;

/// The router waits for no answer. Messages behind a full worker wait in its mailbox, and then its
/// senders wait.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_router_hands_over_in_order_and_its_mailbox_bounds_what_waits() {
    let node = node().await;
    let (desk, builder) = builder();
    let pool = builder.by_key(|job: &Job| job.key).spawn(&node, "pool").await.unwrap();
    let options = SpawnOptions::named("jobs").mailbox_capacity(2);
    let router = node.spawn_with(options, pool.router::<Job>()).await.unwrap();
    let gate = hold(&desk, &pool.workers()[0]).await;
    let mut sent = 0;
    while router.try_tell(job(sent)).is_ok() {
        sent += 1;
        tokio::time::sleep(MS).await;
    }
    // One waits at the worker, one is in the router's hand, and two are in its mailbox.
    assert_eq!(sent, 4);
    let last = router.ask(job(sent)).timeout(MINUTE).into_ask();
    let (last, ()) = tokio::join!(last, async { gate.add_permits(1) });
    assert_eq!(last, Ok(pool.workers()[0].address().to_string()));
    assert_eq!(desk.done_by(&pool.workers()[0]), [0, 1, 2, 3, 4]);
}

/// An ask whose asker has gone is not begun.
#[tokio::test(start_paused = true)]
async fn an_ask_that_is_given_up_does_not_hold_up_its_router() {
    let node = node().await;
    let (desk, builder) = builder();
    let pool = builder.spawn(&node, "pool").await.unwrap();
    let router = node.spawn("jobs", pool.router::<Job>()).await.unwrap();
    let gate = fill(&desk, &pool).await.remove(0);
    timeout(MS, router.ask(job(9)).timeout(MINUTE)).await.unwrap_err();
    router.tell(job(1)).await.unwrap();
    gate.add_permits(1);
    desk.until_done(2).await;
    assert_eq!(desk.done_by(&pool.workers()[0]), [0, 1]);
}

#[tokio::test]
async fn a_router_that_is_drained_ends_when_workers_have_all_of_it() {
    let node = node().await;
    let (desk, builder) = builder();
    let pool = builder.mailbox_capacity(2).spawn(&node, "pool").await.unwrap();
    let router = node.spawn("jobs", pool.router::<Job>()).await.unwrap();
    let gate = hold(&desk, &pool.workers()[0]).await;
    router.tell(job(1)).await.unwrap();
    let asked = tokio::spawn(router.ask(job(2)).timeout(MINUTE).into_ask());
    tokio::task::yield_now().await;
    router.drain().await.unwrap();
    assert_eq!(router.wait_stopped().await, ActorExit::Stopped);
    pool.drain().await.unwrap();
    gate.add_permits(1);
    // The answer goes on without the router.
    assert!(asked.await.unwrap().is_ok());
    assert_eq!(desk.done().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_router_that_was_sent_nothing_ends_with_its_pool() {
    for drains in [false, true] {
        let node = node().await;
        let (_desk, builder) = builder();
        let pool = builder.spawn(&node, "pool").await.unwrap();
        let router = node.spawn("jobs", pool.router::<Job>()).await.unwrap();
        if drains {
            pool.drain().await.unwrap();
        } else {
            pool.supervisor().stop().await.unwrap();
        }
        assert_eq!(timeout(MINUTE, router.wait_stopped()).await, Ok(ActorExit::Stopped));
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn what_a_router_was_told_and_no_worker_takes_is_a_dead_letter() {
    let node = node().await;
    let (desk, builder) = builder();
    let pool = builder.spawn(&node, "pool").await.unwrap();
    let router = node.spawn("jobs", pool.router::<Job>()).await.unwrap();
    let gate = fill(&desk, &pool).await.remove(0);
    router.tell(job(1)).await.unwrap();
    let mut ask = router.ask(job(2)).timeout(MINUTE);
    assert!(futures::poll!(&mut ask).is_pending());
    let mut letters = node.dead_letters().subscribe();
    pool.supervisor().stop().await.unwrap();
    gate.add_permits(1);
    assert_eq!(cause(ask.await), Err(AskCause::NotBegun(NotBegun::Stopped)));
    let letter = loop {
        let letter = letters.recv().await.unwrap();
        if letter.to == *pool.supervisor().address() {
            break letter;
        }
    };
    assert_eq!((letter.message, letter.cause), (Job::ID, DeadLetterCause::Stopped));
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_router_keeps_the_order_of_a_key_on_several_threads() {
    let node = node().await;
    let (desk, builder) = builder();
    let builder = builder.size(2).mailbox_capacity(64).by_key(|job: &Job| job.key);
    let pool = builder.spawn(&node, "pool").await.unwrap();
    let router = node.spawn("jobs", pool.router::<Job>()).await.unwrap();
    let mut sent = 0;
    for round in 1..=20 {
        let mut gates = Vec::new();
        for worker in pool.workers() {
            gates.push(hold(&desk, &worker).await);
        }
        while sent < round * 500 {
            let told = Job { key: sent % 4, number: sent };
            if sent % 7 == 0 {
                // The answer is not awaited: the ask is handled, or skipped.
                drop(router.ask(told).try_send().map_err(|unsent| unsent.cause));
            } else {
                router.tell(told).await.unwrap();
            }
            sent += 1;
        }
        gates.iter().for_each(|gate| gate.add_permits(1));
        // The tells.
        let told = (0..sent).filter(|number| number % 7 != 0).count();
        while desk.done().iter().filter(|(_, number)| number % 7 != 0).count() < told {
            tokio::time::sleep(MS).await;
        }
    }
    for key in 0..4 {
        let done = desk.done().into_iter().map(|(_, number)| number);
        let done: Vec<_> = done.filter(|number| number % 4 == key).collect();
        assert!(done.is_sorted(), "{key}: {done:?}");
    }
}
