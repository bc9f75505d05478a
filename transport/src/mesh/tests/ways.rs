//! The ways of a fabric are tried in turn, by both sides.

use futures::FutureExt;
use zeroize::Zeroizing;

use super::altered::{Alteration, Altered, Connecting};
use super::sharing::{Owned, reached};
use super::simulated::sim_config;
use super::*;
use crate::fabric::one_sided::Access;
use crate::fabric::sim::{self, World};
use crate::fabric::{Fabric, FabricError, Opening, QueuePairConfig};
use crate::limits;

/// A simulated fabric with several ways, of which at most one leads anywhere.
#[derive(Debug, Clone, Default)]
struct Winding {
    name: &'static str,
    ways: usize,
    open: Option<usize>,
    /// The closed ways say nothing.
    hangs: bool,
    /// Time that the open way takes.
    late: Duration,
    /// The ways that come last.
    avoid: Vec<u32>,
    /// The attempts: name and way.
    tried: Arc<Mutex<Vec<(&'static str, usize)>>>,
}

impl Alteration for Winding {
    fn name(&self, _: &dyn Fabric) -> &'static str {
        self.name
    }

    fn opened(self, config: &QueuePairConfig) -> Self {
        Winding { avoid: config.avoid.clone(), ..self }
    }

    fn ways(&self, _: &dyn Opening, _peer: &[u8]) -> Vec<u32> {
        let mut ways: Vec<_> = (0..self.ways as u32).collect();
        ways.sort_by_key(|way| self.avoid.contains(way));
        ways
    }

    fn connect(
        self,
        opening: Box<dyn Opening>,
        peer: Zeroizing<Vec<u8>>,
        way: usize,
    ) -> Connecting {
        let way = self.ways(&*opening, &peer).get(way).map_or(way, |way| *way as usize);
        self.tried.lock().push((self.name, way));
        if self.open == Some(way) {
            return async move {
                tokio::time::sleep(self.late).await;
                opening.connect(peer, 0).await
            }
            .boxed();
        }
        if self.hangs {
            return std::future::pending().boxed();
        }
        async { Err(FabricError::Offer("a closed way")) }.boxed()
    }
}

/// How many ways each side counts in its `first` fabric, and which is open.
type Sides = [(usize, Option<usize>); 2];

/// Returns the fabric with the ways of the other.
fn altered(fabric: &Arc<dyn Fabric>, by: Winding) -> Arc<dyn Fabric> {
    Arc::new(Altered { fabric: fabric.clone(), by })
}

