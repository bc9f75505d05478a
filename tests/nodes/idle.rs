//! The processor time and the wake-ups of an idle node.

use std::time::{Duration, Instant};

use futures::future::join_all;
use ringpost_tests::actors::Counter;

use crate::process::{Process, linked, within};

/// The most wake-ups of all threads of an idle node in a second.
const RUNS_MAX: u128 = 100;

/// Long enough for several heartbeats.
const COUNTED: Duration = Duration::from_secs(4);

/// Even with links that spin, once they stop spinning.
#[tokio::test]
async fn an_idle_node_sleeps_with_each_profile() {
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
    let (start, before, runs) = (Instant::now(), beta.processor_time(), beta.runs());
    tokio::time::sleep(COUNTED).await;
    let (took, used, runs) = (start.elapsed(), beta.processor_time() - before, beta.runs() - runs);
    println!("{flavour}: {used:?} of {took:?}, {runs} times");
    // A link that spins takes all of a core. How long one wake-up takes depends on the machine.
    let often = u128::from(runs) * 1000 / took.as_millis();
    assert!(used < took / 10 && often < RUNS_MAX, "{flavour}: {used:?}, {often} times a second");
    drop(node);
    beta.end().await;
}
