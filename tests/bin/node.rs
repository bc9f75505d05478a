//! One node as a process of its own: `node NAME [SEED...]`. It listens on a free port of loopback,
//! prints `listening ADDRESS`, hosts the actors of the tests and ends when its standard input does.

use std::process::ExitCode;
use std::time::Duration;

use ringpost::prelude::*;
use ringpost_tests::actors::{Counter, MUTES, Mute};
use tokio::io::AsyncReadExt;

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(name) = arguments.next() else {
        eprintln!("usage: node NAME [SEED...]");
        return ExitCode::from(2);
    };
    match host(&name, arguments.collect()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("node {name}: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn host(name: &str, seeds: Vec<String>) -> Result<(), BoxError> {
    let node = Node::builder(name).listen("127.0.0.1:0").seeds(seeds).start().await?;
    node.spawn("counter", Counter::default()).await?;
    for number in 0..MUTES {
        node.spawn(&format!("mute{number}"), Mute).await?;
    }
    println!("listening {}", node.addresses().first().map_or("nowhere", String::as_str));
    let mut rest = Vec::new();
    tokio::io::stdin().read_to_end(&mut rest).await?;
    node.shutdown(Duration::from_secs(5)).await;
    Ok(())
}
