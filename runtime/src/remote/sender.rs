//! Outcomes of sends to other nodes, from the transport's words to this layer's; and signals.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::future::BoxFuture;
use ringpost_transport::cause::{self, NodeDown, NodeDownCause};
use tokio::task::coop;

use super::host::address_of;
use super::{
    Accepted, CloseReason, MessageForms, RemoteSender, Replier, ReplyLoss, SendKind, Unsent,
    Waiter, code, ends,
};
use crate::address::Address;
use crate::error::{AskCause, Cause, NotBegun};
use crate::exit::ActorExit;
use crate::fate::Fate;

/// Sends a signal; waits as a message does, with a `waiter` of its own.
pub(crate) fn signal(
    to: &RemoteSender,
    signal: SendKind,
    mut waiter: Waiter,
) -> BoxFuture<'_, Result<(), Cause>> {
    Box::pin(poll_fn(move |cx| {
        let turn = ready!(coop::poll_proceed(cx));
        let nothing = MessageForms::NONE;
        let sent = ready!(to.poll_send(&nothing, signal, &mut |_, _| Ok(None), &mut waiter, cx));
        turn.made_progress();
        Poll::Ready(sent.map(|_| ()).map_err(|unsent| cause_of(to, unsent, None)))
    }))
}

/// An actor that was found: its address, a way to exactly this one, and what it accepts.
type Found = (Address, RemoteSender, Arc<[Accepted]>);

/// Looks whether there is an actor; waits as a message does, with a `waiter` of its own. Returns
/// what was found.
pub(crate) fn find(to: &RemoteSender, waiter: Waiter) -> BoxFuture<'_, Result<Found, Cause>> {
    Box::pin(found(to, waiter))
}

async fn found(to: &RemoteSender, mut waiter: Waiter) -> Result<Found, Cause> {
    let look = |cx: &mut Context<'_>| {
        // A task that looks up an actor of a dead node again and again lets others run.
        let turn = ready!(coop::poll_proceed(cx));
        let found = ready!(to.poll_find(&mut waiter, cx));
        turn.made_progress();
        Poll::Ready(found)
    };
    let (found, accepted) = poll_fn(look).await.map_err(|unsent| match unsent {
        // It ended before this looked: nothing has the name.
        Unsent::Closed(_) => Cause::NoSuchActor,
        unsent => cause_of(to, unsent, None),
    })?;
    let (node, request) = (found.peer().as_str().into(), found.request());
    let address = address_of(node, request.target.clone(), request.called.name.clone());
    Ok((address, found, accepted))
}

/// Sends a signal ahead of messages if that needs no waiting.
pub(crate) fn try_signal(to: &RemoteSender, signal: u16) -> Result<(), Cause> {
    let nothing = MessageForms::NONE;
    let sent = to.try_send(&nothing, SendKind::UrgentSignal(signal), &mut |_, _| Ok(None));
    sent.map(|_| ()).map_err(|unsent| cause_of(to, unsent, None))
}

/// Waits until the actor is gone, or nothing more can be heard of it.
pub(crate) fn closed(to: &RemoteSender) -> BoxFuture<'static, ActorExit> {
    let (mut to, mut waiter) = (to.clone(), Waiter::default());
    Box::pin(poll_fn(move |cx| {
        Poll::Ready(match ready!(to.poll_closed(&mut waiter, cx)) {
            Ok(Some(reason)) => exit_of(reason),
            Ok(None) => ActorExit::NoActor,
            Err(_) => ActorExit::NodeDown,
        })
    }))
}

/// Returns how links tell the end of an actor.
pub(crate) fn reason_of(exit: &ActorExit) -> CloseReason {
    let (code, text) = match exit {
        ActorExit::Stopped => (ends::STOPPED, None),
        ActorExit::Failed(why) => (ends::FAILED, Some(why.clone())),
        ActorExit::Panicked(message) => (ends::PANICKED, Some(message.clone())),
        ActorExit::Killed => (ends::KILLED, None),
        // Of an actor of this node neither is true.
        ActorExit::NoActor | ActorExit::NodeDown => (0, None),
    };
    CloseReason { code, text }
}

fn exit_of(reason: CloseReason) -> ActorExit {
    let text = || reason.text.clone().unwrap_or_else(|| "no reason".into());
    match reason.code {
        ends::STOPPED => ActorExit::Stopped,
        ends::FAILED => ActorExit::Failed(text()),
        ends::PANICKED => ActorExit::Panicked(text()),
        ends::KILLED => ActorExit::Killed,
        // A code that a later version may send.
        _ => ActorExit::NoActor,
    }
}

