//! From an opened queue pair to a link whose driver can start.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use zeroize::Zeroizing;

use super::dispatch::Run;
use super::growth::Growth;
use super::mailboxes::Mailboxes;
use super::pipe::Pipe;
use super::reports::Reports;
use super::slots::Slots;
use super::spin::Spin;
use super::turn::{News, Scratch};
use super::{Driver, Phase, Running};
use crate::fabric::{Fabric, FabricError, Opening, Protection, QueuePairConfig, Side};
use crate::limits;
use crate::link::LinkHandle;
use crate::memory::{Pool, Slot};
use crate::profile::Profile;
use crate::proto::credit::CreditSettings;
use crate::proto::link::{LinkProtocol, Sizes};
use crate::proto::send_queue::SendQueue;
use crate::proto::window::WindowSize;

/// The offer of one side of a link to the other, before they connect. Without `Debug`: the fabric's
/// part is secret.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Receive slots posted.
    pub(crate) ring_slots: u32,
    /// Bytes of each.
    pub(crate) slot_bytes: u32,
    /// Largest message this side takes, in bytes.
    pub(crate) message_bytes_max: u32,
    /// Bytes this side has room for, over all mailboxes.
    pub(crate) link_window_bytes: u32,
    /// The fabric's own part.
    pub(crate) queue_pair: Zeroizing<Vec<u8>>,
}

/// A queue pair with its ring posted, not yet connected.
pub(crate) struct Prepared {
    fabric: Arc<dyn Fabric>,
    profile: Profile,
    opening: Box<dyn Opening>,
    send_slots: Vec<Slot>,
    spare: Vec<Slot>,
}

impl Prepared {
    /// Opens a queue pair of `fabric`, allocates the link's memory and posts the whole ring. The
    /// queue pair is bound to what both sides know of this link; the ways to `avoid` are its last.
    pub(crate) fn new(
        fabric: &Arc<dyn Fabric>,
        profile: &Profile,
        (side, binding, avoid): (Side, Vec<u8>, Vec<u32>),
    ) -> Result<Self, FabricError> {
        let ring = profile.ring_slots;
        let config = QueuePairConfig {
            send_queue: ring_max(profile, &**fabric),
            recv_queue: ring_max(profile, &**fabric),
            inline_bytes: limits::INLINE_BYTES.min(fabric.limits().inline_bytes_max),
            rnr_retry: 0,
            side,
            binding,
            avoid,
        };
        let mut opening = fabric.open(config)?;
        let slot_bytes = profile.slot_bytes as usize;
        let count = ring as usize * (limits::POOL_PER_RING as usize + 1);
        let mut slots = fabric.alloc(count * slot_bytes)?.into_slots(slot_bytes);
        slots.truncate(count);
        let send_slots = slots.split_off(slots.len() - ring as usize);
        let spare = slots.split_off(ring as usize);
        opening.post_recv(&mut slots).map_err(|_| FabricError::Limit {
            what: "a receive queue",
            asked: ring.into(),
            limit: (ring as usize - slots.len()) as u64,
        })?;
        let (fabric, profile) = (fabric.clone(), profile.clone());
        Ok(Prepared { fabric, profile, opening, send_slots, spare })
    }

    /// Returns what the peer needs.
    pub(crate) fn offer(&self) -> Offer {
        Offer {
            ring_slots: self.profile.ring_slots,
            slot_bytes: self.profile.slot_bytes,
            message_bytes_max: self.profile.message_bytes_max,
            link_window_bytes: self.profile.link_window_bytes,
            queue_pair: self.opening.offer(),
        }
    }

    /// Returns the numbers of the ways to connect, best first.
    pub(crate) fn ways(&self, offer: &Offer) -> Vec<u32> {
        self.opening.ways(&offer.queue_pair)
    }

