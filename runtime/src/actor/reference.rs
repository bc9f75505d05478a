//! `ActorRef`: one type for an actor of this node and of another.

mod archived;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::cell::{Cell, Letter, kind};
use super::life::is_running;
use super::port::{self, AskPort, Line, Pending, Port, Wanted};
use super::route::{Label, reply_layout};
use super::tell::{Tell, Told, try_tell};
use super::{Accepts, Ask, Asked, Client, Handlers, Recipient, ReplyTo};
use crate::address::Address;
use crate::error::{Cause, TellError};
use crate::exit::ActorExit;
use crate::mailbox::Room;
use crate::message::Message;
use crate::node::Node;
use crate::remote::{Lane, Outbound, signal};
use crate::resident::{Halt, Resident};
use crate::view::Input;

pub use archived::ArchivedActorRef;

/// Leads to an actor, of this node or of another. A pointer in size and cheap to clone; equal to
/// another reference when both lead to the same actor in the same way (see [`Address`]); may be a field
/// of a message. Dereferences to the actor's generated client: `teller.balance("ada".into()).await`.
///
/// Looked up by name on another node, it leads to whatever has the name there; otherwise to exactly one
/// actor, also when its name is given to another one later.
pub struct ActorRef<A: Handlers> {
    client: A::Client,
}

/// What is behind an `ActorRef`, without the client's methods.
pub struct Raw<A: Handlers> {
    lead: Arc<Lead<A>>,
}

struct Lead<A: Handlers> {
    address: Address,
    way: Way<A>,
}

enum Way<A: Handlers> {
    Local(Arc<Cell<A>>),
    Remote(Outbound, Node),
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
            let way = match node.outbound(&address, kind::<A>()) {
                Ok(outbound) => Way::Remote(outbound, node.clone()),
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

    /// Sends a message when there is room for it, and, to another node, a link. `Ok` says that it is in
    /// the actor's mailbox, or on its way in this node's memory.
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

    /// The same actor, known only as one that can be told `M`.
    pub fn recipient<M: Message>(&self) -> Recipient<M>
    where
        A: Accepts<M>,
    {
        self.erase()
    }

    /// The same actor, known only as one that can be asked `M`.
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

    /// Whether the actor is on this node.
    pub fn is_local(&self) -> bool {
        matches!(self.raw().lead.way, Way::Local(_))
    }

    /// Has the actor stop after the message it is handling; what waits in its mailbox becomes dead
    /// letters. Returns when the request is on its way, see [`wait_stopped`](ActorRef::wait_stopped).
    /// Stopping an actor that has stopped is no error.
    ///
    /// # Errors
    /// [`Cause`] when the actor cannot be reached.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, the actor goes on.
    pub async fn stop(&self) -> Result<(), Cause> {
        self.halt(Halt::Stop).await
    }

    /// Has the actor handle what it accepted so far, accept nothing more, and stop.
    ///
    /// # Errors
    /// As [`stop`](ActorRef::stop).
    ///
    /// # Cancel safety
    /// As [`stop`](ActorRef::stop).
    pub async fn drain(&self) -> Result<(), Cause> {
        self.halt(Halt::Drain).await
    }

    /// Ends the actor where its running handler waits next; the handler and the actor are dropped, and
    /// `on_stop` does not run.
    ///
    /// # Errors
    /// As [`stop`](ActorRef::stop).
    ///
    /// # Cancel safety
    /// As [`stop`](ActorRef::stop).
    pub async fn kill(&self) -> Result<(), Cause> {
        self.halt(Halt::Kill).await
    }

    /// Waits until the actor has ended, its state is dropped and its name is free. An actor that waits
    /// for itself waits forever.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn wait_stopped(&self) -> ActorExit {
        match &self.raw().lead.way {
            Way::Local(cell) => {
                let mut exit = cell.exit();
                let ended = exit.wait_for(Option::is_some).await;
                ended.ok().and_then(|exit| exit.clone()).unwrap_or(ActorExit::Gone)
            }
            Way::Remote(outbound, _) => outbound.closed().await,
            Way::Nowhere(_) => ActorExit::Gone,
        }
    }

    pub(super) fn stop_local(&self) {
        if let Way::Local(cell) = &self.raw().lead.way {
            cell.halt(Halt::Stop);
        }
    }

    /// Makes sure that the actor is there.
    pub(super) async fn touch(&self) -> Result<(), Cause> {
        match &self.raw().lead.way {
            Way::Local(_) => Ok(()),
            Way::Remote(outbound, _) => outbound.signal(signal::TOUCH, Lane::Control).await,
            Way::Nowhere(cause) => Err(cause.clone()),
        }
    }

