//! Nodes of which one is slower than the other, over the simulator.

use tokio::time::sleep;

use super::simulated::sim_config;
use super::*;
use crate::fabric::sim::{self, World};
use crate::limits;

async fn node(world: &World, name: &str, seeds: &[&str], times: (u64, Duration)) -> Node {
    let (heartbeat, down_after) = times;
    let mut config = sim_config(world, name, seeds);
    config.profile.heartbeat_interval = Duration::from_secs(heartbeat);
    config.profile.down_after = down_after;
    Node::start(config).await.unwrap()
}

const DEFAULT: (u64, Duration) = (1, limits::DOWN_AFTER);
const SLOW: (u64, Duration) = (10, Duration::from_secs(30));

/// Returns the seconds until the events of `node` end with this one.
async fn until(world: &World, node: &Node, last: &str) -> u64 {
    let began = world.now();
    while node.watcher.texts().last().is_none_or(|text| text != last) {
        sleep(Duration::from_millis(100)).await;
    }
    (world.now() - began) / 1_000_000_000
}

/// MS-4, MS-11: the slower side's wish counts on both.
// Promised in docs/SEMANTICS.md.
#[test]
fn nodes_of_unlike_heartbeats_keep_to_the_slower_one_and_find_each_other_alive() {
    for seed in 0..10 {
        sim::run(seed, |world| async move {
            let slow = node(&world, "slow", &[], SLOW).await;
            let quick = node(&world, "quick", &["slow"], DEFAULT).await;
            slow.mesh.ready(1).await;
            quick.mesh.ready(1).await;
            sleep(Duration::from_secs(300)).await;
            // As long a silence as the slow one bears, and longer than the other one would.
            for (node, other) in [(&quick, "slow"), (&slow, "quick")] {
                assert_eq!(node.watcher.texts(), [format!("{other} up over sim")]);
            }
            world.partition("slow", "quick");
            sleep(Duration::from_secs(19)).await;
            world.mend("slow", "quick");
            sleep(Duration::from_secs(120)).await;
            for node in [&quick, &slow] {
                let texts = node.watcher.texts();
                assert!(!texts.iter().any(|text| text.contains(" down: ")), "{texts:?}");
                assert_eq!(node.linked().len(), 1, "{texts:?}");
            }
            world.partition("slow", "quick");
            let took = until(&world, &quick, "slow down: silent").await;
            assert!((20..45).contains(&took), "seed {seed}: {took} s");
        });
    }
}

/// MS-4: what a node asked for is remembered after its link, until another run says otherwise.
#[test]
fn a_node_that_asks_for_more_time_than_there_is_gets_ten_minutes() {
    sim::run(7, |world| async move {
        let year = limits::DOWN_AFTER_MAX;
        let greedy = node(&world, "greedy", &[], (60, year)).await;
        let alpha = node(&world, "alpha", &["greedy"], DEFAULT).await;
        alpha.mesh.ready(1).await;
        world.kill_node("greedy");
        drop(greedy);
        let took = until(&world, &alpha, "greedy down: silent").await;
        let most = limits::DOWN_AFTER_TOLD_MAX.as_secs();
        assert!((most - 61..=most + 1).contains(&took), "{took} s");
        let modest = node(&world, "modest", &[], DEFAULT).await;
        let beta = node(&world, "beta", &["modest"], (1, Duration::from_secs(5))).await;
        beta.mesh.ready(1).await;
        world.kill_node("modest");
        drop(modest);
        let took = until(&world, &beta, "modest down: silent").await;
        assert!((6..=8).contains(&took), "{took} s");
    });
}
