//! Asks whose caller has given up are not handled if they were not begun.

use std::pin::pin;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::join_all;
use ringpost::net::Profile;
use ringpost::prelude::*;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use super::{Held, Stack, dialling, end, listening, load, pair, until};
use crate::process::{PATIENCE, within};

const ASKS: u64 = 10;
/// The timeout of asks that are given up.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Returns how many messages wait in the mailbox of the actor `stuck` of this node.
fn depth(node: &Node) -> usize {
    let actors = node.snapshot().actors;
    let stuck = actors.iter().find(|actor| actor.address.name() == Some("stuck"));
    let mailbox = stuck.expect("it lives here").mailbox;
    mailbox.local + mailbox.remote
}

/// Asks a stuck actor of `node` by way of `there`, drops the asks when they wait in its mailbox,
/// and lets it go on; returns which of them it handled.
async fn drop_asks(node: &Node, held: &Held, there: &ActorRef<Stack>, live: &Held) -> Vec<u64> {
    {
        let asks = (0..ASKS).map(|number| there.ask(load(number, 10)).timeout(PATIENCE));
        let mut asks = pin!(join_all(asks));
        assert!(asks.as_mut().now_or_never().is_none(), "the actor is stuck");
        within(async {
            tokio::select! {
                _ = &mut asks => panic!("the actor is stuck"),
                () = until(|| depth(node) >= ASKS as usize) => {}
            }
        })
        .await;
    }
    // The cancellations of the dropped asks arrive no later than messages sent after them.
    for number in 0..2 {
        live.actor.load(number, vec![0; 10]).await.unwrap();
    }
    held.release();
    within(async { there.numbers().timeout(PATIENCE).await }).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asks_that_are_dropped_before_they_are_begun_are_not_handled_on_the_same_node() {
    let node = listening("alpha", Profile::default()).await;
    let (held, live) = (Held::stuck(&node, "stuck").await, Held::free(&node, "live").await);
    let handled = drop_asks(&node, &held, &held.actor.clone(), &live).await;
    println!("{} of {ASKS} asks that were dropped were handled", handled.len());
    assert_eq!(handled, [0; 0]);
    node.shutdown(PATIENCE).await;
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asks_that_are_dropped_before_they_are_begun_are_not_handled_on_another_node() {
    let (alpha, beta) = pair(Profile::default()).await;
    let (held, live) = (Held::stuck(&beta, "stuck").await, Held::free(&beta, "live").await);
    let there = alpha.actor::<Stack>("beta/stuck").await.unwrap();
    let live = Held { actor: alpha.actor("beta/live").await.unwrap(), ..live };
    let handled = drop_asks(&beta, &held, &there, &live).await;
    println!("{} of {ASKS} asks that were dropped were handled", handled.len());
    assert_eq!(handled, [0; 0]);
    end([&alpha, &beta]).await;
}

/// A node on a runtime of one thread, which stands still from an order to the next.
struct Blockable {
    node: Node,
    /// Its stack `stack`, which is free.
    stack: Held,
    /// Each order is answered when the runtime stands still, and then waits for one on the other
    /// channel to go on.
    orders: tokio::sync::mpsc::UnboundedSender<oneshot::Sender<()>>,
    goes_on: mpsc::Sender<()>,
    thread: thread::JoinHandle<()>,
}

impl Blockable {
    /// Starts it; it listens, and dials `seed` if there is one.
    async fn start(name: &'static str, seed: Option<String>) -> Self {
        let (orders, mut ordered) = tokio::sync::mpsc::unbounded_channel::<oneshot::Sender<()>>();
        let (goes_on, wait) = mpsc::channel();
        let (ready, started) = oneshot::channel();
        let thread = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let node = match seed {
                    Some(seed) => dialling(name, &seed, Profile::default()).await,
                    None => listening(name, Profile::default()).await,
                };
                let stack = Held::free(&node, "stack").await;
                ready.send((node.clone(), stack)).ok().unwrap();
                while let Some(blocked) = ordered.recv().await {
                    blocked.send(()).unwrap();
                    wait.recv().unwrap();
                }
                node.shutdown(PATIENCE).await;
            });
        });
        let (node, stack) = started.await.unwrap();
        Blockable { node, stack, orders, goes_on, thread }
    }

    /// Returns when the runtime stands still.
    async fn block(&self) {
        let (order, blocked) = oneshot::channel();
        self.orders.send(order).unwrap();
        within(blocked).await.unwrap();
    }

    /// Releases the runtime.
    fn unblock(&self) {
        self.goes_on.send(()).unwrap();
    }

    async fn end(self) {
        drop(self.orders);
        tokio::task::spawn_blocking(move || self.thread.join()).await.unwrap().unwrap();
    }
}

/// The deadline of an ask passes although the runtime that it was sent to stands still; the asker's
/// runtime stands still too, so that no cancellation comes.
// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asks_whose_deadline_passes_while_their_node_stands_still_are_not_handled() {
    let beta = Blockable::start("beta", None).await;
    let alpha = Blockable::start("alpha", Some(beta.node.addresses().remove(0))).await;
    let there = within(async { alpha.node.actor::<Stack>("beta/stack").await }).await.unwrap();
    within(async { there.numbers().timeout(PATIENCE).await }).await.unwrap();
    let sent = || alpha.node.links()[0].1.messages_sent;
    let before = sent();
    beta.block().await;
    let begun = Instant::now();
    let asks = (0..ASKS).map(|number| there.ask(load(number, 10)).timeout(TIMEOUT));
    let mut asks = pin!(join_all(asks));
    assert!(asks.as_mut().now_or_never().is_none(), "nothing answers");
    until(|| sent() - before >= ASKS).await;
    alpha.block().await;
    assert!(begun.elapsed() < TIMEOUT, "the machine is too slow: they may have been cancelled");
    // The test is about the time that passes here.
    tokio::time::sleep_until((begun + 2 * TIMEOUT).into()).await;
    beta.unblock();
    // By then beta has read them all: each was begun, or was too late.
    until(|| beta.node.links()[0].1.messages_received >= before + ASKS).await;
    let handled = within(async { beta.stack.actor.numbers().await }).await.unwrap();
    println!("{} of {ASKS} asks that were too late were handled", handled.len());
    assert_eq!(handled, [0; 0]);
    alpha.unblock();
    let ends = within(asks).await;
    assert!(ends.iter().all(Result::is_err), "nothing answered: {ends:?}");
    for node in [alpha, beta] {
        node.end().await;
    }
}
