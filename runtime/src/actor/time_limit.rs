//! The time that a send may take.

use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use crate::deadlines::{Deadlines, Expired, Key};
use crate::limits;

/// How long a send may take in all, from its first poll or from `try_send`. Owned by the send.
pub(super) struct TimeLimit {
    limit: Duration,
    /// Set when it begins to count.
    deadline: Option<Instant>,
    /// Its place among the deadlines of its node, while it waits.
    place: Option<Key>,
}

impl TimeLimit {
    /// Returns a limit of so much, a year at most.
    pub(super) fn new(limit: Duration) -> Self {
        TimeLimit { limit: limit.min(limits::ASK_TIMEOUT_MAX), deadline: None, place: None }
    }

    /// Sets another limit, unless the time counts already.
    pub(super) fn set(&mut self, limit: Duration) {
        self.limit = limit.min(limits::ASK_TIMEOUT_MAX);
    }

    /// Begins to count, unless it does; returns when the time is over.
    pub(super) fn start(&mut self) -> Instant {
        *self.deadline.get_or_insert_with(|| Instant::now() + self.limit)
    }

    /// Waits until the time is over; for ever without deadlines: only a reference to nobody has
    /// none, and what is sent to it has ended.
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
    pub(super) fn leave(&mut self, deadlines: Option<&Deadlines>) {
        if let Some(place) = self.place.take()
            && let Some(deadlines) = deadlines
        {
            deadlines.cancel(place);
        }
    }
}
