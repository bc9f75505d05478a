//! Asks of a pool where those of an actor are used, and sends while workers end.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use ringpost::AskSet;
use ringpost::pool::Pool;
use ringpost::prelude::*;

use super::{Fail, Job, MINUTE, MS, StopYourself, Worker, builder, fill, job};
use crate::actors::node;
use crate::cause;

/// Has the workers of a pool do what it is asked for.
#[actor]
struct Clerk {
    pool: Pool<Worker>,
    answers: Vec<String>,
}

#[handlers]
impl Clerk {
    /// Has the answer come in its own turn.
    #[handler]
    fn note_answer(&mut self, number: u64, cx: &mut Context<Self>) {
        let asked = self.pool.ask(job(number)).into_ask();
        cx.pipe(asked, |clerk, answer, _| clerk.answers.push(answer.unwrap()));
    }

    /// Has a worker answer in its place.
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
    // They own the pool; and one that borrows it is in a set, too.
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

/// PL-1. A worker that has room when it is stopped is passed over; what it has by then it handles
/// when it was made anew. (A stop in the very moment in which the message is put there makes a dead
/// letter of it: never does a message get lost without one, nor is one handled twice.)
// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_sent_while_workers_stop_is_handled_once_or_a_dead_letter() {
    const SENDERS: u64 = 4;
    const EACH: u64 = 400;
    let node = node().await;
    let (desk, builder) = builder();
    let builder = builder.size(2).restart_at_most(u32::MAX, MINUTE).restart_backoff(MS / 10, MS);
    let pool = builder.spawn(&node, "pool").await.unwrap();
    let letters = || node.dead_letters().count(ringpost::DeadLetterCause::Stopped);
    let senders: Vec<_> = (0..SENDERS)
        .map(|sender| {
            let pool = pool.clone();
            tokio::spawn(async move {
                for number in 0..EACH {
                    if number % 20 == 10 {
                        pool.tell(StopYourself).await.unwrap();
                    }
                    pool.tell(Job { key: sender, number: sender * EACH + number }).await.unwrap();
                }
            })
        })
        .collect();
    for sender in senders {
        sender.await.unwrap();
    }
    while (desk.done().len() as u64) + letters() < SENDERS * EACH {
        tokio::time::sleep(MS).await;
    }
    let mut done: Vec<_> = desk.done().into_iter().map(|(_, number)| number).collect();
    let count = done.len();
    done.sort();
    done.dedup();
    assert_eq!(done.len(), count, "none is handled twice");
    assert!(desk.made.load(Ordering::Relaxed) > 2, "workers have stopped");
}

// Promised in docs/SEMANTICS.md.
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

// Promised in docs/SEMANTICS.md.
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

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn the_error_of_an_ask_that_waited_for_room_names_the_worker_that_had_it() {
    for place in 0..2 {
        let node = node().await;
        let (desk, builder) = builder();
        let pool = builder.size(2).spawn(&node, "pool").await.unwrap();
        let gates = fill(&desk, &pool).await;
        let free = async {
            tokio::task::yield_now().await;
            gates[place].add_permits(1);
        };
        let asked = async { pool.ask(Fail).await };
        let (asked, ()) = tokio::join!(asked, free);
        let error = asked.unwrap_err();
        assert_eq!(error.cause, AskCause::Panicked);
        assert_eq!(error.actor(), pool.workers()[place].address());
        gates.iter().for_each(|gate| gate.add_permits(1));
    }
}
