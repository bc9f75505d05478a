//! The senders of jobs to a pool, which send one after the other.

use std::time::Duration;

use ringpost::pool::Pool;
use ringpost::prelude::*;
use tokio::time::timeout;

use super::super::{MS, SECOND, Scene};
use super::book::{Book, Fate};
use super::worker::{Job, Then, Worker};

/// Longer than any job waits.
const PATIENCE: Duration = Duration::from_secs(120);

/// Sends jobs, each when the one before it is settled.
pub(super) struct Sender {
    pub(super) scene: Scene,
    pub(super) book: Book,
    pub(super) number: usize,
    pub(super) keys: usize,
    /// Some of its jobs panic.
    pub(super) panics: bool,
    /// Some of its jobs stop their worker.
    pub(super) stops: bool,
}

impl Sender {
    /// Returns the next job.
    fn job(&self, turn: u64) -> Job {
        let number = self.number as u64 * 1000 + turn;
        let key = self.scene.below(self.keys) as u64;
        let then = match self.scene.below(12) {
            0 if self.panics => Then::Panic,
            0..3 => Then::Rest(self.scene.below(200) as u64),
            3 => Then::Ask(self.scene.below(3) as u64),
            4 if self.stops => Then::Stop,
            _ => Then::Rest(0),
        };
        self.book.send(number, key, self.number);
        Job { number, key, then }
    }

    /// Sends jobs as programs of the pool's node do.
    pub(super) async fn send_near(&self, pool: &Pool<Worker>, jobs: u64) {
        for turn in 0..jobs {
            self.scene.rest(self.scene.one_of(&[MS, 10 * MS, 100 * MS])).await;
            let job = self.job(turn);
            let (number, then) = (job.number, job.then);
            let fate = match self.scene.below(6) {
                0 => self.try_tell(pool, job),
                1 | 2 => self.tell(pool, job).await,
                3 => self.drop_tell(pool, job).await,
                4 => {
                    let patience = self.scene.one_of(&[Duration::ZERO, 5 * MS, 50 * MS]);
                    let answer = pool.ask(job).timeout(patience).await;
                    self.scene.note_if(answer.is_err(), "an ask of the pool had no answer in time");
                    Fate::of(number, answer)
                }
                _ => {
                    let answer = pool.ask(job).timeout(PATIENCE).await;
                    self.check_answer(number, &answer, then);
                    Fate::of(number, answer)
                }
            };
            self.book.settle(number, fate);
        }
    }

    fn try_tell(&self, pool: &Pool<Worker>, job: Job) -> Fate {
        let number = job.number;
        let Err(error) = pool.try_tell(job) else { return Fate::Taken };
        assert_eq!(error.message.number, number, "the message comes back");
        self.scene.note_if(error.cause == Cause::MailboxFull, "no worker had room at once");
        self.scene.note_if(error.cause == Cause::Stopped, "all workers were closed");
        let is_right = error.cause == Cause::MailboxFull || self.book.is_troubled();
        assert!(is_right, "where no worker is closed: {error}");
        Fate::Refused
    }

    async fn tell(&self, pool: &Pool<Worker>, job: Job) -> Fate {
        let (begin, number) = (self.scene.cluster.now(), job.number);
        let told = pool.tell(job).await;
        let waited = self.scene.cluster.now() > begin;
        self.scene.note_if(waited && told.is_ok(), "a sender waited for a worker");
        self.scene.note_if(waited && told.is_err(), "the pool ended while a sender waited");
        let Err(error) = told else { return Fate::Taken };
        assert_eq!(error.message.number, number, "the message comes back");
        Fate::Refused
    }

    /// Waits for a moment only: dropped before it is ready, nothing was sent.
    async fn drop_tell(&self, pool: &Pool<Worker>, job: Job) -> Fate {
        match timeout(self.scene.one_of(&[MS, 10 * MS]), pool.tell(job)).await {
            Ok(Ok(())) => Fate::Taken,
            Ok(Err(_)) => Fate::Refused,
            Err(_) => {
                self.scene.note("a tell was dropped while it waited");
                Fate::Refused
            }
        }
    }

    /// Sends a job that takes long enough for others to wait behind it.
    pub(super) async fn wait_near(&self, pool: &Pool<Worker>) {
        let job = Job { then: Then::Rest(200), ..self.job(0) };
        let number = job.number;
        let fate = self.tell(pool, job).await;
        self.book.settle(number, fate);
    }

    fn check_answer(&self, number: u64, answer: &Result<u64, AskError>, then: Then) {
        if let (Err(error), false) = (answer, self.book.is_troubled()) {
            let may_fail = then == Then::Panic && error.cause == AskCause::Panicked;
            assert!(may_fail, "where nothing is lost {number} has no answer: {error}");
        }
    }

    /// Sends jobs by way of the router.
    pub(super) async fn send_far(&self, node: &Node, jobs: u64) {
        for turn in 0..jobs {
            self.scene.rest(self.scene.one_of(&[MS, 10 * MS, 100 * MS])).await;
            let Ok(router) = node.recipient::<Job, u64>("n1/router").await else { continue };
            let job = self.job(turn);
            let (number, then) = (job.number, job.then);
            let fate = match self.scene.below(4) {
                0 => match router.tell(job).await {
                    Ok(()) => Fate::Routed,
                    Err(_) => Fate::Refused,
                },
                1 => match router.tell(job).confirmed().await {
                    Ok(ringpost::send::Fate::Delivered) => Fate::Routed,
                    Ok(fate) if fate.is_retryable() => Fate::Refused,
                    Ok(_) => Fate::Unknown,
                    Err(_) => Fate::Refused,
                },
                2 => {
                    let patience = self.scene.one_of(&[MS, 20 * MS, SECOND]);
                    let answer = router.ask(job).timeout(patience).await;
                    self.scene.note_if(answer.is_err(), "an ask of the router had no answer");
                    Fate::of(number, answer)
                }
                _ => {
                    let answer = router.ask(job).timeout(PATIENCE).await;
                    self.check_answer(number, &answer, then);
                    Fate::of(number, answer)
                }
            };
            self.book.settle(number, fate);
        }
    }
}
