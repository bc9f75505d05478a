//! The settings that a node is started with.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::bootstrap::Secret;
use crate::entropy::Entropy;
use crate::fabric::tcp::{Doors, TcpFabric};
#[cfg(feature = "verbs")]
use crate::fabric::verbs::{VerbsConfig, VerbsFabric};
use crate::fabric::{Fabric, Protection};
use crate::id::NodeName;
use crate::ip_network::IpNetwork;
use crate::log;
use crate::profile::Profile;
use crate::wire::{TcpWire, Wire};

/// The settings that a node needs to be reached and to reach others.
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
    /// The secret that all nodes of the cluster know. Without it, loopback only.
    pub secret: Option<Secret>,
    /// Secrets that others may dial it with besides: at most `SECRETS_ACCEPTED_MAX`.
    pub also_accept: Vec<Secret>,
    /// Addresses that it does not dial because a peer names them, beside those at which no node can
    /// be.
    pub refused_addresses: Vec<IpNetwork>,
    /// Which links are encrypted.
    pub encryption: Encryption,
    /// Sizes and windows.
    pub profile: Profile,
    /// How long dropping the last handle without a shutdown blocks its thread until committed
    /// messages have arrived: up to a minute; zero does not wait. It works only where other threads
    /// drive the links: not on a runtime of one thread.
    pub linger: Duration,
    /// Metrics of links have the label `peer`: a series for each peer.
    pub metrics_by_peer: bool,
    /// Where its random numbers come from.
    pub entropy: Entropy,
    /// The network it talks over.
    pub network: Network,
}

/// Which links are encrypted and authenticated on their way. Where two nodes meet they always prove
/// themselves; this is about the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encryption {
    /// All: a peer that does not encrypt is refused, on loopback and with RDMA, too.
    Required,
    /// Links over TCP to another machine. Links on loopback stay in plain, and so do links over
    /// RDMA, which no fabric encrypts.
    #[default]
    Default,
    /// None, unless the peer insists: for a network that is protected in another way.
    Off,
}

/// The network that a node talks over.
#[derive(Debug, Clone)]
pub struct Network {
    /// Where nodes meet.
    pub wire: Arc<dyn Wire>,
    /// The fabrics that can carry links, best first.
    pub fabrics: Vec<Arc<dyn Fabric>>,
    /// Where the data connections of the tcp fabric arrive.
    pub doors: Doors,
}

impl Network {
    /// Returns the fabrics that may carry a link to a peer that is met at `address`, best first. A
    /// node names these on the connection, and uses no other on it.
    pub(crate) fn usable(&self, encryption: Encryption, address: &str) -> Vec<Arc<dyn Fabric>> {
        let usable = |fabric: &&Arc<dyn Fabric>| match (encryption, fabric.protection()) {
            (_, Protection::Encrypted) | (Encryption::Off, _) => true,
            (Encryption::Required, _) => false,
            (Encryption::Default, Protection::Network) => true,
            (Encryption::Default, Protection::None) => is_loopback(address),
        };
        self.fabrics.iter().filter(usable).cloned().collect()
    }

    /// Returns true if only a node with a secret may listen at `address`, or dial it: wherever it
    /// is not known to be loopback. A simulated network is one process.
    pub(crate) fn needs_secret(&self, address: &str) -> bool {
        !self.wire.is_simulated() && !is_loopback(address)
    }

    /// Returns true unless encryption is required and no fabric encrypts.
    pub(crate) fn offers(&self, encryption: Encryption) -> bool {
        let encrypts = |fabric: &Arc<dyn Fabric>| fabric.protection() == Protection::Encrypted;
        encryption != Encryption::Required || self.fabrics.iter().any(encrypts)
    }

    /// Returns the best network that this build and machine have: RDMA, if the feature `verbs` is
    /// built in and there is a usable device, and TCP. Logs the devices, or why there is only TCP.
    pub fn best() -> Self {
        #[cfg(feature = "verbs")]
        match VerbsFabric::new(VerbsConfig::default(), Entropy::os()) {
            Ok(verbs) => return Network::tcp().with_verbs(verbs),
            Err(why) => log::info!(%why, "links use tcp"),
        }
        #[cfg(not(feature = "verbs"))]
        log::debug!("links use tcp: this build has no feature `verbs`");
        Network::tcp()
    }

    /// This, with RDMA tried first and the rest for peers that cannot be reached by it.
    #[cfg(feature = "verbs")]
    pub fn with_verbs(mut self, verbs: VerbsFabric) -> Self {
        log::info!(devices = ?verbs.devices(), "links use verbs where the peer does, too");
        self.fabrics.insert(0, Arc::new(verbs));
        self
    }

    /// Returns a network of RDMA alone: a peer that cannot be reached by it is refused. Nodes still
    /// meet over TCP.
    #[cfg(feature = "verbs")]
    pub fn verbs_only(verbs: VerbsFabric) -> Self {
        log::info!(devices = ?verbs.devices(), "links use verbs, and nothing else");
        Network { fabrics: vec![Arc::new(verbs)], ..Network::tcp() }
    }

    /// TCP for everything, encrypted or in plain as [`Encryption`] says.
    pub fn tcp() -> Self {
        let doors = Doors::default();
        let wire = Arc::new(TcpWire);
        let plain = TcpFabric::new(wire.clone(), doors.clone(), Entropy::os());
        let sealed = TcpFabric::sealed(wire.clone(), doors.clone(), Entropy::os());
        Network { wire, fabrics: vec![Arc::new(plain), Arc::new(sealed)], doors }
    }
}

/// Returns true if `address` is a loopback IP address with a port. Returns false for a name or a
/// place of a simulated network: it is not known where they lead.
fn is_loopback(address: &str) -> bool {
    let address = address.parse::<SocketAddr>();
    address.is_ok_and(|address| address.ip().to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_to_be_loopback_needs_a_secret_and_encryption() {
        let network = Network::tcp();
        for (address, loopback) in [
            ("127.0.0.1:7", true),
            ("[::1]:7", true),
            ("[::ffff:127.0.0.1]:7", true),
            ("192.0.2.1:7", false),
            ("[::ffff:192.0.2.1]:7", false),
            ("localhost:7", false),
            ("/run/a.socket", false),
        ] {
            assert_eq!(network.needs_secret(address), !loopback, "{address}");
            let fabrics = network.usable(Encryption::Default, address);
            let plain = fabrics.iter().any(|fabric| fabric.protection() == Protection::None);
            assert_eq!(plain, loopback, "{address}");
        }
    }
}
