//! A link's window that is nearly full: messages in 64 stuck mailboxes leave little of it, and live
//! mailboxes beside them share the rest, or have one message at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use futures::future::join_all;
use ringpost::net::Profile;
use ringpost::observe::DeadLetterCause;
use ringpost::prelude::*;
use tokio::task::JoinSet;

use super::{Held, Stack, dialling, end, listening, load, losses, until};
use crate::process::within;

const STUCK: usize = 64;
const LIVE: usize = 8;
/// Tasks that tell each live mailbox, so that some wait for room in it.
const TELLERS: u64 = 4;
/// Messages to each live mailbox, unless a time is given.
const MESSAGES: u64 = 400;
/// Sizes of messages, each as likely as the double of it.
const SMALLEST: f64 = 100.0;
const LARGEST: f64 = 900.0 * 1024.0;
/// One mailbox alone never fills the link's window.
const MAILBOX_WINDOW: u32 = 8 * 1024 * 1024;
const LINK_WINDOW: u32 = 64 * 1024 * 1024;
/// Bytes sent to each stuck mailbox: together 128 KiB less than the link's window.
const EACH: usize = LINK_WINDOW as usize / STUCK - 2 * 1024;
/// The window is as good as full, however the transport counts.
const FULL: u64 = (STUCK * EACH) as u64 - 1024 * 1024;

/// A link without any fault is not lost, however full it is. `RINGPOST_PRESSURE_SECONDS` says how
/// long the live mailboxes are told, in place of a number of messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_whose_window_is_full_is_not_lost() {
    let seconds = std::env::var("RINGPOST_PRESSURE_SECONDS").ok();
    let time = seconds.map(|seconds| Duration::from_secs(seconds.parse().unwrap()));
    let profile = Profile {
        mailbox_window_bytes: MAILBOX_WINDOW,
        link_window_bytes: LINK_WINDOW,
        ..Profile::default()
    };
    let beta = listening("beta", profile.clone()).await;
    let mut events = [beta.events(), beta.events()];
    let alpha = dialling("alpha", &beta.addresses()[0], profile).await;
    events[0] = alpha.events();
    let mut stuck = Vec::new();
    for number in 0..STUCK {
        stuck.push(Held::stuck(&beta, &format!("stuck{number}")).await);
    }
    for number in 0..LIVE {
        Held::free(&beta, &format!("live{number}")).await;
    }
    let committed = Arc::new(AtomicU64::new(0));
    let mut fillers = JoinSet::new();
    for number in 0..STUCK {
        let there = alpha.actor(&format!("beta/stuck{number}")).await.unwrap();
        fillers.spawn(fill(there, number as u64, committed.clone()));
    }
    until(|| committed.load(Ordering::Relaxed) >= FULL).await;
    let mut live = Vec::new();
    for number in 0..LIVE {
        let there = alpha.actor(&format!("beta/live{number}")).await.unwrap();
        live.push(tokio::spawn(tell_all(there, number as u64, time)));
    }
    let told = within_or(time, join_all(live)).await;
    let told: Vec<u64> = told.into_iter().map(Result::unwrap).collect();
    let causes = events.each_mut().map(losses);
    let count = |node: &Node, cause| node.dead_letters().count(cause);
    let lost = [DeadLetterCause::NotSent, DeadLetterCause::Refused, DeadLetterCause::Unknown];
    let letters: u64 = lost.into_iter().map(|cause| count(&alpha, cause)).sum();
    println!("{told:?} messages told; links lost: {causes:?}; dead letters: {letters}");
    assert_eq!(causes, [vec![], vec![]], "no link is lost without a fault");
    assert_eq!(letters, 0, "no message is lost without a fault");
    for (number, told) in told.into_iter().enumerate() {
        let there: ActorRef<Stack> = alpha.actor(&format!("beta/live{number}")).await.unwrap();
        let mut numbers = within(async { there.numbers().await }).await.unwrap();
        // Several tasks tell each.
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..told), "all that was told was handled, once");
    }
    fillers.shutdown().await;
    stuck.iter().for_each(Held::release);
    end([&alpha, &beta]).await;
}

async fn within_or<T>(time: Option<Duration>, future: impl Future<Output = T>) -> T {
    // A link that is nearly full carries 128 KiB in a round trip, and a machine that is emulated by
    // software needs more than a minute for all of them.
    let patience = 5 * crate::process::PATIENCE + time.unwrap_or_default();
    tokio::time::timeout(patience, future).await.expect("it takes far too long")
}

/// Tells a stuck actor messages of mixed sizes, [`EACH`] bytes in all; counts the bytes that were
/// taken.
async fn fill(there: ActorRef<Stack>, seed: u64, committed: Arc<AtomicU64>) {
    let (mut rng, mut left) = (Rng::with_seed(seed), EACH);
    while left > 0 {
        let bytes = size(&mut rng).min(left);
        there.tell(load(0, bytes)).await.unwrap();
        left -= bytes;
        committed.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Tells a live actor messages of mixed sizes by some tasks; returns how many.
async fn tell_all(there: ActorRef<Stack>, seed: u64, time: Option<Duration>) -> u64 {
    let (next, began) = (AtomicU64::new(0), Instant::now());
    let goes_on = |number| time.map_or(number < MESSAGES, |time| began.elapsed() < time);
    let one = |teller| {
        let (mut rng, there, next) = (Rng::with_seed(seed << 8 | teller), &there, &next);
        async move {
            while goes_on(next.load(Ordering::Relaxed)) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                there.tell(load(number, size(&mut rng))).await.unwrap();
            }
        }
    };
    join_all((0..TELLERS).map(one)).await;
    next.load(Ordering::Relaxed)
}

fn size(rng: &mut Rng) -> usize {
    (SMALLEST * (LARGEST / SMALLEST).powf(rng.f64())) as usize
}
