//! Tests of the state of other nodes, and of nodes that leave while others ask.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use ringpost::net::NodeDownCause;
use ringpost::observe::{HealthReason, NodeEvent, PeerState, PeerStatus, Peers};
use ringpost::prelude::*;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::actors::{Held, Note, Notebook, held};
use crate::remote::{PATIENCE, end, listening, pair};

/// Waits until the state of `beta` is as expected.
async fn until(peers: &mut Peers, expected: impl Fn(&PeerState) -> bool) -> PeerState {
    let wait = async {
        loop {
            let state = peers.read().into_iter().find(|peer| peer.node.name.as_str() == "beta");
            if let Some(state) = state.filter(|state| expected(state)) {
                return state;
            }
            assert!(peers.changed().await, "its own node goes on");
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("it comes to that")
}

fn is_linked(state: &PeerState) -> bool {
    matches!(state.status, PeerStatus::Linked { leaving: false, .. })
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn the_state_of_other_nodes_can_be_read_however_far_an_observer_is_behind() {
    let (alpha, beta) = pair().await;
    let (mut peers, mut idle) = (alpha.peers(), alpha.peers());
    let first = until(&mut peers, is_linked).await;
    assert_eq!(first.node, *beta.id());
    let Held { actor: _, gate, .. } = held(&beta, 1024).await;
    let leaving = tokio::spawn({
        let beta = beta.clone();
        async move { beta.shutdown(PATIENCE).await }
    });
    let state = until(&mut peers, |state| !is_linked(state)).await;
    let PeerStatus::Linked { leaving: true, .. } = state.status else { panic!("{state:?}") };
    assert_eq!(state.since, first.since, "it is the same link");
    gate.add_permits(1);
    leaving.await.unwrap();
    let is_left =
        |state: &PeerState| state.status == PeerStatus::Down { cause: NodeDownCause::Left };
    let down = until(&mut peers, is_left).await;
    assert!(down.node == first.node && down.since >= first.since);
    let again = listening("beta", &[&alpha]).await;
    let linked = until(&mut peers, is_linked).await;
    assert_eq!(linked.node, *again.id());
    // A reader that never looked in between reads the current state, and is not told twice.
    tokio::time::timeout(PATIENCE, idle.changed()).await.expect("at once");
    assert_eq!(idle.read(), [linked]);
    assert!(tokio::time::timeout(Duration::from_millis(50), idle.changed()).await.is_err());
    end([alpha, again]).await;
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn an_observer_of_other_nodes_ends_with_its_own_node_and_does_not_keep_it() {
    let (alpha, beta) = pair().await;
    let follow = |node: &Node| {
        let mut peers = node.peers();
        tokio::spawn(async move {
            while peers.changed().await {
                peers.read();
            }
            peers.read()
        })
    };
    let (shut_down, dropped) = (follow(&alpha), follow(&beta));
    alpha.shutdown(PATIENCE).await;
    tokio::time::timeout(PATIENCE, shut_down).await.expect("it ends").unwrap();
    // No actor of it lives, and nothing else holds it.
    drop(beta);
    let known = tokio::time::timeout(PATIENCE, dropped).await.expect("it ends").unwrap();
    assert_eq!(known, []);
    let alone = Node::builder("alone").start().await.unwrap();
    assert!(!alone.peers().changed().await, "it has no other nodes");
}

/// A weak reference and an observer keep no node alive; all else that leads to it does.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_node_lives_as_long_as_something_leads_to_it() {
    for kind in ["reference", "recipient", "permit", "inbox", "weak reference", "nothing"] {
        let (alpha, beta) = pair().await;
        beta.spawn("notebook", Notebook::new()).await.unwrap();
        let notebook = alpha.actor::<Notebook>("beta/notebook").await.unwrap();
        let held: Box<dyn Any + Send> = match kind {
            "reference" => Box::new(notebook.clone()),
            "recipient" => Box::new(notebook.recipient::<Note>()),
            "permit" => Box::new(notebook.reserve::<Note>().await.unwrap()),
            "inbox" => Box::new(alpha.inbox::<Note>(4).await.unwrap()),
            "weak reference" => Box::new(notebook.downgrade()),
            _ => Box::new(()),
        };
        let mut peers = alpha.peers();
        drop((notebook, alpha));
        let mut ended = Box::pin(async move {
            while peers.changed().await {
                peers.read();
            }
        });
        let mut held = Some(held);
        if !["weak reference", "nothing"].contains(&kind) {
            let early = tokio::time::timeout(Duration::from_millis(50), &mut ended).await;
            assert!(early.is_err(), "{kind}");
            drop(held.take());
        }
        tokio::time::timeout(PATIENCE, ended).await.unwrap_or_else(|_| panic!("{kind}"));
        drop(held);
        beta.shutdown(PATIENCE).await;
    }
}

/// Tries again while that can help, as users do.
async fn asked(desk: &ActorRef<Notebook>) -> AskError {
    loop {
        match desk.notes().await {
            Err(error) if !error.is_retryable() => return error,
            _ => sleep(Duration::from_millis(1)).await,
        }
    }
}

/// As [`asked`], without waiting.
async fn told(desk: &ActorRef<Notebook>) -> Cause {
    loop {
        match desk.try_tell(Note { number: 1 }) {
            Err(error) if !error.is_retryable() => return error.cause,
            _ => sleep(Duration::from_millis(1)).await,
        }
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn what_tries_again_ends_when_its_own_node_shuts_down() {
    let (alpha, beta) = pair().await;
    let mut references = Vec::new();
    for (node, name) in [(&alpha, "near"), (&beta, "far")] {
        let spawned = node.spawn(name, Notebook::new()).await.unwrap();
        let path = format!("{}/{name}", node.name());
        references.push(alpha.named::<Notebook>(&path).unwrap());
        references.push(alpha.actor::<Notebook>(&path).await.unwrap());
        drop(spawned);
    }
    let mut sends = JoinSet::new();
    for desk in references {
        let again = desk.clone();
        sends.spawn(async move { asked(&desk).await.cause });
        sends.spawn(async move { AskCause::NotSent(told(&again).await) });
    }
    let seeker = alpha.clone();
    sends.spawn(async move {
        loop {
            match seeker.actor::<Notebook>("near").await {
                Err(error) if !error.is_retryable() => {
                    return AskCause::NotSent(error.cause().unwrap().clone());
                }
                _ => sleep(Duration::from_millis(1)).await,
            }
        }
    });
    sleep(Duration::from_millis(20)).await;
    alpha.shutdown(PATIENCE).await;
    let ended = tokio::time::timeout(PATIENCE, sends.join_all()).await.expect("all of them end");
    for cause in ended {
        assert!(
            matches!(cause, AskCause::NotSent(Cause::Shutdown) | AskCause::LinkDown(_)),
            "{cause:?}"
        );
    }
    beta.shutdown(PATIENCE).await;
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn nothing_more_is_asked_of_a_node_that_leaves_and_what_it_accepted_is_answered() {
    let (alpha, beta) = pair().await;
    let Held { gate, .. } = held(&beta, 1024).await;
    let there = alpha.actor::<Notebook>("beta/held").await.unwrap();
    let accepted = there.notes().try_send().unwrap();
    // Earlier messages are there when this one is.
    there.tell(Note { number: 1 }).confirmed().await.unwrap();
    let mut events = alpha.events();
    let leaving = tokio::spawn({
        let beta = beta.clone();
        async move { beta.shutdown(PATIENCE).await }
    });
    while !matches!(events.recv().await.unwrap(), NodeEvent::NodeLeaving { .. }) {}
    let refused = there.notes().await.unwrap_err();
    assert_eq!(refused.cause, AskCause::NotSent(Cause::Leaving));
    assert!(refused.is_retryable());
    assert!(matches!(there.notes().try_send(), Err(back) if back.cause == Cause::Leaving));
    // An ask that waits for the next run of the node gets there.
    let patient = alpha.named::<Notebook>("beta/held").unwrap();
    let patient = tokio::spawn(async move {
        loop {
            match patient.notes().wait_for_link().timeout(PATIENCE).into_ask().await {
                // The link is there before the actor is.
                Err(why) if why.cause == AskCause::NotSent(Cause::NoSuchActor) => {
                    sleep(Duration::from_millis(1)).await;
                }
                answer => return answer,
            }
        }
    });
    gate.add_permits(1);
    assert_eq!(accepted.await, Ok(Vec::new()));
    leaving.await.unwrap();
    let mut seen = Vec::new();
    while !matches!(seen.last(), Some(NodeEvent::NodeDown { .. })) {
        seen.push(events.recv().await.unwrap());
    }
    let Some(NodeEvent::NodeDown { cause: NodeDownCause::Left, .. }) = seen.last() else {
        panic!("{seen:?}")
    };
    let again = listening("beta", &[&alpha]).await;
    again.spawn("held", Notebook::new()).await.unwrap();
    assert_eq!(patient.await.unwrap(), Ok(Vec::new()));
    end([alpha, again]).await;
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn the_health_of_a_node_is_one_line_with_the_reasons() {
    let alone = Node::builder("alpha").start().await.unwrap();
    assert_eq!(alone.health().to_string(), "ready");
    let (alpha, beta) = pair().await;
    assert_eq!(
        (alpha.health().to_string(), beta.health().to_string()),
        ("ready".into(), "ready".into())
    );
    let Held { gate, .. } = held(&beta, 1024).await;
    let mut events = beta.events();
    alpha.shutdown(PATIENCE).await;
    let health = alpha.health();
    assert_eq!(
        (health.live, health.ready, &health.reasons[..]),
        (true, false, &[HealthReason::Leaving][..])
    );
    while !matches!(events.recv().await.unwrap(), NodeEvent::NodeDown { .. }) {}
    let health = beta.health();
    assert!(health.live && health.ready);
    assert_eq!(health.to_string(), "ready: no other node is linked");
    let leaving = tokio::spawn({
        let beta = beta.clone();
        async move { beta.shutdown(PATIENCE).await }
    });
    while beta.health().ready {
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(
        beta.health().to_string(),
        "not ready: this node is shutting down; no other node is linked"
    );
    gate.add_permits(1);
    leaving.await.unwrap();
    alone.shutdown(PATIENCE).await;
}

const NAMES: [&str; 3] = ["beta", "gamma", "delta"];

/// How often each order was handled, by any run of any node.
type Orders = Arc<Mutex<BTreeMap<u64, u32>>>;

/// Takes orders.
#[actor]
struct Desk {
    orders: Orders,
}

#[message]
struct Order {
    number: u64,
}

#[handlers]
impl Desk {
    #[handler]
    async fn order(&mut self, msg: Order) -> u64 {
        *self.orders.lock().entry(msg.number).or_default() += 1;
        tokio::task::yield_now().await;
        msg.number
    }
}

/// The outcomes of the orders.
#[derive(Default)]
struct Results {
    answered: AtomicU64,
    unknown: Mutex<Vec<(u64, AskError)>>,
    retries: Mutex<BTreeMap<String, u64>>,
    enough: AtomicBool,
}

impl Results {
    /// Sends one order until it is answered, or nobody can say what became of it.
    async fn order(&self, desk: ActorRef<Desk>, number: u64) {
        loop {
            match desk.ask(Order { number }).await {
                Ok(answer) => {
                    assert_eq!(answer, number);
                    self.answered.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Err(error) if error.is_retryable() => {
                    *self.retries.lock().entry(error.cause.to_string()).or_default() += 1;
                    sleep(Duration::from_millis(5)).await;
                }
                Err(error) => return self.unknown.lock().push((number, error)),
            }
        }
    }

    async fn are(&self, count: u64) {
        while self.answered.load(Ordering::Relaxed) < count {
            sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Sends 1,000 orders a second, each at its time whether those before are answered or not. Returns
/// how many.
async fn order_again_and_again(client: Node, results: Arc<Results>) -> u64 {
    let desks = NAMES.map(|name| client.named::<Desk>(&format!("{name}/desk")).unwrap());
    let mut pace = interval(Duration::from_millis(1));
    pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut orders = JoinSet::new();
    let mut number = 0;
    while !results.enough.load(Ordering::Relaxed) {
        pace.tick().await;
        let (desk, results) = (desks[number as usize % 3].clone(), results.clone());
        orders.spawn(async move { results.order(desk, number).await });
        number += 1;
    }
    while let Some(done) = orders.join_next().await {
        done.unwrap();
    }
    number
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_loses_no_ask_that_is_tried_again_and_has_none_handled_twice() {
    let client = listening("alpha", &[]).await;
    let orders = Orders::default();
    let launch = async |name: &str| {
        let node = listening(name, &[&client]).await;
        node.spawn("desk", Desk { orders: orders.clone() }).await.unwrap();
        node
    };
    let mut nodes = Vec::new();
    for name in NAMES {
        nodes.push(launch(name).await);
    }
    let results = Arc::new(Results::default());
    let sender = tokio::spawn(order_again_and_again(client.clone(), results.clone()));
    for (number, name) in NAMES.into_iter().enumerate() {
        results.are(500 * (number as u64 + 1)).await;
        assert_eq!(nodes[number].shutdown(PATIENCE).await, []);
        nodes[number] = launch(name).await;
    }
    results.are(2_500).await;
    results.enough.store(true, Ordering::Relaxed);
    let sent = sender.await.unwrap();
    let answered = results.answered.load(Ordering::Relaxed);
    println!("{sent} asks, {answered} answered, tried again: {:#?}", results.retries.lock());
    let unknown = std::mem::take(&mut *results.unknown.lock());
    assert!(unknown.is_empty(), "in an orderly restart each ask has a known fate: {unknown:?}");
    assert_eq!(answered, sent);
    let handled = std::mem::take(&mut *orders.lock());
    assert_eq!(handled.len() as u64, sent);
    assert!(handled.values().all(|times| *times == 1), "each exactly once");
    for node in nodes.into_iter().chain([client.clone()]) {
        node.shutdown(PATIENCE).await;
    }
}
