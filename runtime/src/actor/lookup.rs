//! Finding actors by name.

use std::pin::pin;
use std::task::Poll;

use ringpost_transport::id::NodeName;

use super::destination::{Destination, View};
use super::protocol::{Served, missing};
use super::{ActorRef, Handlers, Protocol, Recipient, Ref, SpawnOptions};
use crate::address::{Address, check_name};
use crate::error::{Cause, LookupError, SpawnError};
use crate::limits;
use crate::message::Message;
use crate::node::Node;
use crate::remote::{self, Waiter};
use crate::schema::Kind;

impl Node {
    /// Finds the actor at `"node/name"`, or `"name"` on this node. On another node it is asked for
    /// there: the future is ready when the other node has said that it has such an actor.
    ///
    /// The reference leads to exactly this actor, also when the name is another one's later; for
    /// one that follows the name there is [`named`](Node::named).
    ///
    /// # Errors
    /// [`LookupError`]: the path is none, or there is no such actor, it is of another type, or its
    /// node is down; [`when_named`](Node::when_named) waits for it.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn actor<A: Handlers>(&self, path: &str) -> Result<ActorRef<A>, LookupError> {
        self.find(path, Waiter::default()).await
    }

    async fn find<A: Handlers>(
        &self,
        path: &str,
        waiter: Waiter,
    ) -> Result<ActorRef<A>, LookupError> {
        let named: ActorRef<A> = self.named(path)?;
        let found = named.destination().pinned(waiter).await;
        Ok(ActorRef::new(found.map_err(|cause| not_found(named.address(), cause))?))
    }

    /// Returns a reference to whatever actor has the name `"node/name"`, or `"name"` on this node,
    /// whenever it is used: on this node each send looks it up, on another one each link, and again
    /// when the actor that was found has ended. So it serves also after a restart of its node; and
    /// one message may be handled by one actor, and the next by another, that knows nothing of the
    /// first. It looks nothing up now: where nothing has the name, a send fails with
    /// [`NoSuchActor`](Cause::NoSuchActor).
    ///
    /// Two such references are equal if their names are, and equal to none that was
    /// [found](Node::actor).
    ///
    /// # Errors
    /// [`LookupError`] when the path is none.
    pub fn named<A: Handlers>(&self, path: &str) -> Result<ActorRef<A>, LookupError> {
        Ok(ActorRef::bind(self, self.parse(path)?))
    }

    /// Finds the actor at a path, of whatever type, as one that accepts `M` and, when `R` is not
    /// [`Unasked`](super::Unasked), answers `R`. The type that it is kept as says both:
    /// `let notes: Recipient<Note> = node.recipient("beta/notes").await?`.
    ///
    /// # Errors
    /// As [`actor`](Node::actor). If an actor of another node does not accept the message, that is
    /// found out when it is sent one.
    ///
    /// # Cancel safety
    /// As [`actor`](Node::actor).
    pub async fn recipient<M: Message, R: Send + 'static>(
        &self,
        path: &str,
    ) -> Result<Recipient<M, R>, LookupError> {
        let named: Recipient<M, R> = Recipient::bind(self, self.parse(path)?);
        let found = named.destination().pinned(Waiter::default()).await;
        Ok(Recipient::new(found.map_err(|cause| not_found(named.address(), cause))?))
    }

    /// Finds the actor at a path, of whatever type, as one that serves the protocol `P`.
    ///
    /// # Errors
    /// As [`actor`](Node::actor); [`LookupError::NotServed`], with the first message of the
    /// protocol that the actor does not accept, or that its node was built with another layout of.
    ///
    /// # Cancel safety
    /// As [`actor`](Node::actor).
    pub async fn reference<P: Protocol>(&self, path: &str) -> Result<Ref<P>, LookupError> {
        let address = self.parse(path)?;
        let not_served = |(message, cause): (_, Cause)| LookupError::NotServed {
            path: address.to_string(),
            protocol: P::NAME,
            message,
            cause: Box::new(cause),
        };
        let to = if address.node() == self.name() {
            let actor = self.resident(&address).map_err(|cause| not_found(&address, cause))?;
            // PT-1, here and below.
            let served = Served::of(actor);
            Destination::Local(served.map_err(|call| not_served((call.name, Cause::NotAccepted)))?)
        } else {
            let sender = self.sender(&address, Kind::ANY);
            let found = match &sender {
                Ok(sender) => remote::find(sender, Waiter::default()).await,
                Err(cause) => Err(cause.clone()),
            };
            let (found, sender, accepted) = found.map_err(|cause| not_found(&address, cause))?;
            if let Some(missing) = missing::<P>(&accepted) {
                return Err(not_served(missing));
            }
            Destination::remote(found, sender, self.clone())
        };
        Ok(Ref::new(to))
    }

    /// Finds the actor at a path as [`actor`](Node::actor) does, and waits until there is one and
    /// a link to its node, also while that is down. A name of another node is looked up again and
    /// again over the link, with pauses of [`limits::LOOK_UP_AGAIN`] at most.
    ///
    /// # Errors
    /// [`LookupError`] when waiting cannot help: the path is none, the actor is of another type, or
    /// this node has no network or is shutting down.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn when_named<A: Handlers>(&self, path: &str) -> Result<ActorRef<A>, LookupError> {
        let address = self.parse(path)?;
        let is_near = address.node() == self.name();
        let mut pause = limits::LOOK_UP_AGAIN / 64;
        loop {
            let mut named = pin!(self.residents().next_name());
            named.as_mut().enable();
            let mut waiter = Waiter::default();
            waiter.wait_for_link();
            let leaving = || not_found(&address, Cause::Shutdown);
            let found = self.unless_leaving(self.find(path, waiter)).await;
            let cause = match found.ok_or_else(leaving)? {
                Err(LookupError::NotFound {
                    cause: cause @ (Cause::NoSuchActor | Cause::LinkDown),
                    ..
                }) => cause,
                found => return found,
            };
            tracing::debug!(path, %cause, "not named yet");
            let waited = if is_near {
                self.unless_leaving(named).await
            } else {
                self.unless_leaving(tokio::time::sleep(pause)).await
            };
            waited.ok_or_else(leaving)?;
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

    /// Finds the actor of this node that has a name, which may be starting still, or spawns one
    /// that `make` makes; returns then when it has started. Of several callers at once, one spawns.
    ///
    /// # Errors
    /// [`SpawnError`] as of [`spawn`](Node::spawn); [`WrongType`](SpawnError::WrongType) when an
    /// actor of another type has the name.
    ///
    /// # Cancel safety
    /// As of [`spawn`](Node::spawn).
    pub async fn actor_or_spawn<A: Handlers>(
        &self,
        name: &str,
        make: impl FnOnce() -> A,
    ) -> Result<ActorRef<A>, SpawnError> {
        let address = Address::by_name(self.shared_name().clone(), check_name(name)?);
        let named: ActorRef<A> = ActorRef::bind(self, address);
        if let Some(found) = has_name(&named)? {
            return Ok(found);
        }
        let actor = make();
        loop {
            match self.place(SpawnOptions::named(name), false) {
                Ok(cell) => {
                    self.run(cell.clone(), actor, None).await?;
                    return Ok(ActorRef::local(cell));
                }
                // Another caller was quicker. If its actor is gone already, so is its claim.
                Err(SpawnError::NameTaken(_)) => {
                    if let Some(found) = has_name(&named)? {
                        return Ok(found);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn parse(&self, path: &str) -> Result<Address, LookupError> {
        let Some((node, name)) = path.split_once('/') else {
            return Ok(Address::by_name(self.shared_name().clone(), check_name(path)?));
        };
        NodeName::new(node)?;
        Ok(Address::by_name(node.into(), check_name(name)?))
    }
}

/// Returns the actor of this node that has the name of a reference, if any has.
fn has_name<A: Handlers>(named: &ActorRef<A>) -> Result<Option<ActorRef<A>>, SpawnError> {
    let now = named.destination().now();
    match now.view() {
        View::Dead(Cause::NoSuchActor | Cause::Shutdown) => Ok(None),
        View::Dead(cause) => Err(SpawnError::WrongType(not_found(named.address(), cause.clone()))),
        View::Local(_) | View::Remote(..) => Ok(Some(ActorRef::new(now))),
    }
}

fn not_found(address: &Address, cause: Cause) -> LookupError {
    LookupError::NotFound { path: address.to_string(), cause }
}
