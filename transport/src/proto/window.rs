//! Windows: how much one peer may have waiting at the receiver.
//!
//! - **WI-1 bound**: the messages sent and not reported taken are within the window, unless it is a
//!   single message: a pair with nothing outstanding may always send one, past the link's window
//!   too. So mailboxes from which no message is taken cannot use up the link's window for the
//!   others. The sender counts in the order of commits, the receiver in the order of arrivals, in
//!   which small messages overtake large ones: so the receiver leaves a message that arrives at an
//!   idle mailbox out of its account of the link, and then finds every peer within the window that
//!   keeps to it.
//! - **WI-2 cumulative**: reports are counts from the start of the opening; a lost wake-up or a
//!   merged report cannot leak room.
//! - **WI-3 due**: a report is due at half the window, in messages or bytes, at 1 MiB, and at
//!   anything taken while the sender says it is blocked. So a sender that waits is always told.
//! - **WI-4 once**: a message left in a mailbox by a link is outstanding on the next one, too.
//! - **WI-5 long paths**: a report doubles the mailbox's window, [`limits::WINDOW_DOUBLINGS_MAX`]
//!   times at most, if the sender waits and nothing is left in the mailbox: then messages on their
//!   way fill the window, and not a slow program.

#[cfg(test)]
mod model;

use crate::limits;
use crate::mutants::planted;
use crate::proto::error::Violation;

/// Messages and bytes. Both wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Count {
    pub(crate) messages: u32,
    pub(crate) bytes: u64,
}

impl Count {
    /// Returns the difference to an `earlier` count.
    pub(crate) fn since(self, earlier: Count) -> Count {
        Count {
            messages: self.messages.wrapping_sub(earlier.messages),
            bytes: self.bytes.wrapping_sub(earlier.bytes),
        }
    }

    pub(crate) fn add(&mut self, messages: u32, bytes: u64) {
        self.messages = self.messages.wrapping_add(messages);
        self.bytes = self.bytes.wrapping_add(bytes);
    }
}

/// The most that may be outstanding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct WindowSize {
    pub(crate) messages: u32,
    pub(crate) bytes: u32,
}

impl WindowSize {
    /// Returns true if a report of `news` is due even if the sender does not wait for it (WI-3).
    pub(crate) fn is_due(&self, news: Count) -> bool {
        news.messages >= self.messages.div_ceil(2)
            || news.bytes >= u64::from(self.bytes.div_ceil(2).min(limits::WINDOW_BYTES_DUE))
    }

    /// Returns the size after `doublings` (WI-5).
    fn doubled(self, doublings: u16) -> Self {
        let by = 1 << doublings.min(limits::WINDOW_DOUBLINGS_MAX);
        let (messages, bytes) = (self.messages.saturating_mul(by), self.bytes.saturating_mul(by));
        WindowSize { messages, bytes }
    }

    fn room(&self, outstanding: Count, bytes: u32) -> bool {
        outstanding.messages == 0
            || planted!(NoWindows)
            || (outstanding.messages < self.messages
                && outstanding.bytes.saturating_add(bytes.into()) <= self.bytes.into())
    }

    /// Returns true if `count` fits beside the `outstanding` messages.
    fn fits(&self, outstanding: Count, count: Count) -> bool {
        planted!(NoWindows)
            || (outstanding.messages.saturating_add(count.messages) <= self.messages
                && outstanding.bytes.saturating_add(count.bytes) <= self.bytes.into())
    }
}

/// A report of the receiver: totals since the opening (WI-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) taken: Count,
    pub(crate) doublings: u16,
}

/// The sender's side of a window.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct SendWindow {
    size: WindowSize,
    doublings: u16,
    /// Messages and bytes that were reserved, or waited at the receiver before.
    pub(super) sent: Count,
    /// The part of them that was written: no more can have been taken.
    written: Count,
    taken: Count,
}

impl SendWindow {
    /// Creates a window of which `carried` is still outstanding from earlier links.
    pub(crate) fn new(size: WindowSize, carried: Count) -> Self {
        SendWindow { size, sent: carried, written: carried, ..SendWindow::default() }
    }

