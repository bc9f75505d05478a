//! Asks of a pool: a worker is looked for, and then asked.

use std::future::IntoFuture;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::coop;

use super::ring::{Order, Ring};
use super::{Pool, Refusal};
use crate::actor::cell::Cell;
use crate::actor::reference::Near;
use crate::actor::time_limit::TimeLimit;
use crate::actor::wait::Wait;
use crate::actor::{Accepts, ActorRef, Ask, Handlers};
use crate::error::{AskCause, AskError, Cause};
use crate::message::Message;
use crate::mutants::planted;
use crate::resident::Resident;
use crate::slot::OpenAsk;

/// An ask of this node that a router has in hand, and hands to no worker that waits for the answer.
pub(super) struct Routed {
    pub(super) ask: Arc<dyn OpenAsk>,
    pub(super) router: Arc<dyn Resident>,
}

impl Routed {
    /// Returns the error for a worker that waits for the answer.
    pub(super) fn refusal_at<A: Handlers>(&self, worker: &ActorRef<A>) -> Option<Cause> {
        let cell = worker.near_cell().filter(|_| !planted!(HandedBack))?;
        Wait::refusal_of(&self.ask, &*self.router, cell)
    }

    /// Returns true if a worker waits for the router: for an ask that no worker has, or for its end
    /// without room.
    fn is_awaited_by<A: Handlers>(&self, worker: &ActorRef<A>) -> bool {
        let waits = |cell: &Cell<A>| Wait::is_for_any(&*self.router, cell);
        worker.near_cell().is_some_and(waits) || worker.waits_for(&*self.router)
    }

    /// Returns the error where each of these workers waits for the router, and one of them for this
    /// ask: none goes on before one of their asks ends, and this is the last one.
    fn refusal_by<'r, A: Handlers>(
        &self,
        workers: impl Iterator<Item = &'r ActorRef<A>>,
    ) -> Option<Cause> {
        let mut refusal = None;
        for worker in workers {
            let refused = self.refusal_at(worker);
            if refused.is_none() && !self.is_awaited_by(worker) {
                return None;
            }
            refusal = refusal.or(refused);
        }
        refusal
    }

    /// Looks again, now that a worker has the ask: it may have begun to wait for the answer as it
    /// was given that, and has not seen that it does so (WC-1).
    fn look_again<A: Handlers>(&self, worker: &ActorRef<A>) {
        if let (Some((_, ask)), Some(cell)) = (self.ask.passed_on(), worker.near_cell())
            && let Some(cause) = Wait::refusal_of(&ask, cell, cell)
        {
            ask.refuse(cause);
        }
    }
}

impl<A: Handlers> Pool<A> {
    /// Asks; calls `sent` when a worker has the message. A router so passes on the ask `routed`.
    async fn answer<M: Message>(
        &self,
        mut message: M,
        mut limit: TimeLimit,
        (sent, routed): (impl FnOnce() + Send, Option<&Routed>),
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
            let circular = match send_now(&mut ask, &ring, order, routed).await {
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
                        let refusal = routed.and_then(|routed| routed.refusal_at(worker));
                        let passes = routed.map(|routed| &*routed.ask);
                        // If not, it began to wait for the asker, which looks for another one.
                        if refusal.is_none()
                            && ask.send_reserved(worker.destination(), room, passes).is_ok()
                        {
                            routed.into_iter().for_each(|routed| routed.look_again(worker));
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
    routed: Option<&Routed>,
) -> Result<(), Unsent<'a, A>> {
    let (mut refused, mut may_wait, mut circular) = (None, false, Vec::new());
    let (mut rounds, mut is_looked) = (order.rounds(ring), false);
    while let Some(worker) = rounds.next() {
        if let Some(routed) = routed.filter(|routed| !is_looked && routed.is_awaited_by(worker)) {
            is_looked = true;
            if let Some(refusal) = routed.refusal_by(order.of(ring)) {
                return Err(Unsent::Ends(refusal));
            }
        }
        let sent = match routed.and_then(|routed| routed.refusal_at(worker)) {
            Some(refusal) => Err(refusal),
            None => ask.send_now(worker.destination(), routed.map(|routed| &*routed.ask)).await,
        };
        let Err(unsent) = sent else {
            routed.into_iter().for_each(|routed| routed.look_again(worker));
            return Ok(());
        };
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
        async move { PoolAsk { pool: &pool, message, timeout }.answer((|| {}, None)).await }
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
        self.pool.shared.node.runtime().block_on(self.answer((|| {}, None)))
    }

    /// See [`Pool::answer`].
    pub(super) async fn answer(
        self,
        how: (impl FnOnce() + Send, Option<&Routed>),
    ) -> Result<<A as Accepts<M>>::Reply, AskError> {
        let PoolAsk { pool, message, timeout } = self;
        let limit = match timeout {
            Some(timeout) => TimeLimit::new(timeout),
            None => TimeLimit::inherited(pool.shared.ask_timeout()),
        };
        pool.answer(message, limit, how).await
    }
}

impl<'a, A: Accepts<M>, M: Message> IntoFuture for PoolAsk<'a, A, M> {
    type Output = Result<<A as Accepts<M>>::Reply, AskError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.answer((|| {}, None)))
    }
}
