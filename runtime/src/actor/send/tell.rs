//! `tell`: a message without an answer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::coop;

use super::destination::Destination;
use super::port::{LocalHandle, PendingFate, Port, UNSENT, unsent};
use super::sending::PendingSend;
use super::time_limit::TimeLimit;
use crate::error::{Cause, TellError};
use crate::fate::Fate;
use crate::mailbox::OutlinedDrop;
use crate::message::Message;

/// The future of a tell: waits for room and sends the message.
///
/// # Cancel safety
/// If this is dropped before it is ready, nothing was sent: the message is dropped with it, and its
/// turn in the queue for room goes to the next sender.
#[must_use = "nothing is sent until this is awaited"]
pub struct Tell<'a, P: LocalHandle, M> {
    sending: OutlinedDrop<PendingSend<'a, P, M>>,
    limit: Option<Box<TimeLimit>>,
}

impl<'a, P: LocalHandle, M> Tell<'a, P, M> {
    pub(crate) fn new(to: &'a Destination<P>, message: M) -> Self {
        Tell::of(PendingSend::new(to, message))
    }

    pub(crate) fn of(sending: PendingSend<'a, P, M>) -> Self {
        Tell { sending: OutlinedDrop::new(sending), limit: None }
    }
}

impl<'a, P: Port<M>, M: Message> Tell<'a, P, M> {
    /// Waits until the message's fate is known, too. For another node that takes at least a round
    /// trip; if the link is lost, it takes until the next link or until the node is down.
    pub fn confirmed(self) -> Confirmed<'a, P, M> {
        Confirmed { told: self, fate: None }
    }

    /// Waits for a link to the actor's node even while that node is down: as long as it takes,
    /// unless [`timeout`](Tell::timeout) limits it. By default a send then fails at once.
    pub fn wait_for_link(mut self) -> Self {
        self.sending.wait_for_link();
        self
    }

    /// Sets the timeout for sending, from the first poll; at most a year. If it passes, nothing was
    /// sent, and the error is [`Cause::Timeout`], with the message.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.limit = Some(Box::new(TimeLimit::new(timeout)));
        self
    }

    /// Sends the message on a thread that belongs to no async runtime: one of the program's own
    /// threads, or a thread of `spawn_blocking`. The runtime of the node must run meanwhile; a
    /// runtime with a single thread runs only while a thread is in its `block_on`.
    ///
    /// # Errors
    /// The errors of awaiting the tell.
    ///
    /// # Panics
    /// In an async task, because waiting would block the other tasks of its thread. (Not if the
    /// tell leads to no actor: it then fails at once.)
    pub fn blocking(self) -> Result<(), TellError<M>> {
        PendingSend::<P, M>::block_on(self.sending.heading.to.deadlines(), self)
    }

    /// Sends the message, and stores its pending fate in `fate` if the sender waits for it.
    #[inline]
    fn poll_told(
        &mut self,
        fate: Option<&mut Option<PendingFate>>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), TellError<M>>> {
        match &mut self.limit {
            None => poll_tell(&mut self.sending, fate, cx),
            Some(limit) => poll_limited(limit, &mut self.sending, fate, cx),
        }
    }
}

impl<P: LocalHandle, M> Unpin for Tell<'_, P, M> {}

impl<P: Port<M>, M: Message> Future for Tell<'_, P, M> {
    type Output = Result<(), TellError<M>>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_told(None, cx)
    }
}

/// The future of a confirmed tell: waits for room, sends the message, and waits for its fate.
///
/// A message that is lost is a dead letter, too.
///
/// # Cancel safety
/// If this is dropped before the message is committed, nothing was sent. If it is dropped later,
/// the message goes on, and only its fate is not reported.
#[must_use = "nothing is sent until this is awaited"]
pub struct Confirmed<'a, P: LocalHandle, M> {
    told: Tell<'a, P, M>,
    fate: Option<PendingFate>,
}

