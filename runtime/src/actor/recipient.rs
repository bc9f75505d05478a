//! `Recipient`: an actor known only by a message it takes.

mod archived;

use std::any::TypeId;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use tokio::time::Instant;

use super::port::{self, AskPort, Line, LocalAnswer, Pending, PendingFate, Port};
use super::route::accepted;
use super::running::is_running;
use super::tell::{Told, try_tell};
use super::{Asked, Local, Reply, ReplyTo, remote_send};
use crate::address::Address;
use crate::deadlines::Deadlines;
use crate::error::{Cause, TellError};
use crate::mailbox::Room;
use crate::message::Message;
use crate::node::Node;
use crate::remote::{self, RemoteSender, SendKind, signals};
use crate::resident::Resident;
use crate::slot::slot;

pub use archived::ArchivedRecipient;

/// Leads to some actor that accepts `M`, of this node or of another, whatever its type. With `R`
/// named, it answers `R` and can be asked. A pointer in size and cheap to clone; may be a field of
/// a message.
pub struct Recipient<M: Message, R = Unasked> {
    post: Arc<Post>,
    _message: PhantomData<fn(M) -> R>,
}

/// The reply type of a [`Recipient`] that is only told.
pub enum Unasked {}

struct Post {
    address: Address,
    way: Way,
}

enum Way {
    /// The actor, and the place of the message in its table.
    Local(Arc<dyn Resident>, u16),
    Remote(RemoteSender, Node),
    Nowhere(Cause),
}

impl<M: Message, R> Recipient<M, R> {
    fn new(address: Address, way: Way) -> Self {
        Recipient { post: Arc::new(Post { address, way }), _message: PhantomData }
    }

    pub(super) fn local(resident: Arc<dyn Resident>, route: Option<u16>) -> Self {
        let address = resident.address().clone();
        match route {
            Some(route) => Recipient::new(address, Way::Local(resident, route)),
            None => Recipient::nowhere(address, Cause::NotAccepted),
        }
    }

    pub(super) fn remote(address: Address, sender: RemoteSender, node: Node) -> Self {
        Recipient::new(address, Way::Remote(sender, node))
    }

    pub(super) fn nowhere(address: Address, cause: Cause) -> Self {
        Recipient::new(address, Way::Nowhere(cause))
    }

    /// Sends a message; see [`ActorRef::tell`](super::ActorRef::tell).
    ///
    /// # Errors
    /// [`TellError`], with the message.
    pub fn tell(&self, message: M) -> Told<'_, Self, M> {
        Told::new(self, message)
    }

    /// Sends a message if that needs no waiting; see
    /// [`ActorRef::try_tell`](super::ActorRef::try_tell).
    ///
    /// # Errors
    /// [`TellError`], with the message.
    pub fn try_tell(&self, message: M) -> Result<(), TellError<M>> {
        try_tell(self, message)
    }

    /// Where the actor is.
    pub fn address(&self) -> &Address {
        &self.post.address
    }

    /// Returns true if the actor is on this node.
    pub fn is_local(&self) -> bool {
        matches!(self.post.way, Way::Local(..))
    }

    /// Makes sure that the actor is there.
    pub(super) async fn touch(&self) -> Result<(), Cause> {
        match &self.post.way {
            Way::Local(..) => Ok(()),
            Way::Remote(sender, _) => {
                remote::signal(sender, SendKind::UrgentSignal(signals::TOUCH)).await
            }
            Way::Nowhere(cause) => Err(cause.clone()),
        }
    }
}

impl<M: Message, R: 'static> Recipient<M, R> {
    /// A recipient as `node` sees it; never fails, as `ActorRef::bind`.
    pub(super) fn bind(node: &Node, address: Address) -> Self {
        if address.node() != node.name() {
            return match node.sender(&address, 0) {
                Ok(sender) => Recipient::remote(address, sender, node.clone()),
                Err(cause) => Recipient::nowhere(address, cause),
            };
        }
        let reply = TypeId::of::<R>();
        let reply = (reply != TypeId::of::<Unasked>()).then_some(reply);
        match node.residents().at(&address) {
            Some(resident) => {
                let route = resident.route(M::ID, reply);
                Recipient::local(resident, route)
            }
            None => Recipient::nowhere(address, Cause::NoSuchActor),
        }
    }
}

impl<M: Message, R: Reply> Recipient<M, R> {
    /// Sends a message and waits for its answer; see [`ActorRef::ask`](super::ActorRef::ask).
    ///
    /// # Errors
    /// [`AskError`](crate::AskError).
    pub fn ask(&self, message: M) -> Asked<'_, Self, M> {
        Asked::new(self, message)
    }
}

