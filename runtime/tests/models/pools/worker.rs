//! The workers of a pool, and their jobs.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use ringpost::prelude::*;
use ringpost::test_kit::Cluster;

use super::book::{ASIDE, Book, FOR_NONE, Fate};

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

/// How long a worker waits for the router of its pool.
const ROUTER_PATIENCE: Duration = Duration::from_secs(1);

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
    /// Takes nothing for a while.
    async fn on_stop(&mut self, _: &mut Context<Self>) {
        self.cluster.sleep_up_to(STOP).await;
    }
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
            Then::Ask(key, next) => {
                let job = Job { number: ASIDE + msg.number, key, then: next.into() };
                match job.number % 3 {
                    0 => self.ask_router(job, cx).await,
                    _ => self.ask_own_pool(job).await,
                }
            }
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
        self.book.stop_itself();
        cx.stop();
    }

    /// Asks for another job. Another worker does it, if one may that does not wait for this one.
    async fn ask_own_pool(&self, job: Job) {
        let Some(pool) = self.pool.lock().clone() else { return };
        let number = job.number;
        // It is a sender by itself: the workers that ask do so in no order.
        self.book.send(number, job.key, number as usize);
        let answer = pool.ask(job).timeout(PATIENCE).await;
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

impl Worker {
    /// Asks for another job by way of the router, which knows of few circles: the worker gives up
    /// soon. What others ask of the router is answered all the same.
    async fn ask_router(&self, job: Job, cx: &mut Context<Self>) {
        let Ok(router) = cx.node().recipient::<Job, u64>("n1/router").await else { return };
        let number = job.number;
        let for_none = Job { number: FOR_NONE + number, then: Then::Rest(0), ..job };
        self.ask_for_none(router.clone(), for_none).await;
        self.book.send(number, job.key, number as usize);
        let answer = router.ask(job).timeout(ROUTER_PATIENCE).await;
        if matches!(&answer, Ok(other) if *other != number) {
            return self.book.breach(format!("{number} has the answer of another job"));
        }
        let closes_circle = matches!(&answer, Err(error) if error.cause == AskCause::NoReply);
        self.book.ask_router(answer.is_ok(), closes_circle);
        self.book.settle(number, Fate::of(number, answer));
    }

    /// Asks the router for a job just before, for whose answer no actor waits: so it closes no
    /// circle.
    async fn ask_for_none(&self, router: Recipient<Job, u64>, job: Job) {
        let (book, number) = (self.book.clone(), job.number);
        book.send(number, job.key, number as usize);
        let mut asks = Box::pin(async move {
            let Ok(asked) = router.ask(job).timeout(PATIENCE).try_send() else {
                return book.settle(number, Fate::Refused);
            };
            let answer = asked.await;
            if let (Err(error), false) = (&answer, book.is_troubled()) {
                book.breach(format!("where nothing is lost {number} has no answer: {error}"));
            }
            book.settle(number, Fate::of(number, answer));
        });
        if futures::poll!(&mut asks).is_pending() {
            tokio::spawn(asks);
        }
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
