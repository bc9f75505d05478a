//! The ways in which a node stays alive for others: its own thread, and its words on its links.

use tokio::runtime::Runtime;

use super::hostile::peer::{Linked, Proven, identity, silence};
use super::*;
use crate::bootstrap::{Beat, Message};

/// Threads of this process with this name, of which the system knows 15 bytes.
fn threads(name: &str) -> usize {
    let all = std::fs::read_dir("/proc/self/task").unwrap();
    // One may end between the two looks.
    let names = all.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")));
    names.filter(|read| read.as_ref().is_ok_and(|read| read.trim_end() == name)).count()
}

/// Waits until no thread has this name.
async fn ended(name: &str) {
    let gone = async {
        while threads(name) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), gone).await.expect("it ends");
}

async fn node(name: &str, seeds: &[String]) -> Node {
    Node::start(config(name, Network::tcp(), seeds)).await.unwrap()
}

/// MS-10: a shutdown waits for it, and a drop, also inside of a task, has it end by itself.
#[tokio::test]
async fn a_node_has_one_thread_of_its_own_until_it_ends() {
    let first = node("once", &[]).await;
    assert_eq!(threads("ringpost-once"), 1);
    first.shutdown().await;
    assert_eq!(threads("ringpost-once"), 0);
    let second = node("twice", &[first.address()]).await;
    assert_eq!(threads("ringpost-twice"), 1);
    drop(second);
    ended("ringpost-twice").await;
    let taken = node("taken", &[]).await;
    let mut config = config("thrice", Network::tcp(), &[]);
    config.listen = Some(taken.address());
    assert!(Node::start(config).await.is_err());
    assert_eq!(threads("ringpost-thrice"), 0);
}

/// MS-10: without the runtime that its links run on a node is of no use, and says so by its end.
#[tokio::test]
async fn a_node_whose_runtime_is_gone_is_gone() {
    let alpha = node("alpha", &[]).await;
    let seeds = [alpha.address()];
    let runtime = Runtime::new().unwrap();
    let beta = runtime.spawn(async move { node("orphan", &seeds).await }).await.unwrap();
    alpha.mesh.ready(1).await;
    runtime.shutdown_background();
    let mut count = alpha.watcher.count.subscribe();
    let down = || alpha.watcher.texts().last().is_some_and(|last| last == "orphan down: silent");
    let wait = count.wait_for(|_| down());
    tokio::time::timeout(Duration::from_secs(60), wait).await.expect("it is down").unwrap();
    drop(beta);
    ended("ringpost-orphan").await;
    alpha.shutdown().await;
}

/// A peer that says this with every heartbeat, and sends no frame.
async fn say(peer: &mut Linked, beat: Beat) {
    // The node may have given it up.
    drop(peer.channel.send(&Message::Heartbeat(beat)).await);
}

/// MS-11.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_peer_that_says_that_it_is_stalled_keeps_its_link_and_a_silent_one_does_not() {
    let alpha = node("alpha", &[]).await;
    let mut peers = Vec::new();
    for name in ["stalled", "silent"] {
        let proven = Proven::committed(&alpha.address(), &identity(name)).await;
        peers.push(proven.link(&silence()).await);
    }
    let lost = |name: &str| format!("{name} lost: the peer is silent");
    let [stalled, silent] = &mut peers[..] else { panic!("two") };
    while !alpha.watcher.texts().contains(&lost("silent")) {
        say(stalled, Beat::Stalled).await;
        say(silent, Beat::Plain).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(alpha.linked(), ["stalled"]);
    // Longer than a silent one is waited for.
    for _ in 0..60 {
        say(stalled, Beat::Stalled).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(alpha.linked(), ["stalled"]);
    while !alpha.watcher.texts().contains(&lost("stalled")) {
        say(stalled, Beat::Plain).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    alpha.shutdown().await;
}
