//! Nodes that meet: which fabric carries their links, and why none does.
//!
//! ```text
//! meet pair LEFT RIGHT             two nodes: prints `linked by FABRIC` once all asks were
//!                                  answered, or the error of a look-up
//! meet stay LEFT RIGHT             two nodes, of which one asks the other all the time; prints
//!                                  the events of their link with their times, and each line of
//!                                  its input; after the line `?`, the fabric of the next ask; at
//!                                  its end, the counts of asks, answers and asks out of order
//! meet serve ADDRESS               a node that counts its links; ends when killed
//! meet crowd ADDRESS NODES ROUNDS  NODES nodes link at once, talk and leave, ROUNDS times; prints
//!                                  `links N by verbs, N by tcp`, as the server counted them
//! ```
//!
//! LEFT and RIGHT choose the fabrics of a node: `best` is RDMA, if there is any, before TCP; `tcp`
//! is TCP alone, `verbs` RDMA before TCP, `only` RDMA alone. The last two take settings, as in
//! `verbs:device=rxe0,gid=1,pkey=65535,level=3`, where the level is the service level.

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ringpost::net::{Entropy, Network, Profile, VerbsConfig, VerbsFabric};
use ringpost::observe::NodeEvent;
use ringpost::prelude::*;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::broadcast::Receiver;
use tokio::task::JoinSet;
use tracing_subscriber::EnvFilter;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const USAGE: &str = "usage: meet pair|stay LEFT RIGHT | serve ADDRESS | crowd ADDRESS NODES ROUNDS";

/// Asks of a pair, each way round, and the bytes of each: more than one frame.
const ASKS: usize = 20;
const ASK_BYTES: usize = 20_000;

/// Silence after which a peer is given up: short, so that an unreachable peer is known soon.
const DOWN_AFTER: Duration = Duration::from_secs(4);

/// An operation that takes longer than this counts as hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of an ask of `stay`: a whole packet, which meets each MTU on its way.
const STAY_BYTES: usize = 5_000;

/// Pause between two asks of `stay`.
const ASK_PAUSE: Duration = Duration::from_millis(20);

/// Answers, and knows how many links its node has had.
#[actor]
#[derive(Default)]
struct Porter {
    verbs: u64,
    tcp: u64,
}

#[handlers]
impl Porter {
    #[handler]
    fn echo(&self, payload: Vec<u8>) -> Vec<u8> {
        payload
    }

    #[handler]
    fn link_up(&mut self, verbs: bool) {
        *(if verbs { &mut self.verbs } else { &mut self.tcp }) += 1;
    }

