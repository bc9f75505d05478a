//! The end of an actor.

use std::fmt;
use std::sync::Arc;

/// The way in which an actor ended, as far as this node knows. A text from another node has at most
/// 256 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ActorExit {
    /// It was stopped or drained.
    Stopped,
    /// It could not start, or it or a child of it was restarted too often; the text says which.
    Failed(Arc<str>),
    /// It panicked; the text is the panic's message.
    Panicked(Arc<str>),
    /// It was killed.
    Killed,
    /// There was no such actor when this node looked: it never existed, or it ended while there was
    /// no link to its node, and no node remembers how.
    NoActor,
    /// Its node is down; [`Node::peers`](crate::Node::peers) says why. If the node is only silent
    /// or cut off, the actor may still live: to learn of its end, watch it again when the node is
    /// linked again.
    NodeDown,
}

impl ActorExit {
    /// Returns true unless it was stopped or drained.
    pub fn is_failure(&self) -> bool {
        *self != ActorExit::Stopped
    }
}

impl fmt::Display for ActorExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ActorExit::Stopped => f.write_str("it stopped"),
            ActorExit::Failed(why) => write!(f, "it failed: {why}"),
            ActorExit::Panicked(message) => write!(f, "it panicked: {message}"),
            ActorExit::Killed => f.write_str("it was killed"),
            ActorExit::NoActor => f.write_str("there was no such actor"),
            ActorExit::NodeDown => f.write_str("its node is down"),
        }
    }
}
