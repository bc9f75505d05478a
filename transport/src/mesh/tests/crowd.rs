//! A thousand nodes that dial one at the same instant, over the simulator.

use tokio::time::Instant;
use tracing::Level;

use super::simulated::sim_config;
use super::*;
use crate::fabric::sim::{self, LinkModel, World};
use crate::limits;
use crate::recorder::Recorder;

/// Nodes that dial at once.
const CROWD: usize = 1_000;

/// The settings of a node whose links take little memory.
fn small(world: &World, name: &str, seeds: &[&str]) -> Config {
    let config = sim_config(world, name, seeds);
    let profile = Profile { ring_slots: 8, credit_reserve: 2, slot_bytes: 2048, ..config.profile };
    Config { profile, ..config }
}

/// Returns how many of these lines are of the node that was dialled: the others name it.
fn lines_of_alpha(lines: &[String]) -> usize {
    let of_alpha = |line: &&String| {
        (line.contains("node-") || line.contains("left_out")) && !line.contains("a node starts")
    };
    lines.iter().filter(of_alpha).count()
}

/// With long paths many more than have a place are under way at once.
#[test]
fn a_thousand_nodes_that_dial_one_at_once_are_linked_and_fill_no_log() {
    let log = Recorder::new(Level::INFO);
    let _guard = tracing::subscriber::set_default(log.clone());
    let latencies = [(50, 60), (0, 1), (1, 5)];
    for (latency, within) in latencies
        .map(|(millis, seconds)| (Duration::from_millis(millis), Duration::from_secs(seconds)))
        .into_iter()
        .take(crate::cases(1) as usize)
    {
        let log = log.clone();
        sim::run_for(1, 2 * within + Duration::from_secs(60), |world| async move {
            world.set_links(LinkModel { latency, ..LinkModel::default() });
            let alpha = Node::start(small(&world, "alpha", &[])).await.unwrap();
            let beta = Node::start(small(&world, "beta", &["alpha"])).await.unwrap();
            alpha.mesh.ready(1).await;
            log.take();
            let began = Instant::now();
            let mut crowd = Vec::new();
            for number in 0..CROWD {
                let name = format!("node-{number}");
                crowd.push(Node::start(small(&world, &name, &["alpha"])).await.unwrap());
            }
            let all = tokio::time::timeout(within, alpha.mesh.ready(1 + CROWD)).await;
            assert!(all.is_ok(), "{latency:?}: {} are linked", alpha.linked().len());
            let took = began.elapsed();
            // Long enough to find a link silent, and to log how many lines were left out.
            tokio::time::sleep(2 * limits::LOG_PERIOD).await;
            let texts = alpha.watcher.texts();
            let lost = texts.iter().filter(|text| !text.ends_with(" up over sim")).count();
            assert_eq!((lost, texts.len()), (0, 1 + CROWD), "{latency:?}");
            let (lines, every) = (log.take(), limits::LOG_PERIOD);
            // Of links that are up, and of fabrics that were chosen.
            let most = 2 * limits::PEER_LINES_MAX as usize + 2;
            let most = most * (2 + took.div_duration_f64(every) as usize);
            let written = lines_of_alpha(&lines);
            assert!(written <= most, "{latency:?}: {written} lines");
            assert!(lines.iter().any(|line| line.contains("left_out")), "{latency:?}");
            println!("{latency:?}: {CROWD} linked in {took:?}, {written} lines");
            drop((crowd, beta));
        });
    }
}
