//! Bytes of a large message that travel behind a frame, from where they were written to where they
//! are read.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use rkyv::util::AlignedVec;

use super::Buffer;

/// A part of a shared buffer, to be sent behind the bytes of a slot. Written by the protocol, for
/// fabrics that gather a frame from several places. Clones share the buffer, which is given back
/// when the last one is dropped.
#[derive(Clone)]
pub struct Tail {
    buffer: Arc<Buffer>,
    start: u32,
    end: u32,
}

impl Tail {
    /// Creates a tail of a part of `buffer`.
    ///
    /// # Panics
    /// When `part` does not lie in the buffer, or beyond its first 4 GiB.
    pub fn new(buffer: Arc<Buffer>, part: Range<usize>) -> Self {
        assert!(part.start <= part.end && part.end <= buffer.len(), "a part lies in its buffer");
        let number = |bytes: usize| u32::try_from(bytes).expect("a message is smaller than 4 GiB");
        let (start, end) = (number(part.start), number(part.end));
        Tail { buffer, start, end }
    }
}

impl Deref for Tail {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.buffer[self.start as usize..self.end as usize]
    }
}

impl fmt::Debug for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tail({} bytes)", self.len())
    }
}

/// Memory of a receiver that the tail of a frame is read into.
pub struct TailRoom {
    buffer: AlignedVec<16>,
    range: Range<usize>,
}

impl TailRoom {
    /// Creates room for a tail as long as `range`, there in `buffer`.
    ///
    /// # Panics
    /// When `range` does not lie in the buffer.
    pub fn new(buffer: AlignedVec<16>, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= buffer.len(), "it lies in its buffer");
        TailRoom { buffer, range }
    }

    /// Returns the length of the tail.
    #[expect(clippy::len_without_is_empty, reason = "no frame has an empty tail")]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Returns the memory for the tail.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.range.clone()]
    }

    /// Returns the whole buffer.
    pub fn into_buffer(self) -> AlignedVec<16> {
        self.buffer
    }
}

impl fmt::Debug for TailRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TailRoom({} bytes)", self.range.len())
    }
}
