//! The table of an actor's messages: how a message of this node, or the bytes of a message from
//! another node, become the actor's envelope. The bytes may have an earlier layout of a message
//! that has gained fields since.

use std::any::{Any, TypeId};
use std::sync::Arc;

use ringpost_transport::limits::ACCEPTED_MAX;
use ringpost_transport::memory::{InvalidArchive, Payload};

use crate::actor::{Accepts, ErasedSyncHandler, Handlers, Reply, ReplyTo, answer};
use crate::busy::HandlerInfo;
use crate::error::Cause;
use crate::message::Message;
use crate::node::Node;
use crate::remote::{Accepted, Form, MessageForms, Replier};
use crate::view::Input;
use crate::waits::HandledAsk;

/// A message that an actor accepts. Its index in the table is the ordinal of its newest version on
/// the wire.
pub struct Route<A: Handlers> {
    pub(crate) head: Head,
    pub(crate) take: EnvelopeFactory<A>,
    /// The handler, if it is not `async` and takes neither a `View` nor a `ReplyTo`.
    pub(crate) answer: Option<ErasedSyncHandler<A>>,
}

/// The part of a route that does not name the actor: code that reads it is compiled once, and not
/// for each actor of a program.
pub(crate) struct Head {
    pub(crate) label: Label,
    /// The id and the layouts on the wire; no layouts if the message stays on its node.
    pub(crate) forms: MessageForms,
    pub(crate) message: fn() -> TypeId,
    pub(crate) reply: fn() -> TypeId,
}

/// A function that returns the head of the route at an index of an actor's table.
pub(crate) type HeadAt = fn(usize) -> Option<&'static Head>;

// The message of the assertion in `distinct` names this number.
const _: () = assert!(ACCEPTED_MAX == 4096);

/// The id and the names of a message, for people.
pub(crate) struct Label {
    pub(crate) id: u128,
    pub(crate) duty: HandlerInfo,
    /// The handler may wait.
    pub(crate) waits: bool,
}

/// The envelope of a message that does not come through the mailbox, with its label.
pub(crate) type LabeledEnvelope<A> = (&'static Label, <A as Handlers>::Envelope);

impl Label {
    pub(crate) const fn of<A: Accepts<M>, M: Message>() -> Self {
        Label { id: M::ID, duty: HandlerInfo::handles(A::NAME, M::NAME), waits: A::WAITS }
    }

    /// Returns the label for the end of a task of the actor.
    pub(crate) const fn of_task<A: Handlers>() -> Self {
        Label { id: 0, duty: HandlerInfo::runs(A::NAME, "the end of a task"), waits: true }
    }

    /// Returns the message's name.
    pub(crate) const fn name(&self) -> &'static str {
        self.duty.what()
    }
}

/// A message that is about to become an envelope.
pub(crate) enum Source<'a> {
    /// A message of this node: an `Option<M>`, and an `Option<ReplyTo<R>>` if an answer is wanted.
    /// Both are emptied; after an error the message is still there.
    Near(&'a mut dyn Any, Option<&'a mut dyn Any>),
    /// A message from another node. After an error its replier is still there.
    Far(&'a mut EncodedMessage),
}

/// A message from another node, not decoded yet.
pub(crate) struct EncodedMessage {
    pub(crate) payload: Payload,
    pub(crate) replier: Option<Replier>,
    /// The ask, if a handler waits for its answer.
    pub(crate) asked: Option<Arc<dyn HandledAsk>>,
    pub(crate) form: Form,
}

/// The reason why a message did not become an envelope.
pub(crate) enum EnvelopeError {
    Near(Cause),
    Far(InvalidArchive),
}

impl EnvelopeError {
    /// Returns the text for people.
    pub(crate) fn text(&self) -> String {
        match self {
            EnvelopeError::Near(cause) => cause.to_string(),
            EnvelopeError::Far(error) => error.to_string(),
        }
    }
}

