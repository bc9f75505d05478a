//! Messages to actors of another node.

use std::pin::pin;
use std::time::Duration;

use ringpost::LookupError;
use ringpost::net::Profile;
use ringpost::observe::NodeEvent;
use ringpost::prelude::*;
use ringpost::send::{Fate, Unasked};

use super::world::{World, end, until};
use crate::actors::{Note, Notebook, held};
use crate::asking::{Anything, Audit, Deposit, Teller, Withdraw};
use crate::cause;
use crate::references::{Subscribe, Topic};
use crate::remote::PATIENCE;

// Promised in docs/SEMANTICS.md.
pub async fn an_actor_of_another_node_is_told_and_asked_like_one_of_this(world: &World) {
    let [alpha, beta] = world.pair().await;
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
    assert_eq!(cause(teller.ask(Anything(1)).await.map(|_| ())), local);
    let back = teller.tell(Anything(7)).await.unwrap_err();
    assert_eq!((back.message.0, back.cause), (7, Cause::LocalOnly));
    let asks = alpha.recipient::<Withdraw, Result<u64, String>>("beta/teller").await.unwrap();
    assert_eq!(asks.ask(Withdraw { cents: 7 }).await, Ok(Ok(0)));
    let wrong = alpha.recipient::<Withdraw, String>("beta/teller").await.unwrap();
    let wrong = wrong.ask(Withdraw { cents: 7 }).await;
    assert_eq!(cause(wrong), Err(AskCause::NotSent(Cause::SchemaMismatch)));
    // Without a link, too: nothing is waited for.
    beta.shutdown(PATIENCE).await;
    assert_eq!(teller.tell(Anything(7)).await.unwrap_err().cause, Cause::LocalOnly);
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
pub async fn an_answer_larger_than_the_asker_takes_is_an_error_that_says_so(world: &World) {
    let beta = world.node("beta", &[]).await;
    let profile = Profile { message_bytes_max: 1024, ..Profile::default() };
    let alpha = world.builder("alpha", &[&beta]).profile(profile).start().await.unwrap();
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
pub async fn a_confirmed_tell_waits_for_its_fate(world: &World) {
    let [alpha, beta] = world.pair().await;
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

/// An actor whose type has a name of 141 bytes.
#[actor(name = "xüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü")]
struct LongNamed;

#[handlers]
impl LongNamed {}

// Promised in docs/SEMANTICS.md.
pub async fn lookups_on_another_node_say_what_is_wrong(world: &World) {
    let [alpha, beta] = world.pair().await;
    beta.spawn("teller", Teller::default()).await.unwrap();
    let cause = |error: LookupError| error.cause().cloned();
    let nobody = alpha.actor::<Teller>("beta/nobody").await.map_err(cause);
    assert_eq!(nobody, Err(Some(Cause::NoSuchActor)));
    let wrong = alpha.actor::<Notebook>("beta/teller").await.map_err(cause);
    let of = |asked, found: &str| Cause::WrongActorType { asked, found: found.into() };
    assert_eq!(wrong, Err(Some(of(Notebook::NAME, Teller::NAME))));
    // A name of any length is told as far as a link carries it.
    beta.spawn("long", LongNamed).await.unwrap();
    let wrong = alpha.actor::<Teller>("beta/long").await.map_err(cause);
    assert_eq!(wrong, Err(Some(of(Teller::NAME, &LongNamed::NAME[..127]))));
    let notes = alpha.recipient::<Note, Unasked>("beta/teller").await.unwrap();
    let refused = notes.tell(Note { number: 1 }).await.unwrap_err();
    assert_eq!((refused.message.number, refused.cause), (1, Cause::NotAccepted));
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
pub async fn messages_of_all_sizes_keep_their_order_and_the_window_holds_the_sender_back(
    world: &World,
) {
    let [alpha, beta] = world.pair().await;
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
        assert_eq!(teller.ask(Audit { note }).timeout(PATIENCE * 20).await, Ok(bytes as u64));
    }
    let refused = teller.tell(Audit { note: "x".repeat(65 * 1024 * 1024) }).await.unwrap_err();
    assert!(matches!(refused.cause, Cause::TooLarge { limit: 67_108_864, .. }), "{refused}");
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
pub async fn without_a_link_try_tell_gives_the_message_back_and_says_so(world: &World) {
    let [alpha, beta] = world.pair().await;
    let mut events = alpha.events();
    beta.spawn("notebook", Notebook::new()).await.unwrap();
    let notebook = alpha.actor::<Notebook>("beta/notebook").await.unwrap();
    notebook.try_tell(Note { number: 1 }).unwrap();
    beta.shutdown(PATIENCE).await;
    while !matches!(events.recv().await.unwrap(), NodeEvent::NodeDown { .. }) {}
    let back = notebook.try_tell(Note { number: 2 }).unwrap_err();
    assert!(matches!(back.cause, Cause::NodeUnreachable(_)), "{back}");
    assert_eq!(back.message.number, 2);
    assert!(back.cause.is_retryable());
    alpha.shutdown(PATIENCE).await;
}

/// No sender waits for the opening that a try begins, so that the next try has to be told.
pub async fn try_tell_says_that_an_actor_of_another_node_is_not_there(world: &World) {
    let [alpha, beta] = world.pair().await;
    beta.spawn("notebook", Notebook::new()).await.unwrap();
    let notebook = alpha.actor::<Notebook>("beta/notebook").await.unwrap();
    notebook.stop().await.unwrap();
    notebook.wait_stopped().await;
    let mut refused = Cause::Opening;
    until(|| {
        refused = notebook.try_tell(Note { number: 1 }).unwrap_err().cause;
        !matches!(refused, Cause::Opening | Cause::Stopped)
    })
    .await;
    assert_eq!(refused, Cause::NoSuchActor);
    beta.spawn("notebook", Notebook::new()).await.unwrap();
    let again = alpha.actor::<Notebook>("beta/notebook").await.unwrap();
    until(|| again.try_tell(Note { number: 2 }).is_ok()).await;
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
pub async fn references_cross_nodes_and_lead_back(world: &World) {
    let [alpha, beta] = world.pair().await;
    let gamma = world.node("gamma", &[&beta]).await;
    gamma.ready(1).await.unwrap();
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
    // The topic's messages come by another link than the ask.
    while notebook.notes().await.unwrap().len() < 4 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(by_name.notes().await, Ok(vec![1, 1, 2, 2]));
    gamma.shutdown(PATIENCE).await;
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
pub async fn room_that_is_reserved_on_another_node_is_kept_for_its_message(world: &World) {
    let [alpha, beta] = world.pair().await;
    let held = held(&beta, 8).await;
    let notebook = alpha.actor::<Notebook>("beta/held").await.unwrap();
    let (kept, dropped) =
        (notebook.reserve::<Note>().await.unwrap(), notebook.reserve::<Note>().await.unwrap());
    let mut sent = 0;
    while notebook.try_tell(Note { number: sent }).is_ok() {
        sent += 1;
    }
    let mut waiting = pin!(notebook.reserve::<Note>());
    assert!(futures::poll!(&mut waiting).is_pending());
    drop(dropped);
    waiting.await.unwrap().tell(Note { number: sent }).unwrap();
    kept.tell(Note { number: sent + 1 }).unwrap();
    let full = notebook.try_tell(Note { number: 0 }).unwrap_err();
    assert_eq!(full.cause, Cause::MailboxFull);
    held.gate.add_permits(1);
    assert_eq!(notebook.notes().await, Ok((0..sent + 2).collect::<Vec<_>>()));
    let teller = beta.spawn("teller", Teller::default()).await.unwrap();
    let there = alpha.actor::<Teller>("beta/teller").await.unwrap();
    // Larger than the room: there is more of it.
    let note = "x".repeat(20_000);
    there.reserve::<Audit>().await.unwrap().tell(Audit { note }).unwrap();
    let unknown = there.recipient::<Deposit>();
    let account = "ada".to_owned();
    unknown.reserve().await.unwrap().tell(Deposit { account, cents: 3 }).unwrap();
    assert_eq!(there.last().await, Ok(Some("ada".into())));
    let (late, lost) =
        (there.reserve::<Deposit>().await.unwrap(), notebook.reserve::<Note>().await.unwrap());
    teller.stop().await.unwrap();
    assert_eq!(there.wait_stopped().await, ActorExit::Stopped);
    let back = late.tell(Deposit { account: "bob".into(), cents: 4 }).unwrap_err();
    assert_eq!((back.message.cents, back.cause), (4, Cause::Stopped));
    let mut events = alpha.events();
    beta.shutdown(PATIENCE).await;
    while !matches!(events.recv().await.unwrap(), NodeEvent::NodeDown { .. }) {}
    let back = lost.tell(Note { number: 7 }).unwrap_err();
    assert!(matches!(back.cause, Cause::LinkDown | Cause::Leaving), "{back}");
    assert_eq!(back.message.number, 7);
    alpha.shutdown(PATIENCE).await;
}
