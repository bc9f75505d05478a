//! Causes: why messages, mailboxes, links and nodes ended.

use crate::fabric::Status;

pub use crate::connect_error::{ConnectCause, ConnectError};
pub use crate::proto::error::{OpenRefusal, Refusal, Violation};

/// The fate of a committed message, where it is not known to be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fate {
    /// The peer certainly did not get it: it never left this node, or the peer reported after the
    /// link's end that it did not consume it.
    NotSent,
    /// It was sent, and the link was lost; no report of the peer said what became of it.
    Unknown,
    /// The peer refused it.
    Refused(Refusal),
}

/// The cause of a link's end.
#[derive(Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum LinkCause {
    /// Both sides said goodbye.
    #[error("the peer left")]
    Left,
    /// Neither side had used it for its [`idle_close`](crate::endpoint::Profile::idle_close); the
    /// node is linked again when something is sent to it.
    #[error("it was idle")]
    Idle,
    /// Nothing was on its way, and it was closed so that a better fabric can carry the next one,
    /// which is made at once.
    #[error("it gives way to a link by a better fabric")]
    Better,
    /// This node [disconnected](crate::Endpoint::disconnect) the peer.
    #[error("this node disconnected the peer")]
    Disconnected,
    /// This node is shutting down.
    #[error("this node is shutting down")]
    Shutdown,
    /// The connection was closed without a goodbye, as the system does for a process that was
    /// killed, or the peer does not answer on it.
    #[error("the connection to the peer was closed")]
    Closed,
    /// Nothing was heard from the peer for several heartbeats.
    #[error("the peer is silent")]
    Silent,
    /// A task of this node panicked: one of the link, or one without which the node closes. The log
    /// of this node says which.
    #[error("a task of this node panicked")]
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

impl LinkCause {
    /// Returns the cause of a link whose owner is being dropped before its end: it panicked, or its
    /// runtime is gone.
    pub(crate) fn of_drop() -> Self {
        if std::thread::panicking() { LinkCause::Failed } else { LinkCause::Shutdown }
    }
}

/// The cause for which a node is down.
#[derive(Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum NodeDownCause {
    /// It said goodbye.
    #[error("it left")]
    Left,
    /// This node [disconnected](crate::Endpoint::disconnect) it.
    #[error("this node disconnected it")]
    Disconnected,
    /// Another run of it answered.
    #[error("it was restarted")]
    Restarted,
    /// Its connection was closed without a goodbye, and its host refuses another one: its process
    /// is gone. The text says what the dials met.
    #[error("its connection was closed, and its host refuses another one ({last})")]
    Gone {
        /// The outcome of the last attempt to reach it, in words.
        last: String,
    },
    /// It refuses this node, as another live node has the name of this one; or so does a seed, and
    /// no address of the node is known.
    #[error("{0}")]
    Refused(ConnectError),
    /// Nothing was heard from it for `down_after`; the text says what the last dial met. A node
    /// that answers is not down while the fabrics of both nodes are tried in turn.
    #[error("nothing was heard from it for {silent_ms} ms ({last})")]
    Silent {
        /// Length of the silence, in milliseconds.
        silent_ms: u64,
        /// The outcome of the last attempt to reach it, in words.
        last: String,
    },
    /// This node is shutting down and reaches no other node any more.
    #[error("this node is shutting down")]
    Shutdown,
    /// A task panicked without which this node is of no use, and it closed: it reaches no other
    /// node any more. Its log says which task.
    #[error("a task of this node panicked, and the node closed")]
    Failed,
}

/// Why and since when a node is down, as senders are told that do not wait for it.
#[derive(Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{}{cause}", since(*down_ms))]
pub struct NodeDown {
    /// The cause for which it is down.
    pub cause: NodeDownCause,
    /// Time that has passed since it was found to be down, in milliseconds; 0 for a sender that
    /// waited until then.
    pub down_ms: u64,
}

/// The reason why memory is not shared, or not any more.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotShared {
    /// This run of the node never gave the number of the share.
    #[error("the memory was never shared by this number")]
    Unknown,
    /// The share was revoked, or its memory was dropped.
    #[error("the share was revoked")]
    Revoked,
    /// The share was a lease, and its time is over.
    #[error("the time of the lease is over")]
    Expired,
}

crate::debug_by_display!(LinkCause, NodeDownCause, NodeDown, NotShared);

/// Returns how long ago it was found to be down, for people.
fn since(down_ms: u64) -> String {
    match down_ms {
        0 => "just found to be down: ".to_owned(),
        _ => format!("down for {down_ms} ms: "),
    }
}

/// Implements `Debug` of error types by their `Display`: a program whose `main` returns an error
/// prints its `Debug`.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_by_display {
    ($($error:ident $(<$of:ident>)?),+) => {$(
        impl $(<$of>)? ::core::fmt::Debug for $error $(<$of>)? {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(self, f)
            }
        }
    )+};
}
