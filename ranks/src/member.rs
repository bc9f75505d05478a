//! The actor of a rank, one for each world: it takes in packets of other ranks, and watches them.

use std::sync::Arc;

use futures::future::BoxFuture;
use ringpost::prelude::*;

use crate::packet::{Control, Packet};

/// The rank behind its actor.
pub(crate) trait Rank: Send + Sync {
    /// Takes in a packet.
    fn packet(self: Arc<Self>, packet: View<Packet>);

    /// Takes in what a rank says beside messages.
    fn control(self: Arc<Self>, control: Control);

    /// Returns the number of this rank and the references to all, once all have joined.
    fn known(&self) -> Option<(usize, &[ActorRef<Member>])>;

    /// Marks a rank as dead.
    fn died(self: Arc<Self>, rank: usize, why: &str);

    /// Ends everything of this rank.
    fn close(&self);

    /// Ends everything of this rank, and tells the other ranks.
    fn leave(self: Arc<Self>) -> BoxFuture<'static, ()>;
}

/// The actor of a rank.
pub(crate) struct Member {
    rank: Arc<dyn Rank>,
    /// Ranks that are linked already, and wait until this one has begun.
    early: Vec<ReplyTo<()>>,
}

impl Member {
    pub(crate) fn new(rank: Arc<dyn Rank>) -> Self {
        Member { rank, early: Vec::new() }
    }
}

/// However it ends, nothing of this rank waits any longer.
impl Drop for Member {
    fn drop(&mut self) {
        self.rank.close();
    }
}

#[actor(name = "ringpost.ranks.Member")]
impl Actor for Member {
    /// Says goodbye: what needs more of this rank fails on the others.
    async fn on_stop(&mut self, _cx: &mut Context<Self>) {
        self.rank.clone().leave().await;
    }
}

#[handlers]
impl Member {
    #[handler]
    fn packet(&mut self, msg: View<Packet>) {
        self.rank.clone().packet(msg);
    }

    #[handler]
    fn control(&mut self, msg: Control) {
        self.rank.clone().control(msg);
    }

    /// Begins, now that the other ranks are known: watches them.
    #[handler(local)]
    pub(crate) fn begin(&mut self, cx: &mut Context<Self>) {
        let Some((me, members)) = self.rank.known() else { return };
        for (rank, member) in members.iter().enumerate() {
            if rank != me {
                cx.watch(member);
            }
        }
        self.early.drain(..).for_each(|reply| reply.send(()));
    }

    /// Answers when this rank has begun, so that the asker may send to it.
    #[handler(name = Hello)]
    pub(crate) fn hello(&mut self, reply: ReplyTo<()>) {
        match self.rank.known() {
            Some(_) => reply.send(()),
            None => self.early.push(reply),
        }
    }

    #[handler]
    fn down(&mut self, msg: Down) {
        let Some((_, members)) = self.rank.known() else { return };
        let rank = members.iter().position(|member| *member.address() == msg.actor);
        if let Some(rank) = rank {
            self.rank.clone().died(rank, &msg.exit.to_string());
        }
    }
}
