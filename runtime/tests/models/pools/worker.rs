//! The workers of a pool, and their jobs.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use ringpost::prelude::*;
use ringpost::test_kit::Cluster;

use super::super::SECOND;
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
    /// Takes so many milliseconds.
    Rest(u64),
    /// Asks its own pool to do a job with this key.
    Ask(u64),
    Panic,
}

/// The pool of a worker, from when it is known until the scene ends.
pub(super) type OwnPool = Arc<Mutex<Option<Pool<Worker>>>>;

/// Writes down the jobs that it begins.
#[actor(name = "models::Worker")]
pub(super) struct Worker {
    pub(super) book: Book,
    pub(super) cluster: Cluster,
    pub(super) pool: OwnPool,
}

#[handlers]
impl Worker {
    /// Returns the number of the job.
    #[handler]
    async fn job(&mut self, msg: Job, cx: &mut Context<Self>) -> u64 {
        self.book.begin(msg.number, cx.actor().address());
        let (worker, Job { number, then, .. }) = (cx.actor().address(), &msg);
        self.cluster.log(&format!("{worker} begins {number}: {then:?}"));
        match msg.then {
            Then::Rest(0) => {}
            Then::Rest(time) => tokio::time::sleep(Duration::from_millis(time)).await,
            Then::Ask(key) => self.ask_own_pool(msg.number, key).await,
            // Without what a panic writes to the terminal.
            Then::Panic => std::panic::resume_unwind(Box::new("as it was told")),
        }
        msg.number
    }

    #[handler]
    pub(super) fn there(&self) -> bool {
        true
    }
}

impl Worker {
    /// Asks for another job. Another worker does it, if one may that does not wait for this one.
    async fn ask_own_pool(&self, number: u64, key: u64) {
        let Some(pool) = self.pool.lock().clone() else { return };
        let number = ASIDE + number;
        // It is a sender by itself: the workers that ask do so in no order.
        self.book.send(number, key, number as usize);
        let answer = pool.ask(Job { number, key, then: Then::Rest(0) }).timeout(SECOND).await;
        self.book.settle(number, Fate::of(number, answer));
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.book.is_gone();
    }
}
