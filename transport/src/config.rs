//! What a node is started with.

use std::sync::Arc;

use crate::bootstrap::Secret;
use crate::entropy::Entropy;
use crate::fabric::Fabric;
use crate::fabric::tcp::{Doors, TcpFabric};
#[cfg(feature = "verbs")]
use crate::fabric::verbs::{VerbsConfig, VerbsFabric};
use crate::id::NodeName;
use crate::ip_network::IpNetwork;
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
    /// Secrets that others may dial it with besides: at most `SECRETS_ACCEPTED_MAX`.
    pub also_accept: Vec<Secret>,
    /// Addresses that it does not dial because a peer names them, beside those at which no node can
    /// be.
    pub refused_addresses: Vec<IpNetwork>,
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
    /// The best that this build and this machine have: RDMA, where the feature `verbs` is built in
    /// and there is a usable device, and TCP. Says in the log what it found, or why there is only
    /// TCP.
    pub fn best() -> Self {
        #[cfg(feature = "verbs")]
        match VerbsFabric::new(VerbsConfig::default(), Entropy::os()) {
            Ok(verbs) => return Network::tcp().with_verbs(verbs),
            Err(why) => tracing::info!(%why, "links use tcp"),
        }
        #[cfg(not(feature = "verbs"))]
        tracing::debug!("links use tcp: this build has no feature `verbs`");
        Network::tcp()
    }

    /// This, with RDMA tried first and the rest for peers that cannot be reached by it.
    #[cfg(feature = "verbs")]
    pub fn with_verbs(mut self, verbs: VerbsFabric) -> Self {
        tracing::info!(devices = ?verbs.devices(), "links use verbs where the peer does, too");
        self.fabrics.insert(0, Arc::new(verbs));
        self
    }

    /// RDMA or nothing: a peer that cannot be reached by it is refused. Nodes meet over TCP all the
    /// same.
    #[cfg(feature = "verbs")]
    pub fn verbs_only(verbs: VerbsFabric) -> Self {
        tracing::info!(devices = ?verbs.devices(), "links use verbs, and nothing else");
        Network { fabrics: vec![Arc::new(verbs)], ..Network::tcp() }
    }

    /// TCP for everything.
    pub fn tcp() -> Self {
        let doors = Doors::default();
        let wire = Arc::new(TcpWire);
        let fabric = Arc::new(TcpFabric::new(wire.clone(), doors.clone(), Entropy::os()));
        Network { wire, fabrics: vec![fabric], doors }
    }
}
