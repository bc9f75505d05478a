//! A node that is described by its environment, and whose health is behind HTTP: `/live` and
//! `/ready`, as an orchestrator probes them. `probe 0.0.0.0:8080` serves them there until SIGTERM,
//! and then shuts the node down; this is what a container runs.
//!
//! Without an address, `cargo run --example probe` probes itself and prints:
//!
//! ```text
//! /live: 200 ready
//! /ready: 200 ready
//! /live: 200 not ready: this node is shutting down
//! /ready: 503 not ready: this node is shutting down
//! ```
#![deny(warnings)]

use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use ringpost::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// How long a shutdown waits for actors. The orchestrator's grace is 4 s longer at least.
const DEADLINE: Duration = Duration::from_secs(20);

/// The probes of a node: its health is the body, and the status says whether all is well.
fn probes(node: Node) -> Router {
    let status = |is_well| if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let other = node.clone();
    let live = move || {
        let health = node.health();
        async move { (status(health.live), health.to_string()) }
    };
    let ready = move || {
        let health = other.health();
        async move { (status(health.ready), health.to_string()) }
    };
    Router::new().route("/live", get(live)).route("/ready", get(ready))
}

/// The part of an orchestrator: it asks the probe.
async fn probe(address: &str, path: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let status = answer.split(' ').nth(1).unwrap_or_default();
    let body = answer.rsplit("\r\n").next().unwrap_or_default();
    println!("{path}: {status} {body}");
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
    // A log that cannot be written ends nothing.
    let subscriber = tracing_subscriber::fmt().log_internal_errors(false);
    subscriber.with_env_filter(log).with_writer(std::io::stderr).init();
    let mut builder = Node::from_env()?;
    if std::env::var_os("RINGPOST_NAME").is_none() {
        builder = builder.name("alpha");
    }
    let node = builder.start().await?;
    let address = std::env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0")).await?;
    let here = listener.local_addr()?.to_string();
    let probes = tokio::spawn(axum::serve(listener, probes(node.clone())).into_future());
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
