//! Groups whose members are on several nodes, and pools that are used from another node.

use std::sync::Arc;
use std::time::Duration;

use ringpost::NotBegun;
use ringpost::group::{Group, Told};
use ringpost::pool::Pool;
use ringpost::prelude::*;
use ringpost::spawn::SpawnError;
use tokio::sync::Semaphore;

use super::world::{World, end, until};
use crate::actors::{Note, Notebook};
use crate::cause;
use crate::remote::PATIENCE;

type Notes = ActorRef<Group<Note>>;

// Promised in docs/SEMANTICS.md.
pub async fn members_of_two_nodes_join_are_told_in_order_and_leave(world: &World) {
    let [alpha, beta] = world.pair().await;
    let group: Notes = alpha.spawn("group", Group::new()).await.unwrap();
    let there: Notes = beta.actor("alpha/group").await.unwrap();
    let near = alpha.spawn("near", Notebook::new()).await.unwrap();
    let mut far = Vec::new();
    for name in ["ada", "bob", "eve"] {
        let notebook = beta.spawn(name, Notebook::new()).await.unwrap();
        there.join(notebook.recipient()).await.unwrap().unwrap();
        far.push(notebook);
    }
    group.join(near.recipient()).await.unwrap().unwrap();
    let members = there.members().await.unwrap();
    let paths: Vec<_> = members.iter().map(|member| member.address().to_string()).collect();
    assert_eq!(paths, ["beta/ada", "beta/bob", "beta/eve", "alpha/near"]);
    for number in 0..200 {
        there.tell(Note { number }).await.unwrap();
    }
    let told = there.ask(Note { number: 200 }).await.unwrap();
    assert_eq!(told, Told { told: 4, missed: vec![] });
    for member in far.iter().chain([&near]) {
        until_last(member, 200).await;
        assert_eq!(member.notes().await, Ok((0..=200).collect()));
    }
    assert_eq!(there.leave(far[0].recipient()).await, Ok(true));
    far[1].stop().await.unwrap();
    group.when_size(2).await.unwrap();
    // Those of a node that is down are members no longer.
    beta.shutdown(PATIENCE).await;
    until(|| alpha.linked().is_empty()).await;
    group.when_size(1).await.unwrap();
    assert_eq!(group.ask(Note { number: 201 }).await, Ok(Told { told: 1, missed: vec![] }));
    end([alpha, beta]).await;
}

