//! From a configuration to a node that listens.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::bootstrap::{ADDRESSES_MAX, Identity, Secret, Times, VERSIONS, feature};
use crate::config::Config;
use crate::host::Host;
use crate::id::{Incarnation, NodeId, NodeName};
use crate::limits;
use crate::log;
use crate::log_limiter::LogLimiter;
use crate::memory::Budget;
use crate::profile::InvalidProfile;
use crate::reach::LendingRoom;
use crate::shares::Shares;
use crate::wire::{Listener, is_service};

use super::address_policy::{AddressPolicy, is_host_and_port};
use super::event_queue::EventQueue;
use super::pinning;
use super::table::{Table, dial_permits};
use super::tasks::Tasks;

/// The cause for which a node cannot start.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A size or window that cannot work.
    #[error("the profile cannot work: {0}")]
    Profile(#[from] InvalidProfile),
    /// An address that is none.
    #[error("the {what} address `{address}` is not of the form host:port or [IPv6]:port")]
    Address {
        /// `listen`, `advertise` or `seed`.
        what: &'static str,
        /// The address that was given.
        address: String,
    },
    /// A seed is a service, and this build cannot look services up.
    #[error("the seed `{seed}` is a service: build with the cargo feature `srv` to look it up")]
    NoServices {
        /// The seed that was given.
        seed: String,
    },
    /// More addresses are advertised than peers are told.
    #[error("{count} addresses are advertised, but at most {max} can be", max = ADDRESSES_MAX)]
    TooManyAddresses {
        /// Number of addresses.
        count: usize,
    },
    /// More secrets are accepted than a node tries on a stranger.
    #[error("{count} secrets are accepted besides the node's own, but at most {max} can be",
        max = limits::SECRETS_ACCEPTED_MAX)]
    TooManySecrets {
        /// Number of secrets.
        count: usize,
    },
    /// There are secrets to accept, and none to dial with.
    #[error("secrets are accepted, but the node has none of its own to dial with: give it one")]
    OnlyAccepts,
    /// Links are to be encrypted, and the network has no fabric that does it.
    #[error("encryption is required, but the node's network has no fabric that encrypts")]
    NoEncryption,
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address that was given.
        address: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The system provides no thread, or not the resources for its runtime.
    #[error("cannot start the thread that keeps the node alive for others: {0}")]
    Thread(#[source] io::Error),
    /// The core that the profile names for the drivers of links cannot be had.
    #[error(
        "`pinned_to` of the profile is core {core}, but this process may run on {cores:?} only"
    )]
    Core {
        /// The core that was named.
        core: usize,
        /// The cores that there are for this process; none on systems other than Linux.
        cores: Vec<usize>,
    },
    /// The address can be reached from elsewhere, or is elsewhere, and there is nothing to keep
    /// strangers out.
    #[error("{address} is not a loopback address: give all nodes of the cluster the same `secret`")]
    NoSecret {
        /// The address that was listened on, or a seed.
        address: String,
    },
    /// Peers cannot dial the address that is listened on.
    #[error("{address} is not one address that peers could dial: name one with `advertise`")]
    NoAdvertise {
        /// The address that was listened on.
        address: String,
    },
}

crate::debug_by_display!(StartError);

/// Checks what can be checked before listening.
pub(crate) fn check(config: &Config) -> Result<(), StartError> {
    config.profile.validate()?;
    if let Some(core) = config.profile.pinned_to
        && !config.network.wire.is_simulated()
    {
        let cores = pinning::cores();
        if !cores.contains(&core) {
            return Err(StartError::Core { core, cores });
        }
    }
    let form = |what, addresses: &[String], port_needed| {
        let wrong = addresses.iter().find(|address| !is_host_and_port(address, port_needed));
        wrong.map_or(Ok(()), |address| Err(StartError::Address { what, address: address.clone() }))
    };
    form("listen", config.listen.as_slice(), false)?;
    form("advertise", &config.advertise, true)?;
    let (services, seeds): (Vec<_>, Vec<_>) =
        config.seeds.iter().cloned().partition(|seed| is_service(seed));
    if let (Some(seed), false) = (services.first(), cfg!(feature = "srv")) {
        return Err(StartError::NoServices { seed: seed.clone() });
    }
    form("seed", &seeds, true)?;
    // Where a name leads is looked at when it is dialled.
    let is_address = |seed: &&String| seed.parse::<SocketAddr>().is_ok();
    let mut elsewhere =
        seeds.iter().filter(is_address).filter(|seed| config.network.needs_secret(seed));
    if config.secret.is_none()
        && let Some(seed) = elsewhere.next()
    {
        return Err(StartError::NoSecret { address: seed.clone() });
    }
    if config.advertise.len() > ADDRESSES_MAX {
        return Err(StartError::TooManyAddresses { count: config.advertise.len() });
    }
    if !config.network.offers(config.encryption) {
        return Err(StartError::NoEncryption);
    }
    match config.also_accept.len() {
        count if count > limits::SECRETS_ACCEPTED_MAX => Err(StartError::TooManySecrets { count }),
        1.. if config.secret.is_none() => Err(StartError::OnlyAccepts),
        _ => Ok(()),
    }
}

