//! Nodes on a machine whose processors are all taken. A program of its own, as `tests/run busy`
//! runs it alone: it takes minutes, and every processor.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(dead_code, reason = "what it shares with `main` has more than it needs")]

mod correspondent;
mod process;

use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};

use crate::correspondent::{Archive, Correspondent, SECRET, Start};
use crate::process::program;

/// Seconds that it takes, unless `RINGPOST_BUSY_SECONDS` says otherwise.
const SECONDS: u64 = 600;
/// Between two lines that say how far it is.
const REPORT: Duration = Duration::from_secs(10);
/// A handler's time, in milliseconds, so that the histories do not grow out of hand.
const WORK: &str = "4";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_node_is_down_while_every_processor_is_busy() {
    let seconds = std::env::var("RINGPOST_BUSY_SECONDS");
    let seconds = seconds.map_or(SECONDS, |seconds| seconds.parse().unwrap());
    let archive = Archive::new("busy");
    let mut nodes = Vec::new();
    for name in NAMES {
        nodes.push(start(&archive, name, &nodes).await);
    }
    for node in &mut nodes {
        node.handles(1).await;
    }
    let burning = burn();
    let started = Instant::now();
    let (mut before, mut least) = (0, u64::MAX);
    while started.elapsed() < Duration::from_secs(seconds) {
        tokio::time::sleep(REPORT).await;
        let handled = nodes.iter().map(Correspondent::handled).sum();
        let [lost, down] = ["link down ", "node down "].map(|remark| remarked(&nodes, remark));
        least = least.min(handled - before);
        println!(
            "{} of {seconds} s: {handled} messages handled, {} since the last line; {} links \
             lost, {} nodes down",
            started.elapsed().as_secs(),
            handled - before,
            lost,
            down
        );
        assert_eq!(down, 0, "nodes that live");
        before = handled;
    }
    assert!(least > 0, "they get on");
    drop(burning);
    futures::future::join_all(nodes.iter_mut().map(Correspondent::falls_quiet)).await;
    let down = remarked(&nodes, "node down ");
    assert_eq!(down, 0, "nodes that live");
    futures::future::join_all(nodes.into_iter().map(Correspondent::end)).await;
    assert_eq!(archive.judge().killed, 0);
}

const NAMES: [&str; 3] = ["alpha", "beta", "gamma"];

/// Starts a node that sends to the other two.
async fn start(archive: &Archive, name: &str, nodes: &[Correspondent]) -> Correspondent {
    let mut options = vec!["--work", WORK];
    for node in nodes {
        options.extend(["--seed", &node.address]);
    }
    for other in NAMES.iter().filter(|other| **other != name) {
        options.extend(["--to", other]);
    }
    let (listen, secrets) = ("127.0.0.1:0", (SECRET, None));
    let start = Start { name, run: 1, listen, options: &options, through: &[], secrets };
    Correspondent::start(archive, start).await
}

/// How many remarks in the logs of all nodes start like this.
fn remarked(nodes: &[Correspondent], remark: &str) -> usize {
    nodes.iter().map(|node| node.count(&format!("# {remark}"))).sum()
}

/// A process that keeps every processor busy; killed when dropped.
fn burn() -> Child {
    let threads = std::thread::available_parallelism().unwrap().to_string();
    Command::new(program("burn", env!("CARGO_BIN_EXE_burn")))
        .arg(threads)
        .stdin(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}