    /// Returns true if a message of `bytes` may be sent now (WI-1).
    pub(crate) fn room(&self, bytes: u32) -> bool {
        self.size.room(self.outstanding(), bytes)
    }

    /// Returns how many more messages may be outstanding: at least one where nothing is.
    pub(crate) fn messages_left(&self) -> u32 {
        let outstanding = self.outstanding().messages;
        self.size.messages.saturating_sub(outstanding).max(u32::from(outstanding == 0))
    }

    /// Returns true if nothing is outstanding.
    pub(crate) fn is_idle(&self) -> bool {
        self.outstanding().messages == 0
    }

    /// Returns true if room is recorded for a message that is not written yet.
    pub(crate) fn has_unwritten(&self) -> bool {
        self.sent != self.written
    }

    /// Records a message for which there is [`room`](Self::room).
    pub(crate) fn send(&mut self, bytes: u32) {
        self.sent.add(1, bytes.into());
    }

    /// Records that messages are written whose room was recorded.
    pub(crate) fn wrote(&mut self, count: Count) {
        self.written.add(count.messages, count.bytes);
    }

    /// Takes back the record of a message that will not be sent after all.
    pub(crate) fn unsend(&mut self, bytes: u32) {
        self.sent = self.sent.since(Count { messages: 1, bytes: bytes.into() });
    }

    /// Records a report of everything taken so far; returns the part that is new.
    pub(crate) fn report(&mut self, report: Report) -> Result<Count, Violation> {
        let Report { taken, doublings } = report;
        let more = doublings.checked_sub(self.doublings).ok_or(Violation::WindowReport)?;
        if doublings > limits::WINDOW_DOUBLINGS_MAX {
            return Err(Violation::WindowReport);
        }
        (self.size, self.doublings) = (self.size.doubled(more), doublings);
        let news = taken.since(self.taken);
        let there = self.written.since(self.taken);
        if news.messages > there.messages || news.bytes > there.bytes {
            return Err(Violation::WindowReport);
        }
        self.release(news)?;
        Ok(news)
    }

    /// Gives back the room of messages that no longer wait at the receiver.
    ///
    /// # Errors
    /// [`Violation::WindowReport`] when it is more than there is.
    pub(crate) fn release(&mut self, news: Count) -> Result<(), Violation> {
        let outstanding = self.outstanding();
        let more = news.messages > outstanding.messages || news.bytes > outstanding.bytes;
        if more || (news.messages == 0 && news.bytes > 0) {
            return Err(Violation::WindowReport);
        }
        self.taken.add(news.messages, news.bytes);
        Ok(())
    }

    /// Records that `carried` waits at the receiver already (WI-4).
    pub(crate) fn carry(&mut self, carried: Count) {
        self.sent.add(carried.messages, carried.bytes);
    }

    /// Returns how much is on its way or waits at the receiver.
    pub(crate) fn outstanding(&self) -> Count {
        self.sent.since(self.taken)
    }
}

/// The receiver's side of a window: how much one peer has waiting in one mailbox, and how much of
/// that it knows. Owned by the link's driver, which records messages that were taken.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RecvWindow {
    size: WindowSize,
    doublings: u16,
    arrived: Count,
    taken: Count,
    reported: Count,
    /// The unreported message that arrived when the mailbox was idle: it is not in the link's
    /// account (WI-1).
    apart: Count,
    blocked: bool,
}

impl RecvWindow {
    /// Creates a window of which `carried` waits here from earlier links (WI-4).
    pub(crate) fn new(size: WindowSize, carried: Count) -> Self {
        let zero = Count::default();
        RecvWindow {
            size,
            doublings: 0,
            arrived: carried,
            taken: zero,
            reported: zero,
            apart: zero,
            blocked: false,
        }
    }

