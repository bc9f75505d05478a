//! `ask`: a message and its answer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::coop;
use tokio::time::Instant;

use super::port::{AskPort, Pending, Sending};
use crate::deadlines::{Expired, Key};
use crate::error::{AskError, Cause};
use crate::limits;
use crate::message::Message;

/// A question on its way: awaiting it waits for room, sends, and waits for the answer, 5 seconds
/// unless [`timeout`](Asked::timeout) says otherwise. It may be awaited anywhere, also outside
/// tokio: the runtime of its node keeps the time.
///
/// # Cancel safety
/// Dropped before it is ready, an ask that its actor has not begun is never handled, and the reply
/// to one that it has begun is dropped. (Of an actor on another node this node learns which it was
/// only from the answer.)
#[must_use = "nothing is sent until this is awaited"]
pub struct Asked<'a, P: AskPort<M>, M: Message> {
    sending: Sending<'a, P, M>,
    timeout: Duration,
    /// Set at the first poll.
    deadline: Option<Instant>,
    pending: Option<Pending<P::Reply>>,
    /// Its place among the deadlines of its node, while it waits.
    place: Option<Key>,
}

impl<'a, P: AskPort<M>, M: Message> Asked<'a, P, M> {
    pub(super) fn new(to: &'a P, message: M) -> Self {
        Asked {
            sending: Sending::new(to, message),
            timeout: limits::ASK_TIMEOUT,
            deadline: None,
            pending: None,
            place: None,
        }
    }

    /// Waits this long in all, from the first poll to the answer; a year at most. The actor never
    /// begins an ask after that.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.min(limits::ASK_TIMEOUT_MAX);
        self
    }

    /// Sends, if that is not done, and looks for the answer.
    fn poll_answer(
        &mut self,
        deadline: Instant,
        cx: &mut Context<'_>,
    ) -> Poll<Result<P::Reply, AskError>> {
        if self.pending.is_none() {
            let Sending { to, message, line } = &mut self.sending;
            assert!(message.is_some(), "an `ask` was polled after it was ready");
            match ready!(to.poll_ask(message, deadline, line, cx)) {
                Ok(pending) => {
                    // It has the waker already, and is ready after a wake-up at the earliest.
                    self.pending = Some(pending);
                    return Poll::Pending;
                }
                Err(cause) => {
                    self.sending.give_up();
                    return Poll::Ready(Err(AskError::NotSent(cause)));
                }
            }
        }
        match &mut self.pending {
            Some(pending) => pending.poll(cx),
            None => Poll::Pending,
        }
    }

    /// Ends the ask without an answer.
    fn expire(&mut self, expired: Expired) -> Result<P::Reply, AskError> {
        if let Some(pending) = self.pending.take() {
            return pending.give_up(expired);
        }
        self.sending.give_up();
        Err(AskError::NotSent(match expired {
            Expired::Deadline => Cause::Timeout,
            Expired::RuntimeGone => Cause::Leaving,
        }))
    }

    fn leave_deadlines(&mut self) {
        if let Some(place) = self.place.take()
            && let Some(deadlines) = self.sending.to.deadlines()
        {
            deadlines.cancel(place);
        }
    }
}

impl<P: AskPort<M>, M: Message> Unpin for Asked<'_, P, M> {}

impl<P: AskPort<M>, M: Message> Future for Asked<'_, P, M> {
    type Output = Result<P::Reply, AskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        // A task that only asks lets others run now and then, as with tokio's own channels.
        let turn = ready!(coop::poll_proceed(cx));
        let deadline = *this.deadline.get_or_insert_with(|| Instant::now() + this.timeout);
        let ended = match this.poll_answer(deadline, cx) {
            Poll::Ready(ended) => ended,
            Poll::Pending => {
                // Only a reference to nobody has none, and its ask has ended.
                let Some(deadlines) = this.sending.to.deadlines() else { return Poll::Pending };
                let expired = ready!(deadlines.poll(&mut this.place, deadline, cx));
                this.expire(expired)
            }
        };
        turn.made_progress();
        this.pending = None;
        this.leave_deadlines();
        Poll::Ready(ended)
    }
}

impl<P: AskPort<M>, M: Message> Drop for Asked<'_, P, M> {
    fn drop(&mut self) {
        self.leave_deadlines();
    }
}
