//! Finding actors by name.

mod found;

use ringpost_transport::id::NodeName;

use super::protocol::{ProtocolPort, missing};
use crate::actor::send::destination::{Destination, DestinationView};
use crate::actor::{ActorRef, Handlers, Protocol, Recipient, Ref, SpawnOptions, kind_of};
use crate::address::{Address, check_name};
use crate::ends::RestartPolicy;
use crate::error::{Cause, LookupError, SpawnError};
use crate::message::Message;
use crate::node::Node;
use crate::schema::ActorKind;
use found::{LookupFuture, ResolvedActor};

impl Node {
    /// Finds the actor at `"node/name"`, or `"name"` on this node. An actor of another node is
    /// looked up there: the future is ready when the other node has answered.
    ///
    /// The reference leads to exactly this actor, even if another actor has the name later; to
    /// follow the name, use [`named`](Node::named).
    ///
    /// # Errors
    /// [`LookupError`] if the path is invalid, there is no such actor, the actor is of another
    /// type, or its node is down; [`when_named`](Node::when_named) waits instead.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    #[inline(never)]
    pub fn actor<A: Handlers>(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<ActorRef<A>, LookupError>> + Send {
        LookupFuture { looking: self.look(path, kind_of::<A>()), lead: reference_to }
    }

    /// Returns a reference to whatever actor has the name `"node/name"`, or `"name"` on this node,
    /// whenever the reference is used. A name of this node is looked up by each send. A name of
    /// another node is looked up once per link, and again when the actor that was found has ended.
    /// So the reference stays valid after a restart of the node; but one message may be handled by
    /// one actor, and the next by another one, which knows nothing of the first. This method looks
    /// nothing up. If no actor has the name, a send fails with [`NoSuchActor`](Cause::NoSuchActor),
    /// and if an actor of another type has it, with [`WrongActorType`](Cause::WrongActorType). If
    /// only a message or a protocol of the actor is known, use
    /// [`named_recipient`](Node::named_recipient) or [`named_reference`](Node::named_reference).
    ///
    /// Two such references are equal if their names are. None of them is equal to a reference that
    /// was [found](Node::actor).
    ///
    /// # Errors
    /// [`LookupError`] if the path is invalid.
    pub fn named<A: Handlers>(&self, path: &str) -> Result<ActorRef<A>, LookupError> {
        Ok(ActorRef::bind(self, self.parse(path)?))
    }

    /// Finds the actor at a path as [`actor`](Node::actor) does, and waits until there is such an
    /// actor and a link to its node, even while that node is down. A name of another node is looked
    /// up repeatedly over the link, with pauses of at most
    /// [`limits::LOOK_UP_AGAIN`](crate::limits::LOOK_UP_AGAIN). If only a message or a protocol of
    /// the actor is known, use [`when_recipient`](Node::when_recipient) or
    /// [`when_reference`](Node::when_reference).
    ///
    /// # Errors
    /// [`LookupError`] if waiting cannot help: the path is invalid, the actor is of another type,
    /// or this node has no network or is shutting down.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub fn when_named<A: Handlers>(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<ActorRef<A>, LookupError>> + Send {
        LookupFuture { looking: self.when_found(path, kind_of::<A>()), lead: reference_to }
    }

