//! The actors of the serving side: what `perf` and `doctor --peer` talk to.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringpost::Down;
use ringpost::prelude::*;
use ringpost::region::{Access, Region, RemoteRegion};
use ringpost::spawn::SpawnOptions;

use crate::counters::{self, Counts};
use crate::networks::{self, Rail};
use crate::settings::{self, GOODBYE};

/// The name of the desk.
pub(crate) const DESK: &str = "desk";

/// Sinks at once for one measurement.
pub(crate) const SINKS_MAX: usize = 64;

/// Bytes of the region that all clients of a desk read and write, and words of the other one.
const REGION_BYTES: usize = 8 << 20;
const REGION_WORDS: usize = 8;

/// The regions of a desk, which all its clients share.
#[message]
#[derive(Clone)]
pub(crate) struct Regions {
    /// To read and to write.
    pub(crate) bytes: RemoteRegion<u8>,
    /// For atomic operations.
    pub(crate) words: RemoteRegion<u64>,
}

/// The large messages and answers that a node was lent by another one.
#[message]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fetched {
    /// Messages that this node's device read from the lender's memory.
    pub(crate) fetched: u64,
    /// Messages that came in parts instead.
    pub(crate) refused: u64,
}

impl Fetched {
    /// Returns what `node` was lent by the node of this name so far.
    pub(crate) fn by(node: &Node, lender: &str) -> Self {
        let links = node.links();
        let of_lender = links.iter().filter(|(name, _)| name.as_str() == lender);
        of_lender.fold(Fetched { fetched: 0, refused: 0 }, |sum, (_, carried)| Fetched {
            fetched: sum.fetched + carried.fetches.fetched,
            refused: sum.refused + carried.fetches.refused,
        })
    }
}

/// A message that a sink counts.
#[message]
pub(crate) struct Load {
    pub(crate) payload: Vec<u8>,
}

/// A message that a sink sends back.
#[message]
pub(crate) struct Mirror {
    pub(crate) payload: Vec<u8>,
}

/// An actor that counts messages and sends them back. Spawned by a [`Meter`].
#[actor]
pub(crate) struct Sink {
    /// The meter reads it, and nothing but this actor writes it.
    handled: Arc<AtomicU64>,
}

#[handlers]
impl Sink {
    #[handler]
    fn load(&mut self, msg: View<Load>) {
        let handled = self.handled.load(Ordering::Relaxed) + u64::from(!msg.payload.is_empty());
        self.handled.store(handled, Ordering::Relaxed);
    }

    #[handler]
    fn mirror(&self, msg: View<Mirror>) -> Vec<u8> {
        msg.payload.to_vec()
    }

    /// Returns how many messages it has counted.
    #[handler]
    pub(crate) fn handled(&self) -> u64 {
        self.handled.load(Ordering::Relaxed)
    }
}

/// An actor of the measuring side: when it ends, or its node does, its sinks end, too.
#[actor]
pub(crate) struct Owner;

#[handlers]
impl Owner {}

/// An actor that has the sinks of one measurement as its children. Spawned by a [`Desk`].
pub(crate) struct Meter {
    counts: Vec<Arc<AtomicU64>>,
    sinks: Vec<ActorRef<Sink>>,
    owner: ActorRef<Owner>,
}

#[actor]
impl Actor for Meter {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        cx.watch(&self.owner);
        for handled in &self.counts {
            let sink = Sink { handled: handled.clone() };
            self.sinks.push(cx.spawn_once(SpawnOptions::anonymous(), sink).await?);
        }
        tracing::debug!(owner = %self.owner.address(), "a measurement has begun");
        Ok(())
    }
}

#[handlers]
impl Meter {
    /// Returns the sinks.
    #[handler]
    pub(crate) fn sinks(&self) -> Vec<ActorRef<Sink>> {
        self.sinks.clone()
    }

    /// Returns how many messages the sinks have counted together. It does not wait behind the
    /// messages to them.
    #[handler]
    pub(crate) fn level(&self) -> u64 {
        self.counts.iter().map(|handled| handled.load(Ordering::Relaxed)).sum()
    }

    /// Counts the messages that the owner's node lent to the node of this actor.
    #[handler]
    pub(crate) fn count_fetched(&self, cx: &mut Context<Self>) -> Fetched {
        Fetched::by(cx.node(), self.owner.address().node())
    }

