//! Pauses between attempts: doubling, bounded, jittered by a quarter.

use std::time::Duration;

use crate::entropy::Entropy;
use crate::limits;

/// The pauses of one series of attempts.
pub(super) struct Backoff {
    entropy: Entropy,
    next: Duration,
}

impl Backoff {
    pub(super) fn new(entropy: &Entropy) -> Self {
        Backoff { entropy: entropy.clone(), next: limits::REDIAL_BACKOFF_MIN }
    }

    /// Returns the next pause.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(limits::REDIAL_BACKOFF_MAX);
        let quarter = pause.as_micros() as u64 / 4;
        pause - Duration::from_micros(quarter)
            + Duration::from_micros(self.entropy.below(2 * quarter + 1))
    }
}
