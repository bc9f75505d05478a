//! The time that counts where something is waited for.
//!
//! - **RE-12 while both run**: time counts only while the drivers of both sides run, because they
//!   bring the awaited outcomes. A program may block the threads of its runtime for as long as it
//!   likes, and outcomes then lie unread. One look counts for [`PATIENCE_LOOK_MAX`] at most,
//!   however late it is: so nothing is given up for a time in which the process stood still. A
//!   peer's heartbeats say that its driver stands still, but only some later
//!   ([`STALL_KNOWN_BEATS`]): its work is waited for that much longer.

use std::mem::take;
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

use super::{Known, Stage, State};
use crate::limits::{
    DRAINING_PATIENCE, ONE_SIDED_PATIENCE, OPENING_PATIENCE, PATIENCE_LOOK_MAX, STALL_KNOWN_BEATS,
};
use crate::mutants::planted;

/// The time that has counted so far.
#[derive(Default)]
pub(super) struct Patience {
    counted: Duration,
    pub(super) looked: Option<Instant>,
    /// This side's driver ran since the last look.
    ran: bool,
    /// Wakes it.
    driver: Option<Waker>,
    /// Time after which it is known that the peer's does not run.
    known_after: Duration,
}

/// A moment, as [`Patience`] counts time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Since(Duration);

impl Patience {
    pub(super) fn now(&self) -> Since {
        Since(self.counted)
    }

    /// Returns true if at least `limit` has counted since then, for work of the peer's node that
    /// does not need its driver.
    pub(super) fn is_over(&self, since: Since, limit: Duration) -> bool {
        self.counted.saturating_sub(since.0) >= limit
    }

    /// The same for work of its driver, which certainly ran for so long.
    pub(super) fn is_over_by_driver(&self, since: Since, limit: Duration) -> bool {
        self.is_over(since, limit + self.known_after)
    }

    /// Heartbeats of the peer come in this interval.
    pub(super) fn expect_beats(&mut self, interval: Duration) {
        self.known_after = STALL_KNOWN_BEATS * interval;
    }

    /// Records that this side's driver runs, and what wakes it.
    pub(super) fn note_run(&mut self, waker: &Waker) {
        self.ran = true;
        if !self.driver.as_ref().is_some_and(|known| known.will_wake(waker)) {
            self.driver = Some(waker.clone());
        }
    }

    /// The driver has ended.
    pub(super) fn forget_driver(&mut self) {
        self.driver = None;
    }

    /// Counts the time since the last look, if both drivers run: the peer's says whether it does.
    /// Returns what wakes this side's, so that the next look finds that it runs.
    pub(super) fn look(&mut self, peer_runs: bool) -> Option<Waker> {
        let now = Instant::now();
        let passed = self.looked.replace(now).map_or(Duration::ZERO, |then| now - then);
        let runs = take(&mut self.ran) || self.driver.is_none();
        if runs && (peer_runs || planted!(StalledCounts)) {
            self.counted += passed.min(PATIENCE_LOOK_MAX);
        }
        self.driver.clone()
    }
}

impl State {
    /// Returns true if there is something that patience may end with (RE-12).
    pub(super) fn waits(&self) -> bool {
        let asks = self.unanswered.iter().any(|it| it.count > 0);
        asks || !self.is_unused() || self.lending.is_lending()
    }

    /// Returns true if the peer, or the queue pair, owes something for too long (RE-6).
    pub(super) fn is_stuck(&self) -> bool {
        let patience = &self.patience;
        let is_late = |since| patience.is_over(since, ONE_SIDED_PATIENCE);
        let is_not_made = |since| patience.is_over(since, OPENING_PATIENCE);
        let brings_nothing = |since| patience.is_over_by_driver(since, ONE_SIDED_PATIENCE);
        let [asks, revokes] = &self.unanswered;
        // The peer grants atomics when this side has let go, which takes the peer's driver.
        let is_draining = || self.keys.values().any(Known::is_draining);
        let are_asks_late =
            || is_late(asks.since) && (!is_draining() || brings_nothing(asks.since));
        // A peer's driver ends the operations under way on a share that it is to let go of: as many
        // as there is room for, over a path that may be slow.
        let are_revokes_late = patience.is_over_by_driver(revokes.since, DRAINING_PATIENCE);
        (asks.count > 0 && are_asks_late())
            || (revokes.count > 0 && are_revokes_late)
            || match &self.stage {
                Stage::Wanted(since) | Stage::Offered(since, _) => is_not_made(*since),
                Stage::Opening { since, .. } | Stage::Connecting(since, _) => is_not_made(*since),
                Stage::Connected(pair) if pair.is_left() => true,
                // (A peer may lend by it before it says that it is connected.)
                Stage::Connected(pair) => {
                    (!pair.posted.is_empty() && brings_nothing(pair.waiting))
                        || (!self.peer_connected && is_not_made(pair.connected))
                }
                Stage::Closed | Stage::Barred | Stage::Ended => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RE-12.
    #[tokio::test(start_paused = true)]
    async fn time_counts_while_both_drivers_run() {
        let mut patience = Patience::default();
        let second = Duration::from_secs(1);
        let look = async |patience: &mut Patience, runs: bool, peer_runs: bool| {
            tokio::time::sleep(second).await;
            if runs {
                patience.note_run(Waker::noop());
            }
            patience.look(peer_runs).is_some()
        };
        assert!(!look(&mut patience, false, true).await, "there is no driver");
        let since = patience.now();
        look(&mut patience, false, true).await;
        assert!(patience.is_over(since, second) && !patience.is_over(since, 2 * second));
        assert!(look(&mut patience, true, true).await);
        assert!(patience.is_over(since, 2 * second));
        for _ in 0..10 {
            look(&mut patience, false, true).await;
            look(&mut patience, true, false).await;
        }
        assert!(!patience.is_over(since, 3 * second));
        tokio::time::sleep(100 * second).await;
        look(&mut patience, true, true).await;
        assert!(patience.is_over(since, 4 * second) && !patience.is_over(since, 5 * second));
        // That a peer stands still is known late.
        assert!(patience.is_over_by_driver(since, 4 * second));
        patience.expect_beats(second);
        assert!(patience.is_over(since, 4 * second));
        assert!(!patience.is_over_by_driver(since, 4 * second));
        patience.forget_driver();
        assert!(!look(&mut patience, false, true).await);
        assert!(patience.is_over(since, 5 * second));
    }
}
