//! Snapshots of peers.

use tokio::time::Instant;

use crate::cause::{LinkCause, NodeDownCause};
use crate::host::PeerEvent;
use crate::id::{NodeId, NodeName};
use crate::link::{LinkStats, LinkView};

/// The state of a node that is linked, or was.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerState {
    /// The node: the last run of it that was linked.
    pub node: NodeId,
    /// Its state.
    pub status: PeerStatus,
    /// Time since which it is linked, not linked, or down.
    pub since: Instant,
}

/// The state of a link to a node, or of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerStatus {
    /// It is linked.
    Linked {
        /// The fabric that carries the link.
        fabric: &'static str,
        /// True if the node is shutting down: it takes no new asks.
        leaving: bool,
    },
    /// Its link ended, and it is not down yet.
    Unlinked {
        /// The cause of the link's end.
        cause: LinkCause,
    },
    /// It is down.
    Down {
        /// The cause for which it is down.
        cause: NodeDownCause,
    },
}

impl PeerState {
    /// Returns the state after `event`, which is of the same peer.
    pub(super) fn after(earlier: Option<PeerState>, event: &PeerEvent) -> Option<PeerState> {
        let (node, status) = match event {
            PeerEvent::LinkUp { peer, fabric } => {
                (peer, PeerStatus::Linked { fabric, leaving: false })
            }
            PeerEvent::LinkDown { peer, cause } => {
                (peer, PeerStatus::Unlinked { cause: cause.clone() })
            }
            PeerEvent::NodeDown { peer, cause } => {
                (peer, PeerStatus::Down { cause: cause.clone() })
            }
            PeerEvent::NodeLeaving { .. } => {
                return earlier.map(|mut state| {
                    if let PeerStatus::Linked { leaving, .. } = &mut state.status {
                        *leaving = true;
                    }
                    state
                });
            }
            PeerEvent::Paused { .. } | PeerEvent::Refused { .. } => return earlier,
        };
        Some(PeerState { node: node.clone(), status, since: Instant::now() })
    }
}

/// A snapshot of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerView {
    /// Its name.
    pub name: NodeName,
    /// Its run, unless it was never linked or is down.
    pub run: Option<NodeId>,
    /// Counts of everything its links have carried, including ended links.
    pub carried: LinkStats,
    /// Its link.
    pub link: Option<LinkView>,
    /// The senders that wait for a link, where there is none.
    pub unlinked: Option<Unlinked>,
}

/// A peer without a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlinked {
    /// Senders that wait for a link.
    pub senders: usize,
    /// The outcome of the last attempt to reach it, in words.
    pub last: String,
}
