//! `tell`: one way.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::coop;

use super::destination::Destination;
use super::port::{Find, PendingFate, Port, UNSENT, unsent};
use super::sending::Sending;
use super::time_limit::TimeLimit;
use crate::error::{Cause, TellError};
use crate::fate::Fate;
use crate::mailbox::Outlined;
use crate::message::Message;

/// A message on its way: awaiting it waits for room and sends.
///
/// # Cancel safety
/// Dropped before it is ready, nothing was sent: the message is dropped with it, and its turn in
/// the line for room goes to the next.
#[must_use = "nothing is sent until this is awaited"]
pub struct Tell<'a, P: Find, M> {
    sending: Outlined<Sending<'a, P, M>>,
    limit: Option<Box<TimeLimit>>,
}

impl<'a, P: Find, M> Tell<'a, P, M> {
    pub(super) fn new(to: &'a Destination<P>, message: M) -> Self {
        Tell::of(Sending::new(to, message))
    }

    pub(super) fn of(sending: Sending<'a, P, M>) -> Self {
        Tell { sending: Outlined::new(sending), limit: None }
    }
}

impl<'a, P: Port<M>, M: Message> Tell<'a, P, M> {
    /// Waits until the message's fate is known, too. To another node that takes at least a round
    /// trip; when the link is lost, until the next one or until the node is down.
    pub fn confirmed(self) -> Confirmed<'a, P, M> {
        Confirmed { told: self, fate: None }
    }

    /// Waits for a link to the actor's node also while that is down, where a send fails at once
    /// otherwise: as long as it takes, unless [`timeout`](Tell::timeout) says otherwise.
    pub fn wait_for_link(mut self) -> Self {
        self.sending.wait_for_link();
        self
    }

    /// Waits this long at most to send, from the first poll on; a year at most. Then nothing was
    /// sent, and the error is [`Cause::Timeout`], with the message.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.limit = Some(Box::new(TimeLimit::new(timeout)));
        self
    }

    /// Sends on a thread that is none of an async runtime's: one of the program's own, or one that
    /// `spawn_blocking` gave. The runtime of the node has to run meanwhile: one of a single thread
    /// runs only while a thread is in its `block_on`.
    ///
    /// # Errors
    /// As of awaiting it.
    ///
    /// # Panics
    /// In an async task, whose thread it would take from all others (unless it leads to no actor).
    pub fn blocking(self) -> Result<(), TellError<M>> {
        Sending::<P, M>::block_on(self.sending.heading.to.deadlines(), self)
    }

    /// Sends the message, and stores its fate, if known.
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

impl<P: Find, M> Unpin for Tell<'_, P, M> {}

impl<P: Port<M>, M: Message> Future for Tell<'_, P, M> {
    type Output = Result<(), TellError<M>>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_told(None, cx)
    }
}

/// A message on its way: awaiting it waits for room, sends, and waits for the message's fate.
///
/// A message that is lost is a dead letter, too.
///
/// # Cancel safety
/// Dropped before it is committed, nothing was sent. Dropped later, the message goes on, and only
/// its fate goes untold.
#[must_use = "nothing is sent until this is awaited"]
pub struct Confirmed<'a, P: Find, M> {
    told: Tell<'a, P, M>,
    fate: Option<PendingFate>,
}

impl<P: Port<M>, M: Message> Confirmed<'_, P, M> {
    /// Waits until the message is committed. Await this itself later for the fate, and send others
    /// in between.
    ///
    /// # Errors
    /// [`TellError`], with the message. This is not to be awaited after it.
    ///
    /// # Cancel safety
    /// May be called again.
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
        // A port that sends says what it knows of the fate.
        Poll::Ready(Ok(fate.get_or_insert(PendingFate::Known(Fate::Unknown))))
    }
}

impl<P: Find, M> Unpin for Confirmed<'_, P, M> {}

impl<P: Port<M>, M: Message> Future for Confirmed<'_, P, M> {
    type Output = Result<Fate, TellError<M>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        ready!(self.poll_committed(cx))?.poll(cx).map(Ok)
    }
}

#[cold]
fn poll_limited<P: Port<M>, M: Message>(
    limit: &mut TimeLimit,
    sending: &mut Sending<'_, P, M>,
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

/// (A call, for this would be compiled into all that tells.)
#[inline(never)]
fn poll_tell<P: Port<M>, M: Message>(
    sending: &mut Sending<'_, P, M>,
    fate: Option<&mut Option<PendingFate>>,
    cx: &mut Context<'_>,
) -> Poll<Result<(), TellError<M>>> {
    // A task that only sends lets others run now and then, as with tokio's own channels: what it
    // sent leaves while it goes on.
    let turn = ready!(begin_turn(cx));
    // Mostly that is all.
    let Sending { heading, message } = sending;
    if fate.is_none() && heading.to.tell_at_once(message, &heading.line) {
        // As `made_progress`, without a drop that looks for it.
        std::mem::forget(turn);
        return Poll::Ready(Ok(()));
    }
    poll_tell_on(sending, fate, turn, cx)
}

/// Begins a turn of a task that sends; see [`coop::poll_proceed`].
#[inline(never)]
fn begin_turn(cx: &mut Context<'_>) -> Poll<coop::RestoreOnPending> {
    coop::poll_proceed(cx)
}

#[inline(never)]
fn poll_tell_on<P: Port<M>, M: Message>(
    sending: &mut Sending<'_, P, M>,
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
    // Now, not when this is dropped: a refused send may be kept for long.
    sending.heading.end();
    match told {
        Poll::Ready(Err(cause)) => Poll::Ready(Err(unsent_message(&mut sending.message, cause))),
        Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(())),
    }
}

/// Sends if that needs no waiting.
pub(super) fn try_tell<P: Port<M>, M: Message>(
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
