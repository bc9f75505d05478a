//! The time that a send may take.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use super::asker_gone::{self, AskerGone, asker_gone};
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
    nanoseconds: u64,
    /// Set when it begins to count.
    deadline: Option<Instant>,
    /// Its place among the deadlines of its node, while it waits.
    place: Option<Box<Place>>,
    /// The signal that the asker of the message in hand has gone; there if the time is inherited.
    asker: Option<Arc<AskerGone>>,
    /// Its place among the asks that wait for the signal.
    waits: Option<asker_gone::Place>,
    /// It was not set: what the asker of the message in hand leaves is the most.
    inherits: bool,
    /// It begins to count now, and is not over.
    is_fresh: bool,
}

impl TimeLimit {
    /// Returns a limit of so much, a year at most.
    pub(super) fn new(limit: Duration) -> Self {
        let nanoseconds = limit.min(limits::ASK_TIMEOUT_MAX).as_nanos() as u64;
        TimeLimit {
            nanoseconds,
            deadline: None,
            place: None,
            asker: None,
            waits: None,
            inherits: false,
            is_fresh: false,
        }
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

    fn limit(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds)
    }

    /// Returns the same limit, which does not count yet.
    pub(super) fn fresh(&self) -> Self {
        let mut fresh = TimeLimit::new(self.limit());
        fresh.inherits = self.inherits;
        fresh
    }

    /// Takes the limit, which counts on if it does, out of an ask that ends.
    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, TimeLimit::new(Duration::ZERO))
    }

    /// Sets another limit, unless the time counts already.
    pub(super) fn set(&mut self, limit: Duration) {
        self.nanoseconds = TimeLimit::new(limit).nanoseconds;
        self.inherits = false;
    }

    /// Begins to count, unless it does; returns when the time is over.
    #[inline]
    pub(super) fn start(&mut self) -> Instant {
        match self.deadline {
            Some(deadline) => deadline,
            None => self.begin(),
        }
    }

    fn begin(&mut self) -> Instant {
        let now = Instant::now();
        let mut deadline = now + self.limit();
        if self.inherits
            && let Some(running) = running()
            && let Some(inherited) = running.deadline
        {
            deadline = deadline.min(inherited);
            self.asker = asker_gone();
        }
        self.is_fresh = deadline > now;
        *self.deadline.insert(deadline)
    }

    /// Returns true, once, if it has [begun](Self::start) to count just now, and is not over.
    pub(super) fn take_fresh(&mut self) -> bool {
        std::mem::take(&mut self.is_fresh)
    }

    /// Waits until the time is over, or the asker of the message in hand has gone and the time is
    /// inherited; for ever without deadlines: only a reference to no actor has
    /// none, and a send to it has ended.
    pub(super) fn poll(
        &mut self,
        deadlines: Option<&Deadlines>,
        cx: &mut Context<'_>,
    ) -> Poll<Expired> {
        let deadline = self.start();
        if let Some(asker) = &self.asker
            && asker.poll(&mut self.waits, cx).is_ready()
        {
            return Poll::Ready(Expired::Deadline);
        }
        let Some(deadlines) = deadlines else { return Poll::Pending };
        deadlines.poll(&mut self.place, deadline, cx)
    }

    /// Gives up its places among the deadlines and the asks of its handler.
    #[inline]
    pub(super) fn leave(&mut self) {
        if let Some(place) = self.place.take() {
            leave(place, self.limit());
        }
        if let Some(asker) = self.asker.take() {
            asker.leave(self.waits);
        }
    }
}

impl Drop for TimeLimit {
    fn drop(&mut self) {
        self.leave();
    }
}
