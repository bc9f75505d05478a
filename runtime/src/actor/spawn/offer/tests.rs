//! Tests of spawners with hostile callers and with types that fail.

use std::fmt;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::poll;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tokio::task::block_in_place;

use super::*;
use crate::error::RemoteSpawnCause;
use crate::exit::ActorExit;
use crate::message::Message;

/// How a [`FragileActor`] is made.
#[message]
enum Plan {
    Work,
    /// The text of the error of `create` panics.
    BadError,
    /// The actor panics when it is dropped.
    Falls,
    /// Panics when it is dropped unused.
    Unused(PanicOnDrop),
    /// `create` waits at the gate.
    Waits,
}

#[message]
struct PanicOnDrop {}

impl Drop for PanicOnDrop {
    fn drop(&mut self) {
        panic!("a thorn");
    }
}

struct BadError;

impl fmt::Debug for BadError {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("no words")
    }
}

impl fmt::Display for BadError {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("no words")
    }
}

impl std::error::Error for BadError {}

#[actor]
struct FragileActor {
    falls: bool,
}

#[handlers]
impl FragileActor {}

impl Drop for FragileActor {
    fn drop(&mut self) {
        assert!(!self.falls, "it fell");
    }
}

static GATE: Barrier = Barrier::new(2);
/// The number of calls of `create` that have reached the gate.
static CAME: AtomicU64 = AtomicU64::new(0);

impl Offered for FragileActor {
    type Arguments = Plan;
    const LIVING_MAX: usize = 64;

    fn create(plan: Plan) -> Result<Self, BoxError> {
        match plan {
            Plan::BadError => return Err(BadError.into()),
            Plan::Waits => {
                CAME.fetch_add(1, Ordering::SeqCst);
                block_in_place(|| GATE.wait());
            }
            _ => {}
        }
        Ok(FragileActor { falls: matches!(plan, Plan::Falls) })
    }
}

/// A type that counts how many actors of it were made.
#[actor]
struct CountedActor;

#[handlers]
impl CountedActor {}

static MADE: AtomicU64 = AtomicU64::new(0);

impl Offered for CountedActor {
    type Arguments = ();

    fn create((): ()) -> Result<Self, BoxError> {
        MADE.fetch_add(1, Ordering::Relaxed);
        Ok(CountedActor)
    }
}

async fn node() -> Node {
    Node::builder("alpha").start().await.unwrap()
}

fn spawner<M: Message>(node: &Node, to: &str) -> Recipient<M, SpawnReply> {
    Recipient::bind(node, Address::by_name(to.into(), offer_name::<FragileActor>()))
}

