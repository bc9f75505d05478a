//! An actor's table of messages: what leads from bytes, or from a message alone, to its envelope.
//! Bytes may be those of an earlier form of a message that gained fields (SH-4).

use std::any::{Any, TypeId};

use ringpost_transport::limits::ACCEPTED_MAX;
use ringpost_transport::memory::{InvalidArchive, Payload};

use super::{Accepts, Handlers, Reply, ReplyTo};
use crate::busy::Duty;
use crate::error::Cause;
use crate::message::Message;
use crate::node::Node;
use crate::remote::{Accepted, Form, MessageForms, Replier, code};
use crate::view::Input;

/// One message of an actor. Its place in the table is the ordinal of its newest form on the wire.
pub struct Route<A: Handlers> {
    pub(super) label: Label,
    /// Its forms on the wire; none where it stays on its node.
    pub(super) forms: MessageForms,
    pub(super) open: Open<A>,
    pub(super) tell: Put<A>,
    pub(super) ask: Put<A>,
    pub(super) message: fn() -> TypeId,
    pub(super) reply: fn() -> TypeId,
}

// The error of the compiler about more names the number.
const _: () = assert!(ACCEPTED_MAX == 4096);

/// Which message, for people.
pub(crate) struct Label {
    pub(crate) id: u128,
    pub(crate) duty: Duty,
}

/// A message that does not come through the mailbox.
pub(super) type Item<A> = (&'static Label, <A as Handlers>::Envelope);

impl Label {
    pub(crate) const fn of<A: Handlers, M: Message>() -> Self {
        Label { id: M::ID, duty: Duty::handles(A::NAME, M::NAME) }
    }

    /// The end of a task of the actor.
    pub(crate) const fn of_task<A: Handlers>() -> Self {
        Label { id: 0, duty: Duty::runs(A::NAME, "the end of a task") }
    }

    /// Returns the message's name.
    pub(crate) const fn name(&self) -> &'static str {
        self.duty.what()
    }
}

/// Checks and reads what arrived in this form. On an error the asker is told.
type Open<A> =
    fn(Payload, &Node, Option<Replier>, Form) -> Result<<A as Handlers>::Envelope, InvalidArchive>;

/// Empties an `Option<M>` (`tell`) or an `Option<(M, ReplyTo<R>)>` (`ask`); on an error it is left
/// full.
type Put<A> = fn(&mut dyn Any, &Node) -> Result<<A as Handlers>::Envelope, Cause>;

impl<A: Handlers> Route<A> {
    /// The row for `M`.
    pub const fn of<M: Message>() -> Self
    where
        A: Accepts<M>,
    {
        Route {
            label: Label::of::<A, M>(),
            forms: forms::<M, A::Reply>(),
            open: open::<A, M>,
            tell: put_tell::<A, M>,
            ask: put_ask::<A, M>,
            message: TypeId::of::<M>,
            reply: TypeId::of::<A::Reply>,
        }
    }
}

