//! `Ref`: an actor known only by a protocol that it serves, so that who uses it need not know its
//! type.
//!
//! - **PT-1 whole**: a reference that was made of an actor, or looked up, leads to an actor that
//!   accepted every message of its protocol then, with the replies that it names. Of one that
//!   follows a name each send finds out.
//! - **PT-2 by itself**: on the wire there is no protocol. Each message is one that the actor lists
//!   in its own table, so that a server may serve more than its clients know.

mod archived;
mod signature;

use std::any::TypeId;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::destination::Destination;
use super::permit::Permit;
use super::port::{AnyActor, AskPort, Find, Port, SharedActor};
use super::route::forms;
use super::tell::{Tell, try_tell};
use super::time_limit::AskTimeout;
use super::{ActorRef, Ask, Handlers, Local, Reply};
use crate::address::Address;
use crate::error::{Cause, TellError};
use crate::message::Message;
use crate::node::Node;
use crate::remote::{Accepted, MessageForms};
use crate::resident::Resident;
use crate::schema::Kind;
use crate::view::Input;

pub use archived::ArchivedRef;
pub use signature::{Method, Parameter, Place, Signature, place};

/// Messages and their replies that an actor can serve: written by `#[protocol]` on a trait, whose
/// name is that of a type then. A [`Ref`] leads to an actor that serves it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a protocol",
    note = "put `#[protocol]` on `trait {Self}`"
)]
pub trait Protocol: Sized + Send + Sync + 'static {
    /// Its name, on every node.
    const NAME: &'static str;
    /// The type that a [`Ref`] of it dereferences to: a method for each message.
    type Client: Send + Sync + 'static;
    #[doc(hidden)]
    const CALLS: &'static [Call];
    #[doc(hidden)]
    const SIGNATURES: &'static [Signature];
    /// The error of the compiler for a handler whose method the protocol does not have.
    #[doc(hidden)]
    const OTHER: &'static str;
    #[doc(hidden)]
    fn client(raw: RawRef<Self>) -> Self::Client;
    #[doc(hidden)]
    fn raw(client: &Self::Client) -> &RawRef<Self>;
}

/// A protocol that has the message `M`. Written by `#[protocol]`; a bound for generic code.
#[diagnostic::on_unimplemented(
    message = "protocol `{Self}` has no message `{M}`",
    label = "no method of `{Self}` is `{M}`"
)]
pub trait Includes<M>: Protocol {
    /// The answer to it.
    type Reply: Reply;
    /// The message itself.
    #[doc(hidden)]
    type Message: Input<Message = M>;
    /// Its place in [`Protocol::CALLS`].
    #[doc(hidden)]
    const PLACE: usize;
}

/// A protocol that an actor of type `A` serves: it accepts all of its messages, and answers them
/// so. Every such actor does; nothing has to be written.
pub trait ServedBy<A: Handlers>: Protocol {}

/// One message of a protocol.
#[doc(hidden)]
pub struct Call {
    pub(super) forms: MessageForms,
    /// Its name, for people.
    pub(super) name: &'static str,
    message: fn() -> TypeId,
    reply: fn() -> TypeId,
}

impl Call {
    /// The message `M` with the reply `R`.
    pub const fn of<M: Message, R: Reply>() -> Self {
        let forms = forms::<M, R>();
        assert!(
            !forms.layouts.is_empty() && !forms.replies.is_empty(),
            "what a protocol sends crosses nodes: neither its messages nor its replies are local"
        );
        Call { forms, name: M::NAME, message: TypeId::of::<M>, reply: TypeId::of::<R> }
    }
}

/// Compiles if an actor serves a protocol.
#[doc(hidden)]
pub const fn serves<P: ServedBy<A>, A: Handlers>() {}

/// Leads to some actor that serves the protocol `P`, of this node or of another, whatever its type.
/// Three words in size and cheap to clone; equal to another when both lead to the same actor in the
/// same way; may be a field of a message. Dereferences to the protocol's client:
/// `bank.balance("ada".into()).await`.
///
/// Made of an actor ([`ActorRef::protocol`]), found by a name ([`Node::reference`],
/// [`Node::when_reference`]), or received; or leads to whatever has a name
/// ([`Node::named_reference`]).
pub struct Ref<P: Protocol> {
    client: P::Client,
}

