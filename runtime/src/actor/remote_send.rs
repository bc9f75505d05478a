//! Sending a message to another node: what its archive is. Nothing here knows the type of a
//! message, so that it is compiled once, and not for each message of a program.

use std::fmt;
use std::task::{Context, Poll, ready};

use rkyv::rancor::Error;
use rkyv::util::AlignedVec;
use tokio::time::Instant;

use super::destination::{Elsewhere, Way};
use super::port::{Line, NewAsk, Pending, PendingFate, RemoteAnswer};
use super::wait::Wait;
use crate::error::Cause;
use crate::limits;
use crate::message::Message;
use crate::mutants::planted;
use crate::node::Node;
use crate::remote::{
    self, ArchiveFailed, Archived, Awaited, MessageForms, Note, RemoteSender, SendKind, Waiter,
};
use crate::spans::{self, Subject};
use crate::waits::{Asker, Awaits, wire};

/// A message that is to be sent, without its type: an `Option<M>`, which is empty when it was sent.
pub(super) trait Letter {
    /// Returns true if it never leaves its node.
    fn is_local(&self) -> bool;

    /// Returns the name of the message, for people.
    fn name(&self) -> &'static str;

    /// Writes its archive in the form that has this place among its layouts.
    fn archive(&self, form: u8, out: &mut AlignedVec<16>) -> Result<(), Cause>;

    /// Drops the message: it was sent.
    fn sent(&mut self);
}

impl<M: Message> Letter for Option<M> {
    fn is_local(&self) -> bool {
        M::CODEC.is_none()
    }

    fn name(&self) -> &'static str {
        M::NAME
    }

    fn archive(&self, form: u8, out: &mut AlignedVec<16>) -> Result<(), Cause> {
        match (M::CODEC, self) {
            (Some(codec), Some(message)) => match (codec.encode)(message, form, out) {
                Ok(()) => Ok(()),
                Err(error) => Err(unwritten(error)),
            },
            _ => Err(Cause::LocalOnly),
        }
    }

    fn sent(&mut self) {
        *self = None;
    }
}

#[cold]
fn unwritten(error: Error) -> Cause {
    Cause::Archive(error.to_string())
}

