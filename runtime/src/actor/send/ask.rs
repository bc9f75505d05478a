//! `ask`: a message and its answer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::asking::{AskState, Question};
use super::destination::{Destination, DestinationView, begin_ask};
use super::permit::Permit;
use super::port::{AskPort, LocalHandle, NewAsk, Port, UNSENT};
use super::sending::{PendingSend, SendTarget};
use super::tell::Tell;
use super::time_limit::TimeLimit;
use crate::address::AddressDisplay;
use crate::deadlines::Deadlines;
use crate::error::{AskCause, AskError, Cause, TellError};
use crate::mailbox::OutlinedDrop;
use crate::message::Message;

/// The future of an ask: waits for room, sends the message, and waits for the answer.
///
/// Its timeout is the first of these that is set: the [`timeout`](Ask::timeout) of the ask, of the
/// reference ([`ActorRef::with_ask_timeout`](crate::ActorRef::with_ask_timeout)), of the actor's
/// type ([`Actor::ASK_TIMEOUT`](crate::Actor::ASK_TIMEOUT)), of the node
/// ([`ask_timeout`](crate::NodeBuilder::ask_timeout)); otherwise it is 5 seconds. An ask may be
/// awaited anywhere, even outside tokio, because the runtime of its node keeps the time.
/// [`try_send`](Ask::try_send) sends without waiting, and [`blocking`](Ask::blocking) is for
/// threads that are not async.
///
/// # Cancel safety
/// If an ask is dropped before it is ready, its actor never handles the message unless it has begun
/// it already; then the reply is dropped. (For an actor on another node, only an answer could tell
/// this node which of the two happened.)
#[must_use = "nothing is sent until this is awaited"]
pub struct Ask<'a, P: LocalHandle, M, R = <P as Port<M>>::Reply> {
    way: OutlinedDrop<AskFields<'a, P, M, R>>,
}

/// The state of an [`Ask`], in one struct so that one call drops it.
struct AskFields<'a, P: LocalHandle, M, R> {
    sending: PendingSend<'a, P, M>,
    asking: AskState<R>,
}

impl<'a, P: LocalHandle, M, R> Ask<'a, P, M, R> {
    /// Creates an ask with this timeout, or with the timeout of its node if `timeout` is `None`.
    #[inline]
    pub(crate) fn new(to: &'a Destination<P>, message: M, timeout: Option<Duration>) -> Self {
        let limit = TimeLimit::of_ask(timeout, to.deadlines());
        Ask::of(PendingSend::new(to, message), limit)
    }

    #[inline]
    pub(crate) fn of(sending: PendingSend<'a, P, M>, limit: TimeLimit) -> Self {
        Ask { way: OutlinedDrop::new(AskFields { sending, asking: AskState::new(limit) }) }
    }
}

impl<'a, P: AskPort<M>, M: Message> Ask<'a, P, M> {
    /// Creates an ask whose time limit may have started already.
    pub(crate) fn with_limit(to: &'a Destination<P>, message: M, limit: TimeLimit) -> Self {
        Ask::of(PendingSend::new(to, message), limit)
    }

    /// Changes the destination to `to`, and sends the message into `room`, which is reserved in the
    /// mailbox of `to`. If `to` is not an actor of this node, the next poll sends the message.
    ///
    /// # Errors
    /// [`Cause::Cycle`] if the actor waits for the asker; then nothing was sent.
    pub(crate) fn send_reserved(
        &mut self,
        to: &'a Destination<P>,
        room: Permit<P, M>,
    ) -> Result<(), Cause> {
        let AskFields { sending, asking } = &mut *self.way;
        sending.redirect(to);
        let mut ask = NewAsk::new(asking.limit.start(), Waker::noop());
        let (to, message, line) = sending.parts();
        let DestinationView::Local(actor) = to.view() else { return Ok(()) };
        ask.wait = begin_ask(actor.actor().0, line)?;
        // If the room does not take the message, the next poll sends it as usual.
        if room.ask(message, &mut ask).is_ok() {
            drop(asking.sent(ask));
        }
        Ok(())
    }

    /// Returns the message of an ask that was not sent, and its time limit.
    pub(crate) fn into_unsent(mut self) -> (M, TimeLimit) {
        (self.way.sending.give_up().expect(UNSENT), self.way.asking.limit.take())
    }

