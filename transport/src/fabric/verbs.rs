//! Queue pairs of RDMA devices: InfiniBand, RoCE v2, SoftRoCE, by libibverbs. The only code that
//! names its crate.
//!
//! A fabric has one protection domain for each device; a link has one queue pair, with a completion
//! queue and a channel of its own. Only classic verbs are called: the extended ones of the crate
//! find no provider. Addresses are paired as `verbs/offer.rs` says.
//!
//! - **VB-1 parents**: a thing made of another keeps that alive: queue pair, completion queue,
//!   channel, and registration, protection domain, device are given back in this order.
//! - **VB-2 registration**: a region is one slab, registered once with each domain that uses it,
//!   from then on as long as it is mapped, for local writing only. Queue pairs grant peers no
//!   access at all.
//! - **VB-3 outstanding**: a slot that was posted belongs to its queue pair until the device
//!   completed the work request or the queue pair is destroyed; if neither can be had, for ever.
//!   Callers are held to it by ownership (PV-2); between the parts here it is kept by the order in
//!   which one value drops its fields, and by counted references, and tested in every order.
//! - **VB-4 numbers of C** are integers here. One that this build does not know is an error, never
//!   an enum without that value; the layouts of what both sides share are checked by a test.
//! - **VB-5 device events** end the queue pairs concerned, with a cause, whichever task reads them.
//! - **VB-6 ends**: the first error destroys the queue pair, after what the device had completed
//!   was taken; the rest is flushed here. So nothing waits for a device to flush.
//! - **VB-7 deviations** of rxe are listed in `docs/ARCHITECTURE.md`. Two are seen here: a receive
//!   that is too small is a malformed one to it, and the sender is told of an operation that
//!   failed. Both numbers mean PV-6 here, since what this fabric posts is well-formed. It tries for
//!   ever where 7 times are asked for, so 6 is the default.
//! - **VB-8 forks**: a child that is forked and executes another program, as
//!   `std::process::Command` has it, disturbs no link, however long it takes. A child that goes on
//!   in this program must use nothing of this fabric: what it has are copies.

mod completions;
mod connected;
mod device;
mod events;
mod events_fd;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
mod ledger;
mod machine;
mod memory;
mod offer;
mod partition;
mod posting;
mod queue_pair;
mod rail;
mod survey;
mod vectors;

#[cfg(test)]
mod layout;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::Instant;
use zeroize::Zeroizing;

use self::connected::Connected;
use self::memory::{Domain, PageKind};
use self::offer::{Address, Offer};
use self::queue_pair::{Path, Port, QueuePair, Tuning};
use self::rail::Rail;
use super::{Fabric, FabricError, Limits, Opening, PostError, Protection, QueuePairConfig, Side};
use crate::entropy::Entropy;
use crate::limits::{
    PEER_LINES_MAX, RNR_RETRY_MAX, VERBS_ADDRESSES_MAX, VERBS_RETRIES, VERBS_TIMEOUT,
};
use crate::log_limiter::LogLimiter;
use crate::memory::{Region, Slot};

pub use self::survey::Survey;

/// The settings made by hand. The default uses every active port.
#[derive(Debug, Clone)]
pub struct VerbsConfig {
    /// Only this device, like `mlx5_0`.
    pub device: Option<String>,
    /// Only this port of each device, from 1.
    pub port: Option<u8>,
    /// Only this entry of each port's GID table.
    pub gid_index: Option<u32>,
    /// The partition, by its key as `ibv_devinfo` or the subnet manager shows it, with or without
    /// the bit of full members. Without it the first is used of which the port is a full member.
    pub pkey: Option<u16>,
    /// The partition, by the place of its key in each port's table.
    pub pkey_index: Option<u16>,
    /// How long an acknowledgement may take: 4.096 us * 2^`timeout`; 1 to 31.
    pub timeout: u8,
    /// How often a packet without acknowledgement is sent again, 0 to 7; SoftRoCE never ends with
    /// 7.
    pub retries: u8,
    /// Traffic class of the packets (on RoCE, the type of service: DSCP * 4).
    pub traffic_class: u8,
    /// Service level, 0 to 15 (on RoCE, the priority class).
    pub service_level: u8,
    /// Registered memory on huge pages, as far as the system has free ones.
    pub huge_pages: bool,
}

impl Default for VerbsConfig {
    fn default() -> Self {
        VerbsConfig {
            device: None,
            port: None,
            gid_index: None,
            pkey: None,
            pkey_index: None,
            timeout: VERBS_TIMEOUT,
            retries: VERBS_RETRIES,
            traffic_class: 0,
            service_level: 0,
            huge_pages: false,
        }
    }
}

impl VerbsConfig {
    fn tuning(&self, rnr_retry: u8) -> Tuning {
        Tuning {
            timeout: self.timeout,
            retries: self.retries,
            rnr_retry,
            traffic_class: self.traffic_class,
            service_level: self.service_level,
        }
    }
}

