//! Meshes of several nodes in one process: over loopback TCP here and in `tcp`, over the simulator
//! in `simulated`.

#[cfg(feature = "sim")]
mod altered;
#[cfg(feature = "sim")]
mod asking;
#[cfg(feature = "sim")]
mod better;
#[cfg(feature = "sim")]
mod connecting;
#[cfg(feature = "sim")]
mod crowd;
#[cfg(feature = "sim")]
mod dialling;
mod encryption;
#[cfg(feature = "sim")]
mod fates;
mod forgotten;
#[cfg(feature = "sim")]
mod haste;
mod hostile;
#[cfg(feature = "sim")]
mod idle;
#[cfg(feature = "sim")]
mod idle_close;
mod inbox;
#[cfg(feature = "sim")]
mod lazy_device;
mod liveness;
mod over;
#[cfg(feature = "sim")]
mod panics;
#[cfg(feature = "sim")]
mod rogue;
#[cfg(feature = "sim")]
mod seeds;
#[cfg(feature = "srv")]
mod services;
#[cfg(feature = "sim")]
mod sharing;
#[cfg(feature = "sim")]
mod sharing_at_random;
#[cfg(feature = "sim")]
mod sharing_by_device;
mod sharing_in_stripes;
mod sharing_under_way;
#[cfg(feature = "sim")]
mod simulated;
#[cfg(feature = "sim")]
mod slow_reader;
#[cfg(feature = "sim")]
mod stalls;
#[cfg(feature = "sim")]
mod strangers;
mod tcp;
#[cfg(feature = "sim")]
mod times;
#[cfg(feature = "sim")]
mod warnings;
#[cfg(feature = "sim")]
mod ways;

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::{Mesh, StartError};
use crate::bootstrap::Secret;
use crate::cause::{NodeDown, NodeDownCause, OpenRefusal};
use crate::config::{Config, Network};
use crate::entropy::Entropy;
use crate::host::{Host, Inbox, Lost, PeerEvent};
use crate::id::{NodeId, NodeName};
use crate::link::LinkHandle;
use crate::open_request::OpenRequest;
use crate::profile::Profile;

/// A layer above that only watches.
#[derive(Default)]
struct Watcher {
    events: Mutex<Vec<PeerEvent>>,
    count: watch::Sender<usize>,
}

impl Host for Watcher {
    fn open(&self, _: &NodeId, _: &OpenRequest) -> Result<Arc<dyn Inbox>, OpenRefusal> {
        Err(OpenRefusal::NoSuchMailbox)
    }

    fn lost(&self, lost: Lost) {
        panic!("nothing was sent, but {lost:?} was lost");
    }

    fn event(&self, event: PeerEvent) {
        self.events.lock().push(event);
        self.count.send_modify(|count| *count += 1);
    }
}

impl Watcher {
    fn texts(&self) -> Vec<String> {
        self.events.lock().iter().map(text).collect()
    }

    /// Waits until there were `expected` events.
    #[cfg(feature = "sim")]
    async fn until_count(&self, expected: usize) {
        let _ = self.count.subscribe().wait_for(|count| *count >= expected).await;
    }

    /// Waits until the events are these.
    async fn until(&self, expected: &[&str]) {
        let mut count = self.count.subscribe();
        let came = count.wait_for(|count| *count >= expected.len());
        if tokio::time::timeout(Duration::from_secs(60), came).await.is_err() {
            panic!("expected {expected:?}, got {:?}", self.texts());
        }
        assert_eq!(self.texts(), expected);
    }
}

fn text(event: &PeerEvent) -> String {
    match event {
        PeerEvent::LinkUp { peer, fabric } => format!("{} up over {fabric}", peer.name),
        PeerEvent::LinkDown { peer, cause } => format!("{} lost: {cause}", peer.name),
        PeerEvent::NodeDown { peer, cause: NodeDownCause::Silent { .. } } => {
            format!("{} down: silent", peer.name)
        }
        PeerEvent::NodeDown { peer, cause: NodeDownCause::Gone { .. } } => {
            format!("{} down: gone", peer.name)
        }
        PeerEvent::NodeDown { peer, cause } => format!("{} down: {cause}", peer.name),
        PeerEvent::Refused { error } => format!("refused: {:?}", error.cause),
        PeerEvent::NodeLeaving { peer } => format!("{} leaves", peer.name),
        PeerEvent::Paused { lasted } => format!("stood still for {} s", lasted.as_secs()),
    }
}

/// A node under test.
struct Node {
    mesh: Arc<Mesh>,
    watcher: Arc<Watcher>,
}

impl Node {
    async fn start(config: Config) -> Result<Node, StartError> {
        let watcher = Arc::new(Watcher::default());
        let mesh = Mesh::start(config, watcher.clone()).await?;
        Ok(Node { mesh, watcher })
    }

    fn address(&self) -> String {
        self.mesh.addresses()[0].clone()
    }

    fn linked(&self) -> Vec<String> {
        self.mesh.linked().iter().map(|node| node.name.to_string()).collect()
    }

    async fn link(&self, name: &str) -> Result<Arc<LinkHandle>, NodeDown> {
        let peer = self.mesh.peer(&NodeName::new(name).unwrap());
        let mut ticket = None;
        poll_fn(|cx| peer.poll_link(&mut ticket, false, cx)).await
    }

    /// As [`link`](Self::link), also while the node is down.
    #[cfg(feature = "sim")]
    async fn patient_link(&self, name: &str) -> Result<Arc<LinkHandle>, NodeDown> {
        let peer = self.mesh.peer(&NodeName::new(name).unwrap());
        let mut ticket = None;
        poll_fn(|cx| peer.poll_link(&mut ticket, true, cx)).await
    }

    async fn shutdown(&self) {
        self.mesh.shutdown(Duration::from_secs(5)).await;
        assert_eq!(self.mesh.linked(), []);
    }
}

/// Returns a node over the simulator.
#[cfg(feature = "sim")]
pub(super) async fn sim_mesh(world: &crate::fabric::sim::World, name: &str) -> Arc<Mesh> {
    simulated::node(world, name, &[]).await.mesh
}

fn config(name: &str, network: Network, seeds: &[String]) -> Config {
    Config {
        name: NodeName::new(name).unwrap(),
        listen: Some("127.0.0.1:0".into()),
        advertise: Vec::new(),
        seeds: seeds.to_vec(),
        secret: Some(Secret::numbered(3)),
        encryption: Default::default(),
        also_accept: Vec::new(),
        refused_addresses: Vec::new(),
        linger: Duration::ZERO,
        metrics_by_peer: false,
        profile: Profile { down_after: Duration::from_secs(3), ..Profile::small() },
        entropy: Entropy::os(),
        network,
    }
}
