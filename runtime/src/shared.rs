//! The memory that a node offers, and the totals of its shares for its snapshot and its metrics.

use std::sync::Arc;

use parking_lot::Mutex;
use ringpost_transport::shield;

/// The active shares of a node's regions, and their bytes. Memory that is shared twice counts
/// twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SharedMemoryTotals {
    /// The number of shares.
    pub shares: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// Memory that a node gives to other nodes on request ([`Peer::region`](crate::Peer::region)), in
/// bytes; a region takes whole pages of 4 KiB. Offered by
/// [`Node::offer_memory`](crate::Node::offer_memory).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryOffer {
    /// The maximum that each node may have at a time.
    pub bytes_per_node: u64,
    /// The maximum that all nodes together may have.
    pub bytes: u64,
}

/// The totals of a node's shares, which its regions update.
#[derive(Clone, Default)]
pub(crate) struct ShareCounter(Arc<Mutex<SharedMemoryTotals>>);

/// A share that is counted in the totals until this is dropped.
pub(crate) struct CountedShare {
    totals: ShareCounter,
    bytes: u64,
}

impl ShareCounter {
    pub(crate) fn now(&self) -> SharedMemoryTotals {
        *self.0.lock()
    }

    pub(crate) fn count(&self, bytes: u64) -> CountedShare {
        {
            let mut totals = self.0.lock();
            totals.shares += 1;
            totals.bytes += bytes;
        }
        gauge(1.0, bytes as f64);
        CountedShare { totals: self.clone(), bytes }
    }
}

impl Drop for CountedShare {
    fn drop(&mut self) {
        {
            let mut totals = self.totals.0.lock();
            totals.shares -= 1;
            totals.bytes -= self.bytes;
        }
        gauge(-1.0, -(self.bytes as f64));
    }
}

fn gauge(shares: f64, bytes: f64) {
    shield::run(|| {
        metrics::gauge!("ringpost_region_shares").increment(shares);
        metrics::gauge!("ringpost_region_shared_bytes").increment(bytes);
    });
}

/// The kinds of operations that tasks of this node begin on regions of this or another node.
#[derive(Clone, Copy)]
pub(crate) enum RegionOperation {
    Read,
    Write,
    Atomic,
}

impl RegionOperation {
    /// Counts an operation when it begins.
    pub(crate) fn note(self) {
        // (All texts are literals, so that no key is allocated.)
        shield::run(|| {
            let counter = match self {
                RegionOperation::Read => {
                    metrics::counter!("ringpost_region_operations_total", "kind" => "read")
                }
                RegionOperation::Write => {
                    metrics::counter!("ringpost_region_operations_total", "kind" => "write")
                }
                RegionOperation::Atomic => {
                    metrics::counter!("ringpost_region_operations_total", "kind" => "atomic")
                }
            };
            counter.increment(1);
        });
    }
}
