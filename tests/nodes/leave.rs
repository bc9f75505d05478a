//! A peer that leaves in order.

use std::collections::BTreeMap;
use std::time::Duration;

use ringpost::net::NodeDownCause;
use ringpost::observe::NodeEvent;
use ringpost::prelude::*;
use ringpost_tests::actors::{Notary, Note, digest, giant};

use crate::process::{PATIENCE, Process, event, linked, linked_with, unanswered_asks, within};

const ASKS: u64 = 80;
/// Messages of 8 bytes before each large one.
const SMALL: u64 = 50;
/// MiB of the largest one.
const GIANT_MIB: usize = 200;

// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_leaves_is_reported_as_left_and_no_ask_waits_for_it() {
    let beta = Process::start("beta", &[]).await;
    let alpha = linked("alpha", &[&beta], Duration::from_secs(8)).await;
    let mut events = alpha.events();
    let mut asks = unanswered_asks(&alpha, ASKS, PATIENCE * 2).await;
    beta.end().await;
    let mut ends = BTreeMap::new();
    while let Some(ended) = within(asks.join_next()).await {
        let error = ended.unwrap().unwrap_err();
        let named = matches!(
            error.cause,
            AskCause::NoReply | AskCause::NotBegun(_) | AskCause::LinkDown(_)
        );
        assert!(named, "{error}");
        *ends.entry(error.to_string()).or_insert(0) += 1;
    }
    println!("{ASKS} asks of a node that left ended: {ends:?}");
    assert_eq!(ends.values().sum::<u64>(), ASKS);
    let down = |event: &NodeEvent| match event {
        NodeEvent::NodeDown { cause, .. } => Some(cause.clone()),
        _ => None,
    };
    assert_eq!(event(&mut events, down).await, NodeDownCause::Left);
    alpha.shutdown(PATIENCE).await;
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_messages_arrive_whole_and_in_order_beside_small_ones() {
    let beta = Process::start("beta", &[]).await;
    let alpha = linked("alpha", &[&beta], Duration::from_secs(8)).await;
    beside_small_ones(alpha, beta, &[9 << 10, 20 << 20, 9 << 10]).await;
}

/// Longer than what a link lends, and as long as a message may be at most: a gibibyte, where
/// `RINGPOST_GIANT_MIB` says so.
// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn giant_messages_arrive_whole_and_in_order_beside_small_ones() {
    let beta = Process::start_on("default-giant", "beta", &[]).await;
    let alpha = linked_with("alpha", &[&beta], giant()).await;
    let mib = std::env::var("RINGPOST_GIANT_MIB").map_or(GIANT_MIB, |mib| mib.parse().unwrap());
    beside_small_ones(alpha, beta, &[64 << 10, 1 << 20, 64 << 20, mib << 20, 1 << 20]).await;
}

async fn beside_small_ones(alpha: Node, beta: Process, sizes: &[usize]) {
    let notary = alpha.actor::<Notary>("beta/notary").await.unwrap();
    let mut rng = fastrand::Rng::with_seed(1);
    let mut expected = Vec::new();
    for large in sizes {
        for length in std::iter::repeat_n(&8, SMALL as usize).chain([large]) {
            let mut bytes = vec![0; *length];
            rng.fill(&mut bytes);
            let number = expected.len() as u64;
            expected.push((number, digest(&bytes), *length as u64));
            within(notary.tell(Note { number, bytes })).await.unwrap();
        }
    }
    assert_eq!(within(async { notary.notes().timeout(PATIENCE).await }).await, Ok(expected));
    beta.end().await;
    alpha.shutdown(PATIENCE).await;
}
