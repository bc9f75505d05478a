//! What a delivered message and an opened mailbox leave behind when they are gone: news for the
//! driver (LN-4).

use std::fmt;
use std::sync::{Arc, Weak};

use super::Link;
use super::marks::Window;
use crate::proto::window::{Count, RecvWindow};

/// The receiver's end of one opened mailbox, as its receipts share it.
pub(crate) struct InletEnd {
    link: Arc<Link>,
    window: Window,
}

impl InletEnd {
    pub(crate) fn new(link: Arc<Link>, index: u32, window: RecvWindow) -> Arc<Self> {
        Arc::new(InletEnd { link, window: Window::new(index, window) })
    }

    /// Changes the window; marks the mailbox when a report is due after it.
    pub(crate) fn with_window<T>(&self, change: impl FnOnce(&mut RecvWindow) -> T) -> T {
        self.window.change(&self.link.news, change)
    }

    /// What was taken since the last report, and the report if that is anything.
    pub(crate) fn report(&self) -> (Count, Option<Count>) {
        self.window.report()
    }
}

/// Returns a number that no other link has while something holds this one.
pub(super) fn link_id(link: &Arc<Link>) -> u64 {
    Arc::as_ptr(link).addr() as u64
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

    /// Returns a number that no other living link of this process has.
    pub fn link_id(&self) -> u64 {
        link_id(&self.inlet.link)
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
            link.news.close(self.place);
        }
    }
}
