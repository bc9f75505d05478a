//! Two processes on one host: how fast messages go between them, for comparison with the tools of
//! perftest on the same device, and what a flood from many nodes does to a slow actor.
//!
//! ```text
//! pace serve ADDRESS           a node with the actors that the others talk to; ends when killed
//! pace ask ADDRESS             prints `ask_us` and its value, the median
//! pace serve ADDRESS SPIN_US   the same, with links that spin for SPIN_US microseconds
//! pace ask ADDRESS SPIN_US     the same
//! pace small ADDRESS           prints `tells_per_s` and its value
//! pace large ADDRESS           prints `mib_per_s` and its value
//! pace huge ADDRESS            prints `mib_per_s` and its value, of tells of 1 MiB
//! pace stream ADDRESS          prints `mib_per_s` and its value, of a byte stream in writes of
//!                              64 KiB
//! pace place ADDRESS           prints `mib_per_s` and its value, of a byte stream from region to
//!                              region, 1 MiB at a time
//! pace ranks                   prints the medians of collective operations of four ranks, in
//!                              microseconds
//! pace lent ADDRESS BYTES FROM|never
//!                              the same of tells of BYTES bytes, lent from FROM bytes on; also
//!                              prints `lent` and how many were
//! pace giant ADDRESS           prints `told N` when N tells of 64 MiB were handled
//! pace vast ADDRESS            prints `read N` when N bytes of a region of 64 MiB were read, or
//!                              why they were not
//! pace region ADDRESS          prints `mib_per_s` and its value, of reads of 1 MiB of a region
//! pace access ADDRESS read|write|write-on BYTES
//!                              prints `read_us` or `write_us` and its value, the median of BYTES
//!                              bytes of a region, one operation after the other; `write-on` with
//!                              a writer that is not flushed in between
//! PACE_FABRIC=tcp pace ..       the same over TCP
//! pace flood ADDRESS NODES     NODES nodes, all at once; prints `flooded N` when all N arrived
//! ```

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ringpost::net::{Lending, Network, Profile};
use ringpost::prelude::*;
use ringpost::region::{Access, Region, RemoteRegion};
use ringpost::{Accepts, NodeBuilder};
use ringpost_ranks::{Max, World};
use ringpost_streams::stream::{Stream, StreamListener};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tracing_subscriber::EnvFilter;

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

const USAGE: &str = "usage: pace serve|ask ADDRESS [SPIN_US] | \
    pace small|large|huge|giant|vast|region|stream|place ADDRESS | pace ranks | \
    pace access ADDRESS read|write|write-on BYTES | \
    pace lent ADDRESS BYTES FROM|never | pace flood ADDRESS NODES";

/// Bytes of a small message's payload, as many as perftest is told to send.
const SMALL_BYTES: usize = 32;

/// Bytes of a large message: with its headers it fills about half a slot.
const LARGE_BYTES: usize = 4096;

/// Bytes of a message that a link fetches, and of a read of a region.
const HUGE_BYTES: usize = 1 << 20;

/// Bytes of one write to a byte stream.
const WRITE_BYTES: usize = 64 << 10;

/// Collective operations of each kind: warm-up, and measured.
const COLLECTIVES: (usize, usize) = (20, 200);

/// Bytes and number of tells that a small limit of lockable memory has no room for: the first opens
/// the queue pair by which the others would be read. A region has as many bytes.
const GIANT_BYTES: usize = 64 << 20;
const GIANTS: u64 = 3;

/// Asks before the clock counts, and asks that count.
const ASKS_WARM: usize = 50;
const ASKS: usize = 2000;

/// Bytes up to which an access to a region is small; accesses before the clock counts and accesses
/// that count, of small ones and of larger ones.
const SMALL_ACCESS_BYTES_MAX: usize = 4096;
const SMALL_ACCESSES: (usize, usize) = (50, 1000);
const LARGE_ACCESSES: (usize, usize) = (10, 100);

/// Actors that messages are sent to, each by a task of its own.
const SINKS: u64 = 4;

/// How long messages are sent for one figure.
const SEND_FOR: Duration = Duration::from_secs(3);

/// Messages that each node of a flood sends, and how long the actor takes over each.
const FLOOD_MESSAGES: u64 = 200;
const SLOWNESS: Duration = Duration::from_millis(1);

/// A crowded guest is slow: an operation that takes longer than this counts as hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// Small messages.
#[message]
struct Small {
    payload: [u8; SMALL_BYTES],
}

