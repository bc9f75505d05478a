//! How an actor ended.

use std::fmt;
use std::sync::Arc;

/// How an actor ended, as far as this node knows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ActorExit {
    /// It was stopped or drained.
    Stopped,
    /// It could not start, or it was restarted too often, or a child of it was; the text says
    /// which.
    Failed(Arc<str>),
    /// It panicked; the text is the panic's message.
    Panicked(Arc<str>),
    /// It was killed.
    Killed,
    /// There was no such actor when this node looked: it never was, or it ended while there was no
    /// link to its node, and no node knows any more how.
    NoActor,
    /// Its node is down; [`Node::peers`](crate::Node::peers) says why. Where that was only silent,
    /// or cut off, the actor may live on: a watcher that wants to know of its end watches it again
    /// when the node is linked again.
    NodeDown,
}

impl ActorExit {
    /// Returns true if it ended otherwise than by being stopped or drained.
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
