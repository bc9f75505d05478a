//! A process that is stopped for a while. (Only here real time passes.)

use std::time::Duration;

use ringpost::NodeEvent;
use ringpost_tests::actors::Counter;

use crate::process::{PATIENCE, Process, linked, within};

// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stands_still_for_four_seconds_is_not_down() {
    let beta = Process::start("beta", &[]).await;
    let alpha = linked("alpha", &[&beta], Duration::from_secs(8)).await;
    let mut events = alpha.events();
    let counter = alpha.actor::<Counter>("beta/counter").await.unwrap();
    beta.signal("STOP").await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    beta.signal("CONT").await;
    let answer = within(async {
        loop {
            // An ask fails when the link was given up meanwhile; the next finds a new one.
            if let Ok(answer) = counter.echo("awake".into()).await {
                return answer;
            }
        }
    });
    assert_eq!(answer.await, "awake");
    while let Ok(event) = events.try_recv() {
        assert!(!matches!(event, NodeEvent::NodeDown { .. }), "{event:?}");
    }
    beta.end().await;
    alpha.shutdown(PATIENCE).await;
}
