//! Sends of messages to other nodes, as archives. Nothing here knows the type of a message, so that
//! it is compiled once, and not for each message of a program.

use std::fmt;
use std::task::{Context, Poll, ready};

use rkyv::rancor::Error;
use rkyv::util::AlignedVec;
use tokio::time::Instant;

use super::destination::{AddressTarget, ByAddress};
use super::port::{NewAsk, PendingAnswer, PendingFate, RemoteAnswer, SendWait};
use super::wait::WaitGuard;
use crate::error::Cause;
use crate::limits;
use crate::message::Message;
use crate::node::Node;
use crate::remote::{
    self, ArchiveFailed, Archived, Awaited, MessageForms, Note, RemoteSender, SendKind, Waiter,
};
use crate::spans::{self, SpanFields};
use crate::waits::{Asker, Awaits, wire};

/// A message to be sent, without its type: an `Option<M>`, which is `None` once it was sent.
pub(crate) trait ErasedMessage {
    /// Returns true if the message never leaves its node.
    fn is_local(&self) -> bool;

    /// Returns the name of the message, for people.
    fn name(&self) -> &'static str;

    /// Writes the archive of the message to `out`, in the layout with the index `form`.
    fn archive(&self, form: u8, out: &mut AlignedVec<16>) -> Result<(), Cause>;

    /// Drops the message, because it was sent.
    fn sent(&mut self);
}

