//! An actor's table of messages: what leads from bytes, or from a message alone, to its envelope.

use std::any::{Any, TypeId};

use ringpost_transport::limits::ACCEPTED_MAX;
use ringpost_transport::memory::{InvalidArchive, Payload};

use super::{Accepts, Handlers, Reply, ReplyTo};
use crate::busy::Duty;
use crate::error::Cause;
use crate::message::Message;
use crate::node::Node;
use crate::remote::{Accepted, Replier, code};
use crate::view::Input;

/// One message of an actor. Its place in the table is its ordinal on the wire.
pub struct Route<A: Handlers> {
    pub(super) label: Label,
    /// Its form on the wire; layouts of 0 where it stays on its node.
    pub(super) accepted: Accepted,
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

/// Checks and reads what arrived. On an error the asker is told.
type Open<A> =
    fn(Payload, &Node, Option<Replier>) -> Result<<A as Handlers>::Envelope, InvalidArchive>;

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
            accepted: accepted::<M, A::Reply>(),
            open: open::<A, M>,
            tell: put_tell::<A, M>,
            ask: put_ask::<A, M>,
            message: TypeId::of::<M>,
            reply: TypeId::of::<A::Reply>,
        }
    }
}

/// Returns the wire form of `M` for an actor that answers it with `R`; layouts are 0 where they
/// stay on their node.
pub(super) const fn accepted<M: Message, R: Reply>() -> Accepted {
    let layout = match M::CODEC {
        Some(codec) => codec.layout,
        None => 0,
    };
    let reply = match R::CODEC {
        Some(codec) => codec.layout,
        None => 0,
    };
    Accepted { id: M::ID, layout, reply }
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
    let mut i = 0;
    while i < routes.len() {
        let mut j = i + 1;
        while j < routes.len() {
            let (this, other) = (&routes[i].accepted, &routes[j].accepted);
            let both_stay = this.layout == 0 && other.layout == 0;
            assert!(
                this.id != other.id || both_stay,
                "two messages of this actor have the same name: give one `#[message(name = ..)]`"
            );
            j += 1;
        }
        i += 1;
    }
}

fn open<A: Accepts<M>, M: Message>(
    payload: Payload,
    node: &Node,
    replier: Option<Replier>,
) -> Result<A::Envelope, InvalidArchive> {
    match <A::Input as Input>::from_remote(payload, node) {
        Ok(input) => {
            // No peer asks for a reply that has no layout; one that did is told that none comes.
            let reply = match (replier, <A::Reply as Reply>::CODEC) {
                (Some(replier), Some(codec)) => ReplyTo::remote(replier, codec.encode),
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
