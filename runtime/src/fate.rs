//! The fate of a message after its commit.

use std::fmt;

/// The fate of a committed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fate {
    /// It was queued in its actor's mailbox. (An actor that is stopped or killed leaves what waits
    /// there; those are dead letters of its own node.)
    Delivered,
    /// It certainly was not: its link ended before it arrived.
    NotSent,
    /// Its actor's node refused it: the actor had ended or was draining. On this node only where
    /// the actor was stopped in the moment in which the message got the room that was kept for it.
    Refused,
    /// The link was lost, and the other node did not come back to say: it may have been handled.
    Unknown,
}

impl Fate {
    /// Returns true if the message was certainly not handled, so that telling it again, by the
    /// actor's name, never has it handled twice.
    pub fn is_retryable(self) -> bool {
        match self {
            Fate::NotSent | Fate::Refused => true,
            Fate::Delivered | Fate::Unknown => false,
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fate::Delivered => "the message was delivered",
            Fate::NotSent => "the link ended before the message arrived",
            Fate::Refused => "the actor had ended or was draining",
            Fate::Unknown => "the link was lost; the message may have been handled",
        })
    }
}
