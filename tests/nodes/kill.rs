//! `kill -9` of a peer.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ringpost::NodeEvent;
use ringpost::prelude::*;
use ringpost_tests::actors::Counter;

use crate::process::{PATIENCE, Process, event, linked, unanswered_asks, within};

const ASKS: u64 = 1000;

// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_pending_asks_end_with_a_cause_when_their_peer_is_killed() {
    let beta = Process::start("beta", &[]).await;
    let alpha = linked("alpha", &[&beta], Duration::from_secs(3)).await;
    let mut events = alpha.events();
    let counter = alpha.actor::<Counter>("beta/counter").await.unwrap();
    let mut asks = unanswered_asks(&alpha, ASKS, PATIENCE).await;
    let started = Instant::now();
    beta.kill().await;
    let mut causes = BTreeMap::new();
    while let Some(ended) = within(asks.join_next()).await {
        let cause = ended.unwrap().unwrap_err().to_string();
        *causes.entry(cause).or_insert(0) += 1;
    }
    println!("{ASKS} asks ended {} ms after the kill: {causes:?}", started.elapsed().as_millis());
    assert_eq!(causes.values().sum::<u64>(), ASKS);
    event(&mut events, |e| matches!(e, NodeEvent::NodeDown { .. }).then_some(())).await;
    let back = within(async { counter.tell(count("late")).await }).await.unwrap_err();
    assert!(matches!(back.cause, Cause::NodeUnreachable(_)), "{}", back.cause);
    assert_eq!(back.message.text, "late", "the message comes back");
    alpha.shutdown(PATIENCE).await;
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_killed_joins_again_under_its_name_as_another_incarnation() {
    let gamma = Process::start("gamma", &[]).await;
    let alpha = linked("alpha", &[&gamma], Duration::from_secs(3)).await;
    let mut events = alpha.events();
    let before = alpha.linked()[0].incarnation;
    let named = alpha.actor::<Counter>("gamma/counter").await.unwrap();
    let gone = within(async { named.itself().await }).await.unwrap();
    assert_eq!(within(async { gone.echo("there".into()).await }).await, Ok("there".into()));
    gamma.kill().await;
    let again = Process::start("gamma", &alpha.addresses()).await;
    let answer = within(async {
        loop {
            // The first lookups may still meet the end of the old incarnation.
            if let Ok(counter) = alpha.actor::<Counter>("gamma/counter").await
                && let Ok(answer) = counter.echo("here".into()).await
            {
                return answer;
            }
        }
    });
    assert_eq!(answer.await, "here");
    assert_ne!(alpha.linked()[0].incarnation, before);
    let back = within(gone.tell(count("late"))).await.unwrap_err();
    assert_eq!((back.message.text.as_str(), back.cause), ("late", Cause::NoSuchActor));
    again.end().await;
    alpha.shutdown(PATIENCE).await;
    let mut downs = Vec::new();
    while let Ok(event) = events.try_recv() {
        if let NodeEvent::NodeDown { node, .. } = event {
            downs.push(node.incarnation);
        }
    }
    assert_eq!(downs.iter().filter(|down| **down == before).count(), 1, "{downs:?}");
}

fn count(text: &str) -> ringpost_tests::actors::Text {
    ringpost_tests::actors::Text { text: text.into() }
}
