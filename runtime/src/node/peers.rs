//! The current states of other nodes, for programs that must not miss a change.

use std::sync::{Arc, Weak};

use crate::node::{Core, Node};
use crate::remote::PeerState;

/// The current states of the other nodes. Created by [`Node::peers`]. Each instance remembers the
/// version of the states that it has read. It does not keep its node alive.
///
/// Unlike [events](Node::events), changes cannot be missed: however far a program falls behind, its
/// next read returns the newest state.
///
/// ```no_run
/// # async fn watch(node: ringpost::Node) {
/// let mut peers = node.peers();
/// loop {
///     for peer in peers.read() {
///         println!("{}: {:?}", peer.node.name, peer.status);
///     }
///     if !peers.changed().await {
///         break;
///     }
/// }
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Peers {
    node: Weak<Core>,
    /// The version of the states that was read last.
    seen: u64,
}

impl Peers {
    /// Returns the nodes that are linked, or were linked and are still known, ordered by name, each
    /// with the state of its last run. About a thousand of the nodes that are gone are known.
    /// Returns none if this node itself is gone or has no network.
    pub fn read(&mut self) -> Vec<PeerState> {
        let node = self.node.upgrade();
        let Some(remote) = node.as_ref().and_then(|node| node.remote.as_ref()) else {
            return Vec::new();
        };
        // Set before the states are read, so that changes in between are read again.
        self.seen = remote.version();
        remote.states()
    }

    /// Waits until the states have changed since the last [`read`](Self::read), and returns true.
    /// Returns at once if they have changed already. The next read may still return the same
    /// states. Returns false if no more changes can happen: all were read, and this node says
    /// goodbye to the others, is gone, or has no network.
    ///
    /// # Cancel safety
    /// The future can be dropped at any time without loss.
    pub async fn changed(&self) -> bool {
        let Some(node) = self.node.upgrade() else { return false };
        let Some(changed) = node.remote.as_ref().map(|remote| remote.changed(self.seen)) else {
            return false;
        };
        // The wait must not keep the node alive.
        drop(node);
        changed.await
    }
}

impl Node {
    /// Returns a view of the other nodes, which returns their current states whenever it is read.
    pub fn peers(&self) -> Peers {
        Peers { node: Arc::downgrade(&self.core), seen: 0 }
    }
}
