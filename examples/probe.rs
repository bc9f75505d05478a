//! A node that is described by its environment, and whose health is behind HTTP: `/live` and
//! `/ready`, as an orchestrator probes them. `probe 0.0.0.0:8080` serves them there until SIGTERM,
//! and then shuts the node down; this is what a container runs.
//!
//! Without an address, `cargo run --example probe` probes itself and prints:
//!
//! ```text
//! /live: HTTP/1.1 200 ready
//! /ready: HTTP/1.1 200 ready
//! /live: HTTP/1.1 200 not ready: this node is shutting down
//! /ready: HTTP/1.1 503 not ready: this node is shutting down
//! ```
#![deny(warnings)]

use std::sync::Arc;
use std::time::Duration;

use ringpost::prelude::*;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tracing_subscriber::EnvFilter;

/// Probes that are answered at the same time; more wait to be accepted.
const PROBES_MAX: usize = 16;
/// How long a shutdown waits for actors. The orchestrator's grace is 4 s longer at least.
const DEADLINE: Duration = Duration::from_secs(20);

/// Answers probes. With axum it is a route of two lines:
/// `get(|| async move { (status(&node), node.health().to_string()) })`.
async fn answer_probes(node: Node, listener: TcpListener) {
    let places = Arc::new(Semaphore::new(PROBES_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let (stream, _) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                eprintln!("a probe could not be accepted: {error}");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let node = node.clone();
        tokio::spawn(async move {
            // A probe that says nothing must not keep its place, nor may a long one.
            drop(timeout(Duration::from_secs(1), answer(&node, stream)).await);
            drop(place);
        });
    }
}

async fn answer(node: &Node, stream: TcpStream) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream.take(8 * 1024));
    let mut request = String::new();
    stream.read_line(&mut request).await?;
    let health = node.health();
    let is_well = if request.starts_with("GET /live ") { health.live } else { health.ready };
    let status = if is_well { "200" } else { "503" };
    let head = "Content-Length: 0\r\nConnection: close\r\n\r\n";
    let answer = format!("HTTP/1.1 {status} {health}\r\n{head}");
    stream.into_inner().into_inner().write_all(answer.as_bytes()).await
}

/// The part of an orchestrator: it asks the probe.
async fn probe(address: &str, path: &str) -> std::io::Result<()> {
    let mut stream = BufReader::new(TcpStream::connect(address).await?);
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: probe\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_line(&mut answer).await?;
    println!("{path}: {}", answer.trim_end());
    Ok(())
}

/// Probes a node before and after its shutdown.
async fn probe_twice(node: &Node, address: &str) -> std::io::Result<()> {
    for path in ["/live", "/ready"] {
        probe(address, path).await?;
    }
    node.shutdown(DEADLINE).await;
    for path in ["/live", "/ready"] {
        probe(address, path).await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let log = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(log).with_writer(std::io::stderr).init();
    let mut builder = Node::from_env()?;
    if std::env::var_os("RINGPOST_NAME").is_none() {
        builder = builder.name("alpha");
    }
    let node = builder.start().await?;
    let address = std::env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0")).await?;
    let here = listener.local_addr()?.to_string();
    let probes = tokio::spawn(answer_probes(node.clone(), listener));
    if address.is_some() {
        signal(SignalKind::terminate())?.recv().await;
        // Probes are answered meanwhile: the node is live, and not ready.
        node.shutdown(DEADLINE).await;
    } else {
        probe_twice(&node, &here).await?;
    }
    probes.abort();
    Ok(())
}
