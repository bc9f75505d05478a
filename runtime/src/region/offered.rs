//! Memory that a node offers: another one has it allocate a region.
//!
//! - **LM-1 bounded**: a node gives as much to each other node, and to all together, as it said, in
//!   whole pages, and nothing where it said nothing. What is being given back counts until nothing
//!   reaches it.
//! - **LM-2 given back**: each region that is given has a *tenant*, an actor of the node that has
//!   it. It goes back when its tenant has ended: with the [`PeerRegion`], or with its node.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use bytemuck::Pod;
use ringpost_transport::cause::{NodeDown, NodeDownCause};
use ringpost_transport::text;

use super::range::element_bytes;
use super::{BYTES_MAX, Region, RemoteRegion, remote::Whereabouts};
use crate::actor::{Actor, ActorRef, Context, Down, Peer, Recipient, ReplyTo};
use crate::address::{Address, RESERVED};
use crate::error::{AllocateError, AskCause, AskError, Cause, OfferError, ReleaseError};
use crate::limits;
use crate::node::Node;
use crate::remote::Access;
use crate::resident::{Halt, Resident};
use crate::shared::MemoryOffer;
use crate::{actor, handlers, message};

/// Bytes of a page: no region takes less.
const PAGE_BYTES: u64 = 4096;

/// Owns elements in the memory of another node, which allocated it for this one: by
/// [`Peer::region`](crate::Peer::region). It cannot be cloned: when it is dropped or
/// [released](Self::release) the memory is given back. Its elements are read and written by
/// [`remote`](Self::remote), a [`RemoteRegion`] with all access. Clones of that may be made and
/// sent, and own nothing: they have [`RegionError::Revoked`](crate::RegionError::Revoked) when this
/// has gone. So they have when its node has taken this one to be down, which a silence of
/// `down_after` suffices for: then allocate another one.
pub struct PeerRegion<T> {
    region: RemoteRegion<T>,
    /// As its node gave it.
    shared: RemoteRegion<u64>,
    tenant: ActorRef<Tenant>,
    to: Recipient<Release, bool>,
    tenancy: Tenancy,
}

impl<T> fmt::Debug for PeerRegion<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Peer{:?}", self.region)
    }
}

/// Ends the tenant when it is dropped (LM-2).
struct Tenancy(Arc<dyn Resident>);

impl Drop for Tenancy {
    fn drop(&mut self) {
        self.0.retire(Halt::Stop);
    }
}

/// Stands for a region that was given to its node.
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

/// Gives memory back that was asked for: who does knows the share.
#[message(name = "ringpost::Release")]
struct Release {
    shared: RemoteRegion<u64>,
    tenant: ActorRef<Tenant>,
}

/// Why nothing is given.
#[message(name = "ringpost::NotAllocated")]
#[derive(Debug, PartialEq, Eq)]
enum NotAllocated {
    /// So much is left for the node that asks.
    OverQuota(u64),
    /// The tenant has a region already, or the node has no such memory.
    Refused(String),
}

type Outcome = Result<RemoteRegion<u64>, NotAllocated>;

/// Gives memory of its node, as far as that [offers](Node::offer_memory) any.
#[derive(Default)]
struct Allocator {
    given: HashMap<Address, Given>,
    /// The tenants whose regions are being taken back, the asks that wait for that, and whether it
    /// is for this one.
    returning: HashMap<Address, Vec<(bool, ReplyTo<bool>)>>,
    /// Bytes that each node has, or gives back (LM-1).
    used: BTreeMap<Arc<str>, u64>,
}

/// A region that was given.
struct Given {
    region: Region<u64>,
    shared: RemoteRegion<u64>,
    /// Bytes that it takes.
    bytes: u64,
}

#[actor(name = "ringpost::Allocator")]
impl Actor for Allocator {}

#[handlers]
impl Allocator {
    #[handler]
    fn allocate(&mut self, msg: Allocate, cx: &mut Context<Self>) -> Outcome {
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
        self.given.insert(address, Given { region, shared: shared.clone(), bytes: taken });
        *self.used.entry(node).or_default() += taken;
        Ok(shared)
    }

    /// Answers when the region is back: at once where the tenant has none, or another one. Returns
    /// true if this message has given it back.
    #[handler]
    fn release(&mut self, msg: Release, reply: ReplyTo<bool>, cx: &mut Context<Self>) {
        let address = msg.tenant.address();
        let is_given = self.given.get(address).is_some_and(|given| given.shared == msg.shared);
        if is_given {
            // Its node may keep the tenant: no end would come.
            cx.unwatch(&msg.tenant);
            self.take_back(address, cx);
        }
        match self.returning.get_mut(address) {
            Some(waiting) => waiting.push((is_given, reply)),
            None => reply.send(false),
        }
    }

    /// Takes back what a tenant had.
    #[handler]
    fn down(&mut self, msg: Down, cx: &mut Context<Self>) {
        self.take_back(&msg.actor, cx);
    }
}

