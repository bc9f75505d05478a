//! One node as a process of its own that writes down a history, for the judge of histories.
//!
//! It prints `listening ADDRESS`. Then it takes commands, one a line: `await N` prints `handled`
//! when N messages were handled here; `quiet` stops the senders and prints `quiet` when the last
//! has ended; `usage` prints what the node uses, as words and numbers. When its standard input
//! ends, so does the node, in order.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use peak_alloc::PeakAlloc;
use ringpost::net::{Lending, Profile};
use ringpost::prelude::*;
use ringpost_history::Event;
use ringpost_tests::correspondent::{Diary, Inbox, Kind, Sender, note_dead_letters, note_events};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tracing_subscriber::EnvFilter;

const HELP: &str = "\
A node that sends numbered messages and writes down a history (docs/HISTORY.md).

usage: correspondent NAME RUN LOG ADDRESS [OPTION VALUE]...

  NAME            the node's name
  RUN             which run of the node this is: a number, larger for a later one
  LOG             the file to write, which does not exist yet
  ADDRESS         where to listen, HOST:PORT
  --seed ADDRESS  a node to link to; may be repeated
  --advertise ADDRESS
                  where others dial it, if not where it listens; may be repeated
  --to NODE       a node to send to until told to stop; may be repeated
  --work MILLIS   how long each message takes that is handled (default 0)
  --pause MILLIS  how long a sender pauses after each ask, and after a few tells (default 2)
  --down MILLIS   after how long a silent node is down (default 8000)
  --lend BYTES    from how many bytes messages are lent (default: over RDMA alone, 131072)

The environment variable RINGPOST_SECRET has the cluster's secret, 32 or more bytes; without it only
loopback works. RINGPOST_ALSO_ACCEPT has a second one that others may dial with.";

/// Counts the bytes that are allocated.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// How long a shutdown may take.
const SHUTDOWN: Duration = Duration::from_secs(20);

struct Arguments {
    name: String,
    run: u64,
    log: PathBuf,
    address: String,
    seeds: Vec<String>,
    advertise: Vec<String>,
    to: Vec<String>,
    work: Duration,
    pause: Duration,
    down_after: Duration,
    lend_from: Option<u32>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| matches!(word.as_str(), "--help" | "-h")) {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let Some(arguments) = parse(words) else {
        eprintln!("{HELP}");
        return ExitCode::from(2);
    };
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new("error"))
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    let name = arguments.name.clone();
    match live(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("correspondent {name}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(words: Vec<String>) -> Option<Arguments> {
    let mut words = words.into_iter();
    let mut arguments = Arguments {
        name: words.next()?,
        run: words.next()?.parse().ok()?,
        log: words.next()?.into(),
        address: words.next()?,
        seeds: Vec::new(),
        advertise: Vec::new(),
        to: Vec::new(),
        work: Duration::ZERO,
        pause: Duration::from_millis(2),
        down_after: Profile::default().down_after,
        lend_from: None,
    };
    while let Some(option) = words.next() {
        let value = words.next()?;
        let millis = || value.parse().map(Duration::from_millis).ok();
        match option.as_str() {
            "--seed" => arguments.seeds.push(value),
            "--advertise" => arguments.advertise.push(value),
            "--to" => arguments.to.push(value),
            "--work" => arguments.work = millis()?,
            "--pause" => arguments.pause = millis()?,
            "--down" => arguments.down_after = millis()?,
            "--lend" => arguments.lend_from = Some(value.parse().ok()?),
            _ => return None,
        }
    }
    Some(arguments)
}

async fn live(arguments: Arguments) -> Result<(), BoxError> {
    let Arguments { name, run, log, address, seeds, advertise, to, work, pause, .. } = arguments;
    let diary = Diary::start(&log, &name, run)?;
    let lending = Lending { from: arguments.lend_from, ..Lending::default() };
    let profile = Profile { down_after: arguments.down_after, lending, ..Profile::default() };
    let mut builder =
        Node::builder(name).listen(address).seeds(seeds).profile(profile).advertise(advertise);
    if let Ok(secret) = std::env::var("RINGPOST_SECRET") {
        builder = builder.secret(secret);
    }
    if let Ok(secret) = std::env::var("RINGPOST_ALSO_ACCEPT") {
        builder = builder.also_accept(secret);
    }
    let node = builder.start().await?;
    let (end, ended) = oneshot::channel();
    let letters = tokio::spawn(note_dead_letters(&node, diary.clone(), ended));
    let events = tokio::spawn(note_events(&node, diary.clone()));
    let (handled, counted) = watch::channel(0);
    node.spawn(Inbox::NAME, Inbox::new(diary.clone(), work, handled)).await?;
    println!("listening {}", node.addresses().first().map_or("nowhere", String::as_str));

    let (quiet, is_quiet) = watch::channel(false);
    let mut senders = JoinSet::new();
    for to in to {
        let sender = Sender { node: node.clone(), run, to, pause, diary: diary.clone() };
        for kind in [Kind::Tells, Kind::Asks] {
            senders.spawn(sender.clone().send(kind, is_quiet.clone()));
        }
    }
    obey(&node, &quiet, &mut senders, counted).await?;
    still(&quiet, &mut senders).await?;
    node.shutdown(SHUTDOWN).await;
    end.send(()).map_err(|()| "the dead letters were not noted to the end")?;
    letters.await?;
    events.abort();
    // The task was aborted on purpose, so its `JoinError` means nothing.
    drop(events.await);
    diary.note(&Event::End);
    Ok(())
}

/// Takes commands until the input ends.
async fn obey(
    node: &Node,
    quiet: &watch::Sender<bool>,
    senders: &mut JoinSet<()>,
    mut counted: watch::Receiver<u64>,
) -> Result<(), BoxError> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        if line == "quiet" {
            still(quiet, senders).await?;
            println!("quiet");
        } else if let Some(count) = line.strip_prefix("await ") {
            let count: u64 = count.parse()?;
            counted.wait_for(|handled| *handled >= count).await?;
            println!("handled");
        } else if line == "usage" {
            println!("{}", usage(node, *counted.borrow()));
        } else {
            return Err(format!("unknown command: {line}").into());
        }
    }
    Ok(())
}

/// Reports the resources that the node uses now, which must not grow as other nodes come and go.
fn usage(node: &Node, handled: u64) -> String {
    let snapshot = node.snapshot();
    let grown = snapshot.ring_growth_bytes;
    let links = snapshot.peers.into_iter().filter_map(|peer| peer.link);
    let leased: usize = links.map(|link| link.leased).sum();
    let (links, allocated) = (node.linked().len(), MEMORY.current_usage());
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    format!(
        "handled {handled} links {links} leased {leased} tasks {tasks} allocated {allocated} \
         grown {grown}"
    )
}

/// Stops the senders and waits until the sends that they began have ended.
async fn still(quiet: &watch::Sender<bool>, senders: &mut JoinSet<()>) -> Result<(), BoxError> {
    quiet.send_replace(true);
    while let Some(ended) = senders.join_next().await {
        ended?;
    }
    Ok(())
}
