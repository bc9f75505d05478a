//! Pools: actors of one type that share the work.

mod asks;
mod drained;
mod leaving;
mod removed;
mod resting;
mod routers;
mod sizes;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use ringpost::pool::{Pool, PoolBuilder, Router, Routing};
use ringpost::prelude::*;
use tokio::sync::{Notify, Semaphore};

use crate::actors::node;
use crate::cause;

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);

/// What a test shares with all workers.
#[derive(Default)]
struct Desk {
    /// The jobs that were done, each with the address of its worker.
    done: Mutex<Vec<(String, u64)>>,
    /// How often a worker was made.
    made: AtomicU64,
    /// A permit for each job that is to wait; by the address of its worker.
    gates: Mutex<HashMap<String, Arc<Semaphore>>>,
    /// Notified when a job begins to wait.
    held: Notify,
}

impl Desk {
    fn gate(&self, worker: &str) -> Arc<Semaphore> {
        self.gates
            .lock()
            .entry(worker.into())
            .or_insert_with(|| Arc::new(Semaphore::new(0)))
            .clone()
    }

    fn done(&self) -> Vec<(String, u64)> {
        self.done.lock().clone()
    }

    /// The numbers that one worker did.
    fn done_by(&self, worker: &ActorRef<Worker>) -> Vec<u64> {
        let name = worker.address().to_string();
        self.done().into_iter().filter(|(by, _)| *by == name).map(|(_, number)| number).collect()
    }

    /// Waits until so many jobs are done.
    async fn until_done(&self, count: usize) {
        while self.done.lock().len() < count {
            tokio::time::sleep(MS).await;
        }
    }
}

#[actor]
struct Worker {
    desk: Arc<Desk>,
}

#[message]
#[derive(Debug, Clone, PartialEq)]
struct Job {
    key: u64,
    number: u64,
}

#[handlers]
impl Worker {
    /// Returns the address of the worker that did it.
    #[handler]
    fn job(&mut self, msg: Job, cx: &mut Context<Self>) -> String {
        let name = cx.actor().address().to_string();
        self.desk.done.lock().push((name.clone(), msg.number));
        name
    }

    /// Waits for a permit of its gate.
    #[handler]
    async fn hold(&mut self, cx: &mut Context<Self>) {
        let gate = self.desk.gate(&cx.actor().address().to_string());
        self.desk.held.notify_one();
        gate.acquire().await.unwrap().forget();
    }

    /// Waits for a permit of its gate, and then for the end of a router.
    #[handler(local)]
    async fn hold_and_wait(
        &mut self,
        router: ActorRef<Router<Worker, Job>>,
        cx: &mut Context<Self>,
    ) {
        self.hold(cx).await;
        router.wait_stopped().await;
    }

    #[handler]
    fn fail(&mut self) {
        panic!("as it was told")
    }

    #[handler]
    fn stop_yourself(&mut self, cx: &mut Context<Self>) {
        cx.stop();
    }

    /// Takes nothing any more, and waits for a permit of its gate.
    #[handler]
    async fn stop_and_hold(&mut self, cx: &mut Context<Self>) {
        cx.stop();
        self.hold(cx).await;
    }
}

fn builder() -> (Arc<Desk>, PoolBuilder<Worker>) {
    let desk = Arc::new(Desk::default());
    let shared = desk.clone();
    let make = move || {
        shared.made.fetch_add(1, Ordering::Relaxed);
        Worker { desk: shared.clone() }
    };
    let builder = Pool::builder(make).mailbox_capacity(1);
    (desk, builder.restart_at_most(3, MINUTE).restart_backoff(MS, MS))
}

fn job(number: u64) -> Job {
    Job { key: number, number }
}

/// Has a worker wait in a handler, with room for one more message.
async fn hold(desk: &Desk, worker: &ActorRef<Worker>) -> Arc<Semaphore> {
    worker.tell(Hold).await.unwrap();
    desk.held.notified().await;
    desk.gate(&worker.address().to_string())
}

