//! Those that send jobs to a pool, one after the other.

use std::time::Duration;

use ringpost::prelude::*;
use tokio::time::timeout;

use super::super::{MS, SECOND, Scene};
use super::book::{Book, Fate};
use super::worker::{Job, Next, Then, Worker};

/// Longer than any job waits.
const PATIENCE: Duration = Duration::from_secs(120);

/// Sends jobs, each when the one before it is settled.
pub(super) struct Sender {
    pub(super) scene: Scene,
    pub(super) book: Book,
    pub(super) number: usize,
    pub(super) keys: usize,
    pub(super) panics: bool,
}

impl Sender {
    /// Returns the next job.
    fn job(&self, turn: u64) -> Job {
        let number = self.number as u64 * 1000 + turn;
        let key = self.scene.below(self.keys) as u64;
        let then = match self.scene.below(12) {
            0 if self.panics => Then::Panic,
            0..3 => Then::Rest(self.scene.below(200) as u64),
            3 => Then::Ask(self.scene.below(self.keys) as u64, self.next()),
            4 if self.panics => Then::Stop,
            _ => Then::Rest(0),
        };
        self.book.send(number, key, self.number);
        Job { number, key, then }
    }

    /// Returns what a job does that a worker asks its own pool for.
    fn next(&self) -> Next {
        match self.scene.below(6) {
            0..3 => Next::Ask(self.scene.below(self.keys) as u64),
            3 if self.panics => Next::Stop,
            4 => Next::Rest(self.scene.below(200) as u64),
            _ => Next::Rest(0),
        }
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
        match pool.try_tell(job) {
            Ok(()) => Fate::Taken,
            Err(error) => {
                let is_full = error.cause == Cause::MailboxFull;
                self.scene.note_if(is_full, "no worker had room at once");
                Fate::Refused
            }
        }
    }

    async fn tell(&self, pool: &Pool<Worker>, job: Job) -> Fate {
        let begin = self.scene.cluster.now();
        let told = pool.tell(job).await;
        let waited = self.scene.cluster.now() > begin;
        self.scene.note_if(waited && told.is_ok(), "a sender waited for a worker");
        self.scene.note_if(waited && told.is_err(), "the pool ended while a sender waited");
        if told.is_ok() { Fate::Taken } else { Fate::Refused }
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

    /// Has a job wait for a worker, long enough for others to wait behind it; after some the worker
    /// stops.
    pub(super) async fn wait_near(&self, pool: &Pool<Worker>) {
        let job = self.late_job();
        let number = job.number;
        let fate = self.tell(pool, job).await;
        self.book.settle(number, fate);
    }

    /// As [`wait_near`](Self::wait_near), by way of the router.
    pub(super) async fn wait_routed(&self, node: &Node) {
        let job = self.late_job();
        let number = job.number;
        let router = node.recipient::<Job, u64>("n1/router").await;
        let fate = match router {
            Ok(router) if router.tell(job).await.is_ok() => Fate::Routed,
            _ => Fate::Refused,
        };
        self.book.settle(number, fate);
    }

    fn late_job(&self) -> Job {
        let then = if self.scene.one_in(6) { Then::Stop } else { Then::Rest(200) };
        Job { then, ..self.job(0) }
    }

    fn check_answer(&self, number: u64, answer: &Result<u64, AskError>, then: Then) {
        if let (Err(error), false) = (answer, self.book.is_troubled()) {
            let may_fail = then == Then::Panic && error.cause == AskCause::Panicked;
            let text = format!("where nothing is lost {number} has no answer: {error}");
            assert!(may_fail, "{text}");
        }
    }

    /// Sends jobs by way of the router.
    pub(super) async fn send_far(&self, node: impl Fn() -> Option<Node>, jobs: u64) {
        for turn in 0..jobs {
            self.scene.rest(self.scene.one_of(&[MS, 10 * MS, 100 * MS])).await;
            let Some(node) = node() else { continue };
            let Ok(router) = node.recipient::<Job, u64>("n1/router").await else { continue };
            let job = self.job(turn);
            let (number, then) = (job.number, job.then);
            let fate = match self.scene.below(4) {
                0 => match router.tell(job).await {
                    Ok(()) => Fate::Routed,
                    Err(_) => Fate::Refused,
                },
                1 => match router.tell(job).confirmed().await {
                    Ok(ringpost::Fate::Delivered) => Fate::Routed,
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
                    // Who waits for its answers waits for the router's handler.
                    let then = if then == Then::Panic { None } else { Some(then) };
                    then.into_iter().for_each(|then| self.check_answer(number, &answer, then));
                    Fate::of(number, answer)
                }
            };
            self.book.settle(number, fate);
        }
    }
}
