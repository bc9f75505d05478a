//! `Router`: an actor that hands messages to the workers of a pool.

use std::marker::PhantomData;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::Pool;
use crate::actor::{Accepts, Actor, Context, Down, Handler, Handlers, ReplyTo};
use crate::busy::at_rest;
use crate::limits;
use crate::message::{Message, Wire};
use crate::{actor, handlers};

/// An actor that hands each `M` that it is sent to a worker of a [`Pool`](super::Pool), by the
/// pool's routing and keys: for programs of other nodes. Made by [`Pool::router`], and spawned as
/// any other actor. It stops when it is sent a message and the pool has ended.
///
/// It waits for no answer, and a worker that has no room holds up those messages alone that can go
/// to no other one: [`limits::ROUTER_WAITING_MAX`] messages may wait, or be asks that are not
/// answered. Only then does it take no more, and its senders wait. The asker of an ask that its
/// worker does not answer gets [`NoReply`](crate::AskCause::NoReply), and the log says why.
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
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// # let node = Node::builder("alpha").start().await?;
/// let pool = Pool::builder(Squarer::default).size(4).spawn(&node, "squarers").await?;
/// node.spawn("square", pool.router::<Square>()).await?;
/// // This program has no need to know the workers' type, or that they are many.
/// let square: Recipient<Square, u64> = node.recipient("alpha/square").await?;
/// assert_eq!(square.ask(Square { number: 3 }).await?, 9);
/// # Ok(())
/// # }
/// ```
pub struct Router<A: Handlers, M> {
    pool: Pool<A>,
    /// A permit for each message in hand.
    room: Arc<Semaphore>,
    /// From its first message on.
    watches: bool,
    _message: PhantomData<fn(M)>,
}

impl<A: Accepts<M>, M: Message + Wire> Router<A, M> {
    pub(super) fn new(pool: Pool<A>) -> Self {
        let room = Arc::new(Semaphore::new(limits::ROUTER_WAITING_MAX));
        Router { pool, room, watches: false, _message: PhantomData }
    }
}

#[actor(name = "ringpost::Router")]
#[diagnostic::do_not_recommend]
impl<A: Accepts<M>, M: Message + Wire> Actor for Router<A, M> {}

#[handlers(Down)]
impl<A: Accepts<M>, M: Message + Wire> Router<A, M> {
    /// Hands a message to a worker, whose answer goes to the asker.
    #[handler]
    pub async fn route(
        &mut self,
        msg: M,
        reply: ReplyTo<<A as Accepts<M>>::Reply>,
        cx: &mut Context<Self>,
    ) {
        if !std::mem::replace(&mut self.watches, true) {
            cx.watch(self.pool.supervisor());
        }
        let room = at_rest(self.room.clone().acquire_owned()).await;
        let Ok(room) = room else { return };
        let deadline = cx.deadline();
        let mut hand_over = Box::pin(hand_over(self.pool.clone(), msg, reply, deadline, room));
        // In this turn: so messages of one key are in line in their order.
        if futures::poll!(&mut hand_over).is_pending() {
            cx.spawn_task(hand_over);
        }
    }
}

#[diagnostic::do_not_recommend]
impl<A: Accepts<M>, M: Message + Wire> Handler<Down> for Router<A, M> {
    type Reply = ();

    async fn handle(&mut self, _: Down, cx: &mut Context<Self>) {
        cx.stop();
    }
}

async fn hand_over<A: Accepts<M>, M: Message>(
    pool: Pool<A>,
    message: M,
    reply: ReplyTo<<A as Accepts<M>>::Reply>,
    deadline: Option<Instant>,
    _room: OwnedSemaphorePermit,
) {
    let name = pool.supervisor().address().clone();
    if !reply.is_awaited() {
        if let Err(error) = pool.tell(message).await {
            tracing::warn!(pool = %name, message = M::NAME, %error, "a router lost a message");
        }
        return;
    }
    let mut ask = pool.ask(message);
    if let Some(deadline) = deadline {
        ask = ask.timeout(deadline.saturating_duration_since(Instant::now()));
    }
    match ask.await {
        Ok(answer) => reply.send(answer),
        Err(error) => tracing::warn!(pool = %name, %error, "no answer to an ask that was routed"),
    }
}
