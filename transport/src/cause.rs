//! Why things ended: messages, mailboxes, links and nodes.

use crate::fabric::Status;

/// What became of a committed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fate {
    /// It never left this node.
    NotSent,
    /// It was sent, and the link was lost before the peer acknowledged it.
    Unknown,
    /// The peer refused it.
    Refused(Refusal),
}

/// Why a delivered message was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The mailbox is closed.
    Closed,
}

/// Why a mailbox could not be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OpenRefusal {
    /// There is none of that name or identity.
    NoSuchMailbox,
    /// There is one, of another kind.
    WrongKind,
}

/// Why a link ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum LinkCause {
    /// Both sides said goodbye.
    #[error("the peer left")]
    Left,
    /// This node is shutting down.
    #[error("this node is shutting down")]
    Shutdown,
    /// The connection was closed, without a goodbye.
    #[error("the connection to the peer was closed")]
    Closed,
    /// Nothing was heard from the peer for several heartbeats.
    #[error("the peer is silent")]
    Silent,
    /// This node's own side panicked; its log says where.
    #[error("this node's side of the link panicked")]
    Failed,
    /// The fabric reported an error.
    #[error("the fabric failed: {0}")]
    Fabric(Status),
    /// The peer broke the protocol.
    #[error("the peer broke the protocol: {0}")]
    Violation(Violation),
    /// Another run of the peer answered.
    #[error("the peer was restarted")]
    PeerRestarted,
    /// The peer proved its identity on a newer connection and its old one does not answer.
    #[error("replaced by a newer connection")]
    Replaced,
}

/// Why a node is down.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum NodeDownCause {
    /// It said goodbye.
    #[error("it left")]
    Left,
    /// Another run of it answered.
    #[error("it was restarted")]
    Restarted,
    /// Nothing was heard from it for `down_after`; the text says what the last dial met.
    #[error("nothing was heard from it for {silent_ms} ms ({last})")]
    Silent {
        /// How long, in milliseconds.
        silent_ms: u64,
        /// What the last attempt to reach it met.
        last: String,
    },
    /// This node is shutting down and reaches nobody any more.
    #[error("this node is shutting down")]
    Shutdown,
}

/// A peer broke the protocol. The link ends; the node lives on.
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
