//! Memory that a node offers: other nodes allocate regions in it.
//!
//! - **LM-1 bounded**: a node gives memory only up to its offer, per node and in total, in whole
//!   pages; without an offer it gives none. Memory that is being returned counts until nothing can
//!   access it.
//! - **LM-2 given back**: each allocated region has a *tenant*, an actor of the node that owns the
//!   region. The region is returned when its tenant has ended: with the [`PeerRegion`], or with its
//!   node.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use bytemuck::Pod;
use ringpost_transport::cause::{NodeDown, NodeDownCause};
use ringpost_transport::text;

use super::range::element_bytes;
use super::{BYTES_MAX, Region, RemoteRegion, remote::RegionAddress};
use crate::actor::{Actor, ActorRef, Context, Down, Peer, Recipient, ReplyTo};
use crate::address::{Address, RESERVED};
use crate::error::{AllocateError, AskCause, AskError, Cause, OfferError, ReleaseError};
use crate::limits;
use crate::node::Node;
use crate::remote::Access;
use crate::resident::{Halt, LocalActor};
use crate::shared::MemoryOffer;
use crate::{actor, handlers, message};

/// Bytes of a page, the minimum size of a region.
const PAGE_BYTES: u64 = 4096;

/// Owns elements in the memory of another node, allocated by [`Peer::region`](crate::Peer::region).
/// It cannot be cloned, and returns the memory when it is dropped or [released](Self::release).
/// Read and write its elements through [`remote`](Self::remote), a [`RemoteRegion`] with full
/// access. Clones of that can be sent, but own nothing: they fail with
/// [`RegionError::Revoked`](crate::region::RegionError::Revoked) when this is gone. They also fail
/// when the memory's node has considered this node down, which can happen after a silence of
/// `down_after`: then allocate another region.
pub struct PeerRegion<T> {
    region: RemoteRegion<T>,
    /// The region that its node gave, in words.
    shared: RemoteRegion<u64>,
    tenant: ActorRef<Tenant>,
    to: Recipient<Release, bool>,
    tenancy: TenantGuard,
}

impl<T> fmt::Debug for PeerRegion<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Peer{:?}", self.region)
    }
}

/// Stops the tenant when it is dropped (LM-2).
struct TenantGuard(Arc<dyn LocalActor>);

impl Drop for TenantGuard {
    fn drop(&mut self) {
        self.0.retire(Halt::Stop);
    }
}

/// An actor that stands for an allocated region, on the node that asked for the region.
#[actor(name = "ringpost::Tenant")]
pub struct Tenant;

#[handlers]
impl Tenant {}

/// Asks for memory.
#[message(name = "ringpost::Allocate")]
struct Allocate {
    bytes: u64,
    tenant: ActorRef<Tenant>,
}

/// Returns memory to its node. Knowing the share proves that the sender has it.
#[message(name = "ringpost::Release")]
struct Release {
    shared: RemoteRegion<u64>,
    tenant: ActorRef<Tenant>,
}

/// The reason why no memory is given.
#[message(name = "ringpost::NotAllocated")]
#[derive(Debug, PartialEq, Eq)]
enum NotAllocated {
    /// The asking node has only this many bytes left.
    OverQuota(u64),
    /// The tenant has a region already, or the node lacks the memory.
    Refused(String),
}

type AllocateReply = Result<RemoteRegion<u64>, NotAllocated>;

/// Gives memory of its node, within its [offer](Node::offer_memory).
#[derive(Default)]
struct Allocator {
    given: HashMap<Address, GivenRegion>,
    /// The tenants whose regions are being returned, with the asks that wait for that. The flag of
    /// an ask is true if that ask has returned the region.
    returning: HashMap<Address, Vec<(bool, ReplyTo<bool>)>>,
    /// Bytes that each node has or is returning (LM-1).
    used: BTreeMap<Arc<str>, u64>,
}

/// A region that was given to a node.
struct GivenRegion {
    region: Region<u64>,
    shared: RemoteRegion<u64>,
    /// Bytes that it occupies.
    bytes: u64,
}

#[actor(name = "ringpost::Allocator")]
impl Actor for Allocator {}

#[handlers]
impl Allocator {
    #[handler]
    fn allocate(&mut self, msg: Allocate, cx: &mut Context<Self>) -> AllocateReply {
        let Allocate { bytes, tenant } = msg;
        let address = tenant.address().clone();
        if self.given.contains_key(&address) || self.returning.contains_key(&address) {
            return Err(NotAllocated::Refused("its tenant has a region".into()));
        }
        let node: Arc<str> = address.node().into();
        let left = self.left(&node, cx.node().memory_offer());
        let taken = bytes.max(1).checked_next_multiple_of(PAGE_BYTES);
        let taken = taken.filter(|taken| *taken <= left).ok_or(NotAllocated::OverQuota(left))?;
        let refused = |reason| NotAllocated::Refused(reason);
        let words = usize::try_from(bytes.div_ceil(8)).unwrap_or(usize::MAX);
        let region = cx.node().region(words).map_err(|error| refused(error.to_string()))?;
        let shared = region.share(Access::ALL).map_err(|error| refused(error.to_string()))?;
        cx.watch(&tenant);
        self.given.insert(address, GivenRegion { region, shared: shared.clone(), bytes: taken });
        *self.used.entry(node).or_default() += taken;
        Ok(shared)
    }

