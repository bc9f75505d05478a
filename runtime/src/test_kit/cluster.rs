//! The nodes of a simulated world, and operations on them and the network between them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use ringpost_transport::fabric::sim::{LinkModel, World};
use tokio::sync::broadcast::error::RecvError;

use crate::event::NodeEvent;
use crate::node::{Node, NodeBuilder};
use crate::remote::Network;

/// Interval of polling for changes without a notification.
const LOOK: Duration = Duration::from_millis(1);
const SECRET: &str = "a secret of tests, which no other cluster has or may have";

/// The nodes of one simulated world, its network and its clock. Clones are the same cluster.
///
/// A body gets one from [`Simulation::run`](super::Simulation::run). Methods that name a node panic
/// if the cluster never had a node of that name, because a misspelt fault would make a test pass.
#[derive(Clone)]
pub struct Cluster {
    shared: Arc<SharedCluster>,
}

struct SharedCluster {
    world: World,
    state: Mutex<ClusterState>,
}

#[derive(Default)]
struct ClusterState {
    /// By name; `None` for a node that was killed, or has only a builder.
    nodes: BTreeMap<String, Option<Node>>,
    usual: LinkModel,
    special: BTreeMap<(String, String), LinkModel>,
    /// Pairs of nodes: what the first sends to the second is dropped.
    cuts: BTreeSet<(String, String)>,
    paused: BTreeSet<String>,
}

impl Cluster {
    pub(super) fn new(seed: u64, links: LinkModel) -> Self {
        let (world, state) =
            (World::new(seed), ClusterState { usual: links, ..ClusterState::default() });
        world.set_links(links);
        Cluster { shared: Arc::new(SharedCluster { world, state: Mutex::new(state) }) }
    }

    /// Returns the node of this name. Starts it if it does not live, and links it with the others
    /// that it can reach.
    ///
    /// # Panics
    /// Panics if the node cannot be started.
    pub async fn node(&self, name: &str) -> Node {
        match self.living(name) {
            Some(node) => node,
            None => self.node_with(name, |builder| builder).await,
        }
    }

    /// Starts a node like [`node`](Self::node), with the settings that `describe` adds.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use ringpost::test_kit;
    ///
    /// test_kit::run(1, |cluster| async move {
    ///     let timeout = Duration::from_secs(1);
    ///     let node = cluster.node_with("alpha", |builder| builder.ask_timeout(timeout)).await;
    ///     assert_eq!(node.name(), "alpha");
    /// });
    /// ```
    ///
    /// # Panics
    /// Panics if the node cannot be started, or a node of this name lives.
    pub async fn node_with(
        &self,
        name: &str,
        describe: impl FnOnce(NodeBuilder) -> NodeBuilder,
    ) -> Node {
        assert!(self.living(name).is_none(), "the node {name} is started twice");
        let node = match describe(self.builder(name)).start().await {
            Ok(node) => node,
            Err(why) => panic!("the node {name} cannot start: {why}"),
        };
        self.adopt(&node);
        while !self.is_linked(&node) {
            self.sleep(LOOK).await;
        }
        node
    }

    /// Starts nodes called `n1`, `n2` and so on, all linked.
    ///
    /// # Panics
    /// Panics if a node cannot be started.
    pub async fn nodes(&self, count: usize) -> Vec<Node> {
        let mut nodes = Vec::new();
        for number in 1..=count {
            nodes.push(self.node(&format!("n{number}")).await);
        }
        nodes
    }

    /// Returns a builder for a node that dials the others. Use it to test steps that
    /// [`node`](Self::node) does for you: pass the started node to [`adopt`](Self::adopt),
    /// otherwise the cluster only knows its network.
    pub fn builder(&self, name: &str) -> NodeBuilder {
        let (wire, fabric) = self.world().network(name);
        let network = Network { wire, fabrics: vec![fabric], doors: Default::default() };
        let mut state = self.shared.state.lock();
        let others = state.nodes.keys().filter(|other| *other != name);
        let seeds: Vec<String> = others.map(|other| address(other)).collect();
        state.nodes.entry(name.to_owned()).or_default();
        drop(state);
        let builder = Node::builder(name).listen(address(name)).seeds(seeds).secret(SECRET);
        builder.network(network).entropy(self.world().entropy())
    }

    /// Adds a node to the cluster, and adds its events to the log.
    pub fn adopt(&self, node: &Node) {
        let name = node.name().to_owned();
        self.shared.state.lock().nodes.insert(name.clone(), Some(node.clone()));
        let (mut events, world) = (node.events(), self.world().clone());
        tokio::spawn(async move {
            loop {
                match events.recv().await {
                    Ok(event) => world.log(&format!("{name}: {}", text_of(&event))),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                }
            }
        });
    }

