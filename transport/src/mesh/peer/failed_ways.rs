//! The ways of fabrics to one peer that failed lately.

use std::collections::VecDeque;

use tokio::time::Instant;

use crate::limits;

use super::Peer;

impl Peer {
    /// Returns the ways of a fabric to it that failed lately, by their numbers.
    pub(in crate::mesh) fn ways_to_avoid(&self, fabric: &'static str) -> Vec<u32> {
        self.state.lock().failed_ways.to_avoid(fabric)
    }

    /// Records whether a way of a fabric leads to it.
    pub(in crate::mesh) fn note_way(&self, fabric: &'static str, way: u32, leads: bool) {
        self.state.lock().failed_ways.note(fabric, way, leads);
    }
}

/// So many of the last ones, under the lock of the peer.
#[derive(Default)]
pub(super) struct FailedWays(VecDeque<FailedWay>);

struct FailedWay {
    fabric: &'static str,
    number: u32,
    since: Instant,
}

impl FailedWays {
    /// Records whether a way of this number leads to the peer.
    pub(super) fn note(&mut self, fabric: &'static str, number: u32, leads: bool) {
        self.0.retain(|way| (way.fabric, way.number) != (fabric, number));
        if leads {
            return;
        }
        if self.0.len() == limits::WAYS_AVOIDED_MAX {
            self.0.pop_front();
        }
        self.0.push_back(FailedWay { fabric, number, since: Instant::now() });
    }

    /// Returns the ways of a fabric that are to be tried last.
    pub(super) fn to_avoid(&self, fabric: &'static str) -> Vec<u32> {
        let lately = |way: &&FailedWay| way.since.elapsed() < limits::WAY_AVOIDED_FOR;
        let own = self.0.iter().filter(lately).filter(|way| way.fabric == fabric);
        own.map(|way| way.number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failed_ways_are_few_and_forgotten_in_time_or_when_they_lead_again() {
        let mut ways = FailedWays::default();
        let most = limits::WAYS_AVOIDED_MAX as u32;
        for number in 0..=most {
            ways.note("verbs", number, false);
        }
        assert_eq!(ways.to_avoid("verbs"), (1..=most).collect::<Vec<_>>());
        assert!(ways.to_avoid("tcp").is_empty());
        tokio::time::sleep(limits::WAY_AVOIDED_FOR / 2).await;
        ways.note("tcp", 2, false);
        ways.note("verbs", 3, false);
        ways.note("verbs", 4, true);
        tokio::time::sleep(limits::WAY_AVOIDED_FOR / 2).await;
        assert_eq!((ways.to_avoid("verbs"), ways.to_avoid("tcp")), (vec![3], vec![2]));
    }
}
