//! The errors of the protocol: the breaches that end a link, and the refusals that travel on it.

/// A breach of the protocol by a peer. The link ends; the node lives on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A frame's header does not describe the bytes that arrived.
    #[error("malformed frame")]
    Frame,
    /// Its bootstrap connection carried what does not belong there.
    #[error("malformed message on the bootstrap connection")]
    Bootstrap,
    /// A record does not fit its frame, or is of no known kind.
    #[error("malformed record")]
    Record,
    /// A frame arrived for which no credit was given.
    #[error("more frames than credits")]
    CreditOverrun,
    /// The count of consumed frames went back, or passed what was sent.
    #[error("impossible count of consumed frames")]
    Count,
    /// More was sent to a mailbox, or over the link, than its window.
    #[error("more messages than the window")]
    WindowOverrun,
    /// More was reported taken than was sent.
    #[error("impossible window report")]
    WindowReport,
    /// A mailbox or a message of it that was never opened.
    #[error("unknown mailbox or message")]
    Unknown,
    /// A fragment out of place, or a message longer than allowed.
    #[error("impossible fragment")]
    Fragment,
    /// An opening or an answer to one that makes no sense.
    #[error("malformed or unexpected opening")]
    Opening,
    /// A refusal of something that was not sent.
    #[error("refusal of an unknown message")]
    Refusal,
    /// The first frame was not a full-sized CONFIRM, or a later one was.
    #[error("unexpected confirmation")]
    Confirm,
    /// Something after the goodbye.
    #[error("messages after the goodbye")]
    Goodbye,
    /// The peer keeps asking and takes no answers.
    #[error("too many unanswered requests")]
    Flood,
}

/// The cause for which a message that arrived was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u16)]
pub enum Refusal {
    /// The mailbox is closed.
    Closed = 1,
}

impl Refusal {
    /// Reads the number that a REFUSAL carries.
    pub(crate) fn of(code: u16) -> Result<Self, Violation> {
        if code == 1 { Ok(Refusal::Closed) } else { Err(Violation::Refusal) }
    }
}

/// The cause for which a mailbox could not be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u16)]
pub enum OpenRefusal {
    /// There is none of that name or identity.
    NoSuchMailbox = 1,
    /// There is one, of another kind.
    WrongKind = 2,
}

impl OpenRefusal {
    /// Reads the number that an OPEN_REFUSED carries.
    pub(crate) fn of(code: u16) -> Result<Self, Violation> {
        match code {
            1 => Ok(OpenRefusal::NoSuchMailbox),
            2 => Ok(OpenRefusal::WrongKind),
            _ => Err(Violation::Opening),
        }
    }
}
