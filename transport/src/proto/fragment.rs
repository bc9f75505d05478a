//! Putting a fragmented message together again.
//!
//! - **FR-1 one at a time**: a link carries one fragmented message and one fragmented answer at a
//!   time; the parts of each come in order, other records in between.
//! - **FR-2 bounded**: never more bytes than its first record announced, never more than the
//!   receiver's limit. Memory is taken as parts arrive, not as much as was announced, unless a
//!   buffer of that size was kept.

use std::time::Instant;

use rkyv::util::AlignedVec;

use super::header::RecordHeader;
use crate::memory::buffer;
use crate::mutants::planted;
use crate::proto::error::Violation;

/// A fragmented message of which parts have come.
#[derive(Debug)]
pub(crate) struct Assembly {
    first: RecordHeader,
    /// Time at which the asker gives up; counted from the first part, whenever the last one comes.
    deadline: Option<Instant>,
    body: AlignedVec<16>,
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
        // FR-2.
        if first.total > bytes_max || part.len() >= first.total as usize {
            return Err(Violation::Fragment);
        }
        let total = first.total as usize;
        let mut body = buffer::take_kept(total).unwrap_or_else(|| buffer::take(total.min(EXPECT)));
        body.extend_from_slice(part);
        Ok(Assembly { first, deadline, body })
    }

    /// Adds the next part; says whether the message is complete.
    pub(crate) fn add(&mut self, part: &[u8]) -> Result<bool, Violation> {
        let total = self.first.total as usize;
        if part.is_empty() || self.body.len() + part.len() > total {
            return Err(Violation::Fragment);
        }
        buffer::reserve_towards(&mut self.body, part.len(), total);
        self.body.extend_from_slice(part);
        if planted!(ReorderedFragments) {
            self.body.rotate_right(part.len());
        }
        Ok(self.body.len() == total)
    }

    /// Returns the first record's header, when its asker gives up, and all bytes.
    pub(crate) fn finish(self) -> (RecordHeader, Option<Instant>, AlignedVec<16>) {
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
