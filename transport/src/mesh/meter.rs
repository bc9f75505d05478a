//! Metrics of links, by the `metrics` facade: counted where they happen, published at each look at
//! the link, so that a hot path never looks a metric up. Where no recorder is installed nothing is
//! kept.

use std::sync::Arc;
use std::time::Duration;

use metrics::{Gauge, Label};

use crate::cause::{LinkCause, NodeDownCause};
use crate::fabric::Status;
use crate::host::PeerEvent;
use crate::id::{NodeId, NodeName};
use crate::link::{LinkHandle, LinkStats};
use crate::shield;

/// Publishes what one link carries.
pub(super) struct Meter {
    link: Arc<LinkHandle>,
    labels: Vec<Label>,
    published: LinkStats,
    /// Here to be dropped with it.
    _gauged: Gauged,
}

impl Meter {
    /// Returns the meter of a link to `peer`, whose name is a label only where it is given. The
    /// peer used a secret that this node only accepts if `by_other_secret`.
    pub(super) fn new(
        peer: Option<&NodeName>,
        link: Arc<LinkHandle>,
        by_other_secret: bool,
    ) -> Self {
        let labels = labels(peer, &[("fabric", link.fabric())]);
        let secret = if by_other_secret { "accepted" } else { "own" };
        let fabric = link.fabric();
        let gauge = shield::run(
            || metrics::gauge!("ringpost_links", "fabric" => fabric, "secret" => secret),
        );
        let gauged = Gauged::new(gauge);
        Meter { link, labels, published: LinkStats::default(), _gauged: gauged }
    }

    /// Records how long the peer took to answer a heartbeat.
    pub(super) fn answered(&self, after: Duration) {
        let name = "ringpost_heartbeat_round_trip_seconds";
        let labels = self.labels.clone();
        shield::run(|| metrics::histogram!(name, labels).record(after.as_secs_f64()));
    }

    /// Adds the counts since the last call to the metrics.
    pub(super) fn publish(&mut self) {
        let stats = self.link.stats();
        for ((name, now), (_, before)) in stats.metrics().zip(self.published.metrics()) {
            if now > before {
                let labels = self.labels.clone();
                shield::run(|| metrics::counter!(name, labels).increment(now - before));
            }
        }
        self.published = stats;
    }
}

/// One of what a gauge counts, until it is dropped.
pub(super) struct Gauged(Option<Gauge>);

impl Gauged {
    fn new(gauge: Option<Gauge>) -> Self {
        Gauged(shield::run(|| gauge.inspect(|gauge| gauge.increment(1.0))).flatten())
    }
}

impl Drop for Gauged {
    fn drop(&mut self) {
        if let Some(gauge) = self.0.take() {
            shield::run(move || gauge.decrement(1.0));
        }
    }
}

/// Counts a connection that has not proved itself yet.
pub(super) fn unproven() -> Gauged {
    Gauged::new(shield::run(|| metrics::gauge!("ringpost_unproven_connections")))
}

/// Publishes how many other nodes are linked, and how many are not down.
pub(super) fn count_nodes(linked: usize, alive: usize) {
    shield::run(|| {
        metrics::gauge!("ringpost_nodes_linked").set(linked as f64);
        metrics::gauge!("ringpost_nodes_alive").set(alive as f64);
    });
}

/// Returns these labels, after a label of the peer if that is given: each peer is then a series.
fn labels(peer: Option<&NodeName>, others: &[(&'static str, &'static str)]) -> Vec<Label> {
    let peer = peer.map(|peer| Label::new("peer", peer.to_string()));
    let others = others.iter().map(|(name, value)| Label::new(*name, *value));
    peer.into_iter().chain(others).collect()
}

/// Counts links and nodes that come and go; `by_peer`: each peer apart.
pub(super) fn count(event: &PeerEvent, by_peer: bool) {
    let labels = |peer: &NodeId, others: &[_]| labels(by_peer.then_some(&peer.name), others);
    shield::run(|| match event {
        PeerEvent::LinkUp { peer, fabric } => {
            let labels = labels(peer, &[("fabric", fabric)]);
            metrics::counter!("ringpost_links_up_total", labels).increment(1);
        }
        PeerEvent::LinkDown { peer, cause } => {
            let labels = labels(peer, &[("cause", label(cause))]);
            metrics::counter!("ringpost_links_down_total", labels).increment(1);
        }
        PeerEvent::NodeLeaving { .. } | PeerEvent::Refused { .. } => {}
        PeerEvent::Paused { .. } => metrics::counter!("ringpost_pauses_total").increment(1),
        PeerEvent::NodeDown { peer, cause } => {
            let labels = labels(peer, &[("cause", down_label(cause))]);
            metrics::counter!("ringpost_nodes_down_total", labels).increment(1);
        }
    });
}

/// Counts a dial that is over, or became a link.
pub(super) fn count_dial(outcome: &'static str) {
    shield::run(|| metrics::counter!("ringpost_dials_total", "outcome" => outcome).increment(1));
}

/// Counts an accepted connection that came to nothing.
pub(super) fn count_refusal(cause: &'static str) {
    let total = "ringpost_refused_connections_total";
    shield::run(|| metrics::counter!(total, "cause" => cause).increment(1));
}

/// Returns a cause in a word: few enough to tell series apart by.
fn label(cause: &LinkCause) -> &'static str {
    match cause {
        LinkCause::Left => "left",
        LinkCause::Idle => "idle",
        LinkCause::Better => "better",
        LinkCause::Disconnected => "disconnected",
        LinkCause::Shutdown => "shutdown",
        LinkCause::Closed => "closed",
        LinkCause::Silent => "silent",
        LinkCause::Failed => "failed",
        LinkCause::Fabric(Status::Corrupt) => "corrupt",
        LinkCause::Fabric(_) => "fabric",
        LinkCause::Violation(_) => "violation",
        LinkCause::PeerRestarted => "restarted",
        LinkCause::Replaced => "replaced",
    }
}

/// As [`label`], of a node.
fn down_label(cause: &NodeDownCause) -> &'static str {
    match cause {
        NodeDownCause::Left => "left",
        NodeDownCause::Disconnected => "disconnected",
        NodeDownCause::Restarted => "restarted",
        NodeDownCause::Gone { .. } => "gone",
        NodeDownCause::Refused(_) => "refused",
        NodeDownCause::Silent { .. } => "silent",
        NodeDownCause::Shutdown => "shutdown",
        NodeDownCause::Failed => "failed",
    }
}
