//! `reserve`: room for a message that need not exist yet.

use std::future::poll_fn;
use std::marker::PhantomData;
use std::task::{Context, Poll, ready};

use tokio::task::coop;

use super::destination::{Destination, DestinationView, at_end};
use super::entry::LocalSender;
use super::port::{AskPort, NewAsk, Port, SendWait, UNSENT};
use super::remote_send;
use super::sending::SendTarget;
use crate::error::{Cause, TellError};
use crate::fate::Fate;
use crate::mailbox::MailboxRoom;
use crate::message::Message;
use crate::node::Node;
use crate::remote::{RemoteSender, Waiter};

/// Room for one message in the mailbox of an actor. Created by
/// [`ActorRef::reserve`](crate::ActorRef::reserve). It counts as a message that waits there;
/// dropping it gives the room to the next sender. A drain of an actor of this node waits for it, as
/// for each message that is on its way, and so does a shutdown until its deadline.
///
/// In a mailbox of another node the room is for a message whose archive has at most
/// [`limits::PERMIT_BYTES`](crate::limits::PERMIT_BYTES), and it is lost with the link.
///
/// The aliases of this type are [`ActorPermit`](crate::send::ActorPermit),
/// [`RecipientPermit`](crate::send::RecipientPermit) and [`RefPermit`](crate::send::RefPermit), by
/// the reference that creates it.
#[must_use = "room that is kept for nothing holds up others"]
pub struct Permit<P: Port<M>, M: Message>(ReservedRoom<P, M>);

/// Room in a mailbox of this node or of another one.
enum ReservedRoom<P: Port<M>, M: Message> {
    Near(LocalRoom<P, M>),
    /// Room on another node: the sender to the actor, the waiter that holds the room, and this
    /// node, which is kept alive until the room is used.
    Far(RemoteSender, Waiter, Node),
}

/// Room in the mailbox of an actor of this node, given back when dropped. The actor is `Some` until
/// the room is used.
struct LocalRoom<P: Port<M>, M: Message>(Option<P>, PhantomData<fn(M)>);

impl<P: Port<M> + Clone, M: Message> Permit<P, M> {
    pub(crate) async fn reserve(to: &Destination<P>) -> Result<Self, Cause> {
        let mut heading = SendTarget::new(to);
        let room = poll_fn(|cx| {
            let turn = ready!(coop::poll_proceed(cx));
            let (to, line) = heading.parts();
            let room = ready!(poll_reserve::<P, M>(to, line, cx));
            turn.made_progress();
            Poll::Ready(room)
        });
        room.await.map(Permit)
    }
}

impl<P: Port<M>, M: Message> Permit<P, M> {
    /// Sends a message into the reserved room. `Ok` means the same as for a `tell`; if an actor of
    /// this node was stopped since, the message is a dead letter.
    ///
    /// # Errors
    /// [`TellError`], with the message. For another node: `LinkDown` if the link was lost, and the
    /// room with it; `MailboxFull` if the message is larger than the room and there is no more room
    /// now; `Stopped`.
    pub fn tell(self, message: M) -> Result<(), TellError<M>> {
        let mut message = Some(message);
        let sent = match self.0 {
            ReservedRoom::Near(room) => room.put(&mut message, None).map(|_| ()),
            ReservedRoom::Far(sender, waiter, node) => {
                let to = (&sender, const { &P::TOLD });
                remote_send::send_reserved(to, &node, &mut message, waiter)
            }
        };
        sent.map_err(|cause| {
            let message = message.take().expect(UNSENT);
            TellError { message, cause }
        })
    }
}

impl<P: AskPort<M>, M: Message> Permit<P, M> {
    /// Sends an ask into the room. Empties `message` if and only if it was sent. Fails with
    /// [`Cause::LocalOnly`] if the room is on another node.
    pub(crate) fn ask(
        self,
        message: &mut Option<M>,
        asked: &mut NewAsk<P::Reply>,
    ) -> Result<(), Cause> {
        match self.0 {
            ReservedRoom::Near(room) => room.put(message, Some(asked)).map(|_| ()),
            ReservedRoom::Far(..) => Err(Cause::LocalOnly),
        }
    }
}

impl<P: Port<M>, M: Message> Permit<P, M> {
    /// Returns true if the actor is on this node and accepts no more messages: a message sent into
    /// the room may then be a dead letter.
    pub(crate) fn is_void(&self) -> bool {
        match &self.0 {
            ReservedRoom::Near(LocalRoom(Some(actor), _)) => actor.actor().0.intake().is_closed(),
            ReservedRoom::Near(LocalRoom(None, _)) => true,
            ReservedRoom::Far(..) => false,
        }
    }
}

impl<P: Port<M>, M: Message> LocalRoom<P, M> {
    fn new(actor: P, room: MailboxRoom<'_>) -> Self {
        room.keep();
        LocalRoom(Some(actor), PhantomData)
    }

    fn put(
        mut self,
        message: &mut Option<M>,
        asked: Option<&mut NewAsk<P::Reply>>,
    ) -> Result<Fate, Cause> {
        // From here on dropping `room` gives it back.
        let Some(actor) = self.0.take() else { return Err(Cause::Stopped) };
        let room = MailboxRoom::kept(actor.actor().0.intake());
        LocalSender::of(&actor).put(room, message, asked)
    }
}

impl<P: Port<M>, M: Message> Drop for LocalRoom<P, M> {
    fn drop(&mut self) {
        if let Some(actor) = &self.0 {
            drop(MailboxRoom::kept(actor.actor().0.intake()));
        }
    }
}

fn poll_reserve<P: Port<M> + Clone, M: Message>(
    to: &Destination<P>,
    line: &mut SendWait,
    cx: &mut Context<'_>,
) -> Poll<Result<ReservedRoom<P, M>, Cause>> {
    match to.view() {
        DestinationView::Local(actor) => {
            let whom = actor.actor().0;
            let Poll::Ready(room) = line.poll_room(whom.intake(), whom.token(), cx) else {
                line.wait_for_room(whom);
                return Poll::Pending;
            };
            to.leave(line);
            let room = room.map_err(|cause| at_end(whom, cause));
            Poll::Ready(room.map(|room| ReservedRoom::Near(LocalRoom::new(actor.clone(), room))))
        }
        DestinationView::Remote(sender, node) => {
            let told = (sender, const { &P::TOLD });
            let Poll::Ready(reserved) = remote_send::poll_reserve::<M>(told, &mut line.remote, cx)
            else {
                if let Destination::ByAddress(to) = to {
                    to.wait_for_room(line);
                }
                return Poll::Pending;
            };
            reserved?;
            let room = std::mem::take(&mut line.remote);
            Poll::Ready(Ok(ReservedRoom::Far(sender.clone(), room, node.clone())))
        }
        DestinationView::Dead(cause) => Poll::Ready(Err(cause.clone())),
    }
}