impl Allocator {
    /// Returns the bytes that a node may have yet.
    fn left(&self, node: &Arc<str>, offer: MemoryOffer) -> u64 {
        let has = self.used.get(node).copied().unwrap_or(0);
        let all: u64 = self.used.values().sum();
        offer.bytes_per_node.saturating_sub(has).min(offer.bytes.saturating_sub(all))
    }

    /// Takes back what a tenant had: it counts until nothing reaches it any more.
    fn take_back(&mut self, tenant: &Address, cx: &mut Context<Self>) {
        let Some(Given { region, bytes, .. }) = self.given.remove(tenant) else { return };
        self.returning.insert(tenant.clone(), Vec::new());
        let tenant = tenant.clone();
        // LM-1: one that does not let go of it has not got it back.
        let ended = async move { region.revoke_all().await };
        cx.pipe(ended, move |allocator, (), _| allocator.note_back(&tenant, bytes));
    }

    /// Notes that what a tenant had is back, and says so to those that wait for it.
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
    /// Offers memory to other nodes that ask for it ([`Peer::region`](crate::Peer::region)). A node
    /// that offers nothing refuses. What is offered last counts; what others have is theirs also
    /// where less is offered later.
    ///
    /// Memory that was given is locked over RDMA, and comes back when the other node drops it, or
    /// is down. A node is taken for the one that it says it is, so that `bytes` bounds what all
    /// names together can get.
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
    /// Has the node allocate `len` elements, all zero, for this one, until what this returns is
    /// dropped or this node is down. It waits as long as an [`Ask`](crate::Ask) of this node does:
    /// 5 s, or what [`ask_timeout`](crate::NodeBuilder::ask_timeout) says.
    ///
    /// # Errors
    /// [`AllocateError`]. Nothing is kept there then.
    ///
    /// # Cancel safety
    /// When the future is dropped what was allocated is given back.
    pub async fn region<T: Pod>(&self, len: usize) -> Result<PeerRegion<T>, AllocateError> {
        let (node, element_bytes) = (self.node(), element_bytes::<T>());
        let bytes = len.checked_mul(element_bytes).filter(|bytes| *bytes <= BYTES_MAX);
        let bytes = bytes.ok_or(AllocateError::TooLarge { len, element_bytes })? as u64;
        let peer: Arc<str> = self.name().into();
        // An actor without a name is spawned unless the node shuts down.
        let begun = node.begin_anonymous(Tenant).map_err(|_| AllocateError::Shutdown)?;
        // Before the first wait: when the future is dropped there, the tenant ends with it.
        let (tenant, tenancy) = (begun.actor, Tenancy(begun.resident));
        begun.starts.await.map_err(|_| AllocateError::Shutdown)?;
        let to: Recipient<Allocate, Outcome> = Recipient::bind(node, allocator(peer.clone()));
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
        // It is the word of another node.
        if shared.node() != &*peer || (shared.len() as u64) < bytes.div_ceil(8) {
            let reason = "it gave another region than was asked for".into();
            return Err(AllocateError::Refused { node: peer, reason });
        }
        let place = Whereabouts { len: len as u64, ..(*shared.place).clone() };
        let region = RemoteRegion::bind(node, place);
        let to = Recipient::bind(node, allocator(peer));
        Ok(PeerRegion { region, shared, tenant, to, tenancy })
    }
}

impl<T> PeerRegion<T> {
    /// Returns the elements, as tasks of any node use them. Clones of what this returns do not own
    /// the memory: it goes back when the `PeerRegion` is dropped, whatever clones there are.
    pub fn remote(&self) -> &RemoteRegion<T> {
        &self.region
    }

    /// Gives it back, and waits until its node has it: then it counts no more, and nothing reaches
    /// it. (So it is when it is dropped, but without a wait.) It waits as long as an
    /// [`Ask`](crate::Ask) of this node does. Where the run of the node is over that had it, it is
    /// back.
    ///
    /// # Errors
    /// [`ReleaseError`], with what became of the ask: the node is silent, shutting down or did not
    /// answer in time, the link was lost meanwhile, or this node is shutting down. It is given back
    /// all the same, when the node learns of it, and is not released again.
    ///
    /// # Cancel safety
    /// When the future is dropped it is given back.
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

/// Returns true if an allocator was not asked as the run of the node that had it is over, with all
/// that it gave.
fn is_over(cause: &AskCause) -> bool {
    let AskCause::NotSent(cause) = cause else { return false };
    match cause {
        // The next run, which offers nothing.
        Cause::NoSuchActor => true,
        Cause::NodeUnreachable(NodeDown { cause, .. }) => {
            matches!(cause, NodeDownCause::Left | NodeDownCause::Restarted)
        }
        _ => false,
    }
}

/// Returns the error of a node that was asked for memory and did not answer.
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
    /// Returns it as a message to its node has it.
    pub(super) fn handed(&self) -> (RemoteRegion<u64>, ActorRef<Tenant>) {
        (self.shared.clone(), self.tenant.clone())
    }
}

/// Gives back what a tenant of any node has of this one. Returns true if it had it until now, when
/// nothing reaches it any more.
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
