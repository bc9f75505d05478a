//! The state that a node reports: snapshots and metrics.

mod kinds;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use ringpost::observe::{NodeEvent, WaitsFor};
use ringpost::prelude::*;

use crate::actors::{Note, Notebook, held, node};
use crate::log::Log;
use crate::remote::{PATIENCE, listening};

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_snapshot_shows_what_waits_in_a_mailbox_and_for_it() {
    let node = node().await;
    let held = held(&node, 2).await;
    assert_eq!(node.snapshot().actors[0].mailbox.oldest, None);
    held.actor.try_tell(Note { number: 1 }).unwrap();
    held.actor.try_tell(Note { number: 2 }).unwrap();
    let waits = tokio::spawn({
        let actor = held.actor.clone();
        async move { actor.tell(Note { number: 3 }).await.unwrap() }
    });
    let full = || node.snapshot().actors[0].clone();
    while full().mailbox.senders == 0 {
        tokio::task::yield_now().await;
    }
    let actor = full();
    assert_eq!(actor.address.name(), Some("held"));
    assert_eq!((actor.mailbox.local, actor.mailbox.remote), (2, 0));
    assert!(actor.mailbox.oldest.is_some());
    held.gate.add_permits(1);
    waits.await.unwrap();
}

/// The sender's node says where its senders are stuck, and the receiver's node how full the mailbox
/// is.
#[tokio::test]
async fn a_snapshot_names_the_mailbox_that_senders_of_another_node_wait_for() {
    let alpha = listening("alpha", &[]).await;
    let beta = listening("beta", &[&alpha]).await;
    let held = held(&beta, 10).await;
    let there: ActorRef<Notebook> = alpha.actor("beta/held").await.unwrap();
    let sender = tokio::spawn({
        let there = there.clone();
        async move {
            for number in 0..4_000 {
                there.tell(Note { number }).await.unwrap();
            }
        }
    });
    let waiting = loop {
        let peers = alpha.snapshot().peers;
        let link = peers.iter().find_map(|peer| peer.link.as_ref()).expect("they are linked");
        match link.waiting.first() {
            Some(waiting) if waiting.for_what == WaitsFor::MailboxWindow => break waiting.clone(),
            _ => tokio::task::yield_now().await,
        }
    };
    assert_eq!(waiting.senders, 1);
    while beta.snapshot().actors[0].mailbox.remote < 2_048 {
        tokio::task::yield_now().await;
    }
    // Messages may come before beta's own thread has noted the link.
    let leased = || {
        let peers = beta.snapshot().peers;
        let link = peers.first().and_then(|peer| peer.link.as_ref());
        link.map_or(0, |link| link.leased)
    };
    while leased() == 0 {
        tokio::task::yield_now().await;
    }
    held.gate.add_permits(1);
    sender.await.unwrap();
    while leased() > 0 {
        tokio::task::yield_now().await;
    }
    let carried = &alpha.snapshot().peers[0].carried;
    assert!(carried.messages_sent >= 4_000 && carried.window_stalls > 0, "{carried:?}");
    beta.shutdown(PATIENCE).await;
    alpha.shutdown(PATIENCE).await;
}

/// A node that cannot be reached is named with what the last attempt met.
#[tokio::test]
async fn a_snapshot_says_why_a_node_is_not_reached() {
    let alpha = listening("alpha", &[]).await;
    let lookup = tokio::spawn({
        let alpha = alpha.clone();
        async move { alpha.actor::<Notebook>("gone/held").await.map(|_| ()) }
    });
    let unlinked = loop {
        let peers = alpha.snapshot().peers;
        match peers.iter().find_map(|peer| peer.unlinked.clone()) {
            Some(unlinked) if unlinked.last.contains("no address is known") => break unlinked,
            _ => tokio::task::yield_now().await,
        }
    };
    assert_eq!(unlinked.senders, 1);
    assert!(lookup.await.unwrap().is_err());
    alpha.shutdown(PATIENCE).await;
}

/// Runs a test of the name `name` in a process of its own, where nothing else counts: a node has
/// threads of its own. The test prints its counts.
fn alone(name: &str, test: impl Future<Output = ()>) {
    const ALONE: &str = "RINGPOST_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        return runtime.unwrap().block_on(test);
    }
    let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
    let output = alone.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    // Without the line nothing was counted: the name is wrong.
    assert!(output.status.success() && said.contains("counted: "), "{output:?}");
}