    /// Connects by the way at this place, on the current tokio runtime, where the driver will run.
    /// The peer's offer must have been checked against the limits.
    ///
    /// # Cancel safety
    /// Dropping the future drops the queue pair.
    pub(crate) async fn connect(
        self,
        offer: Offer,
        way: usize,
        reports: Reports,
    ) -> Result<Connected, FabricError> {
        let Prepared { fabric, profile, opening, send_slots, spare } = self;
        let credit =
            CreditSettings::new(offer.ring_slots, profile.ring_slots, profile.credit_reserve)
                .map_err(|_| FabricError::Offer("its ring is too small"))?;
        let frame_max = profile.slot_bytes.min(offer.slot_bytes) as usize;
        if way >= opening.ways(&offer.queue_pair).len().max(1) {
            return Err(FabricError::Offer("there is no other way to it"));
        }
        let queues = opening.connect(offer.queue_pair, way).await?;
        let message_max = limits::archive_bytes_max(profile.message_bytes_max);
        let tail_max = fabric.limits().tail_bytes_max as usize;
        let sizes = Sizes { frame_max, message_max, tail_max };
        let eager_max = LinkProtocol::eager_max(frame_max);
        let window = WindowSize {
            messages: profile.mailbox_window_messages,
            bytes: profile.mailbox_window_bytes,
        };
        // The peer may take more than this node would keep for it, or less: the smaller counts.
        let link_window_bytes = offer.link_window_bytes.min(profile.link_window_bytes);
        let lends = fabric.limits().lends.then_some(limits::LEND_FROM);
        let lend_from = profile.lending.from.or(lends);
        let lend_from = lend_from.filter(|_| profile.lending.lent_bytes_max > 0);
        let send_queue =
            SendQueue::new(link_window_bytes, window, eager_max).lending_from(lend_from);
        let message_bytes_max = profile.message_bytes_max.min(offer.message_bytes_max);
        let ring = profile.ring_slots as usize;
        let pool = Pool::new(spare);
        let own = (send_queue, pool.gauge());
        let accounts = reports.unresolved.begin();
        let signals = reports.unresolved.signals().clone();
        signals.set_peer_blocked(false);
        let carrier = (fabric.name(), fabric.protection() == Protection::Encrypted);
        let link = LinkHandle::new(reports.peer.clone(), carrier, message_bytes_max, signals, own);
        let inline_max = limits::INLINE_BYTES.min(fabric.limits().inline_bytes_max);
        let (phase, watched) = watch::channel(Phase::Opening);
        let start = tokio::time::Instant::now().into_std();
        let proto = LinkProtocol::new(credit, sizes, accounts.waiting(), start);
        let pipe = Pipe::new(proto, queues, Slots::new(pool, send_slots, ring, inline_max));
        let pipe = Arc::new(Mutex::new(pipe));
        let poster: Weak<Mutex<Pipe>> = Arc::downgrade(&pipe);
        link.set_poster(poster);
        let ring_max = ring_max(&profile, &*fabric);
        let budget = reports.budget.clone();
        let growth = Growth::new(fabric.clone(), profile.slot_bytes, ring_max, budget);
        let driver = Driver {
            pipe,
            growth,
            closing: VecDeque::new(),
            mailboxes: Mailboxes::new(window, profile.link_window_bytes, accounts),
            link: link.clone(),
            reports,
            phase,
            scratch: Scratch::default(),
            run: Run::default(),
            spin: Spin::new(fabric.spins(), profile.spin),
            news: News::all(),
        };
        let running = Running { link, phase: watched };
        Ok(Connected { driver, running, runtime: Handle::current() })
    }
}

/// A connected queue pair: it takes what the peer sends, and sends nothing before it is started.
pub(crate) struct Connected {
    driver: Driver,
    running: Running,
    runtime: Handle,
}

impl Connected {
    /// Starts the driver task on the runtime that it was connected on.
    pub(crate) fn start(self) -> Running {
        let Connected { driver, running, runtime } = self;
        runtime.spawn(driver.run());
        running
    }
}

/// Returns the slots that a ring may grow to: as the profile says, and as the fabric's queues hold.
fn ring_max(profile: &Profile, fabric: &dyn Fabric) -> u32 {
    let limits = fabric.limits();
    let most = limits.send_queue_max.min(limits.recv_queue_max);
    profile.ring_growth.slots_max.min(most).max(profile.ring_slots)
}