    /// Finds the actor at a path, of any type, as a recipient that accepts `M` and, unless `R` is
    /// [`Unasked`](crate::send::Unasked), answers with `R`. The type of the variable sets both:
    /// `let notes: Recipient<Note> = node.recipient("beta/notes").await?`.
    ///
    /// As with [`actor`](Node::actor), the recipient leads to exactly this actor; to follow the
    /// name, use [`named_recipient`](Node::named_recipient).
    ///
    /// # Errors
    /// As [`actor`](Node::actor); [`when_recipient`](Node::when_recipient) waits instead. If an
    /// actor of another node does not accept the message, this succeeds, and sends to the actor
    /// fail.
    ///
    /// # Cancel safety
    /// As [`actor`](Node::actor).
    pub fn recipient<M: Message, R: Send + 'static>(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Recipient<M, R>, LookupError>> + Send {
        LookupFuture { looking: self.look(path, ActorKind::ANY), lead: recipient_of }
    }

    /// Returns a recipient that leads to whatever actor has the name whenever the recipient is
    /// used, as [`named`](Node::named) does. If that actor does not accept `M`, or answers with
    /// another type, a send fails with [`NotAccepted`](Cause::NotAccepted), or, if only the layout
    /// differs, with [`SchemaMismatch`](Cause::SchemaMismatch).
    ///
    /// # Errors
    /// [`LookupError`] if the path is invalid.
    pub fn named_recipient<M: Message, R: Send + 'static>(
        &self,
        path: &str,
    ) -> Result<Recipient<M, R>, LookupError> {
        Ok(Recipient::bind(self, self.parse(path)?))
    }

    /// Finds the actor at a path as [`recipient`](Node::recipient) does, and waits for it as
    /// [`when_named`](Node::when_named) does.
    ///
    /// # Errors
    /// As [`when_named`](Node::when_named), and [`NotAccepted`](Cause::NotAccepted) if an actor of
    /// this node has the name but does not accept the message.
    ///
    /// # Cancel safety
    /// As [`when_named`](Node::when_named).
    pub fn when_recipient<M: Message, R: Send + 'static>(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Recipient<M, R>, LookupError>> + Send {
        LookupFuture { looking: self.when_found(path, ActorKind::ANY), lead: recipient_of }
    }

    /// Finds the actor at a path, of any type, if it serves the protocol `P`.
    ///
    /// As with [`actor`](Node::actor), the reference leads to exactly this actor; to follow the
    /// name, use [`named_reference`](Node::named_reference).
    ///
    /// # Errors
    /// As [`actor`](Node::actor); [`when_reference`](Node::when_reference) waits instead. Also
    /// [`LookupError::NotServed`], with the first message of the protocol that the actor does not
    /// accept, or for which its node was built with another layout.
    ///
    /// # Cancel safety
    /// As [`actor`](Node::actor).
    pub fn reference<P: Protocol>(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Ref<P>, LookupError>> + Send {
        LookupFuture { looking: self.look(path, ActorKind::ANY), lead: served_by }
    }

    /// Returns a reference that leads to whatever actor has the name whenever the reference is
    /// used, as [`named`](Node::named) does. Each send finds out whether that actor serves the
    /// protocol: if not, it fails with [`NotAccepted`](Cause::NotAccepted), or, if only the layout
    /// differs, with [`SchemaMismatch`](Cause::SchemaMismatch). An actor of another node takes
    /// those messages of the protocol that it accepts; an actor of this node takes none of them
    /// unless it serves all of them.
    ///
    /// # Errors
    /// [`LookupError`] if the path is invalid.
    pub fn named_reference<P: Protocol>(&self, path: &str) -> Result<Ref<P>, LookupError> {
        Ok(Ref::bind(self, self.parse(path)?))
    }

    /// Finds the actor at a path as [`reference`](Node::reference) does, and waits for it as
    /// [`when_named`](Node::when_named) does.
    ///
    /// ```
    /// use ringpost::prelude::*;
    ///
    /// #[protocol]
    /// pub trait Greets {
    ///     fn greeting(name: String) -> String;
    /// }
    ///
    /// #[actor]
    /// struct Host;
    ///
    /// #[handlers]
    /// impl Host {
    ///     #[handler(protocol = Greets)]
    ///     fn greeting(&self, name: String) -> String {
    ///         format!("hello, {name}")
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), BoxError> {
    /// let node = Node::builder("alpha").start().await?;
    /// let client = node.clone();
    /// let greeted = tokio::spawn(async move {
    ///     let host: Ref<Greets> = client.when_reference("host").await?;
    ///     host.greeting("ada".into()).await.map_err(BoxError::from)
    /// });
    /// node.spawn("host", Host).await?;
    /// assert_eq!(greeted.await??, "hello, ada");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`when_named`](Node::when_named); also [`LookupError::NotServed`] if the actor with the
    /// name does not serve the protocol.
    ///
    /// # Cancel safety
    /// As [`when_named`](Node::when_named).
    pub fn when_reference<P: Protocol>(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Ref<P>, LookupError>> + Send {
        LookupFuture { looking: self.when_found(path, ActorKind::ANY), lead: served_by }
    }

    /// Finds the actor of this node with this name, which may still be starting. If there is none,
    /// spawns an actor that `make` makes, and returns when it has started. If several callers do
    /// this at once, only one of them spawns.
    ///
    /// # Errors
    /// [`SpawnError`] as for [`spawn`](Node::spawn); [`WrongType`](SpawnError::WrongType) if an
    /// actor of another type has the name.
    ///
    /// # Cancel safety
    /// As for [`spawn`](Node::spawn).
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
            match self.place(SpawnOptions::named(name), RestartPolicy::Never) {
                Ok(cell) => {
                    self.run(cell.clone(), actor, None).await?;
                    return Ok(ActorRef::local(cell));
                }
                // Another caller was quicker. If its actor has ended already, the name is free
                // again.
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

/// Returns a reference to the actor that was looked up at an address.
fn reference_to<A: Handlers>(
    node: &Node,
    address: &Address,
    found: ResolvedActor,
) -> Result<ActorRef<A>, LookupError> {
    found.destination(node, address).map(ActorRef::new)
}

fn recipient_of<M: Message, R: Send + 'static>(
    node: &Node,
    address: &Address,
    found: ResolvedActor,
) -> Result<Recipient<M, R>, LookupError> {
    found.destination(node, address).map(Recipient::new)
}

/// Returns a reference to the actor that was looked up at an address, if it serves the protocol
/// `P`.
fn served_by<P: Protocol>(
    node: &Node,
    address: &Address,
    found: ResolvedActor,
) -> Result<Ref<P>, LookupError> {
    let not_served = |(message, cause): (_, Cause)| LookupError::NotServed {
        path: address.to_string(),
        protocol: P::NAME,
        message,
        cause: Box::new(cause),
    };
    let to = match found {
        ResolvedActor::Here(actor) => {
            let served = ProtocolPort::of_all(actor.0);
            served
                .map(Destination::Local)
                .map_err(|call| not_served((call.name, Cause::NotAccepted)))?
        }
        ResolvedActor::There(found, sender, accepted) => {
            if let Some(missing) = missing::<P>(&accepted) {
                return Err(not_served(missing));
            }
            Destination::remote(found, sender, node.clone())
        }
    };
    Ok(Ref::new(to))
}

/// Returns the actor of this node that has the name of a reference, if any has.
fn has_name<A: Handlers>(named: &ActorRef<A>) -> Result<Option<ActorRef<A>>, SpawnError> {
    let now = named.destination().now();
    match now.view() {
        DestinationView::Dead(Cause::NoSuchActor | Cause::Shutdown) => Ok(None),
        DestinationView::Dead(cause) => {
            Err(SpawnError::WrongType(not_found(named.address(), cause.clone())))
        }
        DestinationView::Local(_) | DestinationView::Remote(..) => Ok(Some(ActorRef::new(now))),
    }
}

fn not_found(address: &Address, cause: Cause) -> LookupError {
    LookupError::NotFound { path: address.to_string(), cause }
}
