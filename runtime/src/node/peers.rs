//! The other nodes as they are now, for programs that must not miss a change.

use crate::node::Node;
use crate::remote::PeerState;

/// The other nodes of a node, as they are now. Created by [`Node::peers`]; any number may be, and
/// each remembers what it has read.
///
/// Unlike [events](Node::events), changes cannot be missed: however far a program falls behind,
/// what it reads next is the newest state.
///
/// ```no_run
/// # async fn watch(node: ringpost::Node) {
/// let mut peers = node.peers();
/// loop {
///     for peer in peers.read() {
///         println!("{}: {:?}", peer.node.name, peer.status);
///     }
///     peers.changed().await;
/// }
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Peers {
    node: Node,
    /// The version that was read last.
    seen: u64,
}

impl Peers {
    /// Returns the nodes that are linked, or were and are still known, by name: each with the state
    /// of its last run. Of nodes that are gone the last thousand or so are known.
    pub fn read(&mut self) -> Vec<PeerState> {
        let Some(remote) = &self.node.core.remote else { return Vec::new() };
        // Before the states: what changes in between is read again.
        self.seen = remote.version();
        remote.states()
    }

    /// Waits until there is something that was not read yet: at once, if something changed since
    /// the last [`read`](Self::read). It may be the same again. A node without a network, and one
    /// that has shut down, waits for ever: end a task that watches yourself. A `Peers` keeps its
    /// node alive, as a clone of it does.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn changed(&self) {
        match &self.node.core.remote {
            Some(remote) => drop(remote.changed(self.seen).await),
            None => std::future::pending().await,
        }
    }
}

impl Node {
    /// Returns the other nodes, as they are now and whenever they are read again.
    pub fn peers(&self) -> Peers {
        Peers { node: self.clone(), seen: 0 }
    }
}
