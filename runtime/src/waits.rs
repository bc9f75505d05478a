//! For which actors a handler waits, as it notes that on its actor: under one lock, which is that
//! actor's. Sends write it, and those that look for circles and for long waits read it.

use std::sync::Arc;

use crate::address::Address;
use crate::busy::{Duty, InHand};
use crate::slot::OpenAsk;

/// The handler or hook of an actor that waits, and for which actors. There from the first one on
/// that did, or from the first sender on that waited for room in its mailbox.
#[derive(Default)]
pub(crate) struct Waits {
    /// The actor is among those at which the log's look-out looks.
    pub(crate) is_listed: bool,
    pub(crate) handler: Option<&'static Duty>,
    /// When it was first polled, or first found to wait, by the coarse clock of [`crate::busy`].
    pub(crate) since: u64,
    /// Which one it is: the next one has another number.
    pub(crate) number: u32,
    /// One for each send of the handler that waits: at most
    /// [`WAITS_MAX`](crate::limits::WAITS_MAX).
    pub(crate) actors: Vec<WaitsFor>,
    /// The number of the last of these that was noted.
    pub(crate) noted: u64,
}

/// An actor for which a handler waits.
pub(crate) struct WaitsFor {
    /// The number of the wait: no other wait of its handler has it.
    pub(crate) number: u64,
    /// The number of the actor; 0 of one of another node.
    pub(crate) whom: u64,
    pub(crate) what: Awaits,
    /// The ask that the handler handles, by its number.
    pub(crate) in_hand: usize,
}

/// A wait of a handler, by its kind.
pub(crate) enum Awaits {
    /// It is about to send.
    Nothing,
    /// Room in the mailbox, with this turn.
    Room(u64),
    /// An answer.
    Answer(Arc<dyn OpenAsk>),
    /// Room in the mailbox of an actor of another node, or the way to it; with the name of the
    /// actor's type, as far as it is known.
    RoomElsewhere(Address, &'static str),
    /// An answer of such an actor.
    AnswerElsewhere(Address, &'static str),
    /// That the actor starts: which of its starts that is.
    Start(InHand),
    /// That the actor ends.
    End,
    /// That the actor, a child, rests between two incarnations.
    Rest,
    /// That the actor, a supervisor, has it begin anew: the one that waits rests.
    Resume,
    /// Nothing any more: the send closes a circle, and fails; with the text that names it.
    Refused(Arc<str>),
}
