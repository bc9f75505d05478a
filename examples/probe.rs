//! A node that is described by its environment, and whose health is behind HTTP: `/live` and
//! `/ready`, as an orchestrator probes them.
//!
//! `cargo run --example probe` prints, with `RINGPOST_LISTEN=127.0.0.1:0` or without:
//!
//! ```text
//! /live: HTTP/1.1 200 ready
//! /ready: HTTP/1.1 200 ready
//! /live: HTTP/1.1 200 not ready: this node is shutting down
//! /ready: HTTP/1.1 503 not ready: this node is shutting down
//! ```
#![deny(warnings)]

use std::time::Duration;

use ringpost::NodeBuilder;
use ringpost::prelude::*;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Answers probes, one after the other. With axum it is a route of two lines:
/// `get(|| async move { (status(&node), node.health().to_string()) })`.
async fn answer_probes(node: Node, listener: TcpListener) -> std::io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        // A probe that says nothing must not keep the others waiting, nor may a long one.
        let answered = tokio::time::timeout(Duration::from_secs(1), answer(&node, stream)).await;
        drop(answered);
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

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let mut builder = NodeBuilder::from_env()?;
    if std::env::var_os("RINGPOST_NAME").is_none() {
        builder = builder.name("alpha");
    }
    let node = builder.start().await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let probes = tokio::spawn(answer_probes(node.clone(), listener));
    for path in ["/live", "/ready"] {
        probe(&address, path).await?;
    }
    node.shutdown(Duration::from_secs(5)).await;
    for path in ["/live", "/ready"] {
        probe(&address, path).await?;
    }
    probes.abort();
    Ok(())
}
