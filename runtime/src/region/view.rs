//! Elements of another node's region, in the memory where they arrived.

use std::fmt;
use std::ops::Deref;

use bytemuck::Pod;

use crate::remote::Fetched;

/// Elements of a region at the time of [`RemoteRegion::view`](super::RemoteRegion::view), as a
/// slice. The memory in which they arrived is kept until this is dropped; if they were
/// [copied](Self::is_copied), they have separate memory.
pub struct RegionView<T>(ViewElements<T>);

enum ViewElements<T> {
    /// Bytes that are valid elements: see `is_made_of`.
    Fetched(Fetched),
    Copied(Vec<T>),
}

impl<T: Pod> RegionView<T> {
    /// Returns true if these bytes are valid elements.
    pub(super) fn is_made_of(fetched: &Fetched) -> bool {
        bytemuck::try_cast_slice::<u8, T>(fetched).is_ok()
    }

    pub(super) fn fetched(fetched: Fetched) -> Self {
        RegionView(ViewElements::Fetched(fetched))
    }
}

impl<T> RegionView<T> {
    pub(super) fn copied(elements: Vec<T>) -> Self {
        RegionView(ViewElements::Copied(elements))
    }

    /// Returns true if the elements were copied as by
    /// [`RemoteRegion::read`](super::RemoteRegion::read): they have less than 64 KiB, belong to a
    /// region of this node, or found no room, or the fetch failed.
    pub fn is_copied(&self) -> bool {
        matches!(self.0, ViewElements::Copied(_))
    }
}

impl<T: Pod> Deref for RegionView<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            ViewElements::Fetched(bytes) => bytemuck::cast_slice(bytes),
            ViewElements::Copied(elements) => elements,
        }
    }
}

impl<T: Pod> AsRef<[T]> for RegionView<T> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl<T: Pod + fmt::Debug> fmt::Debug for RegionView<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
}
