//! `WeakActorRef`: a reference that keeps nothing alive.

use std::fmt;
use std::sync::{Arc, Weak};

use super::WeakActorPort;
use crate::actor::send::destination::{ByAddress, Destination};
use crate::actor::send::time_limit::AskTimeout;
use crate::actor::{ActorRef, Handlers};

/// A reference that keeps nothing alive: neither its node nor the remains of an actor that has
/// ended. (An actor lives without references: see [`Node::spawn`](crate::Node::spawn).) Created by
/// [`ActorRef::downgrade`].
pub struct WeakActorRef<A: Handlers> {
    to: WeakDestination<A>,
    ask_timeout: AskTimeout,
}

enum WeakDestination<A: Handlers> {
    Local(WeakActorPort<A>),
    ByAddress(Weak<ByAddress>),
}

impl<A: Handlers> ActorRef<A> {
    /// Returns a reference that keeps nothing alive.
    pub fn downgrade(&self) -> WeakActorRef<A> {
        let to = match self.destination() {
            Destination::Local(near) => WeakDestination::Local(near.downgrade()),
            Destination::ByAddress(elsewhere) => {
                WeakDestination::ByAddress(Arc::downgrade(elsewhere))
            }
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
            WeakDestination::Local(near) => Destination::Local(near.upgrade()?),
            WeakDestination::ByAddress(elsewhere) => Destination::ByAddress(elsewhere.upgrade()?),
        };
        Some(ActorRef::with(to, self.ask_timeout))
    }
}

impl<A: Handlers> Clone for WeakActorRef<A> {
    fn clone(&self) -> Self {
        let to = match &self.to {
            WeakDestination::Local(near) => WeakDestination::Local(near.clone()),
            WeakDestination::ByAddress(elsewhere) => WeakDestination::ByAddress(elsewhere.clone()),
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
