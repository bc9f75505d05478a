//! Memory in which large messages land that are fetched from one peer.
//!
//! - **ME-11 landing**: one peer has at most [`LANDING_BYTES_MAX`] bytes of it, including messages
//!   that wait or are read, even if they came by its earlier queue pairs and links; and of the
//!   node's budget for all peers it has at most as much as it leaves to others, as its [`Account`]
//!   says. Memory that comes back serves the next message it is large enough for, and not twice too
//!   large; no message is refused room while there is unused memory of its link that would make
//!   room. Memory that was unused for [`SPARE_KEPT`] is freed, and so is all unused memory when a
//!   message found no room. Views of tasks take memory that is there or left, and leave as much to
//!   others; their owner counts the [bytes](size_of) they hold, to bound them
//!   ([`VIEWED_BYTES_MAX`](crate::limits::VIEWED_BYTES_MAX)).

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::budget::{Account, BudgetShare};
use super::pool::{Lease, Pool};
use super::region::Slot;
use crate::limits::{LANDING_BYTES_MAX, SPARE_KEPT};

/// Steps of sizes between two powers of two: they bound the wasted part of the memory.
const STEPS: usize = 8;
/// The smallest size.
const SMALLEST: usize = 4096;

/// The landing memory of one peer, by its sizes. Created with a queue pair, and dropped with it;
/// memory still leased then is freed once read, and counts in the peer's account until then.
pub(crate) struct Landing {
    sizes: BTreeMap<usize, Size>,
    account: Account,
    /// The bytes of it that tasks view.
    viewed: Account,
    /// How often the budget had refused a request at the last look.
    refused: u64,
}

/// Memory of one size.
struct Size {
    pool: Pool,
    /// Number of slots, those included that are being made, landed in or leased.
    slots: usize,
    /// When each unused slot was first seen unused. The slot used last is taken first, so each
    /// moment stands for the slot that is as far from being taken.
    unused: Vec<Instant>,
}

/// A slot to land in.
pub(crate) struct Runway {
    pub(crate) slot: Slot,
    size: usize,
}

impl Runway {
    /// Returns the size of the memory that its slot was when it was taken.
    pub(crate) fn size(&self) -> usize {
        self.size
    }
}

/// Room for memory that is to be made, and [added](Landing::add) or [lost](Landing::lose).
pub(crate) struct Room {
    /// Its bytes.
    pub(crate) size: usize,
    /// To be kept with the memory.
    pub(crate) taken: BudgetShare,
}

impl Landing {
    /// Landing memory of one of the peers that share a budget.
    pub(crate) fn new(account: Account, viewed: Account) -> Self {
        let refused = account.budget().refused();
        Landing { sizes: BTreeMap::new(), account, viewed, refused }
    }

