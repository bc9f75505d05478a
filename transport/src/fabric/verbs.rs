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
//!   for local writing only. A registration with a device's domain lasts as long as the region is
//!   mapped; with the domain of one queue pair, until no slot of the region is left or the queue
//!   pair ends. Queue pairs for frames grant peers no access at all.
//! - **VB-3 outstanding**: a slot that was posted belongs to its queue pair until the device
//!   completed the work request or the queue pair is destroyed; if neither can be had, for ever.
//!   Callers are held to it by ownership (PV-2); between the parts here it is kept by the order in
//!   which one value drops its fields, and by counted references, and tested in every order.
//! - **VB-4 numbers of C** are integers here. A number that this build does not know is an error,
//!   never an enum without that value; the layouts of shared structures are checked by a test.
//! - **VB-5 device events** end the queue pairs concerned, with a cause, whichever task reads them.
//!   Queue pairs of a port that went down end when it has been down for a while: until then they
//!   may ride it out. Other changes of ports are looked at when the next queue pair is opened.
//! - **VB-6 ends**: the first error destroys the queue pair, after what the device had completed
//!   was taken; the rest is flushed here. So nothing waits for a device to flush.
//! - **VB-7 deviations** of rxe are listed in `docs/ARCHITECTURE.md`. Two are seen here: a receive
//!   that is too small is a malformed one to it, and the sender is told of an operation that
//!   failed. Both numbers mean PV-6 here, since what this fabric posts is well-formed. It tries for
//!   ever where 7 times are asked for, so 6 is the default.
//! - **VB-8 forks**: a child that is forked and executes another program, as
//!   `std::process::Command` does, disturbs no link, however long it takes. A child that goes on in
//!   this program must use nothing of this fabric: it has only copies.
//! - **VB-9 one-sided access**: a queue pair for it has a protection domain of its own, so that its
//!   peer reaches only memory that was granted over it (PV-13). Each grant is a registration with
//!   just the access that it gives. A device that has no reads or no atomic operations of 64 bits
//!   is not used for it.
//! - **VB-10 revocation**: granted memory is kept until the device has given its registration back,
//!   and forever if it refuses. After that no packet of the peer reaches the memory, as each packet
//!   is looked up by its key; a packet that is being copied is waited for.

mod completions;
mod connected;
mod device;
mod ends;
mod events;
mod events_fd;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
mod gid_table;
mod ledger;
mod live;
mod machine;
mod memory;
mod offer;
mod one_sided;
mod opening;
mod partition;
mod posting;
mod queue_pair;
mod rail;
mod rails;
mod registration;
mod survey;
mod vectors;

#[cfg(test)]
mod layout;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use self::ends::Settings;
use self::memory::PageKind;
use self::one_sided::OneSidedOpening;
use self::opening::VerbsOpening;
use self::queue_pair::Tuning;
use self::rails::Rails;
use super::one_sided::OneSidedConfig;
use super::{Fabric, FabricError, Limits, Opening, Protection, QueuePairConfig, Spins};
use crate::entropy::Entropy;
use crate::limits::{PEER_LINES_MAX, RNR_RETRY_MAX, VERBS_RETRIES, VERBS_TIMEOUT};
use crate::log_limiter::LogLimiter;
use crate::memory::Region;

pub use self::survey::{Survey, VerbsAddress};

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
#[derive(thiserror::Error)]
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

crate::debug_by_display!(NoVerbs);

/// The verbs fabric.
///
/// Child processes that execute another program, as [`std::process::Command`] starts them, may be
/// started at any time. A process that was forked and goes on in this program must neither use nor
/// drop a fabric of its parent.
pub struct VerbsFabric {
    rails: Rails,
    config: VerbsConfig,
    entropy: Entropy,
    /// How many links were opened: each begins with another rail.
    turn: Mutex<usize>,
    /// The lines about queue pairs.
    log: Arc<LogLimiter>,
}

impl VerbsFabric {
    /// Returns a fabric over the devices of this machine that `config` allows.
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
        let rails = Rails::new(&config).map_err(NoVerbs::Nothing)?;
        let log = Arc::new(LogLimiter::new(PEER_LINES_MAX));
        Ok(VerbsFabric { rails, config, entropy, turn: Mutex::default(), log })
    }

    /// Returns the turn of the next link.
    fn next_turn(&self) -> usize {
        let turn = &mut *self.turn.lock();
        *turn = turn.wrapping_add(1);
        *turn
    }

    /// Returns the settings of a queue pair.
    fn settings(&self, rnr_retry: u8, turn: usize) -> Settings {
        Settings {
            first_packet: (self.entropy.u128() & 0xff_ffff) as u32,
            tuning: self.config.tuning(rnr_retry),
            turn,
            log: self.log.clone(),
        }
    }

    /// Returns the names of the devices it uses, with the ports.
    pub fn devices(&self) -> Vec<String> {
        self.rails.names()
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
        self.rails.limits()
    }

    fn changes(&self) -> u64 {
        self.rails.changes()
    }

    fn blocks(&self) -> bool {
        true
    }

    fn spins(&self) -> Spins {
        Spins::InPlace
    }

    fn alloc(&self, bytes: usize) -> Result<Region, FabricError> {
        let kind = if self.config.huge_pages { PageKind::Huge } else { PageKind::Ordinary };
        memory::slab(self.rails.domains(), bytes.max(1), kind)
    }

    fn open(&self, config: QueuePairConfig) -> Result<Box<dyn Opening>, FabricError> {
        let Limits { send_queue_max, recv_queue_max, inline_bytes_max, .. } = self.limits();
        check("send queue", config.send_queue, send_queue_max)?;
        check("receive queue", config.recv_queue, recv_queue_max)?;
        check("inline size", config.inline_bytes, inline_bytes_max)?;
        check("rnr_retry", config.rnr_retry.into(), RNR_RETRY_MAX.into())?;
        let settings = self.settings(config.rnr_retry, self.next_turn());
        Ok(Box::new(VerbsOpening::new(&self.rails.now(), config, settings)?))
    }

    fn open_one_sided(
        &self,
        config: OneSidedConfig,
    ) -> Result<Box<dyn super::one_sided::Opening>, FabricError> {
        let Limits { send_queue_max, recv_queue_max, .. } = self.limits();
        check("operations", config.operations, send_queue_max)?;
        check("notices", config.notices, recv_queue_max)?;
        // PV-17: a notice that finds no place is an error at once. (It takes the way of its link,
        // so it needs no turn of its own.)
        let settings = self.settings(0, 0);
        Ok(Box::new(OneSidedOpening::new(self.rails.now(), config, settings)?))
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
