//! Windows: how much one peer may have waiting at the receiver.
//!
//! - **WI-1 bound**: what was sent and not reported taken is within the window, unless it is a
//!   single message: a pair with nothing outstanding may always send one, past the link's window
//!   too. So mailboxes that nobody takes from cannot use up the link's window for the others.
//! - **WI-2 cumulative**: reports are counts from the start of the opening; a lost wake-up or a
//!   merged report cannot leak room.
//! - **WI-3 due**: a report is due at half the window, or at anything taken while the sender says
//!   it is blocked. So a sender that waits is always told.

#[cfg(test)]
mod model;

use crate::cause::Violation;
use crate::mutants::planted;

/// Messages and bytes. Both wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Count {
    pub(crate) messages: u32,
    pub(crate) bytes: u64,
}

impl Count {
    fn since(self, earlier: Count) -> Count {
        Count {
            messages: self.messages.wrapping_sub(earlier.messages),
            bytes: self.bytes.wrapping_sub(earlier.bytes),
        }
    }

    pub(super) fn add(&mut self, messages: u32, bytes: u64) {
        self.messages = self.messages.wrapping_add(messages);
        self.bytes = self.bytes.wrapping_add(bytes);
    }
}

/// How much may be outstanding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct WindowSize {
    pub(crate) messages: u32,
    pub(crate) bytes: u32,
}

impl WindowSize {
    fn room(&self, outstanding: Count, bytes: u32) -> bool {
        outstanding.messages == 0
            || planted!(NoWindows)
            || (outstanding.messages < self.messages
                && outstanding.bytes + u64::from(bytes) <= u64::from(self.bytes))
    }
}

/// The sender's side of a window.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SendWindow {
    size: WindowSize,
    pub(super) sent: Count,
    taken: Count,
}

impl SendWindow {
    pub(crate) fn new(size: WindowSize) -> Self {
        SendWindow { size, sent: Count::default(), taken: Count::default() }
    }

    /// Whether a message of `bytes` may be sent now (WI-1).
    pub(crate) fn room(&self, bytes: u32) -> bool {
        self.size.room(self.outstanding(), bytes)
    }

    /// Whether nothing is outstanding.
    pub(crate) fn is_idle(&self) -> bool {
        self.outstanding().messages == 0
    }

    /// Records a message for which there is [`room`](Self::room).
    pub(crate) fn send(&mut self, bytes: u32) {
        self.sent.add(1, bytes.into());
    }

    /// Records a report of everything taken so far; gives what is new in it.
    pub(crate) fn report(&mut self, taken: Count) -> Result<Count, Violation> {
        let news = taken.since(self.taken);
        let outstanding = self.outstanding();
        if news.messages > outstanding.messages || news.bytes > outstanding.bytes {
            return Err(Violation::WindowReport);
        }
        self.taken = taken;
        Ok(news)
    }

    /// Gives room back without a report of the peer.
    pub(crate) fn release(&mut self, count: Count) {
        self.taken.add(count.messages, count.bytes);
    }

    /// What is on its way or waits at the receiver.
    pub(crate) fn outstanding(&self) -> Count {
        self.sent.since(self.taken)
    }
}

/// The receiver's side of a window.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RecvWindow {
    size: WindowSize,
    arrived: Count,
    taken: Count,
    reported: Count,
    blocked: bool,
}

impl RecvWindow {
    pub(crate) fn new(size: WindowSize) -> Self {
        let zero = Count::default();
        RecvWindow { size, arrived: zero, taken: zero, reported: zero, blocked: false }
    }

    /// Records an arrival. A peer that keeps WI-1 never overruns: it knows at most what was
    /// reported.
    pub(crate) fn arrive(&mut self, bytes: u32) -> Result<(), Violation> {
        if !self.size.room(self.arrived.since(self.reported), bytes) {
            return Err(Violation::WindowOverrun);
        }
        self.arrived.add(1, bytes.into());
        Ok(())
    }

    /// Records that one message was taken; says whether a report is due.
    pub(crate) fn take(&mut self, bytes: u32) -> bool {
        if !(planted!(WindowLeak) && bytes.is_multiple_of(8)) {
            self.taken.add(1, bytes.into());
        }
        self.due()
    }

    /// The sender waits; says whether a report is due.
    pub(crate) fn block(&mut self) -> bool {
        self.blocked = true;
        self.due()
    }

    /// WI-3.
    pub(crate) fn due(&self) -> bool {
        let news = self.taken.since(self.reported);
        news.messages > 0
            && (self.blocked
                || news.messages >= self.size.messages.div_ceil(2)
                || news.bytes >= u64::from(self.size.bytes.div_ceil(2)))
    }

    /// Whether anything was taken that the sender does not know of.
    pub(crate) fn has_news(&self) -> bool {
        self.taken != self.reported
    }

    /// What waits here, or was taken and not reported.
    pub(crate) fn unreported(&self) -> Count {
        self.arrived.since(self.reported)
    }

    /// Whether all that arrived was reported taken.
    pub(crate) fn is_idle(&self) -> bool {
        self.unreported().messages == 0
    }

    /// What was taken and not reported.
    pub(crate) fn news(&self) -> Count {
        self.taken.since(self.reported)
    }

    /// WI-2: the report, if there is news. A blocked sender says so again when this is not enough.
    pub(crate) fn report(&mut self) -> Option<Count> {
        if !self.has_news() {
            return None;
        }
        self.reported = self.taken;
        self.blocked = false;
        Some(self.taken)
    }
}

/// The receiver's side of the link's own window: the sum over its mailboxes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct LinkRecvWindow {
    bytes_max: u32,
    outstanding: Count,
}

impl LinkRecvWindow {
    pub(crate) fn new(bytes_max: u32) -> Self {
        LinkRecvWindow { bytes_max, outstanding: Count::default() }
    }

    /// Records an arrival in a mailbox; `idle`: nothing else of it is outstanding (WI-1).
    pub(crate) fn arrive(&mut self, bytes: u32, idle: bool) -> Result<(), Violation> {
        let size = WindowSize { messages: u32::MAX, bytes: self.bytes_max };
        if !idle && !size.room(self.outstanding, bytes) {
            return Err(Violation::WindowOverrun);
        }
        self.outstanding.add(1, bytes.into());
        Ok(())
    }

    /// Records what the sender is told of, by a report or because a mailbox closed.
    pub(crate) fn report(&mut self, news: Count) {
        self.outstanding = self.outstanding.since(news);
    }
}