/// Why there is no verbs fabric.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoVerbs {
    /// Nothing that was found can be used.
    #[error("no usable RDMA device: {}", .0.why_not())]
    Nothing(Survey),
    /// A setting is out of range.
    #[error("{what} is {asked}, but at most {limit}, and a timeout at least 1")]
    Setting {
        /// Which.
        what: &'static str,
        /// The value that was asked for.
        asked: u8,
        /// The largest value that it can have.
        limit: u8,
    },
}

/// The verbs fabric.
///
/// Child processes that execute another program, as those of [`std::process::Command`] do, may be
/// started at any time. A process that was forked and goes on in this program must not use a fabric
/// of its parent's, nor drop it.
pub struct VerbsFabric {
    rails: Vec<Rail>,
    domains: Arc<[Arc<Domain>]>,
    limits: Limits,
    config: VerbsConfig,
    entropy: Entropy,
    /// The lines of queue pairs that are connected.
    log: Arc<LogLimiter>,
}

impl VerbsFabric {
    /// A fabric over what `config` allows of what this machine has.
    ///
    /// # Errors
    /// [`NoVerbs`]; its survey says why each part cannot be used.
    pub fn new(config: VerbsConfig, entropy: Entropy) -> Result<Self, NoVerbs> {
        for (what, asked, limit) in [
            ("timeout", config.timeout, 31),
            ("retries", config.retries, 7),
            ("service level", config.service_level, 15),
        ] {
            if asked > limit || (what == "timeout" && asked == 0) {
                return Err(NoVerbs::Setting { what, asked, limit });
            }
        }
        let (survey, rails) = Survey::with_rails(&config);
        if rails.is_empty() {
            return Err(NoVerbs::Nothing(survey));
        }
        let mut domains: Vec<Arc<Domain>> = Vec::new();
        for rail in &rails {
            if !domains.iter().any(|domain| Arc::ptr_eq(domain, &rail.domain)) {
                domains.push(rail.domain.clone());
            }
        }
        let limits = rail::limits(&rails);
        let log = Arc::new(LogLimiter::new(PEER_LINES_MAX));
        Ok(VerbsFabric { rails, domains: domains.into(), limits, config, entropy, log })
    }

    /// Returns the names of the devices it uses, with the ports.
    pub fn devices(&self) -> Vec<String> {
        self.rails.iter().map(Rail::name).collect()
    }
}

impl Fabric for VerbsFabric {
    fn name(&self) -> &'static str {
        "verbs"
    }

    fn protection(&self) -> Protection {
        Protection::Network
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn alloc(&self, bytes: usize) -> Result<Region, FabricError> {
        let kind = if self.config.huge_pages { PageKind::Huge } else { PageKind::Ordinary };
        memory::slab(self.domains.clone(), bytes.max(1), kind)
    }

    fn open(&self, config: QueuePairConfig) -> Result<Box<dyn Opening>, FabricError> {
        let Limits { send_queue_max, recv_queue_max, inline_bytes_max, .. } = self.limits;
        check("send queue", config.send_queue, send_queue_max)?;
        check("receive queue", config.recv_queue, recv_queue_max)?;
        check("inline size", config.inline_bytes, inline_bytes_max)?;
        check("rnr_retry", config.rnr_retry.into(), RNR_RETRY_MAX.into())?;
        let first_packet = (self.entropy.u128() & 0xff_ffff) as u32;
        let tuning = self.config.tuning(config.rnr_retry);
        let bootstrap = offer::bootstrap(&config.side);
        let mut opening = VerbsOpening {
            offer: Offer {
                dialled: bootstrap.map_or([0; 16], |(dialled, _)| dialled),
                addresses: Vec::new(),
            },
            ends: Vec::new(),
            domains: self.domains.clone(),
            recvs: Vec::with_capacity(config.recv_queue as usize),
            config,
            tuning,
            log: self.log.clone(),
        };
        let mut last = FabricError::Offer("there is no port that could be used");
        for rail in &self.rails {
            if let Err(error) = opening.add(rail, first_packet, bootstrap.map(|(_, local)| local)) {
                rail::report_left_out(&self.log, &rail.name(), &error);
                last = error;
            }
        }
        if opening.ends.is_empty() { Err(last) } else { Ok(Box::new(opening)) }
    }
}

fn check(what: &'static str, asked: u32, limit: u32) -> Result<(), FabricError> {
    let (asked, limit) = (asked.into(), limit.into());
    if asked > limit { Err(FabricError::Limit { what, asked, limit }) } else { Ok(()) }
}

impl fmt::Debug for VerbsFabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VerbsFabric").field(&self.devices()).finish()
    }
}

