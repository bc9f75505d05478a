//! The actor of a rank, one for each world: it takes in packets of other ranks, and watches them.

use std::collections::BTreeSet;
use std::sync::Arc;

use ringpost::prelude::*;
use ringpost::{LinkCause, NodeId};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use crate::core::Core;
use crate::packet::{Confirm, Control, Note, Packet};

/// Why a rank is dead whose node still runs.
const LOST: &str = "the link to its node was lost, and messages may be lost with it";

/// The actor of a rank.
pub(crate) struct Member {
    core: Arc<Core>,
    /// Greetings that came before this rank has begun.
    early: Vec<Greeting>,
    /// The events of the node that no handler has seen.
    events: Receiver<NodeEvent>,
    watched: BTreeSet<usize>,
    /// Watched ranks whose link was lost: they are dead when the mailbox has no message of that
    /// link any more.
    lost: BTreeSet<usize>,
}

/// A greeting that has no answer yet.
struct Greeting {
    rank: u32,
    proof: u64,
    reply: ReplyTo<Option<u64>>,
}

impl Member {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        let events = core.node.events();
        let (watched, lost) = (BTreeSet::new(), BTreeSet::new());
        Member { core, early: Vec::new(), events, watched, lost }
    }

    /// Answers a rank, which sends nothing before; so this one watches it from its first packet on.
    fn answer(&self, greeting: Greeting, cx: &mut Context<Self>) {
        let (core, me) = (self.core.clone(), cx.actor().clone());
        cx.spawn_task(async move {
            let Greeting { rank, proof, reply } = greeting;
            let key = core.key_of(rank, proof).await;
            if key.is_some() {
                drop(me.watch(rank as usize).await);
            }
            reply.send(key);
        });
    }

    /// Learns which links were lost. The messages in the mailbox came before. When a node is
    /// linked again, its next message may have a gap before it: its rank is dead at once.
    fn learn(&mut self) {
        loop {
            match self.events.try_recv() {
                Ok(NodeEvent::LinkDown { node, cause }) if loses(&cause) => {
                    self.lost.extend(self.watched_at(&node));
                }
                Ok(NodeEvent::LinkUp { node, .. }) => {
                    let again = self.watched_at(&node).filter(|rank| self.lost.remove(rank));
                    if let Some(rank) = again {
                        self.core.died(rank, LOST);
                    }
                }
                Ok(_) => {}
                // Any link may be among the events that were missed.
                Err(TryRecvError::Lagged(_)) => {
                    self.watched.iter().for_each(|rank| self.core.died(*rank, LOST));
                }
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    /// Returns the watched rank of a node.
    fn watched_at(&self, node: &NodeId) -> Option<usize> {
        let mesh = self.core.begun()?;
        let is_there = |rank: &usize| {
            let route = mesh.routes.get(*rank);
            route.is_some_and(|route| route.packets.address().node() == node.name.as_str())
        };
        self.watched.iter().copied().find(is_there)
    }
}

/// Returns true if messages may be lost with a link that ends so. When a node leaves, nothing is;
/// then its actors end, which are watched.
fn loses(cause: &LinkCause) -> bool {
    use LinkCause::{Better, Idle, Left, Shutdown};
    !matches!(cause, Idle | Better | Left | Shutdown)
}

/// However it ends, nothing of this rank waits any longer.
impl Drop for Member {
    fn drop(&mut self) {
        self.core.close();
    }
}

#[actor(name = "ringpost.ranks.Member")]
impl Actor for Member {
    /// Has links that are lost handled, each after the messages that came over it.
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        let (mut events, me) = (self.core.node.events(), cx.actor().clone());
        cx.spawn_task(async move {
            loop {
                match events.recv().await {
                    Ok(NodeEvent::LinkDown { .. }) | Err(RecvError::Lagged(_)) => {
                        drop(me.links().await);
                    }
                    Ok(_) => {}
                    Err(RecvError::Closed) => return,
                }
            }
        });
        Ok(())
    }

    /// Says goodbye: what needs more of this rank fails on the others.
    async fn on_stop(&mut self, _cx: &mut Context<Self>) {
        let floor = self.core.close();
        self.core.tell_all(&Note::Left { floor }).await;
    }
}

#[handlers]
impl Member {
    #[handler]
    fn packet(&mut self, msg: View<Packet>) {
        self.learn();
        self.core.packet(msg);
    }

    #[handler]
    fn control(&mut self, msg: Control) {
        self.learn();
        self.core.control(msg);
    }

    /// Ends the ranks whose links were lost before this message.
    #[handler(local)]
    fn links(&mut self) {
        self.learn();
        for rank in std::mem::take(&mut self.lost) {
            self.core.died(rank, LOST);
        }
    }

    /// Watches a rank and the link to its node, once it has one. Before, the end of an earlier run
    /// of that node would count as the end of the rank.
    #[handler(local)]
    pub(crate) fn watch(&mut self, rank: usize, cx: &mut Context<Self>) {
        self.learn();
        let mesh = self.core.begun().filter(|mesh| mesh.rank != rank);
        if let Some(route) = mesh.and_then(|mesh| mesh.routes.get(rank)) {
            self.watched.insert(rank);
            cx.watch(&route.packets);
        }
    }

    /// Begins, now that the other ranks are known.
    #[handler(local)]
    pub(crate) fn begin(&mut self, cx: &mut Context<Self>) {
        for greeting in std::mem::take(&mut self.early) {
            self.answer(greeting, cx);
        }
    }

    /// Answers when this rank has begun, with the key that packets of the rank of this number
    /// need here. `proof` is the asker's key for this rank, by which it confirms that it asks.
    #[handler(name = Hello)]
    pub(crate) fn hello(
        &mut self,
        rank: u32,
        proof: u64,
        reply: ReplyTo<Option<u64>>,
        cx: &mut Context<Self>,
    ) {
        let greeting = Greeting { rank, proof, reply };
        match self.core.begun() {
            Some(_) => self.answer(greeting, cx),
            None => self.early.push(greeting),
        }
    }

    /// Says whether this rank has greeted another one with this proof.
    #[handler]
    fn confirm(&self, msg: Confirm) -> bool {
        self.core.keys.get(msg.rank as usize) == Some(&msg.proof)
    }

    #[handler]
    fn down(&mut self, msg: Down) {
        let Some(mesh) = self.core.begun() else { return };
        let mut places = mesh.routes.iter().map(|route| route.packets.address());
        let rank = places.position(|place| *place == msg.actor);
        if let Some(rank) = rank {
            self.core.died(rank, &msg.exit.to_string());
        }
    }
}

#[cfg(test)]
mod tests;
