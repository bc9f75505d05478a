//! Bytes of a large message that go into a frame from where they were written.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use super::Buffer;

/// A part of a shared buffer, to be sent inside of a frame whose other bytes lie in a slot. Written
/// by the protocol, for fabrics that gather a frame from several places. Clones share the buffer,
/// which is given back when the last one is dropped.
#[derive(Clone)]
pub struct Splice {
    buffer: Arc<Buffer>,
    start: u32,
    end: u32,
    at: u32,
}

impl Splice {
    /// Creates a splice of a part of `buffer`, which stands in the frame behind the first `at`
    /// bytes of the slot.
    ///
    /// # Panics
    /// When `part` does not lie in the buffer, or beyond its first 4 GiB.
    pub fn new(buffer: Arc<Buffer>, part: Range<usize>, at: usize) -> Self {
        assert!(part.start <= part.end && part.end <= buffer.len(), "a part lies in its buffer");
        let number = |bytes: usize| u32::try_from(bytes).expect("a message is smaller than 4 GiB");
        let (start, end) = (number(part.start), number(part.end));
        Splice { buffer, start, end, at: number(at) }
    }

    /// Returns how many bytes of the slot stand before it in the frame.
    pub fn at(&self) -> usize {
        self.at as usize
    }

    /// Returns true if nothing of the buffer comes after it.
    #[cfg(test)]
    pub(crate) fn is_last(&self) -> bool {
        self.end as usize == self.buffer.len()
    }
}

impl Deref for Splice {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.buffer[self.start as usize..self.end as usize]
    }
}

impl fmt::Debug for Splice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Splice({} bytes at {})", self.len(), self.at)
    }
}
