//! Metrics of links, by the `metrics` facade: counted where they happen, published once a second,
//! so that a hot path never looks a metric up. Where no recorder is installed nothing is kept.

use std::sync::Arc;

use crate::cause::LinkCause;
use crate::host::PeerEvent;
use crate::id::NodeName;
use crate::link::{LinkHandle, LinkStats};

/// Publishes what one link carries.
pub(super) struct Meter {
    link: Arc<LinkHandle>,
    peer: String,
    published: LinkStats,
}

impl Meter {
    pub(super) fn new(peer: &NodeName, link: Arc<LinkHandle>) -> Self {
        Meter { link, peer: peer.to_string(), published: LinkStats::default() }
    }

    /// Adds what was carried since the last time.
    pub(super) fn publish(&mut self) {
        let stats = self.link.stats();
        for ((name, now), (_, before)) in stats.metrics().zip(self.published.metrics()) {
            if now > before {
                let labels = [("peer", self.peer.clone()), ("fabric", self.link.fabric().into())];
                metrics::counter!(name, &labels).increment(now - before);
            }
        }
        self.published = stats;
    }
}

/// Counts links and nodes that come and go.
pub(super) fn count(event: &PeerEvent) {
    match event {
        PeerEvent::LinkUp { peer, fabric } => {
            let labels = [("peer", peer.name.to_string()), ("fabric", (*fabric).into())];
            metrics::counter!("ringpost_links_up_total", &labels).increment(1);
        }
        PeerEvent::LinkDown { peer, cause } => {
            let labels = [("peer", peer.name.to_string()), ("cause", label(cause).into())];
            metrics::counter!("ringpost_links_down_total", &labels).increment(1);
        }
        PeerEvent::NodeDown { peer, .. } => {
            let labels = [("peer", peer.name.to_string())];
            metrics::counter!("ringpost_nodes_down_total", &labels).increment(1);
        }
    }
}

/// Counts a dial that is over, or became a link.
pub(super) fn count_dial(outcome: &'static str) {
    metrics::counter!("ringpost_dials_total", "outcome" => outcome).increment(1);
}

/// Counts an accepted connection that came to nothing.
pub(super) fn count_refusal(cause: &'static str) {
    metrics::counter!("ringpost_refused_connections_total", "cause" => cause).increment(1);
}

/// Returns a cause in a word: few enough to tell series apart by.
fn label(cause: &LinkCause) -> &'static str {
    match cause {
        LinkCause::Left => "left",
        LinkCause::Shutdown => "shutdown",
        LinkCause::Closed => "closed",
        LinkCause::Silent => "silent",
        LinkCause::Failed => "failed",
        LinkCause::Fabric(_) => "fabric",
        LinkCause::Violation(_) => "violation",
        LinkCause::PeerRestarted => "restarted",
        LinkCause::Replaced => "replaced",
    }
}
