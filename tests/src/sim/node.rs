//! A node that takes messages at once, for scenarios about connections and throughput.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use ringpost_transport::endpoint::{
    Awaited, CloseNotice, Config, ConnectError, Endpoint, Network, Profile, ReplyLoss, Secret,
    SendKind, Waiter,
};
use ringpost_transport::fabric::sim::World;
use ringpost_transport::host::{
    Accepted, Deliveries, Delivery, Host, Inbox, LinkCause, Lost, MessageForms, NodeDownCause,
    OpenRefusal, OpenRequest, PeerEvent, Refusal, Target,
};
use ringpost_transport::id::{NodeId, NodeName};
use rkyv::util::AlignedVec;

const MESSAGE: MessageForms = MessageForms { id: 78, layouts: &[1], replies: &[1] };

/// Messages to a mailbox whose name begins with this stay in it.
pub(super) const STUCK: &str = "stuck";

/// A node.
pub(super) struct Node {
    pub(super) name: String,
    /// Its name in the world: two nodes may have one name, but not one place.
    pub(super) place: String,
    pub(super) endpoint: Endpoint,
    pub(super) host: Arc<Witness>,
}

impl Node {
    /// Starts it; the seeds are places.
    pub(super) async fn start(
        world: &World,
        (name, place): (&str, &str),
        seeds: impl IntoIterator<Item = &str>,
        profile: Profile,
    ) -> Self {
        Node::advertising(world, (name, place), seeds, profile, Vec::new()).await
    }

    /// Starts it as [`start`](Self::start) does; it tells its peers these addresses.
    pub(super) async fn advertising(
        world: &World,
        (name, place): (&str, &str),
        seeds: impl IntoIterator<Item = &str>,
        profile: Profile,
        advertise: Vec<String>,
    ) -> Self {
        let config = config(world, (name, place), seeds, profile, advertise);
        let host = Arc::new(Witness::default());
        let endpoint = Endpoint::start(config, host.clone()).await.expect("a node starts");
        let (name, place) = (name.to_owned(), place.to_owned());
        Node { name, place, endpoint, host }
    }

    /// Returns true if a node starts with this profile. It ends at once.
    pub(super) async fn starts_with(world: &World, at: (&str, &str), profile: Profile) -> bool {
        let config = config(world, at, [], profile, Vec::new());
        match Endpoint::start(config, Arc::new(Witness::default())).await {
            Ok(endpoint) => {
                endpoint.abort();
                true
            }
            Err(_) => false,
        }
    }

    /// The run of the node `name` that this one is linked to.
    pub(super) fn linked(&self, name: &str) -> Option<NodeId> {
        self.endpoint.linked().into_iter().find(|node| node.name.as_str() == name)
    }

    /// Returns true if this one is linked to that run, or was until neither used the link.
    pub(super) fn knows(&self, other: &Node) -> bool {
        let run = other.endpoint.id();
        self.linked(&other.name).as_ref() == Some(run) || self.host.is_idle(run)
    }

    /// Tells a mailbox of the node `name`; when `confirmed`, waits until it is there.
    pub(super) async fn tell(
        &self,
        name: &str,
        mailbox: &str,
        bytes: usize,
        confirmed: bool,
    ) -> Result<(), String> {
        let kind = if confirmed { SendKind::ConfirmedTell } else { SendKind::Tell };
        match self.send((name, mailbox), kind, bytes).await? {
            Awaited::Fate(fate) => fate.await.map_err(|fate| format!("its fate: {fate:?}")),
            _ => Ok(()),
        }
    }

    /// Asks a mailbox of the node `name`, which answers that it does not begin.
    pub(super) async fn ask(&self, name: &str, mailbox: &str) -> Result<(), String> {
        let kind = SendKind::Ask { deadline: None };
        let Awaited::Reply(reply) = self.send((name, mailbox), kind, 64).await? else {
            return Err("an ask has a reply".into());
        };
        match reply.await {
            Ok(_) | Err(ReplyLoss::Failed(_)) => Ok(()),
            Err(loss) => Err(format!("its answer: {loss:?}")),
        }
    }

    async fn send(
        &self,
        (name, mailbox): (&str, &str),
        kind: SendKind,
        bytes: usize,
    ) -> Result<Awaited, String> {
        let target = Target::Name(mailbox.to_owned());
        let name = NodeName::new(name).expect("a good name");
        let remote = self.endpoint.remote_sender(&name, OpenRequest::new(target, 0));
        let mut waiter = Waiter::default();
        let mut archive = |_: u8, out: &mut AlignedVec<16>| {
            out.resize(bytes, 7);
            Ok(None)
        };
        let sent = poll_fn(|cx| remote.poll_send(&MESSAGE, kind, &mut archive, &mut waiter, cx));
        sent.await.map_err(|unsent| unsent.to_string())
    }
}

/// The layer above: sees the links come and go, and takes messages at once.
#[derive(Default)]
pub(super) struct Witness {
    boxes: Mutex<BTreeMap<String, Arc<Basket>>>,
    seen: Mutex<Seen>,
    pub(super) taken: Arc<AtomicU64>,
}

/// The events of links and nodes.
#[derive(Default)]
pub(super) struct Seen {
    /// The run of each linked peer, and the run of each peer that was not reported down.
    linked: BTreeMap<String, NodeId>,
    alive: BTreeMap<String, NodeId>,
    pub(super) ups: u64,
    pub(super) replaced: u64,
    pub(super) restarted: u64,
    /// Runs of peers whose last link was closed because neither side used it.
    idle: BTreeMap<String, NodeId>,
    pub(super) idle_ends: u64,
    /// Links to each peer so far.
    ups_of: BTreeMap<String, u64>,
    /// Runs of nodes that were reported down.
    pub(super) downs: Vec<NodeId>,
    /// Refusals of seeds.
    pub(super) refusals: Vec<ConnectError>,
    /// Orders of events that cannot be.
    pub(super) faults: Vec<String>,
}

