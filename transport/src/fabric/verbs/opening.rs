//! Queue pairs for frames that are not connected yet.

use std::io;

use futures::FutureExt;
use futures::future::BoxFuture;
use zeroize::Zeroizing;

use super::connected::Connected;
use super::ends::{Ends, Settings, report_connected};
use super::memory;
use super::offer::Offer;
use super::queue_pair::QueuePair;
use super::rail::Rail;
use crate::fabric::{self, FabricError, Opening, PostError, QueuePairConfig};
use crate::memory::Slot;

/// Queue pairs that are not connected. The receives wait here until a queue pair is chosen, and are
/// posted before it can be reached (PV-11).
pub(super) struct VerbsOpening {
    ends: Ends,
    recvs: Vec<Slot>,
    config: QueuePairConfig,
}

impl VerbsOpening {
    /// Makes a queue pair on each port of which an address is offered.
    ///
    /// # Errors
    /// See [`Ends::new`].
    pub(super) fn new(
        rails: &[Rail],
        config: QueuePairConfig,
        settings: Settings,
    ) -> Result<Self, FabricError> {
        let make = |rail: &Rail| QueuePair::new(rail.domain.clone(), rail.port, &config);
        let ends = Ends::new(rails, config.side.clone(), config.avoid.clone(), settings, make)?;
        let recvs = Vec::with_capacity(config.recv_queue as usize);
        Ok(VerbsOpening { ends, recvs, config })
    }

    /// Returns true if whichever of the queue pairs is chosen can use this memory (PV-1).
    fn reaches(&self, slot: &Slot) -> bool {
        self.ends.queue_pairs().all(|queue_pair| memory::is_of(queue_pair.domain(), slot))
    }

    fn connect(mut self, peer: &[u8], way: usize) -> Result<Connected, FabricError> {
        let log = self.ends.log().clone();
        let (mut queue_pair, path) = self.ends.choose(&Offer::decode(peer)?, way)?;
        let posted = self.recvs.len() as u32;
        for slot in &self.recvs {
            // With several devices this is where the memory is registered, and may be too much.
            memory::local_key(queue_pair.domain(), slot)?;
        }
        while !self.recvs.is_empty() {
            let count = self.recvs.len();
            queue_pair
                .post_recvs(&mut self.recvs, count)
                .map_err(|error| FabricError::Connect(io::Error::other(error)))?;
        }
        queue_pair.connect(&path)?;
        report_connected(&log, &queue_pair, &path);
        Connected::new(queue_pair, &self.config, posted, log).map_err(FabricError::Connect)
    }
}

impl Opening for VerbsOpening {
    fn offer(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.ends.offer().encode())
    }

    fn post_recv(&mut self, slots: &mut Vec<Slot>) -> Result<(), PostError> {
        let room = self.config.recv_queue as usize - self.recvs.len();
        let own = slots.iter().take_while(|slot| self.reaches(slot)).count();
        self.recvs.extend(slots.drain(..own.min(room)));
        if slots.is_empty() {
            Ok(())
        } else if own < room {
            Err(PostError::Foreign)
        } else {
            Err(PostError::Full)
        }
    }

    fn ways(&self, peer: &[u8]) -> Vec<u32> {
        Offer::decode(peer).map_or_else(|_| Vec::new(), |peer| self.ends.ways(&peer))
    }

    fn connect(
        self: Box<Self>,
        peer: Zeroizing<Vec<u8>>,
        way: usize,
    ) -> BoxFuture<'static, Result<Box<dyn fabric::QueuePair>, FabricError>> {
        // Registering memory takes its time, and resolving the peer's address up to a second, in
        // which the task's thread would stand still.
        let connecting = tokio::task::spawn_blocking(move || Self::connect(*self, &peer, way));
        async {
            let connected =
                connecting.await.map_err(|lost| FabricError::Connect(io::Error::other(lost)))??;
            Ok(Box::new(connected) as Box<dyn fabric::QueuePair>)
        }
        .boxed()
    }
}
