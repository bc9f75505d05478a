//! The warnings about a peer that cannot be linked, or is refused: each cause once, however often
//! it is dialled or dials.

use futures::future::join_all;
use tokio::time::Instant;
use tracing::Level;

use super::altered::{Alteration, Altered};
use super::hostile::peer::{identity, silence};
use super::simulated::sim_config;
use super::*;
use crate::bootstrap::{self, Failure, Handshake, Identity, Rejection};
use crate::fabric::sim::{self, World};
use crate::fabric::{Fabric, FabricError};
use crate::limits;
use crate::memory::Region;
use crate::recorder::Recorder;
use crate::wire::Wire;

/// A fabric that cannot lock memory, until it is told how much it may. Holds the limit that it
/// names; none: it can.
#[derive(Debug, Clone)]
struct Locked(Arc<Mutex<Option<u64>>>);

impl Alteration for Locked {
    fn alloc(&self, fabric: &dyn Fabric, bytes: usize) -> Result<Region, FabricError> {
        match *self.0.lock() {
            Some(limit) => {
                Err(FabricError::Locked { need: bytes as u64, limit: limit.to_string() })
            }
            None => fabric.alloc(bytes),
        }
    }
}

#[test]
fn the_same_cause_is_warned_about_once_and_another_one_again() {
    let warnings = Recorder::new(Level::WARN);
    let _guard = tracing::subscriber::set_default(warnings.clone());
    // The node that cannot be linked dials, or is dialled.
    for (seed, alpha_dials) in [(1, true), (2, false)] {
        sim::run(seed, |world| {
            let warnings = warnings.clone();
            async move {
                let seeds: [&[&str]; 2] =
                    if alpha_dials { [&["beta"], &[]] } else { [&[], &["alpha"]] };
                let mut alpha = sim_config(&world, "alpha", seeds[0]);
                let fabric = alpha.network.fabrics[0].clone();
                let limit = Arc::new(Mutex::new(Some(65_536)));
                alpha.network.fabrics =
                    vec![Arc::new(Altered { fabric, by: Locked(limit.clone()) })];
                let alpha = Node::start(alpha).await.unwrap();
                let beta = Node::start(sim_config(&world, "beta", seeds[1])).await.unwrap();
                let a_while = || tokio::time::sleep(Duration::from_secs(60));
                let of = |limit: &str, warnings: Vec<String>| {
                    // One of each node.
                    assert_eq!(warnings.len(), 2, "{warnings:?}");
                    assert!(warnings.iter().all(|warning| warning.contains(limit)), "{warnings:?}");
                };
                a_while().await;
                of("65536 bytes", warnings.take());
                *limit.lock() = Some(70_000);
                a_while().await;
                of("70000 bytes", warnings.take());
                *limit.lock() = None;
                alpha.mesh.ready(1).await;
                beta.mesh.ready(1).await;
                assert_eq!(warnings.take(), Vec::<String>::new());
                // A failure is news again when all was well in between.
                *limit.lock() = Some(70_000);
                world.sever_streams("alpha", "beta");
                a_while().await;
                of("70000 bytes", warnings.take());
            }
        });
    }
}

/// Strangers that come in one virtual second.
const STRANGERS: u64 = 2_000;

#[test]
fn thousands_of_strangers_are_one_line_of_the_log_and_one_more_after_a_while() {
    let warnings = Recorder::new(Level::WARN);
    let _guard = tracing::subscriber::set_default(warnings.clone());
    sim::run(3, |world| {
        let warnings = warnings.clone();
        async move {
            let _alpha = Node::start(sim_config(&world, "alpha", &[])).await.unwrap();
            let mut stranger = identity("stranger");
            stranger.key = Secret::key(Some(&Secret::numbered(4)));
            let knock = || knock(&world, &stranger);
            for _ in 0..STRANGERS {
                knock().await;
            }
            let told = warnings.take();
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(told[0].contains("a connection was refused"), "{told:?}");
            tokio::time::sleep(limits::LOG_PERIOD).await;
            knock().await;
            let told = warnings.take();
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(told[0].contains(&format!("suppressed: {}", STRANGERS - 1)), "{told:?}");
        }
    });
}

