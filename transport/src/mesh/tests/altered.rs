//! A fabric that a test alters in one respect, over another fabric that does all else.

use std::fmt::Debug;

use futures::future::BoxFuture;
use zeroize::Zeroizing;

use super::*;
use crate::fabric::{
    Fabric, FabricError, Limits, Opening, PostError, Protection, QueuePair, QueuePairConfig,
};
use crate::memory::{Region, Slot};

/// The outcome of connecting a queue pair.
pub(super) type Connecting = BoxFuture<'static, Result<Box<dyn QueuePair>, FabricError>>;

/// An alteration of a fabric: the fabric below does everything that this does not define.
pub(super) trait Alteration: Clone + Debug + Send + Sync + 'static {
    fn name(&self, fabric: &dyn Fabric) -> &'static str {
        fabric.name()
    }

    fn changes(&self) -> u64 {
        0
    }

    fn alloc(&self, fabric: &dyn Fabric, bytes: usize) -> Result<Region, FabricError> {
        fabric.alloc(bytes)
    }

    /// Returns the alteration of one queue pair, which is opened with these demands.
    fn opened(self, _config: &QueuePairConfig) -> Self {
        self
    }

    fn ways(&self, opening: &dyn Opening, peer: &[u8]) -> Vec<u32> {
        opening.ways(peer)
    }

    fn connect(
        self,
        opening: Box<dyn Opening>,
        peer: Zeroizing<Vec<u8>>,
        way: usize,
    ) -> Connecting {
        opening.connect(peer, way)
    }
}

/// A fabric, altered.
#[derive(Debug)]
pub(super) struct Altered<A> {
    pub(super) fabric: Arc<dyn Fabric>,
    pub(super) by: A,
}

struct AlteredOpening<A> {
    opening: Box<dyn Opening>,
    by: A,
}

impl<A: Alteration> Fabric for Altered<A> {
    fn name(&self) -> &'static str {
        self.by.name(&*self.fabric)
    }

    fn protection(&self) -> Protection {
        self.fabric.protection()
    }

    fn limits(&self) -> Limits {
        self.fabric.limits()
    }

    fn changes(&self) -> u64 {
        self.by.changes()
    }

    fn alloc(&self, bytes: usize) -> Result<Region, FabricError> {
        self.by.alloc(&*self.fabric, bytes)
    }

    fn open(&self, config: QueuePairConfig) -> Result<Box<dyn Opening>, FabricError> {
        let by = self.by.clone().opened(&config);
        let opening = self.fabric.open(config)?;
        Ok(Box::new(AlteredOpening { opening, by }))
    }
}

impl<A: Alteration> Opening for AlteredOpening<A> {
    fn offer(&self) -> Zeroizing<Vec<u8>> {
        self.opening.offer()
    }

    fn post_recv(&mut self, slots: &mut Vec<Slot>) -> Result<(), PostError> {
        self.opening.post_recv(slots)
    }

    fn ways(&self, peer: &[u8]) -> Vec<u32> {
        self.by.ways(&*self.opening, peer)
    }

    fn connect(self: Box<Self>, peer: Zeroizing<Vec<u8>>, way: usize) -> Connecting {
        self.by.connect(self.opening, peer, way)
    }
}