    async fn halt(&self, halt: Halt) -> Result<(), Cause> {
        let (outbound, sent) = match &self.raw().lead.way {
            Way::Local(cell) => {
                cell.halt(halt);
                return Ok(());
            }
            Way::Nowhere(cause) => return Err(cause.clone()),
            Way::Remote(outbound, _) => (outbound, match halt {
                Halt::Stop => (signal::STOP, Lane::Control),
                Halt::Kill => (signal::KILL, Lane::Control),
                Halt::Drain => (signal::DRAIN, Lane::Data),
            }),
        };
        match outbound.signal(sent.0, sent.1).await {
            Err(Cause::Stopped) => Ok(()),
            other => other,
        }
    }

    fn erase<M: Message, R>(&self) -> Recipient<M, R>
    where
        A: Accepts<M>,
    {
        let Lead { address, way } = &*self.raw().lead;
        match way {
            Way::Local(cell) => Recipient::local(cell.clone(), cell.route(M::ID, None)),
            Way::Remote(outbound, node) => {
                Recipient::remote(address.clone(), outbound.clone(), node.clone())
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

/// Puts a message into an actor of this node; on an error it is left in `message`.
fn put<A: Accepts<M>, M: Message>(
    cell: &Cell<A>,
    room: Room<'_>,
    message: &mut Option<M>,
    reply: ReplyTo<A::Reply>,
    deadline: Option<Instant>,
) -> Result<(), Cause> {
    let Some(taken) = message.take() else { return Ok(()) };
    match A::Input::from_local(taken, cell.node()) {
        Ok(input) => {
            let label = const { &Label { id: M::ID, name: M::NAME } };
            cell.commit(room, Letter { label, deadline, envelope: A::envelope(input, reply) });
            Ok(())
        }
        Err((back, cause)) => {
            *message = Some(back);
            Err(cause)
        }
    }
}

impl<A: Accepts<M>, M: Message> Port<M> for Raw<A> {
    fn poll_tell(
        &self,
        message: &mut Option<M>,
        line: &mut Line,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Cause>> {
        match &self.lead.way {
            Way::Local(cell) => {
                let room = ready!(line.poll_room(cell.mailbox(), cell.token(), cx))?;
                Poll::Ready(put(cell, room, message, ReplyTo::nobody(), None))
            }
            Way::Remote(outbound, _) => {
                line.poll_send(outbound, message, Wanted::NOTHING, cx).map_ok(|_| ())
            }
            Way::Nowhere(cause) => Poll::Ready(Err(cause.clone())),
        }
    }

    fn try_tell(&self, message: &mut Option<M>) -> Result<(), Cause> {
        match &self.lead.way {
            Way::Local(cell) => {
                let room = port::try_room(cell.mailbox())?;
                put(cell, room, message, ReplyTo::nobody(), None)
            }
            Way::Remote(outbound, _) => port::try_send(outbound, message),
            Way::Nowhere(cause) => Err(cause.clone()),
        }
    }

    fn leave(&self, line: &mut Line) {
        if let Way::Local(cell) = &self.lead.way {
            line.leave(cell.mailbox());
        }
    }
}

impl<A: Accepts<M>, M: Message> AskPort<M> for Raw<A> {
    type Reply = A::Reply;

    fn poll_ask(
        &self,
        message: &mut Option<M>,
        deadline: Instant,
        line: &mut Line,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Pending<A::Reply>, Cause>> {
        match &self.lead.way {
            Way::Local(cell) if is_running(cell.token()) => Poll::Ready(Err(Cause::SelfAsk)),
            Way::Local(cell) => {
                let room = ready!(line.poll_room(cell.mailbox(), cell.token(), cx))?;
                let (sender, receiver) = oneshot::channel();
                let put = put(cell, room, message, ReplyTo::local(sender), Some(deadline));
                Poll::Ready(put.map(|()| Pending::Local(receiver)))
            }
            Way::Remote(outbound, node) => {
                let wanted =
                    Wanted { reply: const { reply_layout::<A::Reply>() }, deadline: Some(deadline) };
                let answer = ready!(line.poll_send(outbound, message, wanted, cx))?;
                Poll::Ready(Pending::remote(answer, node))
            }
            Way::Nowhere(cause) => Poll::Ready(Err(cause.clone())),
        }
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
