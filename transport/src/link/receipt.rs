//! The receiver's window marks: what was taken from mailboxes, and which mailboxes closed.
//!
//! Two flags are beside the locks. Why no report is lost, in whatever order their threads run:
//!
//! - `marked` keeps an index from being listed twice. Who takes a message does so under the
//!   window's lock and then sets the mark; the driver takes the mark off and then reads the window
//!   under its lock. Who finds the mark set came before the driver took it off, so the driver reads
//!   what was taken; who finds it off lists the index, and the driver comes again.
//! - `peer_blocked` makes everything taken urgent. The driver sets it and then goes through all
//!   windows, each under its lock; who takes a message reads it under that lock. So the driver
//!   finds what was taken before it came by, and what is taken afterwards finds the flag set.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::Link;
use crate::proto::window::RecvWindow;

/// What the driver is to look at: dirty marks, not queued records.
#[derive(Default)]
pub(super) struct Dirty {
    /// Mailboxes whose window report is due, by index; each at most once.
    pub(super) windows: Vec<u32>,
    /// Mailboxes that closed, by index and generation.
    pub(super) closed: Vec<(u32, u32)>,
}

/// The receiver's end of one opened mailbox, as its receipts share it.
pub(crate) struct InletEnd {
    link: Arc<Link>,
    index: u32,
    window: Mutex<RecvWindow>,
    /// The index is in [`Dirty::windows`].
    marked: AtomicBool,
}

impl InletEnd {
    pub(crate) fn new(link: Arc<Link>, index: u32, window: RecvWindow) -> Arc<Self> {
        let marked = AtomicBool::new(false);
        Arc::new(InletEnd { link, index, window: Mutex::new(window), marked })
    }

    /// Changes the window; marks the mailbox when a report is due after it.
    pub(crate) fn with_window<T>(&self, change: impl FnOnce(&mut RecvWindow) -> T) -> T {
        let mut window = self.window.lock();
        let result = change(&mut window);
        // Under the window's lock, as said above.
        let urgent = self.link.peer_blocked.load(Ordering::SeqCst);
        let due = window.due() || (urgent && window.has_news());
        drop(window);
        if due {
            self.mark();
        }
        result
    }

    fn mark(&self) {
        if !self.marked.swap(true, Ordering::SeqCst) {
            self.link.dirty.lock().windows.push(self.index);
            self.link.driver.wake();
        }
    }

    /// The driver takes the mark off, before it reads the window.
    pub(crate) fn unmark(&self) {
        self.marked.store(false, Ordering::SeqCst);
    }
}

/// The room a delivered message takes in its sender's window. Dropping it gives the room back.
pub struct Receipt {
    inlet: Arc<InletEnd>,
    bytes: u32,
}

impl Receipt {
    pub(crate) fn new(inlet: Arc<InletEnd>, bytes: u32) -> Self {
        Receipt { inlet, bytes }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        self.inlet.with_window(|window| window.take(self.bytes));
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Receipt({} bytes)", self.bytes)
    }
}

/// Tells a link that a mailbox closed, by being dropped.
#[derive(Debug)]
pub struct CloseNotice {
    link: Weak<Link>,
    place: (u32, u32),
}

impl CloseNotice {
    pub(crate) fn new(link: &Arc<Link>, place: (u32, u32)) -> Self {
        CloseNotice { link: Arc::downgrade(link), place }
    }

    /// Whether the link has ended, so that nobody is told any more: such notices may be dropped
    /// early.
    pub fn is_stale(&self) -> bool {
        self.link.upgrade().is_none_or(|link| link.has_ended())
    }
}

impl Drop for CloseNotice {
    fn drop(&mut self) {
        if let Some(link) = self.link.upgrade() {
            link.dirty.lock().closed.push(self.place);
            link.driver.wake();
        }
    }
}
