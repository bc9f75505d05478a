//! Verbs semantics framed on a TCP stream.

use std::sync::Arc;

use super::{Fabric, FabricError, Limits, Opening, QueuePairConfig};
use crate::entropy::Entropy;
use crate::memory::Region;
use crate::wire::Wire;

/// Where incoming data connections meet the queue pairs that wait for them, by token.
#[derive(Clone, Debug, Default)]
pub struct Doors {}

impl Doors {
    /// Hands an accepted data connection to the queue pair that offered `token`; drops the
    /// connection when there is none.
    pub(crate) fn admit(&self, _token: u128, _stream: tokio::net::TcpStream) {
        unimplemented!()
    }
}

/// The tcp fabric.
#[derive(Debug)]
pub struct TcpFabric {}

impl TcpFabric {
    /// A fabric that dials over `wire` and waits at `doors`.
    pub fn new(_wire: Arc<dyn Wire>, _doors: Doors, _entropy: Entropy) -> Self {
        TcpFabric {}
    }
}

impl Fabric for TcpFabric {
    fn name(&self) -> &'static str {
        "tcp"
    }
    fn limits(&self) -> Limits {
        unimplemented!()
    }
    fn alloc(&self, _bytes: usize) -> Result<Region, FabricError> {
        unimplemented!()
    }
    fn open(&self, _config: QueuePairConfig) -> Result<Box<dyn Opening>, FabricError> {
        unimplemented!()
    }
}
