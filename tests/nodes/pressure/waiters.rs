//! Many senders that wait for one mailbox: what they cost for each message.

use futures::future::join_all;
use ringpost::Profile;
use ringpost::prelude::*;

use super::{Held, Stack, end, load, pair};
use crate::process::within;

const MESSAGES: u64 = 20_000;
const SENDERS: u64 = 1_000;
/// Times as many frames as one sender needs that a thousand may need.
const TIMES: u64 = 3;

/// Returns the frames that both nodes have sent.
fn frames(nodes: [&Node; 2]) -> u64 {
    nodes.iter().flat_map(|node| node.links()).map(|(_, stats)| stats.frames_sent).sum()
}

/// Sends [`MESSAGES`] by so many tasks, each its share; returns the frames that this took.
async fn frames_of(nodes: [&Node; 2], there: &ActorRef<Stack>, senders: u64) -> u64 {
    let before = frames(nodes);
    let tasks = (0..senders).map(|_| {
        let there = there.clone();
        tokio::spawn(async move {
            for number in 0..MESSAGES / senders {
                there.tell(load(number, 10)).await.unwrap();
            }
        })
    });
    for task in within(join_all(tasks)).await {
        task.unwrap();
    }
    // Behind all of them.
    let last = within(async { there.load(0, vec![]).timeout(crate::process::PATIENCE).await });
    last.await.unwrap();
    frames(nodes) - before
}

/// A thousand waiting senders fill frames about as well as one does. All on one thread, so that the
/// tasks run in the same order each time.
#[tokio::test]
async fn a_thousand_waiting_senders_need_few_more_frames_than_one() {
    let (alpha, beta) = pair(Profile::default()).await;
    Held::free(&beta, "stack").await;
    let there = alpha.actor::<Stack>("beta/stack").await.unwrap();
    let one = frames_of([&alpha, &beta], &there, 1).await;
    let many = frames_of([&alpha, &beta], &there, SENDERS).await;
    println!("{MESSAGES} messages took {one} frames of one sender, {many} of {SENDERS}");
    assert!(many <= TIMES * one, "{many} frames, more than {TIMES} times {one}");
    end([&alpha, &beta]).await;
}
