//! Memory that a node has another one allocate, and lend it.
//!
//! - **LM-1 bounded**: a node lends as much to each other node as it said, in whole pages, and
//!   nothing where it said nothing. What is being given back counts until nothing reaches it.
//! - **LM-2 given back**: each region that is lent has a *tenant*, an actor of the node that has
//!   it. It goes back when its tenant has ended: with the [`PeerRegion`], or with its node.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use bytemuck::Pod;

use super::{BYTES_MAX, Region, RemoteRegion, remote::Whereabouts};
use crate::actor::{Actor, ActorRef, Context, Down, Peer, Recipient};
use crate::address::{Address, RESERVED};
use crate::error::{AskCause, AskError, Cause, RegionError};
use crate::node::Node;
use crate::remote::Access;
use crate::resident::{Halt, Resident};
use crate::{actor, handlers, message};

/// Bytes of a page: no region takes less.
const PAGE_BYTES: u64 = 4096;
/// Bytes of a region that is made on a thread that may block, since that takes its time.
const SLOW_BYTES: u64 = 16 * 1024 * 1024;

/// Elements in the memory of another node, which allocated it for this one: by
/// [`Peer::region`](crate::Peer::region). It is a [`RemoteRegion`] with all access, which clones
/// may be made of and sent; when this is dropped the memory is given back, and they all have
/// [`RegionError::Revoked`].
pub struct PeerRegion<T> {
    region: RemoteRegion<T>,
    _tenancy: Tenancy,
}

impl<T> Deref for PeerRegion<T> {
    type Target = RemoteRegion<T>;

    fn deref(&self) -> &RemoteRegion<T> {
        &self.region
    }
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

/// Stands for a region that is lent to its node.
#[actor(name = "ringpost::Tenant")]
struct Tenant;

#[handlers]
impl Tenant {}

/// Asks for memory.
#[message(name = "ringpost::Lend")]
struct Lend {
    bytes: u64,
    tenant: ActorRef<Tenant>,
}

/// Why nothing is lent.
#[message(name = "ringpost::NotLent")]
#[derive(Debug, PartialEq, Eq)]
enum NotLent {
    /// So much is left for the node that asks.
    OverQuota(u64),
    /// The tenant has a region already, or the node has no such memory.
    Refused(String),
}

type Outcome = Result<RemoteRegion<u64>, NotLent>;

/// Lends memory of its node.
struct Lender {
    /// Bytes for each node (LM-1).
    quota: u64,
    lent: HashMap<Address, (Region<u64>, u64)>,
    /// Bytes that each node has, or gives back.
    used: BTreeMap<Arc<str>, u64>,
}

#[actor(name = "ringpost::Lender")]
impl Actor for Lender {}

#[handlers]
impl Lender {
    #[handler]
    async fn lend(&mut self, msg: Lend, cx: &mut Context<Self>) -> Outcome {
        let Lend { bytes, tenant } = msg;
        let address = tenant.address().clone();
        if self.lent.contains_key(&address) {
            return Err(NotLent::Refused("its tenant has a region".into()));
        }
        let node: Arc<str> = address.node().into();
        let left = self.quota.saturating_sub(self.used.get(&node).copied().unwrap_or(0));
        let taken = bytes.max(1).checked_next_multiple_of(PAGE_BYTES);
        let taken = taken.filter(|taken| *taken <= left).ok_or(NotLent::OverQuota(left))?;
        let region = memory(cx.node().clone(), bytes).await?;
        let refused = |error: RegionError| NotLent::Refused(error.to_string());
        let shared = region.share(Access::ALL).map_err(refused)?;
        cx.watch(&tenant);
        self.lent.insert(address, (region, taken));
        *self.used.entry(node).or_default() += taken;
        Ok(shared)
    }