    /// Returns memory for `bytes` bytes that was used before.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<Runway> {
        let size = size_of(bytes);
        self.sizes.range_mut(size..2 * size).find_map(|(&size, at)| {
            let slot = at.take()?;
            Some(Runway { slot, size })
        })
    }

    /// Returns room for new memory of `bytes` bytes, if there is some. Otherwise moves unused
    /// memory that makes room into `freed`. Once that is dropped, which takes no lock, there may be
    /// room.
    pub(crate) fn room(&mut self, bytes: usize, freed: &mut Vec<Slot>) -> Option<Room> {
        let size = size_of(bytes);
        let over = (self.account.taken() as usize + size).saturating_sub(LANDING_BYTES_MAX);
        // Views have their own bound, and messages do not leave as much to others for them.
        let viewed = self.viewed.taken();
        let taken = if over == 0 { self.account.take_beside(size as u64, viewed) } else { None };
        if let Some(taken) = taken {
            self.sizes.entry(size).or_insert_with(Size::new).slots += 1;
            return Some(Room { size, taken });
        }
        // Where the budget has no room each byte counts twice: this peer has less, and others more.
        self.take_out(if over == 0 { usize::MAX } else { over }, freed);
        None
    }

    /// Returns memory of just this [size](size_of) that was used before.
    pub(crate) fn take_for_view(&mut self, size: usize) -> Option<Runway> {
        let slot = self.sizes.get_mut(&size)?.take()?;
        Some(Runway { slot, size })
    }

    /// Returns room for new memory of this [size](size_of) for a task's view, if some is left:
    /// nothing is taken out for it.
    pub(crate) fn room_for_view(&mut self, size: usize) -> Option<Room> {
        let has_room = self.account.taken() as usize + size <= LANDING_BYTES_MAX;
        let taken = if has_room { self.account.take_spare(size as u64) } else { None }?;
        self.sizes.entry(size).or_insert_with(Size::new).slots += 1;
        Some(Room { size, taken })
    }

    /// Takes out unused memory: `bytes` bytes, or all of it if there is less.
    fn take_out(&mut self, mut bytes: usize, freed: &mut Vec<Slot>) {
        for (size, at) in &mut self.sizes {
            while bytes > 0
                && let Some(slot) = at.take()
            {
                at.slots -= 1;
                bytes = bytes.saturating_sub(*size);
                freed.push(slot);
            }
        }
        self.sizes.retain(|_, at| at.slots > 0);
    }

    /// Adds memory for which there was [room](Self::room), to land in at once.
    pub(crate) fn add(&mut self, slot: Slot, size: usize) -> Runway {
        Runway { slot, size }
    }

    /// Leases the first `bytes` bytes of the memory in which a message has landed.
    pub(crate) fn lease(&self, Runway { slot, size }: Runway, bytes: usize) -> Option<Lease> {
        Some(self.sizes.get(&size)?.pool.lease(slot, bytes))
    }

    /// Takes back memory in which nothing is read any more.
    pub(crate) fn give(&self, Runway { slot, size }: Runway) {
        if let Some(at) = self.sizes.get(&size) {
            at.pool.give(slot);
        }
    }

    /// Records that memory of this size was not made, or that nothing has landed in it and it will
    /// not come back.
    pub(crate) fn lose(&mut self, size: usize) {
        if let Some(at) = self.sizes.get_mut(&size) {
            at.slots -= 1;
        }
    }

    /// Frees memory that was not used for too long; or all unused memory, if a link of this node
    /// found no room since the last call. Returns it, to be dropped without a lock.
    pub(crate) fn take_unused(&mut self) -> Vec<Slot> {
        let refused = self.account.budget().refused();
        let is_short = std::mem::replace(&mut self.refused, refused) != refused;
        let mut freed = Vec::new();
        for at in self.sizes.values_mut() {
            at.look();
            let old = |since: &Instant| is_short || since.elapsed() >= SPARE_KEPT;
            let count = at.unused.iter().take_while(|since| old(since)).count();
            for _ in 0..count {
                // A moment that stays stands for a slot that was used later.
                freed.extend(at.pool.take());
                at.slots -= 1;
            }
            at.unused.drain(..count);
        }
        self.sizes.retain(|_, at| at.slots > 0);
        freed
    }

    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.sizes.iter().map(|(size, at)| size * at.slots).sum()
    }
}

impl Size {
    fn new() -> Self {
        Size { pool: Pool::new(Vec::new()), slots: 0, unused: Vec::new() }
    }

    /// Takes the unused slot that came back last.
    fn take(&mut self) -> Option<Slot> {
        let slot = self.pool.take()?;
        self.unused.truncate(self.pool.spare());
        Some(slot)
    }

    /// Notes which slots are unused now.
    fn look(&mut self) {
        self.unused.resize(self.pool.spare(), Instant::now());
    }
}

/// Returns the size of the memory for `bytes` bytes: the next of [`STEPS`] from one power of two to
/// the next.
pub(crate) fn size_of(bytes: usize) -> usize {
    let bytes = bytes.max(SMALLEST);
    let step = (bytes.next_power_of_two() / 2 / STEPS).max(SMALLEST);
    bytes.next_multiple_of(step)
}

#[cfg(test)]
mod tests;
