//! Finding actors that are not there yet, and references for special uses.

use std::time::Duration;

use futures::{FutureExt, StreamExt, future};
use ringpost::observe::DeadLetterCause;
use ringpost::prelude::*;
use ringpost::spawn::SpawnError;
use ringpost::{Inbox, LookupError, NodeBuilder, NotBegun};
use tokio::time::Instant;

use crate::actors::{Note, Notebook, Notes, held, node};
use crate::cause;
use crate::remote::{PATIENCE, end, pair};

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_program_can_wait_for_a_name_here_and_on_another_node() {
    let (alpha, beta) = pair().await;
    for path in ["late", "beta/late"] {
        let (waiting, node) = (alpha.clone(), if path == "late" { &alpha } else { &beta });
        let found = tokio::spawn(async move { waiting.when_named::<Notebook>(path).await });
        tokio::task::yield_now().await;
        let other = node.spawn("other", Notebook::new()).await.unwrap();
        other.stop().await.unwrap();
        other.wait_stopped().await;
        let late = node.spawn("late", Notebook::new()).await.unwrap();
        let found = found.await.unwrap().unwrap();
        found.tell(Note { number: 7 }).await.unwrap();
        while late.notes().await.unwrap() != [7] {}
    }
    let nameless = alpha.when_named::<Notebook>("a/b/c").await;
    assert!(matches!(nameless, Err(LookupError::InvalidName(_))), "{nameless:?}");
    let waiting = alpha.clone();
    let never = tokio::spawn(async move { waiting.when_named::<Notebook>("never").await });
    tokio::task::yield_now().await;
    end([alpha, beta]).await;
    never.abort();
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_that_find_or_spawn_one_spawns() {
    let node = node().await;
    let all = (0..32).map(|_| {
        let node = node.clone();
        tokio::spawn(async move { node.actor_or_spawn("one", Notebook::new).await.unwrap() })
    });
    let found: Vec<ActorRef<Notebook>> =
        future::join_all(all).await.into_iter().map(Result::unwrap).collect();
    assert!(found.iter().all(|actor| *actor == found[0]));
    assert_eq!(node.snapshot().actors.len(), 1);
}

/// Does not start.
struct Fails;

#[actor]
impl Actor for Fails {
    async fn on_start(&mut self, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        Err("as it was told".into())
    }
}

#[handlers]
impl Fails {}

/// One caller is quicker, its actor does not start, and the name is free again: that comes between
/// two looks of another caller once in some ten thousand calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_finds_or_spawns_is_not_told_that_the_name_was_taken() {
    let node = node().await;
    let callers = (0..8).map(|_| {
        let node = node.clone();
        tokio::spawn(async move {
            for _ in 0..10_000 {
                match node.actor_or_spawn("one", || Fails).await {
                    Ok(quicker) => drop(quicker.wait_stopped().await),
                    Err(SpawnError::Start(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        })
    });
    for caller in future::join_all(callers).await {
        caller.unwrap();
    }
}

#[tokio::test]
async fn an_inbox_is_a_stream_of_what_it_is_told_and_bounded() {
    let node = node().await;
    let mut inbox: Inbox<Note> = node.inbox(2).await.unwrap();
    let recipient = inbox.recipient();
    let mut sent = 0;
    loop {
        match recipient.try_tell(Note { number: sent }) {
            Ok(()) => sent += 1,
            Err(full) => break assert_eq!(full.cause, Cause::MailboxFull),
        }
        tokio::task::yield_now().await;
    }
    assert!((2..=5).contains(&sent), "{sent}");
    for number in 0..sent {
        assert_eq!(inbox.receive().await, Some(Note { number }));
    }
    recipient.tell(Note { number: 99 }).await.unwrap();
    assert_eq!(inbox.next().await, Some(Note { number: 99 }));
    drop(inbox);
    while !node.snapshot().actors.is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(recipient.tell(Note { number: 1 }).await.unwrap_err().cause, Cause::Stopped);
}

#[tokio::test]
async fn what_an_inbox_did_not_receive_when_it_is_dropped_is_a_dead_letter() {
    let node = node().await;
    let inbox: Inbox<Note> = node.inbox(8).await.unwrap();
    let recipient = inbox.recipient();
    for number in 0..5 {
        recipient.tell(Note { number }).await.unwrap();
        tokio::task::yield_now().await;
    }
    drop(inbox);
    while !node.snapshot().actors.is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(node.dead_letters().count(DeadLetterCause::Stopped), 5);
}

#[tokio::test]
async fn a_weak_reference_keeps_nothing_alive() {
    let node = node().await;
    let actor = node.spawn("notebook", Notebook::new()).await.unwrap();
    let weak = actor.downgrade();
    assert_eq!(weak.upgrade(), Some(actor.clone()));
    drop(actor);
    let actor = weak.upgrade().unwrap();
    assert_eq!(actor.notes().await, Ok(vec![]), "an actor lives without references");
    actor.stop().await.unwrap();
    actor.wait_stopped().await;
    drop(actor);
    // The task drops the last one a moment after it told its end.
    while weak.upgrade().is_some() {
        tokio::task::yield_now().await;
    }
    assert_eq!(format!("{weak:?}"), "WeakActorRef<runtime::actors::Notebook>(gone)");
}

#[tokio::test]
async fn a_stop_is_asked_for_without_waiting() {
    let (alpha, beta) = pair().await;
    let near = alpha.spawn("near", Notebook::new()).await.unwrap();
    near.request_stop().unwrap();
    assert_eq!(near.wait_stopped().await, ActorExit::Stopped);
    near.request_stop().unwrap();
    let there = beta.spawn("far", Notebook::new()).await.unwrap();
    let far = alpha.actor::<Notebook>("beta/far").await.unwrap();
    far.request_stop().unwrap();
    assert_eq!(there.wait_stopped().await, ActorExit::Stopped);
    // A mailbox that is full is no reason to go on.
    let held = held(&beta, 1).await;
    let far = alpha.actor::<Notebook>("beta/held").await.unwrap();
    while far.try_tell(Note { number: 1 }).is_ok() {}
    far.request_stop().unwrap();
    held.gate.add_permits(1);
    assert_eq!(held.actor.wait_stopped().await, ActorExit::Stopped);
    end([alpha, beta]).await;
    assert!(far.request_stop().is_err());
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn asks_that_say_nothing_wait_as_long_as_their_node_says() {
    let patience: fn(NodeBuilder) -> NodeBuilder =
        |builder| builder.ask_timeout(Duration::from_millis(50));
    let node = patience(Node::builder("alpha")).start().await.unwrap();
    let held = held(&node, 8).await;
    let start = Instant::now();
    let never = AskCause::NotBegun(NotBegun::Timeout);
    assert_eq!(cause(held.actor.notes().await), Err(never.clone()));
    assert_eq!(start.elapsed().as_millis(), 50);
    assert_eq!(cause(held.actor.notes().timeout(2 * PATIENCE).await), Err(never));
    assert_eq!(start.elapsed().as_millis(), 10_050);
}

/// Answers only when it is dropped.
#[derive(Default)]
struct Slow {
    kept: Vec<ReplyTo<u64>>,
}

#[actor]
impl Actor for Slow {
    const ASK_TIMEOUT: Option<Duration> = Some(Duration::from_millis(70));
}

#[handlers]
impl Slow {
    #[handler]
    fn count(&mut self, reply: ReplyTo<u64>) {
        self.kept.push(reply);
    }

    #[handler]
    fn kept(&self) -> u64 {
        self.kept.len() as u64
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test(start_paused = true)]
async fn asks_wait_as_long_as_they_say_or_their_reference_or_its_type() {
    let (alpha, beta) = pair().await;
    let near = beta.spawn("slow", Slow::default()).await.unwrap();
    let far = alpha.actor::<Slow>("beta/slow").await.unwrap();
    for slow in [near, far] {
        let patient = slow.clone().with_ask_timeout(Duration::from_micros(89_001));
        let asker = slow.asker::<Count>().with_ask_timeout(Duration::from_millis(30));
        assert_eq!(patient, slow);
        for (ask, milliseconds) in [
            (slow.count().into_ask().boxed(), 70),
            (slow.clone().count().timeout(Duration::from_millis(60)).into_ask().boxed(), 60),
            (patient.clone().count().into_ask().boxed(), 90),
            (asker.clone().ask(Count).into_ask().boxed(), 30),
            // References made of one wait as that one does.
            (patient.asker::<Count>().ask(Count).into_ask().boxed(), 90),
            (slow.asker::<Count>().ask(Count).into_ask().boxed(), 70),
            (patient.downgrade().upgrade().unwrap().count().into_ask().boxed(), 90),
        ] {
            let start = Instant::now();
            let error = ask.await.unwrap_err();
            assert_eq!(
                (error.cause.clone(), start.elapsed().as_millis()),
                (AskCause::Timeout, milliseconds)
            );
            assert_eq!(
                (error.actor().clone(), error.message()),
                (slow.address().clone(), Count::NAME)
            );
            let text = error.to_string();
            assert!(text.contains("beta/slow") && text.contains("finding::Count"), "{text}");
        }
    }
    end([alpha, beta]).await;
}

#[tokio::test]
async fn a_call_of_a_handler_may_be_told_in_place_of_asked() {
    let node = node().await;
    let slow = node.spawn("slow", Slow::default()).await.unwrap();
    slow.count().tell().await.unwrap();
    slow.count().tell().confirmed().await.unwrap();
    assert_eq!(slow.kept().await, Ok(2));
    slow.stop().await.unwrap();
    slow.wait_stopped().await;
    assert_eq!(slow.count().tell().await.unwrap_err().cause, Cause::Stopped);
}

#[tokio::test]
async fn asks_that_own_their_reference_are_awaited_together() {
    let node = node().await;
    let asks: Vec<_> = {
        let actor = node.spawn("notebook", Notebook::new()).await.unwrap();
        actor.tell(Note { number: 3 }).await.unwrap();
        (0..8).map(|_| actor.ask(Notes).into_ask()).collect()
    };
    let all = tokio::spawn(future::join_all(asks)).await.unwrap();
    assert_eq!(all, vec![Ok(vec![3]); 8]);
}

/// A misspelt name waits like the name of a node that has not come up yet: the text says so.
#[tokio::test]
async fn a_node_that_was_never_linked_is_named_where_memory_or_an_actor_is_asked_of_it() {
    let (alpha, beta) = pair().await;
    let short = Duration::from_millis(50);
    let gamma = Node::builder("gamma").seeds(alpha.addresses()).ask_timeout(short);
    let gamma = gamma.listen("127.0.0.1:0").start().await.unwrap();
    gamma.ready(1).await.unwrap();
    let hint = "no node `bleta` has been linked yet: check the name, and the seeds";
    let bleta = gamma.peer("bleta");
    let unknown = bleta.region::<u64>(1).await.unwrap_err();
    assert!(unknown.to_string().contains(hint) && unknown.is_retryable(), "{unknown}");
    let unspawned = bleta.spawn::<Lodger>("lodger", ()).await.unwrap_err();
    assert!(unspawned.to_string().ends_with(hint) && unspawned.is_retryable(), "{unspawned}");
    let other = gamma.peer("alpha").spawn::<Lodger>("lodger", ()).await.unwrap_err();
    assert!(!other.to_string().contains("been linked"), "{other}");
    gamma.shutdown(PATIENCE).await;
    end([alpha, beta]).await;
}

/// Is offered by no node.
#[actor]
struct Lodger;

#[handlers]
impl Lodger {}

impl ringpost::spawn::Offered for Lodger {
    type Arguments = ();

    fn create((): ()) -> Result<Self, BoxError> {
        Ok(Lodger)
    }
}
