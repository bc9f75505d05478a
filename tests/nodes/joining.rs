//! Ways in which a node fails to join others: the error of each, and its time.

use std::io::Write;
use std::time::{Duration, Instant};

use ringpost::net::{ConnectCause, NodeDownCause};
use ringpost::observe::{HealthReason, NodeEvent};
use ringpost::prelude::*;
use ringpost::{NodeBuilder, StartError};
use ringpost_tests::actors::Counter;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::process::Command;

use crate::process::{PATIENCE, Process, event, linked, program, within};
use crate::refused::VERSION_NINE;
use crate::wire::{PREFIX, ip, sweep};

/// Longer than a dial may take, and than a connection may take to prove itself.
const CONNECT_WITHIN: Duration = Duration::from_secs(4);
/// The time for an error that need not wait for anything but answers, on a machine that is busy.
const SOON: Duration = Duration::from_secs(3);
/// The time for an error at the end of the time to connect.
const LATE: Duration = Duration::from_secs(8);

/// One way to fail, its cause, the time that it took and the error.
struct Row {
    way: &'static str,
    cause: String,
    took: Duration,
    text: String,
}

impl Row {
    fn check(&self, cause: ConnectCause, bound: Duration) {
        let Row { way, took, text, .. } = self;
        println!("| {way} | {} | {} ms | {text} |", self.cause, took.as_millis());
        assert_eq!(self.cause, format!("{cause:?}"), "{way}: {text}");
        assert!(*took < bound, "{way}: {took:?}");
    }
}

async fn failed(way: &'static str, builder: NodeBuilder) -> Row {
    let started = Instant::now();
    let outcome = within(builder.connect_timeout(CONNECT_WITHIN).connect()).await;
    let Err(StartError::Connect(error)) = outcome else { panic!("{way}: {outcome:?}") };
    let (cause, text) = (format!("{:?}", error.cause), error.to_string());
    Row { way, cause, took: started.elapsed(), text }
}

