//! The fate of a message after its commit.

use std::fmt;

/// The fate of a committed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fate {
    /// It was queued in its actor's mailbox. (If the actor is then stopped or killed before it
    /// handles the message, the message becomes a dead letter of the actor's node.)
    Delivered,
    /// It was certainly not delivered: its link ended before it arrived.
    NotSent,
    /// Its actor's node refused it: the actor had ended or was draining. On this node, this happens
    /// only if the actor was stopped after room had been reserved for the message.
    Refused,
    /// The link was lost, and the other node did not report the fate: it may have been handled.
    Unknown,
}

impl Fate {
    /// Returns true if the message was certainly not handled. Then telling it again, by the actor's
    /// name, cannot make it handled twice.
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
