//! A race between two nodes, found by its seed and replayed: the test kit. A real test calls
//! `test_kit::check(0..100, body)`, whose failure report has all of this.
//!
//! `cargo run --features test-kit --example test_kit` prints (the seed may be another one):
//!
//! ```text
//! with two asks, seed 12 fails: the body panicked: assertion `left == right` failed: ...
//! replayed: the same failure, after the same 126 lines of log
//! with one ask, 100 seeds pass
//! ```
#![deny(warnings)]

use std::time::Duration;

use ringpost::prelude::*;
use ringpost::test_kit::{self, Cluster};

#[actor]
#[derive(Default)]
struct Counter {
    value: u64,
}

#[handlers]
impl Counter {
    #[handler]
    fn get(&self) -> u64 {
        self.value
    }

    #[handler]
    fn set(&mut self, value: u64) {
        self.value = value;
    }

    #[handler]
    fn add(&mut self, amount: u64) -> u64 {
        self.value += amount;
        self.value
    }
}

/// Adds one from another node; `carefully` with one ask, else with two and a race between.
async fn add_one(cluster: &Cluster, node: &str, carefully: bool) -> Result<(), BoxError> {
    let counter = cluster.node(node).await.actor::<Counter>("alpha/counter").await?;
    // The two come at moments that the seed draws.
    cluster.sleep_up_to(Duration::from_millis(5)).await;
    if carefully {
        counter.add(1).await?;
    } else {
        let value = counter.get().await?;
        counter.set(value + 1).await?;
    }
    Ok(())
}

/// The body of a test.
async fn two_add_one(cluster: Cluster, carefully: bool) {
    let alpha = cluster.node("alpha").await;
    let counter = alpha.spawn("counter", Counter::default()).await.expect("the name is free");
    cluster.node("beta").await;
    cluster.node("gamma").await;
    let from = |node| add_one(&cluster, node, carefully);
    let (first, second) = tokio::join!(from("beta"), from("gamma"));
    assert!(first.is_ok() && second.is_ok(), "{first:?} {second:?}");
    assert_eq!(counter.get().await, Ok(2), "an addition was lost");
}

fn main() -> Result<(), BoxError> {
    let found = test_kit::find(0..100, |cluster| two_add_one(cluster, false));
    let found = found.ok_or("no seed shows the race")?;
    println!("with two asks, seed {} fails: {}", found.seed(), found.cause());

    let again = Cluster::seeded(found.seed()).try_run(|cluster| two_add_one(cluster, false));
    assert_eq!(again.as_ref(), Err(&found));
    println!(
        "replayed: the same failure, after the same {} lines of log",
        found.log().lines().count()
    );

    test_kit::check(0..100, |cluster| two_add_one(cluster, true));
    println!("with one ask, 100 seeds pass");
    Ok(())
}
