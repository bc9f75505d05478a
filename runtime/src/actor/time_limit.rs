//! The time that a send may take.

use std::num::NonZeroU32;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use crate::busy::running;
use crate::deadlines::{Deadlines, Expired, Place, leave};
use crate::limits;

/// How long the asks of a reference wait. Small, for it lies in each reference.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AskTimeout(Option<NonZeroU32>);

impl AskTimeout {
    /// Returns a time in whole milliseconds, rounded up.
    pub(super) fn of(timeout: Duration) -> Self {
        let milliseconds = timeout.as_nanos().div_ceil(1_000_000).max(1);
        let milliseconds = u32::try_from(milliseconds).unwrap_or(u32::MAX);
        AskTimeout(NonZeroU32::new(milliseconds))
    }

    /// Returns the same, or else `other`.
    pub(super) fn or(self, other: Option<Duration>) -> Self {
        AskTimeout(self.0.or_else(|| AskTimeout::of(other?).0))
    }

    /// Returns the time, if the reference has one.
    #[inline]
    pub(super) fn get(self) -> Option<Duration> {
        self.0.map(|milliseconds| Duration::from_millis(milliseconds.get().into()))
    }
}

/// How long a send may take in all, from its first poll or from `try_send`. Owned by the send.
pub(super) struct TimeLimit {
    limit: Duration,
    /// It was not set: what the asker of the message in hand leaves is the most.
    inherits: bool,
    /// Set when it begins to count.
    deadline: Option<Instant>,
    /// Its place among the deadlines of its node, while it waits.
    place: Option<Box<Place>>,
}

impl TimeLimit {
    /// Returns a limit of so much, a year at most.
    pub(super) fn new(limit: Duration) -> Self {
        let limit = limit.min(limits::ASK_TIMEOUT_MAX);
        TimeLimit { limit, inherits: false, deadline: None, place: None }
    }

    /// Returns the limit of an ask that has none of its own: within a handler, no longer than the
    /// asker of the message in hand waits.
    pub(super) fn inherited(limit: Duration) -> Self {
        let mut inherited = TimeLimit::new(limit);
        inherited.inherits = true;
        inherited
    }

    /// Returns the limit of an ask whose reference may say one, or else the node with these
    /// deadlines.
    pub(super) fn of_ask(limit: Option<Duration>, deadlines: Option<&Deadlines>) -> Self {
        let of_node = || deadlines.map_or(limits::ASK_TIMEOUT, Deadlines::ask_timeout);
        TimeLimit::inherited(limit.unwrap_or_else(of_node))
    }

    /// Returns the same limit, which does not count yet.
    pub(super) fn fresh(&self) -> Self {
        TimeLimit { limit: self.limit, inherits: self.inherits, deadline: None, place: None }
    }

    /// Takes the limit, which counts on if it does, out of an ask that ends.
    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, TimeLimit::new(Duration::ZERO))
    }

    /// Sets another limit, unless the time counts already.
    pub(super) fn set(&mut self, limit: Duration) {
        self.limit = limit.min(limits::ASK_TIMEOUT_MAX);
        self.inherits = false;
    }

    /// Begins to count, unless it does; returns when the time is over.
    pub(super) fn start(&mut self) -> Instant {
        *self.deadline.get_or_insert_with(|| {
            let own = Instant::now() + self.limit;
            let inherited =
                running().filter(|_| self.inherits).and_then(|running| running.in_hand.deadline);
            inherited.map_or(own, |inherited| inherited.min(own))
        })
    }

    /// Waits until the time is over; for ever without deadlines: only a reference to no actor has
    /// none, and a send to it has ended.
    pub(super) fn poll(
        &mut self,
        deadlines: Option<&Deadlines>,
        cx: &mut Context<'_>,
    ) -> Poll<Expired> {
        let deadline = self.start();
        let Some(deadlines) = deadlines else { return Poll::Pending };
        deadlines.poll(&mut self.place, deadline, cx)
    }

    /// Gives up its place among the deadlines.
    #[inline]
    pub(super) fn leave(&mut self) {
        if let Some(place) = self.place.take() {
            leave(place, self.limit);
        }
    }
}

impl Drop for TimeLimit {
    fn drop(&mut self) {
        self.leave();
    }
}
