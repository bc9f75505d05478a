//! How an actor ended.

use std::fmt;
use std::sync::Arc;

/// How an actor ended, as far as this node knows.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ActorExit {
    /// It was stopped or drained, or could not start.
    Stopped,
    /// It panicked; the text is the panic's message.
    Panicked(Arc<str>),
    /// It was killed.
    Killed,
    /// It lived on another node and is gone; how it ended is known there.
    Gone,
    /// It lives on another node, of which nothing more will be heard.
    Unreachable,
}

impl fmt::Display for ActorExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ActorExit::Stopped => f.write_str("it stopped"),
            ActorExit::Panicked(message) => write!(f, "it panicked: {message}"),
            ActorExit::Killed => f.write_str("it was killed"),
            ActorExit::Gone => f.write_str("it is gone from its node"),
            ActorExit::Unreachable => f.write_str("its node is out of reach"),
        }
    }
}
