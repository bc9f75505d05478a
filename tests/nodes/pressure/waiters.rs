//! Many senders that wait for one mailbox: the frames and wake-ups of each message.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::join_all;
use ringpost::net::Profile;
use ringpost::prelude::*;

use super::{Held, Stack, end, load, pair};
use crate::process::within;

const MESSAGES: u64 = 20_000;
const SENDERS: u64 = 1_000;
/// A thousand senders may need this many times the frames of one sender.
const TIMES: u64 = 3;
/// Times that a task may be woken for each message: when room was granted, and once for nothing.
const WAKES: u64 = 2;

/// Returns the frames that both nodes have sent.
fn frames(nodes: [&Node; 2]) -> u64 {
    nodes.iter().flat_map(|node| node.links()).map(|(_, stats)| stats.frames_sent).sum()
}

/// Tells one message; counts how often the tell was polled after it had to wait.
async fn tell(there: &ActorRef<Stack>, number: u64, wakes: &AtomicU64) {
    let mut tell = pin!(there.tell(load(number, 10)).into_future());
    let mut polls = 0;
    poll_fn(|cx| {
        polls += 1;
        tell.as_mut().poll(cx)
    })
    .await
    .unwrap();
    wakes.fetch_add(polls - 1, Ordering::Relaxed);
}

/// Sends [`MESSAGES`] from `senders` tasks, each its share; returns the frames that this took, and
/// how often the tasks were woken.
async fn cost_of(nodes: [&Node; 2], there: &ActorRef<Stack>, senders: u64) -> (u64, u64) {
    let before = frames(nodes);
    let wakes = Arc::<AtomicU64>::default();
    let tasks = (0..senders).map(|_| {
        let (there, wakes) = (there.clone(), wakes.clone());
        tokio::spawn(async move {
            for number in 0..MESSAGES / senders {
                tell(&there, number, &wakes).await;
            }
        })
    });
    for task in within(join_all(tasks)).await {
        task.unwrap();
    }
    // Handled after all of them.
    let last = within(async { there.load(0, vec![]).timeout(crate::process::PATIENCE).await });
    last.await.unwrap();
    (frames(nodes) - before, wakes.load(Ordering::Relaxed))
}

/// A thousand waiting senders fill frames about as well as one does, and none is woken for the room
/// of another. All on one thread, so that the tasks run in the same order each time.
#[tokio::test]
async fn a_thousand_waiting_senders_need_few_more_frames_than_one() {
    let (alpha, beta) = pair(Profile::default()).await;
    Held::free(&beta, "stack").await;
    let there = alpha.actor::<Stack>("beta/stack").await.unwrap();
    let (one, _) = cost_of([&alpha, &beta], &there, 1).await;
    let (many, wakes) = cost_of([&alpha, &beta], &there, SENDERS).await;
    println!(
        "{MESSAGES} messages took {one} frames of one sender, {many} of {SENDERS}, whose tasks \
         were woken {wakes} times"
    );
    assert!(many <= TIMES * one, "{many} frames, more than {TIMES} times {one}");
    assert!(wakes <= WAKES * MESSAGES, "tasks were woken {wakes} times for {MESSAGES} messages");
    end([&alpha, &beta]).await;
}
