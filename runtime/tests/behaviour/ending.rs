//! Ends of actors and nodes, as another node learns of them.

use std::pin::pin;
use std::time::Duration;

use ringpost::NotBegun;
use ringpost::observe::{DeadLetterCause, NodeEvent};
use ringpost::prelude::*;

use super::bank::{Bank, Deposit};
use super::protocols::server::Teller;
use super::world::{World, end, until};
use crate::actors::{Fail, Hold, Note, Notebook, StopYourself, held};
use crate::cause;
use crate::remote::PATIENCE;

/// Checks the exit of a wait that may have begun late: then it cannot say how the actor ended.
fn gone(exit: ActorExit) {
    assert!(!matches!(exit, ActorExit::Failed(_) | ActorExit::NodeDown), "{exit}");
}

// Promised in docs/SEMANTICS.md.
pub async fn actors_of_another_node_are_stopped_drained_killed_and_waited_for(world: &World) {
    let [alpha, beta] = world.pair().await;
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

/// Also by references that know only a message or a protocol, here and on the actor's own node, and
/// after its end.
pub async fn an_end_is_waited_for_by_message_or_protocol(world: &World) {
    let [alpha, beta] = world.pair().await;
    for node in [&alpha, &beta] {
        let teller = beta.spawn("bank", Teller::default()).await.unwrap();
        let bank: Ref<Bank> = node.reference("beta/bank").await.unwrap();
        let deposits: Recipient<Deposit> = node.recipient("beta/bank").await.unwrap();
        let (mut first, mut second) = (pin!(bank.wait_stopped()), pin!(deposits.wait_stopped()));
        assert!(futures::poll!(&mut first).is_pending());
        assert!(futures::poll!(&mut second).is_pending());
        assert_eq!(bank.balance("ada".into()).await, Ok(None));
        teller.kill().await.unwrap();
        assert_eq!((first.await, second.await), (ActorExit::Killed, ActorExit::Killed));
        teller.wait_stopped().await;
        let (first, second) = (bank.wait_stopped().await, deposits.wait_stopped().await);
        assert_eq!(first, second);
        gone(first);
    }
    let none: Recipient<Deposit> = beta.named_recipient("bank").unwrap();
    assert_eq!(none.wait_stopped().await, ActorExit::NoActor);
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
pub async fn a_panic_on_another_node_is_an_error_for_the_asker(world: &World) {
    let [alpha, beta] = world.pair().await;
    beta.spawn("notebook", Notebook::new()).await.unwrap();
    let notebook = alpha.actor::<Notebook>("beta/notebook").await.unwrap();
    assert_eq!(cause(notebook.ask(Fail).await), Err(AskCause::Panicked));
    gone(notebook.wait_stopped().await);
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
pub async fn a_node_that_leaves_is_reported_and_its_actors_are_out_of_reach(world: &World) {
    let [alpha, beta] = world.pair().await;
    let mut events = alpha.events();
    let held = held(&beta, 8).await;
    let notebook = alpha.actor::<Notebook>("beta/held").await.unwrap();
    let pending = {
        let notebook = notebook.clone();
        tokio::spawn(async move { notebook.notes().timeout(PATIENCE * 4).await })
    };
    until(|| beta.links().iter().any(|(_, stats)| stats.messages_received > 0)).await;
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
    assert_eq!(refused.cause, Cause::Shutdown);
    assert!(!refused.is_retryable());
}

/// Ends the actors that it is given, again and again.
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
pub async fn ending_an_actor_of_another_node_that_has_ended_is_no_error(world: &World) {
    let [alpha, beta] = world.pair().await;
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
pub async fn a_shutdown_from_a_handler_closes_the_links_too(world: &World) {
    let [alpha, beta] = world.pair().await;
    let mut events = alpha.events();
    let warden = beta.spawn("warden", Warden).await.unwrap();
    warden.tell(Leave).await.unwrap();
    assert_eq!(warden.wait_stopped().await, ActorExit::Killed);
    loop {
        if let NodeEvent::NodeDown { cause, .. } = events.recv().await.unwrap() {
            assert_eq!(cause, ringpost::net::NodeDownCause::Left);
            break;
        }
    }
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
pub async fn a_name_that_is_given_again_is_found_again(world: &World) {
    let [alpha, beta] = world.pair().await;
    let by_name = alpha.named::<Notebook>("beta/notebook").unwrap();
    let early = by_name.tell(Note { number: 0 }).await.unwrap_err();
    assert_eq!(early.cause, Cause::NoSuchActor);
    let first = beta.spawn("notebook", Notebook::new()).await.unwrap();
    let found = alpha.actor::<Notebook>("beta/notebook").await.unwrap();
    by_name.tell(Note { number: 0 }).await.unwrap();
    assert_eq!(found.notes().await, Ok(vec![0]));
    first.kill().await.unwrap();
    gone(by_name.wait_stopped().await);
    let second = beta.spawn("notebook", Notebook::new()).await.unwrap();
    let again = alpha.actor::<Notebook>("beta/notebook").await.unwrap();
    again.tell(Note { number: 1 }).await.unwrap();
    by_name.tell(Note { number: 2 }).await.unwrap();
    assert_eq!(again.notes().await, Ok(vec![1, 2]));
    assert_eq!(second.notes().await, Ok(vec![1, 2]));
    let late = found.tell(Note { number: 3 }).await.unwrap_err();
    assert!(matches!(late.cause, Cause::NoSuchActor | Cause::Stopped), "{}", late.cause);
    end([alpha, beta]).await;
}

/// A look-up finds the actor that has the name now on the other node, and not the last known one;
/// and references to one actor are equal however they were found.
pub async fn a_lookup_finds_what_has_the_name_now(world: &World) {
    let [alpha, beta] = world.pair().await;
    for round in 0..10 {
        let there = beta.spawn("notebook", Notebook::new()).await.unwrap();
        let found = alpha.actor::<Notebook>("beta/notebook").await.unwrap();
        found.tell(Note { number: round }).await.unwrap();
        assert_eq!(found.notes().await, Ok(vec![round]), "the new one");
        assert_eq!(found, there);
        assert_ne!(found, alpha.named("beta/notebook").unwrap());
        let same: ActorRef<Notebook> = alpha.when_named("beta/notebook").await.unwrap();
        assert_eq!(same, found);
        let told = alpha.recipient::<Note, ringpost::send::Unasked>("beta/notebook").await.unwrap();
        assert_eq!(told.address(), found.address());
        assert_eq!(found.address().to_string(), "beta/notebook");
        there.stop().await.unwrap();
        gone(there.wait_stopped().await);
        let why = alpha.actor::<Notebook>("beta/notebook").await.unwrap_err();
        assert_eq!(why.cause(), Some(&Cause::NoSuchActor), "its end is known there");
    }
    end([alpha, beta]).await;
}
