//! Pools: actors of one type that share the work.

mod ends;
mod routers;
mod sizes;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use ringpost::pool::{Pool, PoolBuilder, Routing};
use ringpost::prelude::*;
use ringpost::send::AskSet;
use tokio::sync::{Notify, Semaphore};

use crate::actors::node;
use crate::cause;

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);

/// The state that a test shares with all workers.
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

    /// Waits until `count` jobs are done.
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

/// Makes a worker wait in a handler, with room for one more message.
async fn hold(desk: &Desk, worker: &ActorRef<Worker>) -> Arc<Semaphore> {
    worker.tell(Hold).await.unwrap();
    desk.held.notified().await;
    desk.gate(&worker.address().to_string())
}

/// Makes all workers wait in a handler, with their mailboxes full.
async fn fill(desk: &Desk, pool: &Pool<Worker>) -> Vec<Arc<Semaphore>> {
    let mut gates = Vec::new();
    for worker in pool.workers() {
        gates.push(hold(desk, &worker).await);
        worker.tell(job(0)).await.unwrap();
    }
    gates
}

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
    let (_desk, builder) = builder();
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
    // Also when the worker is restarted.
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
}

/// It waits at all workers, and holds up none.
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

    // A send that is dropped sends nothing, and takes no room.
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

/// Leaves its work to the workers of a pool.
#[actor]
struct Clerk {
    pool: Pool<Worker>,
    answers: Vec<String>,
}

#[handlers]
impl Clerk {
    /// Pipes the answer into a turn of its own.
    #[handler]
    fn note_answer(&mut self, number: u64, cx: &mut Context<Self>) {
        let asked = self.pool.ask(job(number)).into_ask();
        cx.pipe(asked, |clerk, answer, _| clerk.answers.push(answer.unwrap()));
    }

    /// Forwards the ask to a worker, which answers it.
    #[handler]
    fn pass_on(&mut self, number: u64, reply: ReplyTo<String>) {
        reply.forward(&self.pool, job(number));
    }

    #[handler]
    fn answers(&self) -> Vec<String> {
        self.answers.clone()
    }
}

#[tokio::test]
async fn an_ask_of_a_pool_is_piped_forwarded_and_awaited_with_others() {
    let node = node().await;
    let (desk, builder) = builder();
    let pool = builder.mailbox_capacity(8).spawn(&node, "pool").await.unwrap();
    let worker = pool.workers()[0].address().to_string();
    let clerk = Clerk { pool: pool.clone(), answers: Vec::new() };
    let clerk = node.spawn("clerk", clerk).await.unwrap();
    clerk.note_answer(1).await.unwrap();
    assert_eq!(clerk.pass_on(2).await, Ok(worker.clone()));
    while clerk.answers().await.unwrap() != [worker.clone()] {
        tokio::time::sleep(MS).await;
    }
    // They own the pool; an ask that borrows it is in a set, too.
    let mut asks: AskSet<String> =
        (3..6).map(|number| pool.clone().ask(job(number)).into_ask()).collect();
    assert_eq!(asks.push(pool.ask(job(6))), 3);
    let answers = asks.first(4).await.unwrap();
    assert!(answers.iter().all(|(_, answer)| *answer == worker), "{answers:?}");
    assert_eq!(desk.done_by(&pool.workers()[0]), [1, 2, 3, 4, 5, 6]);
    // Its time counts from the first poll.
    let late = pool.ask(job(7)).timeout(5 * MS).into_ask();
    tokio::time::sleep(10 * MS).await;
    assert_eq!(late.await, Ok(worker.clone()));
    let asked = pool.clone();
    let blocking = tokio::task::spawn_blocking(move || asked.ask(job(8)).blocking());
    assert_eq!(blocking.await.unwrap(), Ok(worker));
    let failed = pool.ask(Fail).into_ask().await;
    assert_eq!(cause(failed), Err(AskCause::Panicked));
}

/// Has workers of its own pool do a part of the work.
#[actor]
struct Splitter {
    pool: Arc<OnceLock<Pool<Splitter>>>,
}

#[handlers]
impl Splitter {
    /// Returns how many others answered, each asked by the one before.
    #[handler]
    async fn split(&mut self, parts: u64) -> Result<u64, String> {
        if parts == 0 {
            return Ok(0);
        }
        let pool = self.pool.get().expect("it was spawned");
        match pool.ask(Split { parts: parts - 1 }).await {
            Ok(others) => others.map(|others| others + 1),
            Err(error) => Err(error.to_string()),
        }
    }
}

#[tokio::test]
async fn a_worker_that_asks_its_pool_is_answered_by_one_that_does_not_wait_for_it() {
    let node = node().await;
    let cell = Arc::new(OnceLock::new());
    let own = cell.clone();
    let pool = Pool::builder(move || Splitter { pool: own.clone() });
    let pool = pool.size(4).spawn(&node, "pool").await.unwrap();
    assert!(cell.set(pool.clone()).is_ok());
    // Each worker is the first to be looked at for each part once.
    for _ in 0..16 {
        assert_eq!(pool.ask(Split { parts: 3 }).await, Ok(Ok(3)));
    }
    let error = pool.ask(Split { parts: 4 }).await.unwrap().unwrap_err();
    assert!(error.contains("wait"), "{error}");
    drop(cell);
}