/// Returns the forms of `M` for an actor that answers it with `R`; none of what stays on its node.
pub(super) const fn forms<M: Message, R: Reply>() -> MessageForms {
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

/// Returns the rows that another node sees, each at its ordinal: the newest form of each message,
/// then `own`, which is the runtime's, then the earlier forms.
pub(super) fn rows<A: Handlers>(own: Accepted) -> impl Iterator<Item = Accepted> {
    let newest = A::ROUTES.iter().map(|route| route.forms.newest());
    let earlier = earlier::<A>().map(|(route, form)| route.forms.row(form));
    newest.chain([own]).chain(earlier)
}

/// Returns the message at an ordinal of [`rows`], and its form there.
#[inline]
pub(super) fn at<A: Handlers>(ordinal: u16) -> Option<(&'static Route<A>, Form)> {
    let ordinal = usize::from(ordinal);
    match A::ROUTES.get(ordinal) {
        Some(route) => Some((route, Form::default())),
        None => earlier_at(ordinal),
    }
}

#[cold]
fn earlier_at<A: Handlers>(ordinal: usize) -> Option<(&'static Route<A>, Form)> {
    earlier().nth(ordinal.checked_sub(A::ROUTES.len() + 1)?)
}

fn earlier<A: Handlers>() -> impl Iterator<Item = (&'static Route<A>, Form)> {
    A::ROUTES.iter().flat_map(|route| route.forms.forms().skip(1).map(move |form| (route, form)))
}

/// Compile-time check that the messages of one actor are few enough for a link to describe, and
/// that no two of them share an id. (Two that stay on their node may: they are known by their
/// types, which for generic ones have no names that are constants.)
pub const fn distinct<A: Handlers>(routes: &[Route<A>]) {
    // Another node ends its link when it is told of more.
    assert!(
        routes.len() <= ACCEPTED_MAX,
        "an actor accepts 4096 messages at most: make one enum of several, or several actors"
    );
    let (mut i, mut earlier) = (0, 0);
    while i < routes.len() {
        earlier += routes[i].forms.count() - 1;
        let mut j = i + 1;
        while j < routes.len() {
            let (this, other) = (&routes[i].forms, &routes[j].forms);
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

fn open<A: Accepts<M>, M: Message>(
    payload: Payload,
    node: &Node,
    replier: Option<Replier>,
    form: Form,
) -> Result<A::Envelope, InvalidArchive> {
    let input = if form.message == 0 {
        A::Input::from_remote(payload, node)
    } else {
        from_earlier::<M, A::Input>(payload, node, form.message)
    };
    match input {
        Ok(input) => {
            // No peer asks for a reply that has no layout; one that did is told that none comes.
            let reply = match (replier, <A::Reply as Reply>::CODEC) {
                (Some(mut replier), Some(codec)) => {
                    replier.set_form(form.reply);
                    ReplyTo::remote(replier, codec.encode)
                }
                _ => ReplyTo::nobody(),
            };
            Ok(A::envelope(input, reply))
        }
        Err(error) => {
            if let Some(replier) = replier {
                replier.fail(code::INVALID_ASK);
            }
            Err(error)
        }
    }
}

/// Takes a message that was sent in an earlier form. A `View` shows the newest one, so that its
/// archive is written anew.
#[cold]
fn from_earlier<M: Message, I: Input<Message = M>>(
    payload: Payload,
    node: &Node,
    form: u8,
) -> Result<I, InvalidArchive> {
    let Some(codec) = M::CODEC else {
        return Err(InvalidArchive("this message does not cross nodes".into()));
    };
    let message = (codec.decode)(payload, node, form)?;
    I::from_local(message, node).map_err(|(_, cause)| InvalidArchive(cause.to_string()))
}

fn put_tell<A: Accepts<M>, M: Message>(
    letter: &mut dyn Any,
    node: &Node,
) -> Result<A::Envelope, Cause> {
    let letter = letter.downcast_mut::<Option<M>>().ok_or(Cause::NotAccepted)?;
    let message = letter.take().ok_or(Cause::NotAccepted)?;
    match A::Input::from_local(message, node) {
        Ok(input) => Ok(A::envelope(input, ReplyTo::nobody())),
        Err((message, cause)) => {
            *letter = Some(message);
            Err(cause)
        }
    }
}

fn put_ask<A: Accepts<M>, M: Message>(
    letter: &mut dyn Any,
    node: &Node,
) -> Result<A::Envelope, Cause> {
    let letter =
        letter.downcast_mut::<Option<(M, ReplyTo<A::Reply>)>>().ok_or(Cause::NotAccepted)?;
    let (message, reply) = letter.take().ok_or(Cause::NotAccepted)?;
    match A::Input::from_local(message, node) {
        Ok(input) => Ok(A::envelope(input, reply)),
        Err((message, cause)) => {
            *letter = Some((message, reply));
            Err(cause)
        }
    }
}