    /// Answers when the region is back; at once if the tenant has none, or another one. The answer
    /// is true if this message has returned the region.
    #[handler]
    fn release(&mut self, msg: Release, reply: ReplyTo<bool>, cx: &mut Context<Self>) {
        let address = msg.tenant.address();
        let is_given = self.given.get(address).is_some_and(|given| given.shared == msg.shared);
        if is_given {
            // Its node may keep the tenant, so its end may never be reported.
            cx.unwatch(&msg.tenant);
            self.take_back(address, cx);
        }
        match self.returning.get_mut(address) {
            Some(waiting) => waiting.push((is_given, reply)),
            None => reply.send(false),
        }
    }

    /// Takes back the region of a tenant that has ended.
    #[handler]
    fn down(&mut self, msg: Down, cx: &mut Context<Self>) {
        self.take_back(&msg.actor, cx);
    }
}

impl Allocator {
    /// Returns the bytes that a node may still allocate.
    fn left(&self, node: &Arc<str>, offer: MemoryOffer) -> u64 {
        let has = self.used.get(node).copied().unwrap_or(0);
        let all: u64 = self.used.values().sum();
        offer.bytes_per_node.saturating_sub(has).min(offer.bytes.saturating_sub(all))
    }

    /// Takes back the region of a tenant; it counts until nothing accesses it any more.
    fn take_back(&mut self, tenant: &Address, cx: &mut Context<Self>) {
        let Some(GivenRegion { region, bytes, .. }) = self.given.remove(tenant) else { return };
        self.returning.insert(tenant.clone(), Vec::new());
        let tenant = tenant.clone();
        // LM-1: a node that still accesses the memory has not returned it.
        let ended = async move { region.revoke_all().await };
        cx.pipe(ended, move |allocator, (), _| allocator.note_back(&tenant, bytes));
    }

    /// Notes that a tenant's region is back, and answers the waiting asks.
    fn note_back(&mut self, tenant: &Address, bytes: u64) {
        if let Some(used) = self.used.get_mut(tenant.node()) {
            *used -= bytes;
            if *used == 0 {
                self.used.remove(tenant.node());
            }
        }
        let waiting = self.returning.remove(tenant).into_iter().flatten();
        waiting.for_each(|(is_given, reply)| reply.send(is_given));
    }
}

/// Returns the address of the actor that gives memory of a node.
fn allocator(node: Arc<str>) -> Address {
    Address::by_name(node, name())
}

fn name() -> Arc<str> {
    format!("{RESERVED}memory").into()
}

impl Node {
    /// Offers memory to other nodes ([`Peer::region`](crate::Peer::region)). Without an offer, a
    /// node refuses such requests. The last offer is valid; a smaller one does not take back memory
    /// that other nodes already have.
    ///
    /// Allocated memory is locked over RDMA, and is returned when the other node drops it or is
    /// down. A node's claim of its name is trusted here, so use `bytes` to bound the memory of all
    /// names together.
    ///
    /// # Errors
    /// [`OfferError::Shutdown`].
    pub fn offer_memory(&self, offer: MemoryOffer) -> Result<(), OfferError> {
        *self.offered_memory().lock() = offer;
        if !self.spawn_own(name(), Allocator::default()) && self.residents().is_closed() {
            return Err(OfferError::Shutdown);
        }
        Ok(())
    }

    fn memory_offer(&self) -> MemoryOffer {
        *self.offered_memory().lock()
    }
}

