//! The sender to the mailbox of an actor of this node, without the types of actor and message.

use std::any::Any;
use std::task::{Context, Poll, ready};

use tokio::time::Instant;

use super::port::{NewAsk, Port, SendWait};
use crate::error::Cause;
use crate::fate::Fate;
use crate::mailbox::MailboxRoom;
use crate::message::Message;
use crate::resident::LocalActor;
use crate::slot::AskInPlace;

/// An actor, and the index of a message in its table. The methods take the message as an `Option`,
/// and empty it if and only if the message was put into the mailbox or handled. They are compiled
/// once for each type of an answer.
pub(crate) struct LocalSender<'a> {
    actor: &'a dyn LocalActor,
    route: u16,
}

impl<'a> LocalSender<'a> {
    #[inline]
    pub(crate) fn of<P: Port<M>, M: Message>(port: &'a P) -> Self {
        LocalSender { actor: port.actor().0, route: port.route() }
    }

    /// Puts a message into reserved room. `asked` is the ask of the message, or `None` for a tell.
    pub(crate) fn put<R: Send + 'static>(
        &self,
        room: MailboxRoom<'_>,
        message: &mut dyn Any,
        asked: Option<&mut NewAsk<R>>,
    ) -> Result<Fate, Cause> {
        let Some(asked) = asked else {
            return self.actor.put(room, self.route, message, None).map(|(fate, _called)| fate);
        };
        let (reply, ask) = asked.open();
        let mut reply = Some(reply);
        let (fate, called) = self.actor.put(room, self.route, message, Some((&mut reply, ask)))?;
        asked.called = called;
        Ok(fate)
    }

    /// Waits for room, and puts a message into it.
    pub(crate) fn poll_put<R: Send + 'static>(
        &self,
        message: &mut dyn Any,
        asked: Option<&mut NewAsk<R>>,
        line: &mut SendWait,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Fate, Cause>> {
        let room = ready!(line.poll_room(self.actor.intake(), self.actor.token(), cx))?;
        Poll::Ready(self.put(room, message, asked))
    }

    /// Puts a message if there is room now and no other sender waits for it.
    pub(crate) fn try_put<R: Send + 'static>(
        &self,
        message: &mut dyn Any,
        asked: Option<&mut NewAsk<R>>,
    ) -> Result<Fate, Cause> {
        self.put(self.actor.intake().try_room()?, message, asked)
    }

    /// Handles an ask on this thread and returns the answer, or `None` if the handler panics. Also
    /// returns `None`, and leaves the message, if the actor does not wait for messages or its
    /// handler does not answer at once.
    #[inline]
    pub(crate) fn run_ask<R: 'static>(
        &self,
        message: &mut dyn Any,
        deadline: Instant,
    ) -> Option<R> {
        let mut answer = None::<R>;
        let route = self.route;
        self.actor.run_ask(&mut AskInPlace { route, message, answer: &mut answer, deadline });
        answer
    }
}
