//! Memory of large messages: what one message needed, the next one takes.
//!
//! A system that frees a megabyte gives its pages back to the kernel, and fills the next one with
//! zeros page by page; on the machines measured that took longer than the copy over loopback, and
//! for messages of 64 MiB five times as long.
//!
//! Buffers that large messages needed are kept for later ones while a node runs, at most
//! [`limits::SPARE_BYTES_MAX`] of them in a process. A buffer is freed when nothing has used it for
//! [`limits::SPARE_KEPT`], or when it was unused for longest and others need its place.

use std::fmt;
use std::ops::Deref;
use std::time::Instant;

use parking_lot::Mutex;
use rkyv::util::AlignedVec;

use crate::limits;

/// A buffer is kept after a message of at least this size. Smaller messages take no kept buffer.
const SMALLEST: usize = 64 * 1024;
/// Up to this size a buffer grows by a copy into another one, if possible a kept one. For larger
/// ones the system moves the pages, not the bytes.
const COPIED_MAX: usize = 4 * 1024 * 1024;
/// Room beyond the size asked for: an archive ends with a few bytes more than the largest of its
/// parts, for which it would be copied into twice the memory.
const SLACK: usize = 1024;
/// A buffer serves requests for at least this part of it: windows count the bytes of messages, not
/// of their buffers.
const WASTE_MAX: usize = 2;

static SPARE: Mutex<Spare> = Mutex::new(Spare { buffers: Vec::new(), bytes: 0, keepers: 0 });

/// Buffers of the process that are not in use, each with the time since when; the last one given
/// back is at the end.
struct Spare {
    buffers: Vec<(AlignedVec<16>, Instant)>,
    bytes: usize,
    /// Nodes that run. Without one nothing is kept.
    keepers: usize,
}

impl Spare {
    fn take(&mut self, capacity: usize) -> Option<AlignedVec<16>> {
        let fits = |(buffer, _): &(AlignedVec<16>, Instant)| {
            buffer.capacity() >= capacity && buffer.capacity() / WASTE_MAX <= capacity
        };
        let at = self.buffers.iter().rposition(fits)?;
        let (buffer, _) = self.buffers.remove(at);
        self.bytes -= buffer.capacity();
        Some(buffer)
    }

    /// Keeps a buffer that was needed; returns the buffers beyond the limit, the least recently
    /// used.
    fn give(&mut self, buffer: AlignedVec<16>, now: Instant) -> Vec<AlignedVec<16>> {
        if self.keepers == 0 || buffer.len() < SMALLEST {
            return vec![buffer];
        }
        self.bytes += buffer.capacity();
        self.buffers.push((buffer, now));
        self.take_oldest(|bytes, _| bytes > limits::SPARE_BYTES_MAX)
    }

    /// Returns the buffers that were not used for too long.
    fn take_unused(&mut self, now: Instant) -> Vec<AlignedVec<16>> {
        self.take_oldest(|_, since| now.saturating_duration_since(since) > limits::SPARE_KEPT)
    }

    /// Takes out the first buffers, as long as `leaves` says so of the bytes of all that are left
    /// and of the time since when the next one is unused.
    fn take_oldest(&mut self, leaves: impl Fn(usize, Instant) -> bool) -> Vec<AlignedVec<16>> {
        let mut count = 0;
        while let Some((buffer, since)) = self.buffers.get(count)
            && leaves(self.bytes, *since)
        {
            self.bytes -= buffer.capacity();
            count += 1;
        }
        self.buffers.drain(..count).map(|(buffer, _)| buffer).collect()
    }
}

/// Returns an empty buffer with room for `capacity` bytes.
pub fn take(capacity: usize) -> AlignedVec<16> {
    take_kept(capacity).unwrap_or_else(|| AlignedVec::with_capacity(capacity))
}

/// Returns an empty buffer with room for `capacity` bytes if one was kept.
fn take_kept(capacity: usize) -> Option<AlignedVec<16>> {
    let mut kept = take_kept_as_it_is(capacity)?;
    kept.clear();
    Some(kept)
}

/// As [`take_kept`], with the bytes of the last message in it, which are to be written over: so
/// nothing has to be filled with zeros first.
pub(crate) fn take_kept_as_it_is(capacity: usize) -> Option<AlignedVec<16>> {
    if capacity < SMALLEST { None } else { SPARE.lock().take(capacity) }
}

/// Gives a buffer back with the message that was in it. It is kept only if the message was large:
/// buffers grow by doubling, and the system serves smaller messages.
pub fn give(buffer: AlignedVec<16>) {
    if buffer.len() >= SMALLEST && buffer.capacity() <= limits::SPARE_BYTES_MAX {
        let now = Instant::now();
        let over = SPARE.lock().give(buffer, now);
        // Freed without the lock.
        drop(over);
    }
}

/// Stands for a node that runs: while there is one, buffers are kept. The last one frees them when
/// it is dropped.
pub(crate) struct Keeper(());

impl Keeper {
    pub(crate) fn new() -> Self {
        SPARE.lock().keepers += 1;
        Keeper(())
    }

    /// Frees the buffers that nothing has used for [`limits::SPARE_KEPT`].
    pub(crate) fn free_unused(&self) {
        let now = Instant::now();
        let unused = SPARE.lock().take_unused(now);
        drop(unused);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let mut spare = SPARE.lock();
        spare.keepers -= 1;
        if spare.keepers == 0 {
            let unused = spare.take_oldest(|_, _| true);
            drop(spare);
            drop(unused);
        }
    }
}

