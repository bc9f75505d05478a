//! The actor of a rank, one for each world: it takes in packets of other ranks, and watches them.

use std::sync::Arc;

use ringpost::prelude::*;

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

    fn answer(&self, greeting: Greeting, cx: &mut Context<Self>) {
        let core = self.core.clone();
        cx.spawn_task(async move {
            let Greeting { rank, proof, reply } = greeting;
            reply.send(core.key_of(rank, proof).await);
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
    /// Says goodbye: what needs more of this rank fails on the others.
    async fn on_stop(&mut self, _cx: &mut Context<Self>) {
        let begun = self.core.close();
        self.core.tell_all(&Note::Left { begun }).await;
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

    /// Begins, now that the other ranks are known: watches them.
    #[handler(local)]
    pub(crate) fn begin(&mut self, cx: &mut Context<Self>) {
        let Some(mesh) = self.core.begun() else { return };
        for (rank, route) in mesh.routes.iter().enumerate() {
            if rank != mesh.rank {
                cx.watch(&route.packets);
            }
        }
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