/// Returns why a message was not sent `to` an actor; `failure` is what archiving it met.
pub(crate) fn cause_of(to: &RemoteSender, unsent: Unsent, failure: Option<Cause>) -> Cause {
    match unsent {
        Unsent::NodeDown(NodeDown {
            cause: NodeDownCause::Shutdown | NodeDownCause::Failed,
            ..
        }) => Cause::Shutdown,
        Unsent::NodeDown(down) => Cause::NodeUnreachable(down),
        Unsent::LinkDown => Cause::LinkDown,
        Unsent::Opening => Cause::Opening,
        Unsent::NoSuchMailbox => Cause::NoSuchActor,
        Unsent::WrongKind { found } => {
            Cause::WrongActorType { asked: to.request().called.kind, found }
        }
        Unsent::Closed(_) => Cause::Stopped,
        Unsent::NotAccepted => Cause::NotAccepted,
        Unsent::SchemaMismatch => Cause::SchemaMismatch,
        Unsent::TooLarge { bytes, limit } => Cause::TooLarge { bytes, limit },
        Unsent::Full => Cause::MailboxFull,
        Unsent::Leaving if to.is_closing() => Cause::Shutdown,
        Unsent::Leaving => Cause::Leaving,
        Unsent::TooManyAsks => Cause::TooManyAsks,
        Unsent::Archive => failure.unwrap_or_else(|| Cause::Archive(unsent.to_string())),
        other => Cause::Archive(other.to_string()),
    }
}

/// Returns the error of an asker to which the answer of another node does not come.
pub(crate) fn lost(loss: ReplyLoss) -> AskCause {
    match loss {
        ReplyLoss::LinkDown(cause) => AskCause::LinkDown(cause),
        ReplyLoss::Refused(_) | ReplyLoss::Failed(Replier::NOT_BEGUN) => {
            AskCause::NotBegun(NotBegun::Stopped)
        }
        ReplyLoss::Late => AskCause::NotSent(Cause::Timeout),
        ReplyLoss::Unsent(_) => AskCause::NotSent(Cause::LinkDown),
        ReplyLoss::Failed(Replier::LATE) => AskCause::NotBegun(NotBegun::Timeout),
        ReplyLoss::Failed(Replier::EXPIRED) => AskCause::Timeout,
        ReplyLoss::Failed(Replier::PANICKED) => AskCause::Panicked,
        ReplyLoss::Failed(code::INVALID_ASK) => AskCause::NotBegun(NotBegun::InvalidArchive),
        ReplyLoss::Failed(Replier::TOO_LARGE) => AskCause::ReplyTooLarge,
        ReplyLoss::Failed(code::INVALID_REPLY) => AskCause::InvalidReply,
        // The asker knows the names.
        ReplyLoss::Failed(code::CYCLE) => AskCause::NotSent(Cause::Cycle("".into())),
        _ => AskCause::NoReply,
    }
}

/// Returns the code with which [`lost`] gives the asker this cause: where it has one.
pub(crate) fn code_of(cause: &AskCause) -> u16 {
    match cause {
        AskCause::NotBegun(NotBegun::Stopped) => Replier::NOT_BEGUN,
        AskCause::NotBegun(NotBegun::Timeout) => Replier::LATE,
        AskCause::NotBegun(NotBegun::InvalidArchive) => code::INVALID_ASK,
        AskCause::Timeout => Replier::EXPIRED,
        AskCause::Panicked => Replier::PANICKED,
        AskCause::ReplyTooLarge => Replier::TOO_LARGE,
        AskCause::InvalidReply => code::INVALID_REPLY,
        AskCause::NotSent(Cause::Cycle(_)) => code::CYCLE,
        AskCause::NotSent(_) | AskCause::NoReply | AskCause::LinkDown(_) => Replier::NO_REPLY,
    }
}

/// Returns the fate that the sender of a confirmed tell is told.
pub(crate) fn fate(fate: Result<(), cause::Fate>) -> Fate {
    match fate {
        Ok(()) => Fate::Delivered,
        Err(cause::Fate::NotSent) => Fate::NotSent,
        Err(cause::Fate::Refused(_)) => Fate::Refused,
        Err(_) => Fate::Unknown,
    }
}
