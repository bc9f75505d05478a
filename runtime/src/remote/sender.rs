//! Sends signals to actors of other nodes and looks them up. Translates the transport's outcomes to
//! the types of this crate.

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

/// Sends a signal to an actor. If necessary, waits as the send of a message does, with a `waiter`
/// that only this signal uses.
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

/// An actor that was found: its address, a sender to exactly this actor, and the messages that it
/// accepts.
type FoundActor = (Address, RemoteSender, Arc<[Accepted]>);

/// Looks up an actor, and returns it. If necessary, waits as the send of a message does, with a
/// `waiter` that only this look-up uses.
pub(crate) fn find(to: &RemoteSender, waiter: Waiter) -> BoxFuture<'_, Result<FoundActor, Cause>> {
    Box::pin(found(to, waiter))
}

async fn found(to: &RemoteSender, mut waiter: Waiter) -> Result<FoundActor, Cause> {
    let look = |cx: &mut Context<'_>| {
        // Lets other tasks run, even if a task repeatedly looks up an actor of a dead node.
        let turn = ready!(coop::poll_proceed(cx));
        let found = ready!(to.poll_find(&mut waiter, cx));
        turn.made_progress();
        Poll::Ready(found)
    };
    let (found, accepted) = poll_fn(look).await.map_err(|unsent| match unsent {
        // The actor ended before this look-up, so its name belongs to no actor.
        Unsent::Closed(_) => Cause::NoSuchActor,
        unsent => cause_of(to, unsent, None),
    })?;
    let (node, request) = (found.peer().as_str().into(), found.request());
    let address = address_of(node, request.target.clone(), request.called.name.clone());
    Ok((address, found, accepted))
}

/// Sends a signal ahead of messages, or returns the cause if this would need a wait.
pub(crate) fn try_signal(to: &RemoteSender, signal: u16) -> Result<(), Cause> {
    let nothing = MessageForms::NONE;
    let sent = to.try_send(&nothing, SendKind::UrgentSignal(signal), &mut |_, _| Ok(None));
    sent.map(|_| ()).map_err(|unsent| cause_of(to, unsent, None))
}

/// Waits until the actor is gone, or this node can learn nothing more about it.
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

/// Returns the code and the text with which links report how an actor ended.
pub(crate) fn reason_of(exit: &ActorExit) -> CloseReason {
    let (code, text) = match exit {
        ActorExit::Stopped => (ends::STOPPED, None),
        ActorExit::Failed(why) => (ends::FAILED, Some(why.clone())),
        ActorExit::Panicked(message) => (ends::PANICKED, Some(message.clone())),
        ActorExit::Killed => (ends::KILLED, None),
        // Never the end of an actor of this node.
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
        // A later version may send other codes.
        _ => ActorExit::NoActor,
    }
}

/// Returns the reason why a message was not sent `to` an actor; `failure` is the error from
/// archiving it.
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

/// Returns the cause for an asker whose answer was lost on another node or on its way from there.
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
        // The text is empty, because the asker knows the names.
        ReplyLoss::Failed(code::CYCLE) => AskCause::NotSent(Cause::Cycle("".into())),
        _ => AskCause::NoReply,
    }
}

/// Returns the code for which [`lost`] returns this cause to the asker, or [`Replier::NO_REPLY`] if
/// there is none.
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

/// Returns the fate for the sender of a confirmed tell.
pub(crate) fn fate(fate: Result<(), cause::Fate>) -> Fate {
    match fate {
        Ok(()) => Fate::Delivered,
        Err(cause::Fate::NotSent) => Fate::NotSent,
        Err(cause::Fate::Refused(_)) => Fate::Refused,
        Err(_) => Fate::Unknown,
    }
}
