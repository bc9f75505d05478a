//! The limit on lines of the log that peers, strangers or devices can cause again and again.
//!
//! Of each cause there is at most one warning in `LOG_PERIOD`, which says how many were suppressed
//! before it; the others are for debugging. The same holds for a node that knows the secret and
//! comes under ever new names. Such nodes have a limiter of their own, so a stranger does not
//! suppress their lines. The causes are the labels of failures and a few more, so the memory is
//! fixed. Of lines about links and nodes that come and go, or are not reached, there are
//! `PEER_LINES_MAX` of each kind in that time, and one line counts the others. Without this each
//! connection of a stranger wrote a line, and a log that blocks its writers stopped the drivers of
//! honest links, which run on the same threads.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::limits;

/// Limits the lines of each cause in a period of `LOG_PERIOD`, and counts the suppressed lines.
/// Owned by the writer of the lines, and shared by its tasks. The causes are few and fixed, and so
/// is the memory.
#[derive(Debug)]
pub(crate) struct LogLimiter {
    /// Lines of one cause in one period.
    lines_max: u32,
    periods: Mutex<BTreeMap<&'static str, Period>>,
}

/// The lines of one cause since the period began.
#[derive(Debug)]
struct Period {
    began: Instant,
    written: u32,
    /// Lines that were suppressed since one was written that says so.
    suppressed: u64,
}

impl LogLimiter {
    /// Returns a limiter that admits `lines_max` lines of each cause in a period.
    pub(crate) fn new(lines_max: u32) -> Self {
        LogLimiter { lines_max, periods: Mutex::default() }
    }

    /// Returns how many lines of this cause were suppressed since the last admitted line, if a line
    /// is admitted `now`. If not, counts it as suppressed.
    pub(crate) fn admit(&self, cause: &'static str, now: Instant) -> Option<u64> {
        let mut periods = self.periods.lock();
        let fresh = || Period { began: now, written: 0, suppressed: 0 };
        let period = periods.entry(cause).or_insert_with(fresh);
        if period.is_over(now) {
            (period.began, period.written) = (now, 0);
        }
        if period.written == self.lines_max {
            period.suppressed += 1;
            return None;
        }
        period.written += 1;
        Some(std::mem::take(&mut period.suppressed))
    }

    /// Returns how many lines of each cause were suppressed in a period that is over, for a line
    /// that says so: the next one of that cause may never come.
    pub(crate) fn take_suppressed(&self, now: Instant) -> BTreeMap<&'static str, u64> {
        let mut periods = self.periods.lock();
        let over = periods.iter_mut().filter(|(_, period)| period.is_over(now));
        over.map(|(cause, period)| (*cause, std::mem::take(&mut period.suppressed)))
            .filter(|(_, suppressed)| *suppressed > 0)
            .collect()
    }
}

impl Period {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.began) >= limits::LOG_PERIOD
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_cause_is_warned_about_once_in_a_while_with_the_number_of_those_between() {
        let (log, start) = (LogLimiter::new(1), Instant::now());
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

    #[test]
    fn what_was_suppressed_is_said_once_after_its_period_or_by_the_next_line() {
        let (log, start) = (LogLimiter::new(2), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        let admitted: Vec<_> = (0..5).map(|second| log.admit("up", after(second))).collect();
        assert_eq!(admitted, [Some(0), Some(0), None, None, None]);
        assert_eq!(log.take_suppressed(after(9)), BTreeMap::new());
        assert_eq!(log.take_suppressed(after(10)), BTreeMap::from([("up", 3)]));
        assert_eq!(log.take_suppressed(after(10)), BTreeMap::new());
        let admitted: Vec<_> = [10, 11, 12, 20].map(|second| log.admit("up", after(second))).into();
        assert_eq!(admitted, [Some(0), Some(0), None, Some(1)]);
    }
}
