//! The ways in which a node stays alive for others: its own thread, and its words on its links.

use tokio::runtime::Runtime;

use super::hostile::peer::{Linked, Proven, identity, silence};
use super::*;
use crate::bootstrap::{Beat, Message};
use crate::limits;

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

/// A shutdown waits for the thread; after a drop, even inside a task, it ends on its own.
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

/// Returns the cores that the thread with this name may run on, as the system writes them.
#[cfg(target_os = "linux")]
fn cores(name: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let read = |path: &std::path::Path, file| std::fs::read_to_string(path.join(file));
    let named = all.filter(|path| read(path, "comm").is_ok_and(|comm| comm.trim_end() == name));
    let statuses = named.map(|path| read(&path, "status").unwrap());
    let line = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        line.unwrap().trim().to_owned()
    };
    statuses.map(line).collect()
}

/// Drivers that are pinned run on a thread of theirs until the node ends.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_drivers_of_links_run_on_the_core_that_the_profile_names() {
    let pinned = |name, seeds: &[String]| {
        let mut config = config(name, Network::tcp(), seeds);
        (config.profile.pinned_to, config.profile.spin) = (Some(0), limits::SPIN);
        config
    };
    let alpha = Node::start(pinned("fixed", &[])).await.unwrap();
    let beta = node("loose", &[alpha.address()]).await;
    assert_eq!(cores("links-fixed"), ["0"]);
    assert_eq!(threads("links-loose"), 0);
    let link = alpha.link("loose").await.unwrap();
    assert!(link.stats().frames_received > 0, "its driver runs");
    // A node that leaves before it knows of its link says no goodbye on it.
    beta.mesh.ready(1).await;
    beta.shutdown().await;
    alpha
        .watcher
        .until(&["loose up over tcp", "loose lost: the peer left", "loose down: it left"])
        .await;
    alpha.shutdown().await;
    assert_eq!(threads("links-fixed"), 0);
    let dropped = Node::start(pinned("dropped", &[])).await.unwrap();
    drop(dropped);
    ended("links-dropped").await;
    let mut missing = config("missing", Network::tcp(), &[]);
    missing.profile.pinned_to = Some(usize::MAX);
    let error = Node::start(missing).await.err().expect("no such core").to_string();
    let core = usize::MAX;
    let text = format!("`pinned_to` of the profile is core {core}, but this process may run on [0");
    assert!(error.starts_with(&text), "{error}");
}

/// Without the runtime that its links run on a node is of no use, and says so by its end.
#[tokio::test]
async fn a_node_whose_runtime_is_gone_is_gone() {
    let alpha = node("alpha", &[]).await;
    let seeds = [alpha.address()];
    let runtime = Runtime::new().unwrap();
    let beta = runtime.spawn(async move { node("orphan", &seeds).await }).await.unwrap();
    alpha.mesh.ready(1).await;
    runtime.shutdown_background();
    let mut count = alpha.watcher.count.subscribe();
    let down = || alpha.watcher.texts().last().is_some_and(|last| last == "orphan down: gone");
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
    // Longer than a silent one is waited for. What the thread of its node answers says nothing of
    // its driver.
    for _ in 0..60 {
        say(stalled, Beat::Stalled).await;
        say(stalled, Beat::Answer).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(alpha.linked(), ["stalled"]);
    while !alpha.watcher.texts().contains(&lost("stalled")) {
        say(stalled, Beat::Plain).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    alpha.shutdown().await;
}

/// MS-18: a peer that beats on, and never says whether the link that rests is to be closed, keeps
/// senders no longer than a silent one. Before, they waited for as long as it did so.
#[tokio::test]
async fn a_peer_that_never_answers_a_rest_keeps_no_link() {
    let mut config = config("alpha", Network::tcp(), &[]);
    config.profile.idle_close = Some(Duration::from_secs(1));
    let alpha = Node::start(config).await.unwrap();
    let mut mute = identity("mute");
    mute.addresses = vec!["127.0.0.1:1".into()];
    let mut mute = Proven::committed(&alpha.address(), &mute).await.link(&silence()).await;
    let (mut asked, mut beat) = (false, Beat::Plain);
    while !alpha.watcher.texts().contains(&"mute lost: the peer is silent".to_owned()) {
        say(&mut mute, beat).await;
        let heard = tokio::time::timeout(Duration::from_millis(100), mute.channel.recv()).await;
        if let Ok(Ok(Message::Heartbeat(Beat::Idle))) = heard {
            // It would be silent without frames, if it said that its driver runs.
            (asked, beat) = (true, Beat::Stalled);
        }
    }
    assert!(asked, "the link rested");
    alpha.shutdown().await;
}
