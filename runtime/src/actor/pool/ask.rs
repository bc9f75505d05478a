//! Asks of a pool: a worker is looked for, and then asked.

use std::future::IntoFuture;
use std::pin::{Pin, pin};
use std::time::Duration;

use tokio::task::coop;

use super::ring::{Order, Ring};
use super::{Pool, Refusal};
use crate::actor::reference::Near;
use crate::actor::time_limit::TimeLimit;
use crate::actor::{Accepts, ActorRef, Ask, Handlers};
use crate::error::{AskCause, AskError, Cause};
use crate::message::Message;

impl<A: Handlers> Pool<A> {
    /// Asks; calls `sent` when a worker has the message.
    async fn answer<M: Message>(
        &self,
        mut message: M,
        mut limit: TimeLimit,
        sent: impl FnOnce() + Send,
    ) -> Result<<A as Accepts<M>>::Reply, AskError>
    where
        A: Accepts<M>,
    {
        coop::consume_budget().await;
        let cause = loop {
            let mut changed = pin!(self.shared.changed());
            changed.as_mut().enable();
            let ring = self.shared.ring();
            let order = self.shared.order(&ring, &message);
            let Some(first) = ring.get(order.first()) else { break self.over() };
            let mut ask = Ask::with_limit(first.destination(), message, limit);
            let circular = match send_now(&mut ask, &ring, order).await {
                Ok(()) => {
                    sent();
                    return ask.await;
                }
                Err(Unsent::Ends(cause)) => break cause,
                Err(Unsent::MayWait { circular }) => circular,
            };
            tokio::select! {
                biased;
                () = changed => {}
                cause = ask.expires() => break cause,
                room = self.room(&ring, order, &circular) => match room {
                    Ok((worker, room)) => {
                        // If not, it waits for the asker, which looks for another one.
                        if ask.send_reserved(worker.destination(), room).is_ok() {
                            sent();
                            return ask.await;
                        }
                    }
                    Err(cause) => break cause,
                },
            }
            (message, limit) = ask.into_unsent();
        };
        let pool = self.supervisor().address().clone();
        Err(AskError::new(AskCause::NotSent(cause), pool, M::NAME))
    }
}

/// How an ask goes on that no worker has yet.
enum Unsent<'r, A: Handlers> {
    Ends(Cause),
    /// It may wait for room, but for none at these workers: they wait for the asker.
    MayWait {
        circular: Vec<&'r ActorRef<A>>,
    },
}

/// Sends to the first worker in `order` that has room now.
async fn send_now<'a, A: Accepts<M>, M: Message>(
    ask: &mut Ask<'a, Near<A>, M, A::Reply>,
    ring: &'a Ring<A>,
    order: Order,
) -> Result<(), Unsent<'a, A>> {
    let (mut refused, mut may_wait, mut circular) = (None, false, Vec::new());
    let mut rounds = order.rounds(ring);
    while let Some(worker) = rounds.next() {
        let Err(unsent) = ask.send_now(worker.destination()).await else { return Ok(()) };
        match Refusal::from(unsent) {
            Refusal::Full => (may_wait, rounds.will_have_room) = (true, true),
            Refusal::Closed => may_wait = true,
            Refusal::Circular(cause) => {
                circular.push(worker);
                refused = Some(cause);
            }
            Refusal::Never(cause) => return Err(Unsent::Ends(cause)),
        }
    }
    Err(match refused {
        Some(cause) if !may_wait => Unsent::Ends(cause),
        _ => Unsent::MayWait { circular },
    })
}

/// An ask of a [`Pool`] on its way: awaiting it looks for a worker, sends, and waits for the
/// answer.
///
/// # Cancel safety
/// As of [`Ask`].
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
    /// Waits this long in all, for a worker and for the answer; a year at most.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

impl<A: Accepts<M>, M: Message> PoolAsk<'_, A, M> {
    /// Returns the same ask, which owns its pool: to be kept, sent to another thread, or awaited
    /// with others of its kind; and for [`Context::pipe`](crate::Context::pipe), which has the
    /// answer come in the actor's turn. Its time counts from its first poll.
    ///
    /// ```
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

    /// Sends, and waits for the answer, on a thread that is none of an async runtime's, as
    /// [`Ask::blocking`] does.
    ///
    /// # Errors
    /// As of awaiting it.
    ///
    /// # Panics
    /// In an async task, whose thread it would take from all others.
    pub fn blocking(self) -> Result<A::Reply, AskError> {
        self.pool.shared.node.runtime().block_on(self.answer(|| {}))
    }

    /// See [`Pool::answer`].
    pub(super) async fn answer(
        self,
        sent: impl FnOnce() + Send,
    ) -> Result<<A as Accepts<M>>::Reply, AskError> {
        let PoolAsk { pool, message, timeout } = self;
        let limit = match timeout {
            Some(timeout) => TimeLimit::new(timeout),
            None => TimeLimit::inherited(pool.shared.ask_timeout()),
        };
        pool.answer(message, limit, sent).await
    }
}

impl<'a, A: Accepts<M>, M: Message> IntoFuture for PoolAsk<'a, A, M> {
    type Output = Result<<A as Accepts<M>>::Reply, AskError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.answer(|| {}))
    }
}
