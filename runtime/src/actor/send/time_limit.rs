//! The time that a send may take.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use super::asker_gone::{self, AskerGone, asker_gone};
use crate::busy::running;
use crate::deadlines::{DeadlineEntry, Deadlines, ExpiryCause, leave};
use crate::limits;

/// The timeout for the asks of a reference. Small, because every reference has one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AskTimeout(Option<NonZeroU32>);

impl AskTimeout {
    /// Returns a timeout in whole milliseconds, rounded up.
    pub(crate) fn of(timeout: Duration) -> Self {
        let milliseconds = timeout.as_nanos().div_ceil(1_000_000).max(1);
        let milliseconds = u32::try_from(milliseconds).unwrap_or(u32::MAX);
        AskTimeout(NonZeroU32::new(milliseconds))
    }

    /// Returns this timeout, or else `other`.
    pub(crate) fn or(self, other: Option<Duration>) -> Self {
        AskTimeout(self.0.or_else(|| AskTimeout::of(other?).0))
    }

    /// Returns the timeout, if the reference has one.
    #[inline]
    pub(crate) fn get(self) -> Option<Duration> {
        self.0.map(|milliseconds| Duration::from_millis(milliseconds.get().into()))
    }
}

/// The maximum time of a send, from its first poll or from `try_send`. Owned by the send.
pub(crate) struct TimeLimit {
    nanoseconds: u64,
    /// Set when the time starts.
    deadline: Option<Instant>,
    /// The entry among the deadlines of the node, while the send waits.
    place: Option<Box<DeadlineEntry>>,
    /// The signal that the asker of the sending handler has gone; `Some` if the time is inherited.
    asker: Option<Arc<AskerGone>>,
    /// The key of the waker of this send in `asker`.
    waits: Option<asker_gone::WakerKey>,
    /// Set if the send has no timeout of its own: then it ends at the latest when the asker of the
    /// sending handler gives up.
    inherits: bool,
    /// Set when the time starts, unless the time is over at once.
    is_fresh: bool,
}

impl TimeLimit {
    /// Creates a limit of this time, at most a year.
    pub(crate) fn new(limit: Duration) -> Self {
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

    /// Creates the limit of an ask that sets no timeout itself. Within a handler, the ask ends at
    /// the latest when the asker of that handler gives up.
    pub(crate) fn inherited(limit: Duration) -> Self {
        let mut inherited = TimeLimit::new(limit);
        inherited.inherits = true;
        inherited
    }

    /// Creates the limit of an ask that sets no timeout itself: `limit`, or else the timeout of the
    /// node with these deadlines.
    pub(crate) fn of_ask(limit: Option<Duration>, deadlines: Option<&Deadlines>) -> Self {
        let of_node = || deadlines.map_or(limits::ASK_TIMEOUT, Deadlines::ask_timeout);
        TimeLimit::inherited(limit.unwrap_or_else(of_node))
    }

    fn limit(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds)
    }

    /// Returns the same limit, not started yet.
    pub(crate) fn fresh(&self) -> Self {
        let mut fresh = TimeLimit::new(self.limit());
        fresh.inherits = self.inherits;
        fresh
    }

    /// Takes the limit out of an ask that ends. If its time has started, the time is not reset.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, TimeLimit::new(Duration::ZERO))
    }

    /// Sets another limit. Has no effect on a time that has started.
    pub(crate) fn set(&mut self, limit: Duration) {
        self.nanoseconds = TimeLimit::new(limit).nanoseconds;
        self.inherits = false;
    }

    /// Starts the time, unless it has started. Returns the deadline.
    #[inline]
    pub(crate) fn start(&mut self) -> Instant {
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

    /// Returns true, once, if the time has [started](Self::start) just now and was not over at
    /// once.
    pub(crate) fn take_fresh(&mut self) -> bool {
        std::mem::take(&mut self.is_fresh)
    }

    /// Waits until the time is over or, if it is inherited, until the asker of the sending handler
    /// has gone. Waits forever without deadlines: only a reference to no actor has none, and a send
    /// to it ends at once.
    pub(crate) fn poll(
        &mut self,
        deadlines: Option<&Deadlines>,
        cx: &mut Context<'_>,
    ) -> Poll<ExpiryCause> {
        let deadline = self.start();
        if let Some(asker) = &self.asker
            && asker.poll(&mut self.waits, cx).is_ready()
        {
            return Poll::Ready(ExpiryCause::Deadline);
        }
        let Some(deadlines) = deadlines else { return Poll::Pending };
        deadlines.poll(&mut self.place, deadline, cx)
    }

    /// Gives up the entry among the deadlines, and the waker that waits for the signal.
    #[inline]
    pub(crate) fn leave(&mut self) {
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
