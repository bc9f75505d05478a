//! `ActorRef`: one type for actors of this node and of other nodes.

mod archived;
mod ending;
pub(crate) mod lookup;
mod near;
pub(crate) mod protocol;
pub(crate) mod recipient;
pub(crate) mod weak;

use std::any::TypeId;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::cell::ActorCell;
use super::send::destination::Destination;
use super::send::permit::Permit;
use super::send::tell::{Tell, try_tell};
use super::send::time_limit::AskTimeout;
use super::{Accepts, Ask, Handlers, Recipient};
use crate::address::Address;
use crate::error::{Cause, TellError};
use crate::mailbox::OutlinedDrop;
use crate::message::Message;
use crate::node::Node;
use crate::resident::LocalActor;
use crate::view::Input;

pub use archived::ArchivedActorRef;
pub use near::ActorPort;
pub(super) use near::WeakActorPort;

/// The [`Permit`] that an [`ActorRef<A>`](ActorRef) makes for an `M`.
pub type ActorPermit<A, M> = Permit<ActorPort<A>, M>;

/// The [`Tell`] that an [`ActorRef<A>`](ActorRef) makes of an `M`.
pub type ActorTell<'a, A, M> = Tell<'a, ActorPort<A>, AcceptedMessage<A, M>>;

/// The [`Ask`] that an [`ActorRef<A>`](ActorRef) makes of an `M`.
pub type ActorAsk<'a, A, M> =
    Ask<'a, ActorPort<A>, AcceptedMessage<A, M>, <A as Accepts<M>>::Reply>;

/// The message type `M` itself. If the actor does not accept `M`, this is not a type, so that the
/// compiler reports the error once, and not again for the future of the send.
pub(super) type AcceptedMessage<A, M> = <<A as Accepts<M>>::Input as Input>::Message;

/// A reference to an actor, on any node. Three words in size and cheap to clone; equal to another
/// reference if both lead to the same actor in the same way (see [`Address`]); may be a field of a
/// message. Dereferences to the actor's generated client: `teller.balance("ada".into()).await`.
///
/// It leads to exactly one actor, even if that actor's name is given to another one later. Only a
/// reference of [`Node::named`](crate::Node::named) leads to whatever actor has the name.
pub struct ActorRef<A: Handlers> {
    client: A::Client,
}

/// The inner part of an `ActorRef`, without the client's methods.
pub struct RawActorRef<A: Handlers> {
    to: OutlinedDrop<Destination<ActorPort<A>>>,
    ask_timeout: AskTimeout,
}

impl<A: Handlers> ActorRef<A> {
    pub(super) fn new(to: Destination<ActorPort<A>>) -> Self {
        ActorRef::with(to, AskTimeout::default())
    }

    pub(super) fn with(to: Destination<ActorPort<A>>, ask_timeout: AskTimeout) -> Self {
        ActorRef { client: A::client(RawActorRef { to: OutlinedDrop::new(to), ask_timeout }) }
    }

    pub(super) fn local(cell: Arc<ActorCell<A>>) -> Self {
        ActorRef::new(Destination::Local(ActorPort::new(cell)))
    }

    /// Creates a reference as `node` sees it; see [`Destination::bind`].
    pub(super) fn bind(node: &Node, address: Address) -> Self {
        ActorRef::new(Destination::bind(node, address))
    }

    /// Sends a message when there is room for it and, to another node, a link. `Ok` means that the
    /// message is in the actor's mailbox, or on its way in this node's memory. Senders that wait
    /// get room in the order of their arrival, whichever reference they use.
    ///
    /// An actor that tells itself does not wait: if its own mailbox is full, it gets
    /// [`Cause::MailboxFull`] at once.
    ///
    /// # Errors
    /// [`TellError`], with the message.
    pub fn tell<M>(&self, message: M) -> ActorTell<'_, A, M>
    where
        A: Accepts<M>,
    {
        Tell::new(self.destination(), message)
    }

    /// Sends a message if that needs no waiting. If the last look-up over the link found no such
    /// actor, this returns that cause and looks the actor up again.
    ///
    /// # Errors
    /// [`TellError`], with the message; [`Cause::MailboxFull`], [`Cause::Opening`] or
    /// [`Cause::LinkDown`] if `tell` would wait.
    pub fn try_tell<M: Message>(&self, message: M) -> Result<(), TellError<M>>
    where
        A: Accepts<M>,
    {
        try_tell(self.destination(), message)
    }

