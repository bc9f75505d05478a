//! One end of a link between two actors, as the actor has it that is there.

use std::sync::Arc;

use crate::address::Address;
use crate::exit::ActorExit;
use crate::limits;

/// One end of a link: what an actor has while it is linked to another one. The link is told once,
/// when it ends here.
pub(crate) struct LinkEnd {
    /// The other end.
    pub(crate) to: Address,
    /// Tells the other end that the link has ended; with a text, that this end has failed.
    pub(crate) tell: Box<dyn FnOnce(Option<Arc<str>>) + Send>,
}

/// Returns why an actor fails that is linked to one that ended so.
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

/// Shortens such a text: each of a long row of links adds to it.
pub(crate) fn linked_text(text: &str) -> Arc<str> {
    if text.len() <= limits::LINKED_TEXT_BYTES_MAX {
        return text.into();
    }
    format!("{} ...", &text[..text.floor_char_boundary(limits::LINKED_TEXT_BYTES_MAX)]).into()
}
