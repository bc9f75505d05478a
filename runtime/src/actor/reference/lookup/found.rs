//! The look-up of an actor by name, which may wait until there is one. Only the last step knows the
//! type of the actor, so that the rest is compiled once, and not for each type of a program.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::future::BoxFuture;
use ringpost_transport::log;

use super::not_found;
use crate::actor::send::destination::Destination;
use crate::actor::send::port::{LocalHandle, SharedActor};
use crate::address::Address;
use crate::error::{Cause, LookupError};
use crate::limits;
use crate::mailbox::OutlinedDrop;
use crate::node::Node;
use crate::remote::{self, Accepted, RemoteSender, Waiter};
use crate::schema::ActorKind;

/// An actor that was found by [`ActorLookup`].
pub(super) enum ResolvedActor {
    Here(SharedActor),
    /// An actor of another node: its address, the sender to exactly this actor, and the messages
    /// that it accepts.
    There(Address, RemoteSender, Arc<[Accepted]>),
}

impl ResolvedActor {
    /// Returns the destination of the actor, which was found at `address`. An error if an actor of
    /// this node does not fit `P`.
    pub(super) fn destination<P: LocalHandle>(
        self,
        node: &Node,
        address: &Address,
    ) -> Result<Destination<P>, LookupError> {
        match self {
            ResolvedActor::Here(actor) => match P::of(actor) {
                Ok(near) => Ok(Destination::Local(near)),
                Err(cause) => Err(not_found(address, cause)),
            },
            ResolvedActor::There(address, sender, _) => {
                Ok(Destination::remote(address, sender, node.clone()))
            }
        }
    }
}

/// The future of a look-up by path. Its output is a `T` that leads to the actor. Polled by its
/// caller. (Not an `async fn`, which would be compiled into each function that looks an actor up.)
pub(super) struct LookupFuture<'n, 'p, T> {
    pub(super) looking: OutlinedDrop<ActorLookup<'n, 'p>>,
    pub(super) lead: fn(&Node, &Address, ResolvedActor) -> Result<T, LookupError>,
}

impl<T> Future for LookupFuture<'_, '_, T> {
    type Output = Result<T, LookupError>;

    #[inline(never)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match Pin::new(&mut self.looking).poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok((address, found))) => {
                Poll::Ready((self.lead)(self.looking.node, &address, found))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        }
    }
}

/// The untyped look-up of the actor at a path. Its output is the address and the actor. Created by
/// [`Node::look`] and [`Node::when_found`].
pub(super) struct ActorLookup<'n, 'p> {
    node: &'n Node,
    path: &'p str,
    /// The type that an actor of another node must have.
    kind: ActorKind,
    waits: bool,
    /// `Some` once it waits for another node, or for a name.
    wait: Option<BoxFuture<'n, (Address, Result<ResolvedActor, Cause>)>>,
}

impl Future for ActorLookup<'_, '_> {
    type Output = Result<(Address, ResolvedActor), LookupError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ActorLookup { node, path, kind, waits, wait } = &mut *self;
        let (node, kind, waits) = (*node, *kind, *waits);
        let wait = match wait {
            Some(wait) => wait,
            None => {
                let address = node.parse(path)?;
                if !waits && address.node() == node.name() {
                    return Poll::Ready(match node.resident(&address) {
                        Ok(actor) => Ok((address, ResolvedActor::Here(SharedActor(actor)))),
                        Err(cause) => Err(not_found(&address, cause)),
                    });
                }
                wait.insert(Box::pin(node.find(address, kind, waits)))
            }
        };
        let (address, found) = ready!(wait.as_mut().poll(cx));
        Poll::Ready(match found {
            Ok(found) => Ok((address, found)),
            Err(cause) => Err(not_found(&address, cause)),
        })
    }
}

impl Node {
    /// Looks up the actor at a path. An actor of another node must be of this `kind`.
    pub(super) fn look<'n, 'p>(
        &'n self,
        path: &'p str,
        kind: ActorKind,
    ) -> OutlinedDrop<ActorLookup<'n, 'p>> {
        OutlinedDrop::new(ActorLookup { node: self, path, kind, waits: false, wait: None })
    }

    /// Looks up the actor at a path as [`look`](Self::look) does, and waits as long as trying again
    /// can help.
    pub(super) fn when_found<'n, 'p>(
        &'n self,
        path: &'p str,
        kind: ActorKind,
    ) -> OutlinedDrop<ActorLookup<'n, 'p>> {
        OutlinedDrop::new(ActorLookup { node: self, path, kind, waits: true, wait: None })
    }

    async fn find(
        &self,
        address: Address,
        kind: ActorKind,
        waits: bool,
    ) -> (Address, Result<ResolvedActor, Cause>) {
        let found = if waits {
            self.find_again(&address, kind).await
        } else {
            self.look_with(&address, kind, Waiter::default()).await
        };
        (address, found)
    }

    async fn look_with(
        &self,
        address: &Address,
        kind: ActorKind,
        waiter: Waiter,
    ) -> Result<ResolvedActor, Cause> {
        if address.node() == self.name() {
            return Ok(ResolvedActor::Here(SharedActor(self.resident(address)?)));
        }
        let sender = self.sender(address, kind)?;
        let (found, sender, accepted) = remote::find(&sender, waiter).await?;
        Ok(ResolvedActor::There(found, sender, accepted))
    }

    /// Looks up the actor at an address, and waits as long as trying again can help.
    async fn find_again(&self, address: &Address, kind: ActorKind) -> Result<ResolvedActor, Cause> {
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
            log::debug!(%address, %cause, "not named yet");
            let waited = if is_near {
                self.unless_leaving(named).await
            } else {
                self.unless_leaving(tokio::time::sleep(pause)).await
            };
            waited.ok_or(Cause::Shutdown)?;
            pause = (2 * pause).min(limits::LOOK_UP_AGAIN);
        }
    }

    /// Waits for the output of `wait`. Returns `None` if the node shuts down first.
    async fn unless_leaving<T>(&self, wait: impl Future<Output = T>) -> Option<T> {
        let mut wait = pin!(wait);
        loop {
            // Also notified when the node shuts down, so that no name is given any more.
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
