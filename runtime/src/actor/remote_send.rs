//! Sending a message to another node: what its archive is.

use std::task::{Context, Poll};

use rkyv::util::AlignedVec;
use tokio::time::Instant;

use crate::error::Cause;
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
    if M::CODEC.is_none() || (matches!(kind, SendKind::Ask { .. }) && accepted.reply == 0) {
        return Poll::Ready(Err(Cause::LocalOnly));
    }
    let mut failure = None;
    let sent = {
        let mut archive = |out: &mut _| archive(message, out, &mut failure);
        to.poll_send(accepted, kind, &mut archive, waiter, cx)
    };
    match sent {
        Poll::Pending => Poll::Pending,
        Poll::Ready(Ok(awaited)) => {
            // Now, not when the whole send is dropped: it may wait for long for its answer.
            *waiter = Waiter::default();
            *message = None;
            Poll::Ready(Ok(awaited))
        }
        Poll::Ready(Err(unsent)) => {
            // Now, not when the whole send is dropped: a refused one may be kept for long.
            *waiter = Waiter::default();
            Poll::Ready(Err(remote::cause_of(unsent, failure)))
        }
    }
}

/// Returns the kind of a tell; with `confirm`, its sender waits for the fate.
pub(super) fn tell(confirm: bool) -> SendKind {
    if confirm { SendKind::ConfirmedTell } else { SendKind::Tell }
}

/// Returns the kind of an ask that its asker gives up at `deadline`.
pub(super) fn ask(deadline: Instant) -> SendKind {
    SendKind::Ask { deadline: Some(deadline.into_std()) }
}

/// Sends a tell if that needs no waiting. Empties `message` if and only if it was sent.
pub(super) fn try_send<M: Message>(
    to: &RemoteSender,
    message: &mut Option<M>,
    accepted: &Accepted,
) -> Result<(), Cause> {
    if M::CODEC.is_none() {
        return Err(Cause::LocalOnly);
    }
    let mut failure = None;
    let mut archive = |out: &mut _| archive(message, out, &mut failure);
    let sent = to.try_send(accepted, SendKind::Tell, &mut archive);
    sent.map_err(|unsent| remote::cause_of(unsent, failure))?;
    *message = None;
    Ok(())
}

/// Writes the archive of a message as the transport wants it, and keeps what a failure says.
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
