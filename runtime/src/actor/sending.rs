//! A message on its way.

use super::destination::Destination;
use super::port::{Find, Line};
use crate::deadlines::Deadlines;
use crate::mailbox::OutlinedOption;
use crate::remote::Waiter;

/// A message on its way into a port.
pub(super) struct Sending<'a, P: Find, M> {
    pub(super) heading: Heading<'a, P>,
    pub(super) message: Option<M>,
}

/// Where a message goes, and where it waits on its way; gives up its place when dropped.
pub(super) struct Heading<'a, P: Find> {
    pub(super) to: &'a Destination<P>,
    /// Where that leads for this send, if it leads to whatever has a name.
    pub(super) settled: OutlinedOption<Box<Destination<P>>>,
    pub(super) line: Line,
}

impl<'a, P: Find> Heading<'a, P> {
    /// A wait for room, without a message.
    pub(super) fn new(to: &'a Destination<P>) -> Self {
        Heading { to, settled: None.into(), line: Line::default() }
    }

    /// Returns where it goes. A name is looked up the first time.
    #[inline]
    pub(super) fn parts(&mut self) -> (&Destination<P>, &mut Line) {
        if let Destination::Elsewhere(_) = self.to {
            self.settle();
        }
        self.settled_parts()
    }

    #[cold]
    fn settle(&mut self) {
        if self.settled.is_none() {
            self.settled = self.to.settled().map(Box::new).into();
        }
    }

    /// As [`parts`](Self::parts), of a send that may never have been polled.
    #[inline]
    fn settled_parts(&mut self) -> (&Destination<P>, &mut Line) {
        (self.settled.as_deref().unwrap_or(self.to), &mut self.line)
    }

    /// Gives up its place in a line: the send has ended.
    #[inline(never)]
    pub(super) fn end(&mut self) {
        let (to, line) = self.settled_parts();
        to.leave(line);
    }

    /// Gives up its place in a line.
    pub(super) fn leave(&mut self) {
        self.end();
        self.line = Line::default();
    }

    /// Goes to another actor, which has no name.
    fn redirect(&mut self, to: &'a Destination<P>) {
        self.leave();
        (self.to, self.settled) = (to, None.into());
    }
}

impl<P: Find> Drop for Heading<'_, P> {
    #[inline]
    fn drop(&mut self) {
        // (Mostly there is none.)
        if self.line.is_near() {
            self.end();
        }
    }
}

impl<'a, P: Find, M> Sending<'a, P, M> {
    pub(super) fn new(to: &'a Destination<P>, message: M) -> Self {
        Sending { heading: Heading::new(to), message: Some(message) }
    }

    /// A send that waits for links as `remote` says.
    pub(super) fn with_waiter(to: &'a Destination<P>, message: M, remote: Waiter) -> Self {
        let mut sending = Sending::new(to, message);
        sending.heading.line.remote = remote;
        sending
    }

    /// Has it wait for a link to the actor's node also while that is down.
    pub(super) fn wait_for_link(&mut self) {
        self.heading.line.remote.wait_for_link();
    }

    /// Returns where it goes, and what goes there. A name is looked up the first time.
    #[inline]
    pub(super) fn parts(&mut self) -> (&Destination<P>, &mut Option<M>, &mut Line) {
        let (to, line) = self.heading.parts();
        (to, &mut self.message, line)
    }

    /// Takes the message back, and gives up its place now rather than when the whole send is
    /// dropped.
    pub(super) fn give_up(&mut self) -> Option<M> {
        self.heading.leave();
        self.message.take()
    }

    /// Goes to another actor, which has no name.
    pub(super) fn redirect(&mut self, to: &'a Destination<P>) {
        self.heading.redirect(to);
    }

    /// Gives up its place in a line.
    pub(super) fn leave(&mut self) {
        self.heading.leave();
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