    /// Tells the message instead of asking: no answer is awaited, and the handler's reply is
    /// dropped.
    ///
    /// # Panics
    /// If it was polled and has sent its message.
    pub fn tell(mut self) -> Tell<'a, P, M> {
        let remote = self.way.sending.heading.line.remote.renewed();
        let message = self.way.sending.give_up().expect("an `ask` was to be sent twice");
        Tell::of(PendingSend::with_waiter(self.way.sending.heading.to, message, remote))
    }

    /// Sets the timeout, from the first poll to the answer; at most a year. The actor never begins
    /// an ask after its timeout. On another node, time on the network counts only as far as it
    /// exceeds the time of the fastest frame of the last 10 to 20 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.way.asking.limit.set(timeout);
        self
    }

    /// Waits for a link to the actor's node even while that node is down, until the timeout of the
    /// ask. By default an ask then fails at once.
    pub fn wait_for_link(mut self) -> Self {
        self.way.sending.wait_for_link();
        self
    }

    /// Returns the same ask as a future that owns its reference, so that it can be stored, sent to
    /// another thread, or awaited with others by `join_all`. Its timeout starts with its own first
    /// poll.
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
            let sending = PendingSend::with_waiter(&to, message, remote);
            Ask::of(sending, limit).await
        }
    }

    /// Sends the message now, if that needs no waiting. Await the returned ask for the answer. The
    /// timeout starts with this call, or with the first poll if the ask was polled before. Dropping
    /// the returned ask takes it back, as described for [`Ask`].
    ///
    /// # Errors
    /// [`TellError`], with the message. Its cause is [`MailboxFull`](crate::Cause::MailboxFull),
    /// [`Opening`](crate::Cause::Opening) or [`LinkDown`](crate::Cause::LinkDown) if the message
    /// cannot be sent without waiting.
    ///
    /// # Panics
    /// If it was polled and has sent its message.
    pub fn try_send(mut self) -> Result<Self, TellError<M>> {
        assert!(self.way.sending.message.is_some(), "an `ask` was to be sent twice");
        // If it waited for room, it gives up its place in the queue.
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

    /// Sends the message and waits for the answer, on a thread that belongs to no async runtime:
    /// one of the program's own threads, or a thread of `spawn_blocking`. The runtime of the node
    /// must run meanwhile; a runtime with a single thread runs only while a thread is in its
    /// `block_on`.
    ///
    /// # Errors
    /// The errors of awaiting the ask.
    ///
    /// # Panics
    /// In an async task, because waiting would block the other tasks of its thread. (Not if the ask
    /// leads to no actor: it then fails at once.)
    pub fn blocking(self) -> Result<P::Reply, AskError> {
        PendingSend::<P, M>::block_on(self.way.sending.heading.to.deadlines(), self)
    }
}

impl<P: LocalHandle, M, R> Unpin for Ask<'_, P, M, R> {}

impl<P: AskPort<M>, M: Message> Future for Ask<'_, P, M> {
    type Output = Result<P::Reply, AskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let AskFields { sending, asking } = &mut *self.way;
        asking.poll(sending, cx)
    }
}

impl<P: AskPort<M>, M: Message> Question<P::Reply> for PendingSend<'_, P, M> {
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

impl<P: LocalHandle> SendTarget<'_, P> {
    /// Returns the address and type of the asked actor, for display.
    fn called(&self) -> String {
        let to = self.settled.as_deref().unwrap_or(self.to);
        let kind = match to.view() {
            DestinationView::Local(near) => near.actor().0.kind().name,
            DestinationView::Remote(sender, _) => sender.request().called.kind,
            DestinationView::Dead(_) => "",
        };
        let address = to.address(|near| near.actor().0.address());
        AddressDisplay { address, kind }.to_string()
    }

    /// Returns the error of an ask that fails with `cause`; `message` is the name of its message.
    #[cold]
    #[inline(never)]
    fn error(&self, cause: AskCause, message: &'static str) -> AskError {
        let actor = self.to.address(|near| near.actor().0.address());
        let is_late = cause == AskCause::NotSent(Cause::Timeout);
        let error = AskError::new(cause, actor.clone(), message);
        match self.to.view() {
            // A misspelt node name waits like a node that is not up yet: let the error say so.
            DestinationView::Remote(_, node) if is_late && !node.has_linked(actor.node()) => {
                error.of_unknown_node()
            }
            _ => error,
        }
    }
}
