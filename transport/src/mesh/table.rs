//! A node's peers, and what its tasks share.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::bootstrap::{Identity, Message};
use crate::config::Network;
use crate::id::NodeName;
use crate::profile::Profile;

use super::board::Board;
use super::peer::Peer;
use super::tasks::Tasks;

/// A node's peers, and what its tasks share.
pub(super) struct Table {
    pub(super) identity: Identity,
    pub(super) profile: Profile,
    pub(super) network: Network,
    /// Whether there is a secret. Without one only loopback is dialled.
    pub(super) secret: bool,
    pub(super) board: Arc<Board>,
    pub(super) tasks: Tasks,
    pub(super) peers: Mutex<BTreeMap<NodeName, Arc<Peer>>>,
    /// Seeds at which no node has proved itself yet, by address: what the last dial met.
    pub(super) unmet: Mutex<BTreeMap<String, String>>,
}

impl Table {
    /// The peer of this name; made when it was never heard of.
    pub(super) fn peer(&self, name: &NodeName) -> Arc<Peer> {
        let mut peers = self.peers.lock();
        if let Some(peer) = peers.get(name) {
            return peer.clone();
        }
        let peer = Arc::new(Peer::new(name.clone(), self.board.clone()));
        peers.insert(name.clone(), peer.clone());
        peer
    }

    /// All peers, by name.
    pub(super) fn all(&self) -> Vec<Arc<Peer>> {
        self.peers.lock().values().cloned().collect()
    }

    /// Asks all linked peers where `name` can be dialled.
    pub(super) fn ask_for(&self, name: &NodeName) {
        for peer in self.all() {
            peer.send(Message::WhoIs(name.clone()));
        }
    }

    /// What this node knows about where `name` can be dialled; none when it does not.
    pub(super) fn addresses_of(&self, name: &NodeName) -> Vec<String> {
        if *name == self.identity.node.name {
            return self.identity.addresses.clone();
        }
        let peer = self.peers.lock().get(name).cloned();
        peer.map(|peer| peer.addresses()).unwrap_or_default()
    }

    /// A peer says where `name` can be dialled. Used only for peers that someone here asked about.
    pub(super) fn learn(&self, name: &NodeName, addresses: Vec<String>) {
        let peer = self.peers.lock().get(name).cloned();
        if let Some(peer) = peer.filter(|_| !addresses.is_empty()) {
            peer.learn(addresses);
        }
    }

    /// What a dial of a seed met at which no node has proved itself yet. Whether it is news.
    pub(super) fn note_unmet(&self, address: &str, failure: &str) -> bool {
        let earlier = self.unmet.lock().insert(address.into(), failure.into());
        earlier.as_deref() != Some(failure)
    }

    /// Why no address of a peer is known, and what can be done: seeds that fail are the likely
    /// cause.
    pub(super) fn why_unknown(&self) -> String {
        let unmet = self.unmet.lock();
        if unmet.is_empty() {
            return "no address is known: add it to the seeds".into();
        }
        let failures = unmet.iter().map(|(address, failure)| format!("{address}: {failure}"));
        format!(
            "no address is known; seeds not reached: {}",
            failures.collect::<Vec<_>>().join("; ")
        )
    }
}
