//! Memory of large messages: what one message needed, the next one takes.
//!
//! A system that frees a megabyte gives its pages back to the kernel, and fills the next one with
//! zeros page by page; on the machines measured that took longer than the copy over loopback.
//!
//! - **ME-6 kept**: large buffers that are given back are kept for later ones, at most
//!   [`limits::SPARE_BYTES_MAX`] of them in a process; what was not used for longest is freed.

use std::fmt;
use std::ops::Deref;

use parking_lot::Mutex;
use rkyv::util::AlignedVec;

use crate::limits;

/// Buffers from this size on are kept,
const SMALLEST: usize = 64 * 1024;
/// to this one.
const LARGEST: usize = 8 * 1024 * 1024;
/// Up to this size a buffer grows by another one that was kept. Of larger ones the system moves the
/// pages, not the bytes.
const COPIED_MAX: usize = 4 * 1024 * 1024;
/// Room beside what is asked for: an archive ends with a few bytes more than the largest of its
/// parts, for which it would be copied into twice the memory.
const SLACK: usize = 1024;
/// A buffer serves what needs at least this part of it.
const WASTE_MAX: usize = 8;

static SPARE: Mutex<Spare> = Mutex::new(Spare { buffers: Vec::new(), bytes: 0 });

/// Buffers of the process that nobody uses, the last one given back at the end.
struct Spare {
    buffers: Vec<AlignedVec<16>>,
    bytes: usize,
}

impl Spare {
    fn take(&mut self, capacity: usize) -> Option<AlignedVec<16>> {
        let fits = |buffer: &AlignedVec<16>| {
            buffer.capacity() >= capacity && buffer.capacity() / WASTE_MAX <= capacity
        };
        let at = self.buffers.iter().rposition(fits)?;
        let buffer = self.buffers.remove(at);
        self.bytes -= buffer.capacity();
        Some(buffer)
    }

    /// Keeps a buffer; returns those that were not used for longest, as many as are too many.
    fn give(&mut self, buffer: AlignedVec<16>) -> Vec<AlignedVec<16>> {
        self.bytes += buffer.capacity();
        self.buffers.push(buffer);
        let mut over = 0;
        while self.bytes > limits::SPARE_BYTES_MAX {
            self.bytes -= self.buffers[over].capacity();
            over += 1;
        }
        self.buffers.drain(..over).collect()
    }
}

/// Returns an empty buffer with room for so many bytes.
pub fn take(capacity: usize) -> AlignedVec<16> {
    let spare = if capacity < SMALLEST { None } else { SPARE.lock().take(capacity) };
    spare.unwrap_or_else(|| AlignedVec::with_capacity(capacity))
}

/// Gives a buffer back, whatever is in it.
pub fn give(mut buffer: AlignedVec<16>) {
    if (SMALLEST..=LARGEST).contains(&buffer.capacity()) {
        buffer.clear();
        let over = SPARE.lock().give(buffer);
        // Freed without the lock.
        drop(over);
    }
}

/// Makes room for `more` bytes in `buffer`.
#[inline]
pub fn reserve(buffer: &mut AlignedVec<16>, more: usize) {
    if buffer.capacity() - buffer.len() < more {
        grow(buffer, more);
    }
}

#[cold]
fn grow(buffer: &mut AlignedVec<16>, more: usize) {
    let bytes = buffer.len() + more;
    if !(SMALLEST..=COPIED_MAX).contains(&bytes) {
        return buffer.reserve(more);
    }
    let mut larger = take(bytes.max(2 * buffer.capacity()) + SLACK);
    larger.extend_from_slice(buffer);
    give(std::mem::replace(buffer, larger));
}

/// A buffer that is given back when dropped.
#[cfg_attr(test, derive(Clone))]
pub struct Buffer(AlignedVec<16>);

impl From<AlignedVec<16>> for Buffer {
    fn from(bytes: AlignedVec<16>) -> Self {
        Buffer(bytes)
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.0.capacity() >= SMALLEST {
            give(std::mem::take(&mut self.0));
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ME-6.
    #[test]
    fn so_many_bytes_are_kept_and_no_more() {
        let mut spare = Spare { buffers: Vec::new(), bytes: 0 };
        let large = limits::SPARE_BYTES_MAX / 4;
        for _ in 0..4 {
            assert!(spare.give(AlignedVec::with_capacity(large)).is_empty());
        }
        let over = spare.give(AlignedVec::with_capacity(SMALLEST));
        assert_eq!(over.iter().map(AlignedVec::capacity).collect::<Vec<_>>(), [large]);
        assert!(spare.take(large + 1).is_none());
        assert!(spare.take(large / WASTE_MAX - 1).is_none(), "too much of it would be wasted");
        assert_eq!(spare.take(large / 2).map(|buffer| buffer.capacity()), Some(large));
        assert!(spare.give(AlignedVec::with_capacity(SMALLEST)).is_empty());
        assert_eq!(spare.bytes, 2 * large + 2 * SMALLEST);
    }

    #[test]
    fn room_is_made_for_what_is_there_and_what_comes() {
        for bytes in [10, SMALLEST, 4 * SMALLEST, COPIED_MAX + 1, LARGEST + 1] {
            let mut buffer = AlignedVec::<16>::new();
            buffer.extend_from_slice(&[7; 100]);
            reserve(&mut buffer, bytes);
            assert!(buffer.capacity() >= 100 + bytes);
            assert_eq!(*buffer, [7; 100]);
        }
    }
}
