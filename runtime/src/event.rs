//! The events that a node tells of the nodes around it.

use std::time::Duration;

use ringpost_transport::cause::{ConnectError, LinkCause, NodeDownCause};
use ringpost_transport::id::NodeId;

/// A link or a node came or went, or this node stood still.
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
    /// A link ended. Asks that were pending on it have failed. Unless the peer left, the link was
    /// idle or this node is shutting down, the peer is dialled again; a peer that left, or whose
    /// link was idle, is dialled when a sender waits for it. After [`LinkCause::Idle`] there is no
    /// `NodeDown` until then, whatever becomes of the peer.
    LinkDown {
        /// The node.
        node: NodeId,
        /// Why.
        cause: LinkCause,
    },
    /// A node is shutting down. Asks that it accepted are answered; new ones fail at once with
    /// `NotSent(Leaving)`, and may be tried again. When it is gone `NodeDown` follows.
    NodeLeaving {
        /// The node.
        node: NodeId,
    },
    /// A seed refuses this node, or leads to a program that is no node. A person has to change
    /// that. The node goes on to dial the seed. While the cause is
    /// [`NameTaken`](crate::ConnectCause::NameTaken), waits for links that it makes vain fail.
    Refused {
        /// The seed, and the cause.
        error: ConnectError,
    },
    /// This node itself did not run for so long: its process was stopped, or its machine. Others
    /// may have found it down meanwhile. It finds no other node down for that time. (A machine that
    /// is suspended stops the clock as well: nothing is noticed of that time.)
    Paused {
        /// How long: 2 s or more.
        lasted: Duration,
    },
    /// A run of a node is gone. Its pending asks have failed, and so have the senders that waited
    /// for a link; until the node is linked again all sends to it fail at once with
    /// `NodeUnreachable`, but those that
    /// [wait for a link](crate::Tell::wait_for_link). Of a node that was restarted the next run is
    /// being linked: senders wait for that.
    NodeDown {
        /// The node.
        node: NodeId,
        /// Why.
        cause: NodeDownCause,
    },
}
