//! One node as a process of its own: `node NAME [SEED...]`. It listens on a free port of loopback,
//! prints `listening ADDRESS`, hosts the actors of the tests and ends when its standard input does.
//! Its warnings are on standard error.

use std::process::ExitCode;
use std::time::Duration;

use ringpost::prelude::*;
use ringpost_tests::actors::{Counter, MUTES, Mute, Notary};
use ringpost_tests::builds::hosted::Drifter;
use tokio::io::AsyncReadExt;
use tracing_subscriber::EnvFilter;

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(name) = arguments.next() else {
        eprintln!("usage: node NAME [SEED...]");
        return ExitCode::from(2);
    };
    let filter = EnvFilter::new("warn");
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
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
    node.spawn("notary", Notary::default()).await?;
    node.spawn("drifter", Drifter).await?;
    for number in 0..MUTES {
        node.spawn(&format!("mute{number}"), Mute).await?;
    }
    println!("listening {}", node.addresses().first().map_or("nowhere", String::as_str));
    let mut rest = Vec::new();
    tokio::io::stdin().read_to_end(&mut rest).await?;
    node.shutdown(Duration::from_secs(2)).await;
    Ok(())
}
