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
    /// A link was lost. It is dialled again; asks that were pending on it have failed.
    LinkDown {
        /// The node.
        node: NodeId,
        /// Why.
        cause: LinkCause,
    },
    /// A node is gone. What waited for it has failed.
    NodeDown {
        /// The node.
        node: NodeId,
        /// Why.
        cause: NodeDownCause,
    },
}
