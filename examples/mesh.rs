//! Four ranks, each a process, send each other random strings. One of them is killed: the others
//! go on without it. It is started again, and all four are in a new world.
//!
//! `cargo run --example mesh` starts itself four times, and prints lines such as:
//!
//! ```text
//! rank 3 has got xkpqd from 0, twmrb from 1, czyle from 2
//! rank 2 has died: go on in a world of the living, which `shrink` makes
//! 3 of 4 ranks go on
//! all 4 ranks are back
//! ```
#![deny(warnings)]

use std::env;
use std::net::TcpListener;
use std::process::Stdio;

use ringpost::prelude::*;
use ringpost_ranks::{Source, Sum, World, WorldError};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

const RANKS: usize = 4;
const VICTIM: usize = 2;
/// Set for the rank that is started again.
const AGAIN: &str = "MESH_AGAIN";

/// Sends a string to each other rank, and receives one of each.
async fn exchange(world: &World) -> Result<(), BoxError> {
    let others = || (0..RANKS).filter(|rank| *rank != world.rank());
    for to in others() {
        let mut bytes = [0; 5];
        getrandom::fill(&mut bytes).map_err(|error| error.to_string())?;
        let text: String = bytes.iter().map(|byte| char::from(b'a' + byte % 26)).collect();
        world.send_value(to, 1, &text).await?;
    }
    let mut got = Vec::new();
    for from in others() {
        let (text, _) = world.recv_value::<String>(from, 1).await?;
        got.push(format!("{text} from {from}"));
    }
    world.barrier().await?;
    println!("rank {} has got {}", world.rank(), got.join(", "));
    Ok(())
}

/// Waits for the news of a death, and goes on with the living.
async fn go_on(world: &World) -> Result<(), WorldError> {
    let error = world.recv::<u8>(Source::Any, 2).await.expect_err("a rank dies");
    let smaller = world.shrink().await?;
    let mut count = [1];
    smaller.all_reduce(&mut count, Sum).await?;
    if smaller.rank() == 0 {
        println!("{error}\n{} of {RANKS} ranks go on", count[0]);
    }
    Ok(())
}

async fn rank() -> Result<(), BoxError> {
    let mut builder = World::builder("again").size(RANKS);
    if env::var_os(AGAIN).is_some() {
        builder = builder.hosts(env::var("RINGPOST_HOSTS")?.split(',')).rank(VICTIM);
    } else {
        let first = World::from_env().await?;
        exchange(&first).await?;
        go_on(&first).await?;
        builder = builder.node(first.node()).rank(first.rank());
    }
    let again = builder.join().await?;
    again.barrier().await?;
    if again.rank() == 0 {
        println!("all {} ranks are back", again.size());
    }
    let node = again.node().clone();
    again.leave().await;
    node.shutdown(std::time::Duration::from_secs(5)).await;
    Ok(())
}

fn start(rank: usize, hosts: &[String]) -> std::io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.env("RINGPOST_RANK", rank.to_string()).env("RINGPOST_SIZE", RANKS.to_string());
    command.env("RINGPOST_HOSTS", hosts.join(",")).kill_on_drop(true);
    Ok(command)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    if env::var_os("RINGPOST_RANK").is_some() {
        return rank().await;
    }
    let free = |_| Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string());
    let hosts = (0..RANKS).map(free).collect::<std::io::Result<Vec<_>>>()?;
    let mut victim = start(VICTIM, &hosts)?.stdout(Stdio::piped()).spawn()?;
    let mut ranks = Vec::new();
    for rank in (0..RANKS).filter(|rank| *rank != VICTIM) {
        ranks.push(start(rank, &hosts)?.spawn()?);
    }
    let printed = victim.stdout.take().ok_or("its output is piped")?;
    let line = BufReader::new(printed).lines().next_line().await?;
    println!("{}", line.ok_or("the victim has ended too early")?);
    victim.kill().await?;
    ranks.push(start(VICTIM, &hosts)?.env(AGAIN, "1").spawn()?);
    for mut rank in ranks {
        assert!(rank.wait().await?.success(), "a rank has failed");
    }
    Ok(())
}