#[test]
fn a_variable_that_says_nothing_is_in_the_log_once_the_node_starts() {
    let test = async {
        let log = Log::default();
        let _here = log.listen();
        // That of `alone` is one.
        let builder = Node::from_env().unwrap().name("alpha");
        let line = "an environment variable is unknown: it says nothing variable=\"RINGPOST_TEST_";
        assert_eq!(log.count(line), 0);
        builder.start().await.unwrap();
        assert_eq!(log.count(line), 1);
        println!("counted: all");
    };
    alone("snapshot::a_variable_that_says_nothing_is_in_the_log_once_the_node_starts", test);
}

// Promised in docs/SEMANTICS.md.
#[test]
fn metrics_count_links_messages_and_dead_letters() {
    alone("snapshot::metrics_count_links_messages_and_dead_letters", counting());
}

/// All metrics have documented names, and count what happened.
async fn counting() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().unwrap();
    let alpha = listening("alpha", &[]).await;
    let beta = listening("beta", &[&alpha]).await;
    let held = held(&beta, 10).await;
    let there: ActorRef<Notebook> = alpha.actor("beta/held").await.unwrap();
    there.tell(Note { number: 1 }).confirmed().await.unwrap();
    // Messages may come before beta's own thread has noted the link; then it could not leave it.
    beta.ready(1).await.unwrap();
    held.actor.kill().await.unwrap();
    held.actor.wait_stopped().await;
    let mut events = alpha.events();
    beta.shutdown(PATIENCE).await;
    // A node that closes itself reports no other one down.
    while !matches!(events.recv().await.unwrap(), NodeEvent::NodeDown { .. }) {}
    alpha.shutdown(PATIENCE).await;

    let sums = sums(&snapshotter);
    println!("counted: {sums:?}");
    let counts = ["ringpost_links_up_total", "ringpost_links_down_total"].map(|name| sums[name]);
    assert_eq!(counts, [2, 2]);
    assert!(sums["ringpost_nodes_down_total"] >= 1);
    assert_eq!(sums["ringpost_dead_letters_total"], 1);
    assert!(sums.get("ringpost_link_messages_sent_total") >= Some(&1), "{sums:?}");
    assert_eq!(sums["ringpost_dials_total linked"], 1);
}

/// Returns the sum of each counter, by its name, and by its name and cause or outcome. All are
/// documented.
fn sums(snapshotter: &Snapshotter) -> BTreeMap<String, u64> {
    let document = include_str!("../../docs/OPERATING.md");
    let mut sums = BTreeMap::<String, u64>::new();
    for (key, (_, _, value)) in snapshotter.snapshot().into_hashmap() {
        let name = key.key().name();
        let row = document.lines().find(|row| row.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("{name} is not documented"));
        let DebugValue::Counter(count) = value else {
            assert!(!name.ends_with("_total"), "{name} is no counter");
            continue;
        };
        *sums.entry(name.into()).or_default() += count;
        for label in key.key().labels() {
            assert_ne!(label.key(), "peer", "not asked for");
            assert!(row.contains(&format!("`{}`", label.key())), "{name}: {}", label.key());
            if ["cause", "outcome"].contains(&label.key()) {
                assert!(row.contains(&format!("`{}`", label.value())), "{name}: {}", label.value());
                *sums.entry(format!("{name} {}", label.value())).or_default() += count;
            }
        }
    }
    sums
}

/// Connections that come to nothing are counted by cause, on both sides.
#[test]
fn dials_and_refused_connections_are_counted_by_cause() {
    alone("snapshot::dials_and_refused_connections_are_counted_by_cause", refusing());
}

async fn refusing() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().unwrap();
    let alpha = listening("alpha", &[]).await;
    let builder = Node::builder("beta")
        .listen("127.0.0.1:0")
        .secret("a secret of the tests, of 43 characters and more");
    let beta = builder.seeds(alpha.addresses()).start().await.unwrap();
    let nobody = Node::builder("gamma").seeds(["127.0.0.1:1"]).start().await.unwrap();
    let mut wanted = vec![
        "ringpost_refused_connections_total wrong_secret",
        "ringpost_dials_total wrong_secret",
        "ringpost_dials_total unreachable",
    ];
    let all = async {
        while !wanted.is_empty() {
            // A look takes the counts since the last one.
            let counts = sums(&snapshotter);
            wanted.retain(|counter| !counts.contains_key(*counter));
            tokio::task::yield_now().await;
        }
    };
    let counted = tokio::time::timeout(PATIENCE, all).await;
    assert!(counted.is_ok(), "not counted: {wanted:?}");
    println!("counted: all");
    for node in [alpha, beta, nobody] {
        node.shutdown(PATIENCE).await;
    }
}

