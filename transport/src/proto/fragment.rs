//! Putting a fragmented message together again.
//!
//! A link carries one fragmented message and one fragmented answer at a time; the parts of each
//! come in order, other records in between. A message has never more bytes than its first record
//! announced, and never more than the receiver's limit. Memory is taken as parts arrive, not as
//! much as was announced, unless a buffer of that size was kept.

use std::mem;
use std::time::Instant;

use rkyv::util::AlignedVec;

use super::header::RecordHeader;
use crate::memory::{TailRoom, buffer};
use crate::mutants::planted;
use crate::proto::error::Violation;

/// A fragmented message of which parts have come.
#[derive(Debug)]
pub(crate) struct Assembly {
    first: RecordHeader,
    /// Time at which the asker gives up; counted from the first part, whenever the last one comes.
    deadline: Option<Instant>,
    /// The first `filled` bytes have come. Those behind may be of another message: the body is only
    /// handed out without them.
    body: AlignedVec<16>,
    filled: usize,
    /// Bytes of a tail for which [`room`](Self::room) was given out.
    tail: Option<usize>,
}

/// Memory that is set aside at once for an announced message.
const EXPECT: usize = 2 * 1024 * 1024;

impl Assembly {
    /// Begins with the first record and its part of the bytes.
    pub(crate) fn begin(
        first: RecordHeader,
        deadline: Option<Instant>,
        part: &[u8],
        bytes_max: u32,
    ) -> Result<Self, Violation> {
        if first.total > bytes_max || part.len() >= first.total as usize {
            return Err(Violation::Fragment);
        }
        let total = first.total as usize;
        let kept = buffer::take_kept_as_it_is(total);
        let kept = kept.or_else(|| buffer::take_kept_as_it_is(total.min(EXPECT)));
        let body = kept.unwrap_or_else(|| AlignedVec::with_capacity(total.min(EXPECT)));
        let mut assembly = Assembly { first, deadline, body, filled: 0, tail: None };
        assembly.fill(part);
        Ok(assembly)
    }

    /// Adds the next part; says whether the message is complete.
    pub(crate) fn add(&mut self, part: &[u8]) -> Result<bool, Violation> {
        let total = self.first.total as usize;
        if part.is_empty() || self.tail.is_some() || part.len() > total - self.filled {
            return Err(Violation::Fragment);
        }
        self.fill(part);
        if planted!(ReorderedFragments) {
            self.body[..self.filled].rotate_right(part.len());
        }
        Ok(self.filled == total)
    }

    fn fill(&mut self, part: &[u8]) {
        let over = part.len().min(self.body.len() - self.filled);
        self.body[self.filled..self.filled + over].copy_from_slice(&part[..over]);
        buffer::reserve_towards(&mut self.body, part.len() - over, self.first.total as usize);
        self.body.extend_from_slice(&part[over..]);
        self.filled += part.len();
    }

    /// Gives out the memory for the next part, which is a tail of `bytes` bytes.
    pub(crate) fn room(&mut self, bytes: usize) -> Result<TailRoom, Violation> {
        let total = self.first.total as usize;
        if bytes == 0 || self.tail.is_some() || bytes > total - self.filled {
            return Err(Violation::Fragment);
        }
        self.tail = Some(bytes);
        let mut body = mem::take(&mut self.body);
        let end = self.filled + bytes;
        if body.len() < end {
            let more = end - body.len();
            buffer::reserve_towards(&mut body, more, total);
            body.resize(end, 0);
        }
        Ok(TailRoom::new(body, self.filled..end))
    }

    /// Returns true if the memory for the next part was given out.
    pub(crate) fn gave_room(&self) -> bool {
        self.tail.is_some()
    }

    /// Takes the memory back, with the tail in it.
    pub(crate) fn take_back(&mut self, room: TailRoom) {
        self.body = room.into_buffer();
    }

    /// Adds the tail that was read; says whether the message is complete.
    pub(crate) fn add_tail(&mut self, bytes: usize) -> Result<bool, Violation> {
        if self.tail.take() != Some(bytes) {
            return Err(Violation::Fragment);
        }
        self.filled += bytes;
        Ok(self.filled == self.first.total as usize)
    }

    /// Returns the first record's header, when its asker gives up, and all bytes.
    pub(crate) fn finish(mut self) -> (RecordHeader, Option<Instant>, AlignedVec<16>) {
        self.body.resize(self.filled, 0);
        (self.first, self.deadline, self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::header::RecordKind;

    fn first(total: u32) -> RecordHeader {
        RecordHeader { total, ..RecordHeader::new(RecordKind::Tell) }
    }

    #[test]
    fn parts_make_the_whole_and_lies_are_found() {
        let mut assembly = Assembly::begin(first(5), None, &[1, 2], 10).unwrap();
        assert_eq!(assembly.add(&[]), Err(Violation::Fragment));
        assert_eq!(assembly.add(&[3, 4, 5, 6]), Err(Violation::Fragment));
        assert_eq!(assembly.add(&[3]), Ok(false));
        assert_eq!(assembly.add(&[4, 5]), Ok(true));
        assert_eq!(assembly.finish().2.as_slice(), [1, 2, 3, 4, 5]);
        assert!(Assembly::begin(first(11), None, &[1], 10).is_err(), "over the limit");
        assert!(Assembly::begin(first(1), None, &[1], 10).is_err(), "not a fragment at all");
    }
}
