//! Pauses between rounds of dials: doubling, bounded, with full jitter.
//!
//! The n-th pause in a row is drawn evenly from nothing to `REDIAL_BACKOFF_MIN * 2^n`, at most
//! `REDIAL_BACKOFF_MAX` ("full jitter" in "Exponential Backoff And Jitter", AWS Architecture Blog,
//! 2015), so that nodes that lost the same peer do not come back at once. A new row begins only
//! after a link that lived for `LINK_SETTLED` or that both sides closed as idle or for a better
//! fabric, and when an idle node is wanted. So a node whose links fail soon is linked ever more
//! rarely, like a node that is not reached.

use std::time::Duration;

use crate::entropy::Entropy;
use crate::limits;
use crate::mutants::planted;

/// The pauses of one series of rounds.
#[derive(Debug, Default)]
pub(in crate::mesh) struct Backoff {
    pauses: u32,
}

impl Backoff {
    /// Returns true if there was no pause yet.
    pub(in crate::mesh) fn is_new(&self) -> bool {
        self.pauses == 0
    }

    /// Records that a link ended which lived so long.
    pub(in crate::mesh) fn link_ended(&mut self, lived: Duration) {
        if lived >= limits::LINK_SETTLED || planted!(Unsettled) {
            self.pauses = 0;
        }
    }

    /// Returns the next pause, at most `WANTED_BACKOFF_MAX` if the link is `wanted` now.
    pub(in crate::mesh) fn pause(&mut self, entropy: &Entropy, wanted: bool) -> Duration {
        let most = if wanted { limits::WANTED_BACKOFF_MAX } else { limits::REDIAL_BACKOFF_MAX };
        let window = limits::REDIAL_BACKOFF_MIN.saturating_mul(1 << self.pauses.min(16));
        self.pauses = self.pauses.saturating_add(1);
        let window = window.min(most);
        Duration::from_micros(entropy.below(window.as_micros() as u64 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bounds and the mean match an even draw.
    #[test]
    fn pauses_double_to_their_bound_with_full_jitter() {
        let entropy = Entropy::seeded(1);
        let millis = |pauses, wanted| -> Vec<u128> {
            (0..2_000).map(|_| Backoff { pauses }.pause(&entropy, wanted).as_millis()).collect()
        };
        for (pauses, window) in
            [(0, 10), (1, 20), (5, 320), (11, 20_480), (12, 30_000), (40, 30_000)]
        {
            let drawn = millis(pauses, false);
            let mean = drawn.iter().sum::<u128>() / drawn.len() as u128;
            assert!(drawn.iter().all(|millis| *millis <= window), "{pauses}");
            assert!(drawn.iter().any(|millis| *millis * 10 >= window * 9), "{pauses}");
            assert!(drawn.iter().any(|millis| *millis * 10 <= window), "{pauses}");
            assert!((window * 4..=window * 6).contains(&(mean * 10)), "{pauses}: {mean}");
        }
        assert!(millis(20, true).iter().all(|millis| *millis <= 2_000));
        let mut backoff = Backoff::default();
        assert!(backoff.is_new());
        backoff.pause(&entropy, false);
        assert!(!backoff.is_new());
    }

    // Promised in docs/SEMANTICS.md.
    /// Neither failed dials nor links that were brief are forgotten before a link lived.
    #[test]
    fn only_a_link_that_lived_begins_the_pauses_anew() {
        let entropy = Entropy::seeded(1);
        let mut backoff = Backoff::default();
        for pauses in 1..10 {
            backoff.pause(&entropy, false);
            backoff.link_ended(limits::LINK_SETTLED - Duration::from_millis(1));
            assert_eq!(backoff.pauses, pauses);
        }
        backoff.link_ended(limits::LINK_SETTLED);
        assert!(backoff.is_new());
    }
}
