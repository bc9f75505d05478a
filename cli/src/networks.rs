//! The networks that a try is restricted to: one fabric, or one address of an RDMA device.

use ringpost::net::Network;
use ringpost::prelude::*;

/// An address of a machine that links over RDMA can use.
#[message]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rail {
    pub(crate) device: String,
    pub(crate) port: u8,
    pub(crate) gid_index: u32,
    /// Only addresses of the same kind reach each other.
    pub(crate) kind: String,
    pub(crate) address: String,
}

impl std::fmt::Display for Rail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Rail { device, port, gid_index, address, .. } = self;
        write!(f, "{device} port {port} GID {gid_index} ({address})")
    }
}

/// Returns the network of this machine with one fabric only; `None` where it has not that one.
pub(crate) fn only(fabric: &str) -> Option<Network> {
    let mut network = if fabric == "verbs" { Network::best() } else { Network::tcp() };
    network.fabrics.retain(|it| it.name() == fabric);
    (!network.fabrics.is_empty()).then_some(network)
}

/// Returns the addresses of this machine that links over RDMA can use, or why there is none.
#[cfg(feature = "verbs")]
pub(crate) fn rails() -> Result<Vec<Rail>, String> {
    use ringpost::net::{Survey, VerbsConfig};

    let survey = Survey::new(&VerbsConfig::default());
    let rails = survey.addresses().iter().map(|address| Rail {
        device: address.device.clone(),
        port: address.port,
        gid_index: address.gid_index,
        kind: address.kind.into(),
        address: address
            .gid
            .to_ipv4_mapped()
            .map_or_else(|| address.gid.to_string(), |v4| v4.to_string()),
    });
    let rails: Vec<Rail> = rails.collect();
    if rails.is_empty() {
        return Err(format!("no usable RDMA device: {}", survey.why_not()));
    }
    Ok(rails)
}

/// Returns why there is no address for RDMA.
#[cfg(not(feature = "verbs"))]
pub(crate) fn rails() -> Result<Vec<Rail>, String> {
    Err("this build has no feature `verbs`".into())
}

/// Returns a network that has one address of an RDMA device only.
///
/// # Errors
/// A sentence that says why the address cannot be used.
#[cfg(feature = "verbs")]
pub(crate) fn at(rail: &Rail) -> Result<Network, String> {
    use ringpost::net::{Entropy, VerbsConfig, VerbsFabric};

    let config = VerbsConfig {
        device: Some(rail.device.clone()),
        port: Some(rail.port),
        gid_index: Some(rail.gid_index),
        ..VerbsConfig::default()
    };
    let fabric = VerbsFabric::new(config, Entropy::os()).map_err(|why| why.to_string())?;
    Ok(Network::verbs_only(fabric))
}

/// Returns why there is no such network.
#[cfg(not(feature = "verbs"))]
pub(crate) fn at(rail: &Rail) -> Result<Network, String> {
    Err(format!("{rail} cannot be used: this build has no feature `verbs`"))
}
