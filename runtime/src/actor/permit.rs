//! `reserve`: room for a message before there is one.

use std::future::poll_fn;
use std::marker::PhantomData;
use std::task::{Context, Poll, ready};

use tokio::task::coop;

use super::destination::{Destination, View};
use super::port::{Line, NearRoom, Port, UNSENT};
use super::remote_send;
use super::sending::Sending;
use crate::error::{Cause, TellError};
use crate::message::Message;
use crate::remote::Waiter;

/// Room for one message in the mailbox of an actor, made by
/// [`ActorRef::reserve`](super::ActorRef::reserve). It counts as a message that waits there;
/// dropped, the room goes to the next sender.
///
/// In a mailbox of another node the room is for a message whose archive has
/// [`limits::PERMIT_BYTES`](crate::limits::PERMIT_BYTES) at most, and it ends with the link.
#[must_use = "room that is kept for nothing holds up others"]
pub struct Permit<'a, P: Port<M>, M: Message> {
    to: &'a Destination<P>,
    room: Reserved<'a>,
    _message: PhantomData<fn(M)>,
}

/// Room in a mailbox of this node, or of another one.
enum Reserved<'a> {
    Near(NearRoom<'a>),
    Far(Waiter),
}

impl<'a, P: Port<M>, M: Message> Permit<'a, P, M> {
    pub(super) async fn reserve(to: &'a Destination<P>) -> Result<Self, Cause> {
        let mut sending = Sending::<P, M>::for_room(to);
        let room = poll_fn(|cx| {
            let turn = ready!(coop::poll_proceed(cx));
            let room = ready!(poll_reserve::<P, M>(to, &mut sending.line, cx));
            turn.made_progress();
            Poll::Ready(room)
        });
        Ok(Permit { to, room: room.await?, _message: PhantomData })
    }

    /// Sends a message to the room. `Ok` says the same as that of a `tell`; what is sent to an
    /// actor of this node that was stopped since is a dead letter.
    ///
    /// # Errors
    /// [`TellError`], with the message. To another node: `LinkDown` where the link was lost, and
    /// the room with it; `MailboxFull` where the message is larger than the room and there is no
    /// more of it now; `Stopped`.
    pub fn tell(self, message: M) -> Result<(), TellError<M>> {
        let mut message = Some(message);
        let sent = match (self.room, self.to.view()) {
            (Reserved::Near(room), View::Local(actor)) => {
                actor.put(room, &mut message, None).map(|_| ())
            }
            (Reserved::Far(waiter), View::Remote(sender, _)) => {
                remote_send::send_reserved((sender, const { &P::TOLD }), &mut message, waiter)
            }
            // A reference leads to the same actor as long as it lives.
            _ => Err(Cause::Stopped),
        };
        sent.map_err(|cause| {
            let message = message.take().expect(UNSENT);
            TellError { message, cause }
        })
    }
}

fn poll_reserve<'a, P: Port<M>, M: Message>(
    to: &'a Destination<P>,
    line: &mut Line,
    cx: &mut Context<'_>,
) -> Poll<Result<Reserved<'a>, Cause>> {
    match to.view() {
        View::Local(actor) => {
            let whom = actor.actor().0;
            let Poll::Ready(room) = line.poll_room(whom.intake(), whom.token(), cx) else {
                line.wait_for_room(whom)?;
                return Poll::Pending;
            };
            to.leave::<M>(line);
            Poll::Ready(room.map(|room| Reserved::Near(NearRoom(room))))
        }
        View::Remote(sender, _) => {
            let to = (sender, const { &P::TOLD });
            ready!(remote_send::poll_reserve::<M>(to, &mut line.remote, cx))?;
            Poll::Ready(Ok(Reserved::Far(std::mem::take(&mut line.remote))))
        }
        View::Dead(cause) => Poll::Ready(Err(cause.clone())),
    }
}
