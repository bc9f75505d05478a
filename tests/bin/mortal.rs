//! One node as a process of its own that dies at a step of the protocol: `mortal NAME [SEED...]`,
//! with the step in `RINGPOST_STOP_AT`. It listens at the address in `RINGPOST_LISTEN`, prints
//! `listening ADDRESS` and, at each further link, `linked COUNT`, and hosts the actors of the
//! tests. It does what the lines of its standard input say, each beside the others; when that ends
//! it leaves. With an address in `RINGPOST_ADVERTISE` it tells its peers that one.
//!
//! - `ask PATH BYTES`: asks a counter
//! - `tell PATH BYTES COUNT`: tells a counter, and waits for what becomes of each tell
//! - `lend PATH`: asks a counter again and again, with texts large enough to be lent
//! - `unlend PATH`: the same, and gives each ask up soon
//! - `block`: holds all threads
//! - `look PATH`: looks a counter up
//! - `stop PATH`: stops a quitter, and goes on telling it until that fails
//! - `stuff PATH`: tells a mute actor until there is no room, and waits

use std::process::ExitCode;
use std::time::Duration;

use ringpost::net::{Lending, Profile};
use ringpost::prelude::*;
use ringpost_tests::actors::{Counter, LEND_FROM, Mute, ask_large, host, quit, stuff, tell};
use tokio::io::{AsyncBufReadExt, BufReader};

const THREADS: usize = 2;
/// Longer than anyone waits for it.
const BLOCKED: Duration = Duration::from_secs(600);

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(name) = arguments.next() else {
        eprintln!("usage: mortal NAME [SEED...]");
        return ExitCode::from(2);
    };
    match live(&name, arguments.collect()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mortal {name}: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn live(name: &str, seeds: Vec<String>) -> Result<(), BoxError> {
    let lending = Lending { from: Some(LEND_FROM), ..Lending::default() };
    let down_after = Duration::from_secs(3);
    let profile = Profile { down_after, lending, ..Profile::default() };
    let listen = std::env::var("RINGPOST_LISTEN")?;
    let mut builder = Node::builder(name).listen(listen).seeds(seeds).profile(profile);
    if let Ok(address) = std::env::var("RINGPOST_ADVERTISE") {
        builder = builder.advertise([address]);
    }
    let node = builder.start().await?;
    host(&node).await?;
    println!("listening {}", node.addresses().first().map_or("nowhere", String::as_str));
    let linked = node.clone();
    tokio::spawn(async move {
        for count in 1.. {
            linked.ready(count).await.expect("names differ");
            println!("linked {count}");
        }
    });
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let node = node.clone();
        tokio::spawn(async move {
            if let Err(error) = obey(&node, &line).await {
                eprintln!("{line}: {error}");
            }
        });
    }
    node.shutdown(Duration::from_secs(10)).await;
    Ok(())
}

async fn obey(node: &Node, line: &str) -> Result<(), BoxError> {
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["ask", path, bytes] => {
            let counter = node.actor::<Counter>(path).await?;
            counter.echo("x".repeat(bytes.parse()?)).await?;
        }
        ["tell", path, bytes, count] => {
            tell(&node.actor(path).await?, bytes.parse()?, count.parse()?).await;
        }
        ["lend", path] => ask_large(&node.actor(path).await?, false).await,
        ["unlend", path] => ask_large(&node.actor(path).await?, true).await,
        ["block"] => {
            for _ in 0..THREADS {
                tokio::spawn(async { std::thread::sleep(BLOCKED) });
            }
        }
        ["look", path] => drop(node.actor::<Counter>(path).await?),
        ["stop", path] => quit(&node.actor(path).await?).await,
        ["stuff", path] => stuff(&node.actor::<Mute>(path).await?).await,
        _ => return Err("there is no such command".into()),
    }
    Ok(())
}
