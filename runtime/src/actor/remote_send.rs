//! Sending a message to another node: what its archive is.

use std::task::{Context, Poll, ready};

use rkyv::util::AlignedVec;
use tokio::time::Instant;

use super::port::PendingFate;
use crate::error::Cause;
use crate::limits;
use crate::message::Message;
use crate::remote::{self, Accepted, ArchiveFailed, Awaited, RemoteSender, SendKind, Waiter};

/// Sends when there is a link, the actor is opened and has room. Empties `message` if and only if
/// it was sent.
pub(super) fn poll_send<M: Message>(
    (to, accepted, kind): (&RemoteSender, &Accepted, SendKind),
    message: &mut Option<M>,
    waiter: &mut Waiter,
    cx: &mut Context<'_>,
) -> Poll<Result<Awaited, Cause>> {
    check_codec::<M>(accepted, kind)?;
    let mut failure = None;
    let sent = {
        let mut archive = |out: &mut _| archive(message, out, &mut failure);
        to.poll_send(accepted, kind, &mut archive, waiter, cx)
    };
    match sent {
        Poll::Pending => Poll::Pending,
        Poll::Ready(Ok(awaited)) => {
            *message = None;
            Poll::Ready(Ok(awaited))
        }
        Poll::Ready(Err(unsent)) => Poll::Ready(Err(remote::cause_of(to, unsent, failure))),
    }
}

/// Sends a tell as [`poll_send`] does; what is to be known of its fate, if its sender waits for it,
/// comes to `fate`.
#[inline]
pub(super) fn poll_tell<M: Message>(
    (to, accepted): (&RemoteSender, &Accepted),
    message: &mut Option<M>,
    fate: Option<&mut Option<PendingFate>>,
    waiter: &mut Waiter,
    cx: &mut Context<'_>,
) -> Poll<Result<(), Cause>> {
    if let Some(fate) = fate {
        let to = (to, accepted, SendKind::ConfirmedTell);
        if let Awaited::Fate(confirmation) = ready!(poll_send(to, message, waiter, cx))? {
            *fate = Some(PendingFate::Remote(confirmation));
        }
        return Poll::Ready(Ok(()));
    }
    if M::CODEC.is_none() {
        return Poll::Ready(Err(Cause::LocalOnly));
    }
    let mut failure = None;
    let archive = |out: &mut _| archive(message, out, &mut failure);
    match ready!(to.poll_tell(accepted, archive, waiter, cx)) {
        Ok(()) => {
            *message = None;
            Poll::Ready(Ok(()))
        }
        Err(unsent) => Poll::Ready(Err(remote::cause_of(to, unsent, failure))),
    }
}

/// Reserves room for a tell of [`limits::PERMIT_BYTES`]; `waiter` has it then.
pub(super) fn poll_reserve<M: Message>(
    (to, accepted): (&RemoteSender, &Accepted),
    waiter: &mut Waiter,
    cx: &mut Context<'_>,
) -> Poll<Result<(), Cause>> {
    check_codec::<M>(accepted, SendKind::Tell)?;
    let reserved = to.poll_reserve((accepted, limits::PERMIT_BYTES), waiter, cx);
    reserved.map_err(|unsent| remote::cause_of(to, unsent, None))
}

/// Sends a tell to the room that `waiter` has. Empties `message` if and only if it was sent.
pub(super) fn send_reserved<M: Message>(
    (to, accepted): (&RemoteSender, &Accepted),
    message: &mut Option<M>,
    waiter: Waiter,
) -> Result<(), Cause> {
    let mut failure = None;
    let mut archive = |out: &mut _| archive(message, out, &mut failure);
    let sent = to.send_reserved(accepted, &mut archive, waiter);
    sent.map_err(|unsent| remote::cause_of(to, unsent, failure))?;
    *message = None;
    Ok(())
}

/// Returns the kind of an ask that its asker gives up at `deadline`.
pub(super) fn ask(deadline: Instant) -> SendKind {
    SendKind::Ask { deadline: Some(deadline.into_std()) }
}

/// Returns the kind of an ask as [`ask`] does, after which what the task sends to the same actor
/// next is sent, whatever the two wait for.
pub(super) fn leading_ask(deadline: Instant) -> SendKind {
    SendKind::LeadingAsk { deadline: Some(deadline.into_std()) }
}

/// Sends if that needs no waiting. Empties `message` if and only if it was sent.
pub(super) fn try_send<M: Message>(
    (to, accepted, kind): (&RemoteSender, &Accepted, SendKind),
    message: &mut Option<M>,
) -> Result<Awaited, Cause> {
    check_codec::<M>(accepted, kind)?;
    let mut failure = None;
    let mut archive = |out: &mut _| archive(message, out, &mut failure);
    let sent = to.try_send(accepted, kind, &mut archive);
    let awaited = sent.map_err(|unsent| remote::cause_of(to, unsent, failure))?;
    *message = None;
    Ok(awaited)
}

/// Refuses what has no archive: a message, or the answer to an ask.
fn check_codec<M: Message>(accepted: &Accepted, kind: SendKind) -> Result<(), Cause> {
    let is_local = M::CODEC.is_none() || (kind.is_ask() && accepted.reply == 0);
    if is_local { Err(Cause::LocalOnly) } else { Ok(()) }
}

/// Writes the archive of a message as the transport wants it, and keeps what a failure says.
#[inline]
fn archive<M: Message>(
    message: &Option<M>,
    out: &mut AlignedVec<16>,
    failure: &mut Option<Cause>,
) -> Result<(), ArchiveFailed> {
    let written = match (M::CODEC, message) {
        (Some(codec), Some(message)) => {
            (codec.encode)(message, out).map_err(|error| Cause::Archive(error.to_string()))
        }
        _ => Err(Cause::LocalOnly),
    };
    written.map_err(|cause| {
        *failure = Some(cause);
        ArchiveFailed
    })
}
