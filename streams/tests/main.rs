//! Channels, streams and calls: against models on a simulated network, and over TCP.

#![allow(clippy::unwrap_used, reason = "tests")]

mod channels;
mod garbage;
mod ledger;
mod rpc;
mod schedules;
mod stopped;
mod tcp;
mod web;

use std::time::Duration;

use ringpost::Node;

/// Returns two nodes that are linked over TCP on loopback.
async fn pair() -> (Node, Node) {
    let alpha = Node::builder("alpha").listen("127.0.0.1:0").start().await.unwrap();
    let builder = Node::builder("beta").listen("127.0.0.1:0").seeds(alpha.addresses());
    let beta = builder.start().await.unwrap();
    alpha.ready(1).await.unwrap();
    beta.ready(1).await.unwrap();
    (alpha, beta)
}

/// Longer than anything here takes, so that a test which hangs fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for a future that is to end.
async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it ends in time")
}
