//! The log of connections that came to nothing: one of those whose peer had not proved itself,
//! created by [`accept`](super::accept), and one in the [`table`](super::table) of those whose peer
//! had. Shared by the tasks that serve connections.
//!
//! - **MS-13 a stranger cannot fill the log**: of each cause there is at most one warning in
//!   `REFUSALS_REPORTED_EVERY`, which says how many went before it without one; the others are for
//!   debugging. The same holds for a node that knows the secret and comes under ever new names.
//!   The causes are the labels of [`Failure`] and a few more, so the memory is fixed.
//!
//! Without this each connection of a stranger wrote a line, and a log that blocks its writers
//! stopped the drivers of honest links, which run on the same threads.

use std::collections::BTreeMap;
use std::{fmt, io};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::bootstrap::Failure;
use crate::limits;

use super::meter;

/// The last warning of each cause, by its label, and the refusals since then.
#[derive(Default)]
pub(super) struct RefusalLog(Mutex<BTreeMap<&'static str, Told>>);

struct Told {
    /// Time at which the last warning was written.
    last: Instant,
    /// Refusals since then.
    suppressed: u64,
}

impl RefusalLog {
    /// Counts and logs a connection from this address that came to nothing.
    pub(super) fn report(&self, from: &str, failure: &Failure) {
        let warns = match failure {
            Failure::Rejected(_)
            | Failure::VersionMismatch { .. }
            | Failure::Stale
            | Failure::Malformed(_) => !failure.is_dial_race(),
            // An honest node, or a probe that looks whether the port is open.
            Failure::RejectedByPeer(_)
            | Failure::SelfConnection
            | Failure::Closed
            | Failure::Io(_) => false,
        };
        self.count(from, failure.label(), failure, warns);
    }

    /// Counts and logs a data connection from this address whose token no queue pair waits for.
    pub(super) fn report_token(&self, from: &str) {
        self.count(from, "token", &"no queue pair waits for this data connection", true);
    }

    /// Logs that the system gives no connection, which it may go on to do.
    pub(super) fn report_accept(&self, error: &io::Error) {
        if let Some(suppressed) = self.admit("accept", Instant::now()) {
            tracing::warn!(%error, suppressed, "connections could not be accepted");
        }
    }

    fn count(&self, from: &str, cause: &'static str, failure: &dyn fmt::Display, warns: bool) {
        meter::count_refusal(cause);
        let warned = if warns { self.admit(cause, Instant::now()) } else { None };
        match warned {
            Some(suppressed) => {
                tracing::warn!(from, %failure, suppressed, "a connection was refused");
            }
            None => tracing::debug!(from, %failure, "a connection ended"),
        }
    }

    /// Returns how many refusals of this cause went without a warning since the last one, if there
    /// is to be one now.
    pub(super) fn admit(&self, cause: &'static str, now: Instant) -> Option<u64> {
        let mut causes = self.0.lock();
        let Some(told) = causes.get_mut(cause) else {
            causes.insert(cause, Told { last: now, suppressed: 0 });
            return Some(0);
        };
        if now.saturating_duration_since(told.last) < limits::REFUSALS_REPORTED_EVERY {
            told.suppressed += 1;
            return None;
        }
        told.last = now;
        Some(std::mem::take(&mut told.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// MS-13
    #[test]
    fn a_cause_is_warned_about_once_in_a_while_with_the_number_of_those_between() {
        let (log, start) = (RefusalLog::default(), Instant::now());
        let after = |millis| start + Duration::from_millis(millis);
        assert_eq!(log.admit("garbage", start), Some(0), "the first one");
        for millis in 0..5_000 {
            assert_eq!(log.admit("garbage", after(2 * millis)), None);
        }
        assert_eq!(log.admit("wrong_secret", after(9_999)), Some(0), "another cause");
        assert_eq!(log.admit("garbage", after(10_000)), Some(5_000));
        assert_eq!(log.admit("garbage", after(10_001)), None);
        assert_eq!(log.admit("garbage", after(60_000)), Some(1));
        assert_eq!(log.admit("garbage", after(90_000)), Some(0), "none went between");
    }
}
