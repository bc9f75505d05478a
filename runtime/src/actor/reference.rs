//! `ActorRef`: one type for an actor of this node and of another.

mod archived;
mod ending;
mod sending;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use super::cell::{Cell, Home, kind};
use super::tell::{Told, try_tell};
use super::{Accepts, Asked, Client, Handlers, Recipient};
use crate::address::Address;
use crate::error::{Cause, TellError};
use crate::message::Message;
use crate::node::Node;
use crate::remote::{self, RemoteSender, SendKind, signals};
use crate::resident::Resident;

pub use archived::ArchivedActorRef;

/// Leads to an actor, of this node or of another. A pointer in size and cheap to clone; equal to
/// another reference when both lead to the same actor in the same way (see [`Address`]); may be a
/// field of a message. Dereferences to the actor's generated client:
/// `teller.balance("ada".into()).await`.
///
/// Looked up by name on another node, it leads to whatever has the name there; otherwise to exactly
/// one actor, also when its name is given to another one later.
pub struct ActorRef<A: Handlers> {
    client: A::Client,
}

/// What is behind an `ActorRef`, without the client's methods.
pub struct Raw<A: Handlers> {
    lead: Arc<Lead<A>>,
}

/// A `tell` to an actor; see [`Told`].
pub type Tell<'a, A, M> = Told<'a, Raw<A>, M>;

/// An `ask` of an actor; see [`Asked`].
pub type Ask<'a, A, M> = Asked<'a, Raw<A>, M>;

struct Lead<A: Handlers> {
    address: Address,
    way: Way<A>,
}

enum Way<A: Handlers> {
    Local(Arc<dyn Home<A>>),
    Remote(RemoteSender, Node),
    Nowhere(Cause),
}

impl<A: Handlers> ActorRef<A> {
    fn new(address: Address, way: Way<A>) -> Self {
        ActorRef { client: A::Client::new(Raw { lead: Arc::new(Lead { address, way }) }) }
    }

    pub(super) fn local(cell: Arc<Cell<A>>) -> Self {
        ActorRef::new(cell.address().clone(), Way::Local(cell))
    }

    /// A reference as `node` sees it. Never fails: a reference to nobody is one, and a `tell` to it
    /// says so.
    pub(super) fn bind(node: &Node, address: Address) -> Self {
        if address.node() != node.name() {
            let way = match node.sender(&address, kind::<A>()) {
                Ok(sender) => Way::Remote(sender, node.clone()),
                Err(cause) => Way::Nowhere(cause),
            };
            return ActorRef::new(address, way);
        }
        let found = node.residents().at(&address).ok_or(Cause::NoSuchActor);
        let typed = found.and_then(|resident| {
            resident.as_any().downcast::<Cell<A>>().map_err(|_| Cause::WrongActorType)
        });
        match typed {
            Ok(cell) => ActorRef::local(cell),
            Err(cause) => ActorRef::new(address, Way::Nowhere(cause)),
        }
    }

    /// Sends a message when there is room for it, and, to another node, a link. `Ok` says that it
    /// is in the actor's mailbox, or on its way in this node's memory.
    ///
    /// An actor that tells itself does not wait: with its own mailbox full it gets
    /// [`Cause::MailboxFull`] at once.
    ///
    /// # Errors
    /// [`TellError`], with the message.
    pub fn tell<M: Message>(&self, message: M) -> Tell<'_, A, M>
    where
        A: Accepts<M>,
    {
        Told::new(self.raw(), message)
    }

    /// Sends a message if that needs no waiting.
    ///
    /// # Errors
    /// [`TellError`], with the message; [`Cause::MailboxFull`] or [`Cause::LinkDown`] where `tell`
    /// would wait.
    pub fn try_tell<M: Message>(&self, message: M) -> Result<(), TellError<M>>
    where
        A: Accepts<M>,
    {
        try_tell(self.raw(), message)
    }

    /// Sends a message and waits for its answer: 5 seconds, or as long as
    /// [`timeout`](Asked::timeout) says.
    ///
    /// # Errors
    /// [`AskError`](crate::AskError).
    pub fn ask<M: Message>(&self, message: M) -> Ask<'_, A, M>
    where
        A: Accepts<M>,
    {
        Asked::new(self.raw(), message)
    }

    /// Returns the same actor, known only as one that can be told `M`.
    pub fn recipient<M: Message>(&self) -> Recipient<M>
    where
        A: Accepts<M>,
    {
        self.erase()
    }

    /// Returns the same actor, known only as one that can be asked `M`.
    pub fn asker<M: Message>(&self) -> Recipient<M, A::Reply>
    where
        A: Accepts<M>,
    {
        self.erase()
    }

    /// Where the actor is.
    pub fn address(&self) -> &Address {
        &self.raw().lead.address
    }

    /// Returns true if the actor is on this node.
    pub fn is_local(&self) -> bool {
        matches!(self.raw().lead.way, Way::Local(_))
    }

    /// Makes sure that the actor is there.
    pub(super) async fn touch(&self) -> Result<(), Cause> {
        match &self.raw().lead.way {
            Way::Local(_) => Ok(()),
            Way::Remote(sender, _) => {
                remote::signal(sender, SendKind::UrgentSignal(signals::TOUCH)).await
            }
            Way::Nowhere(cause) => Err(cause.clone()),
        }
    }

    fn erase<M: Message, R>(&self) -> Recipient<M, R>
    where
        A: Accepts<M>,
    {
        let Lead { address, way } = &*self.raw().lead;
        match way {
            Way::Local(cell) => Recipient::local(cell.clone(), cell.route(M::ID, None)),
            Way::Remote(sender, node) => {
                Recipient::remote(address.clone(), sender.clone(), node.clone())
            }
            Way::Nowhere(cause) => Recipient::nowhere(address.clone(), cause.clone()),
        }
    }

    fn raw(&self) -> &Raw<A> {
        self.client.raw()
    }
}

impl<A: Handlers> Raw<A> {
    /// See [`ActorRef::tell`].
    pub fn tell<M: Message>(&self, message: M) -> Tell<'_, A, M>
    where
        A: Accepts<M>,
    {
        Told::new(self, message)
    }

    /// See [`ActorRef::ask`].
    pub fn ask<M: Message>(&self, message: M) -> Ask<'_, A, M>
    where
        A: Accepts<M>,
    {
        Asked::new(self, message)
    }
}

impl<A: Handlers> Deref for ActorRef<A> {
    type Target = A::Client;
    fn deref(&self) -> &A::Client {
        &self.client
    }
}

impl<A: Handlers> Clone for Raw<A> {
    fn clone(&self) -> Self {
        Raw { lead: self.lead.clone() }
    }
}

impl<A: Handlers> Clone for ActorRef<A> {
    fn clone(&self) -> Self {
        ActorRef { client: self.client.clone() }
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