    /// Returns the links by verbs, and by tcp.
    #[handler]
    fn links(&self) -> (u64, u64) {
        (self.verbs, self.tcp)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::from_default_env();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["pair", left, right] => pair(left, right).await,
        ["stay", left, right] => stay(left, right).await,
        ["serve", address] => serve(address).await,
        ["crowd", address, nodes, rounds] => crowd(address, nodes, rounds).await,
        _ => Err(USAGE.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("meet: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the network that the words of the command line choose.
fn network(words: &str) -> Outcome<Network> {
    let (kind, settings) = words.split_once(':').unwrap_or((words, ""));
    let mut config = VerbsConfig::default();
    for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
        match setting.split_once('=') {
            Some(("device", name)) => config.device = Some(name.into()),
            Some(("gid", index)) => config.gid_index = Some(index.parse()?),
            Some(("pkey", key)) => config.pkey = Some(key.parse()?),
            Some(("level", level)) => config.service_level = level.parse()?,
            _ => return Err(USAGE.into()),
        }
    }
    let verbs = || VerbsFabric::new(config, Entropy::os());
    match kind {
        "best" => Ok(Network::best()),
        "tcp" => Ok(Network::tcp()),
        "verbs" => Ok(Network::tcp().with_verbs(verbs()?)),
        "only" => Ok(Network::verbs_only(verbs()?)),
        _ => Err(USAGE.into()),
    }
}

async fn start(name: &str, listen: &str, seed: Option<&str>, words: &str) -> Outcome<Node> {
    let builder = Node::builder(name).listen(listen).seeds(seed);
    Ok(builder.network(network(words)?).start().await?)
}

async fn pair(left: &str, right: &str) -> Outcome {
    let left = start("left", "127.0.0.1:0", None, left).await?;
    let mut events = left.events();
    let _here = left.spawn("porter", Porter::default()).await?;
    let profile = Profile { down_after: DOWN_AFTER, ..Profile::default() };
    let right = Node::builder("right")
        .listen("127.0.0.1:0")
        .seeds(left.addresses())
        .profile(profile)
        .network(network(right)?)
        .start()
        .await?;
    let _there = right.spawn("porter", Porter::default()).await?;
    // Waits for a link, and says why there is none.
    let porter: ActorRef<Porter> = right.actor("left/porter").await?;
    let back: ActorRef<Porter> = left.actor("right/porter").await?;
    for number in 0..ASKS {
        let payload = vec![number as u8; ASK_BYTES];
        for porter in [&porter, &back] {
            if porter.echo(payload.clone()).timeout(PATIENCE).await? != payload {
                return Err("another answer came".into());
            }
        }
    }
    println!("linked by {}", next_link(&mut events).await?);
    right.shutdown(PATIENCE).await;
    left.shutdown(PATIENCE).await;
    Ok(())
}

/// Counts its asks, and the asks that come out of order.
#[actor]
#[derive(Default)]
struct Ledger {
    last: u64,
    handled: u64,
    disordered: u64,
}

#[handlers]
impl Ledger {
    #[handler]
    fn note(&mut self, number: u64, payload: Vec<u8>) {
        assert_eq!(payload.len(), STAY_BYTES, "another payload came");
        self.disordered += u64::from(number <= self.last);
        (self.last, self.handled) = (number, self.handled + 1);
    }

    /// Returns how many asks came, and how many of them out of order.
    #[handler]
    fn balance(&self) -> (u64, u64) {
        (self.handled, self.disordered)
    }
}

async fn stay(left: &str, right: &str) -> Outcome {
    let begun = Instant::now();
    let say = move |what: String| println!("{:7.2} {what}", begun.elapsed().as_secs_f64());
    let left = start("left", "127.0.0.1:0", None, left).await?;
    let mut events = left.events();
    left.spawn("ledger", Ledger::default()).await?;
    let right =
        start("right", "127.0.0.1:0", left.addresses().first().map(|it| &**it), right).await?;
    let ledger: ActorRef<Ledger> = right.actor("left/ledger").await?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let (mut number, mut answered, mut carrier) = (0, 0, "nothing");
    // The first ask whose fabric is to be printed.
    let mut first = u64::MAX;
    let mut asking = JoinSet::new();
    loop {
        tokio::select! {
            // Takes events first, so that `carrier` is known before an answer over a new link.
            biased;
            event = events.recv() => match event? {
                NodeEvent::LinkUp { fabric, .. } => {
                    carrier = fabric;
                    say(format!("linked by {fabric}"));
                }
                NodeEvent::LinkDown { cause, .. } => say(format!("the link ended: {cause}")),
                NodeEvent::NodeDown { cause, .. } => say(format!("the node is down: {cause}")),
                _ => {}
            },
            line = lines.next_line() => match line?.as_deref() {
                Some("?") => first = number + 1,
                Some(line) => say(line.into()),
                None => break,
            },
            Some(asked) = asking.join_next() => {
                let is_answered: bool = asked?;
                answered += u64::from(is_answered);
                if is_answered && number >= first {
                    println!("answered over {carrier}");
                    first = u64::MAX;
                }
            }
            () = tokio::time::sleep(ASK_PAUSE), if asking.is_empty() => {
                number += 1;
                let ledger = ledger.clone();
                asking.spawn(async move {
                    let note = ledger.note(number, vec![7; STAY_BYTES]);
                    note.timeout(PATIENCE).await.is_ok()
                });
            }
        }
    }
    while let Some(asked) = asking.join_next().await {
        answered += u64::from(asked?);
    }
    let (handled, disordered) = ledger.balance().timeout(PATIENCE).await?;
    println!("asked {number}, answered {answered}, handled {handled}, out of order {disordered}");
    let sound = disordered == 0 && (answered..=number).contains(&handled);
    right.shutdown(PATIENCE).await;
    left.shutdown(PATIENCE).await;
    if sound { Ok(()) } else { Err("the books do not agree".into()) }
}

/// The fabric of the next link.
async fn next_link(events: &mut Receiver<NodeEvent>) -> Outcome<&'static str> {
    loop {
        if let NodeEvent::LinkUp { fabric, .. } = events.recv().await? {
            return Ok(fabric);
        }
    }
}

async fn serve(address: &str) -> Outcome {
    let node = start("server", address, None, "best").await?;
    let mut events = node.events();
    let porter = node.spawn("porter", Porter::default()).await?;
    println!("serving");
    loop {
        let fabric = next_link(&mut events).await?;
        porter.link_up(fabric == "verbs").await?;
    }
}

async fn crowd(address: &str, nodes: &str, rounds: &str) -> Outcome {
    let [nodes, rounds]: [usize; 2] = [nodes.parse()?, rounds.parse()?];
    for round in 0..rounds {
        let mut visits = JoinSet::new();
        for number in 0..nodes {
            let (name, address) = (format!("node{round}-{number}"), address.to_owned());
            visits.spawn(async move { visit(&name, &address).await });
        }
        while let Some(visit) = visits.join_next().await {
            visit??;
        }
    }
    let node = start("watcher", "127.0.0.1:0", Some(address), "best").await?;
    let porter: ActorRef<Porter> = node.actor("server/porter").await?;
    let all = (nodes * rounds + 1) as u64;
    let (verbs, tcp) = loop {
        // The last ones may not have been counted yet.
        match porter.links().timeout(PATIENCE).await? {
            (verbs, tcp) if verbs + tcp >= all => break (verbs, tcp),
            _ => tokio::task::yield_now().await,
        }
    };
    println!("links {verbs} by verbs, {tcp} by tcp");
    node.shutdown(PATIENCE).await;
    Ok(())
}

async fn visit(name: &str, address: &str) -> Outcome {
    let node = start(name, "127.0.0.1:0", Some(address), "best").await?;
    let porter: ActorRef<Porter> = node.actor("server/porter").await?;
    porter.echo(vec![7; ASK_BYTES]).timeout(PATIENCE).await?;
    node.shutdown(PATIENCE).await;
    Ok(())
}
