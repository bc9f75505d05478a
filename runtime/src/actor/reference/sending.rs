//! Sending through a reference: into a mailbox of this node, or out to another.

use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use tokio::time::Instant;

use super::{Raw, Way};
use crate::actor::cell::{Home, Letter};
use crate::actor::port::{self, AskPort, Line, LocalAnswer, Pending, PendingFate, Port};
use crate::actor::route::{Label, accepted};
use crate::actor::running::is_running;
use crate::actor::{Accepts, ReplyTo, remote_send};
use crate::deadlines::Deadlines;
use crate::error::Cause;
use crate::fate::Fate;
use crate::mailbox::Room;
use crate::message::Message;
use crate::remote::SendKind;
use crate::slot::{Ask, slot};
use crate::view::Input;

/// Puts a message into an actor of this node; on an error it is left in `message`.
fn put<A: Accepts<M>, M: Message>(
    cell: &dyn Home<A>,
    room: Room<'_>,
    message: &mut Option<M>,
    reply: ReplyTo<A::Reply>,
    ask: Option<Arc<dyn Ask>>,
) -> Result<Fate, Cause> {
    let Some(taken) = message.take() else { return Ok(Fate::NotSent) };
    match A::Input::from_local(taken, cell.node()) {
        Ok(input) => {
            let label = const { &Label::of::<A, M>() };
            let envelope = A::envelope(input, reply);
            Ok(cell.commit(room, Letter { label, ask, envelope }))
        }
        Err((back, cause)) => {
            *message = Some(back);
            Err(cause)
        }
    }
}

/// Puts an ask into an actor of this node, as [`put`] does.
fn put_ask<A: Accepts<M>, M: Message>(
    cell: &dyn Home<A>,
    room: Room<'_>,
    message: &mut Option<M>,
    deadline: Instant,
    waker: &Waker,
) -> Result<Pending<A::Reply>, Cause> {
    let (asker, answerer, ask) = slot(deadline, waker.clone());
    put(cell, room, message, ReplyTo::local(answerer), Some(ask))?;
    Ok(Pending::Local(LocalAnswer(asker)))
}

impl<A: Accepts<M>, M: Message> Port<M> for Raw<A> {
    #[inline]
    fn poll_tell(
        &self,
        message: &mut Option<M>,
        fate: Option<&mut Option<PendingFate>>,
        line: &mut Line,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Cause>> {
        match &self.lead.way {
            Way::Local(cell) => {
                let room = ready!(line.poll_room(cell.intake(), cell.token(), cx))?;
                let known = put(&**cell, room, message, ReplyTo::nobody(), None)?;
                if let Some(fate) = fate {
                    *fate = Some(PendingFate::Known(known));
                }
                Poll::Ready(Ok(()))
            }
            Way::Remote(sender, _) => {
                let to = (sender, const { &accepted::<M, A::Reply>() });
                remote_send::poll_tell(to, message, fate, &mut line.remote, cx)
            }
            Way::Nowhere(cause) => Poll::Ready(Err(cause.clone())),
        }
    }

    fn try_tell(&self, message: &mut Option<M>) -> Result<(), Cause> {
        match &self.lead.way {
            Way::Local(cell) => {
                let room = port::try_room(cell.intake())?;
                put(&**cell, room, message, ReplyTo::nobody(), None).map(|_| ())
            }
            Way::Remote(sender, _) => {
                let accepted = const { &accepted::<M, A::Reply>() };
                remote_send::try_send((sender, accepted, SendKind::Tell), message).map(|_| ())
            }
            Way::Nowhere(cause) => Err(cause.clone()),
        }
    }

    fn leave(&self, line: &mut Line) {
        if let Way::Local(cell) = &self.lead.way {
            line.leave(cell.intake());
        }
    }

    fn deadlines(&self) -> Option<&Deadlines> {
        match &self.lead.way {
            Way::Local(cell) => Some(cell.deadlines()),
            Way::Remote(_, node) => Some(node.deadlines()),
            Way::Nowhere(_) => None,
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
                let room = ready!(line.poll_room(cell.intake(), cell.token(), cx))?;
                Poll::Ready(put_ask(&**cell, room, message, deadline, cx.waker()))
            }
            Way::Remote(sender, node) => {
                let accepted = const { &accepted::<M, A::Reply>() };
                let to = (sender, accepted, remote_send::ask(deadline));
                let awaited = ready!(remote_send::poll_send(to, message, &mut line.remote, cx))?;
                Poll::Ready(Pending::remote(awaited, node))
            }
            Way::Nowhere(cause) => Poll::Ready(Err(cause.clone())),
        }
    }

    fn try_ask(
        &self,
        message: &mut Option<M>,
        deadline: Instant,
    ) -> Result<Pending<A::Reply>, Cause> {
        match &self.lead.way {
            Way::Local(cell) if is_running(cell.token()) => Err(Cause::SelfAsk),
            Way::Local(cell) => {
                put_ask(&**cell, port::try_room(cell.intake())?, message, deadline, Waker::noop())
            }
            Way::Remote(sender, node) => {
                let to = (sender, const { &accepted::<M, A::Reply>() }, remote_send::ask(deadline));
                Pending::remote(remote_send::try_send(to, message)?, node)
            }
            Way::Nowhere(cause) => Err(cause.clone()),
        }
    }
}
