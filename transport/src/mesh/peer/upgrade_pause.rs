//! The time from one try of the best fabric to the next, of links that could not have it (MS-19).

use std::time::Duration;

use crate::limits;

/// How long links to a peer live before the best fabric is tried again: longer each time, and less
/// long where a link had it, for what was lost may be back in a moment.
#[derive(Debug, Clone, Copy)]
pub(in crate::mesh) struct UpgradePause {
    first: Duration,
    last: Duration,
}

impl Default for UpgradePause {
    fn default() -> Self {
        UpgradePause { first: limits::BETTER_FABRIC_PAUSE_MIN, last: Duration::ZERO }
    }
}

impl UpgradePause {
    /// Returns that of the next link, if it `misses` the best fabric.
    pub(in crate::mesh) fn next(&mut self, misses: bool) -> Duration {
        if misses {
            self.last = (self.last * 2).clamp(self.first, limits::BETTER_FABRIC_PAUSE_MAX);
        } else {
            *self = UpgradePause { first: limits::BETTER_FABRIC_AFTER, last: Duration::ZERO };
        }
        self.last
    }
}