impl Witness {
    /// Returns how many links there were to a peer.
    pub(super) fn ups_of(&self, name: &str) -> u64 {
        self.seen.lock().ups_of.get(name).copied().unwrap_or_default()
    }

    /// Returns true if the last link to this run was closed because neither side used it.
    pub(super) fn is_idle(&self, run: &NodeId) -> bool {
        self.seen.lock().idle.get(run.name.as_str()) == Some(run)
    }

    /// Takes the events seen so far.
    pub(super) fn seen(&self) -> Seen {
        std::mem::take(&mut self.seen.lock())
    }
}

impl Seen {
    /// ST-1: one link at a time, to one run of a node at a time.
    fn note(&mut self, event: PeerEvent) {
        match event {
            PeerEvent::LinkUp { peer, .. } => {
                self.ups += 1;
                let name = peer.name.to_string();
                self.idle.remove(&name);
                *self.ups_of.entry(name.clone()).or_default() += 1;
                if self.linked.insert(name.clone(), peer.clone()).is_some() {
                    self.faults.push(format!("ST-1: {name} is linked twice"));
                }
                if self.alive.insert(name, peer.clone()).is_some_and(|earlier| earlier != peer) {
                    let what = "is linked again, and its earlier run was not reported down";
                    self.faults.push(format!("ST-1: {} {what}", peer.name));
                }
            }
            PeerEvent::LinkDown { peer, cause } => {
                self.replaced += u64::from(cause == LinkCause::Replaced);
                if cause == LinkCause::Idle {
                    self.idle_ends += 1;
                    self.idle.insert(peer.name.to_string(), peer.clone());
                }
                if self.linked.remove(peer.name.as_str()) != Some(peer.clone()) {
                    self.faults.push(format!("ST-1: {peer:?} is lost and was not linked"));
                }
            }
            PeerEvent::NodeDown { peer, cause } => {
                self.restarted += u64::from(cause == NodeDownCause::Restarted);
                self.downs.push(peer.clone());
                self.idle.remove(peer.name.as_str());
                let alive = self.alive.remove(peer.name.as_str());
                if alive != Some(peer.clone()) || self.linked.contains_key(peer.name.as_str()) {
                    self.faults.push(format!("ST-1: {peer:?} is down and was not missed"));
                }
            }
            PeerEvent::NodeLeaving { .. } => {}
            PeerEvent::Refused { error } => self.refusals.push(error),
            other => self.faults.push(format!("ST-1: {other:?}")),
        }
    }
}

impl Host for Witness {
    fn open(&self, _: &NodeId, request: &OpenRequest) -> Result<Arc<dyn Inbox>, OpenRefusal> {
        let Target::Name(name) = &request.target else { return Err(OpenRefusal::NoSuchMailbox) };
        let mut boxes = self.boxes.lock();
        let id = boxes.len() as u64 + 1;
        let basket = boxes.entry(name.clone()).or_insert_with(|| {
            let stuck = name.starts_with(STUCK).then(Mutex::default);
            Arc::new(Basket { id, stuck, taken: self.taken.clone(), notices: Mutex::default() })
        });
        Ok(basket.clone())
    }

    fn lost(&self, _: Lost) {}

    fn event(&self, event: PeerEvent) {
        self.seen.lock().note(event);
    }
}

/// A mailbox.
struct Basket {
    id: u64,
    /// The messages that stay in it, if it is stuck.
    stuck: Option<Mutex<Vec<Delivery>>>,
    taken: Arc<AtomicU64>,
    notices: Mutex<Vec<CloseNotice>>,
}

impl Inbox for Basket {
    fn id(&self) -> u64 {
        self.id
    }

    fn accepted(&self) -> Vec<Accepted> {
        vec![MESSAGE.newest()]
    }

    fn deliver(&self, run: &mut Vec<Deliveries>) -> Result<(), Refusal> {
        let run = run.drain(..).flatten();
        match &self.stuck {
            Some(stuck) => stuck.lock().extend(run),
            None => drop(self.taken.fetch_add(run.count() as u64, Ordering::Relaxed)),
        }
        Ok(())
    }

    fn signal(&self, _: u16) {}

    fn on_close(&self, notice: CloseNotice) {
        self.notices.lock().push(notice);
    }
}

/// Returns the configuration of a node.
fn config<'a>(
    world: &World,
    (name, place): (&str, &str),
    seeds: impl IntoIterator<Item = &'a str>,
    profile: Profile,
    advertise: Vec<String>,
) -> Config {
    let (wire, fabric) = world.network(place);
    Config {
        name: NodeName::new(name).expect("a good name"),
        listen: Some(format!("{place}:7700")),
        advertise,
        seeds: seeds.into_iter().map(|place| format!("{place}:7700")).collect(),
        secret: Some(Secret::new(super::SECRET).expect("long enough")),
        encryption: Default::default(),
        also_accept: Vec::new(),
        refused_addresses: Vec::new(),
        linger: Duration::ZERO,
        metrics_by_peer: false,
        profile,
        entropy: world.entropy(),
        network: Network { wire, fabrics: vec![fabric], doors: Default::default() },
    }
}
