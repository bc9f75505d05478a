//! `WeakActorRef`: a reference that keeps nothing alive.

use std::fmt;
use std::sync::{Arc, Weak};

use super::WeakNear;
use crate::actor::send::destination::{ByAddress, Destination};
use crate::actor::send::time_limit::AskTimeout;
use crate::actor::{ActorRef, Handlers};

/// A reference that keeps nothing alive: neither its node nor the remains of an actor that has
/// ended. (An actor lives without references: see [`Node::spawn`](crate::Node::spawn).) Created by
/// [`ActorRef::downgrade`].
pub struct WeakActorRef<A: Handlers> {
    to: To<A>,
    ask_timeout: AskTimeout,
}

enum To<A: Handlers> {
    Local(WeakNear<A>),
    ByAddress(Weak<ByAddress>),
}

impl<A: Handlers> ActorRef<A> {
    /// Returns a reference that keeps nothing alive.
    pub fn downgrade(&self) -> WeakActorRef<A> {
        let to = match self.destination() {
            Destination::Local(near) => To::Local(near.downgrade()),
            Destination::ByAddress(elsewhere) => To::ByAddress(Arc::downgrade(elsewhere)),
        };
        WeakActorRef { to, ask_timeout: self.ask_timeout() }
    }
}

impl<A: Handlers> WeakActorRef<A> {
    /// Returns the reference again, if its target is still there. For an actor of this node, the
    /// actor or another reference to it must be alive; for an actor of another node, a clone of the
    /// reference from which this one was created.
    pub fn upgrade(&self) -> Option<ActorRef<A>> {
        let to = match &self.to {
            To::Local(near) => Destination::Local(near.upgrade()?),
            To::ByAddress(elsewhere) => Destination::ByAddress(elsewhere.upgrade()?),
        };
        Some(ActorRef::with(to, self.ask_timeout))
    }
}

impl<A: Handlers> Clone for WeakActorRef<A> {
    fn clone(&self) -> Self {
        let to = match &self.to {
            To::Local(near) => To::Local(near.clone()),
            To::ByAddress(elsewhere) => To::ByAddress(elsewhere.clone()),
        };
        WeakActorRef { to, ask_timeout: self.ask_timeout }
    }
}

impl<A: Handlers> fmt::Debug for WeakActorRef<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.upgrade() {
            Some(actor) => write!(f, "WeakActorRef<{}>({})", A::NAME, actor.address()),
            None => write!(f, "WeakActorRef<{}>(gone)", A::NAME),
        }
    }
}
