//! The way to one actor of another node.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use ringpost_transport::RemoteSender;
use ringpost_transport::cause::{self, NodeDownCause};
use ringpost_transport::endpoint::{
    self, ArchiveFailed, Lane, PendingReply, ReplyLoss, SendKind, Unsent, Waiter,
};
use ringpost_transport::memory::Payload;
use rkyv::util::AlignedVec;

use super::{Accepted, Replier, code};
use crate::error::{AskError, Cause, NotBegun};
use crate::exit::ActorExit;
use crate::fate::Fate;

/// The way to one actor of another node. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Outbound {
    outlet: RemoteSender,
}

/// A place in the line for a link, the opened actor and room there; given up when dropped.
pub(crate) type Place = Waiter;

/// What there is to wait for when a message was sent.
pub(crate) enum Awaited {
    Nothing,
    Answer(Answer),
    Fate(Confirmation),
}

/// A message on its way out.
pub(crate) struct Parcel<'a> {
    pub(crate) accepted: &'a Accepted,
    pub(crate) kind: SendKind,
    /// Writes the archive into an empty buffer; may be called more than once.
    pub(crate) archive: &'a dyn Fn(&mut AlignedVec<16>) -> Result<(), rkyv::rancor::Error>,
}

impl Outbound {
    pub(super) fn new(outlet: RemoteSender) -> Self {
        Outbound { outlet }
    }

    /// Sends when there is a link, the actor is opened and has room. For an ask, gives the answer
    /// to wait for.
    pub(crate) fn poll_send(
        &self,
        parcel: &Parcel<'_>,
        place: &mut Place,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Awaited, Cause>> {
        let mut failure = None;
        let mut archive = |out: &mut _| parcel.write(out, &mut failure);
        let sent = self.outlet.poll_send(parcel.accepted, parcel.kind, &mut archive, place, cx);
        sent.map(|sent| sent.map(Awaited::from).map_err(|e| cause_of(e, failure)))
    }

    /// Sends if that needs no waiting.
    pub(crate) fn try_send(&self, parcel: &Parcel<'_>) -> Result<(), Cause> {
        let mut failure = None;
        let mut archive = |out: &mut _| parcel.write(out, &mut failure);
        let sent = self.outlet.try_send(parcel.accepted, parcel.kind, &mut archive);
        sent.map(|_| ()).map_err(|e| cause_of(e, failure))
    }

    /// Sends a signal; waits as a message does.
    pub(crate) async fn signal(&self, signal: u16, lane: Lane) -> Result<(), Cause> {
        let mut place = Place::default();
        let sent = poll_fn(|cx| self.outlet.poll_signal(signal, lane, &mut place, cx)).await;
        sent.map_err(|e| cause_of(e, None))
    }

    /// Waits until the actor is gone, or nothing more can be heard of it.
    pub(crate) async fn closed(&self) -> ActorExit {
        let mut place = Place::default();
        match poll_fn(|cx| self.outlet.poll_closed(&mut place, cx)).await {
            Ok(()) => ActorExit::Gone,
            Err(Unsent::NoSuchMailbox | Unsent::Closed | Unsent::WrongKind) => ActorExit::Gone,
            Err(_) => ActorExit::Unreachable,
        }
    }
}

impl From<endpoint::Awaited> for Awaited {
    fn from(awaited: endpoint::Awaited) -> Self {
        match awaited {
            endpoint::Awaited::Nothing => Awaited::Nothing,
            endpoint::Awaited::Reply(reply) => Awaited::Answer(Answer(reply)),
            endpoint::Awaited::Fate(fate) => Awaited::Fate(Confirmation(fate)),
        }
    }
}

impl Parcel<'_> {
    /// Writes the archive as the transport wants it, keeping what a failure says.
    fn write(
        &self,
        out: &mut AlignedVec<16>,
        failure: &mut Option<String>,
    ) -> Result<(), ArchiveFailed> {
        (self.archive)(out).map_err(|error| {
            *failure = Some(error.to_string());
            ArchiveFailed
        })
    }
}

fn cause_of(unsent: Unsent, failure: Option<String>) -> Cause {
    match unsent {
        Unsent::NodeDown(NodeDownCause::Shutdown) => Cause::Leaving,
        Unsent::NodeDown(cause) => Cause::NodeUnreachable(cause),
        Unsent::LinkDown | Unsent::Opening => Cause::LinkDown,
        Unsent::NoSuchMailbox => Cause::NoSuchActor,
        Unsent::WrongKind => Cause::WrongActorType,
        Unsent::Closed => Cause::Stopped,
        Unsent::NotAccepted => Cause::NotAccepted,
        Unsent::SchemaMismatch => Cause::SchemaMismatch,
        Unsent::TooLarge { bytes, limit } => Cause::TooLarge { bytes, limit },
        Unsent::Full => Cause::MailboxFull,
        Unsent::Leaving => Cause::Leaving,
        Unsent::TooManyAsks => Cause::TooManyAsks,
        Unsent::Archive => Cause::Archive(failure.unwrap_or_default()),
        other => Cause::Archive(other.to_string()),
    }
}

/// The archive of an answer, when it comes. Dropped, a late answer is dropped too.
pub(crate) struct Answer(PendingReply);

impl Answer {
    /// Gives the ask up. Returns true if it was not sent, and so is never handled.
    pub(crate) fn give_up(&mut self) -> bool {
        self.0.give_up()
    }
}

impl Future for Answer {
    type Output = Result<Payload, AskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map_err(|loss| match loss {
            ReplyLoss::LinkDown(cause) => AskError::LinkDown(cause),
            ReplyLoss::Refused(_) | ReplyLoss::Failed(Replier::NOT_BEGUN) => {
                AskError::NotBegun(NotBegun::Stopped)
            }
            ReplyLoss::Late => AskError::NotSent(Cause::Timeout),
            ReplyLoss::Unsent(_) => AskError::NotSent(Cause::LinkDown),
            ReplyLoss::Failed(Replier::LATE) => AskError::NotBegun(NotBegun::Timeout),
            ReplyLoss::Failed(Replier::EXPIRED) => AskError::Timeout,
            ReplyLoss::Failed(code::INVALID_ASK) => AskError::NotBegun(NotBegun::InvalidArchive),
            ReplyLoss::Failed(Replier::TOO_LARGE) => AskError::ReplyTooLarge,
            ReplyLoss::Failed(code::INVALID_REPLY) => AskError::InvalidReply,
            _ => AskError::NoReply,
        })
    }
}

/// The fate of a tell to another node, when it is known.
pub struct Confirmation(endpoint::Confirmation);

impl Confirmation {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Fate> {
        Pin::new(&mut self.0).poll(cx).map(|fate| match fate {
            Ok(()) => Fate::Delivered,
            Err(cause::Fate::NotSent) => Fate::NotSent,
            Err(cause::Fate::Refused(_)) => Fate::Refused,
            Err(_) => Fate::Unknown,
        })
    }
}