/// The [`Tell`] that a [`Ref<P>`](Ref) makes of an `M`.
pub type RefTell<'a, P, M> = Tell<'a, Served<P>, Sent<P, M>>;

/// The [`Ask`] that a [`Ref<P>`](Ref) makes of an `M`.
pub type RefAsk<'a, P, M> = Ask<'a, Served<P>, Sent<P, M>, <P as Includes<M>>::Reply>;

/// The [`Permit`] that a [`Ref<P>`](Ref) makes for an `M`.
pub type RefPermit<P, M> = Permit<Served<P>, M>;

/// The same `M`, if the protocol has it: see `ActorTell`.
type Sent<P, M> = <<P as Includes<M>>::Message as Input>::Message;

/// The inner part of a `Ref`, without the client's methods.
#[doc(hidden)]
pub struct RawRef<P: Protocol> {
    to: Destination<Served<P>>,
    ask_timeout: AskTimeout,
}

/// The way into an actor of this node that serves a protocol.
#[doc(hidden)]
pub struct Served<P>(Arc<Entries>, PhantomData<fn() -> P>);

/// An actor, and the place of each message of a protocol in its table.
struct Entries {
    actor: Arc<dyn Resident>,
    routes: Box<[u16]>,
}

impl<A: Handlers> ActorRef<A> {
    /// Returns the same actor, known only as one that serves a protocol.
    pub fn protocol<P: ServedBy<A>>(&self) -> Ref<P> {
        const { serves::<P, A>() };
        let to = match self.destination() {
            Destination::Local(near) => {
                let actor: Arc<dyn Resident> = near.shared();
                let address = actor.address().clone();
                // PT-1: its table has them all.
                Served::of_all(actor).map_or_else(
                    |_| Destination::dead(address, Cause::NotAccepted),
                    Destination::Local,
                )
            }
            Destination::Elsewhere(elsewhere) => Destination::Elsewhere(elsewhere.clone()),
        };
        Ref::with(to, self.ask_timeout().or(A::ASK_TIMEOUT))
    }
}

impl<A: Handlers, P: ServedBy<A>> From<ActorRef<A>> for Ref<P> {
    fn from(actor: ActorRef<A>) -> Self {
        actor.protocol()
    }
}

impl<P: Protocol> Ref<P> {
    pub(super) fn new(to: Destination<Served<P>>) -> Self {
        Ref::with(to, AskTimeout::default())
    }

    fn with(to: Destination<Served<P>>, ask_timeout: AskTimeout) -> Self {
        Ref { client: P::client(RawRef { to, ask_timeout }) }
    }

    /// A reference as `node` sees it; see [`Destination::bind`].
    pub(super) fn bind(node: &Node, address: Address) -> Self {
        Ref::new(Destination::bind(node, address))
    }

    /// Sends a message of the protocol; see [`ActorRef::tell`].
    ///
    /// # Errors
    /// [`TellError`], with the message.
    pub fn tell<M>(&self, message: M) -> RefTell<'_, P, M>
    where
        P: Includes<M>,
    {
        Tell::new(self.destination(), message)
    }

    /// Sends a message if that needs no waiting; see [`ActorRef::try_tell`].
    ///
    /// # Errors
    /// [`TellError`], with the message.
    pub fn try_tell<M: Message>(&self, message: M) -> Result<(), TellError<M>>
    where
        P: Includes<M>,
    {
        try_tell(self.destination(), message)
    }

    /// Waits for room for one message; see [`ActorRef::reserve`].
    ///
    /// # Errors
    /// [`Cause`], why there is none.
    ///
    /// # Cancel safety
    /// As of [`ActorRef::reserve`].
    pub async fn reserve<M: Message>(&self) -> Result<RefPermit<P, M>, Cause>
    where
        P: Includes<M>,
    {
        Permit::reserve(self.destination()).await
    }

