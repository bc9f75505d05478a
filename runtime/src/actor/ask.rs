//! `ask`: a message and its answer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::asking::{Asking, Question};
use super::destination::{Destination, View, begin_ask};
use super::permit::Permit;
use super::port::{AskPort, Find, NewAsk, Port, UNSENT};
use super::sending::{Heading, Sending};
use super::tell::Tell;
use super::time_limit::TimeLimit;
use crate::address::Shown;
use crate::deadlines::Deadlines;
use crate::error::{AskCause, AskError, Cause, TellError};
use crate::mailbox::Outlined;
use crate::message::Message;

/// A question on its way: awaiting it waits for room, sends, and waits for the answer. How long, is
/// said by the first of these that says it: [`timeout`](Ask::timeout), its reference
/// ([`ActorRef::with_ask_timeout`](super::ActorRef::with_ask_timeout)), the actor's type
/// ([`Actor::ASK_TIMEOUT`](super::Actor::ASK_TIMEOUT)), its node
/// ([`ask_timeout`](crate::NodeBuilder::ask_timeout)); else it is 5 seconds. It may be awaited
/// anywhere, also outside tokio: the runtime of its node keeps the time.
/// [`try_send`](Ask::try_send) sends it without waiting, and [`blocking`](Ask::blocking) is for
/// threads that are not async.
///
/// # Cancel safety
/// Dropped before it is ready, an ask that its actor has not begun is never handled, and the reply
/// to one that it has begun is dropped. (Of an actor on another node this node learns which it was
/// only from the answer.)
#[must_use = "nothing is sent until this is awaited"]
pub struct Ask<'a, P: Find, M, R = <P as Port<M>>::Reply> {
    way: Outlined<Way<'a, P, M, R>>,
}

/// The parts of a question on its way, which are dropped by one call.
struct Way<'a, P: Find, M, R> {
    sending: Sending<'a, P, M>,
    asking: Asking<R>,
}

impl<'a, P: Find, M, R> Ask<'a, P, M, R> {
    /// Makes an ask that waits for `timeout`, or else as long as its node says.
    #[inline]
    pub(super) fn new(to: &'a Destination<P>, message: M, timeout: Option<Duration>) -> Self {
        let limit = TimeLimit::of_ask(timeout, to.deadlines());
        Ask::of(Sending::new(to, message), limit)
    }

    #[inline]
    pub(super) fn of(sending: Sending<'a, P, M>, limit: TimeLimit) -> Self {
        Ask { way: Outlined::new(Way { sending, asking: Asking::new(limit) }) }
    }
}

impl<'a, P: AskPort<M>, M: Message> Ask<'a, P, M> {
    /// Makes an ask whose time may count already.
    pub(super) fn with_limit(to: &'a Destination<P>, message: M, limit: TimeLimit) -> Self {
        Ask::of(Sending::new(to, message), limit)
    }

    /// Sends to the room that an actor of this node has for it, if the message is still here.
    ///
    /// # Errors
    /// [`Cause::Cycle`] when the actor waits for the asker. Then nothing was sent.
    pub(super) fn send_reserved(
        &mut self,
        to: &'a Destination<P>,
        room: Permit<P, M>,
    ) -> Result<(), Cause> {
        let Way { sending, asking } = &mut *self.way;
        sending.redirect(to);
        let mut ask = NewAsk::new(asking.limit.start(), Waker::noop());
        let (to, message, line) = sending.parts();
        let View::Local(actor) = to.view() else { return Ok(()) };
        ask.wait = begin_ask(actor.actor().0, line)?;
        // Where it cannot be put, it is sent as any other.
        if room.ask(message, &mut ask).is_ok() {
            drop(asking.sent(ask));
        }
        Ok(())
    }

    /// Returns the message of an ask that was not sent, and its time.
    pub(super) fn into_unsent(mut self) -> (M, TimeLimit) {
        (self.way.sending.give_up().expect(UNSENT), self.way.asking.limit.take())
    }