async fn until_last(member: &ActorRef<Notebook>, number: u64) {
    while member.notes().await.unwrap().last() != Some(&number) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[actor]
#[derive(Default)]
struct Adder;

#[handlers]
impl Adder {
    #[handler]
    fn add(&mut self, left: u64, right: u64) -> u64 {
        left.checked_add(right).expect("a sum that is too large")
    }
}

// Promised in docs/SEMANTICS.md.
pub async fn a_pool_is_used_from_another_node_by_its_router(world: &World) {
    let [alpha, beta] = world.pair().await;
    let pool = Pool::builder(Adder::default).size(3).spawn(&beta, "adders").await.unwrap();
    beta.spawn("add", pool.router::<Add>()).await.unwrap();
    let add: Recipient<Add, u64> = alpha.recipient("beta/add").await.unwrap();
    let asks = (0..100).map(|left| add.ask(Add { left, right: 1 }).into_ask());
    let sums = futures::future::join_all(asks).await;
    assert_eq!(sums, (1..=100).map(Ok).collect::<Vec<_>>());
    pool.supervisor().stop().await.unwrap();
    pool.supervisor().wait_stopped().await;
    // It may be asked once more before it learns of the end.
    let ended = cause(add.ask(Add { left: 1, right: 1 }).await);
    assert!(matches!(ended, Err(AskCause::NotBegun(_) | AskCause::NotSent(_))), "{ended:?}");
    end([alpha, beta]).await;
}

// Promised in docs/SEMANTICS.md.
pub async fn an_asker_learns_by_way_of_a_router_why_it_has_no_answer(world: &World) {
    let [alpha, beta] = world.pair().await;
    let pool = Pool::builder(Adder::default).mailbox_capacity(1).spawn(&beta, "adders").await;
    let pool = pool.unwrap();
    beta.spawn("add", pool.router::<Add>()).await.unwrap();
    let far: Recipient<Add, u64> = alpha.recipient("beta/add").await.unwrap();
    let near: Recipient<Add, u64> = beta.recipient("beta/add").await.unwrap();
    let too_large = || Add { left: u64::MAX, right: 1 };
    for add in [&far, &near] {
        assert_eq!(cause(add.ask(too_large()).await), Err(AskCause::Panicked));
        assert_eq!(add.ask(Add { left: 1, right: 2 }).await, Ok(3));
    }
    // The message was sent, and no worker ever begins it: it may be asked again.
    pool.supervisor().stop().await.unwrap();
    pool.supervisor().wait_stopped().await;
    let never = far.ask(Add { left: 1, right: 2 }).await.unwrap_err();
    assert!(matches!(never.cause, AskCause::NotBegun(_) | AskCause::NotSent(_)), "{never}");
    assert!(never.is_retryable(), "{never}");
    end([alpha, beta]).await;
}

/// Answers when it has a permit.
#[actor]
struct Held {
    gate: Arc<Semaphore>,
}

#[handlers]
impl Held {
    #[handler]
    async fn give_back(&mut self, number: u64) -> u64 {
        self.gate.acquire().await.unwrap().forget();
        number
    }
}

// Promised in docs/SEMANTICS.md.
pub async fn a_pool_that_is_drained_answers_what_it_accepted_and_takes_nothing_more(world: &World) {
    let [alpha, beta] = world.pair().await;
    let gate = Arc::new(Semaphore::new(0));
    let shared = gate.clone();
    let pool = Pool::builder(move || Held { gate: shared.clone() }).size(2);
    let pool = pool.spawn(&beta, "pool").await.unwrap();
    let router = beta.spawn("router", pool.router::<GiveBack>()).await.unwrap();
    let far: Recipient<GiveBack, u64> = alpha.recipient("beta/router").await.unwrap();
    let asks = (0..5).map(|number| far.ask(GiveBack { number }).timeout(PATIENCE).into_ask());
    let asked = tokio::spawn(futures::future::join_all(asks));
    let workers = pool.workers();
    let accepted = || {
        let mut actors = beta.snapshot().actors;
        actors.retain(|actor| workers.iter().any(|worker| *worker.address() == actor.address));
        let of = |actor: &ringpost::observe::ActorView| {
            actor.mailbox.local + usize::from(actor.in_hand.is_some())
        };
        actors.iter().map(of).sum::<usize>()
    };
    until(|| accepted() == 5).await;
    assert_eq!(pool.drain().await, Ok(()));
    let late = || GiveBack { number: 7 };
    assert_eq!(pool.try_tell(late()).unwrap_err().cause, Cause::Stopped);
    assert_eq!(pool.tell(late()).await.unwrap_err().cause, Cause::Stopped);
    assert_eq!(cause(pool.ask(late()).await), Err(AskCause::NotSent(Cause::Stopped)));
    assert!(matches!(pool.resize(3).await, Err(SpawnError::NoSupervisor(_))));
    // The router is there until the pool has ended.
    let never = far.ask(late()).await.unwrap_err();
    assert_eq!(never.cause, AskCause::NotBegun(NotBegun::Stopped));
    assert_eq!(pool.drain().await, Ok(()), "once more is no error");
    gate.add_permits(5);
    assert_eq!(asked.await.unwrap(), (0..5).map(Ok).collect::<Vec<_>>());
    for worker in &workers {
        assert_eq!(worker.wait_stopped().await, ActorExit::Stopped);
    }
    assert_eq!(pool.supervisor().wait_stopped().await, ActorExit::Stopped);
    assert_eq!(router.wait_stopped().await, ActorExit::Stopped);
    let again = Pool::builder(Adder::default).spawn(&beta, "pool").await;
    assert!(again.is_ok(), "its name is free: {again:?}");
    end([alpha, beta]).await;
}
