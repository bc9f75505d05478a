//! Regions: memory of a node that tasks of other nodes read and write without a task of it.
//!
//! - **MR-1 plain**: elements are plain data without padding, so any bytes that a peer writes are
//!   some elements. Memory that a peer may write is never borrowed: it is copied in and out.
//! - **MR-2 shares**: a region keeps its shares, and ends them with itself. A [`RemoteRegion`] that
//!   is given away keeps nothing alive.

mod archived;
mod remote;

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use futures::future::join_all;
use parking_lot::Mutex;

use crate::error::RegionError;
use crate::node::Node;
use crate::remote::{Access, OutOfRange, Share, ShareId, Words};

pub use archived::ArchivedRemoteRegion;
pub use remote::RemoteRegion;
use remote::Whereabouts;

/// Bytes of the largest region, so that no number of bytes wraps around: half of what there may be
/// in one allocation.
const BYTES_MAX: usize = isize::MAX as usize / 2;

/// An array of `T` in this node's memory that other nodes are given access to by
/// [`share`](Region::share). Made by [`Node::region`].
///
/// Its owner reads and writes it by copies, too, at any time. A word, 8 bytes whose place is a
/// multiple of 8, never tears: a read finds what one write left in it. Of longer pieces a reader
/// may find some words from before a write and others from after it. What the owner writes to a
/// word and what peers do to it by [`fetch_add`](RemoteRegion::fetch_add) and
/// [`compare_and_swap`](RemoteRegion::compare_and_swap) is not atomic with each other.
pub struct Region<T> {
    node: Node,
    memory: Arc<Words>,
    len: usize,
    shares: Mutex<Vec<Share>>,
    _elements: PhantomData<fn() -> T>,
}

impl Node {
    /// Returns a region of `len` elements, all zero.
    ///
    /// # Errors
    /// [`RegionError::TooLarge`].
    pub fn region<T: Pod>(&self, len: usize) -> Result<Region<T>, RegionError> {
        let element_bytes = size_of::<T>();
        let bytes = len.checked_mul(element_bytes).filter(|bytes| *bytes <= BYTES_MAX);
        let bytes = bytes.ok_or(RegionError::TooLarge { len, element_bytes })?;
        let (memory, shares) = (Arc::new(Words::zeroed(bytes)), Mutex::default());
        Ok(Region { node: self.clone(), memory, len, shares, _elements: PhantomData })
    }

    /// Returns a region of these elements.
    ///
    /// # Errors
    /// As of [`region`](Node::region).
    pub fn region_of<T: Pod>(&self, elements: &[T]) -> Result<Region<T>, RegionError> {
        let region = self.region(elements.len())?;
        region.write(0, elements)?;
        Ok(region)
    }
}

impl<T: Pod> Region<T> {
    /// Returns its number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns copies of these elements.
    ///
    /// # Errors
    /// [`RegionError::OutOfRange`].
    pub fn read(&self, range: Range<usize>) -> Result<Vec<T>, RegionError> {
        let at = place::<T>(&range, self.len)?;
        let mut elements = vec![T::zeroed(); range.len()];
        let copied = self.memory.read(at, bytemuck::cast_slice_mut(&mut elements));
        copied.map_err(|_| out_of_range(range, self.len))?;
        Ok(elements)
    }

    /// Copies `elements` to those from `at` on.
    ///
    /// # Errors
    /// [`RegionError::OutOfRange`]; nothing is written then.
    pub fn write(&self, at: usize, elements: &[T]) -> Result<(), RegionError> {
        let range = at..at.saturating_add(elements.len());
        let place = place::<T>(&range, self.len)?;
        let copied = self.memory.write(place, bytemuck::cast_slice(elements));
        copied.map_err(|_| out_of_range(range, self.len))
    }

    /// Returns a [`RemoteRegion`] that gives each of its holders this access to the whole region:
    /// a value that is a field of messages, as an [`ActorRef`](crate::ActorRef) is. The access
    /// lasts until it is [revoked](Region::revoke) or the region is dropped: share once, and clone
    /// what this returns, where the access is to end for all at one time.
    ///
    /// # Errors
    /// [`RegionError::NoNetwork`].
    pub fn share(&self, access: Access) -> Result<RemoteRegion<T>, RegionError> {
        let bytes = self.len as u64 * size_of::<T>() as u64;
        let shared = self.node.share(&self.memory, bytes, access).ok_or(RegionError::NoNetwork)?;
        let share = shared.map_err(|OutOfRange { .. }| out_of_range(0..self.len, self.len))?;
        let id = self.node.id();
        let place = Whereabouts {
            node: id.name.as_str().into(),
            incarnation: id.incarnation.0,
            share: share.id().0,
            at: 0,
            len: self.len as u64,
        };
        // MR-2.
        self.shares.lock().push(share);
        Ok(RemoteRegion::bind(&self.node, place))
    }

    /// Takes back what [`share`](Region::share) gave. When this returns no operation reaches the
    /// memory by it any more; one that was under way has ended, or ends with an error. A node that
    /// does not answer is waited for, for up to 2 seconds
    /// ([`REVOKE_PATIENCE`](crate::limits::REVOKE_PATIENCE)). Does nothing for a share that was
    /// revoked before, or is of another region.
    ///
    /// # Cancel safety
    /// When the future is dropped it is revoked all the same.
    pub fn revoke(&self, shared: &RemoteRegion<T>) -> impl Future<Output = ()> + use<T> {
        let share = {
            let mut shares = self.shares.lock();
            let is_it = |share: &Share| share.id() == ShareId(shared.share());
            shares.iter().position(is_it).map(|place| shares.swap_remove(place))
        };
        async move {
            if let Some(share) = share {
                share.end().await;
            }
        }
    }

    /// Takes back all that [`share`](Region::share) gave, as [`revoke`](Region::revoke) does.
    ///
    /// # Cancel safety
    /// When the future is dropped all are revoked all the same.
    pub fn revoke_all(&self) -> impl Future<Output = ()> + use<T> {
        let shares = std::mem::take(&mut *self.shares.lock());
        async move {
            join_all(shares.into_iter().map(Share::end)).await;
        }
    }
}

/// Returns the first byte of elements of a region of `len`.
fn place<T>(range: &Range<usize>, len: usize) -> Result<u64, RegionError> {
    if range.start > range.end || range.end > len {
        return Err(out_of_range(range.clone(), len));
    }
    // How many there are may be the word of another node.
    let at = (range.start as u64).checked_mul(size_of::<T>() as u64);
    let bytes = range.len().checked_mul(size_of::<T>()).filter(|bytes| *bytes <= BYTES_MAX);
    at.filter(|_| bytes.is_some()).ok_or_else(|| out_of_range(range.clone(), len))
}

fn out_of_range(range: Range<usize>, len: usize) -> RegionError {
    RegionError::OutOfRange { range, len }
}

impl<T> fmt::Debug for Region<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({} elements of {})", self.len, self.node.name())
    }
}
