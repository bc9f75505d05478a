//! One-sided access that the device executes: one more queue pair of a link, over which each side
//! reads and writes the other's memory without the other's software. Safe code.
//!
//! Points that depend on the device:
//!
//! - A device says that a write is done when its peer's device has it (PV-14). The owner's threads
//!   know that it lies in the memory from a later notice (PV-17), the writer from the outcome of a
//!   later read or atomic operation.
//! - No standard says that a device copies aligned words whole (PV-15). Adapters do, as they move
//!   lines of the cache. rxe copies by the kernel's `memcpy`, which is a loop of words or the
//!   processor's own instruction: that moves words on processors, and single bytes where a machine
//!   is emulated by software. A torn word is a wrong number and no undefined value: [`Words`] are
//!   read as numbers.
//! - Atomic operations of all queue pairs of one device are atomic with each other (PV-16).
//! - The owner learns of a refusal (PV-18) from the device's event, or from receives that are
//!   flushed. rxe reports no event: there the owner needs a posted receive, and with
//!   [`notices`](OneSidedConfig::notices) of 0 learns of it when it posts.

mod connected;
mod offer;

use std::io;

use futures::FutureExt;
use futures::future::BoxFuture;
use zeroize::Zeroizing;

use self::connected::Connected;
use self::offer::OneSidedOffer;
use super::device::Reads;
use super::ends::{Ends, Settings, report_connected};
use super::queue_pair::QueuePair;
use super::rail::Rail;
use crate::fabric::one_sided::{OneSided, OneSidedConfig, Opening};
use crate::fabric::{FabricError, QueuePairConfig};
#[cfg(doc)]
use crate::memory::Words;

#[cfg(any(test, feature = "fuzz"))]
pub(super) use self::offer::OneSidedOffer as FuzzedOffer;

/// Queue pairs for one-sided access that are not connected.
pub(super) struct OneSidedOpening {
    ends: Ends,
    operations: u32,
    notices: u32,
    /// The reads that the ports offered can all do.
    reads: Reads,
    operation_bytes_max: u32,
}

impl OneSidedOpening {
    /// Makes a queue pair on each port of which an address is offered, on devices that can do all
    /// that one-sided access needs.
    ///
    /// # Errors
    /// [`FabricError::Device`] if no device can; otherwise see [`Ends::new`].
    pub(super) fn new(
        mut rails: Vec<Rail>,
        config: OneSidedConfig,
        settings: Settings,
    ) -> Result<Self, FabricError> {
        let names: Vec<_> = rails.iter().map(Rail::name).collect();
        rails.retain(|rail| rail.reads.is_some());
        let own = rails.iter().filter_map(|rail| rail.reads);
        let reads = own.reduce(|a, b| Reads { own: a.own.min(b.own), peers: a.peers.min(b.peers) });
        let Some(reads) = reads else {
            if names.is_empty() {
                return Err(FabricError::Offer("there is no port that could be used"));
            }
            let (call, device) = ("one-sided access", names.join(", "));
            let why = "it has no reads or no atomic operations of 64 bits";
            let source = io::Error::new(io::ErrorKind::Unsupported, why);
            return Err(FabricError::Device { call, device, source });
        };
        let lengths = rails.iter().map(|rail| rail.attributes.frame_bytes_max);
        let operation_bytes_max = lengths.min().unwrap_or(0);
        let OneSidedConfig { operations, notices, side, .. } = config;
        let operations = operations.max(1);
        let queues = QueuePairConfig {
            send_queue: operations,
            recv_queue: notices,
            inline_bytes: 0,
            rnr_retry: settings.tuning.rnr_retry,
            side: side.clone(),
            binding: Vec::new(),
            avoid: Vec::new(),
        };
        let make =
            |rail: &Rail| QueuePair::one_sided(rail.domain.device.clone(), rail.port, &queues);
        let ends = Ends::new(&rails, side, Vec::new(), settings, make)?;
        Ok(OneSidedOpening { ends, operations, notices, reads, operation_bytes_max })
    }

    fn connect(self, peer: &[u8], way: usize) -> Result<Connected, FabricError> {
        let log = self.ends.log().clone();
        let peer = OneSidedOffer::decode(peer)?;
        let (mut queue_pair, mut path) = self.ends.choose(&peer.offer, way)?;
        // PV-17: all places for notices are there before the peer can write.
        queue_pair
            .post_notices(self.notices)
            .map_err(|error| FabricError::Connect(io::Error::other(error)))?;
        path.reads = Some(Reads { own: peer.takes(self.reads.own), peers: self.reads.peers });
        queue_pair.connect(&path)?;
        report_connected(&log, &queue_pair, &path);
        let bounds = (self.operations, self.notices, self.operation_bytes_max);
        Connected::new(queue_pair, bounds, log).map_err(FabricError::Connect)
    }
}

impl Opening for OneSidedOpening {
    fn offer(&self) -> Zeroizing<Vec<u8>> {
        let offer = OneSidedOffer { reads: self.reads.peers, offer: self.ends.offer().clone() };
        Zeroizing::new(offer.encode())
    }

    fn ways(&self, peer: &[u8]) -> Vec<u32> {
        let peer = OneSidedOffer::decode(peer);
        peer.map_or_else(|_| Vec::new(), |peer| self.ends.ways(&peer.offer))
    }

    fn connect(
        self: Box<Self>,
        peer: Zeroizing<Vec<u8>>,
        way: usize,
    ) -> BoxFuture<'static, Result<Box<dyn OneSided>, FabricError>> {
        // Resolving the peer's address takes up to a second: a thread that may block polls this.
        async move { Ok(Box::new(Self::connect(*self, &peer, way)?) as Box<dyn OneSided>) }.boxed()
    }
}
