//! Connections that never say anything.

use std::time::{Duration, Instant};

use futures::FutureExt;
use ringpost_tests::actors::Counter;
use ringpost_transport::limits;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::process::{PATIENCE, Process, linked, within};

const CONNECTIONS: usize = 200;
/// Connections that are kept; there was no room for the others.
const KEPT: usize = limits::UNPROVEN_CONNECTIONS_MAX;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_give_way_to_newer_ones_and_to_real_peers() {
    let beta = Process::start("beta", &[]).await;
    let alpha = linked("alpha", &[&beta], Duration::from_secs(8)).await;
    let counter = alpha.actor::<Counter>("beta/counter").await.unwrap();
    counter.echo("first".into()).await.unwrap();
    let (_, files_before) = beta.usage();
    let began = Instant::now();
    let mut silent = Vec::new();
    for _ in 0..CONNECTIONS {
        silent.push(within(TcpStream::connect(&beta.address)).await.unwrap());
    }
    for stream in &mut silent[..CONNECTIONS - KEPT] {
        assert!(matches!(within(stream.read(&mut [0])).await, Ok(0) | Err(_)));
    }
    let newest = silent.last_mut().unwrap();
    let waits = newest.read(&mut [0]).now_or_never().is_none();
    // On a very busy machine even the newest may have timed out by now.
    let is_late = began.elapsed() >= limits::HANDSHAKE_TIMEOUT;
    assert!(waits || is_late, "the oldest give way");
    // With all places taken, a node still gets in.
    let gamma = linked("gamma", &[&beta], Duration::from_secs(8)).await;
    let through_gamma = gamma.actor::<Counter>("beta/counter").await.unwrap();
    assert_eq!(within(async { through_gamma.echo("in".into()).await }).await, Ok("in".into()));
    gamma.shutdown(PATIENCE).await;
    drop(silent);
    beta.has_open_files(files_before, &counter).await;
    beta.end().await;
    alpha.shutdown(PATIENCE).await;
}
