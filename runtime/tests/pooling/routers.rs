//! Routers: actors that hand messages to the workers of a pool.

use futures::future::join_all;
use ringpost::pool::{Pool, PoolSupervisor, Router};
use ringpost::prelude::*;
use ringpost::{DeadLetterCause, limits};
use tokio::time::timeout;

use super::{HoldAndWait, Job, MINUTE, MS, StopAndHold, Worker, builder, fill, hold, job};
use crate::actors::node;
use crate::cause;

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_router_hands_over_in_order_and_is_not_held_up_by_a_worker() {
    let node = node().await;
    let (desk, builder) = builder();
    let pool = builder.size(2).by_key(|job: &Job| job.key).spawn(&node, "pool").await.unwrap();
    let router = node.spawn("jobs", pool.router::<Job>()).await.unwrap();
    let of = async |key| router.ask(Job { key, number: 0 }).await.unwrap();
    let (busy, other) = apart(&pool, &router).await;
    let (busy, first) = (&busy, busy.address().to_string());
    let gate = hold(&desk, busy).await;
    let done = desk.done_by(busy).len();
    for number in 1..100 {
        router.tell(Job { key: 0, number }).await.unwrap();
    }
    let last = router.ask(Job { key: 0, number: 100 }).into_ask();
    let (last, ()) = tokio::join!(last, async {
        // The router goes on, also while an answer is not there.
        assert_ne!(of(other).await, first);
        gate.add_permits(1);
    });
    assert_eq!(last, Ok(first));
    assert_eq!(desk.done_by(busy)[done..], (1..=100).collect::<Vec<_>>());
    // It stops after its pool.
    pool.supervisor().stop().await.unwrap();
    pool.supervisor().wait_stopped().await;
    assert_eq!(router.wait_stopped().await, ActorExit::Stopped);
}

/// Returns the worker of the key 0, and a key that has another one.
async fn apart(
    pool: &Pool<Worker>,
    router: &ActorRef<Router<Worker, Job>>,
) -> (ActorRef<Worker>, u64) {
    let of = async |key| router.ask(Job { key, number: 0 }).await.unwrap();
    let first = of(0).await;
    let mut other = 1;
    while of(other).await == first {
        other += 1;
    }
    let workers = pool.workers();
    let first = workers.into_iter().find(|worker| worker.address().to_string() == first);
    (first.unwrap(), other)
}

/// Asks of one key that were given up wait no longer behind a tell that waits for their worker:
/// other keys have their room, and the order of the key is as before.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn asks_that_are_given_up_do_not_hold_up_a_router() {
    let node = node().await;
    let (desk, builder) = builder();
    let pool = builder.size(2).by_key(|job: &Job| job.key).spawn(&node, "pool").await.unwrap();
    let router = node.spawn("jobs", pool.router::<Job>()).await.unwrap();
    let (busy, other) = apart(&pool, &router).await;
    let gate = hold(&desk, &busy).await;
    let done = desk.done_by(&busy).len();
    // The first one fills the mailbox, and the second one waits for room.
    for number in 1..3 {
        router.tell(Job { key: 0, number }).await.unwrap();
    }
    let asks = |time| {
        let router = &router;
        let ask = move |_| router.ask(Job { key: 0, number: 9 }).timeout(time);
        join_all((0..limits::ROUTER_WAITING_MAX).map(ask))
    };
    // Some are given up by their time-outs, and others by their askers.
    for asked in asks(MS).await {
        asked.unwrap_err();
    }
    timeout(MS, asks(MINUTE)).await.unwrap_err();
    for _ in 0..3 {
        let name = router.ask(Job { key: other, number: 0 }).await.unwrap();
        assert_ne!(name, busy.address().to_string());
    }
    router.tell(Job { key: 0, number: 3 }).await.unwrap();
    let last = router.ask(Job { key: 0, number: 4 }).timeout(MINUTE);
    let (last, ()) = tokio::join!(last, async { gate.add_permits(1) });
    assert_eq!(last, Ok(busy.address().to_string()));
    assert_eq!(desk.done_by(&busy)[done..], [1, 2, 3, 4]);
}