impl Peer {
    /// Allocates `len` elements, all zero, on that node for this one, until the result is dropped
    /// or this node is down. The time-out is the one of an [`Ask`](crate::send::Ask) of this node:
    /// 5 s, or [`ask_timeout`](crate::NodeBuilder::ask_timeout).
    ///
    /// # Errors
    /// [`AllocateError`]. Then that node keeps no memory for this one.
    ///
    /// # Cancel safety
    /// If the future is dropped, the memory is returned.
    pub async fn region<T: Pod>(&self, len: usize) -> Result<PeerRegion<T>, AllocateError> {
        let (node, element_bytes) = (self.node(), element_bytes::<T>());
        let bytes = len.checked_mul(element_bytes).filter(|bytes| *bytes <= BYTES_MAX);
        let bytes = bytes.ok_or(AllocateError::TooLarge { len, element_bytes })? as u64;
        let peer: Arc<str> = self.name().into();
        // An actor without a name is always spawned, unless the node shuts down.
        let begun = node.begin_anonymous(Tenant).map_err(|_| AllocateError::Shutdown)?;
        // Created before the first wait, so that the tenant ends if the future is dropped there.
        let (tenant, tenancy) = (begun.actor, TenantGuard(begun.resident));
        begun.starts.await.map_err(|_| AllocateError::Shutdown)?;
        let to: Recipient<Allocate, AllocateReply> = Recipient::bind(node, allocator(peer.clone()));
        let asked = to.ask(Allocate { bytes, tenant: tenant.clone() }).await;
        let shared = match asked.map_err(|error| not_asked(peer.clone(), error))? {
            Ok(shared) => shared,
            Err(NotAllocated::OverQuota(left)) => {
                return Err(AllocateError::OverQuota { node: peer, left });
            }
            Err(NotAllocated::Refused(reason)) => {
                let reason = text::of_peer(&reason, limits::REFUSAL_TEXT_BYTES_MAX);
                return Err(AllocateError::Refused { node: peer, reason });
            }
        };
        // Checked, because another node has sent it.
        if shared.node() != &*peer || (shared.len() as u64) < bytes.div_ceil(8) {
            let reason = "it gave another region than was asked for".into();
            return Err(AllocateError::Refused { node: peer, reason });
        }
        let place = RegionAddress { len: len as u64, ..(*shared.place).clone() };
        let region = RemoteRegion::bind(node, place);
        let to = Recipient::bind(node, allocator(peer));
        Ok(PeerRegion { region, shared, tenant, to, tenancy })
    }
}

impl<T> PeerRegion<T> {
    /// Returns the elements, for tasks of any node. Clones of the result do not own the memory,
    /// which is returned when the `PeerRegion` is dropped, even if there are clones.
    pub fn remote(&self) -> &RemoteRegion<T> {
        &self.region
    }

    /// Returns the memory to its node, and waits until its node has it: then it does not count any
    /// more, and nothing accesses it. (Dropping this does the same without a wait.) The time-out is
    /// the one of an [`Ask`](crate::send::Ask) of this node. If the run of the node that had the
    /// memory is over, the memory is back.
    ///
    /// # Errors
    /// [`ReleaseError`], with the fate of the ask: the node is silent, shutting down or did not
    /// answer in time, the link was lost meanwhile, or this node is shutting down. The memory is
    /// still returned when the node learns of it; no further release is needed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the memory is still returned.
    pub async fn release(self) -> Result<(), ReleaseError> {
        let PeerRegion { shared, tenant, to, tenancy: _tenancy, .. } = self;
        let node: Arc<str> = shared.node().into();
        match to.ask(Release { shared, tenant }).await {
            Ok(_) => Ok(()),
            Err(error) if is_over(&error.cause) => Ok(()),
            Err(error) => Err(ReleaseError { node, cause: error.cause }),
        }
    }
}

/// Returns true if an allocator was not asked because the run of its node is over, and with it all
/// regions that it gave.
fn is_over(cause: &AskCause) -> bool {
    let AskCause::NotSent(cause) = cause else { return false };
    match cause {
        // Answered by the next run, which offers no memory.
        Cause::NoSuchActor => true,
        Cause::NodeUnreachable(NodeDown { cause, .. }) => {
            matches!(cause, NodeDownCause::Left | NodeDownCause::Restarted)
        }
        _ => false,
    }
}

/// Returns the error for a node that was asked for memory and did not answer.
fn not_asked(node: Arc<str>, error: AskError) -> AllocateError {
    if error.is_of_unknown_node() {
        return AllocateError::UnknownNode { node };
    }
    match error.cause {
        AskCause::NotSent(Cause::NodeUnreachable(down)) => AllocateError::NodeDown { node, down },
        AskCause::NotSent(Cause::NoSuchActor) => AllocateError::NotOffered { node },
        AskCause::NotSent(Cause::NoNetwork) => AllocateError::NoNetwork,
        AskCause::NotSent(Cause::Shutdown) => AllocateError::Shutdown,
        cause => AllocateError::NoAnswer { node, cause },
    }
}

impl<T> PeerRegion<T> {
    /// Returns the region that its node gave, and its tenant, for a
    /// [`HandedRegion`](super::HandedRegion).
    pub(super) fn handed(&self) -> (RemoteRegion<u64>, ActorRef<Tenant>) {
        (self.shared.clone(), self.tenant.clone())
    }
}

/// Takes back a region of this node from its tenant, an actor on any node. Returns true if the
/// tenant had it until now; then nothing accesses it any more.
pub(super) async fn give_back(
    node: &Node,
    shared: RemoteRegion<u64>,
    tenant: ActorRef<Tenant>,
) -> Result<bool, AskError> {
    let to: Recipient<Release, bool> = Recipient::bind(node, allocator(node.name().into()));
    to.ask(Release { shared, tenant }).await
}

#[cfg(test)]
mod tests;
