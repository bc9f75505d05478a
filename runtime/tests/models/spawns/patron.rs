//! An actor that spawns others on other nodes, and watches them.

use std::time::Duration;

use ringpost::prelude::*;
use ringpost::spawn::RemoteSpawn;

use super::book::{self, How, NODES, Outcome, Told};
use super::guest::{Arguments, Guest};

/// How a spawn is sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    pub(super) timeout: Duration,
    pub(super) waits_for_link: bool,
    /// The future is dropped after this time.
    pub(super) patience: Duration,
}

/// A spawn that is to be sent.
pub(super) struct Wish {
    pub(super) number: u64,
    pub(super) on: usize,
    pub(super) name: Option<String>,
    pub(super) how: How,
    pub(super) way: Way,
}

impl Wish {
    fn spawn(&self, node: &Node) -> RemoteSpawn<'static, Guest> {
        let (peer, Wish { number, how, way, .. }) = (node.peer(NODES[self.on]), self);
        let arguments = Arguments { number: *number, how: *how };
        let spawn = match &self.name {
            Some(name) => peer.spawn(name.clone(), arguments),
            None => peer.spawn_anonymous(arguments),
        };
        let spawn = spawn.timeout(way.timeout);
        if way.waits_for_link { spawn.wait_for_link() } else { spawn }
    }

    /// Spawns, and notes the outcome.
    pub(super) async fn grant(&self, node: &Node) {
        self.conclude(self.spawn(node)).await;
    }

    async fn conclude(&self, spawn: RemoteSpawn<'_, Guest>) {
        let outcome = match tokio::time::timeout(self.way.patience, spawn).await {
            Ok(Ok(actor)) => {
                assert_eq!(actor.address().node(), NODES[self.on]);
                assert_eq!(actor.address().name(), self.name.as_deref());
                Outcome::Spawned(actor.address().clone())
            }
            Ok(Err(error)) => Outcome::Failed(error.cause),
            Err(_) => Outcome::Dropped,
        };
        book::note(self.number, |spawn, at| (spawn.outcome, spawn.end) = (outcome, at));
    }
}

#[actor(name = "models::Patron")]
pub(super) struct Patron {
    pub(super) number: u64,
}

/// An order to a patron: to spawn an actor and watch it.
#[message(local)]
pub(super) struct Hire(pub(super) Wish);

#[handlers]
impl Patron {
    #[handler]
    async fn hire(&mut self, msg: Hire, cx: &mut Context<Self>) {
        let Hire(wish) = msg;
        let spawn = wish.spawn(cx.node()).watched_by(cx);
        wish.conclude(spawn).await;
    }

    #[handler]
    fn down(&mut self, msg: Down) {
        let Down { actor, exit, .. } = msg;
        book::with(|pages| pages.told.push(Told { patron: self.number, actor, exit }));
    }
}

impl Drop for Patron {
    fn drop(&mut self) {
        book::with(|pages| pages.gone.push(self.number));
    }
}
