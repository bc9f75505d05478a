//! How fast a path between two nodes is, and when it is next free.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fastrand::Rng;

use super::event::NodeId;

/// One direction between two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkModel {
    /// From leaving one node to reaching the other.
    pub latency: Duration,
    /// Up to this much is added to the latency, at random each time; the order is still kept.
    pub jitter: Duration,
    /// Bytes per second that all queue pairs and streams of this direction share; at least 1.
    pub bytes_per_second: u64,
    /// The time that each work request costs before its bytes leave.
    pub work_request: Duration,
    /// How long a sender tries before a frame that the peer does not take is an error. The seed may
    /// take up to four times as long.
    pub retry: Duration,
}

impl Default for LinkModel {
    /// A fabric of 100 Gb/s in one rack.
    fn default() -> Self {
        LinkModel {
            latency: Duration::from_nanos(1_500),
            jitter: Duration::from_nanos(700),
            bytes_per_second: 12_500_000_000,
            work_request: Duration::from_nanos(150),
            retry: Duration::from_millis(500),
        }
    }
}

/// All paths: their models, when each is next free, and which are cut.
#[derive(Debug, Default)]
pub(super) struct Links {
    usual: LinkModel,
    special: BTreeMap<(NodeId, NodeId), LinkModel>,
    busy_until: BTreeMap<(NodeId, NodeId), u64>,
    partitioned: BTreeSet<(NodeId, NodeId)>,
}

/// When something that was put on a path leaves and arrives, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passage {
    pub(super) departs: u64,
    pub(super) arrives: u64,
}

impl Links {
    /// Returns the model of one direction.
    pub(super) fn model(&self, from: NodeId, to: NodeId) -> LinkModel {
        self.special.get(&(from, to)).copied().unwrap_or(self.usual)
    }

    /// Sets the model of all directions that have none of their own.
    pub(super) fn set_usual(&mut self, model: LinkModel) {
        self.usual = model;
    }

    /// Sets the model of one direction.
    pub(super) fn set(&mut self, from: NodeId, to: NodeId, model: LinkModel) {
        self.special.insert((from, to), model);
    }

    /// Cuts or mends one direction.
    pub(super) fn set_partitioned(&mut self, from: NodeId, to: NodeId, cut: bool) {
        if cut {
            self.partitioned.insert((from, to));
        } else {
            self.partitioned.remove(&(from, to));
        }
    }

    /// Returns true if nothing passes in this direction.
    pub(super) fn partitioned(&self, from: NodeId, to: NodeId) -> bool {
        self.partitioned.contains(&(from, to))
    }

    /// Puts `bytes` on the path at `now`, behind the bytes that are on it already.
    pub(super) fn pass(
        &mut self,
        (from, to): (NodeId, NodeId),
        bytes: usize,
        now: u64,
        chance: &mut Rng,
    ) -> Passage {
        let model = self.model(from, to);
        let busy = self.busy_until.entry((from, to)).or_insert(0);
        let wire = bytes as u128 * 1_000_000_000 / u128::from(model.bytes_per_second.max(1));
        let departs = now.max(*busy) + nanos(model.work_request) + wire as u64;
        *busy = departs;
        let arrives = departs + nanos(model.latency) + chance.u64(0..=nanos(model.jitter));
        Passage { departs, arrives }
    }
}

/// Returns a duration in nanoseconds, at most some 584 years.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
