//! What a peer looks like at one moment.

use crate::id::{NodeId, NodeName};
use crate::link::{LinkStats, LinkView};

/// What a peer looks like at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerView {
    /// Its name.
    pub name: NodeName,
    /// Its run, unless it was never linked or is down.
    pub run: Option<NodeId>,
    /// What its links have carried, those that ended included.
    pub carried: LinkStats,
    /// Its link.
    pub link: Option<LinkView>,
    /// Without a link: who waits for one.
    pub unlinked: Option<Unlinked>,
}

/// A peer without a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlinked {
    /// Senders that wait for a link.
    pub senders: usize,
    /// What the last attempt to reach it met.
    pub last: String,
}
