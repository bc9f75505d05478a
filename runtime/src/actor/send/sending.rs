//! The state of a send: its message, its destination, and its wait.

use super::destination::Destination;
use super::port::{LocalHandle, SendWait};
use crate::deadlines::Deadlines;
use crate::mailbox::OutlinedOption;
use crate::remote::Waiter;

/// A send that has not ended: a message and its target.
pub(crate) struct PendingSend<'a, P: LocalHandle, M> {
    pub(crate) heading: SendTarget<'a, P>,
    pub(crate) message: Option<M>,
}

/// The destination of a send, and its wait, which ends when this is dropped.
pub(crate) struct SendTarget<'a, P: LocalHandle> {
    pub(crate) to: &'a Destination<P>,
    /// The destination that was found, if `to` follows a name of this node.
    pub(crate) settled: OutlinedOption<Box<Destination<P>>>,
    pub(crate) line: SendWait,
}

impl<'a, P: LocalHandle> SendTarget<'a, P> {
    /// Creates the target of a send that does not wait yet.
    pub(crate) fn new(to: &'a Destination<P>) -> Self {
        SendTarget { to, settled: None.into(), line: SendWait::default() }
    }

    /// Returns the destination and the wait. A name is looked up the first time.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&Destination<P>, &mut SendWait) {
        if let Destination::ByAddress(_) = self.to {
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

    /// Returns the same as [`parts`](Self::parts), but looks no name up: the send may never have
    /// been polled.
    #[inline]
    fn settled_parts(&mut self) -> (&Destination<P>, &mut SendWait) {
        (self.settled.as_deref().unwrap_or(self.to), &mut self.line)
    }

    /// Leaves the queue for room: the send has ended.
    #[inline(never)]
    pub(crate) fn end(&mut self) {
        let (to, line) = self.settled_parts();
        to.leave(line);
    }

    /// Leaves the queue for room, and resets the wait.
    pub(crate) fn leave(&mut self) {
        self.end();
        self.line = SendWait::default();
    }

    /// Changes the destination to `to`, which does not follow a name.
    fn redirect(&mut self, to: &'a Destination<P>) {
        self.leave();
        (self.to, self.settled) = (to, None.into());
    }
}

impl<P: LocalHandle> Drop for SendTarget<'_, P> {
    #[inline]
    fn drop(&mut self) {
        // (Most sends do not wait.)
        if self.line.is_waiting() {
            self.end();
        }
    }
}

impl<'a, P: LocalHandle, M> PendingSend<'a, P, M> {
    pub(crate) fn new(to: &'a Destination<P>, message: M) -> Self {
        PendingSend { heading: SendTarget::new(to), message: Some(message) }
    }

    /// Creates a send that waits for links with the waiter `remote`.
    pub(crate) fn with_waiter(to: &'a Destination<P>, message: M, remote: Waiter) -> Self {
        let mut sending = PendingSend::new(to, message);
        sending.heading.line.remote = remote;
        sending
    }

    /// Waits for a link to the actor's node even while that node is down.
    pub(crate) fn wait_for_link(&mut self) {
        self.heading.line.remote.wait_for_link();
    }

    /// Returns the destination, the message and the wait. A name is looked up the first time.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&Destination<P>, &mut Option<M>, &mut SendWait) {
        let (to, line) = self.heading.parts();
        (to, &mut self.message, line)
    }

    /// Takes the message back, and leaves the queue for room now rather than when the whole send is
    /// dropped.
    pub(crate) fn give_up(&mut self) -> Option<M> {
        self.heading.leave();
        self.message.take()
    }

    /// Changes the destination to `to`, which does not follow a name.
    pub(crate) fn redirect(&mut self, to: &'a Destination<P>) {
        self.heading.redirect(to);
    }

    /// Leaves the queue for room, and resets the wait.
    pub(crate) fn leave(&mut self) {
        self.heading.leave();
    }

    /// Runs `send` to its end, on a thread that belongs to no async runtime.
    pub(crate) fn block_on<F: Future>(deadlines: Option<&Deadlines>, send: F) -> F::Output {
        match deadlines {
            Some(deadlines) => deadlines.runtime().block_on(send),
            // A send to no actor ends at its first poll; nothing else must run before.
            None => futures::executor::block_on(tokio::task::unconstrained(send)),
        }
    }
}
