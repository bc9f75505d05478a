//! The workers of a pool, and their jobs.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use ringpost::pool::Pool;
use ringpost::prelude::*;
use ringpost::test_kit::Cluster;

use super::book::{ASIDE, Book, Fate};

#[message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) number: u64,
    pub(super) key: u64,
    pub(super) then: Then,
}

#[message]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Takes this many milliseconds.
    Rest(u64),
    /// Asks its own pool for a job of the next key, which asks so often again.
    Ask(u64),
    /// Stops the worker, which is restarted.
    Stop,
    Panic,
}

/// How long a worker waits for another one of its pool.
const PATIENCE: Duration = Duration::from_secs(1);

/// The longest time that a worker takes to stop.
const STOP: Duration = Duration::from_millis(50);

/// The pool of a worker, from when it is known until the scene ends.
pub(super) type OwnPool = Arc<Mutex<Option<Pool<Worker>>>>;

/// Writes down the jobs that it begins.
pub(super) struct Worker {
    pub(super) book: Book,
    pub(super) cluster: Cluster,
    pub(super) pool: OwnPool,
}

#[actor(name = "models::Worker")]
impl Actor for Worker {
    /// Accepts nothing for a while.
    async fn on_stop(&mut self, _: &mut Context<Self>) {
        self.cluster.sleep_up_to(STOP).await;
    }
}

#[handlers]
impl Worker {
    /// Returns the number of the job.
    #[handler]
    async fn job(&mut self, msg: Job, cx: &mut Context<Self>) -> u64 {
        let Job { number, key, then } = msg;
        let worker = cx.actor().address();
        self.book.begin(number, worker);
        self.cluster.log(&format!("{worker} begins {number}: {then:?}"));
        match then {
            Then::Rest(0) => {}
            Then::Rest(time) => tokio::time::sleep(Duration::from_millis(time)).await,
            Then::Ask(again) => {
                let then = again.checked_sub(1).map_or(Then::Rest(0), Then::Ask);
                self.ask_own_pool(Job { number: ASIDE + number, key: key + 1, then }).await;
            }
            Then::Stop => cx.stop(),
            // Without what a panic writes to the terminal.
            Then::Panic => std::panic::resume_unwind(Box::new("as it was told")),
        }
        number
    }

    #[handler]
    pub(super) fn there(&self) -> bool {
        true
    }
}

impl Worker {
    /// Asks for another job. Another worker does it, if one may that does not wait for this one.
    async fn ask_own_pool(&self, job: Job) {
        let Some(pool) = self.pool.lock().clone() else { return };
        let number = job.number;
        // Each such job is its own sender: the workers that ask do so in no order.
        self.book.send(number, job.key, number as usize);
        let answer = pool.ask(job).timeout(PATIENCE).await;
        // (A panic would end this worker, and look like a panic that a job ordered.)
        if matches!(&answer, Ok(other) if *other != number) {
            return self.book.breach(format!("{number} has the answer of another job"));
        }
        self.book.settle(number, Fate::of(number, answer));
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.book.is_gone();
    }
}