    #[handler]
    fn down(&mut self, msg: Down, cx: &mut Context<Self>) {
        tracing::debug!(owner = %msg.actor, exit = %msg.exit, "a measurement has ended");
        cx.stop();
    }
}

/// The actor that clients know by its name.
#[actor]
pub(crate) struct Desk {
    /// Where nodes for pairs of addresses listen.
    listen: String,
    advertise: Vec<String>,
    /// The node for the pair of addresses that is tried; the next pair ends it.
    pair: Option<Node>,
    /// Made for the first client that asks for them.
    shared: Option<Shared>,
}

/// Regions of a desk, and the references to them that it hands out.
struct Shared {
    /// Kept, since they stay shared only until they are dropped.
    _owned: (Region<u8>, Region<u64>),
    regions: Regions,
}

impl Shared {
    fn new(node: &Node) -> Result<Self, BoxError> {
        let owned = (node.region(REGION_BYTES)?, node.region(REGION_WORDS)?);
        let bytes = owned.0.share(Access::READ | Access::WRITE)?;
        let words = owned.1.share(Access::ATOMIC)?;
        Ok(Shared { _owned: owned, regions: Regions { bytes, words } })
    }
}

impl Desk {
    /// Returns a desk whose nodes for pairs of addresses listen there.
    pub(crate) fn new(listen: String, advertise: Vec<String>) -> Self {
        Desk { listen, advertise, pair: None, shared: None }
    }
}

#[handlers]
impl Desk {
    /// Spawns `count` sinks for a measurement of `owner`.
    #[handler]
    pub(crate) async fn open(
        &self,
        count: u32,
        owner: ActorRef<Owner>,
        cx: &mut Context<Self>,
    ) -> Result<ActorRef<Meter>, String> {
        let count = count as usize;
        if count > SINKS_MAX {
            return Err(format!("{count} senders are too many: at most {SINKS_MAX} can be"));
        }
        let counts = (0..count).map(|_| Arc::default()).collect();
        let meter = Meter { counts, sinks: Vec::new(), owner };
        cx.node().spawn_anonymous(meter).await.map_err(|error| error.to_string())
    }

    /// Returns the addresses of this machine that links over RDMA can use, or why there is none.
    #[handler]
    pub(crate) fn rails(&self) -> Result<Vec<Rail>, String> {
        networks::rails()
    }

    /// Starts a node that has one address for RDMA only, and returns the port at which it listens.
    /// It takes the place of an earlier one: there is one `doctor` at a time.
    #[handler]
    pub(crate) async fn pair(&mut self, rail: Rail) -> Result<u16, String> {
        if let Some(earlier) = self.pair.take() {
            earlier.shutdown(GOODBYE).await;
        }
        let node = serve_pair(&rail, self.listen.clone(), self.advertise.clone()).await?;
        let address = node.addresses().into_iter().next().unwrap_or_default();
        let port = address.rsplit(':').next().and_then(|port| port.parse().ok());
        self.pair = Some(node);
        port.ok_or_else(|| format!("the node for {rail} has no port: its address is `{address}`"))
    }

    /// Returns the regions, which are of one size however many clients there are.
    #[handler]
    pub(crate) fn open_regions(&mut self, cx: &mut Context<Self>) -> Result<Regions, String> {
        let shared = match self.shared.take() {
            Some(shared) => shared,
            None => Shared::new(cx.node()).map_err(|error| error.to_string())?,
        };
        Ok(self.shared.insert(shared).regions.clone())
    }

    /// Returns what the adapters of this machine have counted; `None` where there is none.
    #[handler]
    pub(crate) fn counters(&self) -> Option<Counts> {
        counters::read(counters::DEVICES.as_ref())
    }
}

/// Boxed, as its desk is of the type whose handler calls it.
fn serve_pair(
    rail: &Rail,
    listen: String,
    advertise: Vec<String>,
) -> Pin<Box<dyn Future<Output = Result<Node, String>> + Send>> {
    let network = networks::at(rail);
    Box::pin(async move {
        let text = |error: &dyn std::error::Error| error.to_string();
        let builder = settings::server(&listen, &advertise).map_err(|error| text(&error))?;
        let node = builder.network(network?).start().await.map_err(|error| text(&error))?;
        let desk = Desk::new(listen, advertise);
        node.spawn(DESK, desk).await.map_err(|error| text(&error))?;
        Ok(node)
    })
}