/// They have no key: they wait for no worker any longer, and none handles them.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn asks_without_a_key_that_are_given_up_do_not_hold_up_a_router() {
    let node = node().await;
    let (desk, builder) = builder();
    let pool = builder.spawn(&node, "pool").await.unwrap();
    let options = SpawnOptions::named("jobs").mailbox_capacity(1);
    let router = node.spawn_with(options, pool.router::<Job>().waiting_max(2)).await.unwrap();
    let gate = fill(&desk, &pool).await.remove(0);
    for _ in 0..3 {
        let asks = join_all([9, 9].map(|number| router.ask(job(number)).timeout(MINUTE)));
        timeout(MS, asks).await.unwrap_err();
    }
    let mut sent = 0;
    while router.try_tell(job(sent)).is_ok() {
        sent += 1;
        tokio::time::sleep(MS).await;
    }
    // Two are in hand, one waits in its handler, and one in its mailbox.
    assert_eq!(sent, 4);
    gate.add_permits(1);
    desk.until_done(5).await;
    assert!(desk.done().iter().all(|(_, number)| *number != 9), "{:?}", desk.done());
}

/// An ask that is given up while its router has no room for it makes way for what is behind it.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn an_ask_that_is_given_up_while_a_router_has_no_room_makes_way() {
    let node = node().await;
    let (desk, builder) = builder();
    let pool = builder.spawn(&node, "pool").await.unwrap();
    let options = SpawnOptions::named("jobs").mailbox_capacity(1);
    let router = node.spawn_with(options, pool.router::<Job>().waiting_max(1)).await.unwrap();
    let gate = fill(&desk, &pool).await.remove(0);
    router.tell(job(1)).await.unwrap();
    tokio::time::sleep(MS).await;
    timeout(MS, router.ask(job(9)).timeout(MINUTE)).await.unwrap_err();
    // One has the room, one waits for it, and one is in the mailbox.
    for number in 2..4 {
        router.try_tell(job(number)).unwrap();
        tokio::time::sleep(MS).await;
    }
    gate.add_permits(1);
    desk.until_done(4).await;
    assert!(desk.done().iter().all(|(_, number)| *number != 9), "{:?}", desk.done());
}

/// Two keys of one place have two workers when the pool has grown. The one that moves does not wait
/// for the one that stays, also where the old worker waits for the end of the router.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_message_whose_key_moves_to_a_new_worker_does_not_wait_for_those_that_stay() {
    for waits in [false, true] {
        let node = node().await;
        let (desk, builder) = builder();
        let described = builder.size(2).by_key(|job: &Job| job.key);
        let pool = described.spawn(&node, "pool").await.unwrap();
        let place = async |key| {
            let answered = pool.ask(Job { key, number: 0 }).await.unwrap();
            pool.workers().iter().position(|worker| worker.address().to_string() == answered)
        };
        let [mut stays, mut moves] = [0, 0];
        while place(stays).await != Some(0) {
            stays += 1;
        }
        while place(moves).await != Some(1) {
            moves += 1;
        }
        pool.resize(1).await.unwrap();
        desk.done.lock().clear();
        let router = node.spawn("jobs", pool.router::<Job>()).await.unwrap();
        let old = pool.workers().remove(0);
        old.tell(HoldAndWait { router: router.clone() }).await.unwrap();
        desk.held.notified().await;
        old.tell(job(0)).await.unwrap();
        router.tell(Job { key: stays, number: 1 }).await.unwrap();
        let asked = router.ask(Job { key: moves, number: 2 }).timeout(MINUTE);
        let asked = tokio::spawn(asked.into_ask());
        tokio::time::sleep(MS).await;
        let start = tokio::time::Instant::now();
        pool.resize(2).await.unwrap();
        let gate = desk.gate(&old.address().to_string());
        if waits {
            gate.add_permits(1);
            tokio::time::sleep(MS).await;
            router.drain().await.unwrap();
            assert_eq!(router.wait_stopped().await, ActorExit::Stopped);
        }
        let new = pool.workers()[1].address().to_string();
        assert_eq!(asked.await.unwrap(), Ok(new), "waits: {waits}");
        assert!(start.elapsed() < MINUTE / 2, "waits: {waits}");
        gate.add_permits(1);
        router.drain().await.unwrap();
        desk.until_done(3).await;
        assert_eq!(desk.done_by(&old), [0, 1]);
    }
}

