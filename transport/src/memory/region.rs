//! A region and its slots.
#![allow(unsafe_code, reason = "owns raw memory; every access goes through ME-1 and ME-2")]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::any::Any;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::budget::BudgetShare;

const PAGE: usize = 4096;

/// The memory behind a region, with whatever must live as long as it does: a registration.
///
/// # Safety
/// `base` to `base + bytes` is page-aligned, initialised, reached through this value alone, and
/// stays where it is until the value is dropped, on any thread.
pub(crate) unsafe trait Backing: Any + Send + Sync {
    fn base(&self) -> NonNull<u8>;
    fn bytes(&self) -> usize;
}

/// A block of page-aligned memory that a fabric has made usable for its work requests.
///
/// It is cut into [`Slot`]s once and lives until the last of them is gone (ME-2).
pub struct Region {
    backing: Box<dyn Backing>,
    owner: Option<Owner>,
    /// Dropped after the memory is freed.
    taken: OnceLock<BudgetShare>,
}

/// The owner of a region's memory. Each one differs from all others of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner(u64);

impl Owner {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Owner(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Allocates ordinary zeroed memory, page-aligned, that [is this owner's](Region::is_of).
    ///
    /// `bytes` is rounded up to whole pages and must not be zero.
    pub(crate) fn heap(self, bytes: usize) -> Region {
        Region { owner: Some(self), ..Region::heap(bytes) }
    }
}

impl Region {
    /// Allocates ordinary zeroed memory, page-aligned.
    ///
    /// `bytes` is rounded up to whole pages and must not be zero.
    pub fn heap(bytes: usize) -> Self {
        Region::new(Heap::new(bytes))
    }

    /// Creates a region of memory that a fabric has prepared.
    pub(crate) fn new(backing: impl Backing) -> Self {
        Region { backing: Box::new(backing), owner: None, taken: OnceLock::new() }
    }

    /// Attaches a share of a budget, which is given back when the region is freed.
    pub(crate) fn with_taken(self, taken: BudgetShare) -> Self {
        self.keep_taken(taken);
        self
    }

    /// As [`with_taken`](Self::with_taken), of a region that was cut into slots. To be called once.
    pub(crate) fn keep_taken(&self, taken: BudgetShare) {
        self.taken.get_or_init(|| taken);
    }

    /// Returns true if `owner` made it.
    pub(crate) fn is_of(&self, owner: Owner) -> bool {
        self.owner == Some(owner)
    }

    /// Returns what the fabric made of it, if it is of that kind.
    #[cfg(feature = "verbs")]
    pub(crate) fn backing<T: Backing>(&self) -> Option<&T> {
        let backing: &dyn Any = self.backing.as_ref();
        backing.downcast_ref()
    }

    /// Returns its size in bytes.
    pub fn bytes(&self) -> usize {
        self.backing.bytes()
    }

    /// Cuts the whole region into slots of `slot_bytes`, a multiple of 16; the remainder at the end
    /// stays unused. Taking the region by value is what makes the slots disjoint (ME-1).
    pub fn into_slots(self, slot_bytes: usize) -> Vec<Slot> {
        assert!(slot_bytes > 0 && slot_bytes.is_multiple_of(16), "slots are 16-byte aligned");
        let count = self.bytes() / slot_bytes;
        let region = Arc::new(self);
        (0..count)
            .map(|i| {
                // SAFETY: `i * slot_bytes + slot_bytes` is at most the region's size.
                let base = unsafe { region.backing.base().add(i * slot_bytes) };
                Slot { base, bytes: slot_bytes, region: region.clone() }
            })
            .collect()
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({} bytes)", self.bytes())
    }
}

/// Memory of the allocator. Asked for with its ordinary alignment and a page too long: only then do
/// its zeros come from the system, and a page that no frame has touched costs nothing.
struct Heap {
    /// The first whole page of the allocation.
    base: NonNull<u8>,
    bytes: usize,
    allocated: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the pointer is owned by the value, and the bytes behind it are only reached through
// slots, each of which is the only one to its bytes (ME-1).
unsafe impl Send for Heap {}
// SAFETY: a shared heap gives its address and no access to its bytes; only slots do (ME-1).
unsafe impl Sync for Heap {}

// SAFETY: the base is page-aligned and inside the allocation with all the bytes after it, which is
// zeroed, and is freed by the drop alone.
unsafe impl Backing for Heap {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Heap {
    fn new(bytes: usize) -> Self {
        assert!(bytes > 0, "a region has at least one byte");
        let bytes = bytes.next_multiple_of(PAGE);
        let layout = Layout::from_size_align(bytes + PAGE, align_of::<u128>())
            .expect("a region is smaller than the address space");
        // SAFETY: the layout's size is not zero: checked above.
        let allocated = unsafe { alloc_zeroed(layout) };
        let Some(allocated) = NonNull::new(allocated) else { handle_alloc_error(layout) };
        let ahead = allocated.as_ptr().addr().wrapping_neg() % PAGE;
        // SAFETY: less than a page is skipped, and the allocation is a page longer than needed.
        let base = unsafe { allocated.add(ahead) };
        Heap { base, bytes, allocated, layout }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: `allocated` came from `alloc_zeroed` with this layout and is freed once; slots
        // keep the region alive (ME-2), so none is left.
        unsafe { dealloc(self.allocated.as_ptr(), self.layout) }
    }
}

/// One fixed piece of a region, owned: its holder may read and write it (ME-1). It is the token
/// that goes into a work request and comes back in the completion.
pub struct Slot {
    base: NonNull<u8>,
    bytes: usize,
    region: Arc<Region>,
}

// SAFETY: the slot is the only way to its bytes (ME-1).
unsafe impl Send for Slot {}
// SAFETY: a shared slot is only read (ME-1).
unsafe impl Sync for Slot {}

impl Slot {
    /// Returns the region it is a piece of.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Cuts it in two, behind its first `bytes` bytes: a multiple of 16, and less than it has.
    pub(crate) fn split(self, bytes: usize) -> (Self, Self) {
        assert!(bytes < self.bytes && bytes.is_multiple_of(16), "both parts are slots");
        // SAFETY: that is less than the slot's length, so it lies in the same region.
        let base = unsafe { self.base.add(bytes) };
        let behind = Slot { base, bytes: self.bytes - bytes, region: self.region.clone() };
        (Slot { bytes, ..self }, behind)
    }

    /// Joins it with the slot that lies right behind it in its region.
    ///
    /// # Errors
    /// Both, where the other one lies elsewhere.
    pub(crate) fn join(self, behind: Self) -> Result<Self, (Self, Self)> {
        // SAFETY: the end of the slot lies in its region, or right behind it.
        let end = unsafe { self.base.add(self.bytes) };
        if end == behind.base && Arc::ptr_eq(&self.region, &behind.region) {
            // ME-1: both are given up for the slot that covers them.
            Ok(Slot { bytes: self.bytes + behind.bytes, ..self })
        } else {
            Err((self, behind))
        }
    }
}

impl Deref for Slot {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `base..base + bytes` lies in the region, which is alive (ME-2) and initialised
        // (zeroed), and no other slot covers it (ME-1).
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Slot {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` excludes every other access (ME-1).
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.bytes) }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot({} bytes)", self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ME-1: the parts of a slot are disjoint, and make the same slot again, in their order alone.
    #[test]
    fn a_slot_is_cut_and_joined_again() {
        let mut slots = Region::heap(2 * 4096).into_slots(4096);
        let (other, mut slot) = (slots.remove(1), slots.remove(0));
        for (at, byte) in slot.iter_mut().enumerate() {
            *byte = at as u8;
        }
        let start = slot.as_ptr();
        let (mut front, back) = slot.split(1024);
        assert_eq!((front.len(), back.len(), back[0]), (1024, 3072, 0));
        front.fill(7);
        let (back, front) = back.join(front).unwrap_err();
        let (middle, end) = back.split(16);
        let (front, end) = front.join(end).unwrap_err();
        let whole = front.join(middle).and_then(|front| front.join(end)).unwrap();
        assert_eq!((whole.as_ptr(), whole.len()), (start, 4096));
        assert!(whole[..1024].iter().all(|byte| *byte == 7) && whole[1024 + 255] == 255);
        // The next slot of the region is a neighbour, too; one of another region never is.
        let whole = whole.join(other).unwrap();
        assert_eq!(whole.len(), 8192);
        assert!(whole.join(Region::heap(16).into_slots(16).remove(0)).is_err());
    }
}
