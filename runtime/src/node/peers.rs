//! The other nodes as they are now, for programs that must not miss a change.

use std::sync::{Arc, Weak};

use crate::node::{Core, Node};
use crate::remote::PeerState;

/// The other nodes of a node, as they are now. Created by [`Node::peers`]; any number may be, and
/// each remembers what it has read. It does not keep its node alive.
///
/// Unlike [events](Node::events), changes cannot be missed: however far a program falls behind,
/// its next read returns the newest state.
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
    /// The version that was read last.
    seen: u64,
}

impl Peers {
    /// Returns the nodes that are linked, or were and are still known, by name: each with the state
    /// of its last run. Of nodes that are gone the last thousand or so are known. None, when this
    /// node itself is gone.
    pub fn read(&mut self) -> Vec<PeerState> {
        let node = self.node.upgrade();
        let Some(remote) = node.as_ref().and_then(|node| node.remote.as_ref()) else {
            return Vec::new();
        };
        // Before the states: what changes in between is read again.
        self.seen = remote.version();
        remote.states()
    }

    /// Waits until there is something that was not read yet: at once, if something changed since
    /// the last [`read`](Self::read). It may be the same again. Returns false when nothing more is
    /// to be told: all was read, and this node says goodbye to the others, is gone, or has no
    /// network.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn changed(&self) -> bool {
        let Some(node) = self.node.upgrade() else { return false };
        let Some(changed) = node.remote.as_ref().map(|remote| remote.changed(self.seen)) else {
            return false;
        };
        // The wait does not keep the node alive.
        drop(node);
        changed.await
    }
}

impl Node {
    /// Returns the other nodes, as they are now and whenever they are read again.
    pub fn peers(&self) -> Peers {
        Peers { node: Arc::downgrade(&self.core), seen: 0 }
    }
}