/// Has all workers wait in a handler, with their mailboxes full.
async fn fill(desk: &Desk, pool: &Pool<Worker>) -> Vec<Arc<Semaphore>> {
    let mut gates = Vec::new();
    for worker in pool.workers() {
        gates.push(hold(desk, &worker).await);
        worker.tell(job(0)).await.unwrap();
    }
    gates
}

/// Waits until a handler of this message runs.
async fn until_in_hand(node: &Node, message: &str) {
    let is_it = |actor: &ringpost::ActorView| {
        actor.in_hand.as_ref().is_some_and(|in_hand| in_hand.name.ends_with(message))
    };
    while !node.snapshot().actors.iter().any(is_it) {
        tokio::time::sleep(MS).await;
    }
}

/// PL-1, PL-2.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn workers_take_turns_and_one_without_room_is_passed_over() {
    let node = node().await;
    let (desk, builder) = builder();
    let pool = builder.size(3).spawn(&node, "pool").await.unwrap();
    let workers = pool.workers();
    let mut turns = Vec::new();
    for number in 0..6 {
        turns.push(pool.ask(job(number)).await.unwrap());
    }
    let names: Vec<_> = workers.iter().map(|worker| worker.address().to_string()).collect();
    assert_eq!(turns, [&names[..], &names[..]].concat());
    // The second one has no room.
    let gate = hold(&desk, &workers[1]).await;
    workers[1].tell(job(100)).await.unwrap();
    for number in 6..12 {
        assert_ne!(pool.ask(job(number)).await.as_ref(), Ok(&names[1]));
        pool.tell(job(number + 10)).await.unwrap();
        desk.until_done(6 + 2 * (number as usize - 5)).await;
    }
    gate.add_permits(1);
    desk.until_done(19).await;
    assert_eq!(desk.done_by(&workers[1]), [1, 4, 100]);
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn the_least_loaded_worker_is_told() {
    let node = node().await;
    let (desk, builder) = builder();
    let builder = builder.size(3).routing(Routing::LeastLoaded).mailbox_capacity(32);
    let pool = builder.spawn(&node, "pool").await.unwrap();
    let workers = pool.workers();
    let mut gates = Vec::new();
    for (worker, waiting) in workers.iter().zip([3, 0, 5]) {
        gates.push(hold(&desk, worker).await);
        for number in 0..waiting {
            worker.tell(job(number)).await.unwrap();
        }
    }
    // Three to the second one; then it is even with the first one.
    for number in 100..103 {
        pool.try_tell(job(number)).unwrap();
    }
    // Two to each of them; then all are even.
    for number in 103..107 {
        pool.tell(job(number)).await.unwrap();
    }
    gates.iter().for_each(|gate| gate.add_permits(1));
    desk.until_done(15).await;
    assert_eq!(workers.iter().map(|worker| desk.done_by(worker).len()).collect::<Vec<_>>(), [5; 3]);
    assert!(desk.done_by(&workers[1]).starts_with(&[100, 101, 102]));
    assert_eq!(desk.done_by(&workers[2]), [0, 1, 2, 3, 4]);
}

