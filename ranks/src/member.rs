//! The actor of a rank, one for each world: it takes in packets of other ranks, and watches them.

use std::sync::Arc;

use ringpost::prelude::*;

use crate::core::Core;
use crate::packet::{Control, Note, Packet};

/// The actor of a rank.
pub(crate) struct Member {
    core: Arc<Core>,
    /// Ranks that are linked already, and wait until this one has begun.
    early: Vec<ReplyTo<()>>,
}

impl Member {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Member { core, early: Vec::new() }
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
        self.early.drain(..).for_each(|reply| reply.send(()));
    }

    /// Answers when this rank has begun, so that the asker may send to it.
    #[handler(name = Hello)]
    pub(crate) fn hello(&mut self, reply: ReplyTo<()>) {
        match self.core.begun() {
            Some(_) => reply.send(()),
            None => self.early.push(reply),
        }
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
