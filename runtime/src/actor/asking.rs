//! The course of an ask, whatever its message and its actor.

use std::task::{Context, Poll, ready};

use tokio::task::coop;
use tokio::time::Instant;

use super::Reply;
use super::port::{NewAsk, Pending, unsent};
use super::time_limit::TimeLimit;
use super::wait::Wait;
use crate::deadlines::{Deadlines, Expired};
use crate::error::{AskCause, AskError, Cause};

/// The state of an ask, beside its message: held and polled by [`Ask`](super::Ask), which passes
/// the message as a [`Question`]. Generic over the answer alone: it is compiled once for each type
/// of an answer, and not for each ask of a program.
pub(super) struct Asking<R> {
    pub(super) limit: TimeLimit,
    /// There from when it was sent to when it ended.
    pending: Option<Pending<R>>,
    /// The wait of the handler that asks, as long.
    wait: Option<Wait>,
}

/// The message of an ask that is answered with an `R`, on its way.
pub(super) trait Question<R> {
    /// Sends the message, if it can be sent; it is still there when it is not sent.
    fn poll_send(
        &mut self,
        ask: &mut NewAsk<'_, R>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Cause>>;

    /// Drops the message, and gives up its place in a line.
    fn discard(&mut self);

    /// Returns the deadlines of the node that sends; `None` where nothing can be sent.
    fn deadlines(&self) -> Option<&Deadlines>;

    /// Gives up its place in a line: the send has ended.
    fn end(&mut self);

    /// Returns what people call the actor.
    fn actor(&self) -> String;

    /// Returns the error of an ask that ends for `cause`.
    fn error(&self, cause: AskCause) -> AskError;
}

impl<R> Asking<R> {
    pub(super) fn new(limit: TimeLimit) -> Self {
        Asking { limit, pending: None, wait: None }
    }

    /// Notes that it was sent.
    pub(super) fn sent(&mut self, ask: NewAsk<'_, R>) -> Result<(), Cause> {
        (self.pending, self.wait) = (ask.answer, ask.wait);
        // A port that sends has made the way back.
        if self.pending.is_some() { Ok(()) } else { Err(Cause::Stopped) }
    }
}

impl<R: Reply> Asking<R> {
    /// Sends, if that is not done, and waits for the answer, as long as its time lasts.
    pub(super) fn poll(
        &mut self,
        question: &mut dyn Question<R>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<R, AskError>> {
        // A task that only asks lets others run now and then, as with tokio's own channels.
        let turn = ready!(coop::poll_proceed(cx));
        let deadline = self.limit.start();
        let ended = match self.poll_answer(question, deadline, cx) {
            // Apart from an error, which is large: no part of one is looked at.
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

    /// Sends, if that is not done, and looks for the answer.
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
        // Only a fresh ask: after a wait for room the actor is busy.
        ask.in_place = self.limit.take_fresh();
        let sent = ready!(question.poll_send(&mut ask, cx));
        if let Some(Pending::Here(answer)) = &mut ask.answer {
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
            // It has the waker already, and is ready after a wake-up at the earliest.
            _ => Poll::Pending,
        }
    }

    /// Names the actors of a cycle that the node of the other actor has found.
    #[cold]
    fn named(&self, question: &dyn Question<R>, cause: AskCause) -> AskCause {
        match (cause, &self.wait) {
            (AskCause::NotSent(Cause::Cycle(text)), Some(wait)) if text.is_empty() => {
                AskCause::NotSent(wait.cycle_with(&question.actor()))
            }
            (cause, _) => cause,
        }
    }

    /// Gives up all that it holds on the way: it has ended.
    fn end(&mut self, question: &mut dyn Question<R>) {
        (self.pending, self.wait) = (None, None);
        question.end();
        self.limit.leave();
    }

    /// Ends the ask without an answer.
    fn expire(&mut self, question: &mut dyn Question<R>, expired: Expired) -> Result<R, AskCause> {
        if let Some(pending) = self.pending.take() {
            return pending.give_up(expired);
        }
        question.discard();
        Err(AskCause::NotSent(unsent(expired)))
    }
}