/// Else a node that chooses keys could have all its messages meet at one worker.
#[tokio::test]
async fn the_worker_of_a_key_is_another_one_in_another_pool() {
    let node = node().await;
    let mut seen: Vec<Vec<usize>> = Vec::new();
    for name in ["first", "second"] {
        let (_desk, builder) = builder();
        let builder = builder.size(4).by_key(|job: &Job| job.key);
        let pool = builder.spawn(&node, name).await.unwrap();
        let workers = pool.workers();
        let place = |name: &str| workers.iter().position(|to| to.address().to_string() == name);
        let mut places = Vec::new();
        for key in 0..64 {
            let worker = pool.ask(Job { key, number: 0 }).await.unwrap();
            places.push(place(&worker).unwrap());
        }
        seen.push(places);
    }
    assert_ne!(seen[0], seen[1]);
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_key_has_one_worker_while_the_size_stays_and_few_change_it_with_the_size() {
    let node = node().await;
    let (desk, builder) = builder();
    let builder = builder.size(4).by_key(|job: &Job| job.key);
    let pool = builder.spawn(&node, "pool").await.unwrap();
    let place = async || {
        let mut places = Vec::new();
        for key in 0..100 {
            places.push(pool.ask(Job { key, number: 0 }).await.unwrap());
        }
        places
    };
    let four = place().await;
    assert_eq!(place().await, four);
    // Also when the worker begins anew.
    let workers = pool.workers();
    assert_eq!(cause(workers[0].fail().await), Err(AskCause::Panicked));
    assert_eq!(place().await, four);
    pool.resize(5).await.unwrap();
    let (five, added) = (place().await, pool.workers()[4].address().to_string());
    let moved = four.iter().zip(&five).filter(|(old, new)| old != new);
    let to: Vec<_> = moved.map(|(_, new)| new).collect();
    assert!((5..40).contains(&to.len()) && to.iter().all(|to| **to == added), "{to:?}");
    pool.resize(4).await.unwrap();
    assert_eq!(place().await, four);

    // A worker without room holds up its own keys alone, in their order.
    let busy = workers.iter().find(|worker| worker.address().to_string() == four[0]).unwrap();
    let gate = hold(&desk, busy).await;
    let done = desk.done.lock().len();
    pool.try_tell(Job { key: 0, number: 1_000 }).unwrap();
    let unsent = pool.try_tell(Job { key: 0, number: 1_001 }).unwrap_err();
    assert_eq!((unsent.cause, unsent.message.number), (Cause::MailboxFull, 1_001));
    let other = (1..).find(|key: &usize| four[*key] != four[0]).unwrap() as u64;
    assert_ne!(pool.ask(Job { key: other, number: 1 }).await.as_ref(), Ok(&four[0]));
    let mut waiting: Vec<_> =
        (1_001..1_010).map(|number| Box::pin(pool.tell(Job { key: 0, number }))).collect();
    for tell in &mut waiting {
        assert!(futures::poll!(tell).is_pending());
    }
    gate.add_permits(1);
    for tell in waiting {
        tell.await.unwrap();
    }
    desk.until_done(done + 11).await;
    let numbers = desk.done_by(busy);
    assert_eq!(numbers[numbers.len() - 10..], (1_000..1_010).collect::<Vec<_>>());
}

/// PL-2. It waits at all workers, and holds up none.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn what_finds_no_room_comes_back_or_goes_to_the_first_worker_that_has_some() {
    let node = node().await;
    let (desk, builder) = builder();
    let pool = builder.size(3).spawn(&node, "pool").await.unwrap();
    let workers = pool.workers();
    let gates = fill(&desk, &pool).await;
    let unsent = pool.try_tell(job(1)).unwrap_err();
    assert_eq!((unsent.cause, unsent.message), (Cause::MailboxFull, job(1)));
    let late = pool.ask(job(2)).timeout(20 * MS).await;
    assert_eq!(cause(late), Err(AskCause::NotSent(Cause::Timeout)));

    // One that is dropped sends nothing, and takes no room.
    let mut dropped = Box::pin(pool.tell(job(3)));
    let mut tell = Box::pin(pool.tell(job(4)));
    let mut ask = Box::pin(pool.ask(job(5)).timeout(MINUTE).into_future());
    assert!(futures::poll!(&mut dropped).is_pending());
    assert!(futures::poll!(&mut tell).is_pending());
    assert!(futures::poll!(&mut ask).is_pending());
    drop(dropped);
    // The third worker goes on, and the others do not.
    gates[2].add_permits(1);
    tell.await.unwrap();
    assert_eq!(ask.await, Ok(workers[2].address().to_string()));
    assert_eq!(desk.done_by(&workers[2]), [0, 4, 5]);
    assert_eq!(desk.done().len(), 3);
    for worker in &workers[..2] {
        worker.kill().await.unwrap();
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_worker_that_fails_or_stops_is_made_anew_in_its_place() {
    let node = node().await;
    let (desk, builder) = builder();
    let pool = builder.size(2).mailbox_capacity(64).spawn(&node, "pool").await.unwrap();
    let workers = pool.workers();
    let gate = hold(&desk, &workers[0]).await;
    workers[0].tell(Fail).await.unwrap();
    for number in 0..3 {
        workers[0].tell(job(number)).await.unwrap();
    }
    gate.add_permits(1);
    desk.until_done(3).await;
    assert_eq!(desk.done_by(&workers[0]), [0, 1, 2]);
    assert_eq!((pool.workers(), desk.made.load(Ordering::Relaxed)), (workers.clone(), 3));
    workers[1].tell(StopYourself).await.unwrap();
    while desk.made.load(Ordering::Relaxed) < 4 {
        tokio::time::sleep(MS).await;
    }
    while workers[1].ask(job(3)).await.is_err() {
        tokio::time::sleep(MS).await;
    }
    assert_eq!(pool.workers(), workers);
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

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn who_waits_for_a_worker_that_stops_itself_goes_on_with_the_next_one() {
    let node = node().await;
    let (desk, builder) = builder();
    let pool = builder.by_key(|job: &Job| job.key).spawn(&node, "pool").await.unwrap();
    let worker = pool.workers().remove(0);
    let gate = hold(&desk, &worker).await;
    worker.tell(StopAndHold).await.unwrap();
    // These wait for room, and then the worker takes nothing any more.
    let mut tell = Box::pin(pool.tell(job(1)));
    let mut ask = Box::pin(pool.ask(job(2)).timeout(MINUTE).into_future());
    assert!(futures::poll!(&mut tell).is_pending());
    assert!(futures::poll!(&mut ask).is_pending());
    gate.add_permits(1);
    desk.held.notified().await;
    assert!(futures::poll!(&mut tell).is_pending());
    assert!(futures::poll!(&mut ask).is_pending());
    // So do these from the beginning.
    let unsent = pool.try_tell(job(3)).unwrap_err();
    assert_eq!((unsent.cause, unsent.message), (Cause::MailboxFull, job(3)));
    let late = pool.ask(job(4)).timeout(20 * MS).await;
    assert_eq!(cause(late), Err(AskCause::NotSent(Cause::Timeout)));
    let mut second = Box::pin(pool.tell(job(5)));
    assert!(futures::poll!(&mut second).is_pending());
    gate.add_permits(1);
    let (tell, ask, second) = tokio::join!(tell, ask, second);
    tell.unwrap();
    assert_eq!(ask, Ok(worker.address().to_string()));
    second.unwrap();
    desk.until_done(3).await;
    assert_eq!(desk.made.load(Ordering::Relaxed), 2);

    // When the pool ends meanwhile, nothing is made anew.
    worker.tell(StopAndHold).await.unwrap();
    desk.held.notified().await;
    let mut tell = Box::pin(pool.tell(job(6)));
    let mut ask = Box::pin(pool.ask(job(7)).timeout(MINUTE).into_future());
    assert!(futures::poll!(&mut tell).is_pending());
    assert!(futures::poll!(&mut ask).is_pending());
    pool.supervisor().stop().await.unwrap();
    assert_eq!(pool.try_tell(job(8)).unwrap_err().cause, Cause::Stopped);
    gate.add_permits(1);
    let unsent = tell.await.unwrap_err();
    assert_eq!((unsent.cause, unsent.message), (Cause::Stopped, job(6)));
    assert_eq!(cause(ask.await), Err(AskCause::NotSent(Cause::Stopped)));
}