/// Then as many wait in its mailbox as that has room for, and then senders do.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_router_has_no_more_messages_in_hand_than_it_is_to() {
    let most = limits::ROUTER_WAITING_MAX;
    for (set, in_hand) in [(Some(0), 1), (Some(2), 2), (Some(most + 1), most), (None, most)] {
        let node = node().await;
        let (desk, builder) = builder();
        let pool = builder.spawn(&node, "pool").await.unwrap();
        let router = pool.router::<Job>();
        let router = set.into_iter().fold(router, Router::waiting_max);
        let options = SpawnOptions::named("jobs").mailbox_capacity(1);
        let router = node.spawn_with(options, router).await.unwrap();
        let gate = fill(&desk, &pool).await.remove(0);
        let mut sent = 0;
        while router.try_tell(job(sent)).is_ok() {
            sent += 1;
            tokio::time::sleep(MS).await;
        }
        // One waits in its handler, and one in its mailbox.
        assert_eq!(sent, in_hand as u64 + 2, "set: {set:?}");
        gate.add_permits(1);
        desk.until_done(in_hand + 3).await;
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_router_that_is_drained_hands_over_all_that_it_has() {
    let node = node().await;
    let (desk, builder) = builder();
    let pool = builder.by_key(|job: &Job| job.key).spawn(&node, "pool").await.unwrap();
    let router = node.spawn("jobs", pool.router::<Job>()).await.unwrap();
    let gate = fill(&desk, &pool).await.remove(0);
    // More than it has in hand at once: it waits in its handler, and others in its mailbox.
    let last = limits::ROUTER_WAITING_MAX as u64 + 100;
    for number in 1..last {
        router.tell(Job { key: 0, number }).await.unwrap();
    }
    let mut ask = router.ask(Job { key: 0, number: last }).timeout(2 * MINUTE);
    assert!(futures::poll!(&mut ask).is_pending());
    router.drain().await.unwrap();
    // It has ended when a worker has all of it.
    let mut ends = Box::pin(router.wait_stopped());
    assert!(timeout(MINUTE, &mut ends).await.is_err());
    assert_eq!(desk.done().len(), 0);
    gate.add_permits(1);
    assert_eq!(ends.await, ActorExit::Stopped);
    assert_eq!(ask.await, Ok(pool.workers()[0].address().to_string()));
    assert_eq!(desk.done_by(&pool.workers()[0]), (0..=last).collect::<Vec<_>>());
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_pool_that_is_drained_after_its_router_has_ended_handles_what_that_had() {
    let node = node().await;
    let (desk, builder) = builder();
    let pool = builder.spawn(&node, "pool").await.unwrap();
    let router = node.spawn("jobs", pool.router::<Job>()).await.unwrap();
    let gate = fill(&desk, &pool).await.remove(0);
    for number in 1..=100 {
        router.tell(job(number)).await.unwrap();
    }
    let ask = router.ask(job(101)).timeout(MINUTE);
    let (asked, exit, ()) = tokio::join!(
        ask,
        async {
            router.drain().await.unwrap();
            let exit = router.wait_stopped().await;
            pool.drain().await.unwrap();
            exit
        },
        async {
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
            gate.add_permits(1);
        },
    );
    assert_eq!(asked, Ok(pool.workers()[0].address().to_string()));
    assert_eq!(exit, ActorExit::Stopped);
    assert_eq!(pool.supervisor().wait_stopped().await, ActorExit::Stopped);
    let mut done = desk.done_by(&pool.workers()[0]);
    done.sort_unstable();
    assert_eq!(done, (0..=101).collect::<Vec<_>>());
    assert_eq!(node.dead_letters().count(DeadLetterCause::Stopped), 0);
}

/// Messages that it has in hand go on without it.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_router_that_is_stopped_while_it_is_drained_ends_at_once() {
    let node = node().await;
    let (desk, builder) = builder();
    let pool = builder.spawn(&node, "pool").await.unwrap();
    let router = node.spawn("jobs", pool.router::<Job>()).await.unwrap();
    let gate = fill(&desk, &pool).await.remove(0);
    router.tell(job(1)).await.unwrap();
    router.drain().await.unwrap();
    assert!(timeout(MINUTE, router.wait_stopped()).await.is_err());
    router.stop().await.unwrap();
    assert_eq!(router.wait_stopped().await, ActorExit::Stopped);
    gate.add_permits(1);
    desk.until_done(2).await;
}

// Promised in docs/SEMANTICS.md.
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

/// Has a pool and its router as children that end all at once.
#[derive(Default)]
struct Office {
    pool: Option<(Pool<Worker>, Child<PoolSupervisor>)>,
}

#[actor]
impl Actor for Office {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        let (pool, child) = self.pool.take().expect("it starts once");
        cx.spawn(child).await?;
        cx.spawn(Child::new(move || pool.router::<Job>()).named("jobs")).await?;
        Ok(())
    }
}