impl Elsewhere {
    /// Sends a tell; see [`Destination::poll_tell`](super::destination::Destination::poll_tell).
    pub(super) fn poll_tell(
        &self,
        told: &MessageForms,
        message: &mut dyn Letter,
        fate: Option<&mut Option<PendingFate>>,
        line: &mut Line,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Cause>> {
        let (sender, node) = self.remote()?;
        let polled = poll_tell((sender, told), node, message, fate, &mut line.remote, cx);
        if polled.is_pending() {
            self.wait_for_room(line);
        }
        polled
    }

    /// Sends an ask, for which a handler may wait.
    fn poll_ask(
        &self,
        (asked, deadline, wait): (&MessageForms, Instant, &mut Option<Wait>),
        message: &mut dyn Letter,
        line: &mut Line,
        cx: &mut Context<'_>,
    ) -> Poll<Result<RemoteAnswer, Cause>> {
        let (sender, node) = self.remote()?;
        // Noted before it is sent: its actor may ask back at once.
        *wait = line.take_wait().or_else(|| self.begin_wait(Awaits::Answer));
        let asker = wait.as_ref().map(Wait::asker);
        let to = (sender, asked, ask(deadline));
        match poll_send(to, (node, asker), message, &mut line.remote, cx) {
            Poll::Ready(awaited) => Poll::Ready(self.answer(awaited?)),
            Poll::Pending => {
                line.keep_wait(wait.take());
                Poll::Pending
            }
        }
    }

    /// Sends if that needs no waiting.
    pub(super) fn try_tell(
        &self,
        told: &MessageForms,
        message: &mut dyn Letter,
    ) -> Result<(), Cause> {
        let (sender, node) = self.remote()?;
        try_send((sender, told, SendKind::Tell), node, message).map(|_| ())
    }

    /// Sends an ask if that needs no waiting.
    pub(super) fn try_ask(
        &self,
        (asked, deadline): (&MessageForms, Instant),
        message: &mut dyn Letter,
    ) -> Result<RemoteAnswer, Cause> {
        let (sender, node) = self.remote()?;
        let awaited = try_send((sender, asked, ask(deadline)), node, message)?;
        self.answer(awaited)
    }

    /// Returns the way to another node, and this node; why there is none.
    pub(super) fn remote(&self) -> Result<(&RemoteSender, &Node), Cause> {
        match &self.way {
            Way::Remote(sender, node) => Ok((sender, node)),
            // Sends and all else are of what it leads to now.
            Way::Named(_) => Err(Cause::NoSuchActor),
            Way::Dead(cause) => Err(cause.clone()),
        }
    }

    fn answer(&self, awaited: Awaited) -> Result<RemoteAnswer, Cause> {
        match (&self.way, awaited) {
            (Way::Remote(_, node), Awaited::Reply(answer)) => Ok(RemoteAnswer::new(answer, node)),
            _ => Err(Cause::LinkDown),
        }
    }
}

impl<R> NewAsk<'_, R> {
    /// Sends it to another node.
    pub(super) fn poll_elsewhere(
        &mut self,
        (to, asked): (&Elsewhere, &MessageForms),
        message: &mut dyn Letter,
        line: &mut Line,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Cause>> {
        let how = (asked, self.deadline, &mut self.wait);
        let answer = ready!(to.poll_ask(how, message, line, cx))?;
        self.answer = Some(Pending::Remote(answer));
        Poll::Ready(Ok(()))
    }

    /// Sends it to another node if that needs no waiting.
    pub(super) fn try_elsewhere(
        &mut self,
        (to, asked): (&Elsewhere, &MessageForms),
        message: &mut dyn Letter,
    ) -> Result<(), Cause> {
        let answer = to.try_ask((asked, self.deadline), message)?;
        self.answer = Some(Pending::Remote(answer));
        Ok(())
    }
}

/// Sends when there is a link, the actor is opened and has room. Empties `message` if and only if
/// it was sent.
pub(super) fn poll_send(
    (to, forms, kind): (&RemoteSender, &MessageForms, SendKind),
    (node, asker): (&Node, Option<&Asker>),
    message: &mut dyn Letter,
    waiter: &mut Waiter,
    cx: &mut Context<'_>,
) -> Poll<Result<Awaited, Cause>> {
    check_codec(message, forms, kind)?;
    let asks = kind.is_ask().then_some(asker);
    let mut writing = Writing::of(&*message, (node, to, asks), waiter.note());
    let mut archive = |form, out: &mut _| writing.archive(form, out);
    match ready!(to.poll_send(forms, kind, &mut archive, waiter, cx)) {
        Ok(awaited) => {
            message.sent();
            Poll::Ready(Ok(awaited))
        }
        Err(unsent) => Poll::Ready(Err(remote::cause_of(to, unsent, writing.failure))),
    }
}

/// Sends a tell as [`poll_send`] does; what is to be known of its fate, if its sender waits for it,
/// comes to `fate`.
fn poll_tell(
    (to, forms): (&RemoteSender, &MessageForms),
    node: &Node,
    message: &mut dyn Letter,
    fate: Option<&mut Option<PendingFate>>,
    waiter: &mut Waiter,
    cx: &mut Context<'_>,
) -> Poll<Result<(), Cause>> {
    if let Some(fate) = fate {
        let to = (to, forms, SendKind::ConfirmedTell);
        if let Awaited::Fate(confirmation) =
            ready!(poll_send(to, (node, None), message, waiter, cx))?
        {
            *fate = Some(PendingFate::Remote(confirmation));
        }
        return Poll::Ready(Ok(()));
    }
    if message.is_local() {
        return Poll::Ready(Err(Cause::LocalOnly));
    }
    let mut writing = Writing::of(&*message, (node, to, None), waiter.note());
    let mut archive = |form, out: &mut _| writing.archive(form, out);
    match ready!(to.poll_tell(forms, &mut archive, waiter, cx)) {
        Ok(()) => {
            message.sent();
            Poll::Ready(Ok(()))
        }
        Err(unsent) => Poll::Ready(Err(remote::cause_of(to, unsent, writing.failure))),
    }
}

/// Reserves room for a tell of [`limits::PERMIT_BYTES`]; `waiter` has it then.
pub(super) fn poll_reserve<M: Message>(
    (to, forms): (&RemoteSender, &MessageForms),
    waiter: &mut Waiter,
    cx: &mut Context<'_>,
) -> Poll<Result<(), Cause>> {
    if M::CODEC.is_none() {
        return Poll::Ready(Err(Cause::LocalOnly));
    }
    let reserved = to.poll_reserve((forms, limits::PERMIT_BYTES), waiter, cx);
    reserved.map_err(|unsent| remote::cause_of(to, unsent, None))
}

/// Sends a tell to the room that `waiter` has. Empties `message` if and only if it was sent.
pub(super) fn send_reserved(
    (to, forms): (&RemoteSender, &MessageForms),
    node: &Node,
    message: &mut dyn Letter,
    waiter: Waiter,
) -> Result<(), Cause> {
    let mut writing = Writing::of(&*message, (node, to, None), None);
    let mut archive = |form, out: &mut _| writing.archive(form, out);
    let sent = to.send_reserved(forms, &mut archive, waiter);
    sent.map_err(|unsent| remote::cause_of(to, unsent, writing.failure))?;
    message.sent();
    Ok(())
}

/// Returns the kind of an ask that its asker gives up at `deadline`.
fn ask(deadline: Instant) -> SendKind {
    SendKind::Ask { deadline: Some(deadline.into_std()) }
}

/// Returns the kind of an ask as [`ask`] does, after which what the task sends to the same actor
/// next is sent, whatever the two wait for.
pub(super) fn leading_ask(deadline: Instant) -> SendKind {
    SendKind::LeadingAsk { deadline: Some(deadline.into_std()) }
}

/// Sends if that needs no waiting. Empties `message` if and only if it was sent.
fn try_send(
    (to, forms, kind): (&RemoteSender, &MessageForms, SendKind),
    node: &Node,
    message: &mut dyn Letter,
) -> Result<Awaited, Cause> {
    check_codec(message, forms, kind)?;
    let asks = kind.is_ask().then_some(None);
    let mut writing = Writing::of(&*message, (node, to, asks), None);
    let mut archive = |form, out: &mut _| writing.archive(form, out);
    let sent = to.try_send(forms, kind, &mut archive);
    let awaited = sent.map_err(|unsent| remote::cause_of(to, unsent, writing.failure))?;
    message.sent();
    Ok(awaited)
}

/// Refuses what has no archive: a message, or the answer to an ask.
fn check_codec(message: &dyn Letter, forms: &MessageForms, kind: SendKind) -> Result<(), Cause> {
    let is_local = message.is_local() || (kind.is_ask() && forms.replies.is_empty());
    if is_local { Err(Cause::LocalOnly) } else { Ok(()) }
}

/// A message whose archive is written as the transport wants it, once in each form that it is to be
/// sent in.
struct Writing<'a> {
    message: &'a dyn Letter,
    node: &'a Node,
    to: &'a RemoteSender,
    /// There of an ask: the handler that waits for it, if one does. Its chain travels with it.
    asks: Option<Option<&'a Asker>>,
    /// Travels with it, whatever its form: says in which scope it was sent, if in any.
    note: Option<Note>,
    /// What a failure says.
    failure: Option<Cause>,
}

