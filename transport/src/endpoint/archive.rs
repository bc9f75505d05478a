//! Writing the archives of messages, in memory that a thread keeps between sends.

use std::cell::Cell;

use rkyv::util::AlignedVec;

use crate::memory::buffer;
use crate::note::Note;

/// The function that writes a message's archive into the empty buffer it is given, in the form at
/// this place among the message's layouts, and returns the note to travel with it. It runs without
/// any lock held, once for each [`Waiter`](super::Waiter) and form, mostly one form. The note of
/// its last call travels.
pub type Archive<'a> = &'a mut dyn FnMut(u8, &mut AlignedVec<16>) -> Archived;

/// The note that is to travel with a message whose archive was written, if there is one.
pub type Archived = Result<Option<Note>, ArchiveFailed>;

/// The error of an archive that could not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveFailed;

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

/// Takes an archive out of the scratch: moves a large one, and copies a small one.
pub(super) fn keep(scratch: &mut AlignedVec<16>, kept: &mut AlignedVec<16>) {
    if scratch.len() > SCRATCH_BYTES_MAX / 16 {
        *kept = std::mem::take(scratch);
    } else {
        kept.clear();
        kept.extend_from_slice(scratch);
    }
}