/// Puts an ask into an actor of this node; on an error its message is left in `message`.
fn put_ask<M: Message, R: Reply>(
    resident: &dyn Resident,
    (room, route): (Room<'_>, u16),
    message: &mut Option<M>,
    deadline: Instant,
    waker: &Waker,
) -> Result<Pending<R>, Cause> {
    let (asker, answerer, ask) = slot(deadline, waker.clone());
    let mut letter = message.take().map(|message| (message, ReplyTo::local(answerer)));
    let put = resident.put_ask(room, route, &mut letter, ask);
    *message = letter.map(|(message, _)| message);
    put.map(|()| Pending::Local(LocalAnswer(asker)))
}

impl<M: Message, R> Port<M> for Recipient<M, R> {
    fn poll_tell(
        &self,
        message: &mut Option<M>,
        fate: Option<&mut Option<PendingFate>>,
        line: &mut Line,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Cause>> {
        match &self.post.way {
            Way::Local(resident, route) => {
                let room = ready!(line.poll_room(resident.intake(), resident.token(), cx))?;
                let known = resident.put(room, *route, message)?;
                if let Some(fate) = fate {
                    *fate = Some(PendingFate::Known(known));
                }
                Poll::Ready(Ok(()))
            }
            Way::Remote(sender, _) => {
                let to = (sender, const { &accepted::<M, Local<()>>() });
                remote_send::poll_tell(to, message, fate, &mut line.remote, cx)
            }
            Way::Nowhere(cause) => Poll::Ready(Err(cause.clone())),
        }
    }

    fn try_tell(&self, message: &mut Option<M>) -> Result<(), Cause> {
        match &self.post.way {
            Way::Local(resident, route) => {
                resident.put(port::try_room(resident.intake())?, *route, message).map(|_| ())
            }
            Way::Remote(sender, _) => {
                let accepted = const { &accepted::<M, Local<()>>() };
                remote_send::try_send((sender, accepted, SendKind::Tell), message).map(|_| ())
            }
            Way::Nowhere(cause) => Err(cause.clone()),
        }
    }

    fn leave(&self, line: &mut Line) {
        if let Way::Local(resident, _) = &self.post.way {
            line.leave(resident.intake());
        }
    }

    fn deadlines(&self) -> Option<&Deadlines> {
        match &self.post.way {
            Way::Local(resident, _) => Some(resident.deadlines()),
            Way::Remote(_, node) => Some(node.deadlines()),
            Way::Nowhere(_) => None,
        }
    }
}

impl<M: Message, R: Reply> AskPort<M> for Recipient<M, R> {
    type Reply = R;

    fn poll_ask(
        &self,
        message: &mut Option<M>,
        deadline: Instant,
        line: &mut Line,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Pending<R>, Cause>> {
        match &self.post.way {
            Way::Local(resident, _) if is_running(resident.token()) => {
                Poll::Ready(Err(Cause::SelfAsk))
            }
            Way::Local(resident, route) => {
                let room = ready!(line.poll_room(resident.intake(), resident.token(), cx))?;
                let to = (room, *route);
                Poll::Ready(put_ask(&**resident, to, message, deadline, cx.waker()))
            }
            Way::Remote(sender, node) => {
                let accepted = const { &accepted::<M, R>() };
                let to = (sender, accepted, remote_send::ask(deadline));
                let awaited = ready!(remote_send::poll_send(to, message, &mut line.remote, cx))?;
                Poll::Ready(Pending::remote(awaited, node))
            }
            Way::Nowhere(cause) => Poll::Ready(Err(cause.clone())),
        }
    }

    fn try_ask(&self, message: &mut Option<M>, deadline: Instant) -> Result<Pending<R>, Cause> {
        match &self.post.way {
            Way::Local(resident, _) if is_running(resident.token()) => Err(Cause::SelfAsk),
            Way::Local(resident, route) => {
                let room = port::try_room(resident.intake())?;
                put_ask(&**resident, (room, *route), message, deadline, Waker::noop())
            }
            Way::Remote(sender, node) => {
                let to = (sender, const { &accepted::<M, R>() }, remote_send::ask(deadline));
                Pending::remote(remote_send::try_send(to, message)?, node)
            }
            Way::Nowhere(cause) => Err(cause.clone()),
        }
    }
}

impl<M: Message, R> Clone for Recipient<M, R> {
    fn clone(&self) -> Self {
        Recipient { post: self.post.clone(), _message: PhantomData }
    }
}

impl<M: Message, R> PartialEq for Recipient<M, R> {
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address()
    }
}

impl<M: Message, R> Eq for Recipient<M, R> {}

impl<M: Message, R> Hash for Recipient<M, R> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
}

impl<M: Message, R> fmt::Debug for Recipient<M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recipient<{}>({})", M::NAME, self.address())
    }
}