impl From<EnvelopeError> for Cause {
    fn from(not: EnvelopeError) -> Self {
        match not {
            EnvelopeError::Near(cause) => cause,
            EnvelopeError::Far(error) => Cause::Archive(error.0),
        }
    }
}

/// A function that makes the envelope of a message.
type EnvelopeFactory<A> =
    fn(&mut Source<'_>, &Node) -> Result<<A as Handlers>::Envelope, EnvelopeError>;

impl<A: Handlers> Route<A> {
    /// Returns the route of `M`.
    pub const fn of<M: Message>() -> Self
    where
        A: Accepts<M>,
    {
        let head = Head {
            label: Label::of::<A, M>(),
            forms: forms::<M, A::Reply>(),
            message: TypeId::of::<M>,
            reply: TypeId::of::<A::Reply>,
        };
        let answer: Option<ErasedSyncHandler<A>> = match A::ANSWER {
            Some(_) if A::Input::IS_MESSAGE => Some(answer::<A, M>),
            _ => None,
        };
        Route { head, take: take::<A, M>, answer }
    }
}

/// Returns the id of `M`, and the layouts on the wire of `M` and of the reply `R`. A type that
/// stays on its node has no layouts.
pub(crate) const fn forms<M: Message, R: Reply>() -> MessageForms {
    let layouts = match M::CODEC {
        Some(codec) => codec.layouts,
        None => &[],
    };
    let replies = match R::CODEC {
        Some(codec) => codec.layouts,
        None => &[],
    };
    MessageForms { id: M::ID, layouts, replies }
}

/// Returns the head of the route at this index of the table of `A`.
pub(crate) fn head_of<A: Handlers>(place: usize) -> Option<&'static Head> {
    A::ROUTES.get(place).map(|route| &route.head)
}

/// Returns the index of the message with the type `message`. If `reply` is given, the message must
/// have a reply of that type.
pub(crate) fn place(at: HeadAt, message: TypeId, reply: Option<TypeId>) -> Option<u16> {
    let fits = |head: &Head| {
        (head.message)() == message && reply.is_none_or(|reply| reply == (head.reply)())
    };
    heads(at).position(fits).map(|place| place as u16)
}

/// Returns the index of `M` in the table of `A`.
#[inline]
pub(crate) fn place_of<A: Accepts<M>, M: Message>() -> u16 {
    match const { only_place::<A, M>() } {
        Some(place) => place,
        None => place(head_of::<A>, TypeId::of::<M>(), None).unwrap_or(u16::MAX),
    }
}

/// Returns the index of `M`, if no other message of `A` has its id (messages that stay on their
/// node may share one).
const fn only_place<A: Accepts<M>, M: Message>() -> Option<u16> {
    let (mut found, mut place) = (None, 0);
    while place < A::ROUTES.len() {
        if A::ROUTES[place].head.label.id == M::ID {
            if found.is_some() {
                return None;
            }
            found = Some(place as u16);
        }
        place += 1;
    }
    found
}

/// A row that no message fits.
const NOTHING: Accepted = Accepted { id: 0, layout: 0, reply: 0 };

/// Returns the messages that other nodes may send, each at its ordinal, up to the maximum of a
/// link: the newest version of each message, then `own`, which is the link request of the runtime,
/// then the earlier versions. If `own` is `None`, a row that no message fits takes its place.
pub(crate) fn rows(at: HeadAt, own: Option<Accepted>) -> Vec<Accepted> {
    let newest = heads(at).map(|head| head.forms.newest());
    let row = |(place, form)| at(place).map(|head| head.forms.row(form));
    let earlier = earlier(at).filter_map(row);
    newest.chain([own.unwrap_or(NOTHING)]).chain(earlier).take(ACCEPTED_MAX).collect()
}

