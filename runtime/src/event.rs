//! The events that a node reports about itself and other nodes.

use std::time::Duration;

use ringpost_transport::cause::{ConnectError, LinkCause, NodeDownCause};
use ringpost_transport::id::NodeId;

/// A change of a link or of another node, a refusal by a seed, or a pause of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeEvent {
    /// A node is linked.
    LinkUp {
        /// The linked node.
        node: NodeId,
        /// The fabric that carries the link.
        fabric: &'static str,
    },
    /// A link ended. Asks that were pending on it have failed. The peer is dialled again, unless it
    /// left, the link was idle or this node is shutting down; a peer that left or whose link was
    /// idle is dialled when a sender waits for it. After [`LinkCause::Idle`] there is no `NodeDown`
    /// until then, even if the peer goes down.
    LinkDown {
        /// The node at the other end of the link.
        node: NodeId,
        /// The reason why the link ended.
        cause: LinkCause,
    },
    /// A node is shutting down. It still answers asks that it accepted; new ones fail at once with
    /// `NotSent(Leaving)`, and may be retried. `NodeDown` follows when the node is gone.
    NodeLeaving {
        /// The node that is shutting down.
        node: NodeId,
    },
    /// A seed refuses this node, or leads to a program that is no node. A person has to fix this.
    /// The node continues to dial the seed. While the cause is
    /// [`NameTaken`](crate::net::ConnectCause::NameTaken), waits for links fail if they cannot
    /// succeed because of it.
    Refused {
        /// The seed, and the cause.
        error: ConnectError,
    },
    /// This node itself did not run for some time, because its process or its machine was stopped.
    /// Other nodes may have found it down meanwhile. It does not find other nodes down for that
    /// time. (A suspended machine stops the clock as well, so that time is not noticed.)
    Paused {
        /// The duration of the pause: 2 s or more.
        lasted: Duration,
    },
    /// A run of a node is gone. Its pending asks have failed, and so have senders that waited for a
    /// link. Until the node is linked again, all sends to it fail at once with `NodeUnreachable`,
    /// except sends that [wait for a link](crate::send::Tell::wait_for_link). If the node was
    /// restarted, its next run is being linked, and senders wait for that.
    NodeDown {
        /// The run of the node that is gone.
        node: NodeId,
        /// The reason why it is down.
        cause: NodeDownCause,
    },
}
