//! Rings that grow to what the path takes. A link starts with few slots; a peer that has messages
//! and no credits says so in its frames, and when this side then finds nothing to do, the path was
//! idle for want of slots: the ring is doubled, up to a bound of the link's and one of the node's.

use std::sync::Arc;

use super::pipe::Pipe;
use crate::fabric::Fabric;
use crate::limits;
use crate::link::Counters;
use crate::memory::{Budget, Slot};
use crate::mutants::planted;

#[cfg(test)]
mod tests;

/// What a link's ring may grow by. Owned by its driver.
pub(super) struct Growth {
    fabric: Arc<dyn Fabric>,
    slot_bytes: usize,
    ring_max: u32,
    budget: Arc<Budget>,
    taken: u64,
}

impl Growth {
    pub(super) fn new(
        fabric: Arc<dyn Fabric>,
        slot_bytes: u32,
        ring_max: u32,
        budget: Arc<Budget>,
    ) -> Self {
        Growth { fabric, slot_bytes: slot_bytes as usize, ring_max, budget, taken: 0 }
    }

    /// Doubles the receive ring, if the peer was short of credits and there is room for more. Says
    /// whether it grew. Called when there is nothing else to do.
    pub(super) fn grow(&mut self, pipe: &mut Pipe, counters: &Counters) -> bool {
        let ring = pipe.proto.ring();
        let more = ring.min(self.ring_max.saturating_sub(ring));
        // One that cannot be told of it would wait for credits that come at a quarter of a ring it
        // does not know.
        let tells = pipe.proto.takes_control() || planted!(GrowsAfterGoodbye);
        if more == 0 || !tells || !pipe.proto.take_shortage() {
            return false;
        }
        let spare = (more * limits::POOL_PER_RING) as usize;
        let Some(mut slots) = self.slots(more as usize + spare, counters) else { return false };
        pipe.slots.pool.grow(slots.split_off(more as usize));
        if planted!(UnpostedGrant) {
            slots.truncate(slots.len() / 2);
        }
        // CR-6: posted before it is told.
        pipe.slots.posted += slots.len();
        let posted = pipe.queues.post_recv(&mut slots);
        pipe.slots.posted -= slots.len();
        let posted = posted.is_ok();
        if posted {
            pipe.proto.grow(more);
            Counters::add(&counters.ring_growths, 1);
            let last = pipe.proto.ring() == self.ring_max;
            Counters::add(&counters.rings_at_bound, last.into());
        }
        posted
    }

    /// Takes send slots for the slots that the peer granted.
    pub(super) fn grow_sends(&mut self, pipe: &mut Pipe, counters: &Counters, granted: u32) {
        let more = granted.min(self.ring_max.saturating_sub(pipe.slots.sends() as u32));
        if more > 0
            && let Some(slots) = self.slots(more as usize, counters)
        {
            pipe.slots.add_sends(slots);
        }
    }

    fn slots(&mut self, count: usize, counters: &Counters) -> Option<Vec<Slot>> {
        let slots = self.alloc(count);
        if slots.is_none() {
            // It works as it is, and as much again would be refused again.
            self.ring_max = 0;
            Counters::add(&counters.ring_growths_refused, 1);
        }
        slots
    }

    fn alloc(&mut self, count: usize) -> Option<Vec<Slot>> {
        let bytes = count * self.slot_bytes;
        if !self.budget.take(bytes as u64) {
            return None;
        }
        match self.fabric.alloc(bytes) {
            Ok(region) => {
                self.taken += bytes as u64;
                let mut slots = region.into_slots(self.slot_bytes);
                slots.truncate(count);
                Some(slots)
            }
            Err(error) => {
                self.budget.give(bytes as u64);
                tracing::debug!(%error, "a ring cannot grow");
                None
            }
        }
    }
}

impl Drop for Growth {
    fn drop(&mut self) {
        self.budget.give(self.taken);
    }
}