/// Large messages.
#[message]
struct Large {
    payload: Vec<u8>,
}

/// A message of a flood: the sender and its count.
#[message]
struct Pour {
    node: u64,
    number: u64,
}

/// Counts its messages.
#[actor]
#[derive(Default)]
struct Sink {
    messages: u64,
}

#[handlers]
impl Sink {
    #[handler]
    fn small(&mut self, msg: View<Small>) {
        self.messages += u64::from(!msg.payload.is_empty());
    }

    #[handler]
    fn large(&mut self, msg: View<Large>) {
        self.messages += u64::from(!msg.payload.is_empty());
    }

    /// Returns how many have come since the last time.
    #[handler]
    fn taken(&mut self) -> u64 {
        std::mem::take(&mut self.messages)
    }

    #[handler]
    fn echo(&self, payload: [u8; SMALL_BYTES]) -> [u8; SMALL_BYTES] {
        payload
    }
}

/// Shares memory.
#[actor]
struct Store {
    node: Node,
    _owned: Region<u64>,
    shared: RemoteRegion<u64>,
    vast: Option<Region<u64>>,
}

#[handlers]
impl Store {
    #[handler]
    fn memory(&self) -> RemoteRegion<u64> {
        self.shared.clone()
    }

    #[handler]
    fn vast(&mut self) -> Result<RemoteRegion<u64>, String> {
        let region = self.node.region(GIANT_BYTES / 8).map_err(|error| error.to_string())?;
        let region = self.vast.insert(region);
        region.share(Access::READ).map_err(|error| error.to_string())
    }
}

/// Takes its time over each message, and checks the order of each sender's messages.
#[actor]
#[derive(Default)]
struct Slow {
    next: Vec<u64>,
    disordered: u64,
}

#[handlers]
impl Slow {
    #[handler]
    async fn pour(&mut self, msg: Pour) {
        tokio::time::sleep(SLOWNESS).await;
        let node = usize::try_from(msg.node).unwrap_or(0);
        if self.next.len() <= node {
            self.next.resize(node + 1, 0);
        }
        self.disordered += u64::from(self.next[node] != msg.number);
        self.next[node] += 1;
    }

    /// Returns how many came in all, and how many of them out of order.
    #[handler]
    fn level(&self) -> (u64, u64) {
        (self.next.iter().sum(), self.disordered)
    }
}

// One thread each, as many as the tools of perftest have.
#[tokio::main(worker_threads = 1)]
async fn main() -> ExitCode {
    let filter = EnvFilter::from_default_env();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["serve", address] => serve(address, Profile::default()).await,
        ["ask", address] => ask(address, Profile::default()).await,
        ["serve", address, spin] => match spinning(spin) {
            Ok(profile) => serve(address, profile).await,
            Err(error) => Err(error),
        },
        ["ask", address, spin] => match spinning(spin) {
            Ok(profile) => ask(address, profile).await,
            Err(error) => Err(error),
        },
        ["small", address] => small(address).await,
        ["large", address] => large(address, LARGE_BYTES).await,
        ["huge", address] => large(address, HUGE_BYTES).await,
        ["lent", address, bytes, from] => lent(address, bytes, from).await,
        ["giant", address] => giant(address).await,
        ["vast", address] => vast(address).await,
        ["region", address] => region(address).await,
        ["stream", address] => stream(address, false).await,
        ["place", address] => stream(address, true).await,
        ["ranks"] => ranks().await,
        ["access", address, what, bytes] => access(address, what, bytes).await,
        ["flood", address, nodes] => flood(address, nodes).await,
        _ => Err(USAGE.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pace: {error}");
            ExitCode::FAILURE
        }
    }
}

fn spinning(microseconds: &str) -> Result<Profile, Box<dyn Error + Send + Sync>> {
    Ok(Profile { spin: Duration::from_micros(microseconds.parse()?), ..Profile::latency() })
}

async fn serve(address: &str, profile: Profile) -> Outcome {
    let node = builder("server").listen(address).profile(profile).start().await?;
    for number in 0..SINKS {
        node.spawn(&format!("sink{number}"), Sink::default()).await?;
    }
    let _slow = node.spawn("slow", Slow::default()).await?;
    let owned = node.region(HUGE_BYTES / 8)?;
    let shared = owned.share(Access::READ | Access::WRITE)?;
    let store = Store { node: node.clone(), _owned: owned, shared, vast: None };
    let _store = node.spawn("store", store).await?;
    let mut streams = StreamListener::bind(&node, "stream").await?;
    println!("serving");
    loop {
        let (stream, _) = streams.accept().await?;
        tokio::spawn(drain(node.clone(), stream));
    }
}

