//! A fabric over another one, whose queue pairs for one-sided access are changed.

use std::fmt;

use futures::FutureExt;
use futures::future::BoxFuture;
use zeroize::Zeroizing;

use super::*;
use crate::fabric::one_sided::{OneSided, OneSidedConfig, Opening};
use crate::fabric::{self, Fabric, FabricError, Limits, Protection, QueuePairConfig, Spins};
use crate::memory::Region;

/// A function that makes another queue pair of one of the fabric below.
pub(super) type Change = Arc<dyn Fn(Box<dyn OneSided>) -> Box<dyn OneSided> + Send + Sync>;

/// The fabric.
pub(super) struct Over {
    pub(super) name: &'static str,
    pub(super) below: Arc<dyn Fabric>,
    /// Number of operations below for each operation that the node has room for.
    pub(super) operations: u32,
    pub(super) change: Change,
}

impl fmt::Debug for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} over {:?}", self.name, self.below)
    }
}

impl Fabric for Over {
    fn name(&self) -> &'static str {
        self.name
    }

    fn protection(&self) -> Protection {
        self.below.protection()
    }

    fn limits(&self) -> Limits {
        self.below.limits()
    }

    fn spins(&self) -> Spins {
        self.below.spins()
    }

    fn alloc(&self, bytes: usize) -> Result<Region, FabricError> {
        self.below.alloc(bytes)
    }

    fn open(&self, config: QueuePairConfig) -> Result<Box<dyn fabric::Opening>, FabricError> {
        self.below.open(config)
    }

    fn open_one_sided(&self, config: OneSidedConfig) -> Result<Box<dyn Opening>, FabricError> {
        let operations = self.operations * config.operations;
        let opening = self.below.open_one_sided(OneSidedConfig { operations, ..config })?;
        Ok(Box::new(OpeningOver { opening, change: self.change.clone() }))
    }
}

struct OpeningOver {
    opening: Box<dyn Opening>,
    change: Change,
}

impl Opening for OpeningOver {
    fn offer(&self) -> Zeroizing<Vec<u8>> {
        self.opening.offer()
    }

    fn ways(&self, peer: &[u8]) -> Vec<u32> {
        self.opening.ways(peer)
    }

    fn connect(
        self: Box<Self>,
        peer: Zeroizing<Vec<u8>>,
        way: usize,
    ) -> BoxFuture<'static, Result<Box<dyn OneSided>, FabricError>> {
        let OpeningOver { opening, change } = *self;
        let connecting = opening.connect(peer, way);
        async move { Ok(change(connecting.await?)) }.boxed()
    }
}
