//! Links that could not have the best fabric go back to it.

use std::sync::atomic::{AtomicU64, Ordering};

use futures::FutureExt;
use tokio::time::sleep;
use zeroize::Zeroizing;

use super::altered::{Alteration, Altered, Connecting};
use super::simulated::sim_config;
use super::*;
use crate::fabric::sim::{self, World};
use crate::fabric::{Fabric, FabricError, Opening};
use crate::limits;

/// A fabric under another name, whose queue pairs can be connected while it is open.
#[derive(Debug, Clone)]
pub(super) struct Gate {
    name: &'static str,
    /// Odd while it is open; what the fabric knows of it.
    changes: Arc<AtomicU64>,
    /// It tells of its changes.
    tells: bool,
}

impl Gate {
    pub(super) fn new(name: &'static str, is_open: bool, tells: bool) -> Self {
        Gate { name, changes: Arc::new(AtomicU64::new(u64::from(is_open))), tells }
    }

    /// Opens it, or closes it.
    pub(super) fn turn(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }
}

impl Alteration for Gate {
    fn name(&self, _: &dyn Fabric) -> &'static str {
        self.name
    }

    fn changes(&self) -> u64 {
        if self.tells { self.changes.load(Ordering::Relaxed) } else { 0 }
    }

    fn connect(
        self,
        opening: Box<dyn Opening>,
        peer: Zeroizing<Vec<u8>>,
        way: usize,
    ) -> Connecting {
        if self.changes.load(Ordering::Relaxed) % 2 == 1 {
            return opening.connect(peer, way);
        }
        async { Err(FabricError::Offer("a closed gate")) }.boxed()
    }
}

/// Returns the settings of a node that has this fabric, and one of a second name.
pub(super) fn gated(world: &World, name: &str, seeds: &[&str], first: &Gate) -> Config {
    let mut config = sim_config(world, name, seeds);
    let fabric = config.network.fabrics[0].clone();
    let altered = |by: &Gate| -> Arc<dyn Fabric> {
        Arc::new(Altered { fabric: fabric.clone(), by: by.clone() })
    };
    config.network.fabrics = vec![altered(first), altered(&Gate::new("second", true, false))];
    config
}

async fn two(world: &World, first: &Gate) -> [Node; 2] {
    let alpha = Node::start(gated(world, "alpha", &[], first)).await.unwrap();
    let beta = Node::start(gated(world, "beta", &["alpha"], first)).await.unwrap();
    alpha.mesh.ready(1).await;
    beta.mesh.ready(1).await;
    [alpha, beta]
}

const BACK: [&str; 3] = [
    "beta up over second",
    "beta lost: it gives way to a link by a better fabric",
    "beta up over first",
];

/// Nothing tells that the fabric is there again: it is tried after a while.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_link_goes_back_to_the_best_fabric_after_a_while() {
    for seed in 0..crate::cases(4) {
        sim::run(seed, |world| async move {
            let gate = Gate::new("first", false, false);
            let [alpha, beta] = two(&world, &gate).await;
            gate.turn();
            sleep(limits::BETTER_FABRIC_PAUSE_MIN - Duration::from_secs(2)).await;
            assert_eq!(alpha.watcher.texts(), BACK[..1], "seed {seed}");
            sleep(Duration::from_secs(7)).await;
            assert_eq!(alpha.watcher.texts(), BACK, "seed {seed}");
            assert!(beta.watcher.texts().ends_with(&["alpha up over first".into()]));
            sleep(Duration::from_secs(1800)).await;
            assert_eq!(alpha.watcher.texts(), BACK, "it stays there");
        });
    }
}

/// A cable was pulled for a moment, of which no device knows.
#[test]
fn a_link_goes_back_soon_to_a_fabric_that_it_had() {
    for seed in 0..20 {
        sim::run(seed, |world| async move {
            let gate = Gate::new("first", true, false);
            let [alpha, _beta] = two(&world, &gate).await;
            let is_last = |text| alpha.watcher.texts().last().is_some_and(|last| last == text);
            assert!(is_last("beta up over first"), "seed {seed}");
            for _ in 0..2 {
                sleep(limits::BETTER_FABRIC_PAUSE_MIN).await;
                gate.turn();
                world.sever_data("alpha", "beta");
                while !is_last("beta up over second") {
                    sleep(Duration::from_millis(100)).await;
                }
                gate.turn();
                sleep(limits::BETTER_FABRIC_AFTER + Duration::from_secs(3)).await;
                assert!(is_last("beta up over first"), "seed {seed}: {:?}", alpha.watcher.texts());
            }
        });
    }
}

/// A port is up again, say: the fabric tells, and is tried soon.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_link_goes_back_to_a_fabric_that_tells_of_a_change() {
    for seed in 0..20 {
        sim::run(seed, |world| async move {
            let gate = Gate::new("first", false, true);
            let [alpha, _beta] = two(&world, &gate).await;
            sleep(Duration::from_secs(30)).await;
            gate.turn();
            sleep(Duration::from_secs(3)).await;
            assert_eq!(alpha.watcher.texts(), BACK, "seed {seed}");
        });
    }
}

/// A port that flaps, or a device that says something each second, does not have links flap, too.
#[test]
fn a_fabric_that_changes_all_the_time_is_tried_ever_more_rarely() {
    sim::run(4, |world| async move {
        let gate = Gate::new("first", false, true);
        let [alpha, _beta] = two(&world, &gate).await;
        for _ in 0..3000 {
            sleep(Duration::from_secs(1)).await;
            // It is closed again when anyone looks.
            (0..2).for_each(|_| gate.turn());
        }
        let texts = alpha.watcher.texts();
        let tries = texts.iter().filter(|text| text.ends_with(" up over second")).count() - 1;
        // After 5, 7.5, 15, 30, 60 and 120 seconds, then each 225.
        assert!((10..22).contains(&tries), "{tries} tries in 50 minutes");
        gate.turn();
        sleep(Duration::from_secs(230)).await;
        assert!(alpha.watcher.texts().ends_with(&["beta up over first".into()]));
    });
}

/// A fabric that stays away is tried ever more rarely, and no node is down meanwhile.
#[test]
fn a_fabric_that_stays_away_is_tried_ever_more_rarely() {
    sim::run(3, |world| async move {
        let [alpha, beta] = two(&world, &Gate::new("first", false, false)).await;
        let tries = |node: &Node| {
            let texts = node.watcher.texts();
            assert!(!texts.iter().any(|text| text.contains(" down: ")), "{texts:?}");
            texts.iter().filter(|text| text.ends_with(" up over second")).count() - 1
        };
        // After 1, 2, 4, 8 and 16 minutes.
        sleep(Duration::from_secs(33 * 60)).await;
        assert_eq!((tries(&alpha), tries(&beta)), (5, 5));
        sleep(Duration::from_secs(20 * 60)).await;
        assert_eq!(tries(&alpha), 5);
    });
}
