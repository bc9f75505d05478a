//! What a sender gives to a link, and why it may not be sent.

use rkyv::util::AlignedVec;

use crate::mailbox::Accepted;
use crate::proto::outbound::Unopened;
#[cfg(feature = "steps")]
use crate::steps::Step;

/// A message as a sender gives it.
pub(crate) struct Outgoing<'a> {
    pub(crate) message: &'a Accepted,
    pub(crate) kind: SendKind,
    /// Its bytes; taken when large.
    pub(crate) archive: &'a mut AlignedVec<16>,
}

/// What a sender wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendKind {
    Tell,
    /// A tell whose sender waits for its fate.
    ConfirmedTell,
    /// An ask; when its asker gives up.
    Ask {
        deadline: Option<std::time::Instant>,
    },
    /// A signal, in the order of messages.
    Signal(u16),
    /// A signal, ahead of messages.
    UrgentSignal(u16),
}

#[cfg(feature = "steps")]
impl SendKind {
    /// Returns the step of the protocol that a commit of this kind is.
    pub(super) fn committed(self) -> Option<Step> {
        match self {
            SendKind::Tell | SendKind::ConfirmedTell => Some(Step::TellCommitted),
            SendKind::Ask { .. } => Some(Step::AskCommitted),
            SendKind::Signal(_) | SendKind::UrgentSignal(_) => None,
        }
    }
}

/// What a sender waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Opening,
    Room,
}

/// Why a message cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendFailure {
    Unopened(Unopened),
    NotAccepted,
    SchemaMismatch,
    TooLarge { bytes: usize, limit: usize },
    TooManyAsks,
    Leaving,
}
