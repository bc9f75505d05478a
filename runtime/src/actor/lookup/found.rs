//! A look at the actor that has a name, and the wait for one. Nothing here knows the type of an
//! actor, so that it is compiled once, and not for each type of a program.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use crate::actor::destination::Destination;
use crate::actor::port::{Find, SharedActor};
use crate::address::Address;
use crate::error::Cause;
use crate::limits;
use crate::node::Node;
use crate::remote::{self, Accepted, RemoteSender, Waiter};
use crate::schema::Kind;

/// An actor that was found. Made by [`Node::look`].
pub(super) enum Found {
    Here(SharedActor),
    /// Exactly this actor of another node, and what it accepts.
    There(Address, RemoteSender, Arc<[Accepted]>),
}

impl Found {
    /// Returns where it is. One of this node is looked at with its type.
    pub(super) fn destination<P: Find>(self, node: &Node) -> Result<Destination<P>, Cause> {
        match self {
            Found::Here(actor) => P::of(actor).map(Destination::Local),
            Found::There(address, sender, _) => {
                Ok(Destination::remote(address, sender, node.clone()))
            }
        }
    }
}

impl Node {
    /// Finds the actor at an address. One of another node is to be of this `kind`.
    pub(super) async fn look(&self, address: &Address, kind: Kind) -> Result<Found, Cause> {
        self.look_with(address, kind, Waiter::default()).await
    }

    async fn look_with(
        &self,
        address: &Address,
        kind: Kind,
        waiter: Waiter,
    ) -> Result<Found, Cause> {
        if address.node() == self.name() {
            return Ok(Found::Here(SharedActor(self.resident(address)?)));
        }
        let sender = self.sender(address, kind)?;
        let (found, sender, accepted) = remote::find(&sender, waiter).await?;
        Ok(Found::There(found, sender, accepted))
    }

    /// Finds the actor at an address as [`look`](Self::look) does, and waits while trying again can
    /// help.
    pub(super) async fn when_found(&self, address: &Address, kind: Kind) -> Result<Found, Cause> {
        let is_near = address.node() == self.name();
        let mut pause = limits::LOOK_UP_AGAIN / 64;
        loop {
            let mut named = pin!(self.residents().next_name());
            named.as_mut().enable();
            let mut waiter = Waiter::default();
            waiter.wait_for_link();
            let found = self.unless_leaving(self.look_with(address, kind, waiter)).await;
            let cause = match found.ok_or(Cause::Shutdown)? {
                Err(cause) if cause.is_retryable() => cause,
                found => return found,
            };
            tracing::debug!(%address, %cause, "not named yet");
            let waited = if is_near {
                self.unless_leaving(named).await
            } else {
                self.unless_leaving(tokio::time::sleep(pause)).await
            };
            waited.ok_or(Cause::Shutdown)?;
            pause = (2 * pause).min(limits::LOOK_UP_AGAIN);
        }
    }

    /// Waits for something, but not on a node that is shutting down.
    async fn unless_leaving<T>(&self, wait: impl Future<Output = T>) -> Option<T> {
        let mut wait = pin!(wait);
        loop {
            // Also notified when no name is given any more.
            let mut news = pin!(self.residents().next_name());
            news.as_mut().enable();
            if let Poll::Ready(done) = futures::poll!(&mut wait) {
                return Some(done);
            }
            if self.residents().is_closed() {
                return None;
            }
            tokio::select! {
                biased;
                done = &mut wait => return Some(done),
                () = news => {}
            }
        }
    }
}