/// A stranger that does not know the secret dials alpha and is refused.
async fn knock(world: &World, stranger: &Identity) {
    let wire = world.network("stranger").0;
    let stream = wire.dial("alpha:7700".into()).await.unwrap();
    let deadline = Instant::now() + limits::HANDSHAKE_TIMEOUT;
    let handshake = Handshake::dial(stranger);
    let met = bootstrap::meet(stream, handshake, &[], deadline, std::future::pending()).await;
    let Err(Failure::RejectedByPeer(Rejection::WrongSecret)) = met else {
        panic!("{:?}", met.map(|_| "met").unwrap_err());
    };
}

/// Names that one holder of the secret comes under.
const NAMES: usize = 50;

/// A peer that knows the secret has no more warnings written, whatever it calls itself.
#[test]
fn a_peer_that_comes_under_ever_new_names_is_one_line_of_the_log_for_each_cause() {
    let warnings = Recorder::new(Level::WARN);
    let _guard = tracing::subscriber::set_default(warnings.clone());
    sim::run(4, |world| {
        let warnings = warnings.clone();
        async move {
            let _beta = Node::start(sim_config(&world, "beta", &[])).await.unwrap();
            // Beta chooses the fabric of those, and waits for the choice of these.
            for (prefix, line) in
                [("c", "no fabric could be connected"), ("a", "a node was refused")]
            {
                join_all((0..NAMES).map(|number| leave_waiting(&world, prefix, number))).await;
                let told = warnings.take();
                assert_eq!(told.len(), 1, "{told:?}");
                assert!(told[0].contains(line), "{told:?}");
                tokio::time::sleep(limits::LOG_PERIOD).await;
                leave_waiting(&world, prefix, NAMES).await;
                let told = warnings.take();
                assert_eq!(told.len(), 1, "{told:?}");
                assert!(told[0].contains(&format!("suppressed: {}", NAMES - 1)), "{told:?}");
            }
        }
    });
}

/// Nodes that cannot be reached, more than have a line of the log each.
const UNREACHED: usize = 1_000;

/// The dials of many peers fail, again and again.
#[test]
fn a_thousand_nodes_that_are_not_reached_fill_no_log() {
    let log = Recorder::new(Level::INFO);
    let _guard = tracing::subscriber::set_default(log.clone());
    sim::run(7, |world| {
        let log = log.clone();
        async move {
            let alpha = Node::start(sim_config(&world, "alpha", &[])).await.unwrap();
            log.take();
            for number in 0..UNREACHED {
                let peer = alpha.mesh.peer(&NodeName::new(&format!("node-{number}")).unwrap());
                peer.learn(&[format!("node-{number}:7700")], "elsewhere:1");
                peer.want_link();
            }
            tokio::time::sleep(3 * limits::LOG_PERIOD).await;
            let lines = log.take();
            let of = |says: &str| lines.iter().filter(|line| line.contains(says)).count();
            let most = limits::PEER_LINES_MAX as usize;
            assert!((most..=3 * most).contains(&of("a node is not reached")), "{}", lines.len());
            assert!((1..=3).contains(&of("left_out")) && of("nodes not reached") > 0);
            assert_eq!(lines.len(), of("a node is not reached") + of("left_out"), "{lines:?}");
        }
    });
}

/// More than have a line each in one period, for longer.
#[test]
fn a_node_whose_line_was_left_out_is_named_later() {
    const NODES: usize = 2 * limits::PEER_LINES_MAX as usize + 20;
    let log = Recorder::new(Level::INFO);
    let _guard = tracing::subscriber::set_default(log.clone());
    sim::run(8, |world| {
        let log = log.clone();
        async move {
            let mut alpha = sim_config(&world, "alpha", &[]);
            alpha.profile.down_after = Duration::from_secs(600);
            let alpha = Node::start(alpha).await.unwrap();
            log.take();
            for number in 0..NODES {
                let peer = alpha.mesh.peer(&NodeName::new(&format!("node-{number}-")).unwrap());
                peer.learn(&[format!("node-{number}:7700")], "elsewhere:1");
                peer.want_link();
            }
            tokio::time::sleep(5 * limits::LOG_PERIOD).await;
            let lines = log.take();
            let names = |number: &usize| {
                let name = format!("node-{number}-");
                let says =
                    |line: &&String| line.contains("a node is not reached") && line.contains(&name);
                lines.iter().filter(says).count() == 1
            };
            assert_eq!((0..NODES).filter(names).count(), NODES, "{lines:?}");
        }
    });
}

