//! `tell`: one way.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::task::coop;

use super::port::{Port, Sending};
use crate::error::{Cause, TellError};
use crate::message::Message;

/// A message on its way: awaiting it waits for room and sends.
///
/// # Cancel safety
/// Dropped before it is ready, nothing was sent: the message is dropped with it, and its turn in
/// the line for room goes to the next.
#[must_use = "nothing is sent until this is awaited"]
pub struct Told<'a, P: Port<M>, M: Message> {
    sending: Sending<'a, P, M>,
}

impl<'a, P: Port<M>, M: Message> Told<'a, P, M> {
    pub(super) fn new(to: &'a P, message: M) -> Self {
        Told { sending: Sending::new(to, message) }
    }
}

impl<P: Port<M>, M: Message> Unpin for Told<'_, P, M> {}

impl<P: Port<M>, M: Message> Future for Told<'_, P, M> {
    type Output = Result<(), TellError<M>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Sending { to, message, line } = &mut self.sending;
        assert!(message.is_some(), "a `tell` was polled after it was ready");
        // A task that only sends lets others run now and then, as with tokio's own channels: what
        // it sent leaves while it goes on.
        let turn = ready!(coop::poll_proceed(cx));
        let sent = ready!(to.poll_tell(message, line, cx));
        turn.made_progress();
        // Now, not when this is dropped: a refused send may be kept for long.
        to.leave(line);
        Poll::Ready(result(sent, message))
    }
}

/// Sends if that needs no waiting.
pub(super) fn try_tell<P: Port<M>, M: Message>(to: &P, message: M) -> Result<(), TellError<M>> {
    let mut message = Some(message);
    let sent = to.try_tell(&mut message);
    result(sent, &mut message)
}

/// A port leaves the message exactly when it was not sent.
fn result<M>(sent: Result<(), Cause>, message: &mut Option<M>) -> Result<(), TellError<M>> {
    match (sent, message.take()) {
        (Err(cause), Some(message)) => Err(TellError { message, cause }),
        _ => Ok(()),
    }
}
