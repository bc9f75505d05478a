//! `Recipient`: an actor known only by a message that it accepts.

mod archived;

use std::any::TypeId;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use crate::actor::cell::route::forms;
use crate::actor::send::destination::Destination;
use crate::actor::send::permit::Permit;
use crate::actor::send::port::{AnyActor, AskPort, LocalHandle, Port, SharedActor};
use crate::actor::send::tell::{Tell, try_tell};
use crate::actor::send::time_limit::AskTimeout;
use crate::actor::{Ask, Local, Reply};
use crate::address::Address;
use crate::error::{Cause, TellError};
use crate::message::Message;
use crate::node::Node;
use crate::remote::MessageForms;
use crate::resident::LocalActor;
use crate::schema::ActorKind;

pub use archived::ArchivedRecipient;

/// A reference to an actor of any type that accepts `M`, on any node. If `R` is given, the actor
/// answers with `R` and can be asked. Cheap to clone; may be a field of a message.
///
/// It leads to exactly one actor, unless it comes from [`Node::named_recipient`], or from an
/// [`ActorRef`](crate::ActorRef) of [`Node::named`]: these lead to whatever actor has the name.
pub struct Recipient<M: Message, R = Unasked> {
    to: Destination<MessagePort<M, R>>,
    ask_timeout: AskTimeout,
    _message: PhantomData<fn(M) -> R>,
}

/// The [`Permit`] that a [`Recipient`] makes.
pub type RecipientPermit<M, R = Unasked> = Permit<MessagePort<M, R>, M>;

/// The reply type of a [`Recipient`] that is only told.
pub enum Unasked {}

/// The port of an actor of this node for one message.
pub struct MessagePort<M, R> {
    actor: Arc<dyn LocalActor>,
    /// The index of the message in the actor's table.
    route: u16,
    _message: PhantomData<fn(M) -> R>,
}

impl<M: Message, R: Send + 'static> Recipient<M, R> {
    pub(crate) fn new(to: Destination<MessagePort<M, R>>) -> Self {
        Recipient { to, ask_timeout: AskTimeout::default(), _message: PhantomData }
    }

    pub(crate) fn local(actor: Arc<dyn LocalActor>, route: Option<u16>) -> Self {
        Recipient::new(match MessagePort::at(actor.clone(), route) {
            Ok(row) => Destination::Local(row),
            Err(cause) => Destination::dead(actor.address().clone(), cause),
        })
    }

    pub(crate) fn with_timeout_of(mut self, ask_timeout: AskTimeout) -> Self {
        self.ask_timeout = ask_timeout;
        self
    }

    pub(crate) fn destination(&self) -> &Destination<MessagePort<M, R>> {
        &self.to
    }

    /// Returns a recipient of the same actor for `N`, which has the same archive as `M`; `None` if
    /// the actor is on this node.
    pub(crate) fn as_far<N: Message>(&self) -> Option<Recipient<N>> {
        match &self.to {
            Destination::ByAddress(elsewhere) if !self.is_local() => {
                Some(Recipient::new(Destination::ByAddress(elsewhere.clone())))
            }
            _ => None,
        }
    }

    /// Sends a message; see [`ActorRef::tell`](crate::ActorRef::tell).
    ///
    /// # Errors
    /// [`TellError`], with the message.
    pub fn tell(&self, message: M) -> Tell<'_, MessagePort<M, R>, M> {
        Tell::new(&self.to, message)
    }

    /// Sends a message if that needs no waiting; see
    /// [`ActorRef::try_tell`](crate::ActorRef::try_tell).
    ///
    /// # Errors
    /// [`TellError`], with the message.
    pub fn try_tell(&self, message: M) -> Result<(), TellError<M>> {
        try_tell(&self.to, message)
    }

    /// Waits for room for one message; see [`ActorRef::reserve`](crate::ActorRef::reserve).
    ///
    /// # Errors
    /// The [`Cause`] why there is no room.
    pub async fn reserve(&self) -> Result<RecipientPermit<M, R>, Cause> {
        Permit::reserve(&self.to).await
    }

    /// Returns the address of the actor.
    pub fn address(&self) -> &Address {
        self.to.address(|row| row.actor.address())
    }

    /// Returns true if the actor is on this node.
    pub fn is_local(&self) -> bool {
        self.to.is_near()
    }
}

impl<M: Message, R: Send + 'static> Recipient<M, R> {
    /// Creates a recipient as `node` sees it; see [`Destination::bind`].
    pub(crate) fn bind(node: &Node, address: Address) -> Self {
        Recipient::new(Destination::bind(node, address))
    }
}

impl<M: Message, R: Reply> Recipient<M, R> {
    /// Sends a message and waits for its answer; see [`ActorRef::ask`](crate::ActorRef::ask).
    ///
    /// # Errors
    /// [`AskError`](crate::AskError).
    pub fn ask(&self, message: M) -> Ask<'_, MessagePort<M, R>, M> {
        Ask::new(&self.to, message, self.ask_timeout.get())
    }

    /// Returns the same reference with this timeout for its asks; see
    /// [`ActorRef::with_ask_timeout`](crate::ActorRef::with_ask_timeout).
    pub fn with_ask_timeout(mut self, timeout: Duration) -> Self {
        self.ask_timeout = AskTimeout::of(timeout);
        self
    }
}

impl<M, R> MessagePort<M, R> {
    fn at(actor: Arc<dyn LocalActor>, route: Option<u16>) -> Result<Self, Cause> {
        let route = route.ok_or(Cause::NotAccepted)?;
        Ok(MessagePort { actor, route, _message: PhantomData })
    }

    pub(crate) fn shared(&self) -> Arc<dyn LocalActor> {
        self.actor.clone()
    }
}

impl<M: Message, R: Send + 'static> LocalHandle for MessagePort<M, R> {
    fn actor(&self) -> AnyActor<'_> {
        AnyActor(&*self.actor)
    }

    fn kind() -> ActorKind {
        ActorKind::ANY
    }

    fn of(SharedActor(actor): SharedActor) -> Result<Self, Cause> {
        let reply = TypeId::of::<R>();
        let reply = (reply != TypeId::of::<Unasked>()).then_some(reply);
        let route = actor.route(TypeId::of::<M>(), reply);
        MessagePort::at(actor, route)
    }
}

impl<M: Message, R: Send + 'static> Port<M> for MessagePort<M, R> {
    type Reply = R;

    const TOLD: MessageForms = forms::<M, Local<()>>();

    fn route(&self) -> u16 {
        self.route
    }
}

impl<M: Message, R: Reply> AskPort<M> for MessagePort<M, R> {
    const ASKED: MessageForms = forms::<M, R>();
}

impl<M, R> Clone for MessagePort<M, R> {
    fn clone(&self) -> Self {
        MessagePort { actor: self.actor.clone(), route: self.route, _message: PhantomData }
    }
}

impl<M: Message, R: Send + 'static> Clone for Recipient<M, R> {
    fn clone(&self) -> Self {
        Recipient { to: self.to.clone(), ask_timeout: self.ask_timeout, _message: PhantomData }
    }
}

impl<M: Message, R: Send + 'static> PartialEq for Recipient<M, R> {
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address()
    }
}

impl<M: Message, R: Send + 'static> Eq for Recipient<M, R> {}

impl<M: Message, R: Send + 'static> Hash for Recipient<M, R> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
}

impl<M: Message, R: Send + 'static> fmt::Debug for Recipient<M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recipient<{}>({})", M::NAME, self.address())
    }
}