/// A node above the bound is refused by name, and linked when another one has left.
// Promised in docs/SEMANTICS.md.
#[test]
fn nodes_at_one_address_have_no_more_links_than_it_may_have() {
    let log = Recorder::new(Level::INFO);
    let _guard = tracing::subscriber::set_default(log.clone());
    sim::run(5, |world| {
        let log = log.clone();
        async move {
            let mut alpha = sim_config(&world, "alpha", &[]);
            alpha.profile.links_per_source_max = 2;
            let _alpha = Node::start(alpha).await.unwrap();
            let start = |name: &'static str, place: &'static str| {
                let dials = sim_config(&world, place, &["alpha"]);
                let name = NodeName::new(name).unwrap();
                Node::start(Config { name, listen: None, ..dials })
            };
            let first = start("b1", "crowd").await.unwrap();
            let second = start("b2", "crowd").await.unwrap();
            first.mesh.ready(1).await;
            second.mesh.ready(1).await;
            log.take();
            let third = start("b3", "crowd").await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(third.linked(), Vec::<String>::new());
            let lines = log.take();
            for says in ["a node was refused", "not reached"] {
                let why = "too many links from one address";
                let told = lines.iter().any(|line| line.contains(says) && line.contains(why));
                assert!(told, "{says}: {lines:?}");
            }
            let elsewhere = start("c", "elsewhere").await.unwrap();
            elsewhere.mesh.ready(1).await;
            first.shutdown().await;
            third.mesh.ready(1).await;
        }
    });
}

#[test]
fn the_log_says_what_a_node_runs_with_and_what_becomes_of_others() {
    let log = Recorder::new(Level::INFO);
    let _guard = tracing::subscriber::set_default(log.clone());
    sim::run(6, |world| {
        let log = log.clone();
        async move {
            let alpha = Node::start(sim_config(&world, "alpha", &[])).await.unwrap();
            let lines = log.take();
            let [starts] = &lines[..] else { panic!("{lines:?}") };
            let run = alpha.mesh.id().incarnation.to_string();
            let parts = [
                "a node starts",
                "listen: \"alpha:7700\"",
                "never",
                "sim",
                "Default",
                "1s",
                "3s",
                &run,
            ];
            assert!(parts.iter().all(|part| starts.contains(part)), "{starts}");
            let beta = Node::start(sim_config(&world, "beta", &["alpha"])).await.unwrap();
            alpha.mesh.ready(1).await;
            beta.mesh.ready(1).await;
            beta.shutdown().await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let lines = log.take();
            let run = beta.mesh.id().incarnation.to_string();
            for says in ["a link is up", "a link ended", "a node is down"] {
                let told = lines.iter().filter(|line| line.contains(says));
                let of_beta = told.filter(|line| line.contains("beta"));
                assert_eq!(of_beta.clone().count(), 1, "{says}: {lines:?}");
                let names_run = of_beta.clone().all(|line| line.contains(&run));
                assert!(names_run || says == "a link ended", "{says}: {lines:?}");
            }
        }
    });
}

/// A peer that shares no fabric with beta proves itself, and waits for beta to give it up.
async fn leave_waiting(world: &World, prefix: &str, number: usize) {
    let name = format!("{prefix}{number}");
    let mut identity = identity(&name);
    identity.fabrics = vec!["none".into()];
    let stream = world.network(&name).0.dial("beta:7700".into()).await.unwrap();
    let deadline = Instant::now() + limits::HANDSHAKE_TIMEOUT;
    let handshake = Handshake::dial(&identity);
    let met = bootstrap::meet(stream, handshake, &[], deadline, std::future::pending()).await;
    let (mut channel, _) = met.map_err(|failure| failure.to_string()).unwrap();
    if name.as_str() > "beta" {
        channel.send(&silence()).await.unwrap();
    }
    while channel.recv().await.is_ok() {}
}