/// Returns the route of the message at an ordinal of [`rows`], and the version of the message
/// there.
#[inline]
pub(crate) fn at<A: Handlers>(ordinal: u16) -> Option<(&'static Route<A>, Form)> {
    let ordinal = usize::from(ordinal);
    match A::ROUTES.get(ordinal) {
        Some(route) => Some((route, Form::default())),
        None => {
            let (place, form) = earlier_at(head_of::<A>, ordinal)?;
            Some((A::ROUTES.get(place)?, form))
        }
    }
}

/// Returns the label of the message at an ordinal of [`rows`].
pub(crate) fn label_at(at: HeadAt, ordinal: u16) -> Option<&'static Label> {
    let ordinal = usize::from(ordinal);
    let head = at(ordinal).or_else(|| at(earlier_at(at, ordinal)?.0))?;
    Some(&head.label)
}

#[cold]
fn earlier_at(at: HeadAt, ordinal: usize) -> Option<(usize, Form)> {
    earlier(at).nth(ordinal.checked_sub(heads(at).count() + 1)?)
}

fn heads(at: HeadAt) -> impl Iterator<Item = &'static Head> {
    (0..).map_while(at)
}

fn earlier(at: HeadAt) -> impl Iterator<Item = (usize, Form)> {
    let forms = |(place, head): (usize, &'static Head)| {
        head.forms.forms().skip(1).map(move |form| (place, form))
    };
    heads(at).enumerate().flat_map(forms)
}

/// Checks at compile time that the messages of one actor are few enough for a link to describe, and
/// that no two of them share an id. (Two messages that stay on their node may share one: they are
/// known by their types, whose names are not constants if they are generic.)
pub const fn distinct<A: Handlers>(routes: &[Route<A>]) {
    // Another node ends a link that describes more messages.
    assert!(
        routes.len() <= ACCEPTED_MAX,
        "an actor accepts 4096 messages at most: make one enum of several, or several actors"
    );
    let (mut i, mut earlier) = (0, 0);
    while i < routes.len() {
        earlier += routes[i].head.forms.count() - 1;
        let mut j = i + 1;
        while j < routes.len() {
            let (this, other) = (&routes[i].head.forms, &routes[j].head.forms);
            let both_stay = this.layouts.is_empty() && other.layouts.is_empty();
            assert!(
                this.id != other.id || both_stay,
                "two messages of this actor have the same name: give one `#[message(name = ..)]`"
            );
            j += 1;
        }
        i += 1;
    }
    assert!(
        earlier == 0 || routes.len() + earlier < ACCEPTED_MAX,
        "an actor accepts fewer than 4096 forms of messages: say `since` of fewer versions"
    );
}

/// Makes the envelope of an `M`. Written out, and without `?`, because it is compiled for each
/// message of a program.
fn take<A: Accepts<M>, M: Message>(
    source: &mut Source<'_>,
    node: &Node,
) -> Result<A::Envelope, EnvelopeError> {
    let input = match source {
        Source::Near(message, reply) => {
            if !ReplyTo::<A::Reply>::is_in(reply) {
                return Err(not_accepted());
            }
            let Some(message) = message.downcast_mut() else { return Err(not_accepted()) };
            match A::Input::take_local(message, node) {
                Ok(input) => input,
                Err(cause) => return Err(EnvelopeError::Near(cause)),
            }
        }
        Source::Far(far) => match A::Input::from_remote(&mut far.payload, node, far.form.message) {
            Ok(input) => input,
            Err(error) => return Err(EnvelopeError::Far(error)),
        },
    };
    Ok(A::envelope(input, source.reply()))
}

impl Source<'_> {
    /// Takes the `ReplyTo`. Compiled once for each reply type.
    fn reply<R: Reply>(&mut self) -> ReplyTo<R> {
        match self {
            Source::Near(_, reply) => ReplyTo::taken(reply),
            Source::Far(far) => {
                ReplyTo::far((far.replier.take(), far.asked.take()), far.form.reply)
            }
        }
    }
}

#[cold]
fn not_accepted() -> EnvelopeError {
    EnvelopeError::Near(Cause::NotAccepted)
}
