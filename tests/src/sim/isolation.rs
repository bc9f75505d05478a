//! One stuck mailbox, beside a hundred whose messages are taken at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ringpost_transport::endpoint::Profile;
use ringpost_transport::fabric::sim::{self, LinkModel, World};

use super::node::{Node, STUCK};
use super::reached::Reached;
use super::scenario::Outcome;

/// Live mailboxes, and messages to each.
const LIVE: u64 = 100;
const MESSAGES: u64 = 60;
/// Bytes of each message.
const BYTES: usize = 240;
/// Virtual time that one run may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns the throughput of a hundred live mailboxes beside a stuck mailbox, as a share of their
/// throughput without it. The stuck mailbox is sent as much as all others together.
///
/// # Panics
/// When a run stalls; the message names the seed.
pub fn throughput_beside_a_stuck_mailbox(seed: u64) -> f64 {
    let (alone, beside) = (time(seed, false), time(seed, true));
    alone.as_secs_f64() / beside.as_secs_f64()
}

/// Judges ST-4: the median over these seeds is 0.9 or more.
pub fn isolation(seeds: std::ops::Range<u64>) -> Outcome {
    let mut shares: Vec<f64> = seeds.map(throughput_beside_a_stuck_mailbox).collect();
    shares.sort_by(f64::total_cmp);
    let median = shares[shares.len() / 2];
    let text = format!("throughput beside a stuck mailbox: {median:.3} of that without (median)");
    let faults = if median < 0.9 { vec![format!("ST-4: {text}")] } else { Vec::new() };
    Outcome { faults, reached: Reached::default(), log: text + "\n", history: String::new() }
}

/// Returns the virtual time until all messages of the live mailboxes were taken.
fn time(seed: u64, stuck: bool) -> Duration {
    sim::run_for(seed, LIMIT, |world| async move { play(world, stuck).await })
}

async fn play(world: World, stuck: bool) -> Duration {
    world.set_links(LinkModel { bytes_per_second: 1_000_000_000, ..LinkModel::default() });
    let profile = || Profile { mailbox_window_messages: 16, ..Profile::default() };
    let receiver = Node::start(&world, ("b", "b"), [], profile()).await;
    let sender = Arc::new(Node::start(&world, ("a", "a"), ["b"], profile()).await);
    sender.endpoint.ready(1).await.expect("names differ");
    receiver.endpoint.ready(1).await.expect("names differ");
    let began = world.now();
    let send = |mailbox: String, messages: u64| {
        let sender = sender.clone();
        tokio::spawn(async move {
            for _ in 0..messages {
                sender.tell("b", &mailbox, BYTES, false).await.expect("the link stands");
            }
        })
    };
    let stuck = stuck.then(|| send(STUCK.to_owned(), LIVE * MESSAGES));
    let live: Vec<_> = (0..LIVE).map(|number| send(format!("live{number}"), MESSAGES)).collect();
    for task in live {
        task.await.expect("a sender does not panic");
    }
    while receiver.host.taken.load(Ordering::Relaxed) < LIVE * MESSAGES {
        world.sleep(Duration::from_micros(1)).await;
    }
    let took = Duration::from_nanos(world.now() - began);
    if let Some(stuck) = stuck {
        stuck.abort();
    }
    took
}
