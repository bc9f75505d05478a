//! Seeds are dialled for as long as their node has no link, over the simulator.

use super::simulated::sim_config;
use super::*;
use crate::bootstrap::ADDRESSES_MAX;
use crate::cause::LinkCause;
use crate::fabric::sim::{self, World};

/// Returns a node at a place that is not its name, which dials no other.
async fn at(world: &World, place: &str, name: &str) -> Node {
    let mut config = sim_config(world, place, &[]);
    config.name = NodeName::new(name).unwrap();
    Node::start(config).await.unwrap()
}

/// Returns a node that dials these places.
async fn seeded(world: &World, name: &str, seeds: &[&str]) -> Node {
    Node::start(sim_config(world, name, seeds)).await.unwrap()
}

async fn vanish(world: &World, place: &str, node: Node) {
    world.kill_node(place);
    node.mesh.abort(LinkCause::Shutdown);
}

/// Waits until `alpha` is linked to this run.
async fn links_to(alpha: &Node, node: &Node) {
    while alpha.mesh.linked() != [node.mesh.id().clone()] {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Dials of `place` so far.
fn dials(world: &World, place: &str) -> usize {
    let to = format!(" of {place}:7700 by ");
    world.log_text().lines().filter(|line| line.contains(" dial ") && line.contains(&to)).count()
}

// Promised in docs/SEMANTICS.md.
#[test]
fn a_seed_that_left_or_was_killed_is_found_when_it_is_there_again() {
    for (seed, left) in (0..20).flat_map(|seed| [(seed, true), (seed, false)]) {
        sim::run(seed, |world| async move {
            let alpha = seeded(&world, "alpha", &["beta"]).await;
            // Lower-named and higher-named: either node decides.
            for name in ["aa", "beta", "aa"] {
                let beta = at(&world, "beta", name).await;
                links_to(&alpha, &beta).await;
                if left {
                    beta.shutdown().await;
                    drop(beta);
                } else {
                    vanish(&world, "beta", beta).await;
                }
                tokio::time::sleep(Duration::from_secs(20)).await;
                assert!(alpha.linked().is_empty());
            }
        });
    }
}

#[test]
fn a_seed_that_had_to_wait_for_its_name_is_linked_when_the_name_is_free() {
    for (seed, left) in (0..20).flat_map(|seed| [(seed, true), (seed, false)]) {
        sim::run(seed, |world| async move {
            let first = at(&world, "here", "beta").await;
            let second = at(&world, "there", "beta").await;
            let alpha = seeded(&world, "alpha", &["here", "there"]).await;
            alpha.mesh.ready(1).await;
            tokio::time::sleep(Duration::from_secs(20)).await;
            assert_eq!(alpha.mesh.linked().len(), 1, "the other is refused");
            let mut nodes = [("here", first), ("there", second)];
            nodes.sort_by_key(|(_, node)| alpha.mesh.linked() != [node.mesh.id().clone()]);
            let [(place, linked), (_, waits)] = nodes;
            if left {
                linked.shutdown().await;
            } else {
                vanish(&world, place, linked).await;
            }
            links_to(&alpha, &waits).await;
        });
    }
}

/// A wrong address that is advertised does not hide the seed, where the node is.
#[test]
fn a_seed_is_tried_beside_what_its_node_advertises() {
    for seed in 0..20 {
        sim::run(seed, |world| async move {
            let mut beta = sim_config(&world, "beta", &[]);
            beta.advertise = vec!["elsewhere:1".into()];
            let beta = Node::start(beta).await.unwrap();
            let alpha = seeded(&world, "alpha", &["beta"]).await;
            links_to(&alpha, &beta).await;
            world.sever_streams("alpha", "beta");
            tokio::time::sleep(Duration::from_millis(500)).await;
            alpha.link("beta").await.unwrap();
            let lost = "beta lost: the connection to the peer was closed";
            alpha.watcher.until(&["beta up over sim", lost, "beta up over sim"]).await;
        });
    }
}

/// The advertised addresses and that where a node was met are one more than nodes tell each other.
#[test]
fn the_most_addresses_and_a_seed_are_not_too_many_to_tell() {
    sim::run(1, |world| async move {
        let mut beta = sim_config(&world, "beta", &[]);
        beta.advertise = (0..ADDRESSES_MAX).map(|port| format!("elsewhere:1{port}")).collect();
        let _beta = Node::start(beta).await.unwrap();
        let alpha = seeded(&world, "alpha", &["beta"]).await;
        alpha.mesh.ready(1).await;
        let gamma = seeded(&world, "gamma", &["alpha"]).await;
        gamma.link("beta").await.expect("it is told first where beta was reached");
        assert_eq!(gamma.watcher.texts(), ["alpha up over sim", "beta up over sim"]);
    });
}

/// While all is well, and while a name is taken twice, seeds cost next to nothing.
#[test]
fn seeds_make_no_storm() {
    sim::run(1, |world| async move {
        let _first = at(&world, "here", "beta").await;
        let _second = at(&world, "there", "beta").await;
        let alpha = seeded(&world, "alpha", &["here", "there", "nowhere", "alpha"]).await;
        alpha.mesh.ready(1).await;
        // The pauses have grown to their longest by then.
        tokio::time::sleep(Duration::from_secs(200)).await;
        let places = ["here", "there", "nowhere", "alpha"];
        let before = places.map(|place| dials(&world, place));
        tokio::time::sleep(Duration::from_secs(1_200)).await;
        let mut more = places.map(|place| dials(&world, place));
        (0..4).for_each(|at| more[at] -= before[at]);
        more[..2].sort();
        let [linked, taken, nobody, itself] = more;
        assert_eq!((linked, itself), (0, 0), "{more:?}");
        // Fifteen seconds on average.
        assert!((40..=160).contains(&taken) && (40..=160).contains(&nobody), "{more:?}");
        assert_eq!(alpha.watcher.texts(), ["beta up over sim"]);
    });
}