    /// Waits until all living nodes are linked with each other, except pairs with a cut or a pause.
    /// (It never ends if a link was closed because it was idle:
    /// [`Profile::idle_close`](crate::net::Profile::idle_close).)
    ///
    /// # Cancel safety
    /// The future can be dropped at any time without loss.
    pub async fn settle(&self) {
        while !self.all().iter().all(|node| self.is_linked(node)) {
            self.sleep(LOOK).await;
        }
    }

    /// Ends a node like the loss of its process: no goodbye, its links are gone, its actors are
    /// killed. Other nodes detect this as usual. Its name may be started again. (Tasks that the
    /// test itself has spawned go on, and values of actors are dropped.)
    ///
    /// # Cancel safety
    /// If the future is dropped, the node has ended, but some of its actors may end later.
    ///
    /// # Panics
    /// Panics if the cluster never had such a node.
    pub async fn kill(&self, name: &str) {
        self.check(name);
        let node = {
            let mut state = self.shared.state.lock();
            state.paused.remove(name);
            state.nodes.insert(name.to_owned(), None).flatten()
        };
        self.world().kill_node(name);
        if let Some(node) = node {
            node.crash().await;
        }
    }

    /// Kills a node and starts one with the same name, without actors.
    ///
    /// # Panics
    /// Panics if the cluster never had such a node, or it cannot be started.
    pub async fn restart(&self, name: &str) -> Node {
        self.kill(name).await;
        self.node(name).await
    }

    /// Cuts two nodes off from each other until they are [mended](Self::mend).
    pub fn cut(&self, a: &str, b: &str) {
        self.cut_one_way(a, b);
        self.cut_one_way(b, a);
    }

    /// Drops everything that one node sends to another.
    pub fn cut_one_way(&self, from: &str, to: &str) {
        self.set_cut(from, to, true);
    }

    /// Cuts a node off from all others.
    pub fn isolate(&self, name: &str) {
        for other in self.names().iter().filter(|other| *other != name) {
            self.cut(name, other);
        }
    }

    /// Ends the cuts between two nodes.
    pub fn mend(&self, a: &str, b: &str) {
        self.set_cut(a, b, false);
        self.set_cut(b, a, false);
    }

    /// Ends all cuts and pauses.
    pub fn mend_all(&self) {
        let (cuts, paused) = {
            let state = self.shared.state.lock();
            (state.cuts.clone(), state.paused.clone())
        };
        cuts.iter().for_each(|(from, to)| self.set_cut(from, to, false));
        paused.iter().for_each(|name| self.resume(name));
    }

    fn set_cut(&self, from: &str, to: &str, cut: bool) {
        self.check(from);
        self.check(to);
        let path = (from.to_owned(), to.to_owned());
        let mut state = self.shared.state.lock();
        let changes = if cut { state.cuts.insert(path) } else { state.cuts.remove(&path) };
        drop(state);
        match (changes, cut) {
            (true, true) => self.world().partition_one_way(from, to),
            (true, false) => self.world().mend_one_way(from, to),
            (false, _) => {}
        }
    }

    /// Holds back everything that a node sends and receives until it is [resumed](Self::resume).
    /// Its timers and its actors go on, unlike in a stopped process.
    pub fn pause(&self, name: &str) {
        self.check(name);
        if self.shared.state.lock().paused.insert(name.to_owned()) {
            self.world().pause(name);
        }
    }

    /// Resumes a paused node.
    pub fn resume(&self, name: &str) {
        self.check(name);
        if self.shared.state.lock().paused.remove(name) {
            self.world().resume(name);
        }
    }

    /// Sets the speed of all links without a model of their own.
    pub fn set_links(&self, links: LinkModel) {
        self.shared.state.lock().usual = links;
        self.world().set_links(links);
    }

    /// Sets the speed of the link from one node to another, but only in this direction.
    pub fn set_link(&self, from: &str, to: &str, link: LinkModel) {
        self.check(from);
        self.check(to);
        self.shared.state.lock().special.insert((from.to_owned(), to.to_owned()), link);
        self.world().set_link(from, to, link);
    }

    /// Returns the speed of the link from one node to another, in this direction.
    pub fn link(&self, from: &str, to: &str) -> LinkModel {
        let state = self.shared.state.lock();
        let path = (from.to_owned(), to.to_owned());
        state.special.get(&path).copied().unwrap_or(state.usual)
    }

    /// Waits until exactly this much virtual time has passed, to the nanosecond.
    pub async fn sleep(&self, time: Duration) {
        self.world().sleep(time).await;
    }

