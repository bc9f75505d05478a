//! The time from one try of the best fabric to the next, of links that could not have it.

use std::time::Duration;

use tokio::time::Instant;

use crate::limits;

/// How long links to a peer live before the best fabric is tried again: longer each time, but
/// shorter after a link over the best fabric, which may soon be back.
#[derive(Debug, Clone, Copy)]
pub(in crate::mesh) struct UpgradePause {
    first: Duration,
    last: Duration,
    /// Time since which the link has the best fabric.
    had: Option<Instant>,
}

impl Default for UpgradePause {
    fn default() -> Self {
        UpgradePause { first: limits::BETTER_FABRIC_PAUSE_MIN, last: Duration::ZERO, had: None }
    }
}

impl UpgradePause {
    /// Returns the pause for the next link, if it `misses` the best fabric.
    pub(in crate::mesh) fn next(&mut self, misses: bool) -> Duration {
        let had = self.had.take();
        if !misses {
            (self.first, self.had) = (limits::BETTER_FABRIC_AFTER, Some(Instant::now()));
            return Duration::ZERO;
        }
        // A fabric that comes up and fails again is tried ever more rarely, too.
        if had.is_some_and(|had| had.elapsed() >= limits::BETTER_FABRIC_PAUSE_MIN) {
            self.last = Duration::ZERO;
        }
        self.last = (self.last * 2).clamp(self.first, limits::BETTER_FABRIC_PAUSE_MAX);
        self.last
    }
}
