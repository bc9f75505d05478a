//! Memory in which large messages land that are fetched from one peer.
//!
//! - **ME-11 landing**: at most [`LANDING_BYTES_MAX`] bytes of it are there for one peer, those of
//!   messages that wait or are read included. Memory that comes back serves the next message it is
//!   large enough for, and not twice too large; none that was unused for [`SPARE_KEPT`] is kept.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::pool::{Lease, Pool};
use super::region::{Region, Slot};
use crate::limits::{LANDING_BYTES_MAX, SPARE_KEPT};

/// Sizes of memory are apart by this part of them: so much is wasted at most.
const STEPS: usize = 8;
/// The smallest size.
const SMALLEST: usize = 4096;

/// The landing memory of one peer, by its sizes. Made with a queue pair, and gone with it; what is
/// leased then is freed when it was read.
#[derive(Default)]
pub(crate) struct Landing {
    sizes: BTreeMap<usize, Size>,
}

/// Memory of one size.
struct Size {
    pool: Pool,
    /// Number of slots, those included that are landed in or leased.
    slots: usize,
    used: Instant,
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

impl Landing {
    /// Returns memory for so many bytes that was used before.
    ///
    /// # Errors
    /// The bytes of a region that is to be [added](Self::add); `None` where there is no room.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<Runway, Option<usize>> {
        let size = size_of(bytes);
        for (&size, at) in self.sizes.range_mut(size..2 * size) {
            if let Some(slot) = at.pool.take() {
                at.used = Instant::now();
                return Ok(Runway { slot, size });
            }
        }
        self.free_until(size);
        Err((self.bytes() + size <= LANDING_BYTES_MAX).then_some(size))
    }

    /// Adds a region of one of its sizes, to land in at once.
    pub(crate) fn add(&mut self, region: Region, size: usize) -> Option<Runway> {
        let slot = region.into_slots(size).into_iter().next()?;
        let at = self.sizes.entry(size).or_insert_with(|| Size {
            pool: Pool::new(Vec::new()),
            slots: 0,
            used: Instant::now(),
        });
        (at.slots, at.used) = (at.slots + 1, Instant::now());
        Some(Runway { slot, size })
    }

    /// Leases the first `bytes` bytes of what has landed.
    pub(crate) fn lease(&self, Runway { slot, size }: Runway, bytes: usize) -> Option<Lease> {
        Some(self.sizes.get(&size)?.pool.lease(slot, bytes))
    }

    /// Records that nothing has landed in a slot of this size, and that it will not come back.
    pub(crate) fn lose(&mut self, size: usize) {
        if let Some(at) = self.sizes.get_mut(&size) {
            at.slots -= 1;
        }
    }

    /// Frees what was not used for too long. Returns it, to be dropped without a lock.
    pub(crate) fn take_unused(&mut self) -> Vec<Slot> {
        let mut unused = Vec::new();
        for at in self.sizes.values_mut().filter(|at| at.used.elapsed() >= SPARE_KEPT) {
            while let Some(slot) = at.pool.take() {
                at.slots -= 1;
                unused.push(slot);
            }
        }
        self.sizes.retain(|_, at| at.slots > 0);
        unused
    }

    /// Frees memory of other sizes that is not in use, as much as it takes for so many bytes.
    fn free_until(&mut self, bytes: usize) {
        let mut over = (self.bytes() + bytes).saturating_sub(LANDING_BYTES_MAX);
        for (size, at) in &mut self.sizes {
            while over > 0 && at.pool.take().is_some() {
                at.slots -= 1;
                over = over.saturating_sub(*size);
            }
        }
        self.sizes.retain(|_, at| at.slots > 0);
    }

    fn bytes(&self) -> usize {
        self.sizes.iter().map(|(size, at)| size * at.slots).sum()
    }
}

/// Returns the size of the memory for so many bytes: the next of [`STEPS`] from one power of two to
/// the next.
fn size_of(bytes: usize) -> usize {
    let bytes = bytes.max(SMALLEST);
    let step = (bytes.next_power_of_two() / 2 / STEPS).max(SMALLEST);
    bytes.next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    fn land(landing: &mut Landing, bytes: usize) -> Option<Runway> {
        match landing.take(bytes) {
            Ok(runway) => Some(runway),
            Err(size) => size.and_then(|size| landing.add(Region::heap(size), size)),
        }
    }

    #[test]
    fn sizes_waste_little() {
        for bytes in [1, 4096, 4097, 128 * 1024, 129 * 1024, MIB, MIB + 1, 72 * MIB + 7] {
            let size = size_of(bytes);
            assert!(size >= bytes && size.is_multiple_of(4096), "{bytes}: {size}");
            let waste = size - bytes;
            assert!(waste < SMALLEST || waste * STEPS <= bytes, "{bytes}: {size}");
        }
        assert_eq!(size_of(MIB), MIB);
    }

    /// ME-11.
    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded_used_again_and_given_back() {
        let mut landing = Landing::default();
        let runway = land(&mut landing, MIB - 5).unwrap();
        let first = runway.slot.as_ptr();
        let lease = landing.lease(runway, 100).unwrap();
        assert_eq!((lease.len(), landing.bytes()), (100, MIB));
        let other = land(&mut landing, MIB).unwrap();
        assert_ne!(other.slot.as_ptr(), first, "the first one is read");
        drop(lease);
        let again = land(&mut landing, MIB * 3 / 4).unwrap();
        assert_eq!(again.slot.as_ptr(), first, "not twice too large");
        drop(landing.lease(again, 0));
        assert!(landing.take(MIB / 4).is_err(), "it would waste too much");

        // The bound; what is not in use makes room, what is does not.
        let large = land(&mut landing, LANDING_BYTES_MAX - 8 * MIB).unwrap();
        assert_eq!(landing.bytes(), LANDING_BYTES_MAX - 6 * MIB);
        assert!(landing.take(8 * MIB).is_err_and(|size| size.is_none()));
        drop((landing.lease(large, 0), landing.lease(other, 0)));
        let eight = land(&mut landing, 8 * MIB).unwrap();
        assert!(landing.bytes() <= LANDING_BYTES_MAX);

        let lost = land(&mut landing, 80 * 1024).unwrap();
        landing.lose(lost.size());
        drop(landing.lease(eight, 0));
        assert!(landing.take_unused().is_empty());
        tokio::time::advance(SPARE_KEPT).await;
        assert!(!landing.take_unused().is_empty());
        assert_eq!(landing.bytes(), 0);
    }
}
