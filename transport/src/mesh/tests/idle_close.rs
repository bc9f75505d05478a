//! Links that are closed because neither side uses them (MS-18), over the simulator.

use super::simulated::sim_config;
use super::*;
use crate::cause::LinkCause;
use crate::fabric::sim::{self, World};
use crate::mesh::PeerStatus;
use tokio::time::sleep;

const UP: &str = "up over sim";
const IDLE: &str = "lost: it was idle";

pub(super) async fn node(
    world: &World,
    name: &str,
    seeds: &[&str],
    idle_close: Option<u64>,
) -> Node {
    Node::start(idle_config(world, name, seeds, idle_close)).await.unwrap()
}

pub(super) fn idle_config(
    world: &World,
    name: &str,
    seeds: &[&str],
    idle_close: Option<u64>,
) -> Config {
    let mut config = sim_config(world, name, seeds);
    // Names that lead to the node, too: links to other seeds are kept.
    for seed in seeds {
        let both = [format!("{seed}:7700"), format!("{name}:7700")];
        world.set_name(&format!("{name}-{seed}:7700"), &[&both[0], &both[1]]);
    }
    config.seeds = seeds.iter().map(|seed| format!("{name}-{seed}:7700")).collect();
    config.profile.idle_close = idle_close.map(Duration::from_secs);
    config
}

fn texts(of: &str, told: &[&str]) -> Vec<String> {
    told.iter().map(|text| format!("{of} {text}")).collect()
}

/// A name that leads to the node, and a while in which it might be missed, change nothing.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_link_that_neither_side_uses_is_closed_and_made_again_when_it_is_wanted() {
    for seed in 0..50 {
        sim::run(seed, |world| async move {
            let alpha = node(&world, "alpha", &[], Some(2 + seed % 3)).await;
            let beta = node(&world, "beta", &["alpha"], Some(2 + seed % 5)).await;
            beta.mesh.ready(1).await;
            sleep(Duration::from_secs(1800)).await;
            let sides = [(&alpha, "beta"), (&beta, "alpha")];
            for (node, other) in sides {
                assert_eq!(node.watcher.texts(), texts(other, &[UP, IDLE]), "seed {seed}");
                let [peer] = &node.mesh.states()[..] else { panic!("one peer") };
                let PeerStatus::Unlinked { cause } = &peer.status else { panic!("{peer:?}") };
                assert_eq!(*cause, LinkCause::Idle);
                assert!(!node.mesh.table.is_alone());
            }
            let began = world.now();
            alpha.link("beta").await.unwrap();
            beta.mesh.ready(1).await;
            let took = Duration::from_nanos(world.now() - began);
            assert!(took < Duration::from_millis(200), "{took:?}");
            sleep(Duration::from_secs(60)).await;
            for (node, other) in sides {
                assert_eq!(node.watcher.texts(), texts(other, &[UP, IDLE, UP, IDLE]));
            }
        });
    }
}

// Promised in docs/SEMANTICS.md.
#[test]
fn a_link_that_one_side_would_keep_is_not_closed() {
    for (seed, keeps) in [None, Some(500)].into_iter().enumerate() {
        sim::run(seed as u64, |world| async move {
            let alpha = node(&world, "alpha", &[], Some(1)).await;
            let beta = node(&world, "beta", &["alpha"], keeps).await;
            beta.mesh.ready(1).await;
            sleep(Duration::from_secs(400)).await;
            for (node, other) in [(&alpha, "beta"), (&beta, "alpha")] {
                assert_eq!(node.watcher.texts(), texts(other, &[UP]));
            }
            sleep(Duration::from_secs(200)).await;
            assert_eq!(alpha.linked().is_empty(), keeps.is_some(), "the longer one counts");
        });
    }
}

/// Checks that a node with this `config` and alpha keep their link, however idle.
fn keeps_its_link(config: impl Fn(&World) -> Config + Send + Sync + 'static) {
    sim::run(1, |world| async move {
        let alpha = node(&world, "alpha", &[], Some(1)).await;
        world.set_name("any:7700", &["alpha:7700"]);
        let mut config = config(&world);
        config.profile.idle_close = Some(Duration::from_secs(1));
        let beta = Node::start(config).await.unwrap();
        beta.mesh.ready(1).await;
        sleep(Duration::from_secs(600)).await;
        for (node, other) in [(&alpha, "beta"), (&beta, "alpha")] {
            assert_eq!(node.watcher.texts(), texts(other, &[UP]));
        }
    });
}

/// Other nodes find this one by it.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_link_to_a_seed_that_leads_to_others_only_is_kept() {
    keeps_its_link(|world| sim_config(world, "beta", &["alpha"]));
    keeps_its_link(|world| {
        let config = sim_config(world, "beta", &[]);
        Config { seeds: vec!["any:7700".into()], ..config }
    });
}

