//! What a handler knows of its surroundings.

use rkyv::Archived;

use super::{ActorRef, Handlers};
use crate::archive;
use crate::message::Wire;
use crate::node::Node;

/// What a handler or hook knows of its surroundings: its own reference and its node.
pub struct Context<A: Handlers> {
    actor: ActorRef<A>,
    node: Node,
}

impl<A: Handlers> Context<A> {
    pub(super) fn new(actor: ActorRef<A>, node: Node) -> Self {
        Context { actor, node }
    }

    /// Returns the actor itself, to be sent in messages. Asking it from its own handler fails at
    /// once.
    pub fn actor(&self) -> &ActorRef<A> {
        &self.actor
    }

    /// Returns the node it lives on.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Stops the actor after the message it is handling. What waits in its mailbox becomes dead
    /// letters.
    pub fn stop(&self) {
        self.actor.stop_local();
    }

    /// Owns a part of a [`View`](crate::View): `cx.own(&msg.reply_to)`. References to actors are
    /// bound to this node.
    ///
    /// # Panics
    /// As [`View::to_owned`](crate::View::to_owned).
    pub fn own<T: Wire>(&self, archive: &Archived<T>) -> T {
        archive::own::<T>(archive, &self.node)
            .expect("a field's `Deserialize` refuses what its own `CheckBytes` accepted")
    }
}
