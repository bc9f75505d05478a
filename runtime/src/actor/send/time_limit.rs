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
    /// The place among the deadlines of the node, while the send waits.
    place: Option<Box<DeadlineEntry>>,
    /// The signal that the asker of the message in hand has gone; `Some` if the time is inherited.
    asker: Option<Arc<AskerGone>>,
    /// The place among the asks that wait for the signal.
    waits: Option<asker_gone::WakerKey>,
    /// Set unless the send has a time of its own: then the asker of the message in hand limits it.
    inherits: bool,
    /// Set when the time starts and is not over at once.
    is_fresh: bool,
}

impl TimeLimit {
    /// Returns a limit of this time, at most a year.
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

    /// Returns the limit of an ask without a timeout of its own: within a handler it is at most the
    /// time for which the asker of the message in hand waits.
    pub(crate) fn inherited(limit: Duration) -> Self {
        let mut inherited = TimeLimit::new(limit);
        inherited.inherits = true;
        inherited
    }

    /// Returns the limit of an ask from the timeout of its reference, or else of the node with
    /// these deadlines.
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

    /// Takes the limit out of an ask that ends. If it has started, it goes on.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, TimeLimit::new(Duration::ZERO))
    }

    /// Sets another limit, unless the time has started.
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

    /// Returns true, once, if the time has [started](Self::start) just now and is not over.
    pub(crate) fn take_fresh(&mut self) -> bool {
        std::mem::take(&mut self.is_fresh)
    }

    /// Waits until the time is over or, if it is inherited, the asker of the message in hand has
    /// gone. Waits forever without deadlines: only a reference to no actor has none, and a send to
    /// it has ended.
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

    /// Gives up the places among the deadlines and among the asks of the handler.
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
