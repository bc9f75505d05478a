//! Garbage on the listener's port while words are counted.

use std::time::Duration;

use ringpost_tests::actors::{Counter, Text};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::process::{PATIENCE, Process, linked, within};

const CONNECTIONS: usize = 10_000;
/// Connections open at once.
const AT_ONCE: usize = 50;
/// KiB that a node may grow by: far less than the garbage would take if it were kept, and more than
/// the 26 MB by which the rings of its one link may grow.
const GROWTH_KIB_MAX: u64 = 64 * 1024;

// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_connections_of_garbage_end_and_nothing_else_does() {
    let beta = Process::start("beta", &[]).await;
    let alpha = linked("alpha", &[&beta], Duration::from_secs(8)).await;
    let counter = alpha.actor::<Counter>("beta/counter").await.unwrap();
    let text = "ten thousand words of no meaning ".repeat(40);
    // Something was counted before the memory is measured.
    counter.tell(Text { text: text.clone() }).await.unwrap();
    counter.counted().await.unwrap();
    let (kib_before, files_before) = beta.usage();
    let address = beta.address.clone();
    let attack = tokio::spawn(async move {
        for round in 0..CONNECTIONS / AT_ONCE {
            let all = (0..AT_ONCE).map(|i| throw(&address, round * AT_ONCE + i));
            futures::future::join_all(all).await;
        }
    });
    let mut told = 1;
    while !attack.is_finished() {
        counter.tell(Text { text: text.clone() }).await.unwrap();
        told += 1;
    }
    attack.await.unwrap();
    let words = (told * 40 * 6, told * text.len() as u64);
    assert_eq!(within(async { counter.counted().await }).await, Ok(words));
    beta.has_open_files(files_before, &counter).await;
    let (kib, files) = beta.usage();
    println!(
        "{CONNECTIONS} connections of garbage beside {told} messages: memory {kib_before} to {kib} \
         KiB, open files {files_before} to {files}"
    );
    assert!(kib < kib_before + GROWTH_KIB_MAX, "{kib_before} to {kib} KiB");
    beta.end().await;
    alpha.shutdown(PATIENCE).await;
}

/// One connection: bytes that follow from its number, sometimes after an honest beginning.
async fn throw(address: &str, number: usize) {
    let Ok(mut stream) = TcpStream::connect(address).await else { return };
    let mut rng = fastrand::Rng::with_seed(number as u64);
    let mut bytes = vec![0; rng.usize(0..2000)];
    rng.fill(&mut bytes);
    let honest = b"RINGPOST\x01\x01\0\0\x03\x03";
    if number.is_multiple_of(3) && bytes.len() > honest.len() {
        bytes[..honest.len()].copy_from_slice(honest);
    }
    // The node may close the connection before all is written: that is its right.
    if stream.write_all(&bytes).await.is_ok() && stream.shutdown().await.is_ok() {
        let mut answer = Vec::new();
        drop(within(stream.read_to_end(&mut answer)).await);
    }
}
