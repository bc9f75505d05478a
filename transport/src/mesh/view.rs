//! Snapshots of peers.

use crate::id::{NodeId, NodeName};
use crate::link::{LinkStats, LinkView};

/// A snapshot of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerView {
    /// Its name.
    pub name: NodeName,
    /// Its run, unless it was never linked or is down.
    pub run: Option<NodeId>,
    /// Counts of what its links have carried, those that ended included.
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
