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
use std::process::Stdio;

use ringpost::prelude::*;
use ringpost_ranks::{LocalHosts, Source, World, WorldError};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

const RANKS: usize = 4;
const VICTIM: usize = 2;

/// Sends a string to each other rank, and receives one of each.
async fn exchange(world: &World) -> Result<(), WorldError> {
    let others = (0..RANKS).filter(|rank| *rank != world.rank());
    for to in others.clone() {
        let text: String = std::iter::repeat_with(fastrand::lowercase).take(5).collect();
        world.send_value(to, 1, &text).await?;
    }
    let mut got = Vec::new();
    for from in others {
        let (text, _) = world.recv_value::<String>(from, 1).await?;
        got.push(format!("{text} from {from}"));
    }
    // All have theirs by now. It fails where the victim is dead already.
    world.barrier().await.ok();
    println!("rank {} has got {}", world.rank(), got.join(", "));
    Ok(())
}

/// Goes on with the living when a rank has died, and in a second world when it is back.
async fn go_on(world: &World) -> Result<World, BoxError> {
    exchange(world).await?;
    let error = world.recv::<u8>(Source::Any, 2).await.expect_err("a rank dies");
    let smaller = world.shrink().await?;
    smaller.barrier().await?;
    if smaller.rank() == 0 {
        println!("{error}\n{} of {RANKS} ranks go on", smaller.size());
    }
    Ok(World::builder("again").node(world.node()).size(RANKS).rank(world.rank()).join().await?)
}

async fn rank() -> Result<(), BoxError> {
    let first = World::from_env().await?;
    let is_back = env::var_os("RINGPOST_JOB").is_some();
    let again = if is_back { first.clone() } else { go_on(&first).await? };
    again.barrier().await?;
    if again.rank() == 0 {
        println!("all {} ranks are back", again.size());
    }
    again.leave().await;
    first.leave().await; // and its node shuts down
    Ok(())
}

fn start(rank: usize, hosts: &[String]) -> std::io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.env("RINGPOST_RANK", rank.to_string()).env("RINGPOST_SIZE", RANKS.to_string());
    command.env("RINGPOST_HOSTS", hosts.join(",")).kill_on_drop(true);
    command.stdout(if rank == 0 { Stdio::piped() } else { Stdio::inherit() });
    Ok(command)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    if env::var_os("RINGPOST_RANK").is_some() {
        return rank().await;
    }
    let hosts = LocalHosts::reserve(RANKS)?;
    let started = (0..RANKS).map(|rank| start(rank, hosts.addresses())?.spawn());
    let mut ranks = started.collect::<std::io::Result<Vec<_>>>()?;
    let mut lines = BufReader::new(ranks[0].stdout.take().ok_or("it is piped")?).lines();
    while let Some(line) = lines.next_line().await? {
        println!("{line}");
        if line.starts_with("rank 0 has got") {
            ranks[VICTIM].kill().await?;
        } else if line.ends_with("go on") {
            ranks[VICTIM] =
                start(VICTIM, hosts.addresses())?.env("RINGPOST_JOB", "again").spawn()?;
        }
    }
    for mut rank in ranks {
        assert!(rank.wait().await?.success(), "a rank has failed");
    }
    Ok(())
}
