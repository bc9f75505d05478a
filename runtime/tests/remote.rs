//! Two and three nodes over loopback: the same references, elsewhere.

use std::pin::pin;
use std::time::Duration;

use ringpost::prelude::*;
use ringpost::{DeadLetterCause, Fate, NodeEvent, Profile, Unasked};

use crate::actors::{Fail, Hold, Note, Notebook, StopYourself, held};
use crate::asking::{Anything, Audit, Deposit, Teller, Withdraw};
use crate::cause;
use crate::references::{Subscribe, Topic};

pub async fn listening(name: &str, seeds: &[&Node]) -> Node {
    let seeds = seeds.iter().flat_map(|node| node.addresses());
    let profile = Profile { down_after: Duration::from_secs(3), ..Profile::default() };
    let builder = Node::builder(name).listen("127.0.0.1:0").seeds(seeds).profile(profile);
    builder.start().await.unwrap()
}

pub async fn pair() -> (Node, Node) {
    let alpha = listening("alpha", &[]).await;
    let beta = listening("beta", &[&alpha]).await;
    alpha.ready(1).await;
    beta.ready(1).await;
    (alpha, beta)
}

/// How an actor of another node ended is told to those that waited then; later nobody knows.
fn gone(exit: ActorExit) {
    let told = [ActorExit::Stopped, ActorExit::Killed, ActorExit::NoActor];
    assert!(told.contains(&exit), "{exit}");
}

pub const PATIENCE: Duration = Duration::from_secs(5);