fn watched_by(watcher: &Address) -> SpawnRequest<Plan> {
    let arguments = Box::new(Plan::Work);
    SpawnRequest { arguments, name: None, mailbox_capacity: None, watcher: Some(watcher.clone()) }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn code_of_a_type_that_panics_ends_no_spawner_and_frees_the_name() {
    let node = node().await;
    node.offer::<FragileActor>().unwrap();
    let peer = node.peer("alpha");
    let spawn = |plan| peer.spawn::<FragileActor>("fragile", plan);
    let failed = spawn(Plan::BadError).await.unwrap_err();
    assert_eq!(failed.cause, RemoteSpawnCause::Panicked("no words".into()));
    let first = spawn(Plan::Falls).await.unwrap();
    let failed = spawn(Plan::Unused(PanicOnDrop {})).await.unwrap_err();
    assert_eq!(failed.cause, RemoteSpawnCause::Panicked("a thorn".into()));
    let taken = spawn(Plan::Falls).await.unwrap_err();
    assert_eq!(taken.cause, RemoteSpawnCause::NameTaken("fragile".into()));
    first.stop().await.unwrap();
    first.wait_stopped().await;
    spawn(Plan::Work).await.unwrap();
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn for_a_name_that_is_taken_nothing_is_made() {
    let node = node().await;
    node.offer::<CountedActor>().unwrap();
    for _ in 0..4 {
        let spawned = node.peer("alpha").spawn::<CountedActor>("counted", ()).await;
        drop(spawned);
    }
    assert_eq!(MADE.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn no_signal_of_another_node_ends_what_offers_a_type() {
    let start = |name: &str, seeds| Node::builder(name).listen("127.0.0.1:0").seeds(seeds);
    let alpha = start("alpha", vec![]).start().await.unwrap();
    let beta = start("beta", alpha.addresses()).start().await.unwrap();
    alpha.ready(1).await.unwrap();
    beta.offer::<FragileActor>().unwrap();
    let address = Address::by_name("beta".into(), offer_name::<FragileActor>());
    let spawner = ActorRef::<Spawner<FragileActor>>::bind(&alpha, address);
    spawner.stop().await.unwrap();
    spawner.drain().await.unwrap();
    spawner.kill().await.unwrap();
    for _ in 0..4 {
        // A signal arrives before a message that is sent after it.
        alpha.peer("beta").spawn_anonymous::<FragileActor>(Plan::Work).await.unwrap();
    }
}

#[tokio::test]
async fn those_that_are_held_end_with_their_own_watchers_only() {
    let node = node().await;
    node.offer::<FragileActor>().unwrap();
    let spawner = spawner::<SpawnRequest<Plan>>(&node, "alpha");
    let (mut inboxes, mut held) = (Vec::new(), Vec::new());
    for _ in 0..8 {
        let inbox = node.inbox::<Down>(1).await.unwrap();
        for _ in 0..4 {
            let at = spawner.ask(watched_by(inbox.recipient().address())).await.unwrap().unwrap();
            held.push(ActorRef::<FragileActor>::bind(&node, at));
        }
        inboxes.push(inbox);
    }
    for (number, inbox) in inboxes.into_iter().enumerate() {
        drop(inbox);
        for ended in &held[4 * number..4 * number + 4] {
            assert_eq!(ended.wait_stopped().await, ActorExit::Killed);
        }
        for living in &held[4 * number + 4..] {
            assert!(node.resident(living.address()).is_ok());
        }
    }
}

/// An actor counts for the limit even if it was named as a watcher before it was spawned.
#[tokio::test]
async fn no_watcher_has_more_actors_live_than_may() {
    let node = node().await;
    node.offer::<FragileActor>().unwrap();
    let peer = node.peer("alpha");
    let spawner = spawner::<SpawnRequest<Plan>>(&node, "alpha");
    let first = peer.spawn_anonymous::<FragileActor>(Plan::Work).await.unwrap();
    let mut identity = first.address().identity().unwrap();
    let mut spawned = 1;
    loop {
        // The identity of the actor after the next.
        identity.key.index += 2;
        let watcher = Address::of("alpha".into(), identity, None);
        let (held, next) = futures::join!(
            spawner.ask(watched_by(&watcher)),
            peer.spawn_anonymous::<FragileActor>(Plan::Work)
        );
        drop(held);
        match next {
            Ok(next) => assert_eq!(next.address(), &watcher),
            Err(error) => break assert_eq!(error.cause, RemoteSpawnCause::TooMany(64)),
        }
        spawned += 1;
        assert!(spawned <= 64);
    }
}

/// An actor that gives up a spawn while the new actor is held and its spawner is busy.
#[actor]
struct CancellingActor;

#[message(local)]
struct GiveUp;

#[handlers]
impl CancellingActor {
    #[handler]
    async fn give_up(&mut self, msg: GiveUp, cx: &mut Context<Self>) {
        let GiveUp = msg;
        let spawn = cx.node().peer("alpha").spawn::<FragileActor>("held", Plan::Waits);
        let (node, hour) = (cx.node().clone(), std::time::Duration::from_secs(3600));
        let mut spawn = spawn.timeout(hour).watched_by(cx);
        assert!(poll!(&mut spawn).is_pending());
        let other = node.peer("alpha").spawn_anonymous::<FragileActor>(Plan::Waits);
        let mut other = other.timeout(hour);
        assert!(poll!(&mut other).is_pending());
        until(|| CAME.load(Ordering::SeqCst) == 1).await;
        block_in_place(|| GATE.wait());
        until(|| CAME.load(Ordering::SeqCst) == 2).await;
        // The spawn was answered, and now asks the spawner to start the actor.
        assert!(poll!(&mut spawn).is_pending());
        drop(spawn);
        block_in_place(|| GATE.wait());
        other.await.unwrap();
    }

    #[handler]
    fn down(&mut self, msg: Down) {
        drop(msg);
    }
}

async fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

/// The actor ends long before the time-out, and while its watcher lives.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn an_actor_that_nobody_has_begin_any_more_is_let_go() {
    let node = node().await;
    node.offer::<FragileActor>().unwrap();
    let fickle = node.spawn("fickle", CancellingActor).await.unwrap();
    fickle.ask(GiveUp).await.unwrap();
    while let Err(error) = node.peer("alpha").spawn::<FragileActor>("held", Plan::Work).await {
        assert_eq!(error.cause, RemoteSpawnCause::NameTaken("held".into()));
    }
}

/// An actor whose `create` blocks until the test comes to the barrier.
#[actor]
struct BlockingActor;

#[handlers]
impl BlockingActor {}

static SLOW: Barrier = Barrier::new(2);
static SLOW_CAME: AtomicU64 = AtomicU64::new(0);

impl Offered for BlockingActor {
    type Arguments = ();

    fn create((): ()) -> Result<Self, BoxError> {
        SLOW_CAME.fetch_add(1, Ordering::SeqCst);
        block_in_place(|| SLOW.wait());
        Ok(BlockingActor)
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_spawn_that_was_not_begun_when_its_type_was_withdrawn_says_so() {
    let node = node().await;
    node.offer::<BlockingActor>().unwrap();
    let peer = node.peer("alpha");
    let mut first = peer.spawn::<BlockingActor>("first", ());
    assert!(poll!(&mut first).is_pending());
    until(|| SLOW_CAME.load(Ordering::SeqCst) == 1).await;
    let mut second = peer.spawn::<BlockingActor>("second", ());
    assert!(poll!(&mut second).is_pending());
    let mut withdrawn = Box::pin(node.withdraw::<BlockingActor>());
    assert!(poll!(&mut withdrawn).is_pending());
    assert_eq!(node.offer::<BlockingActor>(), Err(OfferError::Withdrawing(BlockingActor::NAME)));
    block_in_place(|| SLOW.wait());
    assert!(withdrawn.await);
    assert_eq!(first.await.unwrap().address().to_string(), "alpha/first");
    let second = second.await.unwrap_err();
    assert_eq!((&second.cause, second.is_retryable()), (&RemoteSpawnCause::Withdrawn, true));
    assert_eq!(node.offer::<BlockingActor>(), Ok(()));
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn those_that_are_held_count_among_those_that_live() {
    let node = node().await;
    node.offer::<FragileActor>().unwrap();
    let (peer, spawner) = (node.peer("alpha"), spawner::<SpawnRequest<Plan>>(&node, "alpha"));
    let inbox = node.inbox::<Down>(1).await.unwrap();
    for _ in 0..64 {
        spawner.ask(watched_by(inbox.recipient().address())).await.unwrap().unwrap();
    }
    let refused = peer.spawn_anonymous::<FragileActor>(Plan::Work).await.unwrap_err();
    assert_eq!(refused.cause, RemoteSpawnCause::TooMany(64));
    let refused = spawner.ask(watched_by(inbox.recipient().address())).await.unwrap();
    assert!(matches!(refused, Err(SpawnRefusal::TooMany(64))), "{refused:?}");
    drop(inbox);
    while let Err(error) = peer.spawn_anonymous::<FragileActor>(Plan::Work).await {
        assert_eq!(error.cause, RemoteSpawnCause::TooMany(64));
    }
}

/// Both when the offer is withdrawn and when the node shuts down.
#[tokio::test]
async fn those_that_are_held_when_their_offer_ends_are_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let node = node().await;
    let spawner = spawner::<SpawnRequest<Plan>>(&node, "alpha");
    let inbox = node.inbox::<Down>(1).await.unwrap();
    for count in [2, 3] {
        node.offer::<FragileActor>().unwrap();
        for _ in 0..count {
            spawner.ask(watched_by(inbox.recipient().address())).await.unwrap().unwrap();
        }
        match count {
            2 => assert!(node.withdraw::<FragileActor>().await),
            _ => drop(node.shutdown(std::time::Duration::from_secs(5)).await),
        }
    }
    let counted = snapshotter.snapshot().into_hashmap().into_iter().map(|(key, (_, _, value))| {
        let mut labels = key.key().labels();
        let is_it = labels.any(|label| (label.key(), label.value()) == ("outcome", NOT_BEGUN));
        if let (DebugValue::Counter(count), true) = (value, is_it) { count } else { 0 }
    });
    assert_eq!(counted.sum::<u64>(), 5);
}
