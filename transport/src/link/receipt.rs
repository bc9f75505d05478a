//! Guards of a delivered message and of an opened mailbox: dropping one is news for the driver.

use std::fmt;
use std::sync::{Arc, Weak};

use super::LinkHandle;
use crate::close_reason::CloseReason;
use crate::driver_signals::Taken;

/// The room a delivered message takes in its sender's window. Dropping it gives the room back, to
/// whatever link there is to the sender's node by then.
pub struct Receipt {
    taken: Arc<Taken>,
    bytes: u32,
}

impl Receipt {
    pub(crate) fn new(taken: Arc<Taken>, bytes: u32) -> Self {
        Receipt { taken, bytes }
    }

    /// Returns a number that is the same for all messages of one peer, and of no other.
    pub fn peer_number(&self) -> usize {
        self.taken.peer_number()
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        self.taken.take(self.bytes);
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Receipt({} bytes)", self.bytes)
    }
}

/// Tells a link that a mailbox closed: by [`close`](Self::close), or, without a reason, by being
/// dropped.
#[derive(Debug)]
pub struct CloseNotice {
    link: Weak<LinkHandle>,
    inbox: u64,
    reason: CloseReason,
}

impl CloseNotice {
    pub(crate) fn new(link: &Arc<LinkHandle>, inbox: u64) -> Self {
        CloseNotice { link: Arc::downgrade(link), inbox, reason: CloseReason::default() }
    }

    /// Says that the mailbox closed, and why. The peer learns it after all that was committed to
    /// the link before.
    pub fn close(mut self, reason: CloseReason) {
        self.reason = reason;
    }

    /// Returns true if the link has ended, so that no driver is told any more: such notices may be
    /// dropped early.
    pub fn is_stale(&self) -> bool {
        self.link.upgrade().is_none_or(|link| link.has_ended())
    }
}

impl Drop for CloseNotice {
    fn drop(&mut self) {
        // A stale notice is dropped: the next link gets a notice of its own.
        if let Some(link) = self.link.upgrade().filter(|link| !link.has_ended()) {
            link.signals.close(self.inbox, std::mem::take(&mut self.reason));
        }
    }
}