pub async fn end(nodes: [Node; 2]) {
    let [first, second] = &nodes;
    let (killed, late) = tokio::join!(first.shutdown(PATIENCE), second.shutdown(PATIENCE));
    assert_eq!((killed, late), (vec![], vec![]));
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn an_actor_of_another_node_is_told_and_asked_like_one_of_this() {
    let (alpha, beta) = pair().await;
    let there = beta.spawn("teller", Teller::default()).await.unwrap();
    let teller = alpha.actor::<Teller>("beta/teller").await.unwrap();
    assert!(!teller.is_local() && there.is_local());
    assert_eq!(teller.deposit(Deposit { account: "ada".into(), cents: 3 }).await, Ok(3));
    teller.tell(Deposit { account: "bob".into(), cents: 4 }).await.unwrap();
    assert_eq!(teller.last().await, Ok(Some("bob".into())));
    assert_eq!(teller.withdraw(8).await, Ok(Err("not that much".into())));
    assert_eq!(teller.ask(Audit { note: "four".into() }).await, Ok(4));
    let local = Err(AskCause::NotSent(Cause::LocalOnly));
    assert_eq!(cause(teller.channel().await.map(|_| ())), local);
    assert_eq!(cause(teller.ask(Anything { value: 1 }).await.map(|_| ())), local);
    let back = teller.tell(Anything { value: 7 }).await.unwrap_err();
    assert_eq!((back.message.value, back.cause), (7, Cause::LocalOnly));
    let asks = alpha.recipient::<Withdraw, Result<u64, String>>("beta/teller").await.unwrap();
    assert_eq!(asks.ask(Withdraw { cents: 7 }).await, Ok(Ok(0)));
    let wrong = alpha.recipient::<Withdraw, String>("beta/teller").await.unwrap();
    let wrong = wrong.ask(Withdraw { cents: 7 }).await;
    assert_eq!(cause(wrong), Err(AskCause::NotSent(Cause::SchemaMismatch)));
    // Without a link, too: nothing is waited for.
    beta.shutdown(PATIENCE).await;
    let refused = teller.tell(Anything { value: 7 }).await.unwrap_err();
    assert_eq!(refused.cause, Cause::LocalOnly);
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn an_answer_larger_than_the_asker_takes_is_an_error_that_says_so() {
    let beta = listening("beta", &[]).await;
    let profile = Profile { message_bytes_max: 1024, ..Profile::default() };
    let alpha = Node::builder("alpha").seeds(beta.addresses()).profile(profile).start();
    let alpha = alpha.await.unwrap();
    let there = beta.spawn("notebook", Notebook::new()).await.unwrap();
    let notebook = alpha.actor::<Notebook>("beta/notebook").await.unwrap();
    for number in 0..200 {
        there.tell(Note { number }).await.unwrap();
    }
    assert_eq!(cause(notebook.notes().await), Err(AskCause::ReplyTooLarge));
    assert_eq!(there.notes().await.unwrap().len(), 200);
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_confirmed_tell_waits_for_its_fate() {
    let (alpha, beta) = pair().await;
    let here = alpha.spawn("notebook", Notebook::new()).await.unwrap();
    let there = beta.spawn("notebook", Notebook::new()).await.unwrap();
    let notebook = alpha.actor::<Notebook>("beta/notebook").await.unwrap();
    assert_eq!(here.tell(Note { number: 1 }).confirmed().await, Ok(Fate::Delivered));
    assert_eq!(notebook.tell(Note { number: 1 }).confirmed().await, Ok(Fate::Delivered));
    // Many are committed in order before the first fate is known.
    let mut told = Vec::new();
    for number in 2..=300 {
        let mut tell = notebook.tell(Note { number }).confirmed();
        tell.committed().await.unwrap();
        told.push(tell);
    }
    for tell in told {
        assert_eq!(tell.await, Ok(Fate::Delivered));
    }
    assert_eq!(there.notes().await.unwrap(), (1..=300).collect::<Vec<_>>());
    there.stop().await.unwrap();
    there.wait_stopped().await;
    let given_back = notebook.tell(Note { number: 9 }).confirmed().await;
    // It was refused on arrival, or its end was known here first.
    assert!(
        matches!(&given_back, Ok(Fate::Refused))
            || matches!(&given_back, Err(error) if error.message == Note { number: 9 }),
        "{given_back:?}"
    );
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn lookups_on_another_node_say_what_is_wrong() {
    let (alpha, beta) = pair().await;
    beta.spawn("teller", Teller::default()).await.unwrap();
    let cause = |error: LookupError| error.cause().cloned();
    let nobody = alpha.actor::<Teller>("beta/nobody").await.map_err(cause);
    assert_eq!(nobody, Err(Some(Cause::NoSuchActor)));
    let wrong = alpha.actor::<Notebook>("beta/teller").await.map_err(cause);
    assert_eq!(wrong, Err(Some(Cause::WrongActorType)));
    let notes = alpha.recipient::<Note, Unasked>("beta/teller").await.unwrap();
    let refused = notes.tell(Note { number: 1 }).await.unwrap_err();
    assert_eq!((refused.message.number, refused.cause), (1, Cause::NotAccepted));
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn messages_of_all_sizes_keep_their_order_and_the_window_holds_the_sender_back() {
    let (alpha, beta) = pair().await;
    let held = held(&beta, 8).await;
    let notebook = alpha.actor::<Notebook>("beta/held").await.unwrap();
    let mut sent = 0;
    let refused = loop {
        match notebook.try_tell(Note { number: sent }) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.cause, Cause::MailboxFull);
    assert_eq!(refused.message.number, sent);
    assert!(sent >= 200, "{sent}");
    held.gate.add_permits(1);
    for number in sent..5000 {
        notebook.tell(Note { number }).await.unwrap();
    }
    assert_eq!(notebook.notes().await, Ok((0..5000).collect::<Vec<_>>()));
    let teller = beta.spawn("teller", Teller::default()).await.unwrap();
    drop(teller);
    let teller = alpha.actor::<Teller>("beta/teller").await.unwrap();
    for bytes in [0, 1, 9 * 1024, 20 * 1024 * 1024, 64 * 1024 * 1024, 3] {
        let note = "x".repeat(bytes);
        assert_eq!(teller.ask(Audit { note }).timeout(PATIENCE * 6).await, Ok(bytes));
    }
    let refused = teller.tell(Audit { note: "x".repeat(65 * 1024 * 1024) }).await.unwrap_err();
    assert!(matches!(refused.cause, Cause::TooLarge { limit: 67_108_864, .. }), "{refused}");
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn actors_of_another_node_are_stopped_drained_killed_and_waited_for() {
    let (alpha, beta) = pair().await;
    for (name, exit) in [("stop", ActorExit::Stopped), ("kill", ActorExit::Killed)] {
        let there = beta.spawn(name, Notebook::new()).await.unwrap();
        let here = alpha.actor::<Notebook>(&format!("beta/{name}")).await.unwrap();
        here.tell(Hold).await.unwrap();
        let mut ended = pin!(here.wait_stopped());
        assert!(futures::poll!(&mut ended).is_pending());
        if name == "kill" {
            here.kill().await.unwrap();
        } else {
            here.ask(StopYourself).timeout(Duration::ZERO).await.unwrap_err();
            here.stop().await.unwrap();
            there.kill().await.unwrap();
        }
        let (ended, there) = tokio::join!(ended, there.wait_stopped());
        assert_eq!(ended, there);
        assert!(there == exit || there == ActorExit::Killed);
        assert_eq!(here.wait_stopped().await, ActorExit::NoActor, "it is found no more");
        let refused = here.tell(Note { number: 1 }).await.unwrap_err();
        assert!(matches!(refused.cause, Cause::Stopped | Cause::NoSuchActor), "{refused}");
    }
    let there = beta.spawn("drain", Notebook::new()).await.unwrap();
    let here = alpha.actor::<Notebook>("beta/drain").await.unwrap();
    let mut letters = beta.dead_letters().subscribe();
    for number in 0..100 {
        here.tell(Note { number }).await.unwrap();
    }
    let mut ended = pin!(here.wait_stopped());
    assert!(futures::poll!(&mut ended).is_pending());
    here.drain().await.unwrap();
    assert_eq!(ended.await, ActorExit::Stopped);
    assert_eq!(there.wait_stopped().await, ActorExit::Stopped);
    while let Ok(letter) = letters.try_recv() {
        assert_ne!(letter.to, *there.address(), "a drain loses nothing: {letter}");
    }
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn without_a_link_try_tell_gives_the_message_back_and_says_so() {
    let (alpha, beta) = pair().await;
    let mut events = alpha.events();
    beta.spawn("notebook", Notebook::new()).await.unwrap();
    let notebook = alpha.actor::<Notebook>("beta/notebook").await.unwrap();
    notebook.try_tell(Note { number: 1 }).unwrap();
    beta.shutdown(PATIENCE).await;
    while !matches!(events.recv().await.unwrap(), NodeEvent::NodeDown { .. }) {}
    let back = notebook.try_tell(Note { number: 2 }).unwrap_err();
    assert_eq!((back.message.number, &back.cause), (2, &Cause::LinkDown));
    assert!(back.cause.is_retryable());
    alpha.shutdown(PATIENCE).await;
}

/// No sender waits for the opening that a try begins, so that the next try has to be told.
#[tokio::test]
async fn try_tell_says_that_an_actor_of_another_node_is_not_there() {
    let (alpha, beta) = pair().await;
    beta.spawn("notebook", Notebook::new()).await.unwrap();
    let notebook = alpha.actor::<Notebook>("beta/notebook").await.unwrap();
    notebook.stop().await.unwrap();
    gone(notebook.wait_stopped().await);
    let refused = async {
        loop {
            match notebook.try_tell(Note { number: 1 }).unwrap_err().cause {
                Cause::LinkDown | Cause::Stopped => tokio::task::yield_now().await,
                other => return other,
            }
        }
    };
    assert_eq!(tokio::time::timeout(PATIENCE, refused).await, Ok(Cause::NoSuchActor));
    beta.spawn("notebook", Notebook::new()).await.unwrap();
    let again = alpha.actor::<Notebook>("beta/notebook").await.unwrap();
    while again.try_tell(Note { number: 2 }).is_err() {
        tokio::task::yield_now().await;
    }
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_panic_on_another_node_is_an_error_for_the_asker() {
    let (alpha, beta) = pair().await;
    beta.spawn("notebook", Notebook::new()).await.unwrap();
    let notebook = alpha.actor::<Notebook>("beta/notebook").await.unwrap();
    assert_eq!(cause(notebook.ask(Fail).await), Err(AskCause::NoReply));
    gone(notebook.wait_stopped().await);
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn references_cross_nodes_and_lead_back() {
    let (alpha, beta) = pair().await;
    let gamma = listening("gamma", &[&beta]).await;
    gamma.ready(1).await;
    let notebook = alpha.spawn("notebook", Notebook::new()).await.unwrap();
    gamma.spawn("topic", Topic::default()).await.unwrap();
    let by_name = beta.actor::<Notebook>("alpha/notebook").await.unwrap();
    let topic = beta.actor::<Topic>("gamma/topic").await.unwrap();
    for who in [notebook.clone(), by_name.clone()] {
        // The topic is on a node that has never met the notebook's; it asks it on the way.
        let message = Subscribe { notes: who.recipient(), asks: who.asker(), who };
        assert_eq!(topic.subscribe(message).timeout(PATIENCE * 4).await.unwrap(), "alpha/notebook");
    }
    assert_eq!(topic.publish(2).await, Ok(2));
    assert_eq!(by_name.notes().await, Ok(vec![1, 1, 2, 2]));
    gamma.shutdown(PATIENCE).await;
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_node_that_leaves_is_reported_and_its_actors_are_out_of_reach() {
    let (alpha, beta) = pair().await;
    let mut events = alpha.events();
    let held = held(&beta, 8).await;
    let notebook = alpha.actor::<Notebook>("beta/held").await.unwrap();
    let pending = {
        let notebook = notebook.clone();
        tokio::spawn(async move { notebook.notes().timeout(PATIENCE * 4).await })
    };
    while beta.links().iter().all(|(_, stats)| stats.messages_received < 1) {
        tokio::task::yield_now().await;
    }
    assert_eq!(beta.shutdown(Duration::from_millis(10)).await, [held.actor.address().clone()]);
    let lost = pending.await.unwrap().unwrap_err();
    assert!(
        matches!(lost.cause, AskCause::NotBegun(NotBegun::Stopped) | AskCause::LinkDown(_)),
        "{lost}"
    );
    let ended = notebook.wait_stopped().await;
    assert!(matches!(ended, ActorExit::NoActor | ActorExit::NodeDown), "{ended}");
    let refused = notebook.tell(Note { number: 1 }).await.unwrap_err();
    assert!(
        matches!(refused.cause, Cause::NodeUnreachable(_) | Cause::Stopped | Cause::NoSuchActor),
        "{refused}"
    );
    let mut seen = Vec::new();
    while !matches!(seen.last(), Some(NodeEvent::NodeDown { .. })) {
        seen.push(events.recv().await.unwrap());
    }
    assert!(seen.iter().any(|event| matches!(event, NodeEvent::LinkDown { .. })), "{seen:?}");
    assert_eq!(alpha.dead_letters().count(DeadLetterCause::Unknown), 0);
    alpha.shutdown(PATIENCE).await;
    let refused = notebook.tell(Note { number: 2 }).await.unwrap_err();
    assert_eq!(refused.cause, Cause::Leaving);
    assert!(!refused.cause.is_retryable());
}

/// Ends what it is given, again and again.
#[actor]
struct Warden;

#[message]
pub struct Charge {
    pub who: ActorRef<Notebook>,
}

#[handlers]
impl Warden {
    #[handler]
    async fn charge(&mut self, msg: Charge) {
        assert!(!msg.who.is_local());
        msg.who.stop().await.unwrap();
        gone(msg.who.wait_stopped().await);
        msg.who.stop().await.unwrap();
        msg.who.drain().await.unwrap();
        msg.who.kill().await.unwrap();
    }

    #[handler]
    async fn leave(&mut self, cx: &mut Context<Self>) {
        cx.node().shutdown(Duration::from_millis(50)).await;
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn ending_an_actor_of_another_node_that_has_ended_is_no_error() {
    let (alpha, beta) = pair().await;
    let who = beta.spawn("notebook", Notebook::new()).await.unwrap();
    let warden = alpha.spawn("warden", Warden).await.unwrap();
    // By way of the other node, so that the reference that the warden gets leads there.
    let there = beta.actor::<Warden>("alpha/warden").await.unwrap();
    assert_eq!(there.charge(Charge { who: who.clone() }).await, Ok(()));
    assert_eq!(there.charge(Charge { who }).await, Ok(()), "also when it was gone from the start");
    drop(warden);
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_shutdown_from_a_handler_closes_the_links_too() {
    let (alpha, beta) = pair().await;
    let mut events = alpha.events();
    let warden = beta.spawn("warden", Warden).await.unwrap();
    warden.tell(Leave).await.unwrap();
    assert_eq!(warden.wait_stopped().await, ActorExit::Killed);
    loop {
        if let NodeEvent::NodeDown { cause, .. } = events.recv().await.unwrap() {
            assert_eq!(cause, ringpost::NodeDownCause::Left);
            break;
        }
    }
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_name_that_is_given_again_is_found_again() {
    let (alpha, beta) = pair().await;
    let first = beta.spawn("notebook", Notebook::new()).await.unwrap();
    let by_name = alpha.actor::<Notebook>("beta/notebook").await.unwrap();
    first.kill().await.unwrap();
    gone(by_name.wait_stopped().await);
    let second = beta.spawn("notebook", Notebook::new()).await.unwrap();
    let again = alpha.actor::<Notebook>("beta/notebook").await.unwrap();
    again.tell(Note { number: 1 }).await.unwrap();
    by_name.tell(Note { number: 2 }).await.unwrap();
    assert_eq!(again.notes().await, Ok(vec![1, 2]));
    assert_eq!(second.notes().await, Ok(vec![1, 2]));
    end([alpha, beta]).await;
}

/// Messages as another build might have them, under the names of this one's.
mod other {
    use ringpost::prelude::*;

    pub type Letter = u32;

    #[message(name = "spell")]
    pub struct Spell {
        #[message(opaque)]
        pub letter: Letter,
    }

    #[message(name = "count")]
    pub struct Count {
        pub letters: u32,
    }
}

type Letter = char;

#[message(name = "spell")]
pub struct Spell {
    #[message(opaque)]
    pub letter: Letter,
}

#[message(name = "count")]
pub struct Count {
    pub letters: u64,
}

#[actor]
#[derive(Default)]
struct Speller {
    word: String,
}

#[handlers]
impl Speller {
    #[handler]
    fn spell(&mut self, msg: Spell) {
        self.word.push(msg.letter);
    }

    #[handler]
    fn count(&mut self, msg: Count) -> bool {
        self.word.len() as u64 == msg.letters
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn builds_that_disagree_on_one_message_agree_on_the_others() {
    let (alpha, beta) = pair().await;
    let there = beta.spawn("speller", Speller::default()).await.unwrap();
    let mut letters = beta.dead_letters().subscribe();
    let counts = alpha.recipient::<other::Count, bool>("beta/speller").await.unwrap();
    let refused = counts.ask(other::Count { letters: 1 }).await;
    assert_eq!(cause(refused), Err(AskCause::NotSent(Cause::SchemaMismatch)));
    let refused = counts.tell(other::Count { letters: 1 }).await.unwrap_err();
    assert_eq!((refused.message.letters, refused.cause), (1, Cause::SchemaMismatch));
    // Trusted layouts that are wrong are found by the check of the bytes.
    let spells = alpha.recipient::<other::Spell, ()>("beta/speller").await.unwrap();
    assert_eq!(spells.ask(other::Spell { letter: 'a' as u32 }).await, Ok(()));
    let invalid = spells.ask(other::Spell { letter: u32::MAX }).await;
    assert_eq!(cause(invalid), Err(AskCause::NotBegun(NotBegun::InvalidArchive)));
    spells.tell(other::Spell { letter: u32::MAX }).await.unwrap();
    let letter = letters.recv().await.unwrap();
    assert_eq!(letter.cause, DeadLetterCause::InvalidArchive);
    assert_eq!((&letter.to, letter.name), (there.address(), Some("spell")));
    assert_eq!(there.count(Count { letters: 1 }).await, Ok(true));
    end([alpha, beta]).await;
}
