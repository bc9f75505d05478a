//! What an actor does now, in one word.

use std::fmt;

/// What an actor does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ActorState {
    /// Its `on_start` runs, the first one or that of a later incarnation.
    Starting,
    /// It handles messages, or waits for one.
    Running,
    /// It was drained: it handles what it accepted, and ends.
    Draining,
    /// It was stopped, or is to rest with others, or its last incarnation is over: it ends when
    /// the message in hand is done and its children have ended.
    Stopping,
    /// It was killed, or is to fail with another actor, and its handler has not waited since.
    Killed,
    /// An incarnation has ended; it pauses before a restart, or its parent decides whether there
    /// is to be one.
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
