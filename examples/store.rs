//! A store with a replica on each of three nodes. A write is acknowledged when two replicas have
//! it; one node is lost while writes go on, and comes back empty; no acknowledged write is lost.
//!
//! `cargo run --example store` prints:
//!
//! ```text
//! 300 writes, 100 of them without gamma: 150 keys have a value
//! gamma is back, with 150 values
//! beta is lost: 150 acknowledged values are read
//! ```
#![deny(warnings)]

use std::collections::BTreeMap;
use std::time::Duration;

use ringpost::prelude::*;
use ringpost::send::{AskSet, TooFewAnswers};

const PATIENCE: Duration = Duration::from_secs(5);
const NODES: [&str; 3] = ["alpha", "beta", "gamma"];
/// Any two sets of this many replicas have one in common.
const QUORUM: usize = 2;
const KEYS: usize = 150;
const WRITES: usize = 300;
const LOST_AT: usize = 100;
const BACK_AT: usize = 200;

/// A value, and how new it is.
#[message]
#[derive(Debug, Clone, PartialEq)]
struct Versioned {
    version: u64,
    value: String,
}

type Contents = BTreeMap<String, Versioned>;

/// Keeps the newest value of each key that it was told of.
#[derive(Default)]
struct Replica {
    values: Contents,
    /// Replicas of the other nodes, which a replica that has lost its values reads before it
    /// answers. They are a quorum without it.
    sources: Vec<ActorRef<Replica>>,
}

#[actor]
impl Actor for Replica {
    /// Messages that come meanwhile wait: it answers only when it knows all that it may have
    /// acknowledged before.
    async fn on_start(&mut self, _: &mut Context<Self>) -> Result<(), BoxError> {
        for source in std::mem::take(&mut self.sources) {
            let values = source.values().await?;
            values.into_iter().for_each(|(key, value)| self.put(key, value));
        }
        Ok(())
    }
}

#[handlers]
impl Replica {
    #[handler(derive(Clone))]
    fn write(&mut self, key: String, value: Versioned) {
        self.put(key, value);
    }

    #[handler(derive(Clone))]
    fn read(&self, key: String) -> Option<Versioned> {
        self.values.get(&key).cloned()
    }

    #[handler]
    fn values(&self) -> Contents {
        self.values.clone()
    }
}

impl Replica {
    fn put(&mut self, key: String, new: Versioned) {
        let value = self.values.entry(key).or_insert_with(|| new.clone());
        if value.version < new.version {
            *value = new;
        }
    }
}

/// Writes to, and reads from, a quorum. The only writer: so its count tells which value is newer.
struct Store {
    node: Node,
    replicas: Vec<ActorRef<Replica>>,
    version: u64,
}

impl Store {
    /// Refers to the replicas by name, so that it also finds them on later runs of their nodes.
    fn new(node: &Node) -> Result<Self, BoxError> {
        let path = |name| node.named(&format!("{name}/replica"));
        let replicas = NODES.into_iter().map(path).collect::<Result<_, _>>()?;
        Ok(Store { node: node.clone(), replicas, version: 0 })
    }

    /// Returns `Ok` when a quorum has the value. After an error, some replicas may still have it.
    async fn write(&mut self, key: String, value: String) -> Result<(), TooFewAnswers> {
        self.version += 1;
        let write = Write { key, value: Versioned { version: self.version, value } };
        let ask = |replica: &ActorRef<Replica>| replica.ask(write.clone()).into_ask();
        let mut asks: AskSet<()> = self.replicas.iter().map(ask).collect();
        asks.first(QUORUM).await?;
        // The remaining asks go on, so that slow replicas get the value, too.
        asks.detach(&self.node);
        Ok(())
    }

    /// Returns the newest value of a quorum.
    async fn read(&self, key: String) -> Result<Option<Versioned>, TooFewAnswers> {
        let read = Read { key };
        let mut asks: AskSet<Option<Versioned>> =
            self.replicas.iter().map(|replica| replica.ask(read.clone())).collect();
        let values = asks.first(QUORUM).await?;
        Ok(values.into_iter().filter_map(|(_, value)| value).max_by_key(|value| value.version))
    }
}

/// Starts a node with a replica, which reads the values of `sources` before it answers.
async fn start(name: &str, seeds: &[String], sources: &[&str]) -> Result<Node, BoxError> {
    let builder = Node::builder(name).listen("127.0.0.1:0").seeds(seeds.to_vec());
    let node = builder.start().await?;
    let sources = sources.iter().map(|name| node.named(&format!("{name}/replica")));
    let sources = sources.collect::<Result<_, _>>()?;
    node.spawn("replica", Replica { values: Contents::new(), sources }).await?;
    Ok(node)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let alpha = start("alpha", &[], &[]).await?;
    let seeds = alpha.addresses();
    let beta = start("beta", &seeds, &[]).await?;
    let mut gamma = start("gamma", &seeds, &[]).await?;
    // The program that uses the store is a fourth node, and is linked to the other three.
    let client =
        Node::builder("client").seeds([&alpha, &beta, &gamma].map(Node::addresses).concat());
    let client = client.start().await?;
    client.ready(3).await?;
    let mut store = Store::new(&client)?;

    let mut acknowledged = BTreeMap::new();
    for number in 0..WRITES {
        if number == LOST_AT {
            // Its actors are killed, whatever they have in hand, while the writes go on.
            let lost = gamma.clone();
            tokio::spawn(async move { lost.shutdown(Duration::ZERO).await });
        }
        if number == BACK_AT {
            gamma.shutdown(Duration::ZERO).await;
            gamma = start("gamma", &seeds, &["alpha", "beta"]).await?;
        }
        let (key, value) = (format!("key {}", number % KEYS), format!("value {number}"));
        if store.write(key.clone(), value.clone()).await.is_ok() {
            acknowledged.insert(key, value);
        }
    }
    let (count, lost) = (acknowledged.len(), BACK_AT - LOST_AT);
    println!("{WRITES} writes, {lost} of them without gamma: {count} keys have a value");
    check(count == KEYS, "a quorum was there, and a write was not acknowledged")?;

    let replica: ActorRef<Replica> = client.when_named("gamma/replica").await?;
    println!("gamma is back, with {} values", replica.values().await?.len());
    // Now each read needs the replica that had lost everything.
    beta.shutdown(Duration::ZERO).await;
    for (key, value) in &acknowledged {
        let read = store.read(key.clone()).await?;
        check(read.is_some_and(|read| read.value == *value), "an acknowledged write is lost")?;
    }
    println!("beta is lost: {count} acknowledged values are read");

    for node in [client, gamma, alpha] {
        node.shutdown(PATIENCE).await;
    }
    Ok(())
}

fn check(is_so: bool, otherwise: &str) -> Result<(), BoxError> {
    if is_so { Ok(()) } else { Err(otherwise.into()) }
}