/// Queue pairs that are not connected, one for each port. The offers choose one; the receives wait
/// here for it, and are posted before it can be reached (PV-11).
struct VerbsOpening {
    offer: Offer,
    ends: Vec<End>,
    domains: Arc<[Arc<Domain>]>,
    recvs: Vec<Slot>,
    config: QueuePairConfig,
    tuning: Tuning,
    log: Arc<LogLimiter>,
}

/// One port's queue pair, and the places of its addresses in the offer.
struct End {
    queue_pair: QueuePair,
    port: Port,
    first: usize,
    gid_indices: Vec<u8>,
}

impl VerbsOpening {
    fn add(
        &mut self,
        rail: &Rail,
        first_packet: u32,
        local: Option<[u8; 16]>,
    ) -> Result<(), FabricError> {
        let first = self.offer.addresses.len();
        let room = VERBS_ADDRESSES_MAX - first;
        if room == 0 {
            return Ok(());
        }
        let queue_pair = QueuePair::new(rail.domain.clone(), rail.port, &self.config)?;
        let addresses = &rail.addresses[..rail.addresses.len().min(room)];
        self.offer.addresses.extend(addresses.iter().map(|address| Address {
            kind: address.kind,
            gid: address.gid,
            lid: rail.attributes.lid,
            prefix: address.prefix,
            mtu: rail.attributes.mtu,
            on_the_way: Some(address.gid) == local,
            queue_pair: queue_pair.number(),
            first_packet,
        }));
        let gid_indices = addresses.iter().map(|address| address.index).collect();
        self.ends.push(End { queue_pair, port: rail.port, first, gid_indices });
        Ok(())
    }

    /// Returns the pairs of places in this side's offer and in the peer's, best first.
    fn pairs(&self, peer: &Offer) -> Vec<(usize, usize)> {
        match self.config.side {
            Side::Dialer { .. } => offer::pairs(&self.offer, peer),
            Side::Acceptor => {
                offer::pairs(peer, &self.offer).into_iter().map(|(i, j)| (j, i)).collect()
            }
        }
    }

    fn connect(mut self, peer: &[u8], way: usize) -> Result<Connected, FabricError> {
        let peer = Offer::decode(peer)?;
        let unreachable = FabricError::Offer("none of its addresses can be reached from here");
        let Some(&(ours, theirs)) = self.pairs(&peer).get(way) else { return Err(unreachable) };
        let (own, peer) = (self.offer.addresses[ours], peer.addresses[theirs]);
        let at = self.ends.iter().rposition(|end| end.first <= ours);
        let Some(at) = at else { return Err(unreachable) };
        // The others are given back here.
        let End { mut queue_pair, port, first, gid_indices } = self.ends.swap_remove(at);
        self.ends.clear();
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
        let path = Path {
            peer_number: peer.queue_pair,
            peer_first_packet: peer.first_packet,
            first_packet: own.first_packet,
            mtu: own.mtu.min(peer.mtu),
            port: port.number,
            gid_index: gid_indices[ours - first],
            peer_gid: peer.gid,
            peer_lid: peer.lid,
            tuning: self.tuning,
        };
        queue_pair.connect(&path)?;
        if let Some(suppressed) = self.log.admit("connected", Instant::now()) {
            let (device, gid) = (queue_pair.domain().device.name(), gid_indices[ours - first]);
            let port = port.number;
            tracing::info!(device, port, suppressed, gid, "a queue pair is connected");
        }
        Connected::new(queue_pair, &self.config, posted, self.log).map_err(FabricError::Connect)
    }
}

impl Opening for VerbsOpening {
    fn offer(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.offer.encode())
    }

    fn post_recv(&mut self, slots: &mut Vec<Slot>) -> Result<(), PostError> {
        let room = self.config.recv_queue as usize - self.recvs.len();
        let own = slots.iter().take_while(|slot| memory::is_of(&self.domains, slot)).count();
        self.recvs.extend(slots.drain(..own.min(room)));
        if slots.is_empty() {
            Ok(())
        } else if own < room {
            Err(PostError::Foreign)
        } else {
            Err(PostError::Full)
        }
    }

    fn ways(&self, peer: &[u8]) -> usize {
        Offer::decode(peer).map_or(0, |peer| self.pairs(&peer).len())
    }

    fn connect(
        self: Box<Self>,
        peer: Zeroizing<Vec<u8>>,
        way: usize,
    ) -> BoxFuture<'static, Result<Box<dyn super::QueuePair>, FabricError>> {
        // Registering memory takes its time, and resolving the peer's address up to a second, in
        // which the task's thread would stand still.
        let connecting = tokio::task::spawn_blocking(move || Self::connect(*self, &peer, way));
        async {
            let connected =
                connecting.await.map_err(|lost| FabricError::Connect(io::Error::other(lost)))??;
            Ok(Box::new(connected) as Box<dyn super::QueuePair>)
        }
        .boxed()
    }
}
