//! Peers in processes of their own, which are stopped or killed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ringpost::Node;
use ringpost_streams::stream::{Stream, StreamListener};
use ringpost_streams::{StreamError, blocking};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::in_time;

const SEED: &str = "RINGPOST_TEST_STREAMS_SEED";

/// The program of the peer: reads one byte, says so, and reads no more. Without the variable this
/// is no test.
#[tokio::test]
async fn peer() {
    let Ok(seed) = std::env::var(SEED) else { return };
    let node = Node::builder("peer").seeds([seed]).start().await.unwrap();
    let mut stream = Stream::connect(&node, "alpha/bytes").await.unwrap();
    stream.read_u8().await.unwrap();
    println!("\nit reads");
    std::future::pending().await
}

const WRITER_SEED: &str = "RINGPOST_TEST_STREAMS_WRITER_SEED";
const WRITTEN: usize = 10_000_000;

/// A program that writes, and ends. Without the variable this is no test.
#[test]
fn writer() {
    let Ok(seed) = std::env::var(WRITER_SEED) else { return };
    let (node, _) = blocking::Node::connect(Node::client(seed)).unwrap();
    let mut stream = blocking::Stream::connect(&node, "alpha/bytes").unwrap();
    stream.write_all(&vec![7; WRITTEN]).unwrap();
}

/// A process that is killed with its test.
struct Peer(Child);

impl Peer {
    /// Starts a program of this file.
    fn start(name: &str, seed: &str, node: &Node) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap());
        process.args(["--exact", name, "--nocapture"]).env(seed, &node.addresses()[0]);
        Peer(process.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn signal(&self, signal: &str) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Returns a stream to a process that has read one byte of it.
async fn served(listener: &mut StreamListener, node: &Node) -> (Stream, Peer) {
    let mut peer = Peer::start("stopped::peer", SEED, node);
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.write_all(b"x").await.unwrap();
    stream.sync().await.unwrap();
    let said = BufReader::new(peer.0.stdout.take().unwrap());
    let lines = move || said.lines().map_while(Result::ok).any(|line| line == "it reads");
    assert!(tokio::task::spawn_blocking(lines).await.unwrap(), "the peer has ended");
    (stream, peer)
}

/// `close_within` ends by its deadline though the peer is stopped with bytes unread. It ends when
/// the node of a killed peer is down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_to_a_peer_that_is_stopped_or_killed_ends() {
    in_time(async {
        let node = Node::builder("alpha").listen("127.0.0.1:0").start().await.unwrap();
        let mut listener = StreamListener::bind(&node, "bytes").await.unwrap();
        let (mut stream, peer) = served(&mut listener, &node).await;
        peer.signal("-STOP");
        stream.write_all(&[7; 100_000]).await.unwrap();
        let (began, time) = (Instant::now(), Duration::from_millis(300));
        let error = stream.close_within(time).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut, "{error}");
        assert!(error.to_string().contains("read 1 bytes"), "{error}");
        assert!(began.elapsed() >= time);
        drop(peer);

        let (mut stream, peer) = served(&mut listener, &node).await;
        stream.write_all(&[7; 100_000]).await.unwrap();
        peer.signal("-KILL");
        let error = stream.close_within(Duration::from_secs(3_600)).await.unwrap_err();
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<StreamError>());
        assert_eq!(inner.map(|inner| inner.read_by_peer), Some(1), "{error}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_blocking_program_wrote_before_it_ended_arrives() {
    in_time(async {
        let node = Node::builder("alpha").listen("127.0.0.1:0").start().await.unwrap();
        let mut listener = StreamListener::bind(&node, "bytes").await.unwrap();
        let _peer = Peer::start("stopped::writer", WRITER_SEED, &node);
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        assert_eq!(bytes.len(), WRITTEN);
    })
    .await;
}
