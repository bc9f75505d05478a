//! The actor that speaks for a node process.

use ringpost::prelude::*;

/// The traffic of one link of a node, from the transport's own counters.
#[message]
pub(crate) struct Traffic {
    pub(crate) peer: String,
    pub(crate) messages_sent: u64,
    pub(crate) messages_received: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
}

/// One per node process.
#[actor]
pub(crate) struct Steward;

#[handlers]
impl Steward {
    /// Returns the traffic of the node's links, also of ended ones.
    #[handler]
    pub(crate) fn links(&self, cx: &mut Context<Self>) -> Vec<Traffic> {
        traffic(cx.node())
    }
}

/// Returns the traffic of each link of `node`.
pub(crate) fn traffic(node: &Node) -> Vec<Traffic> {
    let rows = node.links().into_iter().map(|(peer, stats)| Traffic {
        peer: peer.to_string(),
        messages_sent: stats.messages_sent,
        messages_received: stats.messages_received,
        bytes_sent: stats.bytes_sent,
        bytes_received: stats.bytes_received,
    });
    rows.collect()
}
