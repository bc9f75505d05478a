//! A part of a region, for its owner.

use std::ops::{Range, RangeBounds};

use bytemuck::Pod;

use super::{Region, range};
use crate::error::RegionError;

/// A part of a [`Region`], with elements counted from its start. Created by [`Region::slice`]. It
/// borrows the region but not its memory, which peers and other slices may write meanwhile: reads
/// and writes may tear as described for [`Region`].
pub struct RegionSlice<'a, T> {
    region: &'a Region<T>,
    range: Range<usize>,
}

impl<'a, T: Pod> RegionSlice<'a, T> {
    pub(super) fn new(region: &'a Region<T>, range: Range<usize>) -> Result<Self, RegionError> {
        range::place::<T>(&range, region.len())?;
        Ok(RegionSlice { region, range })
    }

    /// Returns its number of elements.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Returns true if it has no elements.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Returns a copy of an element.
    ///
    /// # Errors
    /// [`RegionError::OutOfRange`].
    pub fn get(&self, at: usize) -> Result<T, RegionError> {
        self.region.get(self.within(range::following(at, 1))?.start)
    }

    /// Returns copies of these elements.
    ///
    /// # Errors
    /// [`RegionError::OutOfRange`].
    pub fn read(&self, range: impl RangeBounds<usize>) -> Result<Vec<T>, RegionError> {
        self.region.read(self.within(range::elements(range, self.len()))?)
    }

    /// Copies these elements to `into`, which must have exactly their length.
    ///
    /// # Errors
    /// [`RegionError::OutOfRange`] and [`RegionError::LengthMismatch`].
    pub fn read_into(
        &self,
        range: impl RangeBounds<usize>,
        into: &mut [T],
    ) -> Result<(), RegionError> {
        self.region.read_into(self.within(range::elements(range, self.len()))?, into)
    }

    /// Copies `elements` to the elements from `at` on.
    ///
    /// # Errors
    /// [`RegionError::OutOfRange`]; nothing is written then.
    pub fn write(&self, at: usize, elements: &[T]) -> Result<(), RegionError> {
        let range = self.within(range::following(at, elements.len()))?;
        self.region.write(range.start, elements)
    }

    /// Returns a part of this slice.
    ///
    /// # Errors
    /// [`RegionError::OutOfRange`].
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Self, RegionError> {
        RegionSlice::new(self.region, self.within(range::elements(range, self.len()))?)
    }

    /// Returns the indices of these elements in the region.
    fn within(&self, range: Range<usize>) -> Result<Range<usize>, RegionError> {
        range::place::<T>(&range, self.len())?;
        Ok(self.range.start + range.start..self.range.start + range.end)
    }
}