/// Returns the address of a server that says this to all that connect, and never closes.
async fn server(says: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            // A node that has given up is gone.
            drop(stream.write_all(says).await);
            open.push(stream);
        }
    });
    address
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_way_to_fail_to_join_has_its_cause_in_its_time() {
    let alpha = Process::start("alpha", &[]).await;
    let beta = linked("beta", &[&alpha], Duration::from_secs(8)).await;
    // The system gives this port to nobody who asks for any.
    let nobody = "127.0.0.1:1";
    let http = server(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n").await;
    let (nine, mute) = (server(VERSION_NINE).await, server(b"").await);
    let to = |address: &str| Node::client(address);
    let named = |name: &str| Node::builder(name).seeds([&alpha.address]);
    let secret = "another secret of the tests, as long as the first";
    use ConnectCause::{
        InvalidAddress, NameTaken, NoAnswer, NotRingpost, Unreachable, Version, WrongSecret,
    };
    println!("| way | cause | took | error |\n|---|---|---|---|");
    failed("an HTTP server", to(&http)).await.check(NotRingpost, SOON);
    failed("wrong secret", to(&alpha.address).secret(secret)).await.check(WrongSecret, SOON);
    failed("other version", to(&nine)).await.check(Version, SOON);
    failed("taken name", named("beta")).await.check(NameTaken, SOON);
    failed("the seed's name", named("alpha")).await.check(NameTaken, SOON);
    failed("no address", Node::builder("gamma")).await.check(InvalidAddress, SOON);
    let (nobody, mute) =
        tokio::join!(failed("nobody", to(nobody)), failed("a server that says nothing", to(&mute)));
    nobody.check(Unreachable, LATE);
    mute.check(NoAnswer, LATE);
    let (client, peer) = within(to(&alpha.address).connect()).await.unwrap();
    assert!(client.name().starts_with("client-"), "{}", client.name());
    let counter = client.actor::<Counter>(&format!("{}/counter", peer.name())).await.unwrap();
    assert_eq!(within(async { counter.echo("in".into()).await }).await, Ok("in".into()));
    client.shutdown(PATIENCE).await;
    beta.shutdown(PATIENCE).await;
    alpha.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_name_is_taken_says_so_and_no_wait_lasts() {
    let alpha = Process::start("alpha", &[]).await;
    let first = linked("beta", &[&alpha], Duration::from_secs(8)).await;
    let started = Instant::now();
    let second = Node::builder("beta").seeds([&alpha.address]).start().await.unwrap();
    let mut events = second.events();
    let error = within(second.ready(1)).await.unwrap_err();
    assert_eq!(error.cause, ConnectCause::NameTaken);
    let told = |event: &NodeEvent| match event {
        NodeEvent::Refused { error } => Some(error.clone()),
        _ => None,
    };
    // It may have been told before the receiver was there.
    if let Ok(seen) = events.try_recv() {
        assert_eq!(told(&seen), Some(error.clone()));
    }
    let health = second.health();
    assert_eq!((health.ready, health.live), (false, true));
    assert_eq!(health.reasons, [HealthReason::Refused(error.clone())]);
    for path in ["alpha/counter", "gamma/counter"] {
        let why = within(second.actor::<Counter>(path)).await.unwrap_err();
        let Some(Cause::NodeUnreachable(down)) = why.cause() else { panic!("{why}") };
        assert_eq!(down.cause, NodeDownCause::Refused(error.clone()));
    }
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    // The name is free when its node has left.
    let mut events = second.events();
    first.shutdown(PATIENCE).await;
    event(&mut events, |e| matches!(e, NodeEvent::LinkUp { .. }).then_some(())).await;
    within(second.ready(1)).await.unwrap();
    assert!(second.health().reasons.is_empty(), "{}", second.health());
    second.shutdown(PATIENCE).await;
    alpha.end().await;
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_is_disconnected_in_order() {
    let alpha = Process::start("alpha", &[]).await;
    let beta = linked("beta", &[&alpha], Duration::from_secs(8)).await;
    let mut events = beta.events();
    let counter = beta.actor::<Counter>("alpha/counter").await.unwrap();
    for _ in 0..1000 {
        counter.tell(ringpost_tests::actors::Text { text: "one".into() }).await.unwrap();
    }
    assert!(beta.disconnect("alpha").await);
    assert!(!beta.disconnect("alpha").await);
    let down = |event: &NodeEvent| match event {
        NodeEvent::NodeDown { cause, .. } => Some(cause.clone()),
        _ => None,
    };
    assert_eq!(event(&mut events, down).await, NodeDownCause::Disconnected);
    let peer = within(beta.connect(alpha.address.as_str())).await.unwrap();
    assert_eq!(peer.name(), "alpha");
    assert_eq!(within(async { counter.counted().await }).await.unwrap().0, 1000, "none was lost");
    beta.shutdown(PATIENCE).await;
    alpha.end().await;
}

/// A namespace with a neighbour that drops all that it is sent; deleted when it is dropped.
struct Hole(String);

impl Hole {
    /// # Errors
    /// The part that is missing on this machine.
    fn new() -> Result<Self, String> {
        sweep();
        let hole = Hole(format!("{PREFIX}{}-hole", std::process::id()));
        ip(&["netns", "add", &hole.0])?;
        let on = |arguments: &[&str]| ip(&[&["-n", &hole.0], arguments].concat());
        on(&["link", "add", "eth0", "type", "veth", "peer", "name", "eth1"])?;
        on(&["address", "add", "10.119.0.1/24", "dev", "eth0"])?;
        on(&["link", "set", "eth0", "up"])?;
        on(&["link", "set", "eth1", "up"])?;
        on(&["link", "set", "lo", "up"])?;
        let neighbour = ["neigh", "add", "10.119.0.2", "lladdr", "02:00:00:00:00:02"];
        on(&[&neighbour[..], &["dev", "eth0", "nud", "permanent"]].concat())?;
        Ok(hole)
    }

    /// Returns what a client meets there that connects to this address.
    async fn failed(&self, way: &'static str, address: &str) -> Row {
        let client = program("node", env!("CARGO_BIN_EXE_node"));
        let within_it = ["netns", "exec", &self.0];
        let mut command = Command::new("ip");
        command.args(within_it).arg(client).args(["client", address]).kill_on_drop(true);
        let output = within(command.output()).await.unwrap().stdout;
        let line = String::from_utf8(output).unwrap();
        let mut words = line.trim_end().splitn(3, ' ');
        let mut word = || words.next().unwrap_or_default().to_owned();
        let (cause, took, text) = (word(), word(), word());
        let took = Duration::from_millis(took.parse().unwrap_or_else(|_| panic!("{line}")));
        Row { way, cause, took, text }
    }
}

impl Drop for Hole {
    fn drop(&mut self) {
        // A namespace that was never made cannot be deleted.
        drop(ip(&["netns", "del", &self.0]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_black_hole_and_a_host_without_a_node_are_told_apart() {
    let hole = match Hole::new() {
        Ok(hole) => hole,
        Err(missing) => {
            // Past the capture of the test's output: nobody shall take this for a pass.
            let line = format!("SKIPPED the black hole: no network namespaces here: {missing}\n");
            return std::io::stderr().write_all(line.as_bytes()).unwrap();
        }
    };
    let (black, nobody, nowhere) = tokio::join!(
        hole.failed("namespace: a black hole", "10.119.0.2:7700"),
        hole.failed("namespace: nobody", "10.119.0.1:7700"),
        hole.failed("namespace: no route", "10.120.0.1:7700"),
    );
    black.check(ConnectCause::NoAnswer, LATE);
    nobody.check(ConnectCause::Unreachable, LATE);
    nowhere.check(ConnectCause::Unreachable, LATE);
}
