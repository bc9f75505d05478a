//! What a node says of itself when it is asked.

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use ringpost::WaitsFor;
use ringpost::prelude::*;

use crate::actors::{Note, Notebook, held, node};
use crate::remote::{PATIENCE, listening};

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

/// The sender's node says where its senders are stuck, and the receiver's what is in the mailbox.
#[tokio::test]
async fn a_snapshot_names_the_mailbox_that_senders_of_another_node_wait_for() {
    let alpha = listening("alpha", &[]).await;
    let beta = listening("beta", &[&alpha]).await;
    let held = held(&beta, 10).await;
    let there: ActorRef<Notebook> = alpha.actor("beta/held").await.unwrap();
    let sender = tokio::spawn({
        let there = there.clone();
        async move {
            for number in 0..1_000 {
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
    while beta.snapshot().actors[0].mailbox.remote < 256 {
        tokio::task::yield_now().await;
    }
    let leased = || beta.snapshot().peers[0].link.as_ref().map_or(0, |link| link.leased);
    assert!(leased() > 0, "the messages lie where they arrived");
    held.gate.add_permits(1);
    sender.await.unwrap();
    while leased() > 0 {
        tokio::task::yield_now().await;
    }
    let carried = &alpha.snapshot().peers[0].carried;
    assert!(carried.messages_sent >= 1_000 && carried.window_stalls > 0, "{carried:?}");
    beta.shutdown(PATIENCE).await;
    alpha.shutdown(PATIENCE).await;
}

/// Who cannot be reached is named with what the last attempt met.
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

/// In a process of its own, where nothing else counts: a node has threads of its own.
#[test]
fn metrics_count_links_messages_and_dead_letters() {
    const ALONE: &str = "RINGPOST_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        return runtime.unwrap().block_on(counting());
    }
    let name = "snapshot::metrics_count_links_messages_and_dead_letters";
    let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
    let output = alone.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    // Without the line nothing was counted: the name is wrong.
    assert!(output.status.success() && said.contains("counted: "), "{output:?}");
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
    held.actor.kill().await.unwrap();
    held.actor.wait_stopped().await;
    beta.shutdown(PATIENCE).await;
    alpha.shutdown(PATIENCE).await;

    let counted = snapshotter.snapshot().into_hashmap();
    let document = include_str!("../../docs/OBSERVING.md");
    let mut sums = std::collections::BTreeMap::<String, u64>::new();
    for (key, (_, _, value)) in counted {
        let name = key.key().name().to_owned();
        assert!(document.contains(&format!("| `{name}` |")), "{name}");
        if let DebugValue::Counter(count) = value {
            *sums.entry(name).or_default() += count;
        }
    }
    println!("counted: {sums:?}");
    let counts = ["ringpost_links_up_total", "ringpost_links_down_total"].map(|name| sums[name]);
    assert_eq!(counts, [2, 2]);
    assert!(sums["ringpost_nodes_down_total"] >= 1);
    assert_eq!(sums["ringpost_dead_letters_total"], 1);
    assert!(sums.get("ringpost_link_messages_sent_total") >= Some(&1), "{sums:?}");
}