/// Reads a stream to its end, as its first byte says: where the bytes arrived, or into a region.
async fn drain(node: Node, mut stream: Stream) -> Outcome {
    if stream.read_u8().await? == 0 {
        loop {
            let len = stream.fill_buf().await?.len();
            stream.consume(len);
            if len == 0 {
                return Ok(());
            }
        }
    }
    let region = node.region(HUGE_BYTES)?;
    while stream.read_into(&region, 0..HUGE_BYTES).await? > 0 {}
    Ok(())
}

/// Begins to describe a node, over TCP where `PACE_FABRIC` says so.
fn builder(name: &str) -> NodeBuilder {
    match std::env::var("PACE_FABRIC").as_deref() {
        Ok("tcp") => Node::builder(name).network(Network::tcp()),
        _ => Node::builder(name),
    }
}

async fn guest(name: &str, address: &str) -> Result<Node, Box<dyn Error + Send + Sync>> {
    guest_with(name, address, Profile::default()).await
}

async fn guest_with(
    name: &str,
    address: &str,
    profile: Profile,
) -> Result<Node, Box<dyn Error + Send + Sync>> {
    let builder = builder(name).listen("127.0.0.1:0").seeds([address]);
    let node = builder.profile(profile).start().await?;
    tokio::time::timeout(PATIENCE, node.ready(1)).await??;
    Ok(node)
}

async fn ask(address: &str, profile: Profile) -> Outcome {
    let node = guest_with("client", address, profile).await?;
    let sink: ActorRef<Sink> = node.actor("server/sink0").await?;
    // In a task of the runtime, as actors are, and not in the task that blocks the main thread.
    let median = tokio::spawn(async move { ask_median(&sink).await }).await??;
    println!("ask_us {:.2}", median.as_nanos() as f64 / 1000.0);
    node.shutdown(PATIENCE).await;
    Ok(())
}

async fn small(address: &str) -> Outcome {
    let message = || Small { payload: [7; SMALL_BYTES] };
    println!("tells_per_s {:.0}", tells_per_second(address, message).await?);
    Ok(())
}

async fn large(address: &str, length: usize) -> Outcome {
    let message = move || Large { payload: vec![7; length] };
    let bytes = tells_per_second(address, message).await? * length as f64;
    println!("mib_per_s {:.3}", bytes / f64::from(1 << 20));
    Ok(())
}

async fn lent(address: &str, bytes: &str, from: &str) -> Outcome {
    let lending = match from {
        "never" => Lending::never(),
        from => Lending { from: Some(from.parse()?), ..Lending::default() },
    };
    let (profile, length) = (Profile { lending, ..Profile::default() }, bytes.parse()?);
    let node = guest_with("client", address, profile).await?;
    let rate = tells_between(node.clone(), move || Large { payload: vec![7; length] }).await?;
    let lent: u64 = node.links().iter().map(|(_, stats)| stats.fetches.loans.lent).sum();
    println!("mib_per_s {:.3} lent {lent}", rate * length as f64 / f64::from(1 << 20));
    node.shutdown(PATIENCE).await;
    Ok(())
}

async fn giant(address: &str) -> Outcome {
    let node = guest("client", address).await?;
    let sink: ActorRef<Sink> = node.actor("server/sink0").await?;
    let mut taken = 0;
    for _ in 0..GIANTS {
        sink.tell(Large { payload: vec![7; GIANT_BYTES] }).await?;
        taken += sink.taken().timeout(PATIENCE).await?;
    }
    println!("told {taken}");
    node.shutdown(PATIENCE).await;
    Ok(())
}

async fn vast(address: &str) -> Outcome {
    let node = guest("client", address).await?;
    let store: ActorRef<Store> = node.actor("server/store").await?;
    let region = store.vast().timeout(PATIENCE).await??;
    let mut elements = vec![1; GIANT_BYTES / 8];
    match region.read_into(.., &mut elements).await {
        Ok(()) => println!("read {}", size_of_val(&elements[..])),
        Err(error) => println!("not read: {error}"),
    }
    node.shutdown(PATIENCE).await;
    Ok(())
}

