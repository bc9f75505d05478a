//! Dead letters: messages that were accepted and reached no handler.
//!
//! Each accepted message (its `tell` returned `Ok`) is counted here once, with its cause, if this
//! node knows or must assume that no handler saw it. An ask is never counted: its asker gets an
//! error instead.

use std::fmt;

use parking_lot::Mutex;
use ringpost_transport::{log, shield};
use tokio::sync::broadcast;

use crate::address::Address;
use crate::limits;

/// The reason why an accepted message reached no handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DeadLetterCause {
    /// The actor ended with the message in its mailbox.
    Stopped,
    /// The bytes that arrived are not an archive of the message.
    InvalidArchive,
    /// The link ended before the message arrived: it was certainly not handled.
    NotSent,
    /// The link was lost after the message left, and the other node did not report its fate: it may
    /// have been handled.
    Unknown,
    /// The other node refused it: the actor had ended or was draining.
    Refused,
}

impl DeadLetterCause {
    const ALL: [DeadLetterCause; 5] = [
        DeadLetterCause::Stopped,
        DeadLetterCause::InvalidArchive,
        DeadLetterCause::NotSent,
        DeadLetterCause::Unknown,
        DeadLetterCause::Refused,
    ];
}

impl DeadLetterCause {
    /// Returns the cause as one word, for metrics.
    fn label(self) -> &'static str {
        match self {
            DeadLetterCause::Stopped => "stopped",
            DeadLetterCause::InvalidArchive => "invalid_archive",
            DeadLetterCause::NotSent => "not_sent",
            DeadLetterCause::Unknown => "unknown",
            DeadLetterCause::Refused => "refused",
        }
    }
}

impl fmt::Display for DeadLetterCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeadLetterCause::Stopped => "the actor ended before it took the message",
            DeadLetterCause::InvalidArchive => "the bytes are not an archive of the message",
            DeadLetterCause::NotSent => "the link ended before the message was sent",
            DeadLetterCause::Unknown => "the link was lost; the message may have been handled",
            DeadLetterCause::Refused => "the other node refused the message",
        })
    }
}

/// A message that was accepted and reached no handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The actor it was for.
    pub to: Address,
    /// Identity of the message: [`Message::ID`](crate::Message::ID).
    pub message: u128,
    /// Its name, if this node knows it.
    pub name: Option<&'static str>,
    /// The reason why it reached no handler.
    pub cause: DeadLetterCause,
}

impl fmt::Display for DeadLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Some(name) => write!(f, "{name} to {}: {}", self.to, self.cause),
            None => write!(f, "message {:032x} to {}: {}", self.message, self.to, self.cause),
        }
    }
}

/// The dead letters of a node: counted by cause, and sent to each subscriber.
#[derive(Debug)]
pub struct DeadLetters {
    counts: Mutex<[u64; DeadLetterCause::ALL.len()]>,
    observers: broadcast::Sender<DeadLetter>,
}

impl DeadLetters {
    pub(crate) fn new() -> Self {
        DeadLetters {
            counts: Mutex::default(),
            observers: broadcast::Sender::new(limits::OBSERVED_MAX),
        }
    }

    /// Subscribes to dead letters from now on. An observer that falls behind is told how many it
    /// missed.
    pub fn subscribe(&self) -> broadcast::Receiver<DeadLetter> {
        self.observers.subscribe()
    }

    /// Returns the number of dead letters with this cause.
    pub fn count(&self, cause: DeadLetterCause) -> u64 {
        self.counts.lock()[cause as usize]
    }

    /// Returns the number of all dead letters.
    pub fn total(&self) -> u64 {
        self.counts.lock().iter().sum()
    }

    /// Returns the number of dead letters by cause.
    pub fn by_cause(&self) -> impl Iterator<Item = (DeadLetterCause, u64)> {
        let counts = *self.counts.lock();
        DeadLetterCause::ALL.into_iter().zip(counts)
    }

    pub(crate) fn bury(&self, letter: DeadLetter) {
        self.counts.lock()[letter.cause as usize] += 1;
        // An error only means that there is no observer.
        drop(self.observers.send(letter.clone()));
        let cause = letter.cause.label();
        shield::run(|| {
            metrics::counter!("ringpost_dead_letters_total", "cause" => cause).increment(1)
        });
        log::debug!(%letter, "dead letter");
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::broadcast::error::TryRecvError;

    use super::*;

    // Promised in docs/SEMANTICS.md.
    #[test]
    fn an_observer_that_falls_behind_is_told_how_many_it_missed() {
        let letters = DeadLetters::new();
        let mut observer = letters.subscribe();
        let to = Address::by_name("beta".into(), "counter".into());
        let cause = DeadLetterCause::Stopped;
        for message in 0..limits::OBSERVED_MAX as u128 + 7 {
            letters.bury(DeadLetter { to: to.clone(), message, name: None, cause });
        }
        assert_eq!(observer.try_recv(), Err(TryRecvError::Lagged(7)));
        assert_eq!(observer.try_recv().map(|letter| letter.message), Ok(7));
        assert_eq!(letters.total(), limits::OBSERVED_MAX as u64 + 7);
    }
}