// Promised in docs/SEMANTICS.md.
#[test]
fn gauges_say_how_a_node_is_and_each_peer_is_a_series_only_where_asked_for() {
    let name = "gauges_say_how_a_node_is_and_each_peer_is_a_series_only_where_asked_for";
    alone(&format!("snapshot::{name}"), gauging());
}

async fn gauging() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().unwrap();
    let alpha = Node::builder("alpha").listen("127.0.0.1:0").metrics_by_peer(true);
    let alpha = alpha.start().await.unwrap();
    let beta = listening("beta", &[&alpha]).await;
    // A look takes the changes since the last one: increments add up, values are set again.
    let (mut links, mut unproven, mut seen) = (0.0, 0.0, BTreeSet::new());
    let mut nodes = BTreeMap::new();
    let mut look = |until: &dyn Fn(f64, f64, &BTreeSet<String>) -> bool| {
        for (key, (_, _, value)) in snapshotter.snapshot().into_hashmap() {
            let (name, key) = (key.key().name().to_owned(), key.key().clone());
            let text = |what: String| {
                let labels =
                    key.labels().map(|label| format!(" {}={}", label.key(), label.value()));
                labels.fold(format!("{name} {what}"), |text, label| text + &label)
            };
            match value {
                DebugValue::Gauge(value) if name == "ringpost_links" => links += value.0,
                DebugValue::Gauge(value) if name == "ringpost_unproven_connections" => {
                    unproven += value.0;
                }
                DebugValue::Gauge(value) => {
                    seen.insert(text(value.0.to_string()));
                    nodes.insert(name.clone(), value.0);
                }
                DebugValue::Counter(0) => continue,
                _ => drop(seen.insert(text(String::new()))),
            }
            if name == "ringpost_links" {
                seen.insert(text(String::new()));
            }
        }
        until(links, unproven, &seen)
    };
    let has = |seen: &BTreeSet<String>, text: &str| seen.iter().any(|seen| seen == text);
    let wanted = [
        "ringpost_links  fabric=tcp secret=own",
        "ringpost_nodes_linked 1",
        "ringpost_nodes_alive 1",
        "ringpost_runtime_lateness_seconds 0",
        "ringpost_links_up_total  peer=beta fabric=tcp",
        "ringpost_links_up_total  fabric=tcp",
    ];
    let all = async {
        while !look(&|links, _, seen| links == 2.0 && wanted.iter().all(|text| has(seen, text))) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let counted = tokio::time::timeout(PATIENCE, all).await;
    // A look takes the values away, and they are set once a second.
    tokio::time::sleep(Duration::from_millis(1_300)).await;
    for node in [&alpha, &beta] {
        node.shutdown(PATIENCE).await;
    }
    look(&|links, unproven, seen| {
        assert_eq!((links, unproven), (0.0, 0.0), "all are gone");
        assert!(counted.is_ok(), "wanted {wanted:?}, seen {seen:#?}");
        assert!(!seen.iter().any(|text| text.contains("peer=alpha")), "{seen:#?}");
        true
    });
    let left: Vec<_> = nodes.iter().filter(|(_, value)| **value != 0.0).collect();
    assert!(left.is_empty(), "a node that has shut down has no others: {left:?}");
    println!("counted: all");
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn a_mailbox_that_senders_wait_for_is_in_the_log_once_and_when_it_has_room() {
    let log = Log::default();
    let _here = log.listen();
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let node = node().await;
    let held = held(&node, 1).await;
    held.actor.tell(Note { number: 1 }).await.unwrap();
    let waits = tokio::spawn({
        let actor = held.actor.clone();
        async move { actor.tell(Note { number: 2 }).await.unwrap() }
    });
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(log.count("senders wait for long"), 0);
    tokio::time::sleep(Duration::from_secs(51)).await;
    assert_eq!(log.count("senders wait for long actor=alpha/held messages=1 senders=1"), 1);
    let mailbox = node.snapshot().actors[0].mailbox;
    assert_eq!(mailbox.longest, Some(Duration::from_secs(60)));
    held.gate.add_permits(1);
    waits.await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(log.count("stalled senders resumed actor=alpha/held"), 1);
    assert_eq!(log.count("senders wait for long"), 1);
    let counts = sums(&snapshotter);
    assert_eq!(counts["ringpost_mailbox_waits_total"], 1);
    assert_eq!(counts["ringpost_mailbox_wait_us_total"], 60_000_000);
}
