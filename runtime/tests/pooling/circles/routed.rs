//! Workers that ask a router of their own pool.

use std::sync::{Arc, OnceLock};

use futures::future::join_all;
use ringpost::limits;
use ringpost::pool::{Pool, Router};
use ringpost::prelude::*;
use tokio::sync::Semaphore;

use super::super::MINUTE;
use super::{AskRouter, Team, settle, until_in_hand};
use crate::actors::node;

/// The first worker asks the router, the second one is full, and the third one takes nothing, or is
/// removed. Then the pool changes: the ask waits for a worker that does not wait for it, though the
/// first one has room.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn an_ask_by_way_of_a_router_goes_to_no_worker_that_waits_for_it() {
    for stops in [false, true] {
        let team = Team::new().await;
        let [first, second, third] = &team.workers;
        let router = team.node.spawn("router", team.pool.router()).await.unwrap();
        let gates = [team.hold(1, false).await, team.hold(2, stops).await];
        let gate = Arc::new(Semaphore::new(1));
        let mut asked = first.ask(AskRouter { router, gate }).timeout(9 * MINUTE);
        assert!(futures::poll!(&mut asked).is_pending());
        settle().await;
        if !stops {
            team.pool.resize(2).await.unwrap();
        }
        gates[1].add_permits(1);
        if !stops {
            settle().await;
            assert!(futures::poll!(&mut asked).is_pending());
            gates[0].add_permits(1);
        }
        let answers = if stops { third } else { second };
        assert_eq!(asked.await, Ok(answers.address().to_string()), "stops: {stops}");
    }
}

/// The first worker waits for an ask that waits in the mailbox of the second one, which asks the
/// router, too: that closes the circle, and the first one is answered.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn workers_that_wait_for_each_other_by_way_of_a_router_are_told_at_once() {
    let team = Team::new().await;
    let [first, second, _] = &team.workers;
    let router = team.node.spawn("router", team.pool.router()).await.unwrap();
    let held = team.hold(2, false).await;
    let [open, gate] = [1, 0].map(|permits| Arc::new(Semaphore::new(permits)));
    let late = AskRouter { router: router.clone(), gate: gate.clone() };
    let late = tokio::spawn(second.ask(late).timeout(9 * MINUTE).into_ask());
    until_in_hand(&team.node, "AskRouter").await;
    let asked = AskRouter { router, gate: open };
    let asked = tokio::spawn(first.ask(asked).timeout(9 * MINUTE).into_ask());
    settle().await;
    let start = tokio::time::Instant::now();
    gate.add_permits(1);
    // The third one may still take it.
    settle().await;
    assert!(!late.is_finished());
    // Now that waits, too.
    team.pool.resize(2).await.unwrap();
    assert_eq!(late.await.unwrap(), Ok(AskCause::NoReply.to_string()));
    assert_eq!(asked.await.unwrap(), Ok(second.address().to_string()));
    assert!(start.elapsed() < MINUTE / 2);
    drop(held);
}

/// Has other workers of its own pool do a part of the work, by way of a router.
#[actor]
struct Splitter {
    router: Arc<OnceLock<ActorRef<Router<Splitter, Split>>>>,
}

#[handlers]
impl Splitter {
    /// Returns how many others answered, each asked by the one before.
    #[handler]
    async fn split(&mut self, parts: u64) -> Result<u64, String> {
        if parts == 0 {
            return Ok(0);
        }
        let router = self.router.get().expect("it was spawned");
        match router.ask(Split { parts: parts - 1 }).timeout(MINUTE / 6).await {
            Ok(others) => others.map(|others| others + 1),
            Err(error) => Err(error.cause.to_string()),
        }
    }
}

/// Spawns a pool of splitters and their router, which has so many messages in hand at most.
async fn splitters(
    size: usize,
    waiting_max: usize,
) -> (Node, Pool<Splitter>, ActorRef<Router<Splitter, Split>>) {
    splitters_of(size, waiting_max, limits::POOL_MAILBOX_CAPACITY).await
}

/// As [`splitters`], with room for so many messages in each mailbox.
async fn splitters_of(
    size: usize,
    waiting_max: usize,
    capacity: usize,
) -> (Node, Pool<Splitter>, ActorRef<Router<Splitter, Split>>) {
    let node = node().await;
    let cell = Arc::new(OnceLock::new());
    let own = cell.clone();
    let pool = Pool::builder(move || Splitter { router: own.clone() }).size(size);
    let pool = pool.mailbox_capacity(capacity).spawn(&node, "pool").await.unwrap();
    let router = pool.router::<Split>().waiting_max(waiting_max);
    let router = node.spawn("router", router).await.unwrap();
    assert!(cell.set(router.clone()).is_ok());
    (node, pool, router)
}

/// The ask of a program has all the room of the router until it is answered, and those of the
/// workers that answer it need none.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn an_ask_for_which_a_worker_waits_does_not_wait_for_room_of_a_router() {
    let (_node, _pool, router) = splitters(4, 1).await;
    for _ in 0..8 {
        assert_eq!(router.ask(Split { parts: 3 }).timeout(MINUTE).await, Ok(Ok(3)));
    }
}

/// The only worker asks a router that is busy, on several threads: it is told each time that it
/// would wait for itself.
// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_worker_that_asks_a_busy_router_of_its_own_is_told_at_once() {
    let (_node, pool, router) = splitters(1, 1_000).await;
    let busy: Vec<_> = (0..3)
        .map(|_| {
            let router = router.clone();
            tokio::spawn(async move {
                loop {
                    router.ask(Split { parts: 0 }).await.unwrap().unwrap();
                }
            })
        })
        .collect();
    for round in 0..5_000 {
        let answer = pool.ask(Split { parts: 1 }).timeout(MINUTE).await;
        assert_eq!(answer, Ok(Err(AskCause::NoReply.to_string())), "round {round}");
    }
    busy.iter().for_each(|task| task.abort());
}

/// More ask at a time than there are workers, and each of these has room for one message: some are
/// told that all would wait for each other, and none waits for its time-out.
// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn workers_that_all_ask_a_router_wait_for_no_time_out() {
    for size in 1..4 {
        let (_node, _pool, router) = splitters_of(size, 1_000, 1).await;
        let ask = |parts| {
            let router = router.clone();
            tokio::spawn(async move {
                let mut refused = 0;
                for round in 0..1_000 {
                    match router.ask(Split { parts }).timeout(MINUTE).await.unwrap() {
                        Ok(others) => assert_eq!(others, parts),
                        Err(error) => {
                            assert_eq!(error, AskCause::NoReply.to_string(), "round {round}");
                            refused += 1;
                        }
                    }
                }
                refused
            })
        };
        let refused = join_all([1, 1, 2, 2, 3, 0].map(ask)).await;
        let refused: u64 = refused.into_iter().map(Result::unwrap).sum();
        assert!(refused > 0, "size: {size}");
    }
}

/// Two of four workers ask the router at a time: there is always one that answers, and no wait for
/// the router closes a circle.
// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn workers_that_ask_a_router_are_told_of_no_circle_that_is_none() {
    let (_node, _pool, router) = splitters(4, 1_000).await;
    let ask = |parts| {
        let router = router.clone();
        tokio::spawn(async move {
            for round in 0..5_000 {
                let answer = router.ask(Split { parts }).timeout(MINUTE).await;
                assert_eq!(answer, Ok(Ok(parts)), "round {round}");
            }
        })
    };
    for asked in join_all([1, 1, 0, 0].map(ask)).await {
        asked.unwrap();
    }
}
