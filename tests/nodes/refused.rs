//! Nodes that may not link: each side says why, and the listener lives on.

use std::time::Duration;

use ringpost::net::Profile;
use ringpost::prelude::*;
use ringpost_tests::actors::Counter;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::process::{PATIENCE, Process, linked, within};

/// The first bytes of a node that speaks only protocol version 9.
pub(crate) const VERSION_NINE: &[u8; 14] = b"RINGPOST\x01\x01\0\0\x09\x09";

/// Starts a node that cannot link with the peers at `seeds`.
async fn stranger(name: &str, seeds: &[&str], secret: Option<&str>) -> Node {
    let profile = Profile { down_after: Duration::from_secs(3), ..Profile::default() };
    let mut builder =
        Node::builder(name).listen("127.0.0.1:0").seeds(seeds.to_vec()).profile(profile);
    if let Some(secret) = secret {
        builder = builder.secret(secret);
    }
    builder.start().await.unwrap()
}

/// Returns why `node` does not find an actor, and shuts the node down.
async fn why(node: Node, path: &str) -> String {
    let why = within(node.actor::<Counter>(path)).await.unwrap_err().to_string();
    assert!(node.linked().is_empty());
    node.shutdown(PATIENCE).await;
    why
}

/// Checks that a node without a fault is served as if nothing had happened.
async fn lives_on(process: Process, name: &str) {
    let node = linked("zeta", &[&process], Duration::from_secs(8)).await;
    let counter = node.actor::<Counter>(&format!("{name}/counter")).await.unwrap();
    assert_eq!(within(async { counter.echo("in".into()).await }).await, Ok("in".into()));
    process.end().await;
    node.shutdown(PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_secret_is_named_on_both_sides() {
    let mut beta = Process::start("beta", &[]).await;
    let alpha = stranger(
        "alpha",
        &[&beta.address],
        Some("another secret of the tests, as long as the first"),
    )
    .await;
    let cause = "the cluster secrets differ, or only one side has one: give all nodes the same; to \
                 change it, have all nodes accept the new one first";
    beta.warned(&format!("refused: {cause}")).await;
    let expected = format!("seeds not reached: {}: refused by the peer: {cause}", beta.address);
    let why = why(alpha, "beta/counter").await;
    assert!(why.contains(&expected), "{why}");
    lives_on(beta, "beta").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_version_is_named_where_it_arrives() {
    let mut beta = Process::start("beta", &[]).await;
    let mut stream = TcpStream::connect(&beta.address).await.unwrap();
    stream.write_all(VERSION_NINE).await.unwrap();
    let mut answer = Vec::new();
    within(stream.read_to_end(&mut answer)).await.unwrap();
    assert!(answer.starts_with(b"RINGPOST\x01\x01\0\0\x05\x05"), "its own versions: {answer:?}");
    assert_eq!(answer.len(), 30, "and the end");
    beta.warned("this node speaks protocol version 5, the other 9: run the same release").await;
    lives_on(beta, "beta").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seed_of_another_version_or_of_garbage_is_named_to_who_looks_an_actor_up() {
    for (says, cause) in [
        (&VERSION_NINE[..], "this node speaks protocol version 5, the other 9: run the same"),
        (&b"HTTP/1.1 400 Bad Request\r\n"[..], "the peer broke the protocol"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let seed = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                // The node may be gone already: the next dial tries again.
                if stream.write_all(says).await.is_ok() {
                    let _ = stream.read_to_end(&mut Vec::new()).await;
                }
            }
        });
        let why = why(stranger("alpha", &[&address], None).await, "beta/counter").await;
        assert!(why.contains(&format!("seeds not reached: {address}: {cause}")), "{why}");
        seed.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_taken_is_refused_and_the_first_stays_linked() {
    let mut alpha = Process::start("alpha", &[]).await;
    let first = linked("beta", &[&alpha], Duration::from_secs(8)).await;
    let counter = first.actor::<Counter>("alpha/counter").await.unwrap();
    let mut events = first.events();
    let cause = "another live node has the same name: give each node its own";
    // First the name of a third node, then the name of the seed.
    for (name, looked_up) in [("beta", "alpha/counter"), ("alpha", "beta/counter")] {
        let second = stranger(name, &[&alpha.address], None).await;
        alpha.warned(cause).await;
        let why = why(second, looked_up).await;
        assert!(why.contains(&format!("{}: refused", alpha.address)), "{why}");
        assert!(why.contains(cause), "{why}");
    }
    assert_eq!(within(async { counter.echo("on".into()).await }).await, Ok("on".into()));
    assert!(events.try_recv().is_err(), "the first link was not touched");
    first.shutdown(PATIENCE).await;
    lives_on(alpha, "alpha").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_among_its_own_seeds_is_passed_over_in_silence() {
    let beta = Process::start("beta", &[]).await;
    // Bound and not listening, it is given to nobody else who asks for any port.
    let reserved = TcpSocket::new_v4().unwrap();
    reserved.set_reuseaddr(true).unwrap();
    reserved.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let free = reserved.local_addr().unwrap().to_string();
    let profile = Profile { down_after: Duration::from_secs(3), ..Profile::default() };
    let builder = Node::builder("alpha").listen(free.as_str()).profile(profile);
    let alpha = builder.seeds([&free, &beta.address]).start().await.unwrap();
    within(alpha.ready(1)).await.unwrap();
    assert_eq!(alpha.linked()[0].name.as_str(), "beta");
    let why = within(alpha.actor::<Counter>("nobody/counter")).await.unwrap_err().to_string();
    assert!(why.contains("(no address is known: add it to the seeds)"), "{why}");
    beta.end().await;
    alpha.shutdown(PATIENCE).await;
}
