//! Two nodes on two hosts: the events of each when the other one, or the cable, goes away.
//!
//! ```text
//! witness serve ADDRESS         the node `server`; ends when it is killed
//! witness watch ADDRESS SEED    prints what happens to `server`, and what became of asks
//! witness send ADDRESS SEED     sends to `server` until standard input ends; prints the account
//! ```
//!
//! The environment variable RINGPOST_SECRET has the cluster's secret, 32 or more bytes.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use ringpost::observe::{DeadLetterCause, NodeEvent};
use ringpost::prelude::*;
use tokio::io::AsyncReadExt;
use tokio::sync::broadcast::Receiver;
use tokio::task::JoinSet;
use tracing_subscriber::EnvFilter;

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

const USAGE: &str = "usage: witness serve ADDRESS | watch ADDRESS SEED | send ADDRESS SEED";

/// Asks that wait for an answer that never comes, when the other node goes away.
const PENDING_ASKS: usize = 8;

/// Between two messages: often enough that some are on their way at any time.
const PACE: Duration = Duration::from_millis(1);

/// An operation that takes longer than this counts as hung.
const PATIENCE: Duration = Duration::from_secs(120);

/// An entry of a numbered series.
#[message]
struct Entry {
    number: u64,
}

/// Counts entries, and entries out of order.
#[actor]
#[derive(Default)]
struct Ledger {
    entries: u64,
    last: Option<u64>,
    disordered: u64,
}

#[handlers]
impl Ledger {
    #[handler]
    fn enter(&mut self, msg: Entry) {
        self.entries += 1;
        self.disordered += u64::from(self.last.is_some_and(|last| msg.number <= last));
        self.last = Some(msg.number);
    }

    /// Returns how many entries there are, and how many of them came twice or too late.
    #[handler]
    fn account(&self) -> (u64, u64) {
        (self.entries, self.disordered)
    }
}

/// Never answers.
#[actor]
struct Mute;

#[handlers]
impl Mute {
    #[handler]
    async fn silence(&self) -> u64 {
        std::future::pending().await
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::from_default_env();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["serve", address] => serve(address).await,
        ["watch", address, seed] => watch(address, seed).await,
        ["send", address, seed] => send(address, seed).await,
        _ => Err(USAGE.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("witness: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn start(name: &str, address: &str, seed: Option<&str>) -> Result<Node, BoxError> {
    let secret = std::env::var("RINGPOST_SECRET")?;
    Ok(Node::builder(name).listen(address).seeds(seed).secret(secret).start().await?)
}

async fn serve(address: &str) -> Outcome {
    let node = start("server", address, None).await?;
    let _ledger = node.spawn("ledger", Ledger::default()).await?;
    let _mute = node.spawn("mute", Mute).await?;
    println!("serving");
    std::future::pending().await
}

/// Watches until the server has gone, all asks have ended, and its next run has answered.
async fn watch(address: &str, seed: &str) -> Outcome {
    let node = start("watcher", address, Some(seed)).await?;
    let mut events = node.events();
    tokio::time::timeout(PATIENCE, node.ready(1)).await??;
    let mute: ActorRef<Mute> = node.actor("server/mute").await?;
    let mut asks = JoinSet::new();
    for _ in 0..PENDING_ASKS {
        let mute = mute.clone();
        asks.spawn(async move { mute.silence().timeout(PATIENCE).await });
    }
    println!("asking");

    until_down(&mut events).await?;
    while let Some(answer) = asks.join_next().await {
        println!("ask ended: {}", answer?.err().ok_or("the mute answered")?);
    }
    println!("all asks ended");

    // The new run may be linked before the old one's end has been told of.
    tokio::time::timeout(PATIENCE, node.ready(1)).await??;
    let ledger: ActorRef<Ledger> = node.actor("server/ledger").await?;
    let (entries, _) = ledger.account().timeout(PATIENCE).await?;
    println!("joined again with {entries} entries");
    node.shutdown(PATIENCE).await;
    Ok(())
}

/// Prints events until a node is down.
async fn until_down(events: &mut Receiver<NodeEvent>) -> Outcome {
    loop {
        match events.recv().await? {
            NodeEvent::LinkUp { node, fabric } => println!("linked {} by {fabric}", node.name),
            NodeEvent::LinkDown { node, cause } => println!("link down {}: {cause}", node.name),
            NodeEvent::NodeDown { node, cause } => {
                println!("node down {}: {cause}", node.name);
                return Ok(());
            }
            event => println!("{event:?}"),
        }
    }
}

/// Sends an entry after each pause of [`PACE`], then compares both sides' books: each entry that
/// was accepted and not reported lost has arrived, in order and once.
async fn send(address: &str, seed: &str) -> Outcome {
    let node = start("sender", address, Some(seed)).await?;
    tokio::time::timeout(PATIENCE, node.ready(1)).await??;
    let ledger: ActorRef<Ledger> = node.actor("server/ledger").await?;
    let mut told = 0;
    let mut end = [0];
    let mut input = tokio::io::stdin();
    println!("sending");
    loop {
        tokio::select! {
            biased;
            read = input.read(&mut end) => {
                read?;
                break;
            }
            () = tokio::time::sleep(PACE) => {}
        }
        ledger.tell(Entry { number: told }).await?;
        told += 1;
    }
    let (entered, disordered) = ledger.account().timeout(PATIENCE).await?;
    let not_sent = node.dead_letters().count(DeadLetterCause::NotSent);
    let lost = node.dead_letters().total();
    println!("told {told}, not sent {not_sent}, lost {lost}, entered {entered}");
    node.shutdown(PATIENCE).await;
    if entered < told - lost || entered > told - not_sent || disordered > 0 {
        return Err(format!("the books differ; {disordered} disordered").into());
    }
    println!("the books agree");
    Ok(())
}