/// Measures until the reader has read everything.
async fn stream(address: &str, is_placed: bool) -> Outcome {
    let node = guest("client", address).await?;
    let region = node.region_of(&vec![7; HUGE_BYTES])?;
    let mut stream = Stream::connect(&node, "server/stream").await?;
    stream.write_u8(u8::from(is_placed)).await?;
    let written = tokio::spawn(async move {
        let (start, mut bytes, buffer) = (Instant::now(), 0, vec![7; WRITE_BYTES]);
        while start.elapsed() < SEND_FOR {
            if is_placed {
                stream.write_from(&region, 0..HUGE_BYTES).await?;
                bytes += HUGE_BYTES;
            } else {
                stream.write_all(&buffer).await?;
                bytes += WRITE_BYTES;
            }
        }
        stream.close_within(PATIENCE).await?;
        Ok::<_, std::io::Error>(bytes as f64 / start.elapsed().as_secs_f64())
    });
    println!("mib_per_s {:.3}", written.await?? / f64::from(1 << 20));
    node.shutdown(PATIENCE).await;
    Ok(())
}

/// Four ranks in this process, each with a node of its own.
async fn ranks() -> Outcome {
    let first = builder("rank0").listen("127.0.0.1:0").start().await?;
    let mut nodes = vec![first.clone()];
    for number in 1..4 {
        let builder = builder(&format!("rank{number}")).listen("127.0.0.1:0");
        nodes.push(builder.seeds(first.addresses()).start().await?);
    }
    let mut ranks = JoinSet::new();
    for node in nodes {
        ranks.spawn(async move {
            let world = World::join(&node, "pace", 4).await?;
            let (warm, counted) = COLLECTIVES;
            for (name, len) in [("barrier", 0), ("all_reduce_8", 1), ("all_reduce_64k", 8192)] {
                let (mut times, mut numbers) = (Vec::new(), vec![1.0_f64; len]);
                for nth in 0..warm + counted {
                    let start = Instant::now();
                    match len {
                        0 => world.barrier().await?,
                        _ => world.all_reduce(&mut numbers, Max).await?,
                    }
                    times.extend((nth >= warm).then(|| start.elapsed()));
                }
                times.sort_unstable();
                if world.rank() == 0 {
                    println!("{name}_us {:.2}", times[counted / 2].as_nanos() as f64 / 1000.0);
                }
            }
            world.leave().await;
            node.shutdown(PATIENCE).await;
            Ok::<_, Box<dyn Error + Send + Sync>>(())
        });
    }
    while let Some(rank) = ranks.join_next().await {
        rank??;
    }
    Ok(())
}

/// Reads with two tasks: one can read while the other looks at its bytes.
async fn region(address: &str) -> Outcome {
    let node = guest("client", address).await?;
    let store: ActorRef<Store> = node.actor("server/store").await?;
    let region = store.memory().await?;
    let start = Instant::now();
    let mut readers = JoinSet::new();
    for _ in 0..2 {
        let region = region.clone();
        readers.spawn(async move {
            let mut bytes = 0;
            while start.elapsed() < SEND_FOR {
                bytes += region.view(0..HUGE_BYTES / 8).await?.len() * 8;
            }
            Ok::<_, ringpost::region::RegionError>(bytes)
        });
    }
    let mut bytes = 0;
    while let Some(read) = readers.join_next().await {
        bytes += read??;
    }
    let rate = bytes as f64 / start.elapsed().as_secs_f64();
    println!("mib_per_s {:.3}", rate / f64::from(1 << 20));
    node.shutdown(PATIENCE).await;
    Ok(())
}

async fn access(address: &str, what: &str, bytes: &str) -> Outcome {
    let (node, len) = (guest("client", address).await?, bytes.parse::<usize>()? / 8);
    let store: ActorRef<Store> = node.actor("server/store").await?;
    let (region, kind) = (store.memory().await?, what.to_owned());
    // In a task of the runtime, as actors are.
    let median = tokio::spawn(async move {
        tokio::time::timeout(PATIENCE, access_median(&region, &kind, len)).await
    });
    let median = median.await???;
    let what = if what == "read" { "read" } else { "write" };
    println!("{what}_us {:.2}", median.as_nanos() as f64 / 1000.0);
    node.shutdown(PATIENCE).await;
    Ok(())
}