    /// Waits for room for one message, and reserves it: the [`Permit`] then sends without waiting.
    /// This way a program makes a message only once there is room for it.
    ///
    /// # Errors
    /// The [`Cause`] why there is no room, as for a `tell`.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, its turn goes to the next sender.
    pub async fn reserve<M: Message>(&self) -> Result<ActorPermit<A, M>, Cause>
    where
        A: Accepts<M>,
    {
        Permit::reserve(self.destination()).await
    }

    /// Sends a message and waits for its answer. The timeout is 5 seconds, or as [`Ask`] says.
    ///
    /// # Errors
    /// [`AskError`](crate::AskError).
    pub fn ask<M>(&self, message: M) -> ActorAsk<'_, A, M>
    where
        A: Accepts<M>,
    {
        self.raw().ask(message)
    }

    /// Returns the same reference with this timeout for its asks, unless an ask sets its own: to
    /// the millisecond, at most 49 days. Clones of the reference, and references made of it
    /// ([`asker`](Self::asker), [`downgrade`](Self::downgrade)), keep the timeout. A reference that
    /// arrives in a message has none.
    pub fn with_ask_timeout(self, timeout: Duration) -> Self {
        ActorRef::with(self.destination().clone(), AskTimeout::of(timeout))
    }

    /// Returns a recipient of the same actor, which can be told `M`.
    pub fn recipient<M: Message>(&self) -> Recipient<M>
    where
        A: Accepts<M>,
    {
        self.erase()
    }

    /// Returns a recipient of the same actor, which can be asked `M`.
    pub fn asker<M: Message>(&self) -> Recipient<M, A::Reply>
    where
        A: Accepts<M>,
    {
        self.erase()
    }

    /// Returns the address of the actor.
    pub fn address(&self) -> &Address {
        self.destination().address(|near| near.cell().address())
    }

    /// Returns true if the actor is on this node.
    pub fn is_local(&self) -> bool {
        self.destination().is_near()
    }

    fn erase<M: Message, R: Send + 'static>(&self) -> Recipient<M, R>
    where
        A: Accepts<M>,
    {
        let recipient = match self.destination() {
            Destination::Local(near) => {
                Recipient::local(near.shared(), near.cell().route(TypeId::of::<M>(), None))
            }
            Destination::ByAddress(elsewhere) => {
                Recipient::new(Destination::ByAddress(elsewhere.clone()))
            }
        };
        recipient.with_timeout_of(self.raw().ask_timeout.or(A::ASK_TIMEOUT))
    }

    pub(super) fn ask_timeout(&self) -> AskTimeout {
        self.raw().ask_timeout
    }

    pub(super) fn destination(&self) -> &Destination<ActorPort<A>> {
        &self.raw().to
    }

    fn raw(&self) -> &RawActorRef<A> {
        A::raw(&self.client)
    }
}

impl<A: Handlers> RawActorRef<A> {
    /// See [`ActorRef::tell`].
    pub fn tell<M>(&self, message: M) -> ActorTell<'_, A, M>
    where
        A: Accepts<M>,
    {
        Tell::new(&self.to, message)
    }

    /// See [`ActorRef::ask`].
    #[inline]
    pub fn ask<M>(&self, message: M) -> ActorAsk<'_, A, M>
    where
        A: Accepts<M>,
    {
        Ask::new(&self.to, message, self.ask_timeout.get().or(A::ASK_TIMEOUT))
    }
}

impl<A: Handlers> Deref for ActorRef<A> {
    type Target = A::Client;
    fn deref(&self) -> &A::Client {
        &self.client
    }
}

impl<A: Handlers> Clone for RawActorRef<A> {
    fn clone(&self) -> Self {
        RawActorRef { to: OutlinedDrop::new(self.to.clone()), ask_timeout: self.ask_timeout }
    }
}

impl<A: Handlers> Clone for ActorRef<A> {
    fn clone(&self) -> Self {
        ActorRef { client: A::client(self.raw().clone()) }
    }
}

impl<A: Handlers> PartialEq for ActorRef<A> {
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address()
    }
}

impl<A: Handlers> Eq for ActorRef<A> {}

impl<A: Handlers> Hash for ActorRef<A> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
}

impl<A: Handlers> fmt::Debug for ActorRef<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActorRef<{}>({})", A::NAME, self.address())
    }
}
