//! Sets of asks, of which the first answers are taken.

use std::pin::pin;
use std::time::Duration;

use futures::{StreamExt, poll};
use ringpost::NotBegun;
use ringpost::prelude::*;
use ringpost::send::{AskSet, TooFewAnswers};

use crate::actors::{Note, Notebook, Notes, held, node};
use crate::cause;
use crate::remote::{end, pair};

async fn notebook(node: &Node) -> ActorRef<Notebook> {
    node.spawn_anonymous(Notebook::new()).await.unwrap()
}

async fn ended(node: &Node) -> ActorRef<Notebook> {
    let notebook = notebook(node).await;
    notebook.stop().await.unwrap();
    notebook.wait_stopped().await;
    notebook
}

#[tokio::test]
async fn the_first_answers_are_taken_and_the_rest_stays_in_the_set() {
    let node = node().await;
    let (held, quick) = (held(&node, 8).await, [notebook(&node).await, notebook(&node).await]);
    quick[1].tell(Note { number: 7 }).await.unwrap();
    let actors = [&held.actor, &quick[0], &quick[1]];
    let mut asks: AskSet<Vec<u64>> = actors.into_iter().map(|actor| actor.ask(Notes)).collect();
    assert_eq!((asks.len(), asks.is_empty()), (3, false));
    let mut first = asks.first(2).await.unwrap();
    first.sort();
    assert_eq!(first, [(1, vec![]), (2, vec![7])]);
    // Answers that come during a wait are not lost when the wait is given up.
    assert_eq!(asks.push(quick[1].ask(Notes)), 3);
    {
        let mut both = pin!(asks.first(2));
        for _ in 0..20 {
            assert!(poll!(&mut both).is_pending());
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(asks.len(), 2);
    assert_eq!(asks.first(1).await, Ok(vec![(3, vec![7])]));
    held.gate.add_permits(1);
    assert_eq!(asks.next().await, Some((0, Ok(vec![]))));
    assert_eq!(asks.next().await, None);
    assert!(asks.is_empty());
    // Of the rest it is a stream.
    asks.extend([quick[0].ask(Notes), quick[1].ask(Notes)]);
    let mut all: Vec<_> =
        StreamExt::map(asks, |(number, came)| (number, came.unwrap())).collect().await;
    all.sort();
    assert_eq!(all, [(4, vec![]), (5, vec![7])]);
}

#[tokio::test]
async fn a_set_says_how_many_answered_and_why_the_others_did_not() {
    let (alpha, beta) = pair().await;
    let (well, ended, held) = (notebook(&alpha).await, ended(&alpha).await, held(&beta, 8).await);
    let far = alpha.actor::<Notebook>("beta/held").await.unwrap();
    let ask = |actor: &ActorRef<Notebook>| actor.ask(Note { number: 1 }).into_ask();
    let mut asks: AskSet<()> = [&well, &ended, &far].into_iter().map(ask).collect();
    // One of them is killed before it begins.
    let kill = async {
        while beta.snapshot().actors.iter().all(|actor| actor.mailbox.remote == 0) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        held.actor.kill().await.unwrap();
    };
    let (few, ()) = tokio::join!(asks.first(2), kill);
    let few = few.unwrap_err();
    let TooFewAnswers { wanted: 2, answered: 1, failed, .. } = &few else { panic!("{few:?}") };
    let causes: Vec<_> = failed.iter().map(|(number, why)| (*number, why.cause.clone())).collect();
    let stopped = AskCause::NotBegun(NotBegun::Stopped);
    assert_eq!(causes, [(1, AskCause::NotSent(Cause::Stopped)), (2, stopped)]);
    let text = few.to_string();
    assert!(text.starts_with("1 of 2 answers came; asks that failed: ask of "), "{text}");
    assert!(text.contains("beta/held"), "{text}");
    // Every answer that came can still be taken.
    assert_eq!(asks.first(1).await, Ok(vec![(0, ())]));
    assert_eq!(
        asks.next().await.map(|(number, came)| (number, cause(came).is_err())),
        Some((1, true))
    );
    assert_eq!(asks.len(), 1);
    // All fail.
    let mut asks: AskSet<()> = [&ended, &ended].into_iter().map(ask).collect();
    let few = asks.first(1).await.unwrap_err();
    assert_eq!((few.wanted, few.answered, few.failed.len()), (1, 0, 2));
    end([alpha, beta]).await;
}

#[tokio::test]
async fn a_set_of_which_nothing_or_too_much_is_wanted_sends_nothing() {
    let node = node().await;
    let well = notebook(&node).await;
    let ask = || -> AskSet<'_, ()> { (0..2).map(|number| well.ask(Note { number })).collect() };
    assert_eq!(ask().first(0).await, Ok(vec![]));
    let few = ask().first(3).await.unwrap_err();
    assert_eq!((few.wanted, few.answered, few.failed.len()), (3, 0, 0));
    assert!(few.to_string().contains("ask more actors"), "{few}");
    let none = AskSet::<()>::new().first(1).await.unwrap_err();
    assert_eq!((none.wanted, none.answered), (1, 0));
    assert_eq!(well.notes().await, Ok(vec![]));
}

#[tokio::test]
async fn the_rest_of_a_set_is_taken_back_or_goes_on_without_it() {
    let node = node().await;
    let held = held(&node, 8).await;
    for (number, goes_on) in [(1, false), (2, true)] {
        let quick = notebook(&node).await;
        let ask = |actor: &ActorRef<Notebook>| actor.ask(Note { number }).into_ask();
        let mut asks: AskSet<()> = [&held.actor, &quick].into_iter().map(ask).collect();
        assert_eq!(asks.first(1).await, Ok(vec![(1, ())]));
        if goes_on { asks.detach(&node) } else { drop(asks) }
    }
    held.gate.add_permits(1);
    assert_eq!(held.actor.notes().await, Ok(vec![2]));
}

/// Even if the first ask of the set fails at once.
#[tokio::test]
async fn each_ask_of_a_set_is_sent_before_an_outcome_is_taken() {
    let node = node().await;
    let (ended, well) = (ended(&node).await, notebook(&node).await);
    let ask = |actor: &ActorRef<Notebook>| actor.ask(Note { number: 3 }).into_ask();
    let many = (0..1_000).map(|_| ask(&well));
    let mut asks: AskSet<()> = std::iter::once(ask(&ended)).chain(many).collect();
    let (number, came) = asks.next().await.unwrap();
    assert_eq!((number, cause(came)), (0, Err(AskCause::NotSent(Cause::Stopped))));
    // Nothing polls the set.
    assert!(!well.notes().await.unwrap().is_empty());
}
