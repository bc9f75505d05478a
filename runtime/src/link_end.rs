//! One end of a link between two actors, on the node of the actor at this end.

use std::sync::Arc;

use crate::address::Address;
use crate::exit::ActorExit;
use crate::limits;

/// The name of the type of actors that stand in for linked actors of other nodes.
pub(crate) const TIE: &str = "ringpost::Tie";

/// One end of a link, which an actor has while it is linked to another one. The other end is told
/// once, when the link ends here.
pub(crate) struct LinkEnd {
    /// The other end.
    pub(crate) to: Address,
    /// Tells the other end that the link has ended; with a text, that this end has failed.
    pub(crate) tell: Box<dyn FnOnce(Option<Arc<str>>) + Send>,
}

/// Returns the failure text of an actor that is linked to `peer`, which ended with `exit`.
pub(crate) fn linked_to(peer: &Address, exit: &ActorExit) -> Arc<str> {
    linked_text(&match exit {
        ActorExit::Failed(why) => format!("linked to {peer}, which failed: {why}"),
        ActorExit::Panicked(message) => format!("linked to {peer}, which panicked: {message}"),
        ActorExit::NoActor => format!("linked to {peer}, which had ended"),
        ActorExit::NodeDown => format!("linked to {peer}, whose node is down"),
        ActorExit::Stopped => format!("linked to {peer}, which stopped"),
        ActorExit::Killed => format!("linked to {peer}, which was killed"),
    })
}

/// Shortens the text of [`linked_to`], because each link of a long chain adds to it.
pub(crate) fn linked_text(text: &str) -> Arc<str> {
    if text.len() <= limits::LINKED_TEXT_BYTES_MAX {
        return text.into();
    }
    format!("{} ...", &text[..text.floor_char_boundary(limits::LINKED_TEXT_BYTES_MAX)]).into()
}
