//! Signals to the driver of the link to a peer: messages taken from mailboxes, and mailboxes that
//! closed. Created with the peer; outlives each of its links, as messages in mailboxes do.
//!
//! A report that is due is made, in whatever order the threads of takers and driver run, and the
//! driver is awake for it. [`model`] tries all orders.
//!
//! Takers share a counter and three flags with the driver, without a lock. A taker adds to the
//! counter first, and then looks whether a report is due: by the window (WI-3), or because the peer
//! waits (`blocked`, `peer_blocked`). The driver sets such a flag first, and then adds zero to the
//! counter. One of the two additions is the second, and its thread sees what the other did before
//! the first: the taker the flag, or the driver the message. `marked` keeps a mailbox from being
//! listed twice: a taker sets it after it counted, and the driver clears it before it reads the
//! counter, so a message that the driver misses is marked again.

#[cfg(test)]
mod model;

use std::sync::Arc;
use std::task::Waker;

use crate::close_reason::CloseReason;
use crate::mutants::planted;
use crate::proto::window::{Count, WindowSize};
use crate::sync::{Bell, Counter, Flag, Lock, Native, Primitives};

/// Dirty marks that the driver is to look at; they are no queued records.
#[derive(Default)]
pub(crate) struct Dirty {
    /// Accounts of which something was taken and is due, by key; each at most once.
    pub(crate) taken: Vec<u32>,
    /// Mailboxes that closed, by the inbox's own number, and why.
    pub(crate) closed: Vec<(u64, CloseReason)>,
}

/// The signals to the driver of a peer's link.
pub(crate) struct DriverSignals<P: Primitives = Native> {
    dirty: P::Lock<Dirty>,
    /// The peer waits for the link's window: everything taken is to be reported.
    peer_blocked: P::Flag,
    driver: P::Bell,
    /// How often it rang.
    wakes: P::Counter,
}

impl<P: Primitives> DriverSignals<P> {
    pub(crate) fn new() -> Self {
        DriverSignals {
            dirty: P::Lock::new(Dirty::default()),
            peer_blocked: P::Flag::new(false),
            driver: P::Bell::new(),
            wakes: P::Counter::new(0),
        }
    }

    /// Returns a number that no other peer's signals have.
    pub(crate) fn peer_number(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Keeps the driver's waker; to be called before it looks for anything (DR-3).
    pub(crate) fn register(&self, waker: &Waker) {
        self.driver.register(waker);
    }

    /// Wakes the driver; to be called after there is something for it.
    pub(crate) fn wake(&self) {
        // First, so that a driver which is awake finds it, too (DR-5).
        self.wakes.add(1);
        self.driver.ring();
    }

    /// Returns how often the driver was woken. If it has not changed since the last look, another
    /// look would find nothing (DR-5).
    #[inline]
    pub(crate) fn wakes(&self) -> u64 {
        self.wakes.get()
    }

    /// Takes what there is since the last call.
    pub(crate) fn take(&self) -> Dirty {
        std::mem::take(&mut *self.dirty.hold())
    }

    /// Records that a mailbox closed, and why.
    pub(crate) fn close(&self, inbox: u64, reason: CloseReason) {
        self.dirty.hold().closed.push((inbox, reason));
        self.wake();
    }

    /// Records that the peer waits for the link's window, or no longer does. Once it waits, the
    /// driver has to look at each account.
    pub(crate) fn set_peer_blocked(&self, blocked: bool) {
        self.peer_blocked.set(blocked);
    }

    /// Returns true if the peer waits for the link's window.
    pub(crate) fn peer_blocked(&self) -> bool {
        self.peer_blocked.get()
    }
}

/// The count of one peer's messages that were taken from one mailbox. Shared by the driver and the
/// receipts of messages that wait there.
pub(crate) struct Taken<P: Primitives = Native> {
    signals: Arc<DriverSignals<P>>,
    /// The account's key, under which it is listed.
    key: u32,
    size: WindowSize,
    /// Messages and bytes that were taken since the account began, [packed](Packed).
    taken: P::Counter,
    /// The part of it that the peer was told of.
    reported: P::Counter,
    /// The peer waits for this mailbox's window.
    blocked: P::Flag,
    /// The key is in [`Dirty::taken`], or about to be.
    marked: P::Flag,
}

/// Messages in the upper 24 bits, bytes in the lower 40. Sums wrap; the difference of two sums is
/// right as long as fewer than 2^23 messages and 2^40 bytes are between them, far more than a
/// window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Packed(u64);

const BYTES: u32 = 40;

impl Packed {
    fn since(self, earlier: Packed) -> Count {
        let news = self.0.wrapping_sub(earlier.0);
        Count { messages: (news >> BYTES) as u32, bytes: news & ((1 << BYTES) - 1) }
    }
}

impl<P: Primitives> Taken<P> {
    pub(crate) fn new(signals: &Arc<DriverSignals<P>>, key: u32, size: WindowSize) -> Arc<Self> {
        Arc::new(Taken {
            signals: signals.clone(),
            key,
            size,
            taken: P::Counter::new(0),
            reported: P::Counter::new(0),
            blocked: P::Flag::new(false),
            marked: P::Flag::new(false),
        })
    }

    /// Records that a message was taken; tells the driver when a report is due after it.
    #[inline]
    pub(crate) fn take(&self, bytes: u32) {
        if planted!(WindowLeak) && bytes.is_multiple_of(8) {
            return;
        }
        let taken = Packed(self.taken.add(1 << BYTES | u64::from(bytes)));
        let news = taken.since(Packed(self.reported.get()));
        // A report of others' later takes may have come between: then there is no news.
        let due = news.messages < 1 << 23
            && (self.blocked.get() || self.signals.peer_blocked() || self.size.is_due(news));
        if due {
            self.mark();
        }
    }

    #[cold]
    fn mark(&self) {
        if !self.marked.swap(true) {
            self.signals.dirty.hold().taken.push(self.key);
            self.signals.wake();
        }
    }

    /// Returns a number that is the same for all accounts of one peer, and of no other.
    pub(crate) fn peer_number(&self) -> usize {
        self.signals.peer_number()
    }

    /// Clears the mark and returns how much was taken since `seen`, which it updates.
    pub(crate) fn harvest(&self, seen: &mut Packed) -> Count {
        self.marked.set(false);
        // Not a mere load: whichever of this and a taker's addition comes second sees all that was
        // done before the first.
        let taken = Packed(self.taken.add(0));
        let news = taken.since(*seen);
        *seen = taken;
        news
    }

    /// Records that the peer was told of all that was [seen](Self::harvest).
    pub(crate) fn reported(&self, seen: Packed) {
        self.reported.set(seen.0);
        self.blocked.set(false);
    }

    /// Records that the peer waits. The driver has to look at the account after it.
    pub(crate) fn block(&self) {
        self.blocked.set(true);
    }
}
