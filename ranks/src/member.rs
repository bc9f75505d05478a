//! The actor of a rank, one for each world: it takes in packets of other ranks, and watches them.

use std::sync::Arc;

use ringpost::observe::NodeEvent;
use ringpost::prelude::*;
use tokio::sync::broadcast::error::RecvError;

use crate::core::Core;
use crate::packet::{Confirm, Control, Note, Packet};

/// The actor of a rank.
pub(crate) struct Member {
    core: Arc<Core>,
    /// Greetings that came before this rank has begun.
    early: Vec<Greeting>,
}

/// A greeting that has no answer yet.
struct Greeting {
    rank: u32,
    proof: u64,
    reply: ReplyTo<Option<u64>>,
}

impl Member {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Member { core, early: Vec::new() }
    }

    /// Answers a rank, which sends nothing before; so this one watches it from its first packet on.
    fn answer(&self, greeting: Greeting, cx: &mut Context<Self>) {
        let (core, me) = (self.core.clone(), cx.actor().clone());
        cx.spawn_task(async move {
            let Greeting { rank, proof, reply } = greeting;
            let key = core.key_of(rank, proof).await;
            if key.is_some() {
                drop(me.tell(Watch { rank: rank as usize }).await);
            }
            reply.send(key);
        });
    }
}

/// However it ends, nothing of this rank waits any longer.
impl Drop for Member {
    fn drop(&mut self) {
        self.core.close();
    }
}

#[actor(name = "ringpost.ranks.Member")]
impl Actor for Member {
    /// Checks with the ranks of each node that is linked again: messages may be lost.
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        let (mut events, core) = (self.core.node.events(), self.core.clone());
        cx.spawn_task(async move {
            loop {
                match events.recv().await {
                    Ok(NodeEvent::LinkUp { node, .. }) => core.check_with(Some(node.name.as_str())),
                    // Any link may be among the events that were missed.
                    Err(RecvError::Lagged(_)) => core.check_with(None),
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
        if !self.core.state.lock().has_panicked {
            self.core.tell_all(&Note::Left { floor }).await;
        }
    }
}

#[handlers]
impl Member {
    #[handler]
    fn packet(&mut self, msg: View<Packet>) {
        self.core.packet(msg);
    }

    #[handler]
    fn control(&mut self, msg: Control) {
        self.core.control(msg);
    }

    /// Watches a rank, once its node is linked. Before, the end of an earlier run of that node
    /// would count as the end of the rank.
    #[handler(local)]
    pub(crate) fn watch(&mut self, rank: usize, cx: &mut Context<Self>) {
        let mesh = self.core.begun().filter(|mesh| mesh.rank != rank);
        if let Some(route) = mesh.and_then(|mesh| mesh.routes.get(rank)) {
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