    /// Tells the same message in place of asking: no answer is waited for, and what the handler
    /// returns is dropped.
    ///
    /// # Panics
    /// If it was polled and has sent its message.
    pub fn tell(mut self) -> Tell<'a, P, M> {
        let remote = self.way.sending.heading.line.remote.renewed();
        let message = self.way.sending.give_up().expect("an `ask` was to be sent twice");
        Tell::of(Sending::with_waiter(self.way.sending.heading.to, message, remote))
    }

    /// Waits this long in all, from the first poll to the answer; a year at most. The actor never
    /// begins an ask after that.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.way.asking.limit.set(timeout);
        self
    }

    /// Waits for a link to the actor's node also while that is down, where an ask fails at once
    /// otherwise: as long as the time-out of the ask says.
    pub fn wait_for_link(mut self) -> Self {
        self.way.sending.wait_for_link();
        self
    }

    /// Returns the same ask, which owns its reference: to be kept, sent to another thread, or
    /// awaited with others of its kind, as by `join_all`. Its time counts from its own first poll.
    ///
    /// # Panics
    /// If it was polled and has sent its message.
    pub fn into_ask(
        mut self,
    ) -> impl Future<Output = Result<P::Reply, AskError>> + Send + 'static + use<P, M>
    where
        P: Clone + Send + Sync + 'static,
    {
        let (to, limit) = (self.way.sending.heading.to.clone(), self.way.asking.limit.fresh());
        let remote = self.way.sending.heading.line.remote.renewed();
        let message = self.way.sending.give_up().expect("an `ask` was to be sent twice");
        async move {
            let sending = Sending::with_waiter(&to, message, remote);
            Ask::of(sending, limit).await
        }
    }

    /// Sends now, if that needs no waiting. Await the returned ask for the answer, with the same
    /// time-out, which counts from now on (from its first poll, if it was polled already). Dropped,
    /// it is taken back.
    ///
    /// # Errors
    /// [`TellError`], with the message; [`MailboxFull`](crate::Cause::MailboxFull),
    /// [`Opening`](crate::Cause::Opening) or [`LinkDown`](crate::Cause::LinkDown) where awaiting
    /// the ask would wait to send it.
    ///
    /// # Panics
    /// If it was polled and has sent its message.
    pub fn try_send(mut self) -> Result<Self, TellError<M>> {
        assert!(self.way.sending.message.is_some(), "an `ask` was to be sent twice");
        // Its place in a line, if it waited: no room is kept for it any more.
        self.way.sending.leave();
        let mut ask = NewAsk::new(self.way.asking.limit.start(), Waker::noop());
        let (to, message, _) = self.way.sending.parts();
        match to.try_ask(message, &mut ask).and_then(|()| self.way.asking.sent(ask)) {
            Ok(()) => Ok(self),
            Err(cause) => {
                let message = self.way.sending.give_up().expect(UNSENT);
                Err(TellError { message, cause })
            }
        }
    }

    /// Sends, and waits for the answer, on a thread that is none of an async runtime's: one of the
    /// program's own, or one that `spawn_blocking` gave. The runtime of the node has to run
    /// meanwhile: one of a single thread runs only while a thread is in its `block_on`.
    ///
    /// # Errors
    /// As of awaiting it.
    ///
    /// # Panics
    /// In an async task, whose thread it would take from all others (unless it leads to no actor).
    pub fn blocking(self) -> Result<P::Reply, AskError> {
        Sending::<P, M>::block_on(self.way.sending.heading.to.deadlines(), self)
    }
}

impl<P: Find, M, R> Unpin for Ask<'_, P, M, R> {}

impl<P: AskPort<M>, M: Message> Future for Ask<'_, P, M> {
    type Output = Result<P::Reply, AskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Way { sending, asking } = &mut *self.way;
        asking.poll(sending, cx)
    }
}

impl<P: AskPort<M>, M: Message> Question<P::Reply> for Sending<'_, P, M> {
    fn poll_send(
        &mut self,
        ask: &mut NewAsk<'_, P::Reply>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Cause>> {
        let (to, message, line) = self.parts();
        assert!(message.is_some(), "an `ask` was polled after it was ready");
        to.poll_ask(message, ask, line, cx)
    }

    fn discard(&mut self) {
        drop(self.give_up());
    }

    fn deadlines(&self) -> Option<&Deadlines> {
        self.heading.to.deadlines()
    }

    fn end(&mut self) {
        self.heading.end();
    }

    fn actor(&self) -> String {
        self.heading.called()
    }

    fn error(&self, cause: AskCause) -> AskError {
        self.heading.error(cause, M::NAME)
    }
}

impl<P: Find> Heading<'_, P> {
    /// Returns what people call the actor that is asked.
    fn called(&self) -> String {
        let to = self.settled.as_deref().unwrap_or(self.to);
        let kind = match to.view() {
            View::Local(near) => near.actor().0.kind().name,
            View::Remote(sender, _) => sender.request().called.kind,
            View::Dead(_) => "",
        };
        let address = to.address(|near| near.actor().0.address());
        Shown { address, kind }.to_string()
    }

    /// Returns the error of an ask of this message that ends for `cause`.
    #[cold]
    #[inline(never)]
    fn error(&self, cause: AskCause, message: &'static str) -> AskError {
        let actor = self.to.address(|near| near.actor().0.address());
        let is_late = cause == AskCause::NotSent(Cause::Timeout);
        let error = AskError::new(cause, actor.clone(), message);
        match self.to.view() {
            // A name that is misspelt waits as one that is to come up does.
            View::Remote(_, node) if is_late && !node.has_linked(actor.node()) => {
                error.of_unknown_node()
            }
            _ => error,
        }
    }
}