    /// Records an arrival. A peer that keeps WI-1 never overruns: it knows at most the reports
    /// sent.
    ///
    /// # Errors
    /// [`Violation::WindowOverrun`], with nothing recorded that matters any more.
    pub(crate) fn arrive(
        &mut self,
        bytes: u32,
        link: &mut LinkRecvWindow,
    ) -> Result<(), Violation> {
        let unreported = self.unreported();
        if !self.size.room(unreported, bytes) {
            return Err(Violation::WindowOverrun);
        }
        if unreported.messages == 0 && !planted!(LinkWindowByArrival) {
            self.apart = Count { messages: 1, bytes: bytes.into() };
        } else {
            link.arrive(bytes)?;
        }
        self.arrived.add(1, bytes.into());
        Ok(())
    }

    /// Records arrivals at once if that comes to the same as one [after the other](Self::arrive):
    /// if neither this mailbox nor the link is idle, and there is room for all. Returns false,
    /// with nothing recorded, if not.
    pub(crate) fn arrive_all(&mut self, count: Count, link: &mut LinkRecvWindow) -> bool {
        let unreported = self.unreported();
        let idle = unreported.messages == 0 || link.outstanding.messages == 0;
        if idle || !self.size.fits(unreported, count) || !link.size().fits(link.outstanding, count)
        {
            return false;
        }
        link.outstanding.add(count.messages, count.bytes);
        self.arrived.add(count.messages, count.bytes);
        true
    }

    /// Records that messages were taken.
    pub(crate) fn take(&mut self, news: Count) {
        self.taken.add(news.messages, news.bytes);
    }

    /// Records that the sender waits. Returns whether that is new since the last report.
    pub(crate) fn block(&mut self) -> bool {
        !std::mem::replace(&mut self.blocked, true)
    }

    /// Returns true if a report is to be made now (WI-3); `urgent`: the sender waits for the link's
    /// window.
    pub(crate) fn due(&self, urgent: bool) -> bool {
        let news = self.news();
        news.messages > 0 && (self.blocked || urgent || self.size.is_due(news))
    }

    /// Returns how much waits here.
    pub(crate) fn waiting(&self) -> Count {
        self.arrived.since(self.taken)
    }

    /// Returns how much waits here, or was taken and not reported.
    pub(crate) fn unreported(&self) -> Count {
        self.arrived.since(self.reported)
    }

    /// Returns the unreported part that the link's account has.
    #[cfg(test)]
    fn in_link(&self) -> Count {
        self.unreported().since(self.apart)
    }

    /// Returns how much was taken and not reported.
    pub(crate) fn news(&self) -> Count {
        self.taken.since(self.reported)
    }

    /// Makes the report (WI-2), if there is news. A sender for which it is not enough says again
    /// that it is blocked.
    pub(crate) fn report(&mut self, link: &mut LinkRecvWindow) -> Option<Report> {
        let news = self.news();
        if news.messages == 0 {
            return None;
        }
        self.settle(news, link);
        self.reported = self.taken;
        let blocked = std::mem::take(&mut self.blocked);
        if blocked
            && self.waiting() == Count::default()
            && self.doublings < limits::WINDOW_DOUBLINGS_MAX
        {
            (self.size, self.doublings) = (self.size.doubled(1), self.doublings + 1);
        }
        Some(Report { taken: self.taken, doublings: self.doublings })
    }

    /// Gives everything back to the link's account: the mailbox closed.
    pub(crate) fn close(&mut self, link: &mut LinkRecvWindow) {
        self.settle(self.unreported(), link);
        self.reported = self.arrived;
    }

    /// Counts the message that was apart in the link's account, from now on. (The difference may
    /// wrap where a later message was taken first; the outstanding count is still right.)
    fn settle(&mut self, news: Count, link: &mut LinkRecvWindow) {
        link.report(news.since(std::mem::take(&mut self.apart)));
    }
}

/// The receiver's side of the link's own window: the sum over its mailboxes, less what arrived at
/// idle ones (WI-1).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct LinkRecvWindow {
    bytes_max: u32,
    outstanding: Count,
}

