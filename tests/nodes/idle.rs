//! What an idle node takes of a processor.

use std::time::{Duration, Instant};

use futures::future::join_all;
use ringpost_tests::actors::Counter;

use crate::process::{Process, linked, within};

/// Long enough for several heartbeats.
const COUNTED: Duration = Duration::from_secs(4);

/// PO-1: also with links that spin, after they have.
#[tokio::test]
async fn an_idle_node_takes_less_than_a_hundredth_of_a_core_with_each_profile() {
    let spinning = ["default-latency", "current_thread-latency", "default-pinned"];
    join_all(["default", "default-small"].into_iter().chain(spinning).map(idle)).await;
}

async fn idle(flavour: &str) {
    let beta = Process::start_on(flavour, "beta", &[]).await;
    let node = linked("alpha", &[&beta], Duration::from_secs(8)).await;
    let counter = node.actor::<Counter>("beta/counter").await.unwrap();
    for _ in 0..100 {
        within(async { counter.echo("on".into()).await }).await.unwrap();
    }
    // By now all is over that came with the link.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (start, before) = (Instant::now(), beta.processor_time());
    tokio::time::sleep(COUNTED).await;
    let (took, used) = (start.elapsed(), beta.processor_time() - before);
    assert!(used < took / 100, "{flavour}: {used:?} of {took:?}");
    drop(node);
    beta.end().await;
}