    /// Waits for a time that the seed draws, at most `longest`, so that the parts of a test run at
    /// different moments and in different orders with each seed.
    pub async fn sleep_up_to(&self, longest: Duration) {
        let time = self.up_to(longest);
        self.sleep(time).await;
    }

    /// Returns a time that the seed draws, at most `longest`.
    pub(super) fn up_to(&self, longest: Duration) -> Duration {
        let most = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.random() % most.saturating_add(1).max(1))
    }

    /// Returns the virtual time since the run began.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.world().now())
    }

    /// Returns a number that the seed draws.
    pub fn random(&self) -> u64 {
        self.world().random()
    }

    /// Returns the seed.
    pub fn seed(&self) -> u64 {
        self.world().seed()
    }

    /// Adds a line to the log, which a failure shows.
    pub fn log(&self, line: &str) {
        self.world().log(line);
    }

    /// Returns the log so far: a line per event, after its virtual time in nanoseconds. Every run
    /// of the same body with the same seed has the same log.
    pub fn log_text(&self) -> String {
        self.world().log_text()
    }

    /// Returns the simulated network itself, for faults of single frames, dials and bytes, lost
    /// devices, and names in DNS.
    pub fn world(&self) -> &World {
        &self.shared.world
    }

    /// Returns the names of all nodes that were ever started, in order.
    pub(super) fn names(&self) -> Vec<String> {
        self.shared.state.lock().nodes.keys().cloned().collect()
    }

    /// Returns true if everything that one node sends to the other is dropped.
    pub(super) fn is_cut(&self, from: &str, to: &str) -> bool {
        self.shared.state.lock().cuts.contains(&(from.to_owned(), to.to_owned()))
    }

    pub(super) fn is_paused(&self, name: &str) -> bool {
        self.shared.state.lock().paused.contains(name)
    }

    fn living(&self, name: &str) -> Option<Node> {
        self.all().into_iter().find(|node| node.name() == name)
    }

    /// Returns the living nodes, in the order of their names.
    fn all(&self) -> Vec<Node> {
        let state = self.shared.state.lock();
        let living = state.nodes.values().flatten().filter(|node| !node.residents().is_closed());
        living.cloned().collect()
    }

    /// Returns true if the node and every other living node are linked, in both directions. Pairs
    /// do not count if one of them is paused, or if the network is cut between them.
    fn is_linked(&self, node: &Node) -> bool {
        let apart = |a: &str, b: &str| self.is_cut(a, b) || self.is_cut(b, a);
        self.all().iter().filter(|other| other.id() != node.id()).all(|other| {
            let (a, b) = (node.name(), other.name());
            let is_off = apart(a, b) || self.is_paused(a) || self.is_paused(b);
            is_off || (node.linked().contains(other.id()) && other.linked().contains(node.id()))
        })
    }

    /// Returns one line of text for each actor that has messages or waits for others.
    pub(super) fn waits(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for node in self.all() {
            for actor in node.residents().all().iter().filter(|actor| !actor.is_tie()) {
                let (depth, awaits) =
                    (actor.intake().depth(), node.residents().awaited_by(&**actor));
                let messages = depth.local + depth.remote;
                let awaits = awaits.map_or(String::new(), |what| format!(", it waits for {what}"));
                if messages > 0 || !awaits.is_empty() {
                    lines.push(format!("{}: {messages} messages{awaits}", actor.address()));
                }
            }
        }
        lines
    }

    /// Drops all nodes.
    pub(super) fn forget(&self) {
        let nodes = std::mem::take(&mut self.shared.state.lock().nodes);
        drop(nodes);
    }

    /// Checks that the cluster has, or had, a node of this name.
    ///
    /// # Panics
    /// Panics if there never was a node of this name.
    fn check(&self, name: &str) {
        let names = self.names();
        let is_known = names.iter().any(|known| known == name);
        assert!(is_known, "the cluster has no node {name}; it has {names:?}");
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cluster(seed {}, {:?})", self.seed(), self.names())
    }
}

fn address(name: &str) -> String {
    format!("{name}:7700")
}

/// Returns an event of a node as a text for people.
fn text_of(event: &NodeEvent) -> String {
    match event {
        NodeEvent::LinkUp { node, .. } => format!("linked to {}", node.name),
        NodeEvent::LinkDown { node, cause } => format!("link to {} lost: {cause}", node.name),
        NodeEvent::NodeLeaving { node } => format!("{} is leaving", node.name),
        NodeEvent::NodeDown { node, cause } => format!("{} is down: {cause}", node.name),
        NodeEvent::Refused { error } => format!("refused: {error}"),
        NodeEvent::Paused { lasted } => format!("did not run for {lasted:?}"),
    }
}
