//! Writes to another node's region that are confirmed together.

use std::fmt;
use std::ops::{Deref, DerefMut};

use bytemuck::Pod;
use bytemuck::allocation::try_zeroed_vec;

use super::range::{self, element_bytes};
use super::remote::RemoteRegion;
use crate::error::RegionError;
use crate::remote::{Draft, SharedMemory, SharedWriter};
use crate::shared::RegionOperation;

/// Writes elements of a region in several calls, and confirms all of them at the end. Created by
/// [`RemoteRegion::writer`].
///
/// [`RemoteRegion::write`] confirms each write: over RDMA, it reads a word after the write, which
/// no device answers before the memory has the written elements. A writer does not. Each call
/// returns when the device of the region's node has accepted the elements: later operations of this
/// node on the region find them. Other nodes may find any of them, in any order, before
/// [`flush`](Self::flush) has returned, and find all of them after that. If the writer is dropped
/// without a `flush`, the elements arrive some time later. So `flush` before you write the value
/// that tells others to look, for example a version number. Over TCP, `flush` only waits for calls
/// whose futures were dropped, and on this node it has nothing to do. Until all is flushed, the
/// link is neither closed as idle nor replaced by a better one.
///
/// # Errors
/// After [`RegionError::Unknown`], some elements written since the last `flush` may be missing, and
/// the writer starts again; after all other errors the call did nothing, and `flush` reports the
/// fate of the calls before it.
pub struct RegionWriter<T> {
    region: RemoteRegion<T>,
    /// `None` if the region has [no network](RegionError::NoNetwork).
    writer: Option<SharedWriter>,
}

/// Elements to be written to a region: a slice to fill completely and pass to
/// [`RegionWriter::write_draft`]. At first it contains zeros, or old data of its memory: an earlier
/// draft, or data from the region's node. Created by [`RegionWriter::draft`].
///
/// There may be several drafts at a time, and any writer to a region of the same node may write
/// them. If the draft's memory belongs to a connection that has ended meanwhile, its elements are
/// copied.
pub struct RegionDraft<T>(DraftElements<T>);

enum DraftElements<T> {
    /// Bytes that are valid elements: see `is_made_of`.
    Drafted(Draft),
    Copied(Vec<T>),
}

impl<T: Pod> RemoteRegion<T> {
    /// Returns a writer, which confirms several writes together, and can write without a copy.
    pub fn writer(&self) -> RegionWriter<T> {
        let writer = self.memory().map(SharedMemory::writer);
        RegionWriter { region: self.clone(), writer }
    }
}

impl<T: Pod> RegionWriter<T> {
    /// Writes `elements` to the elements from `at` on.
    ///
    /// # Errors
    /// [`RegionError`], according to its table for writes.
    ///
    /// # Cancel safety
    /// If the future is dropped, some of these elements may be written, at the latest when the next
    /// [`flush`](Self::flush) returns.
    pub async fn write(&mut self, at: usize, elements: &[T]) -> Result<(), RegionError> {
        let range = range::following(at, elements.len());
        let (_, at) = self.region.find(&range)?;
        let writer = self.writer.as_mut().ok_or(RegionError::NoNetwork)?;
        RegionOperation::Write.note();
        let written = writer.write(at, bytemuck::cast_slice(elements)).await;
        written.map_err(|error| self.region.error(range, error))
    }

    /// Returns memory for `len` elements to be written. From 64 KiB on, an RDMA device reads them
    /// from this memory without a copy, and usually without an allocation. It counts like a
    /// [view](RemoteRegion::view) until it is written or dropped. Fewer bytes, bytes for which such
    /// memory has no room, and elements for a region of this node have separate memory, and are
    /// [copied](RegionDraft::is_copied) as by [`write`](Self::write). This needs no access; writing
    /// needs [`Access::WRITE`](crate::region::Access::WRITE).
    ///
    /// # Errors
    /// [`RegionError`], according to its table for reads; [`RegionError::OutOfRange`] if the region
    /// has fewer elements, even if it claimed more; [`RegionError::Unable`] if this node has no
    /// memory for them.
    ///
    /// # Cancel safety
    /// The future can be dropped.
    pub async fn draft(&self, len: usize) -> Result<RegionDraft<T>, RegionError> {
        let (memory, _) = self.region.find(&(0..len))?;
        let drafted = memory.draft(len.saturating_mul(size_of::<T>())).await;
        Ok(RegionDraft(match drafted.map_err(|error| self.region.error(0..len, error))? {
            Some(draft) if bytemuck::try_cast_slice::<u8, T>(&draft).is_ok() => {
                DraftElements::Drafted(draft)
            }
            // The number was claimed by the region's node, and this node may lack the memory.
            _ => DraftElements::Copied(try_zeroed_vec(len).map_err(|()| {
                let (node, bytes) = (self.region.node().into(), len * size_of::<T>());
                let why = format!("this node has no memory for a draft of {bytes} bytes");
                RegionError::Unable { node, why }
            })?),
        }))
    }

    /// Writes `draft` to the elements from index `at` on. The next draft reuses the memory of this
    /// one. The elements are copied if the byte offset of `at` in the region is no multiple of 8.
    ///
    /// # Errors
    /// As for [`write`](Self::write). The draft is lost: keep the data in it until `flush` has
    /// returned.
    ///
    /// # Cancel safety
    /// As for `write`.
    pub async fn write_draft(
        &mut self,
        at: usize,
        draft: RegionDraft<T>,
    ) -> Result<(), RegionError> {
        let draft = match draft.0 {
            DraftElements::Copied(elements) => return self.write(at, &elements).await,
            DraftElements::Drafted(draft) => draft,
        };
        let range = range::following(at, draft.len() / element_bytes::<T>());
        let (_, at) = self.region.find(&range)?;
        let writer = self.writer.as_mut().ok_or(RegionError::NoNetwork)?;
        RegionOperation::Write.note();
        let written = writer.write_draft(at, draft).await;
        written.map_err(|error| self.region.error(range, error))
    }

    /// Waits until all elements of this writer are written and visible to all nodes.
    ///
    /// # Errors
    /// [`RegionError::Unknown`]: some elements written since the last call may be missing.
    ///
    /// # Cancel safety
    /// The future can be dropped, and this can be called again.
    pub async fn flush(&mut self) -> Result<(), RegionError> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let flushed = writer.flush().await;
        flushed.map_err(|error| self.region.error(0..0, error))
    }
}

impl<T> RegionWriter<T> {
    /// Returns the region that it writes to.
    pub fn region(&self) -> &RemoteRegion<T> {
        &self.region
    }
}

impl<T> RegionDraft<T> {
    /// Returns true if its elements have separate memory, and are copied when they are written, as
    /// by [`RegionWriter::write`]. Over TCP, too, it is false from 64 KiB on: there the tasks of
    /// the link copy them.
    pub fn is_copied(&self) -> bool {
        matches!(self.0, DraftElements::Copied(_))
    }
}

impl<T: Pod> Deref for RegionDraft<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            DraftElements::Drafted(bytes) => bytemuck::cast_slice(bytes),
            DraftElements::Copied(elements) => elements,
        }
    }
}

impl<T: Pod> DerefMut for RegionDraft<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            DraftElements::Drafted(bytes) => bytemuck::cast_slice_mut(bytes),
            DraftElements::Copied(elements) => elements,
        }
    }
}

impl<T> fmt::Debug for RegionWriter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegionWriter(to {:?})", self.region)
    }
}

impl<T: Pod + fmt::Debug> fmt::Debug for RegionDraft<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
}