/// Only that node could make it again.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_link_to_a_node_that_names_no_address_is_kept() {
    keeps_its_link(|world| {
        let config = sim_config(world, "beta", &[]);
        Config { listen: None, seeds: vec!["any:7700".into()], ..config }
    });
}

/// A node whose links are all idle is ready for a task that waits for two nodes.
#[test]
fn idle_nodes_count_for_those_that_wait_until_some_are_linked() {
    sim::run(1, |world| async move {
        let alpha = node(&world, "alpha", &[], Some(1)).await;
        let mut others = Vec::new();
        for name in ["beta", "gamma"] {
            others.push(node(&world, name, &["alpha"], Some(1)).await);
            sleep(Duration::from_secs(10)).await;
        }
        assert!(alpha.linked().is_empty());
        alpha.mesh.ready(2).await;
    });
}

/// It is not missed, so nothing tells before it is wanted.
// Promised in docs/SEMANTICS.md.
#[test]
fn an_idle_node_that_is_gone_is_down_once_it_is_wanted() {
    for seed in 0..20 {
        sim::run(seed, |world| async move {
            let alpha = node(&world, "alpha", &[], Some(1)).await;
            let beta = node(&world, "beta", &["alpha"], Some(1)).await;
            beta.mesh.ready(1).await;
            sleep(Duration::from_secs(20)).await;
            world.kill_node("beta");
            sleep(Duration::from_secs(60)).await;
            assert_eq!(alpha.watcher.texts(), texts("beta", &[UP, IDLE]));
            let error = alpha.link("beta").await.unwrap_err();
            assert!(matches!(error.cause, NodeDownCause::Silent { .. }), "{error}");
            let told = alpha.watcher.texts();
            assert_eq!(told[2..], texts("beta", &["down: silent"]));
            drop(beta);
        });
    }
}

/// Whatever the other side had agreed to: a node that leaves, or is restarted, is reported down.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_node_that_leaves_or_is_restarted_while_it_is_idle_is_told_of() {
    let mut left = 0;
    for seed in 0..200 {
        left += sim::run(seed, |world| async move {
            let alpha = node(&world, "alpha", &[], Some(1)).await;
            let beta = node(&world, "beta", &["alpha"], Some(1)).await;
            beta.mesh.ready(1).await;
            // About when the link is closed.
            while !beta.linked().is_empty() && world.now() < 900_000_000 + seed * 1_000_000 {
                sleep(Duration::from_micros(100)).await;
            }
            sleep(Duration::from_micros(seed)).await;
            beta.mesh.leave();
            beta.shutdown().await;
            sleep(Duration::from_secs(20)).await;
            let told = alpha.watcher.texts();
            let left = told.contains(&"beta down: it left".into());
            assert!(left || told.contains(&texts("beta", &[IDLE])[0]), "seed {seed}: {told:?}");
            let beta = node(&world, "beta", &["alpha"], Some(1)).await;
            beta.mesh.ready(1).await;
            sleep(Duration::from_millis(500)).await;
            let told = alpha.watcher.texts();
            let down: Vec<_> = told.iter().filter(|text| text.contains(" down: ")).collect();
            assert_eq!(
                down,
                [if left { "beta down: it left" } else { "beta down: it was restarted" }]
            );
            usize::from(left)
        });
    }
    assert!((1..200).contains(&left), "{left} left while they were linked");
}

/// Starts alpha, and others that were linked to it and are idle.
pub(super) async fn idle_nodes(world: &World, count: usize) -> (Node, Vec<Node>) {
    let mut config = idle_config(world, "alpha", &[], Some(1));
    // Some rounds of dials that are not answered fit in.
    config.profile.down_after = Duration::from_secs(10);
    let alpha = Node::start(config).await.unwrap();
    let mut others = Vec::new();
    for number in 0..count {
        others.push(node(world, &format!("n{number}"), &["alpha"], Some(1)).await);
        others[number].mesh.ready(1).await;
    }
    sleep(Duration::from_secs(20)).await;
    assert!(alpha.linked().is_empty());
    (alpha, others)
}

fn downs(node: &Node) -> Vec<String> {
    node.watcher.texts().into_iter().filter(|text| text.contains(" down: ")).collect()
}

