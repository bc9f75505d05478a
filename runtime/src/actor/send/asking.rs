//! The state of an ask, independent of its message and its actor.

use std::task::{Context, Poll, ready};

use tokio::task::coop;
use tokio::time::Instant;

use super::port::{NewAsk, PendingAnswer, unsent};
use super::time_limit::TimeLimit;
use super::wait::WaitGuard;
use crate::actor::Reply;
use crate::deadlines::{Deadlines, ExpiryCause};
use crate::error::{AskCause, AskError, Cause};

/// The state of an ask except its message: held and polled by [`Ask`](crate::send::Ask), which
/// passes the message as a [`Question`]. Generic over the answer alone, so it is compiled once per
/// type of an answer, and not for each ask of a program.
pub(crate) struct AskState<R> {
    pub(crate) limit: TimeLimit,
    /// `Some` from the send to the end of the ask.
    pending: Option<PendingAnswer<R>>,
    /// The wait of the handler that asks; `Some` as long as `pending` is, if a handler asks.
    wait: Option<WaitGuard>,
}

/// The message of an ask that is answered with an `R`.
pub(crate) trait Question<R> {
    /// Sends the message if it can be sent; otherwise the message stays in place.
    fn poll_send(
        &mut self,
        ask: &mut NewAsk<'_, R>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Cause>>;

    /// Drops the message, and leaves the queue for room.
    fn discard(&mut self);

    /// Returns the deadlines of the sending node; `None` if nothing can be sent.
    fn deadlines(&self) -> Option<&Deadlines>;

    /// Leaves the queue for room: the send has ended.
    fn end(&mut self);

    /// Returns the address and type of the actor, for display.
    fn actor(&self) -> String;

    /// Returns the error of an ask that fails with `cause`.
    fn error(&self, cause: AskCause) -> AskError;
}

impl<R> AskState<R> {
    pub(crate) fn new(limit: TimeLimit) -> Self {
        AskState { limit, pending: None, wait: None }
    }

    /// Records that the message was sent.
    pub(crate) fn sent(&mut self, ask: NewAsk<'_, R>) -> Result<(), Cause> {
        (self.pending, self.wait) = (ask.answer, ask.wait);
        // A port that has sent the message has set the answer.
        if self.pending.is_some() { Ok(()) } else { Err(Cause::Stopped) }
    }
}

impl<R: Reply> AskState<R> {
    /// Sends the message if it is not sent yet, and waits for the answer until the time limit.
    pub(crate) fn poll(
        &mut self,
        question: &mut dyn Question<R>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<R, AskError>> {
        // As with tokio's own channels, a task that does nothing but ask must let other tasks run.
        let turn = ready!(coop::poll_proceed(cx));
        let deadline = self.limit.start();
        let ended = match self.poll_answer(question, deadline, cx) {
            // A separate arm, so that an answer does not touch an error, which is large.
            Poll::Ready(Ok(answer)) => {
                turn.made_progress();
                self.end(question);
                return Poll::Ready(Ok(answer));
            }
            Poll::Ready(ended) => ended,
            Poll::Pending => {
                let expired = ready!(self.limit.poll(question.deadlines(), cx));
                self.expire(question, expired)
            }
        };
        turn.made_progress();
        self.end(question);
        Poll::Ready(ended.map_err(|cause| question.error(cause)))
    }

    /// Sends the message if it is not sent yet, and polls for the answer.
    #[inline]
    fn poll_answer(
        &mut self,
        question: &mut dyn Question<R>,
        deadline: Instant,
        cx: &mut Context<'_>,
    ) -> Poll<Result<R, AskCause>> {
        if let Some(pending) = &mut self.pending {
            return match pending.poll(cx) {
                Poll::Ready(Err(cause)) => Poll::Ready(Err(self.named(question, cause))),
                polled => polled,
            };
        }
        let mut ask = NewAsk::new(deadline, cx.waker());
        // Only at the first poll: after a wait for room the actor is busy.
        ask.in_place = self.limit.take_fresh();
        let sent = ready!(question.poll_send(&mut ask, cx));
        if let Some(PendingAnswer::Here(answer)) = &mut ask.answer {
            return Poll::Ready(answer.take().ok_or(AskCause::Panicked));
        }
        let in_place = ask.in_place;
        if let Err(cause) = sent.and_then(|()| self.sent(ask)) {
            question.discard();
            return Poll::Ready(Err(AskCause::NotSent(cause)));
        }
        match &mut self.pending {
            // The actor may have answered on this thread.
            Some(pending) if in_place => pending.poll(cx),
            // The waker is registered: no answer can come before it wakes this task.
            _ => Poll::Pending,
        }
    }

    /// Adds the names of the actors to a cycle that the other actor's node has reported. Returns
    /// any other cause unchanged.
    #[cold]
    fn named(&self, question: &dyn Question<R>, cause: AskCause) -> AskCause {
        match (cause, &self.wait) {
            (AskCause::NotSent(Cause::Cycle(text)), Some(wait)) if text.is_empty() => {
                AskCause::NotSent(wait.cycle_with(&question.actor()))
            }
            (cause, _) => cause,
        }
    }

    /// Releases everything that the ask holds: it has ended.
    fn end(&mut self, question: &mut dyn Question<R>) {
        (self.pending, self.wait) = (None, None);
        question.end();
        self.limit.leave();
    }

    /// Ends an ask that has expired. Returns the answer if it has come at the last moment.
    fn expire(
        &mut self,
        question: &mut dyn Question<R>,
        expired: ExpiryCause,
    ) -> Result<R, AskCause> {
        if let Some(pending) = self.pending.take() {
            return pending.give_up(expired);
        }
        question.discard();
        Err(AskCause::NotSent(unsent(expired)))
    }
}