impl LinkRecvWindow {
    /// Creates a window of which `carried` waits here from earlier links (WI-4).
    pub(crate) fn new(bytes_max: u32, carried: Count) -> Self {
        LinkRecvWindow { bytes_max, outstanding: carried }
    }

    fn size(&self) -> WindowSize {
        WindowSize { messages: u32::MAX, bytes: self.bytes_max }
    }

    /// Records an arrival at a mailbox that is not idle.
    pub(crate) fn arrive(&mut self, bytes: u32) -> Result<(), Violation> {
        if !self.size().room(self.outstanding, bytes) {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// WI-5: a sender that always has more, and a program that takes all, or leaves one behind.
    /// Returns how often the window was doubled.
    fn doublings(leaves: u32) -> u16 {
        let (size, none) = (WindowSize { messages: 4, bytes: 100 }, Count::default());
        let (mut sender, mut receiver) = (SendWindow::new(size, none), RecvWindow::new(size, none));
        let mut link = LinkRecvWindow::new(u32::MAX, none);
        for _ in 0..10 {
            while sender.room(10) {
                sender.send(10);
                sender.wrote(Count { messages: 1, bytes: 10 });
                receiver.arrive(10, &mut link).expect("the sender keeps to the window");
            }
            receiver.block();
            let messages = receiver.waiting().messages - leaves;
            receiver.take(Count { messages, bytes: u64::from(messages) * 10 });
            sender.report(receiver.report(&mut link).unwrap()).unwrap();
            assert_eq!(sender.size, receiver.size, "both sides have the same");
        }
        receiver.doublings
    }

    // Promised in docs/SEMANTICS.md.
    #[test]
    fn a_window_is_doubled_where_the_way_fills_it_and_not_the_program() {
        assert_eq!((doublings(0), doublings(1)), (limits::WINDOW_DOUBLINGS_MAX, 0));
        let mut sender = SendWindow::new(WindowSize { messages: 4, bytes: 100 }, Count::default());
        let report = |doublings| Report { taken: Count::default(), doublings };
        assert_eq!(sender.report(report(limits::WINDOW_DOUBLINGS_MAX)), Ok(Count::default()));
        for doublings in [0, limits::WINDOW_DOUBLINGS_MAX + 1] {
            assert_eq!(sender.report(report(doublings)), Err(Violation::WindowReport));
        }
    }

    proptest! {
        /// WI-1: arrivals at once are recorded as one after the other would be, or not at all.
        #[test]
        fn arrivals_at_once_are_the_same_as_one_after_the_other(
            messages in 1u32..12,
            bytes in 1u32..300,
            link_bytes in 1u32..300,
            runs in proptest::collection::vec(
                (proptest::collection::vec(0u32..60, 1..6), 0u64..8), 1..12,
            ),
        ) {
            let none = Count::default();
            let size = WindowSize { messages, bytes };
            let mut window = RecvWindow::new(size, none);
            let mut link = LinkRecvWindow::new(link_bytes, none);
            // Something of another mailbox may wait, too.
            let _ = link.arrive(1);
            for (run, taken) in runs {
                let bytes = run.iter().map(|bytes| u64::from(*bytes)).sum();
                let count = Count { messages: run.len() as u32, bytes };
                let (mut at_once, mut link_at_once) = (window.clone(), link.clone());
                let fits = at_once.arrive_all(count, &mut link_at_once);
                if !fits {
                    prop_assert_eq!((&at_once, &link_at_once), (&window, &link));
                }
                for bytes in run {
                    let arrived = window.arrive(bytes, &mut link);
                    prop_assert!(arrived.is_ok() || !fits);
                    if arrived.is_err() {
                        return Ok(());
                    }
                }
                if fits {
                    prop_assert_eq!((&at_once, &link_at_once), (&window, &link));
                }
                let waits = window.waiting();
                if taken > 0 && waits.messages > 0 {
                    let bytes = waits.bytes / u64::from(waits.messages);
                    window.take(Count { messages: 1, bytes });
                    let news = window.report(&mut link);
                    prop_assert!(news.is_some());
                }
            }
        }
    }
}