async fn access_median(
    region: &RemoteRegion<u64>,
    what: &str,
    len: usize,
) -> Result<Duration, Box<dyn Error + Send + Sync>> {
    let mut elements = vec![0x0707_0707_0707_0707; len];
    region.write(0, &elements).await?;
    if region.read(0..len).await? != elements {
        return Err("a read did not find what was written".into());
    }
    let small = len * 8 <= SMALL_ACCESS_BYTES_MAX;
    let (warm, counted) = if small { SMALL_ACCESSES } else { LARGE_ACCESSES };
    let (mut times, mut writer) = (Vec::with_capacity(counted), region.writer());
    for nth in 0..warm + counted {
        let start = Instant::now();
        match what {
            "read" if small => region.read_into(0..len, &mut elements).await?,
            // Where the device puts them, as async-rdma does.
            "read" => drop(region.view(0..len).await?),
            "write" if small => region.write(0, &elements).await?,
            "write-on" if small => writer.write(0, &elements).await?,
            // From where the device takes them.
            "write" | "write-on" => {
                let draft = writer.draft(len).await?;
                writer.write_draft(0, draft).await?;
                if what == "write" {
                    writer.flush().await?;
                }
            }
            _ => return Err(USAGE.into()),
        }
        if nth >= warm {
            times.push(start.elapsed());
        }
    }
    writer.flush().await?;
    times.sort_unstable();
    Ok(times[counted / 2])
}

/// Measures from the first tell until the last is handled.
async fn tells_per_second<M>(
    address: &str,
    message: impl Fn() -> M + Copy + Send + 'static,
) -> Result<f64, Box<dyn Error + Send + Sync>>
where
    M: Message + Sync,
    Sink: Accepts<M>,
{
    let node = guest("client", address).await?;
    let rate = tells_between(node.clone(), message).await?;
    node.shutdown(PATIENCE).await;
    Ok(rate)
}

/// As [`tells_per_second`], from this node.
async fn tells_between<M>(
    node: Node,
    message: impl Fn() -> M + Copy + Send + 'static,
) -> Result<f64, Box<dyn Error + Send + Sync>>
where
    M: Message + Sync,
    Sink: Accepts<M>,
{
    let start = Instant::now();
    let mut senders = JoinSet::new();
    for number in 0..SINKS {
        let sink: ActorRef<Sink> = node.actor(&format!("server/sink{number}")).await?;
        senders.spawn(async move {
            while start.elapsed() < SEND_FOR {
                sink.tell(message()).await?;
            }
            Ok::<_, Box<dyn Error + Send + Sync>>(sink.taken().timeout(PATIENCE).await?)
        });
    }
    let mut taken = 0;
    while let Some(sent) = senders.join_next().await {
        taken += sent??;
    }
    Ok(taken as f64 / start.elapsed().as_secs_f64())
}

async fn ask_median(sink: &ActorRef<Sink>) -> Result<Duration, AskError> {
    let mut times = Vec::with_capacity(ASKS);
    for number in 0..ASKS_WARM + ASKS {
        let start = Instant::now();
        sink.echo([7; SMALL_BYTES]).timeout(PATIENCE).await?;
        if number >= ASKS_WARM {
            times.push(start.elapsed());
        }
    }
    times.sort_unstable();
    Ok(times[ASKS / 2])
}

async fn flood(address: &str, nodes: &str) -> Outcome {
    let nodes: u64 = nodes.parse()?;
    let mut senders = JoinSet::new();
    for number in 0..nodes {
        let address = address.to_owned();
        senders.spawn(async move { pour_from(number, &address).await });
    }
    while let Some(sent) = senders.join_next().await {
        sent??;
    }
    let node = guest("watcher", address).await?;
    let slow: ActorRef<Slow> = node.actor("server/slow").await?;
    let (came, disordered) = slow.level().timeout(PATIENCE).await?;
    node.shutdown(PATIENCE).await;
    let expected = nodes * FLOOD_MESSAGES;
    if came != expected || disordered != 0 {
        return Err(format!("{came} of {expected} came, {disordered} out of order").into());
    }
    println!("flooded {came}");
    Ok(())
}

/// Sends as fast as the actor's mailbox takes; the last answer says that all have been handled.
async fn pour_from(node: u64, address: &str) -> Outcome {
    let here = guest(&format!("sender{node}"), address).await?;
    let slow: ActorRef<Slow> = here.actor("server/slow").await?;
    for number in 0..FLOOD_MESSAGES {
        slow.tell(Pour { node, number }).await?;
    }
    slow.level().timeout(PATIENCE).await?;
    here.shutdown(PATIENCE).await;
    Ok(())
}
