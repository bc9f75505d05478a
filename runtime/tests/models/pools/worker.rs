//! The workers of a pool, and their jobs.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
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
    /// Takes so many milliseconds.
    Rest(u64),
    /// Asks its own pool to do a job with this key, and then this.
    Ask(u64, Next),
    /// Stops the worker, which is made anew.
    Stop,
    Panic,
}

/// The end of a job that a worker asks its own pool for.
#[message]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Takes so many milliseconds.
    Rest(u64),
    /// Asks its own pool once more, to do a job with this key.
    Ask(u64),
    Stop,
}

impl From<Next> for Then {
    fn from(next: Next) -> Self {
        match next {
            Next::Rest(time) => Then::Rest(time),
            Next::Ask(key) => Then::Ask(key, Next::Rest(0)),
            Next::Stop => Then::Stop,
        }
    }
}

/// How long a worker waits for another one of its pool: longer than it has to, if that does not
/// wait for it.
const PATIENCE: Duration = Duration::from_secs(20);

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
            Then::Ask(key, next) => self.ask_own_pool(msg.number, key, next.into()).await,
            Then::Stop => self.stop(cx),
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
    fn stop(&self, cx: &mut Context<Self>) {
        let is_removed = {
            let pool = self.pool.lock();
            pool.as_ref().is_none_or(|pool| !pool.workers().contains(cx.actor()))
        };
        if is_removed {
            // It is made anew all the same, for what it has.
            self.book.stop_at_last();
        }
        cx.stop();
    }

    /// Asks for another job. Another worker does it, if one may that does not wait for this one.
    async fn ask_own_pool(&self, number: u64, key: u64, then: Then) {
        let Some(pool) = self.pool.lock().clone() else { return };
        let number = ASIDE + number;
        // It is a sender by itself: the workers that ask do so in no order.
        self.book.send(number, key, number as usize);
        let answer = pool.ask(Job { number, key, then }).timeout(PATIENCE).await;
        // (A panic would end this worker, and be taken for one that it was told to have.)
        match &answer {
            Ok(other) if *other != number => {
                return self.book.breach(format!("{number} has the answer of {other}"));
            }
            Err(error) if is_late(&error.cause) && !self.book.is_troubled() => {
                self.book.breach(format!("a worker waited in vain for {number}: {error}"));
            }
            _ => {}
        }
        self.book.settle(number, Fate::of(number, answer));
    }
}

/// Returns true if an ask was not answered in time.
fn is_late(cause: &AskCause) -> bool {
    matches!(
        cause,
        AskCause::Timeout
            | AskCause::NotSent(Cause::Timeout)
            | AskCause::NotBegun(NotBegun::Timeout)
    )
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.book.is_gone();
    }
}
