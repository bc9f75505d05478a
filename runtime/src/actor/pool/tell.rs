//! Tells of a pool: a worker with room is looked for.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use tokio::task::coop;

use super::Pool;
use crate::actor::{Accepts, Handlers};
use crate::error::{Cause, TellError};
use crate::message::Message;

impl<A: Handlers> Pool<A> {
    /// Sends to the first worker that has room, or is added or made anew.
    async fn tell_when_room<M: Message>(&self, mut message: M) -> Result<(), TellError<M>>
    where
        A: Accepts<M>,
    {
        loop {
            let mut changed = pin!(self.shared.changed());
            changed.as_mut().enable();
            let ring = self.shared.ring();
            let order = self.shared.order(&ring, &message);
            let Err(unsent) = self.try_each(&ring, order, message) else { return Ok(()) };
            if unsent.cause != Cause::MailboxFull {
                return Err(unsent);
            }
            message = unsent.message;
            let room = tokio::select! {
                biased;
                () = changed => continue,
                room = self.room(&ring, order, &[]) => room,
            };
            return match room {
                Ok((_, room)) => room.tell(message),
                Err(cause) => Err(TellError { message, cause }),
            };
        }
    }
}

/// A message on its way to a worker of a [`Pool`]: awaiting it looks for a worker, and sends.
///
/// # Cancel safety
/// Dropped before it is ready, nothing was sent: the message is dropped with it, and its turns go
/// to the next.
#[must_use = "nothing is sent until this is awaited"]
pub struct PoolTell<'a, A: Handlers, M> {
    pool: &'a Pool<A>,
    /// There until it is polled first.
    message: Option<M>,
    /// There while no worker has room.
    waits: Option<Waits<'a, M>>,
}

type Waits<'a, M> = Pin<Box<dyn Future<Output = Result<(), TellError<M>>> + Send + 'a>>;

impl<'a, A: Handlers, M> PoolTell<'a, A, M> {
    pub(super) fn new(pool: &'a Pool<A>, message: M) -> Self {
        PoolTell { pool, message: Some(message), waits: None }
    }
}

impl<A: Handlers, M> Unpin for PoolTell<'_, A, M> {}

impl<A: Accepts<M>, M: Message> Future for PoolTell<'_, A, M> {
    type Output = Result<(), TellError<M>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // A task that only tells lets others run.
        let turn = ready!(coop::poll_proceed(cx));
        let this = &mut *self;
        let (pool, first) = (this.pool, this.message.take());
        let told = match first {
            // The sender looks for a worker itself (PL-2).
            Some(message) => match pool.try_tell(message) {
                Err(TellError { message, cause: Cause::MailboxFull }) => {
                    let waits = this.waits.insert(Box::pin(pool.tell_when_room(message)));
                    ready!(waits.as_mut().poll(cx))
                }
                told => told,
            },
            None => {
                let waits = this.waits.as_mut().expect("a `tell` was polled after it was ready");
                ready!(waits.as_mut().poll(cx))
            }
        };
        turn.made_progress();
        this.waits = None;
        Poll::Ready(told)
    }
}
