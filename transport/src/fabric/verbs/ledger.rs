//! The slots of one queue's outstanding work requests, in posting order.

use std::collections::VecDeque;

use crate::memory::Slot;

/// Slots by position. Positions count from the first slot posted, and never come again.
#[derive(Default)]
pub(super) struct Ledger {
    slots: VecDeque<Slot>,
    /// Position of the oldest.
    first: u64,
}

impl Ledger {
    /// The position that the next slot will have.
    pub(super) fn next(&self) -> u64 {
        self.first + self.slots.len() as u64
    }

    pub(super) fn push(&mut self, slot: Slot) {
        self.slots.push_back(slot);
    }

    /// Takes the slots up to `position`, which is among them; nothing when it is not: the device
    /// told of something that was never posted, or twice.
    pub(super) fn take_through(&mut self, position: u64) -> impl Iterator<Item = Slot> {
        let count = match position.checked_sub(self.first) {
            Some(before) if before < self.slots.len() as u64 => before as usize + 1,
            _ => 0,
        };
        self.first += count as u64;
        self.slots.drain(..count)
    }

    /// Returns all that are left.
    pub(super) fn into_slots(self) -> VecDeque<Slot> {
        self.slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Region;

    /// VB-3: each slot is taken once, in order; a position that is none gives nothing.
    #[test]
    fn slots_are_taken_once_and_in_order() {
        let mut ledger = Ledger::default();
        for mut slot in Region::heap(64).into_slots(16).into_iter().take(4) {
            slot[0] = ledger.next() as u8;
            ledger.push(slot);
        }
        let mut take = |position| ledger.take_through(position).map(|s| s[0]).collect::<Vec<_>>();
        assert_eq!(take(4), []);
        assert_eq!(take(1), [0, 1]);
        assert_eq!(take(1), []);
        assert_eq!(take(u64::MAX), []);
        assert_eq!(take(2), [2]);
        assert_eq!(ledger.into_slots().len(), 1);
    }
}
