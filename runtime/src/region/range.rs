//! Ranges of elements, and their bytes.

use std::ops::{Bound, Range, RangeBounds};

use super::BYTES_MAX;
use crate::error::RegionError;

/// Returns the elements among `len` that a caller's range names. A range that begins after its end
/// is kept unchanged, and [`place`] refuses it.
pub(super) fn elements(range: impl RangeBounds<usize>, len: usize) -> Range<usize> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(start) => start.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(end) => end.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => len,
    };
    start..end
}

/// Returns the range of `count` elements that begins at `at`.
pub(super) fn following(at: usize, count: usize) -> Range<usize> {
    at..at.saturating_add(count)
}

/// Returns the size of an element in bytes. Programs with elements of zero bytes do not compile: a
/// region could have any number of them, and loops over them might not end.
pub(super) const fn element_bytes<T>() -> usize {
    const { assert!(size_of::<T>() > 0, "the elements of a region have a byte at least") };
    size_of::<T>()
}

/// Returns the offset in bytes at which these elements begin in a region of `len` elements.
///
/// # Errors
/// [`RegionError::OutOfRange`].
pub(super) fn place<T>(range: &Range<usize>, len: usize) -> Result<u64, RegionError> {
    if range.start > range.end || range.end > len {
        return Err(out_of_range(range.clone(), len));
    }
    // The number of elements may come from another node.
    let at = (range.start as u64).checked_mul(element_bytes::<T>() as u64);
    let bytes = range.len().checked_mul(size_of::<T>()).filter(|bytes| *bytes <= BYTES_MAX);
    at.filter(|_| bytes.is_some()).ok_or_else(|| out_of_range(range.clone(), len))
}

/// Checks that `into` has exactly the length of these elements.
///
/// # Errors
/// [`RegionError::LengthMismatch`].
pub(super) fn check_room<T>(range: &Range<usize>, into: &[T]) -> Result<(), RegionError> {
    let (wanted, room) = (range.len(), into.len());
    if wanted == room { Ok(()) } else { Err(RegionError::LengthMismatch { wanted, room }) }
}

pub(super) fn out_of_range(range: Range<usize>, len: usize) -> RegionError {
    RegionError::OutOfRange { range, len }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_range_names_elements() {
        let none: Range<usize> = 3..3;
        assert_eq!(elements(.., 7), 0..7);
        assert_eq!(elements(2.., 7), 2..7);
        assert_eq!(elements(..=3, 7), 0..4);
        assert_eq!(elements(3..3, 7), none);
        assert_eq!(elements((Bound::Excluded(2), Bound::Unbounded), 7), 3..7);
        assert_eq!(elements(1..=usize::MAX, 7), 1..usize::MAX);
        assert!(place::<u64>(&(1..usize::MAX), 7).is_err());
        let backwards = Range { start: 5, end: 4 };
        assert!(place::<u64>(&backwards, 7).is_err());
    }
}
