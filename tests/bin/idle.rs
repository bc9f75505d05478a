//! Measures what a linked peer costs a node that has nothing to say to it: `idle [PEERS...]`, by
//! default 50 and 200. The peers are nodes of other processes, over tcp on loopback, or over tcps
//! with `RINGPOST_ENCRYPTION=required` and a `RINGPOST_SECRET`. Prints one line for each step from
//! one number of peers to the next: what each peer of it adds.

use std::fs;
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use ringpost::NodeBuilder;
use ringpost::prelude::*;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

/// Nodes in one process: each has a thread, and two open files for its link.
const NODES_MAX: usize = 50;
/// How long the traffic of new links may last before anything is counted.
const SETTLED: Duration = Duration::from_secs(5);
/// Time over which frames and wake-ups are counted.
const COUNTED: Duration = Duration::from_secs(20);

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["peers", seed, first, count] => be_peers(seed, first, count).await,
        [] => measure(&[50, 200]).await,
        numbers => match numbers.iter().map(|number| number.parse()).collect::<Result<Vec<_>, _>>()
        {
            Ok(numbers) if numbers.is_sorted() => measure(&numbers).await,
            _ => Err("usage: idle [PEERS...], ascending".into()),
        },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("idle: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs `count` nodes until the standard input ends.
async fn be_peers(seed: &str, first: &str, count: &str) -> Result<(), BoxError> {
    let (first, count): (usize, usize) = (first.parse()?, count.parse()?);
    let mut nodes = Vec::new();
    for number in first..first + count {
        let builder = NodeBuilder::from_env()?.name(format!("peer-{number}"));
        nodes.push(builder.listen("127.0.0.1:0").seeds([seed]).start().await?);
    }
    drop(tokio::io::stdin().read_to_end(&mut Vec::new()).await);
    Ok(())
}

/// Measures, for each step to a larger number of peers, what each added peer costs.
async fn measure(numbers: &[usize]) -> Result<(), BoxError> {
    let node = NodeBuilder::from_env()?.name("hub").listen("127.0.0.1:0").start().await?;
    let address = node.addresses().first().cloned().ok_or("the node listens nowhere")?;
    let mut children: Vec<Child> = Vec::new();
    let mut peers = 0;
    let mut before = look(&node).await?;
    for number in numbers {
        let first = peers;
        while peers < *number {
            let count = NODES_MAX.min(number - peers);
            let mut child = Command::new(std::env::current_exe()?);
            child.args(["peers", &address, &peers.to_string(), &count.to_string()]);
            children.push(child.stdin(Stdio::piped()).kill_on_drop(true).spawn()?);
            peers += count;
        }
        node.ready(peers).await.expect("names differ");
        let now = look(&node).await?;
        let each = |now: f64, before: f64| (now - before) / (peers - first).max(1) as f64;
        println!(
            "{first} to {peers} idle peers, each: {:.0} KiB, {:.2} frames/s sent, \
             {:.2} wake-ups/s, {:.2} open files",
            each(now.kilobytes, before.kilobytes),
            each(now.frames, before.frames),
            each(now.wakeups, before.wakeups),
            each(now.files, before.files),
        );
        before = now;
    }
    Ok(())
}

/// The resources that a node uses while its peers are idle.
struct Used {
    /// Resident memory of the process.
    kilobytes: f64,
    /// Frames sent to all peers in a second.
    frames: f64,
    /// Times in a second that a thread of the process went to sleep.
    wakeups: f64,
    files: f64,
}

async fn look(node: &Node) -> Result<Used, BoxError> {
    sleep(SETTLED).await;
    let (start, frames, wakeups) = (Instant::now(), frames_sent(node), wakeups()?);
    sleep(COUNTED).await;
    let rate = |now: u64, before: u64| (now - before) as f64 / start.elapsed().as_secs_f64();
    Ok(Used {
        frames: rate(frames_sent(node), frames),
        wakeups: rate(self::wakeups()?, wakeups),
        kilobytes: field("/proc/self/status", "VmRSS:")? as f64,
        files: fs::read_dir("/proc/self/fd")?.count() as f64,
    })
}

fn frames_sent(node: &Node) -> u64 {
    node.snapshot().peers.iter().map(|peer| peer.carried.frames_sent).sum()
}

/// Returns how often all threads of this process went to sleep so far.
fn wakeups() -> Result<u64, BoxError> {
    let threads = fs::read_dir("/proc/self/task")?;
    let statuses = threads.map(|thread| Ok(thread?.path().join("status")));
    statuses.map(|status: Result<_, BoxError>| field(status?, "voluntary_ctxt_switches:")).sum()
}

/// Returns a number of a file of lines that each have a name and a value.
fn field(path: impl AsRef<Path>, name: &str) -> Result<u64, BoxError> {
    let text = fs::read_to_string(path)?;
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    let number = value.and_then(|value| value.split_whitespace().next()).ok_or("no such field")?;
    Ok(number.parse()?)
}
