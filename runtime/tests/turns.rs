//! Turns: how many messages an actor handles before its thread runs another task.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use ringpost::NodeBuilder;
use ringpost::limits::TURN_MESSAGES_MAX;
use ringpost::net::Profile;
use ringpost::prelude::*;
use ringpost::spawn::SpawnOptions;
use tokio::sync::Semaphore;

use crate::actors::node;
use crate::behaviour::world::until;
use crate::remote::end;

/// Messages that wait of each kind: as many turns as there are messages in one.
const MESSAGES: u64 = TURN_MESSAGES_MAX as u64 * TURN_MESSAGES_MAX as u64;

/// Messages of another node that wait.
const FAR: u32 = 8 * TURN_MESSAGES_MAX as u32;

/// Counts its messages; none of their handlers waits.
#[actor]
struct Tally {
    handled: Arc<AtomicU64>,
    gate: Arc<Semaphore>,
}

#[handlers]
impl Tally {
    #[handler]
    fn count(&mut self) {
        self.handled.fetch_add(1, Ordering::Relaxed);
    }

    #[handler]
    async fn count_async(&mut self) {
        self.count();
    }

    #[handler]
    async fn hold(&mut self) {
        self.gate.acquire().await.unwrap().forget();
    }
}

impl Tally {
    fn new() -> Self {
        Tally { handled: Arc::default(), gate: Arc::new(Semaphore::new(0)) }
    }
}

fn roomy() -> SpawnOptions {
    SpawnOptions::named("tally").mailbox_capacity(2 * MESSAGES as usize)
}

/// Runs another task of this thread until all are handled. Returns how often it had its turn, and
/// the most messages that were handled between two of its turns.
async fn neighbour(handled: Arc<AtomicU64>, all: u64) -> (u64, u64) {
    let (mut before, mut turns, mut most) = (0, 0, 0);
    let task = tokio::spawn(poll_fn(move |cx| {
        let now = handled.load(Ordering::Relaxed);
        (turns, most, before) = (turns + 1, most.max(now - before), now);
        // Not `yield_now`, which has the last task that yielded run first.
        cx.waker().wake_by_ref();
        if now == all { Poll::Ready((turns, most)) } else { Poll::Pending }
    }));
    task.await.unwrap()
}

fn is_bounded((turns, most): (u64, u64), all: u64) {
    let bound = u64::from(TURN_MESSAGES_MAX);
    assert!((1..=bound).contains(&most), "{most} messages between two turns of another task");
    assert!(turns >= all / bound, "{turns}");
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn an_actor_of_which_much_waits_gives_its_thread_back_after_each_turn() {
    let (node, tally) = (node().await, Tally::new());
    let handled = tally.handled.clone();
    let tally = node.spawn_with(roomy(), tally).await.unwrap();
    for _ in 0..MESSAGES {
        tally.try_tell(Count).unwrap();
    }
    is_bounded(neighbour(handled.clone(), MESSAGES).await, MESSAGES);
    handled.store(0, Ordering::Relaxed);
    for _ in 0..MESSAGES / 2 {
        tally.try_tell(Count).unwrap();
        tally.try_tell(CountAsync).unwrap();
    }
    is_bounded(neighbour(handled, MESSAGES).await, MESSAGES);
}

/// The messages of another node, and as many of its own node, wait while the actor is held.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn an_actor_gives_its_thread_back_when_messages_of_another_node_wait_too() {
    let profile = Profile { mailbox_window_messages: 2 * FAR, ..Profile::default() };
    let start = async |builder: NodeBuilder| {
        builder.listen("127.0.0.1:0").profile(profile.clone()).start().await.unwrap()
    };
    let alpha = start(Node::builder("alpha")).await;
    let beta = start(Node::builder("beta").seeds(alpha.addresses())).await;
    beta.ready(1).await.unwrap();
    let tally = Tally::new();
    let (handled, gate) = (tally.handled.clone(), tally.gate.clone());
    let near = beta.spawn_with(roomy(), tally).await.unwrap();
    let far = alpha.actor::<Tally>("beta/tally").await.unwrap();
    for own in [0, u64::from(FAR)] {
        handled.store(0, Ordering::Relaxed);
        near.try_tell(Hold).unwrap();
        for _ in 0..FAR {
            far.tell(Count).await.unwrap();
        }
        for _ in 0..own {
            near.try_tell(Count).unwrap();
        }
        until(|| beta.snapshot().actors[0].mailbox.remote == FAR as usize).await;
        gate.add_permits(1);
        let all = own + u64::from(FAR);
        is_bounded(neighbour(handled.clone(), all).await, all);
    }
    drop((near, far));
    end([alpha, beta]).await;
}