/// Makes room for `more` bytes in `buffer`.
#[inline]
pub fn reserve(buffer: &mut AlignedVec<16>, more: usize) {
    if buffer.capacity() - buffer.len() < more {
        grow(buffer, more, usize::MAX);
    }
}

/// Makes room for `more` bytes in `buffer`, which will have `total` bytes in the end.
pub(crate) fn reserve_towards(buffer: &mut AlignedVec<16>, more: usize, total: usize) {
    if buffer.capacity() - buffer.len() < more {
        grow(buffer, more, total);
    }
}

#[cold]
fn grow(buffer: &mut AlignedVec<16>, more: usize, total: usize) {
    let bytes = buffer.len() + more;
    let room = bytes.max(2 * buffer.capacity()).min(total).max(bytes).saturating_add(SLACK);
    let few = buffer.len() < SMALLEST && bytes >= SMALLEST;
    if few || (SMALLEST..=COPIED_MAX).contains(&bytes) {
        let mut larger = take(room);
        larger.extend_from_slice(buffer);
        give(std::mem::replace(buffer, larger));
    } else if bytes < SMALLEST {
        buffer.reserve(more);
    } else {
        buffer.reserve_exact(room - buffer.len());
    }
}

/// A buffer that is given back when dropped.
pub struct Buffer(AlignedVec<16>);

impl Buffer {
    /// Keeps the first `len` bytes.
    pub(super) fn truncate(&mut self, len: usize) {
        if len < self.0.len() {
            self.0.resize(len, 0);
        }
    }
}

impl From<AlignedVec<16>> for Buffer {
    fn from(bytes: AlignedVec<16>) -> Self {
        Buffer(bytes)
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        let mut copy = take(self.0.len());
        copy.extend_from_slice(&self.0);
        Buffer(copy)
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
        if self.0.len() >= SMALLEST {
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

    #[test]
    fn so_many_bytes_are_kept_and_no_more() {
        let mut spare = Spare { buffers: Vec::new(), bytes: 0, keepers: 1 };
        let used = |capacity| {
            let mut buffer = AlignedVec::<16>::with_capacity(capacity);
            buffer.resize(capacity, 7);
            buffer
        };
        let large = limits::SPARE_BYTES_MAX / 4;
        let now = Instant::now();
        for _ in 0..4 {
            assert!(spare.give(used(large), now).is_empty());
        }
        let over = spare.give(used(SMALLEST), now);
        assert_eq!(over.iter().map(AlignedVec::capacity).collect::<Vec<_>>(), [large]);
        assert!(spare.take(large + 1).is_none());
        assert!(spare.take(large / WASTE_MAX - 1).is_none(), "too much of it would be wasted");
        assert_eq!(spare.take(large / 2).map(|buffer| buffer.capacity()), Some(large));
        let later = now + limits::SPARE_KEPT / 2;
        assert!(spare.give(used(SMALLEST), later).is_empty());
        assert_eq!(spare.bytes, 2 * large + 2 * SMALLEST);

        assert!(spare.take_unused(now + limits::SPARE_KEPT).is_empty());
        assert_eq!(spare.take_unused(later + limits::SPARE_KEPT).len(), 3);
        assert_eq!(spare.bytes, SMALLEST, "what was used since is kept");
        spare.keepers = 0;
        assert_eq!(spare.give(used(SMALLEST), later).len(), 1, "no node needs it");
    }

    /// A buffer of a smaller message can double to the size of kept ones, and no such message takes
    /// it again: each process that sent messages of 33 to 64 KiB kept 160 MiB.
    #[test]
    fn what_is_kept_is_what_a_message_needed() {
        let _node = Keeper::new();
        let kept =
            || SPARE.lock().buffers.iter().filter(|(it, _)| it.capacity() == 2 * 48_611).count();
        for _ in 0..3_000 {
            let mut archive = AlignedVec::<16>::with_capacity(2 * 48_611);
            archive.extend_from_slice(&[7; 48_611]);
            drop(Buffer::from(archive));
        }
        assert_eq!(kept(), 0);
    }

    #[test]
    fn room_is_made_for_what_is_there_and_what_comes() {
        for bytes in [10, SMALLEST, 4 * SMALLEST, COPIED_MAX + 1, 2 * COPIED_MAX + 1] {
            for written in [100, SMALLEST] {
                let mut buffer = AlignedVec::<16>::new();
                buffer.extend_from_slice(&vec![7; written]);
                reserve(&mut buffer, bytes);
                assert!(buffer.capacity() >= written + bytes);
                assert_eq!(*buffer, vec![7; written]);
            }
        }
    }

    /// The memory set aside doubles, up to the total size.
    #[test]
    fn no_more_is_set_aside_than_there_will_be() {
        let total = 4 * COPIED_MAX + 16;
        let mut buffer = AlignedVec::<16>::with_capacity(COPIED_MAX);
        while buffer.len() < total {
            let part = vec![7; (64 * 1024).min(total - buffer.len())];
            reserve_towards(&mut buffer, part.len(), total);
            buffer.extend_from_slice(&part);
            assert!(buffer.capacity() <= (2 * buffer.len()).max(COPIED_MAX) + SLACK);
            assert!(buffer.capacity() <= total + SLACK);
        }
    }
}
