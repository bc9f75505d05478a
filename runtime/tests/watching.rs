//! Watches: an actor is told how another one ended.

use std::pin::pin;
use std::time::Duration;

use futures::poll;
use ringpost::net::Profile;
use ringpost::observe::NodeEvent;
use ringpost::prelude::*;
use ringpost::spawn::{Child, Restart};
use ringpost::test_kit;

use crate::actors::{Note, Notebook, node};
use crate::registered::{Bulk, Clerk, Do, MS, Meet, Silent, within};
use crate::remote::pair;

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_watcher_is_told_of_each_end_once_after_the_last_message() {
    let node = node().await;
    let (clerk, other) = (Clerk::spawn(&node).await, Clerk::spawn(&node).await);
    let (watched, unwatched) = (other.clone(), Clerk::spawn(&node).await);
    let left = unwatched.clone();
    within(&clerk, move |_, cx| {
        cx.watch(&watched);
        cx.watch(&watched);
        cx.watch(&left);
        assert!(cx.unwatch(&left) && !cx.unwatch(&left));
    })
    .await;
    // The last words of an actor are handled before its end is told.
    let to = clerk.clone();
    within(&other, move |_, cx| {
        for number in 0..100 {
            to.try_tell(Note { number }).unwrap();
        }
        cx.stop();
    })
    .await;
    unwatched.stop().await.unwrap();
    assert_eq!(other.wait_stopped().await, ActorExit::Stopped);
    let mut notes = Vec::new();
    while notes.last() != Some(&1000) {
        notes.extend(clerk.notes().await.unwrap());
    }
    assert_eq!(notes, (0..100).chain([1000]).collect::<Vec<_>>());
    let address = other.address().to_string();
    assert_eq!(clerk.downs().await.unwrap(), [(address.clone(), "it stopped".into())]);
    // The end of an actor that has ended, or never was, is told at once.
    let again = other.clone();
    within(&clerk, move |_, cx| cx.watch(&again)).await;
    assert_eq!(clerk.downs().await.unwrap(), [(address, "it stopped".into())]);
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_watcher_learns_how_an_actor_ended_and_not_that_it_was_restarted() {
    let node = node().await;
    let clerk = Clerk::spawn(&node).await;
    let restart = Restart::on_failure().at_most(1, Duration::from_secs(60)).backoff(MS, MS);
    let child = node.supervise(Child::new(Clerk::default).restart(restart)).await.unwrap();
    let panics = Clerk::spawn(&node).await;
    let killed = Clerk::spawn(&node).await;
    let all = [child.clone(), panics.clone(), killed.clone()];
    within(&clerk, move |_, cx| all.iter().for_each(|actor| cx.watch(actor))).await;
    child.fail().await.unwrap_err();
    assert_eq!(child.notes().await, Ok(vec![]));
    assert_eq!(clerk.downs().await, Ok(vec![]));
    panics.fail().await.unwrap_err();
    killed.kill().await.unwrap();
    child.fail().await.unwrap_err();
    child.wait_stopped().await;
    let mut ends = Vec::new();
    while ends.len() < 3 {
        ends.extend(clerk.downs().await.unwrap().into_iter().map(|(_, how)| how));
    }
    ends.sort();
    assert!(ends[0].starts_with("it failed: alpha/#"), "{ends:?}");
    assert_eq!(ends[1..], ["it panicked: as it was told", "it was killed"]);
}

#[tokio::test]
async fn a_watcher_of_another_node_learns_how_an_actor_ended_after_its_last_message() {
    let (alpha, beta) = pair().await;
    let clerk = Clerk::spawn(&alpha).await;
    let mut ended = Vec::new();
    for (name, how) in [
        ("stops", "it stopped"),
        ("panics", "it panicked: as it was told"),
        ("is killed", "it was killed"),
    ] {
        let there = beta.spawn(name, Clerk::default()).await.unwrap();
        let here = alpha.actor::<Clerk>(&format!("beta/{name}")).await.unwrap();
        let watched = here.clone();
        within(&clerk, move |_, cx| cx.watch(&watched)).await;
        // Over the link, so that it is bound there.
        here.ask(Meet(clerk.clone())).await.unwrap();
        while clerk.notes().await.unwrap() != [4242] {}
        within(&there, move |there, _| {
            let clerk = there.met.clone().unwrap();
            for number in 0..50 {
                clerk.try_tell(Note { number }).unwrap();
            }
            clerk.try_tell(Bulk { bytes: vec![1; 3 << 20] }).unwrap();
            for number in 50..100 {
                clerk.try_tell(Note { number }).unwrap();
            }
        })
        .await;
        match name {
            "stops" => there.stop().await.unwrap(),
            "panics" => drop(there.fail().await),
            _ => there.kill().await.unwrap(),
        }
        let mut notes = Vec::new();
        while notes.last() != Some(&1000) {
            notes.extend(clerk.notes().await.unwrap());
        }
        let all = (0..50).chain([3 << 20]).chain(50..100).chain([1000]);
        assert_eq!(notes, all.collect::<Vec<_>>(), "{name}");
        ended.push((here.address().to_string(), how.to_owned()));
    }
    assert_eq!(clerk.downs().await.unwrap(), ended);
    // An actor that is not there, and an actor whose node goes.
    let there = beta.spawn("left", Clerk::default()).await.unwrap();
    let left = alpha.actor::<Clerk>("beta/left").await.unwrap();
    let gone = alpha.actor::<Clerk>("beta/left").await.unwrap();
    within(&clerk, move |_, cx| cx.watch(&left)).await;
    there.stop().await.unwrap();
    there.wait_stopped().await;
    while clerk.downs().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    within(&clerk, move |_, cx| cx.watch(&gone)).await;
    let mut downs = Vec::new();
    while downs.is_empty() {
        downs = clerk.downs().await.unwrap();
    }
    assert_eq!(downs[0].1, "there was no such actor");
    let stays = beta.spawn("stays", Clerk::default()).await.unwrap();
    let lost = alpha.actor::<Clerk>("beta/stays").await.unwrap();
    within(&clerk, move |_, cx| cx.watch(&lost)).await;
    drop(stays);
    beta.shutdown(Duration::ZERO).await;
    let mut downs = Vec::new();
    while downs.is_empty() {
        downs = clerk.downs().await.unwrap();
    }
    let ends = ["it stopped", "it was killed", "its node is down"];
    assert!(ends.contains(&downs[0].1.as_str()), "{downs:?}");
    alpha.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn an_end_that_is_not_told_yet_is_taken_back_by_unwatch_and_told_once() {
    let node = node().await;
    let (clerk, first, second) =
        (Clerk::spawn(&node).await, Clerk::spawn(&node).await, Clerk::spawn(&node).await);
    let all = [first.clone(), second.clone()];
    within(&clerk, move |_, cx| all.iter().for_each(|actor| cx.watch(actor))).await;
    // Both have ended before the clerk comes to its waiting messages.
    let held = node.spawn_anonymous(Silent).await.unwrap();
    for number in 0..10 {
        clerk.try_tell(Note { number }).unwrap();
    }
    let (one, other) = (first.clone(), second.clone());
    clerk
        .try_tell(Do(Box::new(move |_, cx| {
            assert!(cx.unwatch(&one), "it is not told yet");
            cx.watch(&other);
        })))
        .unwrap();
    first.stop().await.unwrap();
    second.stop().await.unwrap();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(clerk.downs().await.unwrap().len(), 1, "the other, once");
    drop(held);
}

/// Waits until the node is told of something like this.
async fn heard(node: &Node, is_it: impl Fn(&NodeEvent) -> bool) {
    let mut events = node.events();
    while !is_it(&events.recv().await.unwrap()) {}
}

/// The end comes while there is no link, and the node is back before it is down, with another actor
/// of the name.
#[test]
fn a_wait_by_name_is_for_the_actor_that_it_found() {
    let down_after = Duration::from_secs(3600);
    test_kit::check(0..8, |cluster| async move {
        let profile = Profile { down_after, ..Profile::default() };
        let alpha = cluster.node_with("alpha", |it| it.profile(profile)).await;
        let mut beta = cluster.node("beta").await;
        let first = beta.spawn("notebook", Notebook::new()).await.unwrap();
        let by_name = alpha.named::<Notebook>("beta/notebook").unwrap();
        by_name.tell(Note { number: 1 }).await.unwrap();
        let mut stopped = pin!(by_name.wait_stopped());
        assert!(poll!(stopped.as_mut()).is_pending());
        let clerk = Clerk::spawn(&alpha).await;
        let watched = by_name.clone();
        within(&clerk, move |_, cx| cx.watch(&watched)).await;
        let is_lost = |event: &NodeEvent| matches!(event, NodeEvent::LinkDown { .. });
        if cluster.seed() % 2 == 0 {
            let lost = heard(&alpha, is_lost);
            cluster.cut("alpha", "beta");
            lost.await;
            first.kill().await.unwrap();
            first.wait_stopped().await;
        } else {
            cluster.kill("beta").await;
            beta = cluster.restart("beta").await;
        }
        let second = beta.spawn("notebook", Notebook::new()).await.unwrap();
        cluster.mend_all();
        let exit = stopped.await;
        assert!(matches!(exit, ActorExit::NoActor | ActorExit::NodeDown), "{exit:?}");
        while clerk.downs().await.unwrap().is_empty() {
            cluster.sleep(MS).await;
        }
        // The name itself is followed as before.
        by_name.tell(Note { number: 2 }).wait_for_link().await.unwrap();
        while second.notes().await != Ok(vec![2]) {
            cluster.sleep(MS).await;
        }
    });
}