/// Listens, if the node is to. Returns the addresses to tell peers, and the listener.
pub(super) async fn listen(
    config: &Config,
    tasks: &Tasks,
) -> Result<(Vec<String>, Option<Box<dyn Listener>>), StartError> {
    let Some(address) = &config.listen else { return Ok((config.advertise.clone(), None)) };
    let listener = tasks
        .own(config.network.wire.listen(address.clone()))
        .await
        .map_err(|source| StartError::Listen { address: address.clone(), source })?;
    let address = listener.local_address();
    if config.secret.is_none() && config.network.needs_secret(&address) {
        return Err(StartError::NoSecret { address });
    }
    if !config.advertise.is_empty() {
        return Ok((config.advertise.clone(), Some(listener)));
    }
    if address.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_unspecified()) {
        return Err(StartError::NoAdvertise { address });
    }
    Ok((vec![address], Some(listener)))
}

/// Logs what a node runs with.
pub(super) fn report(config: &Config, identity: &Identity) {
    let Config { seeds, encryption, profile, network, .. } = config;
    let fabrics: Vec<_> = network.fabrics.iter().map(|fabric| fabric.name()).collect();
    log::info!(
        node = %identity.node.name,
        run = identity.node.incarnation.to_string(),
        listen = config.listen.as_deref().unwrap_or("nowhere"),
        addresses = ?identity.addresses,
        ?seeds,
        ?fabrics,
        ?encryption,
        has_secret = config.secret.is_some(),
        heartbeat = ?profile.heartbeat_interval,
        down_after = ?profile.down_after,
        spin = ?profile.spin,
        pinned_to = ?profile.pinned_to,
        idle_close = profile.idle_close.map_or("never".into(), |idle| format!("{idle:?}")),
        "a node starts"
    );
}

/// Returns the table of a node that is starting, and the receiver of the names of wanted peers.
pub(super) fn table(
    config: &Config,
    addresses: Vec<String>,
    host: Arc<dyn Host>,
    tasks: Tasks,
) -> (Arc<Table>, mpsc::UnboundedReceiver<NodeName>) {
    let incarnation = Incarnation(config.entropy.u128());
    let profile = &config.profile;
    let identity = Identity {
        node: NodeId { name: config.name.clone(), incarnation },
        addresses,
        fabrics: Vec::new(),
        times: Times { heartbeat: profile.heartbeat_interval, down_after: profile.down_after },
        features: feature::ALL,
        versions: VERSIONS,
        key: Secret::key(config.secret.as_ref()),
        accepts: config.also_accept.iter().map(|secret| Secret::key(Some(secret))).collect(),
        entropy: config.entropy.clone(),
    };
    let (events, wants) = EventQueue::new(host, profile.down_after, config.metrics_by_peer);
    let table = Table {
        identity,
        profile: profile.clone(),
        linger: config.linger.min(limits::LINGER_MAX),
        network: config.network.clone(),
        encryption: config.encryption,
        secret: config.secret.is_some(),
        address_policy: AddressPolicy::new(&config.refused_addresses),
        events,
        budget: Arc::new(Budget::new(profile.ring_growth.bytes_max)),
        lending_room: LendingRoom::new(&profile.lending),
        tasks,
        shares: Shares::new(config.entropy.clone()),
        told_dials: dial_permits(),
        peers: Default::default(),
        sources: Default::default(),
        peer_warnings: LogLimiter::new(1),
    };
    (Arc::new(table), wants)
}
