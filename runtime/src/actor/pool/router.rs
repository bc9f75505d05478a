//! `Router`: an actor that passes messages to the workers of a pool.

use std::future::poll_fn;
use std::marker::PhantomData;
use std::time::Duration;

use ringpost_transport::log;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Pool;
use crate::actor::{Accepts, Actor, Context, Down, Handler, Handlers, ReplyTo};
use crate::dead_letter::{DeadLetter, DeadLetterCause};
use crate::error::{BoxError, TellError};
use crate::limits;
use crate::message::{Message, Wire};
use crate::spans;
use crate::{actor, handlers};

/// An actor that passes each `M` to a worker of a [`Pool`](super::Pool), by the pool's routing and
/// keys. It serves programs of other nodes. Created by [`Pool::router`], and spawned like any other
/// actor. It stops when the pool has ended. (A router that began before its pool learns of that end
/// only if it was sent a message since the pool began.)
///
/// It passes on one message after the other, in their order. While no worker that may take the next
/// message has room, the messages behind it wait in the router's mailbox, and further senders wait
/// when it is full. For messages of the router's own node,
/// [`SpawnOptions::mailbox_capacity`](crate::spawn::SpawnOptions::mailbox_capacity) says when; for
/// messages of other nodes, the windows of the [`Profile`](crate::net::Profile). The router does
/// not wait for answers. A worker must ask its own pool by [`Pool::ask`]: in the mailbox of a
/// router its ask may wait for room at this very worker.
///
/// An asker gets the worker's answer, or the same error as if it had asked the worker:
/// [`Panicked`](crate::AskCause::Panicked) means that the worker panicked. An ask that no worker
/// takes ends with [`NotBegun`](crate::AskCause::NotBegun): [`Stopped`](crate::NotBegun::Stopped)
/// if the pool has ended or all its workers are closed. A tell that no worker takes is a dead
/// letter of the pool.
///
/// A router that is drained ends when workers have all its messages; answers under way go on
/// without it. To drain a pool and lose nothing, drain its routers first, and wait for their ends.
/// A shutdown of the node does not do so: it drains all actors at once.
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
    /// Set once the router watches the pool's supervisor.
    watches: bool,
    _message: PhantomData<fn(M)>,
}

impl<A: Accepts<M>, M: Message + Wire> Router<A, M> {
    pub(super) fn new(pool: Pool<A>) -> Self {
        Router { pool, watches: false, _message: PhantomData }
    }

    /// Watches the pool, if it has begun, to stop when the pool has ended.
    fn watch(&mut self, cx: &mut Context<Self>) {
        if !self.watches
            && let Some(supervisor) = self.pool.begun()
        {
            cx.watch(&supervisor);
            self.watches = true;
        }
    }
}

#[actor(name = "ringpost::Router")]
#[diagnostic::do_not_recommend]
impl<A: Accepts<M>, M: Message + Wire> Actor for Router<A, M> {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.watch(cx);
        Ok(())
    }
}

#[handlers(Down)]
impl<A: Accepts<M>, M: Message + Wire> Router<A, M> {
    /// Passes a message to a worker, whose answer goes to the asker.
    #[handler]
    pub async fn route(
        &mut self,
        msg: M,
        reply: ReplyTo<<A as Accepts<M>>::Reply>,
        cx: &mut Context<Self>,
    ) {
        self.watch(cx);
        if !reply.is_awaited() {
            return self.pool.tell(msg).await.unwrap_or_else(|error| lost(&self.pool, &error));
        }
        let (sent, is_sent) = oneshot::channel();
        let mut asked = Box::pin(spans::keep(ask(self.pool.clone(), msg, reply, sent)));
        tokio::select! {
            biased;
            () = &mut asked => {}
            // A worker has the message: a task waits for the answer without the router.
            _ = is_sent => drop(cx.node().runtime().spawn(asked)),
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

/// Asks the pool, unless the asker goes away first, and passes the answer on to the asker. Drops
/// `sent` when a worker has the message.
async fn ask<A: Accepts<M>, M: Message>(
    pool: Pool<A>,
    message: M,
    reply: ReplyTo<<A as Accepts<M>>::Reply>,
    sent: oneshot::Sender<()>,
) {
    let left = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
    let timeout: Duration = reply.deadline().map_or(limits::ASK_TIMEOUT, left);
    let answer = tokio::select! {
        biased;
        // If the asker has gone, the ask is not begun.
        () = poll_fn(|cx| reply.poll_gone(cx)) => return,
        answer = pool.ask(message).timeout(timeout).answer(|| drop(sent)) => answer,
    };
    match answer {
        Ok(answer) => reply.send(answer),
        Err(error) => {
            let pool = &pool.shared.address;
            log::warn!(%pool, %error, "no answer to an ask that was routed");
            reply.unanswered_by(error.cause);
        }
    }
}

/// Logs a tell that no worker takes, and makes it a dead letter.
fn lost<A: Accepts<M>, M: Message>(pool: &Pool<A>, error: &TellError<M>) {
    let to = pool.supervisor().address().clone();
    log::warn!(pool = %to, message = M::NAME, %error, "a router lost a message");
    let (message, name) = (M::ID, Some(M::NAME));
    let letter = DeadLetter { to, message, name, cause: DeadLetterCause::Stopped };
    pool.shared.node.dead_letters().bury(letter);
}
