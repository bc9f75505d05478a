//! Circles of ranks whose sends wait for each other's room while none of them receives.
//!
//! A send that waits sends a probe along the waits of the ranks after it (Chandy, Misra and Haas
//! 1983). A probe that comes back has found a circle. A rank that has received a message since the
//! last probe of the same origin does not pass it on: its circle is moving.

use std::collections::{BTreeMap, BTreeSet};

/// The sends of a rank that wait for room, and what their probes have found. Owned by the state of
/// the rank.
#[derive(Default)]
pub(crate) struct Circles {
    /// Waiting sends by the rank that they are for.
    waiting: BTreeMap<usize, usize>,
    probes: u64,
    /// Probes of this rank that came back.
    back: BTreeSet<u64>,
    /// Messages that were received.
    received: u64,
    /// By origin, the last probe, and the number of received messages at that time.
    seen: BTreeMap<u32, (u64, u64)>,
}

impl Circles {
    /// Counts a message as received.
    pub(crate) fn received(&mut self) {
        self.received += 1;
    }

    /// Returns how many messages were received.
    pub(crate) fn count(&self) -> u64 {
        self.received
    }

    /// Notes that a send waits.
    pub(crate) fn wait(&mut self, to: usize) {
        *self.waiting.entry(to).or_default() += 1;
    }

    /// Notes that a send waits no longer.
    pub(crate) fn go_on(&mut self, to: usize) {
        if let Some(count) = self.waiting.get_mut(&to) {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&to);
            }
        }
    }

    /// Numbers the next probe.
    pub(crate) fn probe(&mut self) -> u64 {
        self.probes += 1;
        self.probes
    }

    /// Returns true if a probe of this rank has come back.
    pub(crate) fn is_back(&mut self, number: u64) -> bool {
        self.back.remove(&number)
    }

    /// Takes in a probe, and returns the ranks that it goes on to.
    pub(crate) fn pass(&mut self, me: usize, origin: u32, number: u64) -> Vec<usize> {
        if origin as usize == me {
            if number <= self.probes && !self.waiting.is_empty() {
                self.back.insert(number);
            }
            return Vec::new();
        }
        let last = self.seen.insert(origin, (number, self.received));
        match last {
            Some((before, received)) if before < number && received == self.received => {
                self.waiting.keys().copied().collect()
            }
            _ => Vec::new(),
        }
    }
}
