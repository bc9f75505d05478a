//! Nodes under pressure: full windows, slow paths, askers that give up, many senders. Each test is
//! about one way in which an honest peer was once cut off, starved or made to grow.
//!
//! The tests wait for events and bound counts and memory, never times.

mod abandoned;
mod archive;
mod lines;
#[cfg(feature = "mutants")]
mod mutants;
mod relinks;
mod replies;
mod streams;
mod waiters;
mod window;

use std::sync::Arc;
use std::time::Duration;

use ringpost::net::{LinkCause, Profile};
use ringpost::observe::NodeEvent;
use ringpost::prelude::*;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::sync::{Notify, Semaphore};

use crate::process::{PATIENCE, within};

/// Notes the number of each load it is told; a `hold` takes one permit of its gate.
#[actor]
pub(crate) struct Stack {
    gate: Arc<Semaphore>,
    begun: Arc<Notify>,
    numbers: Vec<u64>,
}

#[handlers]
impl Stack {
    /// Waits for a permit of the gate.
    #[handler]
    async fn hold(&mut self) {
        self.begun.notify_one();
        self.gate.acquire().await.unwrap().forget();
    }

    /// Notes the number; the bytes only have a size, which is the answer.
    #[handler]
    pub(crate) fn load(&mut self, number: u64, bytes: Vec<u8>) -> u64 {
        self.numbers.push(number);
        bytes.len() as u64
    }

    /// The numbers, in the order in which they were handled.
    #[handler]
    fn numbers(&self) -> Vec<u64> {
        self.numbers.clone()
    }

    /// A reference to another stack of its node, by its identity.
    #[handler]
    async fn find(&self, name: String, cx: &mut Context<Self>) -> Option<ActorRef<Stack>> {
        cx.node().actor(&name).await.ok()
    }
}

/// A stack that is free, or in the middle of a `hold`.
pub(crate) struct Held {
    pub(crate) actor: ActorRef<Stack>,
    pub(crate) gate: Arc<Semaphore>,
    begun: Arc<Notify>,
}

impl Held {
    /// Spawns a stack that handles messages at once.
    pub(crate) async fn free(node: &Node, name: &str) -> Self {
        let (gate, begun) = (Arc::new(Semaphore::new(0)), Arc::<Notify>::default());
        let stack = Stack { gate: gate.clone(), begun: begun.clone(), numbers: Vec::new() };
        Held { actor: node.spawn(name, stack).await.unwrap(), gate, begun }
    }

    /// Spawns a stack that takes nothing until its gate is opened.
    pub(crate) async fn stuck(node: &Node, name: &str) -> Self {
        let held = Held::free(node, name).await;
        held.actor.tell(Hold).await.unwrap();
        held.begun.notified().await;
        held
    }

    /// Ends one `hold`.
    pub(crate) fn release(&self) {
        self.gate.add_permits(1);
    }
}

/// Returns how many messages of other nodes wait in the mailbox of the actor `name` of this node.
pub(crate) fn waiting(node: &Node, name: &str) -> usize {
    let actors = node.snapshot().actors;
    let actor = actors.iter().find(|actor| actor.address.name() == Some(name));
    actor.expect("it lives here").mailbox.remote
}

/// Returns a load of `bytes` bytes.
pub(crate) fn load(number: u64, bytes: usize) -> Load {
    Load { number, bytes: vec![0; bytes] }
}

/// Starts a node that listens.
pub(crate) async fn listening(name: &str, profile: Profile) -> Node {
    crate::process::log();
    Node::builder(name).listen("127.0.0.1:0").profile(profile).start().await.unwrap()
}

/// Starts a node that only dials `address`: all that it exchanges goes that way. Waits for the
/// link.
pub(crate) async fn dialling(name: &str, address: &str, profile: Profile) -> Node {
    let node = Node::builder(name).seeds([address]).profile(profile).start().await.unwrap();
    within(node.ready(1)).await.unwrap();
    node
}

/// Two linked nodes of this process.
pub(crate) async fn pair(profile: Profile) -> (Node, Node) {
    let beta = listening("beta", profile.clone()).await;
    let alpha = dialling("alpha", &beta.addresses()[0], profile).await;
    within(beta.ready(1)).await.unwrap();
    (alpha, beta)
}

/// Ends the nodes.
pub(crate) async fn end(nodes: [&Node; 2]) {
    tokio::join!(nodes[0].shutdown(PATIENCE), nodes[1].shutdown(PATIENCE));
}

/// Returns why links were lost so far, by these events.
pub(crate) fn losses(events: &mut Receiver<NodeEvent>) -> Vec<LinkCause> {
    let mut causes = Vec::new();
    loop {
        match events.try_recv() {
            Ok(NodeEvent::LinkDown { cause, .. }) => causes.push(cause),
            Ok(_) => {}
            Err(TryRecvError::Lagged(missed)) => panic!("{missed} events were missed"),
            Err(TryRecvError::Empty | TryRecvError::Closed) => return causes,
        }
    }
}

/// Waits until this holds, with patience.
pub(crate) async fn until(holds: impl Fn() -> bool) {
    within(async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}
