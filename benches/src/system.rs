//! Actors within a process: the traits by which one program runs on every contestant.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

use crate::failure::Failure;

/// A contestant within one process: the way in which it spawns actors, and sends to them.
pub trait System: Clone + Send + Sync + 'static {
    /// The same as [`Client::BARRIER_EVERY`](crate::Client::BARRIER_EVERY).
    const BARRIER_EVERY: Option<u64> = None;

    /// A reference to an actor.
    type Ref<B: Behavior>: Clone + Send + Sync + 'static;

    /// Starts what the actors run on, where that is more than the runtime of the caller.
    fn start() -> impl Future<Output = Result<Self, Failure>> + Send;

    /// Spawns an actor.
    fn spawn<B: Behavior>(
        &self,
        behavior: B,
    ) -> impl Future<Output = Result<Self::Ref<B>, Failure>> + Send;

    /// Spawns actors under a supervisor, which restarts an actor that fails. A contestant without
    /// supervision spawns them as any others.
    fn supervise<B: Behavior>(
        &self,
        count: usize,
        make: impl Fn() -> B + Send + Sync + 'static,
    ) -> impl Future<Output = Result<Family, Failure>> + Send {
        spawn_all(self, count, make)
    }

    /// Tells a message, when there is room for it.
    fn tell<B: Behavior>(
        to: &Self::Ref<B>,
        message: B::Tell,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Asks, and returns the answer.
    fn ask<B: Behavior>(
        to: &Self::Ref<B>,
        question: B::Question,
    ) -> impl Future<Output = Result<B::Answer, Failure>> + Send;

    /// Ends an actor to which no other reference is kept, not even by the actor itself.
    fn stop<B: Behavior>(actor: Self::Ref<B>);
}

/// Spawns actors that have no supervisor.
///
/// # Errors
/// When the contestant fails.
pub async fn spawn_all<S: System, B: Behavior>(
    system: &S,
    count: usize,
    make: impl Fn() -> B + Send,
) -> Result<Family, Failure> {
    let mut actors = Vec::with_capacity(count);
    for _ in 0..count {
        actors.push(system.spawn(make()).await?);
    }
    Ok(Family::new(move || actors.into_iter().for_each(S::stop)))
}

/// Actors that are stopped together.
pub struct Family(Box<dyn FnOnce() + Send>);

impl Family {
    /// Makes a family of the function that has all its actors end.
    pub fn new(stop: impl FnOnce() + Send + 'static) -> Self {
        Family(Box::new(stop))
    }

    /// Stops all actors. Does not wait until they have ended.
    pub fn stop(self) {
        (self.0)();
    }
}

/// The state of an actor and the handling of its messages. A handler that fails ends the process,
/// as its program would never end.
pub trait Behavior: Send + 'static {
    /// A message without an answer.
    type Tell: Send + 'static;
    /// A message with an answer.
    type Question: Send + 'static;
    /// The answer.
    type Answer: Send + 'static;
    /// Handling a message waits for something. Where it does not, a contestant whose handlers may
    /// be plain functions has such a handler for it. (No answer to a question waits.)
    const WAITS: bool;

    /// Handles a message.
    fn told(&mut self, message: Self::Tell) -> impl Future<Output = Result<Then, Failure>> + Send;

    /// Answers a question.
    fn asked(
        &mut self,
        question: Self::Question,
    ) -> impl Future<Output = Result<Self::Answer, Failure>> + Send;
}

/// Runs a future that has nothing to wait for.
///
/// # Panics
/// If it waits.
#[inline]
pub fn at_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a handler waits that says that it does not"),
    }
}

/// The step that an actor takes after a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// It takes the next one.
    Continue,
    /// It ends.
    End,
}

/// Returns what a handler returned. If that is a failure, prints it and ends the process.
pub fn or_exit<T>(handled: Result<T, Failure>) -> T {
    handled.unwrap_or_else(|failure| {
        eprintln!("a handler failed: {failure}");
        std::process::exit(1)
    })
}

/// A number of things to wait for, and the sum of their values. Clones count down together.
#[derive(Debug, Clone)]
pub struct Countdown(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    left: AtomicU64,
    sum: AtomicU64,
    done: Notify,
}

impl Countdown {
    /// Begins to wait for `count` things.
    pub fn from(count: u64) -> Self {
        let (left, sum) = (AtomicU64::new(count), AtomicU64::new(0));
        Countdown(Arc::new(Shared { left, sum, done: Notify::new() }))
    }

    /// Begins again, after the last count has come to its end.
    pub fn restart(&self, count: u64) {
        self.0.sum.store(0, Ordering::Relaxed);
        self.0.left.store(count, Ordering::Release);
    }

    /// Counts one thing, which gives `value`.
    pub fn add(&self, value: u64) {
        self.0.sum.fetch_add(value, Ordering::Relaxed);
        if self.0.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.done.notify_one();
        }
    }

    /// Waits for all things, and checks that their sum is `sum`. One task may wait.
    ///
    /// # Errors
    /// When the sum is another.
    pub async fn reaches(&self, sum: u64) -> Result<(), Failure> {
        self.0.done.notified().await;
        match self.0.sum.load(Ordering::Relaxed) {
            right if right == sum => Ok(()),
            wrong => Err(Failure::Failed(format!("the answer is {wrong}, and should be {sum}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_countdown_ends_with_the_last_thing_and_can_begin_anew() {
        let countdown = Countdown::from(2);
        let other = countdown.clone();
        let adding = tokio::spawn(async move { [3, 4].map(|value| other.add(value)) });
        countdown.reaches(7).await.unwrap();
        adding.await.unwrap();
        countdown.restart(1);
        countdown.add(5);
        let wrong = countdown.reaches(7).await.unwrap_err().to_string();
        assert_eq!(wrong, "the answer is 5, and should be 7");
    }
}
