//! Nodes of other processes that are linked to a node of this one, and wait: their memory here.

use std::process::Command;
use std::time::Duration;

use ringpost::Node;
use ringpost_benches::Failure;
use ringpost_benches::child::Server;
use ringpost_benches::memory::settled;
use ringpost_benches::program::in_a_task;
use ringpost_benches::serve::{answer_commands, runtime};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::ringpost::address_of;

/// Nodes of a process: each has a thread, and two open files for its link.
const NODES: usize = 50;

/// Time after which memory of the handshakes is given back.
const SETTLED: Duration = Duration::from_secs(5);

/// Runs `count` nodes that are linked to the node at an address, until standard input ends.
///
/// # Errors
/// When a node does not start.
pub(crate) fn be(address: &str, first: usize, count: usize) -> Result<(), Failure> {
    let runtime = runtime(2)?;
    let mut nodes = Vec::new();
    for number in first..first + count {
        let builder = Node::builder(format!("peer-{number}")).seeds([address]);
        nodes.push(runtime.block_on(builder.start()).map_err(Failure::of)?);
    }
    println!("listening nowhere");
    answer_commands()
}

/// Links `count` nodes to a node of this process. Returns the bytes of memory that each takes here.
pub(super) fn measure(workers: usize, count: usize) -> Result<Vec<f64>, Failure> {
    in_a_task(workers, async move {
        let builder = Node::builder("hub").listen("127.0.0.1:0");
        let node = builder.start().await.map_err(Failure::of)?;
        let address = address_of(&node)?;
        sleep(SETTLED).await;
        let before = settled().await?;
        let mut processes = Vec::new();
        for first in (0..count).step_by(NODES) {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["peers", &address, &first.to_string()]);
            command.arg(NODES.min(count - first).to_string());
            let started = spawn_blocking(|| Server::start(command)).await;
            processes.push(started.map_err(Failure::of)??);
        }
        node.ready(count).await.map_err(Failure::of)?;
        sleep(SETTLED).await;
        Ok(vec![(settled().await? - before) / count as f64])
    })
}
