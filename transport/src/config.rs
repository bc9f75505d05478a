//! What a node is started with.

use std::sync::Arc;

use crate::bootstrap::Secret;
use crate::entropy::Entropy;
use crate::fabric::Fabric;
use crate::fabric::tcp::{Doors, TcpFabric};
use crate::id::NodeName;
use crate::profile::Profile;
use crate::wire::{TcpWire, Wire};

/// What a node needs to be reached and to reach others.
#[derive(Debug, Clone)]
pub struct Config {
    /// Its name.
    pub name: NodeName,
    /// Where it listens, `host:port`; `None`: it only dials.
    pub listen: Option<String>,
    /// The addresses it tells its peers; empty: the one it listens on.
    pub advertise: Vec<String>,
    /// Addresses dialled from the start.
    pub seeds: Vec<String>,
    /// What all nodes of the cluster know. Without it, loopback only.
    pub secret: Option<Secret>,
    /// Sizes and windows.
    pub profile: Profile,
    /// Where its random numbers come from.
    pub entropy: Entropy,
    /// What it talks over.
    pub network: Network,
}

/// What a node talks over.
#[derive(Debug, Clone)]
pub struct Network {
    /// Where nodes meet.
    pub wire: Arc<dyn Wire>,
    /// What can carry links, best first.
    pub fabrics: Vec<Arc<dyn Fabric>>,
    /// Where the data connections of the tcp fabric arrive.
    pub doors: Doors,
}

impl Network {
    /// TCP for everything.
    pub fn tcp() -> Self {
        let doors = Doors::default();
        let wire = Arc::new(TcpWire);
        let fabric = Arc::new(TcpFabric::new(wire.clone(), doors.clone(), Entropy::os()));
        Network { wire, fabrics: vec![fabric], doors }
    }
}
