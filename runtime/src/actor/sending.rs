//! A message on its way.

use super::destination::Destination;
use super::port::{Find, Line};
use crate::deadlines::Deadlines;
use crate::error::{AskCause, AskError};
use crate::message::Message;
use crate::remote::Waiter;

/// A message on its way into a port; gives up its place when dropped.
pub(super) struct Sending<'a, P: Find, M> {
    pub(super) to: &'a Destination<P>,
    /// Where that leads for this send, if it leads to whatever has a name.
    settled: Option<Box<Destination<P>>>,
    pub(super) message: Option<M>,
    pub(super) line: Line,
}

impl<'a, P: Find, M> Sending<'a, P, M> {
    pub(super) fn new(to: &'a Destination<P>, message: M) -> Self {
        Sending { to, settled: None, message: Some(message), line: Line::default() }
    }

    /// A send that waits for links as `remote` says.
    pub(super) fn with_waiter(to: &'a Destination<P>, message: M, remote: Waiter) -> Self {
        let mut sending = Sending::new(to, message);
        sending.line.remote = remote;
        sending
    }

    /// Has it wait for a link to the actor's node also while that is down.
    pub(super) fn wait_for_link(&mut self) {
        self.line.remote.wait_for_link();
    }

    /// A wait for room, without a message.
    pub(super) fn for_room(to: &'a Destination<P>) -> Self {
        Sending { to, settled: None, message: None, line: Line::default() }
    }

    /// Returns where it goes, and what goes there. A name is looked up the first time.
    #[inline]
    pub(super) fn parts(&mut self) -> (&Destination<P>, &mut Option<M>, &mut Line) {
        if self.settled.is_none() {
            self.settled = self.to.settled().map(Box::new);
        }
        self.settled_parts()
    }

    /// As [`parts`](Self::parts), of a send that may never have been polled.
    #[inline]
    fn settled_parts(&mut self) -> (&Destination<P>, &mut Option<M>, &mut Line) {
        (self.settled.as_deref().unwrap_or(self.to), &mut self.message, &mut self.line)
    }

    /// Takes the message back, and gives up its place now rather than when the whole send is
    /// dropped.
    pub(super) fn give_up(&mut self) -> Option<M> {
        self.leave();
        self.message.take()
    }

    /// Goes to another actor, which has no name.
    pub(super) fn redirect(&mut self, to: &'a Destination<P>) {
        self.leave();
        (self.to, self.settled) = (to, None);
    }

    /// Gives up its place in a line.
    pub(super) fn leave(&mut self) {
        let (to, _, line) = self.settled_parts();
        to.leave(line);
        *line = Line::default();
    }

    /// Returns the error of an ask that ends for `cause`.
    #[cold]
    pub(super) fn ask_error(&self, cause: AskCause) -> AskError
    where
        M: Message,
    {
        let actor = self.to.address(|near| near.actor().0.address());
        AskError::new(cause, actor.clone(), M::NAME)
    }

    /// Runs this send to its end on a thread that is none of an async runtime's.
    pub(super) fn block_on<F: Future>(deadlines: Option<&Deadlines>, send: F) -> F::Output {
        match deadlines {
            Some(deadlines) => deadlines.runtime().block_on(send),
            // A send to no actor has ended at its first poll; nothing else is to run first.
            None => futures::executor::block_on(tokio::task::unconstrained(send)),
        }
    }
}

impl<P: Find, M> Drop for Sending<'_, P, M> {
    fn drop(&mut self) {
        let (to, _, line) = self.settled_parts();
        to.leave(line);
    }
}
