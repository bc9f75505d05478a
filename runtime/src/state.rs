//! `ActorState`: the current activity of an actor.

use std::fmt;

/// The current activity of an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ActorState {
    /// It runs `on_start`, in its first or a later incarnation.
    Starting,
    /// It handles messages, or waits for messages.
    Running,
    /// It was drained: it handles the messages that it has accepted, and ends.
    Draining,
    /// It was stopped, must rest with others, or its last incarnation is over: it ends when its
    /// current message is handled and its children have ended.
    Stopping,
    /// It was killed, or must fail with another actor, and its handler has not waited since.
    Killed,
    /// An incarnation has ended: it pauses before a restart, or its parent decides about a restart.
    Resting,
}

impl fmt::Display for ActorState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ActorState::Starting => "starting",
            ActorState::Running => "running",
            ActorState::Draining => "draining",
            ActorState::Stopping => "stopping",
            ActorState::Killed => "killed",
            ActorState::Resting => "resting",
        })
    }
}
