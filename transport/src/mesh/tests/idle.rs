//! Links on which nothing is sent, over the simulator.

use super::simulated::sim_config;
use super::*;
use crate::fabric::sim::{self, LinkModel, Rule, Verdict, World};
use crate::limits;

/// Two nodes that are linked.
async fn linked(world: &World) -> [Node; 2] {
    let alpha = Node::start(sim_config(world, "alpha", &[])).await.unwrap();
    let beta = Node::start(sim_config(world, "beta", &["alpha"])).await.unwrap();
    alpha.mesh.ready(1).await;
    beta.mesh.ready(1).await;
    [alpha, beta]
}

#[test]
fn an_idle_link_carries_at_most_a_frame_a_second_each_way_and_lives() {
    for seed in 0..50 {
        sim::run(seed, |world| async move {
            let [alpha, beta] = linked(&world).await;
            let [there, back] =
                [alpha.link("beta").await.unwrap(), beta.link("alpha").await.unwrap()];
            tokio::time::sleep(Duration::from_secs(5)).await;
            let sent = || [there.stats().frames_sent, back.stats().frames_sent];
            let before = sent();
            let seconds = 100;
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            let frames = std::array::from_fn(|i| sent()[i] - before[i]);
            let [alphas, betas]: [u64; 2] = frames;
            assert!(alphas <= seconds && betas <= seconds, "seed {seed}: {frames:?}");
            assert!(alphas + betas >= seconds / 3, "seed {seed}: {frames:?}");
            for (node, other) in [(&alpha, "beta"), (&beta, "alpha")] {
                assert_eq!(node.watcher.texts(), [format!("{other} up over sim")]);
            }
        });
    }
}

/// MS-11 holds even if one side hears the other, which hears nothing.
#[test]
fn a_path_that_carries_no_frames_is_found_silent_within_five_heartbeats() {
    let rules: [fn() -> Rule; 2] =
        [|| Rule::new(Verdict::Drop), || Rule::new(Verdict::Drop).from("beta")];
    for (seed, rule) in (0..50).flat_map(|seed| rules.map(|rule| (seed, rule))) {
        sim::run(seed, |world| async move {
            // No queue pair finds out on its own.
            world.set_links(LinkModel { retry: Duration::from_secs(3600), ..LinkModel::default() });
            let [alpha, beta] = linked(&world).await;
            tokio::time::sleep(Duration::from_millis(5000 + 37 * seed)).await;
            world.add_rule(rule());
            let dead = tokio::time::Instant::now();
            alpha.watcher.until(&["beta up over sim", "beta lost: the peer is silent"]).await;
            let most = limits::HEARTBEAT_INTERVAL * (limits::HEARTBEATS_MISSED_MAX + 2);
            assert!(dead.elapsed() <= most, "seed {seed}: {:?}", dead.elapsed());
            world.clear_rules();
            drop(beta);
        });
    }
}