/// Links two nodes that have a `first` fabric of some ways, and a `second` of one. Returns the ways
/// that each tried, and the report of the link.
async fn meet(world: World, sides: Sides) -> ([Vec<(&'static str, usize)>; 2], String) {
    let mut nodes = Vec::new();
    for (name, (ways, open)) in ["alpha", "beta"].into_iter().zip(sides) {
        let mut config = sim_config(&world, name, &["alpha"]);
        let fabric = config.network.fabrics[0].clone();
        let first = Winding { name: "first", ways, open, ..Winding::default() };
        let second = Winding { name: "second", ways: 1, open: Some(0), ..first.clone() };
        let tried = first.tried.clone();
        config.network.fabrics = vec![altered(&fabric, first), altered(&fabric, second)];
        nodes.push((Node::start(config).await.unwrap(), tried));
    }
    nodes[0].0.mesh.ready(1).await;
    let tried = [0, 1].map(|at| nodes[at].1.lock().clone());
    (tried, nodes[0].0.watcher.texts()[0].clone())
}

/// Two nodes whose first fabric hangs in every way, and whose second one takes `late` to connect.
async fn hanging(world: &World, down_after: Duration, late: Duration) -> Vec<Node> {
    let mut nodes = Vec::new();
    for name in ["alpha", "beta"] {
        let mut config = sim_config(world, name, &["alpha"]);
        let fabric = config.network.fabrics[0].clone();
        let first =
            Winding { name: "first", ways: limits::WAYS_MAX, hangs: true, ..Winding::default() };
        let second = Winding { name: "second", ways: 1, open: Some(0), late, ..Winding::default() };
        config.network.fabrics = vec![altered(&fabric, first), altered(&fabric, second)];
        config.profile.down_after = down_after;
        nodes.push(Node::start(config).await.unwrap());
    }
    nodes[0].mesh.ready(1).await;
    nodes
}

/// Loses the link of two nodes; how long they take to be linked again.
async fn relinked_after(world: &World, nodes: &[Node]) -> Duration {
    let links =
        |node: &Node| node.watcher.texts().iter().filter(|text| text.contains(" up over ")).count();
    let before: Vec<usize> = nodes.iter().map(links).collect();
    world.sever_streams("alpha", "beta");
    let began = world.now();
    while nodes.iter().zip(&before).any(|(node, before)| links(node) == *before) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Duration::from_nanos(world.now() - began)
}

/// MS-4: a node that answers is not down, however long the fabrics take that come to nothing.
#[test]
fn a_node_is_not_down_while_a_fabric_is_tried_for_longer_than_a_silence_may_last() {
    for seed in 0..5 {
        sim::run(seed, |world| async move {
            let late = Duration::from_millis(2500);
            let nodes = hanging(&world, limits::DOWN_AFTER_MIN, late).await;
            let took = relinked_after(&world, &nodes).await;
            assert!(took > limits::DOWN_AFTER_MIN, "seed {seed}: {took:?}");
            for node in &nodes {
                let texts = node.watcher.texts();
                assert!(!texts.iter().any(|text| text.contains(" down: ")), "{texts:?}");
            }
        });
    }
}

/// All ways of a fabric together take half of the silence that finds a node down, at most, however
/// they hang.
#[test]
fn a_fabric_that_hangs_is_left_before_a_silence_would_be_over() {
    for down_after in [limits::DOWN_AFTER_MIN, limits::DOWN_AFTER] {
        sim::run(6, |world| async move {
            let nodes = hanging(&world, down_after, Duration::ZERO).await;
            let took = relinked_after(&world, &nodes).await;
            assert!(took < down_after, "{took:?}");
        });
    }
}

/// A way that failed is tried last on the next link, until it has been forgotten.
#[test]
fn a_way_that_failed_is_not_tried_first_again() {
    sim::run(7, |world| async move {
        let (mut nodes, mut tried) = (Vec::new(), Vec::new());
        for name in ["alpha", "beta"] {
            let mut config = sim_config(&world, name, &["alpha"]);
            let by = Winding { name: "first", ways: 3, open: Some(2), ..Winding::default() };
            tried.push(by.tried.clone());
            config.network.fabrics = vec![altered(&config.network.fabrics[0], by)];
            nodes.push(Node::start(config).await.unwrap());
        }
        nodes[0].mesh.ready(1).await;
        let take = || [0, 1].map(|at| std::mem::take(&mut *tried[at].lock()));
        assert_eq!(take(), [ways(0..3), ways(0..3)]);
        relinked_after(&world, &nodes).await;
        assert_eq!(take(), [ways(2..3), ways(2..3)]);
        world.sleep(limits::WAY_AVOIDED_FOR).await;
        relinked_after(&world, &nodes).await;
        assert_eq!(take(), [ways(0..3), ways(0..3)]);
    });
}

fn ways(range: std::ops::Range<usize>) -> Vec<(&'static str, usize)> {
    range.map(|way| ("first", way)).collect()
}

#[test]
fn the_ways_of_a_fabric_are_tried_in_turn() {
    sim::run(1, |world| async move {
        let (tried, text) = meet(world, [(3, Some(2)), (3, Some(2))]).await;
        assert_eq!(tried, [ways(0..3), ways(0..3)]);
        assert_eq!(text, "beta up over first");
    });
}

/// Only one side finds its first way closed: the other's is given up with it.
#[test]
fn both_sides_leave_a_way_together() {
    sim::run(2, |world| async move {
        let (tried, text) = meet(world, [(2, Some(0)), (2, Some(1))]).await;
        // A way that is open to one side only.
        let mut second = ways(0..2);
        second.push(("second", 0));
        assert_eq!(tried, [second.clone(), second]);
        assert_eq!(text, "beta up over second");
    });
}

#[test]
fn after_the_last_way_the_next_fabric_is_tried() {
    sim::run(3, |world| async move {
        let (tried, text) = meet(world, [(9, None), (9, None)]).await;
        let mut all = ways(0..limits::WAYS_MAX);
        all.push(("second", 0));
        assert_eq!(tried, [all.clone(), all]);
        assert_eq!(text, "beta up over second");
    });
}

/// The sides count the ways of an offer that cannot be used differently.
#[test]
fn sides_that_count_differently_still_agree() {
    for sides in [[(0, None), (3, None)], [(3, None), (1, None)]] {
        sim::run(4, |world| async move {
            let (tried, text) = meet(world, sides).await;
            let next = [("first", 0), ("second", 0)];
            assert_eq!(tried, [next, next]);
            assert_eq!(text, "beta up over second");
        });
    }
}

/// Shared memory is used by the way that the link took: the ways before it lead nowhere.
#[test]
fn shared_memory_is_used_by_the_way_of_the_link() {
    sim::run(3, |world| async move {
        let (mut nodes, mut tried) = (Vec::new(), Vec::new());
        for name in ["alpha", "beta"] {
            let mut config = sim_config(&world, name, &["alpha"]);
            let by = Winding { name: "first", ways: 3, open: Some(2), ..Winding::default() };
            tried.push(by.tried.clone());
            config.network.fabrics = vec![altered(&config.network.fabrics[0], by)];
            nodes.push(Node::start(config).await.unwrap());
        }
        nodes[0].mesh.ready(1).await;
        let owned = Owned::new(&nodes[0], 64, Access::ALL);
        let memory = reached(&nodes[1], &nodes[0], owned.share.id());
        assert_eq!(memory.fetch_add(0, 1).await, Ok(0));
        for tried in tried {
            assert_eq!(tried.lock()[3..], ways(2..3));
        }
    });
}
