//! Asks of a pool.

use std::future::{IntoFuture, poll_fn};
use std::pin::Pin;
use std::time::Duration;

use tokio::task::coop;

use super::Pool;
use crate::actor::send::port::unsent;
use crate::actor::send::time_limit::TimeLimit;
use crate::actor::{Accepts, Ask, Handlers};
use crate::error::{AskCause, AskError};
use crate::message::Message;

/// An ask of a [`Pool`]: awaiting it finds a worker, sends the message, and waits for the answer.
///
/// # Cancel safety
/// See [`Ask`].
#[must_use = "nothing is sent until this is awaited"]
pub struct PoolAsk<'a, A: Handlers, M> {
    pool: &'a Pool<A>,
    message: M,
    timeout: Option<Duration>,
}

impl<'a, A: Handlers, M> PoolAsk<'a, A, M> {
    pub(super) fn new(pool: &'a Pool<A>, message: M) -> Self {
        PoolAsk { pool, message, timeout: None }
    }
}

impl<A: Handlers, M> PoolAsk<'_, A, M> {
    /// Sets the timeout for finding a worker and for its answer together; at most a year.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

impl<A: Accepts<M>, M: Message> PoolAsk<'_, A, M> {
    /// Returns the same ask as a future that owns its pool, so that it can be stored, sent to
    /// another thread, or awaited with others. With [`Context::pipe`](crate::Context::pipe) the
    /// answer is handled in the actor's turn. The timeout starts with the first poll.
    ///
    /// ```
    /// # use ringpost::pool::Pool;
    /// # use ringpost::prelude::*;
    /// # #[actor]
    /// # #[derive(Default)]
    /// # struct Squarer;
    /// # #[handlers]
    /// # impl Squarer {
    /// #     #[handler]
    /// #     fn square(&mut self, number: u64) -> u64 {
    /// #         number * number
    /// #     }
    /// # }
    /// #[actor]
    /// struct Adder {
    ///     squarers: Pool<Squarer>,
    ///     sum: u64,
    /// }
    ///
    /// #[handlers]
    /// impl Adder {
    ///     #[handler]
    ///     fn add_square(&mut self, number: u64, cx: &mut Context<Self>) {
    ///         let asked = self.squarers.ask(Square { number }).into_ask();
    ///         cx.pipe(asked, |adder, square, _| adder.sum += square.unwrap_or_default());
    ///     }
    /// }
    /// ```
    pub fn into_ask(
        self,
    ) -> impl Future<Output = Result<A::Reply, AskError>> + Send + 'static + use<A, M> {
        let PoolAsk { pool, message, timeout } = self;
        let pool = pool.clone();
        async move { PoolAsk { pool: &pool, message, timeout }.answer(|| {}).await }
    }

    /// Sends the message and waits for the answer, on a thread that belongs to no async runtime, as
    /// [`Ask::blocking`] does.
    ///
    /// # Errors
    /// The errors of awaiting the ask.
    ///
    /// # Panics
    /// In an async task, because it would block that thread's other tasks.
    pub fn blocking(self) -> Result<A::Reply, AskError> {
        self.pool.shared.node.runtime().block_on(self.answer(|| {}))
    }

    /// Asks, and calls `sent` when a worker has the message.
    pub(super) async fn answer(
        self,
        sent: impl FnOnce() + Send,
    ) -> Result<<A as Accepts<M>>::Reply, AskError> {
        coop::consume_budget().await;
        let PoolAsk { pool, mut message, timeout } = self;
        let inherited = || TimeLimit::inherited(pool.shared.ask_timeout());
        let mut limit = timeout.map_or_else(inherited, TimeLimit::new);
        let (key, mut refused) = (pool.shared.key(&message), Vec::new());
        let cause = loop {
            let deadlines = Some(pool.shared.node.deadlines());
            let room = tokio::select! {
                biased;
                room = pool.room(key, &refused) => room,
                expired = poll_fn(|cx| limit.poll(deadlines, cx)) => Err(unsent(expired)),
            };
            let (worker, room) = match room {
                Ok(found) => found,
                Err(cause) => break cause,
            };
            let mut ask = Ask::with_limit(worker.destination(), message, limit);
            match ask.send_reserved(worker.destination(), room) {
                Ok(()) => {
                    sent();
                    return ask.await;
                }
                Err(cause) if key.is_some() => break cause,
                // This worker waits for the asker: another worker may answer.
                Err(cause) => {
                    (message, limit) = ask.into_unsent();
                    refused.push((worker, cause));
                }
            }
        };
        Err(AskError::new(AskCause::NotSent(cause), pool.shared.address.clone(), M::NAME))
    }
}

impl<'a, A: Accepts<M>, M: Message> IntoFuture for PoolAsk<'a, A, M> {
    type Output = Result<<A as Accepts<M>>::Reply, AskError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.answer(|| {}))
    }
}
