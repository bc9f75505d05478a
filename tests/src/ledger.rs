//! A node of a ledger that is upgraded while it runs: `ledger_v1` and `ledger_v2` are built from
//! two versions of its messages, and share this code.

use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ringpost::Handlers;
use ringpost::prelude::*;
use tokio::io::{AsyncBufReadExt, BufReader};

/// Pause between two deposits of one node to another, and before one is sent again.
const PAUSE: Duration = Duration::from_millis(2);

/// A build of the ledger.
pub trait Build: 'static {
    /// Its actor, which prints the deposits that it took: `took FROM NUMBER ..`.
    type Ledger: Handlers;

    /// Returns an actor that knows nothing yet.
    fn ledger() -> Self::Ledger;

    /// Asks a ledger to take a deposit; returns what its receipt says, for people.
    fn deposit(
        ledger: &ActorRef<Self::Ledger>,
        from: String,
        number: u64,
    ) -> impl Future<Output = Result<String, AskCause>> + Send;
}

/// Runs a node, `NAME RUN LISTEN PEER@ADDRESS...`, until standard input ends: hosts a ledger and
/// sends deposits to the ledgers of its peers until a line comes. Prints `listening` at first,
/// `sent PEER NUMBER ..` for each deposit with a receipt, `failed CAUSE` for each other one, which
/// is then sent again, and `ended PEER NUMBER` at last.
///
/// # Errors
/// When an argument is missing, or the node does not start.
pub async fn run<B: Build>() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut words = std::env::args().skip(1);
    let mut word = || words.next().ok_or("usage: NAME RUN LISTEN PEER@ADDRESS...");
    let (name, number, listen) = (word()?, word()?, word()?);
    let peers: Vec<(String, String)> = words
        .map(|peer| {
            let (name, address) = peer.split_once('@').ok_or("a peer is NAME@ADDRESS")?;
            Ok((name.to_owned(), address.to_owned()))
        })
        .collect::<Result<_, &str>>()?;
    let seeds = peers.iter().map(|(_, address)| address.clone());
    let node = Node::builder(&name).listen(listen).seeds(seeds).start().await?;
    node.spawn("ledger", B::ledger()).await?;
    println!("listening");
    let ends = Arc::new(AtomicBool::new(false));
    let mut senders = Vec::new();
    for (peer, _) in peers {
        let ledger = node.named::<B::Ledger>(&format!("{peer}/ledger"))?;
        let from = format!("{name}.{number}");
        senders.push(tokio::spawn(send::<B>(ledger, peer, from, ends.clone())));
    }
    let (mut input, mut line) = (BufReader::new(tokio::io::stdin()), String::new());
    input.read_line(&mut line).await?;
    ends.store(true, Ordering::Relaxed);
    for sender in senders {
        sender.await?;
    }
    while input.read_line(&mut line).await? > 0 {}
    node.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

/// Sends numbered deposits to one ledger, each until there is a receipt for it.
async fn send<B: Build>(
    ledger: ActorRef<B::Ledger>,
    peer: String,
    from: String,
    ends: Arc<AtomicBool>,
) {
    let mut number = 0;
    while !ends.load(Ordering::Relaxed) {
        number += 1;
        loop {
            match B::deposit(&ledger, from.clone(), number).await {
                Ok(receipt) => break println!("sent {peer} {number} {receipt}"),
                Err(cause) => println!("failed {cause:?}"),
            }
            tokio::time::sleep(PAUSE).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
    println!("ended {peer} {number}");
}
