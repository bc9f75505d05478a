//! The view of a node at one moment: for people, and for programs that watch it.

use crate::address::Address;
use crate::mailbox::Depth;
use crate::node::Node;
use crate::remote::PeerView;

/// A node at one moment. Its parts are looked at one after the other, while the node goes on.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Snapshot {
    /// Other nodes: their links, and what senders wait for.
    pub peers: Vec<PeerView>,
    /// Bytes by which the receive rings and send slots of all links have grown: at most
    /// [`Profile::ring_growth_bytes_max`](crate::Profile::ring_growth_bytes_max). A ring that grew
    /// stays so while its link lives.
    pub ring_growth_bytes: u64,
    /// The actors of this node, the fullest mailbox first.
    pub actors: Vec<ActorView>,
}

/// An actor at one moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ActorView {
    /// The actor.
    pub address: Address,
    /// The messages that wait in its mailbox, and the senders that wait for it.
    pub mailbox: Depth,
}

impl Node {
    /// Returns what it looks like now. Takes a look at each actor and each link: not for every
    /// message.
    pub fn snapshot(&self) -> Snapshot {
        let actors = self.residents().all();
        let view = |actor: &std::sync::Arc<dyn crate::resident::Resident>| ActorView {
            address: actor.address().clone(),
            mailbox: actor.depth(),
        };
        let mut actors: Vec<ActorView> = actors.iter().map(view).collect();
        actors.sort_by_key(|actor| std::cmp::Reverse(actor.mailbox.local + actor.mailbox.remote));
        Snapshot { peers: self.peer_views(), ring_growth_bytes: self.ring_growth_bytes(), actors }
    }
}
