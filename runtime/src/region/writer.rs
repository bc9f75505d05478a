//! Writes to another node's region that are made sure of together.

use std::fmt;
use std::ops::{Deref, DerefMut};

use bytemuck::Pod;
use bytemuck::allocation::try_zeroed_vec;

use super::range::{self, element_bytes};
use super::remote::RemoteRegion;
use crate::error::RegionError;
use crate::remote::{Draft, SharedMemory, SharedWriter};
use crate::shared::Use;

/// Writes elements of a region one after the other, and makes sure of all of them at the end. Made
/// by [`RemoteRegion::writer`].
///
/// [`RemoteRegion::write`] makes sure of each write: over RDMA it reads a word behind it, which no
/// device answers before the memory has what was written. This writes as the device does. Each call
/// returns when the device of the region's node has taken the elements: operations that this node
/// begins on the region later find them. Others may find any of them, in any order, before
/// [`flush`](Self::flush) has returned, and find all of them after that, whatever tells them to
/// look; where this is dropped without it, they are there some time later. So `flush` before you
/// write what tells others to look, a number of the version say. Over TCP nothing is left for
/// `flush` to do but to wait for calls that were given up, and on this node nothing. Until all is
/// flushed the link is not closed as idle, nor changed for a better one.
///
/// # Errors
/// After [`RegionError::Unknown`] some of what was written since the last `flush` may not be there,
/// and the writer begins anew; after every other error the call did nothing, and `flush` says what
/// became of the calls before it.
pub struct RegionWriter<T> {
    region: RemoteRegion<T>,
    /// `None` where the region has [no network](RegionError::NoNetwork).
    writer: Option<SharedWriter>,
}

/// Elements that are to be written to a region: a slice to be filled, all of it, and given to
/// [`RegionWriter::write_draft`]. It has zeros in it at first, or what lay in its memory before: an
/// earlier draft, or what came from that node. Made by [`RegionWriter::draft`].
///
/// There may be several at one time, and any writer to a region of the same node may write it.
/// Where it has memory of a connection that has ended by then, its elements are copied.
pub struct RegionDraft<T>(Elements<T>);

enum Elements<T> {
    /// They are bytes of elements: see `is_made_of`.
    Drafted(Draft),
    Copied(Vec<T>),
}

impl<T: Pod> RemoteRegion<T> {
    /// Returns what writes several times and makes sure of it once, or without a copy.
    pub fn writer(&self) -> RegionWriter<T> {
        let writer = self.memory().map(SharedMemory::writer);
        RegionWriter { region: self.clone(), writer }
    }
}

impl<T: Pod> RegionWriter<T> {
    /// Writes `elements` to those from `at` on.
    ///
    /// # Errors
    /// [`RegionError`], as its table says of writes.
    ///
    /// # Cancel safety
    /// When the future is dropped some of them may be written: not later than the next
    /// [`flush`](Self::flush) returns.
    pub async fn write(&mut self, at: usize, elements: &[T]) -> Result<(), RegionError> {
        let range = range::following(at, elements.len());
        let (_, at) = self.region.find(&range)?;
        let writer = self.writer.as_mut().ok_or(RegionError::NoNetwork)?;
        Use::Write.note();
        let written = writer.write(at, bytemuck::cast_slice(elements)).await;
        written.map_err(|error| self.region.error(range, error))
    }

    /// Returns memory for `len` elements that are to be written. From 64 KiB on a device takes them
    /// from there over RDMA, without a copy, and no memory is taken once there is some. It counts
    /// as a [view](RemoteRegion::view) does until it was written or is dropped. Fewer bytes, those
    /// for which there is no room, and those for a region of this node are memory of their own, and
    /// [copied](RegionDraft::is_copied) as [`write`](Self::write) copies them. It takes no access:
    /// to write it takes [`Access::WRITE`](crate::Access::WRITE).
    ///
    /// # Errors
    /// [`RegionError`], as its table says of reads; [`RegionError::OutOfRange`] where the region
    /// has fewer elements, also where it was said to have more; [`RegionError::Unable`] where this
    /// node has no memory for them.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn draft(&self, len: usize) -> Result<RegionDraft<T>, RegionError> {
        let (memory, _) = self.region.find(&(0..len))?;
        let drafted = memory.draft(len.saturating_mul(size_of::<T>())).await;
        Ok(RegionDraft(match drafted.map_err(|error| self.region.error(0..len, error))? {
            Some(draft) if bytemuck::try_cast_slice::<u8, T>(&draft).is_ok() => {
                Elements::Drafted(draft)
            }
            // How many there are is the word of their node, and there may be no such memory.
            _ => Elements::Copied(try_zeroed_vec(len).map_err(|()| {
                let (node, bytes) = (self.region.node().into(), len * size_of::<T>());
                let why = format!("this node has no memory for a draft of {bytes} bytes");
                RegionError::Unable { node, why }
            })?),
        }))
    }

    /// Writes a draft to the elements from `at` on. Its memory serves the next one. It is
    /// copied where it does not begin at a multiple of 8 bytes.
    ///
    /// # Errors
    /// As of [`write`](Self::write). The draft is lost: keep what it was filled from until `flush`
    /// has returned.
    ///
    /// # Cancel safety
    /// As of `write`.
    pub async fn write_draft(
        &mut self,
        at: usize,
        draft: RegionDraft<T>,
    ) -> Result<(), RegionError> {
        let draft = match draft.0 {
            Elements::Copied(elements) => return self.write(at, &elements).await,
            Elements::Drafted(draft) => draft,
        };
        let range = range::following(at, draft.len() / element_bytes::<T>());
        let (_, at) = self.region.find(&range)?;
        let writer = self.writer.as_mut().ok_or(RegionError::NoNetwork)?;
        Use::Write.note();
        let written = writer.write_draft(at, draft).await;
        written.map_err(|error| self.region.error(range, error))
    }

    /// Waits until all is there that this has written, for everybody.
    ///
    /// # Errors
    /// [`RegionError::Unknown`]: of what was written since the last call some may not be there.
    ///
    /// # Cancel safety
    /// May be dropped, and called again.
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
    /// Returns true if its elements are memory of their own, and copied when they are written, as
    /// [`RegionWriter::write`] copies them. Over TCP, too, it is false from 64 KiB on: there the
    /// tasks of the link copy them.
    pub fn is_copied(&self) -> bool {
        matches!(self.0, Elements::Copied(_))
    }
}

impl<T: Pod> Deref for RegionDraft<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Elements::Drafted(bytes) => bytemuck::cast_slice(bytes),
            Elements::Copied(elements) => elements,
        }
    }
}

impl<T: Pod> DerefMut for RegionDraft<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Elements::Drafted(bytes) => bytemuck::cast_slice_mut(bytes),
            Elements::Copied(elements) => elements,
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
