//! Large tells and large replies on one slow path: neither waits for the end of the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ringpost::net::Profile;
use ringpost::prelude::*;
use ringpost::send::Fate;
use ringpost_tests::actors::Giver;
use tokio::task::JoinSet;

use super::{Held, Stack, dialling, listening, load, until};
use crate::process::{PATIENCE, within};
use crate::relay::Relay;

/// Bytes per second of the path.
const RATE: u32 = 30_000_000;
const LARGE: usize = 60 * 1024 * 1024;
/// More than a slot: a reply that is cut, too.
const SMALL_REPLY: u64 = 9 * 1024;
const LARGE_REPLY: u64 = 100 * 1024;
const BULK: usize = 1024 * 1024;
/// Loops that ask for large replies.
const LOOPS: usize = 32;
/// Replies that may come between the commit of a tell of [`BULK`] and its delivery. If the tell has
/// a quarter of the path, 30 replies come meanwhile, besides the replies queued before it.
const REPLIES_MAX: u64 = 200;

/// Alpha, which dialled beta over a slow path; beta's reference to alpha's stack `sink`, and
/// alpha's reference to beta's giver.
struct Path {
    alpha: Node,
    beta: Node,
    sink: ActorRef<Stack>,
    giver: ActorRef<Giver>,
    /// Of the sink.
    _held: Held,
    _relay: Relay,
}

impl Path {
    async fn new() -> Self {
        let beta = listening("beta", Profile::default()).await;
        let relay = Relay::slow(beta.addresses()[0].clone(), RATE).await;
        let alpha = dialling("alpha", &relay.address, Profile::default()).await;
        beta.spawn("giver", Giver).await.unwrap();
        let held = Held::free(&alpha, "sink").await;
        let sink = within(async { beta.actor("alpha/sink").await }).await.unwrap();
        let giver = within(async { alpha.actor("beta/giver").await }).await.unwrap();
        Path { alpha, beta, sink, giver, _held: held, _relay: relay }
    }

    /// Returns the bytes that alpha received over the path.
    fn received(&self) -> u64 {
        self.alpha.links()[0].1.bytes_received
    }

    async fn end(self) {
        tokio::join!(self.alpha.shutdown(PATIENCE), self.beta.shutdown(PATIENCE));
    }
}

/// A reply of more than a slot that is made while a tell of 60 MiB is on its way comes before the
/// end of it.
// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_does_not_wait_for_the_end_of_a_large_tell() {
    let path = Path::new().await;
    let before = path.received();
    within(path.sink.tell(load(0, LARGE))).await.unwrap();
    // The tell has begun.
    until(|| path.received() - before > BULK as u64).await;
    let reply = within(async { path.giver.give(SMALL_REPLY).timeout(PATIENCE).await }).await;
    let received = path.received() - before;
    println!("the reply came when {received} bytes had come, of a tell of {LARGE}");
    assert_eq!(reply.unwrap().len() as u64, SMALL_REPLY);
    assert!(received < LARGE as u64, "the reply came after the whole tell");
    assert_eq!(within(async { path.sink.numbers().timeout(PATIENCE).await }).await, Ok(vec![0]));
    path.end().await;
}

/// A tell of more than a slot is delivered although large replies always wait, too.
// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_tell_does_not_starve_behind_large_replies() {
    let path = Path::new().await;
    let (answered, enough) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut loops = JoinSet::new();
    for _ in 0..LOOPS {
        let (giver, answered, enough) = (path.giver.clone(), answered.clone(), enough.clone());
        loops.spawn(async move {
            while !enough.load(Ordering::Relaxed) {
                giver.give(LARGE_REPLY).timeout(PATIENCE).await.unwrap();
                answered.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let count = || answered.load(Ordering::Relaxed);
    until(|| count() >= LOOPS as u64).await;
    let mut told = path.sink.tell(load(0, BULK)).confirmed();
    within(told.committed()).await.unwrap();
    let before = count();
    let fate = tokio::select! {
        fate = told => Some(fate.unwrap()),
        // Far beyond the bound, so that a tell that starves does not hold up the test.
        () = until(|| count() - before > 2 * REPLIES_MAX) => None,
    };
    let replies = count() - before;
    enough.store(true, Ordering::Relaxed);
    within(loops.join_all()).await;
    println!("the tell ended with {fate:?} after {replies} replies of {LARGE_REPLY} bytes");
    assert_eq!(fate, Some(Fate::Delivered), "the tell waits for all replies");
    assert!(replies <= REPLIES_MAX, "{replies} replies went before the tell");
    path.end().await;
}
