//! Rings that grow to what the path takes. A link starts with few slots; a peer that has messages
//! and no credits says so in its frames, and when this side then finds nothing to do, the path was
//! idle for want of slots: the ring is doubled, up to a bound of the link's and one of the node's.
//! Beyond 1 MiB only where the path is long ([`Trip`](crate::proto::trip::Trip)).

use std::sync::Arc;

use super::pipe::Pipe;
use crate::fabric::Fabric;
use crate::limits;
use crate::link::Counters;
use crate::log;
use crate::memory::{Budget, BudgetShare, Slot};
use crate::mutants::planted;

#[cfg(test)]
mod tests;

/// The growth of a link's ring, and its bounds. Owned by the link's driver.
pub(super) struct Growth {
    fabric: Arc<dyn Fabric>,
    slot_bytes: usize,
    ring_max: u32,
    budget: Arc<Budget>,
    /// Bytes that the link took from the budget so far.
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

    /// Doubles the receive ring, if the peer was short of credits and there is room for more.
    /// Returns true if it grew. Called when there is nothing else to do.
    pub(super) fn grow(&mut self, pipe: &mut Pipe, counters: &Counters) -> bool {
        let ring = pipe.proto.ring();
        let more = ring.min(self.ring_max.saturating_sub(ring));
        // After a goodbye the peer cannot be told of new slots, and a larger ring would return
        // credits too late for the peer.
        let tells = pipe.proto.takes_control() || planted!(GrowsAfterGoodbye);
        if more == 0 || !tells || !pipe.proto.take_shortage() {
            return false;
        }
        let count = (more * limits::POOL_PER_RING) as usize;
        let Some(mut slots) = self.slots(pipe, count, counters) else { return false };
        let spare = slots.split_off(more as usize);
        if planted!(UnpostedGrant) {
            slots.truncate(slots.len() / 2);
        }
        // CR-6: posted before it is told.
        pipe.slots.posted += slots.len();
        let posted = pipe.queues.post_recv(&mut slots);
        pipe.slots.posted -= slots.len();
        if posted.is_err() {
            self.refused(counters);
            return false;
        }
        pipe.slots.pool.grow(spare);
        pipe.proto.grow(more);
        Counters::add(&counters.ring_growths, 1);
        let last = pipe.proto.ring() == self.ring_max;
        Counters::add(&counters.rings_at_bound, last.into());
        true
    }

    /// Takes send slots for the slots that the peer granted.
    pub(super) fn grow_sends(&mut self, pipe: &mut Pipe, counters: &Counters, granted: u32) {
        let more = granted.min(self.ring_max.saturating_sub(pipe.slots.sends() as u32));
        if more > 0
            && let Some(slots) = self.slots(pipe, more as usize, counters)
        {
            pipe.slots.add_sends(slots);
        }
    }

    /// Takes slots that the queue pair is sure to take.
    fn slots(&mut self, pipe: &mut Pipe, count: usize, counters: &Counters) -> Option<Vec<Slot>> {
        let bytes = (count * self.slot_bytes) as u64;
        let Some(taken) = self.budget.take(bytes, self.taken) else {
            // Another link may give some back.
            Counters::add(&counters.ring_growths_refused, 1);
            return None;
        };
        let slots = self
            .alloc(count, taken)
            .filter(|slots| slots.first().is_none_or(|first| pipe.queues.prepare(first).is_ok()));
        if slots.is_some() {
            self.taken += bytes;
        } else {
            self.refused(counters);
        }
        slots
    }

    fn alloc(&self, count: usize, taken: BudgetShare) -> Option<Vec<Slot>> {
        match self.fabric.alloc(count * self.slot_bytes) {
            Ok(region) => {
                let mut slots = region.with_taken(taken).into_slots(self.slot_bytes);
                slots.truncate(count);
                Some(slots)
            }
            Err(error) => {
                log::debug!(%error, "a ring cannot grow");
                None
            }
        }
    }

    /// Ends the growth: the fabric refused memory, and would refuse as much again.
    fn refused(&mut self, counters: &Counters) {
        self.ring_max = 0;
        Counters::add(&counters.ring_growths_refused, 1);
    }
}
