//! Messages as senders give them to a link, and the causes for which one is not sent.

use std::sync::Arc;
use std::time::Instant;

use rkyv::util::AlignedVec;

use crate::cause::NodeDown;
use crate::close_reason::CloseReason;
use crate::note::Note;
use crate::open_request::{Form, MessageForms};
use crate::proto::error::OpenRefusal;
#[cfg(feature = "steps")]
use crate::steps::Step;

/// A message as a sender gives it.
pub(crate) struct Outgoing<'a> {
    pub(crate) message: &'a MessageForms,
    /// The form of its archive: a place among the message's layouts.
    pub(crate) form: u8,
    pub(crate) kind: SendKind,
    /// Travels with it.
    pub(crate) note: Option<&'a Note>,
    /// Its bytes; taken when large.
    pub(crate) archive: &'a mut AlignedVec<16>,
}

impl Outgoing<'_> {
    /// Returns the same message, for a shorter time.
    pub(crate) fn reborrow(&mut self) -> Outgoing<'_> {
        Outgoing { archive: self.archive, ..*self }
    }
}

/// The places at which a sender found its mailbox and its message the last time. Checked before
/// use, so a stale hint costs only a search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Hint {
    pub(crate) outlet: u32,
    pub(crate) ordinal: u16,
}

/// The place of a message among those a mailbox accepts, and the form that it has there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) ordinal: u16,
    pub(crate) form: Form,
}

/// The kind of a send, by what its sender wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendKind {
    /// A message without an answer.
    Tell,
    /// A message without an answer, whose fate its sender wants to know.
    ConfirmedTell,
    /// A message with one answer.
    Ask {
        /// Time at which the asker gives up. The time that is left until then travels with the ask.
        deadline: Option<Instant>,
    },
    /// As [`Ask`](SendKind::Ask); messages behind it in its line are committed after it, whichever
    /// task runs first.
    LeadingAsk {
        /// The same as for [`Ask`](SendKind::Ask).
        deadline: Option<Instant>,
    },
    /// A signal, see [`Inbox::signal`](crate::Inbox::signal), after every message that was
    /// committed before it.
    Signal(u16),
    /// A signal, ahead of messages.
    UrgentSignal(u16),
    /// Nothing: the sender looks whether there is such a mailbox, and which it is.
    LookUp,
}

impl SendKind {
    /// Returns true if it is a message with an answer.
    pub fn is_ask(self) -> bool {
        matches!(self, SendKind::Ask { .. } | SendKind::LeadingAsk { .. })
    }

    /// Returns true if messages behind it in its line are committed after it.
    pub(super) fn leads(self) -> bool {
        matches!(self, SendKind::LeadingAsk { .. })
    }

    /// Returns true if it waits for the mailbox to be open and for nothing more: it takes no room.
    pub(crate) fn takes_no_room(self) -> bool {
        matches!(self, SendKind::UrgentSignal(_) | SendKind::LookUp)
    }
}

#[cfg(feature = "steps")]
impl SendKind {
    /// Returns the step of the protocol that a commit of this kind is.
    pub(super) fn committed(self) -> Option<Step> {
        match self {
            SendKind::Tell | SendKind::ConfirmedTell => Some(Step::TellCommitted),
            SendKind::Ask { .. } | SendKind::LeadingAsk { .. } => Some(Step::AskCommitted),
            SendKind::Signal(_) | SendKind::UrgentSignal(_) | SendKind::LookUp => None,
        }
    }
}

/// The cause for which nothing was sent.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsent {
    /// The node is down.
    #[error("the node is unreachable, {0}")]
    NodeDown(NodeDown),
    /// There is no link right now. Only for a sender that does not wait.
    #[error("there is no link to the node right now")]
    LinkDown,
    /// The mailbox is not opened yet. Only for a sender that does not wait.
    #[error("the mailbox is being opened")]
    Opening,
    /// There is no such mailbox.
    #[error("there is no such mailbox")]
    NoSuchMailbox,
    /// There is one, of another kind.
    #[error("the mailbox is of another kind: `{found}`")]
    WrongKind {
        /// The name of its kind.
        found: Arc<str>,
    },
    /// The mailbox was closed.
    #[error("the mailbox is closed")]
    Closed(CloseReason),
    /// The mailbox does not take this message.
    #[error("the mailbox does not accept this message")]
    NotAccepted,
    /// The mailbox takes this message, in layouts that this node does not know.
    #[error("the peer was built with another layout of this message")]
    SchemaMismatch,
    /// The archive is larger than the limit.
    #[error("an archive of {bytes} bytes is more than a `message_bytes_max` of {limit} takes")]
    TooLarge {
        /// Bytes of the archive.
        bytes: usize,
        /// The limit in bytes of the user, to which an archive may add 256 and a thousandth.
        limit: usize,
    },
    /// The link has as many pending asks as it keeps.
    #[error("too many asks are pending on the link")]
    TooManyAsks,
    /// The window is full. Only for a sender that does not wait.
    #[error("the mailbox is full")]
    Full,
    /// The archive could not be written.
    #[error("the message could not be archived")]
    Archive,
    /// One of the two nodes is shutting down.
    #[error("the link is being shut down")]
    Leaving,
}

crate::debug_by_display!(Unsent);

impl Unsent {
    /// Returns the cause for a mailbox whose opening was refused, or which closed.
    pub(super) fn at_end(refusal: Option<OpenRefusal>, end: CloseReason) -> Self {
        match refusal {
            Some(OpenRefusal::NoSuchMailbox) => Unsent::NoSuchMailbox,
            Some(OpenRefusal::WrongKind { found }) => Unsent::WrongKind { found },
            None => Unsent::Closed(end),
        }
    }
}