#[handlers]
impl Office {}

/// The pool takes what its router has, and only then nothing more: also where a keyed message may
/// go to one worker alone, where both are children of an actor, and where the workers stop
/// themselves and take nothing for a while.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_shutdown_has_routers_hand_over_what_they_have() {
    let [plain, keyed, family, stopping] = [0, 1, 2, 3];
    for case in [plain, keyed, family, stopping] {
        let (is_keyed, is_family) = (case == keyed, case == family);
        let node = node().await;
        let (desk, builder) = builder();
        let builder = if is_keyed { builder.by_key(|job: &Job| job.key) } else { builder };
        let (pool, child) = builder.size(2).child(&node, "pool").unwrap();
        if is_family {
            let office = Office { pool: Some((pool.clone(), child)) };
            node.spawn("office", office).await.unwrap();
        } else {
            node.supervise(child).await.unwrap();
            node.spawn("jobs", pool.router::<Job>()).await.unwrap();
        }
        let router: Recipient<Job, String> = node.recipient("alpha/jobs").await.unwrap();
        let gates = fill(&desk, &pool).await;
        if case == stopping {
            for (worker, gate) in pool.workers().iter().zip(&gates) {
                gate.add_permits(1);
                worker.tell(StopAndHold).await.unwrap();
                desk.held.notified().await;
            }
        }
        // More than it has in hand at once: it waits in its handler, and others in its mailbox.
        let last = limits::ROUTER_WAITING_MAX as u64 + 100;
        for number in 1..last {
            router.tell(job(number)).await.unwrap();
        }
        let asked = tokio::spawn(router.ask(job(last)).timeout(MINUTE).into_ask());
        tokio::time::sleep(MS).await;
        let ends = node.clone();
        let shutdown = tokio::spawn(async move { ends.shutdown(MINUTE).await });
        // They have ended as far as they can.
        tokio::time::sleep(MS).await;
        gates.iter().for_each(|gate| gate.add_permits(1));
        assert_eq!(shutdown.await.unwrap(), []);
        asked.await.unwrap().expect("a worker answers");
        // Those of the router, and the ones that the workers had.
        assert_eq!(node.dead_letters().count(DeadLetterCause::Stopped), 0);
        let mut done: Vec<u64> = desk.done().into_iter().map(|(_, number)| number).collect();
        done.sort_unstable();
        let wanted: Vec<u64> = [0].into_iter().chain(0..=last).collect();
        assert_eq!(done, wanted, "case {case}");
    }
}

/// A worker that never takes what its router has is killed with it at the deadline, and no other
/// pool waits for that.
// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_a_router_up_to_its_deadline() {
    let node = node().await;
    let (desk, stuck) = builder();
    let stuck = stuck.spawn(&node, "stuck").await.unwrap();
    let (_desk, other) = builder();
    let other = other.spawn(&node, "other").await.unwrap();
    for (name, pool) in [("first", &stuck), ("second", &other)] {
        node.spawn(name, pool.router::<Job>()).await.unwrap();
    }
    fill(&desk, &stuck).await;
    let router: Recipient<Job, String> = node.recipient("alpha/first").await.unwrap();
    router.tell(job(1)).await.unwrap();
    let ends = node.clone();
    let shutdown = tokio::spawn(async move { ends.shutdown(MINUTE).await });
    assert_eq!(other.supervisor().wait_stopped().await, ActorExit::Stopped);
    assert!(futures::poll!(Box::pin(stuck.supervisor().wait_stopped())).is_pending());
    let killed: Vec<String> = shutdown.await.unwrap().iter().map(ToString::to_string).collect();
    let has = |name: &str| killed.iter().any(|killed| killed.contains(name));
    assert!(has("stuck") && has("first") && !has("other") && !has("second"), "{killed:?}");
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
                // Nobody waits for the answer: it is handled, or skipped.
                drop(router.ask(told).try_send().map_err(|unsent| unsent.cause));
            } else {
                router.tell(told).await.unwrap();
            }
            sent += 1;
        }
        gates.iter().for_each(|gate| gate.add_permits(1));
        // Those that were told.
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
