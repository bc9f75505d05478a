//! Replies whose askers have given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ringpost::net::Profile;
use ringpost_tests::actors::{Counter, Giver};
use tokio::task::JoinSet;

use super::dialling;
use crate::process::{PATIENCE, Process, linked, within};
use crate::relay::Relay;

const LOOPS: usize = 100;
const REPLY_BYTES: u64 = 10 * 1024 * 1024;
const TIMEOUT: Duration = Duration::from_millis(200);
/// Bytes per second of the path to the askers.
const RATE: u32 = 10_000_000;
/// Asks in all: more than ten times what the path carries while they are made.
const ASKS: u64 = 1_000;
/// The most memory that the responder may use, in KiB.
const RESIDENT_MAX: u64 = 256 * 1024;

/// A responder whose askers give up does not grow, and answers others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_responder_whose_askers_give_up_stays_small_and_answers_others() {
    let beta = Process::start("beta", &[]).await;
    let relay = Relay::slow(beta.address.clone(), RATE).await;
    let alpha = dialling("alpha", &relay.address, Profile::default()).await;
    let gamma = linked("gamma", &[&beta], Duration::from_secs(8)).await;
    let giver = alpha.actor::<Giver>("beta/giver").await.unwrap();
    let counter = gamma.actor::<Counter>("beta/counter").await.unwrap();
    let (asked, enough) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut loops = JoinSet::new();
    for _ in 0..LOOPS {
        let (giver, asked, enough) = (giver.clone(), asked.clone(), enough.clone());
        loops.spawn(async move {
            let mut answered = 0;
            while asked.fetch_add(1, Ordering::Relaxed) < ASKS && !enough.load(Ordering::Relaxed) {
                answered += u64::from(giver.give(REPLY_BYTES).timeout(TIMEOUT).await.is_ok());
            }
            answered
        });
    }
    let (mut answered, mut echoes) = (0, 0);
    while !loops.is_empty() {
        // Asks of another node are answered at every moment of it.
        within(async { counter.echo("on".into()).timeout(PATIENCE).await }).await.unwrap();
        echoes += 1;
        if beta.peak() > RESIDENT_MAX {
            // The test has failed already; do not use up the machine's memory.
            enough.store(true, Ordering::Relaxed);
        }
        while let Some(ended) = loops.try_join_next() {
            answered += ended.unwrap();
        }
    }
    let (asked, peak) = (asked.load(Ordering::Relaxed), beta.peak());
    println!("{asked} asks, {answered} answered; {echoes} of others; at most {peak} KiB resident");
    assert!(peak <= RESIDENT_MAX, "the responder used {peak} KiB, more than {RESIDENT_MAX}");
    // The first node is answered too, once its askers have gone.
    within(async { giver.give(10).timeout(PATIENCE).await }).await.unwrap();
    gamma.shutdown(PATIENCE).await;
    alpha.shutdown(PATIENCE).await;
    beta.end().await;
}