    /// Takes back what a tenant had.
    #[handler]
    fn down(&mut self, msg: Down, cx: &mut Context<Self>) {
        let Some((region, taken)) = self.lent.remove(&msg.actor) else { return };
        let node: Arc<str> = msg.actor.node().into();
        // LM-1: one that does not let go of it has not got it back.
        let ended = async move { region.revoke_all().await };
        cx.pipe(ended, move |lender, (), _| lender.give_back(&node, taken));
    }
}

impl Lender {
    fn give_back(&mut self, node: &Arc<str>, taken: u64) {
        if let Some(used) = self.used.get_mut(node) {
            *used -= taken;
            if *used == 0 {
                self.used.remove(node);
            }
        }
    }
}

async fn memory(node: Node, bytes: u64) -> Result<Region<u64>, NotLent> {
    let refused = |error: RegionError| NotLent::Refused(error.to_string());
    let words = usize::try_from(bytes.div_ceil(8)).unwrap_or(usize::MAX);
    if bytes < SLOW_BYTES {
        return node.region(words).map_err(refused);
    }
    let made = tokio::task::spawn_blocking(move || node.region(words)).await;
    made.map_err(|lost| NotLent::Refused(lost.to_string()))?.map_err(refused)
}

/// Returns where a node lends memory.
fn lender(node: Arc<str>) -> Address {
    Address::by_name(node, name())
}

fn name() -> Arc<str> {
    format!("{RESERVED}memory").into()
}

impl Node {
    /// Lends memory to other nodes that ask for it ([`Peer::region`](crate::Peer::region)): up to
    /// so many bytes to each of them, counted in pages of 4 KiB. A node that lends nothing refuses.
    /// Returns false where it lends already, or shuts down.
    ///
    /// Memory that is lent is locked over RDMA, and given back when the other node drops it, or is
    /// down. A node is taken for the one that it says it is: so what all may have in all is this
    /// for each node of the cluster.
    pub fn lend_memory(&self, bytes_per_node: u64) -> bool {
        let (quota, lent, used) = (bytes_per_node, HashMap::new(), BTreeMap::new());
        self.spawn_own(name(), Lender { quota, lent, used })
    }
}

impl Peer {
    /// Has the node allocate `len` elements, all zero, for this one, until what this returns is
    /// dropped or this node is down. It waits as long as an [`Ask`](crate::Ask) does.
    ///
    /// # Errors
    /// [`RegionError::NotLent`] where it [lends](Node::lend_memory) nothing,
    /// [`RegionError::OverQuota`], [`RegionError::NodeDown`], [`RegionError::TooLarge`], or
    /// [`RegionError::Unable`] with the reason. Nothing is kept there then.
    ///
    /// # Cancel safety
    /// When the future is dropped what was allocated is given back.
    pub async fn region<T: Pod>(&self, len: usize) -> Result<PeerRegion<T>, RegionError> {
        let (node, element_bytes) = (self.node(), size_of::<T>());
        let bytes = len.checked_mul(element_bytes).filter(|bytes| *bytes <= BYTES_MAX);
        let bytes = bytes.ok_or(RegionError::TooLarge { len, element_bytes })? as u64;
        let name: Arc<str> = self.name().into();
        let unable = |why: String| RegionError::Unable { node: name.clone(), why };
        let tenant =
            node.spawn_anonymous(Tenant).await.map_err(|error| unable(error.to_string()))?;
        let resident = node.resident(tenant.address());
        let tenancy = Tenancy(resident.map_err(|error| unable(error.to_string()))?);
        let lender: Recipient<Lend, Outcome> = Recipient::bind(node, lender(name.clone()));
        let shared = match lender.ask(Lend { bytes, tenant }).await {
            Ok(Ok(shared)) => shared,
            Ok(Err(NotLent::OverQuota(left))) => {
                return Err(RegionError::OverQuota { node: name, left });
            }
            Ok(Err(NotLent::Refused(why))) => return Err(unable(why)),
            Err(AskError { cause: AskCause::NotSent(Cause::NodeUnreachable(down)), .. }) => {
                return Err(RegionError::NodeDown { node: name, down });
            }
            Err(AskError { cause: AskCause::NotSent(Cause::NoSuchActor), .. }) => {
                return Err(RegionError::NotLent(name));
            }
            Err(error) => return Err(unable(error.to_string())),
        };
        // It is the word of another node.
        if shared.node() != &*name || (shared.len() as u64) < bytes.div_ceil(8) {
            return Err(unable("it lent another memory than was asked for".into()));
        }
        let place = Whereabouts { len: len as u64, ..(*shared.place).clone() };
        Ok(PeerRegion { region: RemoteRegion::bind(node, place), _tenancy: tenancy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LM-1, LM-2: no number in a request does harm, nor do many requests: each takes a page at
    /// least, and what goes back is lent again.
    // Promised in docs/SEMANTICS.md.
    #[tokio::test]
    async fn requests_without_measure_are_bounded() {
        let node = Node::builder("alpha").listen("127.0.0.1:0").start().await.expect("it starts");
        assert!(node.lend_memory(10 * PAGE_BYTES + 1));
        assert!(!node.lend_memory(u64::MAX), "it lends already");
        let lender: Recipient<Lend, Outcome> = Recipient::bind(&node, lender("alpha".into()));
        let tenant = node.spawn_anonymous(Tenant).await.expect("it is spawned");
        for bytes in [u64::MAX, u64::MAX - 4095, 1 << 63, 11 * PAGE_BYTES] {
            let asked = lender.ask(Lend { bytes, tenant: tenant.clone() }).await;
            let refused = asked.expect("it answers").expect_err("it is too much");
            assert_eq!(refused, NotLent::OverQuota(10 * PAGE_BYTES + 1));
        }
        let mut kept = Vec::new();
        for _ in 0..10 {
            kept.push(node.peer("alpha").region::<u8>(1).await.expect("a page is left"));
        }
        for _ in 0..2_000 {
            let error = node.peer("alpha").region::<u8>(0).await.expect_err("none is left");
            assert_eq!(error, RegionError::OverQuota { node: "alpha".into(), left: 1 });
        }
        kept.pop();
        while node.peer("alpha").region::<u8>(1).await.is_err() {}
        drop(kept);
        let peer = node.peer("alpha");
        while peer.region::<u64>(5_120).await.is_err() {}
    }
}
