//! `ask`: a message and its answer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};

use super::port::{AskPort, Pending, Sending};
use crate::error::{AskError, Cause};
use crate::limits;
use crate::message::Message;

pin_project! {
    /// A question on its way: awaiting it waits for room, sends, and waits for the answer, 5
    /// seconds unless [`timeout`](Asked::timeout) says otherwise.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, the message may or may not be handled; the answer is dropped.
    #[must_use = "nothing is sent until this is awaited"]
    pub struct Asked<'a, P: AskPort<M>, M: Message> {
        sending: Sending<'a, P, M>,
        timeout: Duration,
        // Set at the first poll.
        deadline: Option<Instant>,
        pending: Option<Pending<P::Reply>>,
        // Made only when the answer is not there at once.
        #[pin]
        sleep: Option<Sleep>,
    }
}

impl<'a, P: AskPort<M>, M: Message> Asked<'a, P, M> {
    pub(super) fn new(to: &'a P, message: M) -> Self {
        Asked {
            sending: Sending::new(to, message),
            timeout: limits::ASK_TIMEOUT,
            deadline: None,
            pending: None,
            sleep: None,
        }
    }

    /// Waits this long in all, from the first poll to the answer; a year at most. The actor skips
    /// an ask that it begins later than that.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.min(limits::ASK_TIMEOUT_MAX);
        self
    }
}

impl<P: AskPort<M>, M: Message> Future for Asked<'_, P, M> {
    type Output = Result<P::Reply, AskError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let deadline = *this.deadline.get_or_insert_with(|| Instant::now() + *this.timeout);
        if this.pending.is_none() {
            let Sending { to, message, line } = this.sending;
            assert!(message.is_some(), "an `ask` was polled after it was ready");
            match to.poll_ask(message, deadline, line, cx) {
                Poll::Ready(Ok(pending)) => *this.pending = Some(pending),
                Poll::Ready(Err(cause)) => {
                    this.sending.give_up();
                    return Poll::Ready(Err(AskError::NotSent(cause)));
                }
                Poll::Pending => {}
            }
        }
        if let Some(pending) = this.pending
            && let Poll::Ready(answer) = pending.poll(cx)
        {
            *this.pending = None;
            // The actor drops an ask that it finds too late, maybe before the timer fires.
            let late = matches!(answer, Err(AskError::NoReply)) && Instant::now() >= deadline;
            return Poll::Ready(if late { Err(AskError::Timeout) } else { answer });
        }
        if this.sleep.is_none() {
            this.sleep.set(Some(sleep_until(deadline)));
        }
        match this.sleep.as_pin_mut().map(|sleep| sleep.poll(cx)) {
            Some(Poll::Ready(())) if this.pending.take().is_some() => {
                Poll::Ready(Err(AskError::Timeout))
            }
            Some(Poll::Ready(())) => {
                this.sending.give_up();
                Poll::Ready(Err(AskError::NotSent(Cause::Timeout)))
            }
            _ => Poll::Pending,
        }
    }
}
