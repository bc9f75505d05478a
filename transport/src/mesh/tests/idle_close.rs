//! Links that are closed because neither side uses them (MS-18), over the simulator.

use super::simulated::sim_config;
use super::*;
use crate::cause::LinkCause;
use crate::fabric::sim::{self, World};
use crate::mesh::PeerStatus;
use tokio::time::sleep;

const UP: &str = "up over sim";
const IDLE: &str = "lost: it was idle";

async fn node(world: &World, name: &str, seeds: &[&str], idle_close: Option<u64>) -> Node {
    let mut config = sim_config(world, name, seeds);
    // Names that lead to the node, too: links to other seeds are kept.
    for seed in seeds {
        let both = [format!("{seed}:7700"), format!("{name}:7700")];
        world.set_name(&format!("{name}-{seed}:7700"), &[&both[0], &both[1]]);
    }
    config.seeds = seeds.iter().map(|seed| format!("{name}-{seed}:7700")).collect();
    config.profile.idle_close = idle_close.map(Duration::from_secs);
    Node::start(config).await.unwrap()
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

/// A node of whose links none stands is ready for those that wait for two.
// Promised in docs/SEMANTICS.md.
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

/// Whatever the other side had agreed to: one that leaves is down, and one that is restarted was.
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