/// MS-15: a node that is cut off has idle ones linked to ask them for another. That it does not
/// reach them is no news of nodes that no sender wants.
// Promised in docs/SEMANTICS.md.
#[test]
fn idle_nodes_that_cannot_be_asked_are_not_reported() {
    for seed in 0..5 {
        sim::run(seed, |world| async move {
            let (alpha, others) = idle_nodes(&world, 20).await;
            let dialled = |world: &World| {
                let log = world.log_text();
                let is_dialled =
                    |number: &usize| log.contains(&format!(" of n{number}:7700 by alpha"));
                (0..20).filter(is_dialled).count()
            };
            let before = dialled(&world);
            for number in 0..20 {
                world.partition("alpha", &format!("n{number}"));
            }
            let error = alpha.link("n7").await.unwrap_err();
            assert!(matches!(error.cause, NodeDownCause::Silent { .. }), "{error}");
            sleep(Duration::from_secs(300)).await;
            assert_eq!(downs(&alpha), ["n7 down: silent"], "seed {seed}");
            assert_eq!(before, 0, "they dialled it");
            assert!(dialled(&world) > 8, "idle ones are tried, by lot");
            drop(others);
        });
    }
}

/// MS-15 holds even if all that know it are idle, and the sender waits long after it was down.
#[test]
fn a_patient_sender_finds_a_node_that_moved_by_asking_idle_ones() {
    for seed in 0..10 {
        sim::run(seed, |world| async move {
            let (alpha, mut others) = idle_nodes(&world, 12).await;
            world.kill_node("n0");
            others[0].mesh.abort(LinkCause::Shutdown);
            let moves = async {
                sleep(Duration::from_secs(60)).await;
                world.set_name("seed:7700", &["n1:7700", "elsewhere:7700"]);
                let mut config = sim_config(&world, "elsewhere", &["seed"]);
                config.name = NodeName::new("n0").unwrap();
                config.profile.idle_close = Some(Duration::from_secs(1));
                Node::start(config).await.unwrap()
            };
            let patient = tokio::time::timeout(Duration::from_secs(600), alpha.patient_link("n0"));
            let (linked, moved) = tokio::join!(patient, moves);
            linked.expect("it is asked for").unwrap();
            others[0] = moved;
            assert!(downs(&alpha).len() == 1, "{:?}", downs(&alpha));
        });
    }
}

/// MS-15 holds even if no sender waits on, but something is sent to it again and again.
#[test]
fn a_node_that_moved_is_found_by_asking_idle_ones_for_those_that_send_again() {
    for (seed, left) in (0..5).flat_map(|seed| [(seed, true), (seed, false)]) {
        sim::run(seed, |world| async move {
            let (alpha, mut others) = idle_nodes(&world, 12).await;
            if left {
                others[0].shutdown().await;
            } else {
                others[0].mesh.abort(LinkCause::Shutdown);
            }
            world.kill_node("n0");
            let moves = async {
                sleep(Duration::from_secs(60)).await;
                world.set_name("seed:7700", &["n1:7700", "elsewhere:7700"]);
                let mut config = sim_config(&world, "elsewhere", &["seed"]);
                config.name = NodeName::new("n0").unwrap();
                config.profile.idle_close = Some(Duration::from_secs(1));
                Node::start(config).await.unwrap()
            };
            let sends = async {
                while alpha.link("n0").await.is_err() {
                    sleep(Duration::from_secs(1)).await;
                }
            };
            let sends = tokio::time::timeout(Duration::from_secs(600), sends);
            let (linked, moved) = tokio::join!(sends, moves);
            linked.unwrap_or_else(|_| panic!("seed {seed}: idle ones are asked for it"));
            others[0] = moved;
        });
    }
}

/// A name that leads to more than one answer holds, or is answered in parts.
#[test]
fn idle_nodes_are_not_linked_again_when_an_answer_leaves_them_out() {
    sim::run(1, |world| async move {
        let names = ["a", "b", "c", "d", "e", "f"];
        let all = names.map(|name| format!("{name}:7700"));
        let lead_to = |world: &World, from: usize, count: usize| {
            let part: Vec<&str> = (from..from + count).map(|at| all[at % 6].as_str()).collect();
            world.set_name("cluster:7700", &part);
        };
        lead_to(&world, 0, 6);
        let mut nodes = Vec::new();
        for name in names {
            let mut config = sim_config(&world, name, &["cluster"]);
            config.profile.idle_close = Some(Duration::from_secs(1));
            nodes.push(Node::start(config).await.unwrap());
        }
        sleep(Duration::from_secs(100)).await;
        let events = |nodes: &[Node]| nodes.iter().map(|node| node.watcher.texts().len()).sum();
        let before: usize = events(&nodes);
        assert_eq!(before, 6 * 5 * 2, "each link came and went");
        for from in 0..30 {
            lead_to(&world, from, 3);
            sleep(Duration::from_secs(35)).await;
        }
        assert_eq!(events(&nodes), before);
    });
}
