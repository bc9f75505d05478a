//! News for a link's driver: what was taken from mailboxes, and which mailboxes closed.
//!
//! - **LN-4 no mark is lost**: what was taken and is due is reported, in whatever order the takers'
//!   threads and the driver's run, and the driver is awake for it. [`model`] tries all orders.
//!
//! A window's lock also guards its mark, which keeps its index from being listed twice. Who takes a
//! message sets the mark with it, and lists the index if the mark was off; the driver takes the
//! mark off as it reads what was taken.
//!
//! One flag is beside the locks: `peer_blocked` makes everything taken urgent. The driver sets it
//! and then goes through all windows, each under its lock; who takes a message reads it under that
//! lock. So the driver finds what was taken before it came by, and what is taken afterwards finds
//! the flag set.

#[cfg(test)]
mod model;

use std::task::Waker;

use crate::proto::window::{Count, RecvWindow};
use crate::sync::{Bell, Flag, Lock, Native, Primitives};

/// What the driver is to look at: dirty marks, not queued records.
#[derive(Default)]
pub(crate) struct Dirty {
    /// Mailboxes whose window report is due, by index; each at most once.
    pub(crate) windows: Vec<u32>,
    /// Mailboxes that closed, by index and generation.
    pub(crate) closed: Vec<(u32, u32)>,
}

/// Where a link's driver finds its news.
pub(super) struct News<P: Primitives = Native> {
    dirty: P::Lock<Dirty>,
    /// The peer waits for the link's window: everything taken is to be reported.
    peer_blocked: P::Flag,
    driver: P::Bell,
}

impl<P: Primitives> News<P> {
    pub(super) fn new() -> Self {
        News {
            dirty: P::Lock::new(Dirty::default()),
            peer_blocked: P::Flag::new(false),
            driver: P::Bell::new(),
        }
    }

    /// Keeps the driver's waker; to be called before it looks for anything (DR-3).
    pub(super) fn register(&self, waker: &Waker) {
        self.driver.register(waker);
    }

    /// There is something for the driver; to be called after it is there.
    pub(super) fn wake(&self) {
        self.driver.ring();
    }

    /// What there is since the last call.
    pub(super) fn take(&self) -> Dirty {
        std::mem::take(&mut *self.dirty.hold())
    }

    /// A mailbox closed.
    pub(super) fn close(&self, place: (u32, u32)) {
        self.dirty.hold().closed.push(place);
        self.wake();
    }

    /// The peer waits for the link's window, or no longer does. Once it is set, each window has to
    /// be [`changed`](Window::change), if only by nothing.
    pub(super) fn set_peer_blocked(&self, blocked: bool) {
        self.peer_blocked.set(blocked);
    }
}

/// The window of one mailbox that a peer has opened.
pub(super) struct Window<P: Primitives = Native> {
    index: u32,
    state: P::Lock<State>,
}

struct State {
    window: RecvWindow,
    /// The index is in [`Dirty::windows`], or about to be.
    marked: bool,
}

impl<P: Primitives> Window<P> {
    pub(super) fn new(index: u32, window: RecvWindow) -> Self {
        Window { index, state: P::Lock::new(State { window, marked: false }) }
    }

    /// Changes the window; marks the mailbox when a report is due after it.
    pub(super) fn change<T>(&self, news: &News<P>, change: impl FnOnce(&mut RecvWindow) -> T) -> T {
        let mut state = self.state.hold();
        let result = change(&mut state.window);
        // Under the window's lock, as said above.
        let urgent = news.peer_blocked.get();
        let due = state.window.due() || (urgent && state.window.has_news());
        let mark = due && !state.marked;
        state.marked |= due;
        drop(state);
        if mark {
            news.dirty.hold().windows.push(self.index);
            news.wake();
        }
        result
    }

    /// Takes the mark off: what was taken since the last report, and the report if that is
    /// anything.
    pub(super) fn report(&self) -> (Count, Option<Count>) {
        let mut state = self.state.hold();
        state.marked = false;
        (state.window.news(), state.window.report())
    }
}