impl<M: Message> ErasedMessage for Option<M> {
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

impl ByAddress {
    /// Sends a tell; see [`Destination::poll_tell`](super::destination::Destination::poll_tell).
    pub(crate) fn poll_tell(
        &self,
        told: &MessageForms,
        message: &mut dyn ErasedMessage,
        fate: Option<&mut Option<PendingFate>>,
        line: &mut SendWait,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Cause>> {
        let (sender, node) = self.remote()?;
        let polled = poll_tell((sender, told), node, message, fate, &mut line.remote, cx);
        if polled.is_pending() {
            self.wait_for_room(line);
        }
        polled
    }

    /// Sends an ask. If a handler waits for the answer, stores its wait in `wait`.
    fn poll_ask(
        &self,
        (asked, deadline, wait): (&MessageForms, Instant, &mut Option<WaitGuard>),
        message: &mut dyn ErasedMessage,
        line: &mut SendWait,
        cx: &mut Context<'_>,
    ) -> Poll<Result<RemoteAnswer, Cause>> {
        let (sender, node) = self.remote()?;
        // Recorded before the ask is sent, because its actor may ask back at once.
        *wait = line.take_wait().or_else(|| self.begin_wait(Awaits::Answer));
        let asker = wait.as_ref().map(WaitGuard::asker);
        let to = (sender, asked, ask(deadline));
        match poll_send(to, (node, asker), message, &mut line.remote, cx) {
            Poll::Ready(awaited) => Poll::Ready(self.answer(awaited?)),
            Poll::Pending => {
                line.keep_wait(wait.take());
                Poll::Pending
            }
        }
    }

    /// Sends a tell if that needs no waiting.
    pub(crate) fn try_tell(
        &self,
        told: &MessageForms,
        message: &mut dyn ErasedMessage,
    ) -> Result<(), Cause> {
        let (sender, node) = self.remote()?;
        try_send((sender, told, SendKind::Tell), node, message).map(|_| ())
    }

    /// Sends an ask if that needs no waiting.
    pub(crate) fn try_ask(
        &self,
        (asked, deadline): (&MessageForms, Instant),
        message: &mut dyn ErasedMessage,
    ) -> Result<RemoteAnswer, Cause> {
        let (sender, node) = self.remote()?;
        let awaited = try_send((sender, asked, ask(deadline)), node, message)?;
        self.answer(awaited)
    }

    /// Returns the sender to the actor of another node, and this node. The error is the cause why
    /// there is no sender.
    pub(crate) fn remote(&self) -> Result<(&RemoteSender, &Node), Cause> {
        match &self.way {
            AddressTarget::Remote(sender, node) => Ok((sender, node)),
            // A name is looked up first, and the send goes to the actor that was found.
            AddressTarget::Named(_) => Err(Cause::NoSuchActor),
            AddressTarget::Dead(cause) => Err(cause.clone()),
        }
    }

    fn answer(&self, awaited: Awaited) -> Result<RemoteAnswer, Cause> {
        match (&self.way, awaited) {
            (AddressTarget::Remote(_, node), Awaited::Reply(answer)) => {
                Ok(RemoteAnswer::new(answer, node))
            }
            _ => Err(Cause::LinkDown),
        }
    }
}

impl<R> NewAsk<'_, R> {
    /// Sends the ask to another node.
    pub(crate) fn poll_elsewhere(
        &mut self,
        (to, asked): (&ByAddress, &MessageForms),
        message: &mut dyn ErasedMessage,
        line: &mut SendWait,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Cause>> {
        let how = (asked, self.deadline, &mut self.wait);
        let answer = ready!(to.poll_ask(how, message, line, cx))?;
        self.answer = Some(PendingAnswer::Remote(answer));
        Poll::Ready(Ok(()))
    }

    /// Sends the ask to another node if that needs no waiting.
    pub(crate) fn try_elsewhere(
        &mut self,
        (to, asked): (&ByAddress, &MessageForms),
        message: &mut dyn ErasedMessage,
    ) -> Result<(), Cause> {
        let answer = to.try_ask((asked, self.deadline), message)?;
        self.answer = Some(PendingAnswer::Remote(answer));
        Ok(())
    }
}

/// Sends a message to another node. Waits for a link, for the actor to be opened over it, and for
/// room in the mailbox. Empties `message` if and only if it was sent.
pub(crate) fn poll_send(
    (to, forms, kind): (&RemoteSender, &MessageForms, SendKind),
    (node, asker): (&Node, Option<&Asker>),
    message: &mut dyn ErasedMessage,
    waiter: &mut Waiter,
    cx: &mut Context<'_>,
) -> Poll<Result<Awaited, Cause>> {
    check_codec(message, forms, kind)?;
    let asks = kind.is_ask().then_some(asker);
    let mut writing = MessageWriter::of(&*message, (node, to, asks), waiter.note());
    let mut archive = |form, out: &mut _| writing.archive(form, out);
    match ready!(to.poll_send(forms, kind, &mut archive, waiter, cx)) {
        Ok(awaited) => {
            message.sent();
            Poll::Ready(Ok(awaited))
        }
        Err(unsent) => Poll::Ready(Err(remote::cause_of(to, unsent, writing.failure))),
    }
}

/// Sends a tell as [`poll_send`] does. If the sender waits for the message's fate, stores the
/// pending fate in `fate`.
fn poll_tell(
    (to, forms): (&RemoteSender, &MessageForms),
    node: &Node,
    message: &mut dyn ErasedMessage,
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
    let mut writing = MessageWriter::of(&*message, (node, to, None), waiter.note());
    let mut archive = |form, out: &mut _| writing.archive(form, out);
    match ready!(to.poll_tell(forms, &mut archive, waiter, cx)) {
        Ok(()) => {
            message.sent();
            Poll::Ready(Ok(()))
        }
        Err(unsent) => Poll::Ready(Err(remote::cause_of(to, unsent, writing.failure))),
    }
}

/// Reserves room for a tell of at most [`limits::PERMIT_BYTES`]. `waiter` then holds the room.
pub(crate) fn poll_reserve<M: Message>(
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

/// Sends a tell to the room that `waiter` holds. Empties `message` if and only if it was sent.
pub(crate) fn send_reserved(
    (to, forms): (&RemoteSender, &MessageForms),
    node: &Node,
    message: &mut dyn ErasedMessage,
    waiter: Waiter,
) -> Result<(), Cause> {
    let mut writing = MessageWriter::of(&*message, (node, to, None), None);
    let mut archive = |form, out: &mut _| writing.archive(form, out);
    let sent = to.send_reserved(forms, &mut archive, waiter);
    sent.map_err(|unsent| remote::cause_of(to, unsent, writing.failure))?;
    message.sent();
    Ok(())
}

/// Returns the kind of an ask with this deadline.
fn ask(deadline: Instant) -> SendKind {
    SendKind::Ask { deadline: Some(deadline.into_std()) }
}

/// Returns the kind of a leading ask with this deadline: it is sent before anything that the task
/// sends to the same actor later, whatever the sends wait for.
pub(crate) fn leading_ask(deadline: Instant) -> SendKind {
    SendKind::LeadingAsk { deadline: Some(deadline.into_std()) }
}

/// Sends a message to another node if that needs no waiting. Empties `message` if and only if it
/// was sent.
fn try_send(
    (to, forms, kind): (&RemoteSender, &MessageForms, SendKind),
    node: &Node,
    message: &mut dyn ErasedMessage,
) -> Result<Awaited, Cause> {
    check_codec(message, forms, kind)?;
    let asks = kind.is_ask().then_some(None);
    let mut writing = MessageWriter::of(&*message, (node, to, asks), None);
    let mut archive = |form, out: &mut _| writing.archive(form, out);
    let sent = to.try_send(forms, kind, &mut archive);
    let awaited = sent.map_err(|unsent| remote::cause_of(to, unsent, writing.failure))?;
    message.sent();
    Ok(awaited)
}

/// Returns an error for a message without an archive, and for an ask whose answer has none.
fn check_codec(
    message: &dyn ErasedMessage,
    forms: &MessageForms,
    kind: SendKind,
) -> Result<(), Cause> {
    let is_local = message.is_local() || (kind.is_ask() && forms.replies.is_empty());
    if is_local { Err(Cause::LocalOnly) } else { Ok(()) }
}

/// Writes the archive of a message when the transport asks for it, once for each layout in which
/// the message is sent.
struct MessageWriter<'a> {
    message: &'a dyn ErasedMessage,
    node: &'a Node,
    to: &'a RemoteSender,
    /// `Some` for an ask, with the handler that waits for it, if any. The chain of that handler is
    /// sent with the ask.
    asks: Option<Option<&'a Asker>>,
    /// Sent with the message in each layout. Names the scope in which the message was sent, if any.
    note: Option<Note>,
    /// The cause why the archive could not be written.
    failure: Option<Cause>,
}

impl<'a> MessageWriter<'a> {
    /// Creates the writer of a message. `note` is the note from an earlier step of the same send.
    fn of(
        message: &'a dyn ErasedMessage,
        (node, to, asks): (&'a Node, &'a RemoteSender, Option<Option<&'a Asker>>),
        note: Option<Note>,
    ) -> Self {
        MessageWriter { message, node, to, asks, note, failure: None }
    }

    fn archive(&mut self, form: u8, out: &mut AlignedVec<16>) -> Archived {
        if let Err(cause) = self.message.archive(form, out) {
            self.failure = Some(cause);
            return Err(ArchiveFailed);
        }
        if let Some(asker) = self.asks {
            wire::append(asker, out);
        }
        // One span stands for the message, however often it is archived.
        if self.note.is_none() {
            let (node, is_ask) = (self.node, self.asks.is_some());
            self.note = spans::send(|| {
                let (actor_type, message) = (self.to.request().called.kind, self.message.name());
                let (node, entropy) = (node.name(), node.entropy());
                (
                    SpanFields { node, entropy, actor_type, message, is_ask },
                    RemoteActorName(self.to),
                )
            });
        }
        Ok(self.note.clone())
    }
}

/// The name of an actor of another node, for display.
struct RemoteActorName<'a>(&'a RemoteSender);

impl fmt::Display for RemoteActorName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.request().called.name.as_deref();
        write!(f, "{}/{}", self.0.peer(), name.unwrap_or_default())
    }
}
