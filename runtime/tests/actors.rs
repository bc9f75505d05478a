//! The actors that the tests talk to.

use std::sync::Arc;
use std::time::Duration;

use ringpost::prelude::*;
use ringpost::spawn::SpawnOptions;
use tokio::sync::{Notify, Semaphore};

/// A node without a network.
pub async fn node() -> Node {
    Node::builder("alpha").start().await.unwrap()
}

/// Notes its numbers; each `hold` takes one permit of its gate.
#[actor]
pub struct Notebook {
    pub notes: Vec<u64>,
    pub gate: Arc<Semaphore>,
    /// Notified when a `hold` begins.
    pub held: Arc<Notify>,
}

impl Notebook {
    pub fn new() -> Self {
        Notebook { notes: Vec::new(), gate: Arc::new(Semaphore::new(0)), held: Arc::default() }
    }
}

#[message]
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    pub number: u64,
}

#[handlers]
impl Notebook {
    #[handler]
    pub fn note(&mut self, msg: Note) {
        self.notes.push(msg.number);
    }

    #[handler]
    pub fn notes(&self) -> Vec<u64> {
        self.notes.clone()
    }

    /// Waits for a permit of the gate.
    #[handler]
    pub async fn hold(&mut self) {
        self.held.notify_one();
        self.gate.acquire().await.unwrap().forget();
    }

    #[handler]
    pub fn fail(&mut self) -> u64 {
        panic!("as it was told")
    }

    #[handler]
    pub fn stop_yourself(&mut self, cx: &mut Context<Self>) {
        cx.stop();
    }
}

/// A notebook in the middle of a `hold`.
pub struct Held {
    pub actor: ActorRef<Notebook>,
    pub gate: Arc<Semaphore>,
    pub held: Arc<Notify>,
}

pub async fn held(node: &Node, capacity: usize) -> Held {
    let notebook = Notebook::new();
    let (gate, held) = (notebook.gate.clone(), notebook.held.clone());
    let options = SpawnOptions::named("held").mailbox_capacity(capacity);
    let actor = node.spawn_with(options, notebook).await.unwrap();
    actor.tell(Hold).await.unwrap();
    held.notified().await;
    Held { actor, gate, held }
}

/// Tells a notebook that holds numbers from 0 on, until one has waited this long for room and comes
/// back. Returns how many it was told.
pub async fn fill(notebook: &ActorRef<Notebook>, patience: Duration) -> u64 {
    let mut told = 0;
    let late = loop {
        match notebook.tell(Note { number: told }).timeout(patience).await {
            Ok(()) => told += 1,
            Err(late) => break late,
        }
    };
    assert_eq!((late.message, late.cause), (Note { number: told }, Cause::Timeout));
    told
}