impl<P: Port<M>, M: Message> Confirmed<'_, P, M> {
    /// Waits until the message is committed. Await the future itself later for the fate; other
    /// messages may be sent in between.
    ///
    /// # Errors
    /// [`TellError`], with the message. Do not await the future after an error.
    ///
    /// # Cancel safety
    /// This may be called again after a future was dropped.
    pub async fn committed(&mut self) -> Result<(), TellError<M>> {
        std::future::poll_fn(|cx| self.poll_committed(cx).map_ok(|_| ())).await
    }

    fn poll_committed(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<&mut PendingFate, TellError<M>>> {
        let Confirmed { told, fate } = self;
        if fate.is_none() {
            ready!(told.poll_told(Some(fate), cx))?;
        }
        // A port that has sent the message has stored the fate, unless it knows nothing of it.
        Poll::Ready(Ok(fate.get_or_insert(PendingFate::Known(Fate::Unknown))))
    }
}

impl<P: LocalHandle, M> Unpin for Confirmed<'_, P, M> {}

impl<P: Port<M>, M: Message> Future for Confirmed<'_, P, M> {
    type Output = Result<Fate, TellError<M>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        ready!(self.poll_committed(cx))?.poll(cx).map(Ok)
    }
}

#[cold]
fn poll_limited<P: Port<M>, M: Message>(
    limit: &mut TimeLimit,
    sending: &mut PendingSend<'_, P, M>,
    fate: Option<&mut Option<PendingFate>>,
    cx: &mut Context<'_>,
) -> Poll<Result<(), TellError<M>>> {
    limit.start();
    let mut ended = poll_tell(sending, fate, cx);
    if ended.is_pending()
        && let Poll::Ready(expired) = limit.poll(sending.heading.to.deadlines(), cx)
    {
        let message = sending.give_up().expect(UNSENT);
        ended = Poll::Ready(Err(TellError { message, cause: unsent(expired) }));
    }
    if ended.is_ready() {
        limit.leave();
    }
    ended
}

/// (Not inlined, so that it is not compiled into every sender.)
#[inline(never)]
fn poll_tell<P: Port<M>, M: Message>(
    sending: &mut PendingSend<'_, P, M>,
    fate: Option<&mut Option<PendingFate>>,
    cx: &mut Context<'_>,
) -> Poll<Result<(), TellError<M>>> {
    // As with tokio's own channels, a task that does nothing but send must let other tasks run, so
    // that its messages leave while it continues.
    let turn = ready!(begin_turn(cx));
    // This usually sends the message.
    let PendingSend { heading, message } = sending;
    if fate.is_none() && heading.to.tell_at_once(message, &mut heading.line) {
        // Same effect as `made_progress`, without the check when it is dropped.
        std::mem::forget(turn);
        if heading.line.is_waiting() {
            heading.end();
        }
        return Poll::Ready(Ok(()));
    }
    poll_tell_on(sending, fate, turn, cx)
}

/// Takes one unit of the task's coop budget; see [`coop::poll_proceed`].
#[inline(never)]
fn begin_turn(cx: &mut Context<'_>) -> Poll<coop::RestoreOnPending> {
    coop::poll_proceed(cx)
}

#[inline(never)]
fn poll_tell_on<P: Port<M>, M: Message>(
    sending: &mut PendingSend<'_, P, M>,
    fate: Option<&mut Option<PendingFate>>,
    turn: coop::RestoreOnPending,
    cx: &mut Context<'_>,
) -> Poll<Result<(), TellError<M>>> {
    let (to, message, line) = sending.parts();
    assert!(message.is_some(), "a `tell` was polled after it was ready");
    let told = to.poll_tell(message, fate, line, cx);
    if told.is_pending() {
        return Poll::Pending;
    }
    turn.made_progress();
    // Now, and not when the send is dropped: a refused send may be kept for long.
    sending.heading.end();
    match told {
        Poll::Ready(Err(cause)) => Poll::Ready(Err(unsent_message(&mut sending.message, cause))),
        Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(())),
    }
}

/// Sends a tell if that needs no waiting.
pub(crate) fn try_tell<P: Port<M>, M: Message>(
    to: &Destination<P>,
    message: M,
) -> Result<(), TellError<M>> {
    let mut message = Some(message);
    let settled = to.settled();
    let sent = settled.as_ref().unwrap_or(to).try_tell(&mut message);
    sent.map_err(|cause| unsent_message(&mut message, cause))
}

#[cold]
fn unsent_message<M>(message: &mut Option<M>, cause: Cause) -> TellError<M> {
    let message = message.take().expect(UNSENT);
    TellError { message, cause }
}