impl<'a> Writing<'a> {
    /// `note` is that of an earlier step of the same send.
    fn of(
        message: &'a dyn Letter,
        (node, to, asks): (&'a Node, &'a RemoteSender, Option<Option<&'a Asker>>),
        note: Option<Note>,
    ) -> Self {
        Writing { message, node, to, asks, note, failure: None }
    }

    fn archive(&mut self, form: u8, out: &mut AlignedVec<16>) -> Archived {
        if let Err(cause) = self.message.archive(form, out) {
            self.failure = Some(cause);
            return Err(ArchiveFailed);
        }
        if let Some(asker) = self.asks {
            wire::append(asker.filter(|_| !planted!(ChainLeftBehind)), out);
        }
        // SP-2: one span stands for the message, however often it is archived.
        if self.note.is_none() {
            let (node, is_ask) = (self.node, self.asks.is_some());
            self.note = spans::send(|| {
                let (actor_type, message) = (self.to.request().called.kind, self.message.name());
                let (node, entropy) = (node.name(), node.entropy());
                (Subject { node, entropy, actor_type, message, is_ask }, Called(self.to))
            });
        }
        Ok(self.note.clone())
    }
}

/// An actor of another node, as people call it.
struct Called<'a>(&'a RemoteSender);

impl fmt::Display for Called<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.request().called.name.as_deref();
        write!(f, "{}/{}", self.0.peer(), name.unwrap_or_default())
    }
}
