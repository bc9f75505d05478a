//! The memory of the operations of one queue pair: one block, cut into slots on demand.
//!
//! - **RE-11 whole again**: free memory lies in as few pieces as there can be. So an operation has
//!   a slot of its own length, up to [`ONE_SIDED_BYTES_MAX`], unless memory in between is in use;
//!   and there is always a slot if [`ONE_SIDED_SLOT_BYTES`] are free.

use crate::limits::{ONE_SIDED_BYTES_MAX, ONE_SIDED_SLOT_BYTES};
use crate::memory::Slot;

/// The free pieces of a block, each of a multiple of [`ONE_SIDED_SLOT_BYTES`].
pub(super) struct Slots {
    /// In the order of their addresses; none lies right behind another one.
    free: Vec<Slot>,
}

impl Slots {
    /// All of a block.
    pub(super) fn new(block: Slot) -> Self {
        Slots { free: vec![block] }
    }

    /// Returns the smallest number of slots that operations need for this many bytes.
    pub(super) fn count_for(bytes: usize) -> usize {
        bytes.clamp(1, ONE_SIDED_BYTES_MAX).div_ceil(ONE_SIDED_SLOT_BYTES)
    }

    /// Returns how many slots of the least length are free.
    pub(super) fn count(&self) -> usize {
        self.free.iter().map(|piece| piece.len() / ONE_SIDED_SLOT_BYTES).sum()
    }

    /// Takes a slot as long as `count` of the least length, or the longest that there is.
    pub(super) fn take(&mut self, count: usize) -> Option<Slot> {
        let wanted = count * ONE_SIDED_SLOT_BYTES;
        let lengths = || self.free.iter().map(|piece| piece.len()).enumerate();
        // The shortest one leaves the least behind.
        let fits =
            lengths().filter(|(_, length)| *length >= wanted).min_by_key(|(_, length)| *length);
        let (at, length) = fits.or_else(|| lengths().max_by_key(|(_, length)| *length))?;
        if length <= wanted {
            return Some(self.free.remove(at));
        }
        let (slot, rest) = self.free.remove(at).split(wanted);
        self.free.insert(at, rest);
        Some(slot)
    }

    /// Takes a slot back (RE-11).
    pub(super) fn give(&mut self, slot: Slot) {
        let at = self.free.partition_point(|other| other.as_ptr() < slot.as_ptr());
        self.free.insert(at, slot);
        self.join(at);
        if let Some(before) = at.checked_sub(1) {
            self.join(before);
        }
    }

    /// Joins the piece at `at` with the next one, if that lies right behind it.
    fn join(&mut self, at: usize) {
        if at + 1 >= self.free.len() {
            return;
        }
        let behind = self.free.remove(at + 1);
        match self.free.remove(at).join(behind) {
            Ok(whole) => self.free.insert(at, whole),
            Err((front, behind)) => {
                self.free.insert(at, front);
                self.free.insert(at + 1, behind);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ONE_SIDED_SLOTS;
    use crate::memory::Region;

    const UNIT: usize = ONE_SIDED_SLOT_BYTES;

    fn slots() -> Slots {
        let bytes = ONE_SIDED_SLOTS as usize * UNIT;
        Slots::new(Region::heap(bytes).into_slots(bytes).remove(0))
    }

    /// RE-11, against a row of flags: a taken slot was free, a free slot is found, in one piece
    /// where the row has one, and the whole is there again at the end.
    #[test]
    fn slots_are_taken_and_given_back_at_random() {
        let (mut shorter, mut whole, mut none) = (0, 0, 0);
        for seed in 0..300 {
            let mut chance = fastrand::Rng::with_seed(seed);
            let mut slots = slots();
            let base = slots.free[0].as_ptr().addr();
            let mut row = [true; ONE_SIDED_SLOTS as usize];
            let mut taken: Vec<Slot> = Vec::new();
            let place = |slot: &Slot| {
                let first = (slot.as_ptr().addr() - base) / UNIT;
                first..first + slot.len() / UNIT
            };
            for _ in 0..200 {
                if chance.u8(..5) < 3 {
                    let wanted = Slots::count_for(chance.usize(..2 * ONE_SIDED_BYTES_MAX));
                    assert!((1..=8).contains(&wanted));
                    let longest = row.split(|free| !free).map(<[bool]>::len).max().unwrap_or(0);
                    match slots.take(wanted) {
                        Some(slot) => {
                            assert_eq!(slot.len() / UNIT, wanted.min(longest), "seed {seed}");
                            shorter += usize::from(longest < wanted);
                            for free in &mut row[place(&slot)] {
                                assert!(std::mem::take(free), "seed {seed}");
                            }
                            taken.push(slot);
                        }
                        None => {
                            assert_eq!(longest, 0, "seed {seed}");
                            none += 1;
                        }
                    }
                } else if !taken.is_empty() {
                    let slot = taken.swap_remove(chance.usize(..taken.len()));
                    row[place(&slot)].fill(true);
                    slots.give(slot);
                }
                let free = row.iter().filter(|free| **free).count();
                assert_eq!(slots.count(), free, "seed {seed}");
                let pieces = row.split(|free| !free).filter(|piece| !piece.is_empty()).count();
                assert_eq!(slots.free.len(), pieces, "seed {seed}");
            }
            taken.into_iter().for_each(|slot| slots.give(slot));
            assert_eq!((slots.free.len(), slots.count()), (1, row.len()), "seed {seed}");
            whole += 1;
        }
        println!("{shorter} shorter than wanted, {none} times none, {whole} times whole");
        assert!(shorter > 100 && none > 100);
    }
}
