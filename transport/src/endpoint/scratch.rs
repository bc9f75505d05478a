//! The memory of a thread that archives are written to.

use std::cell::Cell;

use rkyv::util::AlignedVec;

use crate::memory::buffer;

thread_local! {
    /// Archives are written here, so that a send allocates nothing.
    static SCRATCH: Cell<AlignedVec<16>> = Cell::new(AlignedVec::new());
}

/// Memory that a thread's scratch keeps between sends.
const SCRATCH_BYTES_MAX: usize = 1024 * 1024;

/// Returns how much memory the thread keeps for archives.
#[cfg(test)]
pub(super) fn scratch_bytes() -> usize {
    let scratch = SCRATCH.take();
    let bytes = scratch.capacity();
    SCRATCH.set(scratch);
    bytes
}

/// Lends the thread's scratch, emptied.
#[inline]
pub(super) fn with_scratch<T>(use_it: impl FnOnce(&mut AlignedVec<16>) -> T) -> T {
    SCRATCH.with(|scratch| {
        // Taken, not borrowed: a message whose archiving sends another message finds none.
        let mut bytes = scratch.take();
        bytes.clear();
        let result = use_it(&mut bytes);
        if bytes.capacity() > SCRATCH_BYTES_MAX {
            buffer::give(bytes);
        } else {
            scratch.set(bytes);
        }
        result
    })
}

/// Takes an archive out of the scratch: a large one as it is, a small one as a copy.
pub(super) fn keep(scratch: &mut AlignedVec<16>, kept: &mut AlignedVec<16>) {
    if scratch.len() > SCRATCH_BYTES_MAX / 16 {
        *kept = std::mem::take(scratch);
    } else {
        kept.extend_from_slice(scratch);
    }
}
