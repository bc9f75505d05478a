//! What a node tells about the nodes around it.

use ringpost_transport::cause::{LinkCause, NodeDownCause};
use ringpost_transport::id::NodeId;

/// A link or a node came or went.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeEvent {
    /// A node is linked.
    LinkUp {
        /// The node.
        node: NodeId,
        /// The fabric that carries the link.
        fabric: &'static str,
    },
    /// A link ended. Asks that were pending on it have failed. Unless the peer left or this node is
    /// shutting down, the peer is dialled again; a peer that left is dialled when a sender waits
    /// for it.
    LinkDown {
        /// The node.
        node: NodeId,
        /// Why.
        cause: LinkCause,
    },
    /// A run of a node is gone. Its pending asks have failed. Senders that wait for a link go on
    /// waiting: they use the link to the node's next run, or fail with `NodeUnreachable` when
    /// `down_after` has passed since the first of them began to wait or the node was last heard,
    /// whichever is later.
    NodeDown {
        /// The node.
        node: NodeId,
        /// Why.
        cause: NodeDownCause,
    },
}