    /// Sends a message of the protocol and waits for its answer; see [`ActorRef::ask`].
    ///
    /// # Errors
    /// [`AskError`](crate::AskError).
    pub fn ask<M>(&self, message: M) -> RefAsk<'_, P, M>
    where
        P: Includes<M>,
    {
        self.raw().ask(message)
    }

    /// Returns the same reference, whose asks wait this long; see [`ActorRef::with_ask_timeout`].
    pub fn with_ask_timeout(self, timeout: Duration) -> Self {
        Ref::with(self.destination().clone(), AskTimeout::of(timeout))
    }

    /// Where the actor is.
    pub fn address(&self) -> &Address {
        self.destination().address(|near| near.0.actor.address())
    }

    /// Returns true if the actor is on this node.
    pub fn is_local(&self) -> bool {
        self.destination().is_near()
    }

    pub(super) fn destination(&self) -> &Destination<Served<P>> {
        &self.raw().to
    }

    fn raw(&self) -> &RawRef<P> {
        P::raw(&self.client)
    }
}

impl<P: Protocol> RawRef<P> {
    /// See [`Ref::ask`].
    pub fn ask<M>(&self, message: M) -> RefAsk<'_, P, M>
    where
        P: Includes<M>,
    {
        Ask::new(&self.to, message, self.ask_timeout.get())
    }
}

impl<P: Protocol> Served<P> {
    /// The way into an actor; the first message of the protocol that it does not accept, or answers
    /// otherwise.
    pub(super) fn of_all(actor: Arc<dyn Resident>) -> Result<Self, &'static Call> {
        let route =
            |call: &'static Call| actor.route((call.message)(), Some((call.reply)())).ok_or(call);
        let routes = P::CALLS.iter().map(route).collect::<Result<_, _>>()?;
        Ok(Served(Arc::new(Entries { actor, routes }), PhantomData))
    }

    pub(super) fn shared(&self) -> Arc<dyn Resident> {
        self.0.actor.clone()
    }
}

/// Returns the first message of a protocol that is not among those an actor of another node
/// accepts in a form that this node knows (PT-2), and why.
pub(super) fn missing<P: Protocol>(all: &[Accepted]) -> Option<(&'static str, Cause)> {
    P::CALLS.iter().find_map(|call| {
        if all.iter().any(|row| call.forms.has(row)) {
            return None;
        }
        let is_known = all.iter().any(|row| row.id == call.forms.id);
        Some((call.name, if is_known { Cause::SchemaMismatch } else { Cause::NotAccepted }))
    })
}

impl<P: Protocol> Find for Served<P> {
    fn actor(&self) -> AnyActor<'_> {
        AnyActor(&*self.0.actor)
    }

    fn kind() -> Kind {
        Kind::ANY
    }

    fn of(SharedActor(actor): SharedActor) -> Result<Self, Cause> {
        Served::of_all(actor).map_err(|_| Cause::NotAccepted)
    }
}

impl<P: Includes<M>, M: Message> Port<M> for Served<P> {
    type Reply = P::Reply;

    const TOLD: MessageForms = forms::<M, Local<()>>();

    fn route(&self) -> u16 {
        self.0.routes[P::PLACE]
    }
}

impl<P: Includes<M>, M: Message> AskPort<M> for Served<P> {
    const ASKED: MessageForms = forms::<M, P::Reply>();
}

impl<P> Clone for Served<P> {
    fn clone(&self) -> Self {
        Served(self.0.clone(), PhantomData)
    }
}

impl<P: Protocol> Deref for Ref<P> {
    type Target = P::Client;

    fn deref(&self) -> &P::Client {
        &self.client
    }
}

impl<P: Protocol> Clone for Ref<P> {
    fn clone(&self) -> Self {
        Ref::with(self.destination().clone(), self.raw().ask_timeout)
    }
}

impl<P: Protocol> PartialEq for Ref<P> {
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address()
    }
}

impl<P: Protocol> Eq for Ref<P> {}

impl<P: Protocol> Hash for Ref<P> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
}

impl<P: Protocol> fmt::Debug for Ref<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ref<{}>({})", P::NAME, self.address())
    }
}
