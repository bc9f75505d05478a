//! `kill -9` of a peer.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ringpost::net::{LinkCause, NodeDownCause, Profile};
use ringpost::observe::NodeEvent;
use ringpost::prelude::*;
use ringpost_tests::actors::Counter;
use tokio::task::JoinSet;

use crate::process::{PATIENCE, Process, event, linked, linked_with, unanswered_asks, within};

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

/// Tells another actor as often as its caller says.
#[actor]
struct Herald {
    to: ActorRef<Counter>,
}

#[handlers]
impl Herald {
    /// Returns the causes for which tells failed.
    #[handler]
    async fn tell_often(&self, times: u64) -> Vec<String> {
        let mut causes = Vec::new();
        for _ in 0..times {
            causes.extend(self.to.tell(count("news")).await.err().map(|e| e.cause.to_string()));
        }
        causes
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_actor_that_tells_a_dead_node_a_thousand_times_is_done_in_a_second() {
    let beta = Process::start("beta", &[]).await;
    let alpha = linked("alpha", &[&beta], Duration::from_secs(3)).await;
    let mut events = alpha.events();
    let counter = alpha.named::<Counter>("beta/counter").unwrap();
    let to = counter.clone();
    let herald = alpha.spawn("herald", Herald { to }).await.unwrap();
    beta.kill().await;
    event(&mut events, |e| matches!(e, NodeEvent::NodeDown { .. }).then_some(())).await;
    let started = Instant::now();
    let causes = herald.tell_often(1000).await.unwrap();
    let took = started.elapsed();
    println!("1,000 tells to a dead node in {took:?}, the last: {:?}", causes.last());
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(causes.len(), 1000);
    let said = |cause: &String| {
        let since = ["is unreachable, down for ", "is unreachable, just found to be down: "];
        since.iter().any(|since| cause.contains(since))
            && cause.contains("its connection was closed, and its host refuses another one")
    };
    assert!(causes.iter().all(said), "{:?}", causes.first());
    // Other calls fail as fast: the timeout of an ask is not waited for.
    let asked = counter.echo("there".into()).await.unwrap_err();
    assert!(matches!(&asked.cause, AskCause::NotSent(Cause::NodeUnreachable(_))), "{asked}");
    let why = alpha.actor::<Counter>("beta/mute0").await.unwrap_err();
    assert!(matches!(why.cause(), Some(Cause::NodeUnreachable(_))), "{why}");
    assert_eq!(counter.wait_stopped().await, ActorExit::NodeDown);
    let tried = counter.try_tell(count("late")).unwrap_err();
    assert!(matches!(tried.cause, Cause::NodeUnreachable(_)), "{tried}");
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    // Calls that wait reach the node when it is back.
    let path = "beta/counter".to_owned();
    let (node, waits) = (alpha.clone(), counter.clone());
    let found = tokio::spawn(async move { node.when_named::<Counter>(&path).await });
    let told = tokio::spawn(async move {
        loop {
            let told = waits.tell(count("two words")).wait_for_link().await;
            // The node may be linked before it has such an actor.
            if told.as_ref().map_err(|back| &back.cause) != Err(&Cause::NoSuchActor) {
                return told;
            }
        }
    });
    let again = Process::start("beta", &alpha.addresses()).await;
    let found = within(found).await.unwrap().unwrap();
    within(told).await.unwrap().unwrap();
    assert_eq!(within(async { found.counted().await }).await, Ok((2, 9)));
    again.end().await;
    alpha.shutdown(PATIENCE).await;
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_killed_joins_again_under_its_name_as_another_incarnation() {
    let gamma = Process::start("gamma", &[]).await;
    let alpha = linked("alpha", &[&gamma], Duration::from_secs(3)).await;
    let mut events = alpha.events();
    let before = alpha.linked()[0].incarnation;
    let gone = alpha.actor::<Counter>("gamma/counter").await.unwrap();
    assert_eq!(within(async { gone.itself().await }).await.as_ref(), Ok(&gone));
    assert_eq!(within(async { gone.echo("there".into()).await }).await, Ok("there".into()));
    gamma.kill().await;
    let again = Process::start("gamma", &alpha.addresses()).await;
    let answer = within(async {
        loop {
            let counter = alpha.when_named::<Counter>("gamma/counter").await.unwrap();
            // The first lookups may still meet the end of the old incarnation.
            if let Ok(answer) = counter.echo("here".into()).wait_for_link().await {
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

/// Kills of a peer: with nothing on its way, and with much.
const KILLS: usize = 16;

// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_is_killed_ends_its_link_with_one_cause_whatever_is_on_its_way() {
    let alpha = linked("alpha", &[], Duration::from_secs(3)).await;
    let mut events = alpha.events();
    let mut causes = BTreeMap::new();
    for kill in 0..KILLS {
        let beta = Process::start("beta", &alpha.addresses()).await;
        let up = |event: &NodeEvent| matches!(event, NodeEvent::LinkUp { .. }).then_some(());
        event(&mut events, up).await;
        let counter = within(alpha.when_named::<Counter>("beta/counter")).await.unwrap();
        let mut asks = JoinSet::new();
        for _ in 0..4 * (kill % 2) {
            let counter = counter.clone();
            asks.spawn(async move {
                loop {
                    if let Err(error) = counter.echo("x".repeat(100_000)).await {
                        return error;
                    }
                }
            });
        }
        within(async { counter.echo("on".into()).await }).await.unwrap();
        beta.kill().await;
        while let Some(ended) = within(asks.join_next()).await {
            if let AskCause::LinkDown(cause) = ended.unwrap().cause {
                *causes.entry(format!("ask: {cause}")).or_insert(0) += 1;
            }
        }
        let down = |event: &NodeEvent| match event {
            NodeEvent::LinkDown { cause, .. } => Some(cause.clone()),
            _ => None,
        };
        let cause = event(&mut events, down).await;
        *causes.entry(format!("link: {cause}")).or_insert(0) += 1;
    }
    println!("{KILLS} kills of a peer: {causes:?}");
    let closed = LinkCause::Closed.to_string();
    assert_eq!(causes.get(&format!("link: {closed}")), Some(&KILLS));
    assert!(causes.keys().all(|cause| cause.ends_with(&closed)), "{causes:?}");
    alpha.shutdown(PATIENCE).await;
}

/// The time in which a killed process is known to be gone, on a machine where tests run.
const GONE_WITHIN: Duration = Duration::from_millis(300);

/// Whichever side had dialled.
// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_process_is_gone_is_down_at_once() {
    let mut took = Vec::new();
    for kill in 0..KILLS {
        let dials = kill % 2 == 0;
        let profile = Profile { down_after: Duration::from_secs(60), ..Profile::default() };
        let (alpha, beta) = if dials {
            let beta = Process::start("beta", &[]).await;
            (linked_with("alpha", &[&beta], profile).await, beta)
        } else {
            let alpha = linked_with("alpha", &[], profile).await;
            let beta = Process::start("beta", &alpha.addresses()).await;
            within(alpha.ready(1)).await.unwrap();
            (alpha, beta)
        };
        let mut events = alpha.events();
        let started = Instant::now();
        beta.kill().await;
        let down = |event: &NodeEvent| match event {
            NodeEvent::NodeDown { cause, .. } => Some(cause.clone()),
            _ => None,
        };
        let cause = event(&mut events, down).await;
        took.push(started.elapsed());
        assert!(matches!(cause, NodeDownCause::Gone { .. }), "{cause}");
        alpha.shutdown(PATIENCE).await;
    }
    took.sort();
    let (median, most) = (took[KILLS / 2], took[KILLS - 1]);
    println!("down after kill -9 of its process: median {median:?}, most {most:?}");
    assert!(median < GONE_WITHIN, "{took:?}");
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_says_nothing_where_the_profile_says_so() {
    let beta = Process::start("beta", &[]).await;
    let down_after = Duration::from_secs(3);
    let profile = Profile { down_after, down_when_refused: false, ..Profile::default() };
    let alpha = linked_with("alpha", &[&beta], profile).await;
    let mut events = alpha.events();
    beta.kill().await;
    let down = |event: &NodeEvent| match event {
        NodeEvent::NodeDown { cause, .. } => Some(cause.clone()),
        _ => None,
    };
    let cause = event(&mut events, down).await;
    assert!(matches!(cause, NodeDownCause::Silent { .. }), "{cause}");
    alpha.shutdown(PATIENCE).await;
}

fn count(text: &str) -> ringpost_tests::actors::Text {
    ringpost_tests::actors::Text { text: text.into() }
}
