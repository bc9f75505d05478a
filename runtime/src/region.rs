//! Regions: memory of a node that tasks of other nodes read and write without involving a task of
//! the node.
//!
//! - **MR-1 plain**: elements are plain data without padding, so any bytes that a peer writes are
//!   valid elements. Memory that a peer may write is never borrowed, but copied in and out.
//! - **MR-2 shares**: a region keeps its shares, and ends them when it is dropped. A
//!   [`RemoteRegion`] that was given away keeps no memory alive.

mod archived;
mod handed;
mod lease;
mod offered;
#[cfg(doctest)]
mod ownership;
mod range;
mod remote;
mod renewal;
mod slice;
mod view;
mod writer;

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Range, RangeBounds};
use std::sync::Arc;

use bytemuck::Pod;
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::node::Node;
use crate::remote::{OutOfRange, Share, ShareHolder, ShareId, Term, Words};
use crate::shared::CountedShare;

pub use crate::error::{
    AllocateError, HandOverCause, HandOverError, RegionError, ReleaseError, WriteAndTellError,
};
pub use crate::remote::Access;
pub use crate::shared::MemoryOffer;
pub use archived::ArchivedRemoteRegion;
pub use handed::{ArchivedHandedRegion, HandedRegion};
pub use lease::Lease;
pub use offered::PeerRegion;
use range::{out_of_range, place};
use remote::RegionAddress;
pub use remote::RemoteRegion;
pub use slice::RegionSlice;
pub use view::RegionView;
pub use writer::{RegionDraft, RegionWriter};

/// Maximum bytes of a region, so that no computation with bytes overflows: half of the maximum of
/// one allocation.
const BYTES_MAX: usize = isize::MAX as usize / 2;

/// An array of `T` in this node's memory that other nodes can access after
/// [`share`](Region::share). Created by [`Node::region`].
///
/// Its owner can read and write it by copies at any time, too. A word, which is 8 bytes at a
/// multiple of 8, never tears: a read returns all of one write to it. In longer pieces a reader may
/// find some words from before a write and others from after it. The owner's writes to a word are
/// not atomic with [`fetch_add`](RemoteRegion::fetch_add) and
/// [`compare_exchange`](RemoteRegion::compare_exchange) of peers.
pub struct Region<T> {
    node: Node,
    memory: Arc<Words>,
    len: usize,
    shares: Arc<Mutex<Vec<RegionShare>>>,
    _elements: PhantomData<fn() -> T>,
}

/// A share, which its region keeps until nothing can access the memory through it any more, so that
/// each revocation waits for that.
struct RegionShare {
    share: Arc<Share>,
    range: Range<usize>,
    /// `None` when the share has ended.
    shared: Option<ActiveShare>,
}

/// The part of a share that is dropped when the share ends.
struct ActiveShare {
    /// Dropping these senders stops the tasks that would end the share.
    tasks: Vec<oneshot::Sender<()>>,
    _counted: CountedShare,
}

/// A node that has access to elements of a [`Region`]. Returned by [`Region::holders`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegionHolder {
    /// The name of the node.
    pub node: Arc<str>,
    /// The access that it was granted.
    pub access: Access,
    /// The shared elements.
    pub range: Range<usize>,
    /// Time of the grant.
    pub since: Instant,
}

impl Node {
    /// Returns a region of `len` elements, all zero.
    ///
    /// # Errors
    /// [`AllocateError::TooLarge`] and [`AllocateError::OutOfMemory`].
    pub fn region<T: Pod>(&self, len: usize) -> Result<Region<T>, AllocateError> {
        let element_bytes = range::element_bytes::<T>();
        let bytes = len.checked_mul(element_bytes).filter(|bytes| *bytes <= BYTES_MAX);
        let bytes = bytes.ok_or(AllocateError::TooLarge { len, element_bytes })?;
        let memory = Words::zeroed(bytes).ok_or(AllocateError::OutOfMemory { bytes })?;
        let (memory, shares) = (Arc::new(memory), Arc::default());
        Ok(Region { node: self.clone(), memory, len, shares, _elements: PhantomData })
    }

    /// Returns a region of these elements.
    ///
    /// # Errors
    /// As for [`region`](Node::region).
    pub fn region_of<T: Pod>(&self, elements: &[T]) -> Result<Region<T>, AllocateError> {
        let region = self.region(elements.len())?;
        let copied = region.memory.write(0, bytemuck::cast_slice(elements));
        debug_assert!(copied.is_ok(), "it has room for just them");
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

    /// Returns a copy of an element.
    ///
    /// # Errors
    /// [`RegionError::OutOfRange`].
    pub fn get(&self, at: usize) -> Result<T, RegionError> {
        let mut element = [T::zeroed()];
        self.read_into(range::following(at, 1), &mut element)?;
        Ok(element[0])
    }

    /// Writes an element.
    ///
    /// # Errors
    /// [`RegionError::OutOfRange`].
    pub fn set(&self, at: usize, element: T) -> Result<(), RegionError> {
        self.write(at, &[element])
    }

    /// Returns the elements, for access without copies; `None` while the region is shared, or while
    /// a task of this node still uses it through a share that has ended.
    /// [`revoke_all`](Self::revoke_all) waits for both.
    pub fn try_local_mut(&mut self) -> Option<&mut [T]> {
        let (len, memory) = (self.len, Arc::get_mut(&mut self.memory)?);
        Some(bytemuck::cast_slice_mut(&mut memory.as_mut_bytes()[..len * size_of::<T>()]))
    }

    /// Returns copies of these elements.
    ///
    /// # Errors
    /// [`RegionError::OutOfRange`].
    pub fn read(&self, range: impl RangeBounds<usize>) -> Result<Vec<T>, RegionError> {
        let range = range::elements(range, self.len);
        place::<T>(&range, self.len)?;
        let mut elements = vec![T::zeroed(); range.len()];
        self.read_into(range, &mut elements)?;
        Ok(elements)
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
        let range = range::elements(range, self.len);
        let at = place::<T>(&range, self.len)?;
        range::check_room(&range, into)?;
        let copied = self.memory.read(at, bytemuck::cast_slice_mut(into));
        copied.map_err(|_| out_of_range(range, self.len))
    }

    /// Returns a view of these elements, in which they are counted from 0.
    ///
    /// # Errors
    /// [`RegionError::OutOfRange`].
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<RegionSlice<'_, T>, RegionError> {
        RegionSlice::new(self, range::elements(range, self.len))
    }

    /// Copies `elements` to the elements from `at` on.
    ///
    /// # Errors
    /// [`RegionError::OutOfRange`]; nothing is written then.
    pub fn write(&self, at: usize, elements: &[T]) -> Result<(), RegionError> {
        let range = range::following(at, elements.len());
        let place = place::<T>(&range, self.len)?;
        let copied = self.memory.write(place, bytemuck::cast_slice(elements));
        copied.map_err(|_| out_of_range(range, self.len))
    }

    /// Returns a [`RemoteRegion`] that gives each of its holders this access to the whole region.
    /// It is a value that can be a field of messages, like an [`ActorRef`](crate::ActorRef). The
    /// access lasts until it is [revoked](Region::revoke) or the region is dropped. To end the
    /// access of all holders together, share once and clone the result.
    ///
    /// A node without a network shares with its own tasks.
    ///
    /// # Errors
    /// None at present ([`RegionError`]).
    pub fn share(&self, access: Access) -> Result<RemoteRegion<T>, RegionError> {
        self.share_range(.., access)
    }

    /// Shares these elements like [`share`](Region::share). The holders have no access to other
    /// elements.
    ///
    /// # Errors
    /// [`RegionError::OutOfRange`], and [`RegionError::Unaligned`] if the first element does not
    /// begin at a multiple of 8 bytes.
    pub fn share_range(
        &self,
        range: impl RangeBounds<usize>,
        access: Access,
    ) -> Result<RemoteRegion<T>, RegionError> {
        self.share_for(range::elements(range, self.len), access, None)
    }

    /// Shares these elements, for a term if there is one.
    fn share_for(
        &self,
        range: Range<usize>,
        access: Access,
        term: Option<Term>,
    ) -> Result<RemoteRegion<T>, RegionError> {
        let at = place::<T>(&range, self.len)?;
        if !at.is_multiple_of(8) {
            return Err(RegionError::Unaligned { element: range.start });
        }
        let bytes = range.len() as u64 * size_of::<T>() as u64;
        let shared = self.node.shares().share(&self.memory, (at, bytes), access, term);
        let share = shared.map_err(|OutOfRange { .. }| out_of_range(range.clone(), self.len))?;
        let id = self.node.id();
        let place = RegionAddress {
            node: id.name.as_str().into(),
            incarnation: id.incarnation.0,
            share: share.id().0,
            at: 0,
            len: range.len() as u64,
        };
        // MR-2.
        let _counted = self.node.shared_totals().count(bytes);
        let (share, shared) = (Arc::new(share), Some(ActiveShare { tasks: Vec::new(), _counted }));
        self.shares.lock().push(RegionShare { share, range, shared });
        Ok(RemoteRegion::bind(&self.node, place))
    }

    /// Prepares a share with a limited time, or for the life of an actor: see [`Lease`].
    pub fn lease(&self, access: Access) -> Lease<'_, T> {
        Lease::new(self, access)
    }

    /// Returns the other nodes that have access to the region now, one entry for each share that a
    /// node has used. A node has access from its first use of a share until that ends, or the link
    /// or its connection for shared memory does. Tasks of this node are not counted.
    pub fn holders(&self) -> Vec<RegionHolder> {
        let shares = self.shares.lock();
        let shares: Vec<_> = shares.iter().map(|it| (it.share.clone(), it.range.clone())).collect();
        let of_share = |(share, range): &(Arc<Share>, Range<usize>)| {
            let holder = |of: ShareHolder| {
                let (node, range) = (of.node.as_str().into(), range.clone());
                RegionHolder { node, access: of.access, range, since: of.since }
            };
            share.holders().into_iter().map(holder).collect::<Vec<_>>()
        };
        shares.iter().flat_map(of_share).collect()
    }

    /// Revokes access given by [`share`](Region::share). The revocation takes effect at the call,
    /// even if the returned future is never polled. When the future is ready, no operation accesses
    /// the memory through this share any more; pending operations have ended, or end with an error.
    /// It waits up to 2 seconds ([`REVOKE_PATIENCE`](crate::limits::REVOKE_PATIENCE)) for a node
    /// that does not answer, and for a device that is registering the memory until it has finished.
    /// Returns true if this call revoked the access, and false if it was revoked before (then this
    /// waits for the same end) or belongs to another region.
    ///
    /// An actor that should not wait in its turn passes the future to
    /// [`Context::pipe`](crate::Context::pipe), and continues when it is ready.
    ///
    /// # Cancel safety
    /// If the future is dropped, the revocation still happens.
    pub fn revoke(&self, shared: &RemoteRegion<T>) -> impl Future<Output = bool> + use<T> {
        let share = ShareId(shared.share());
        let (was_shared, ended) = lease::end(&self.shares, Some(share));
        async move {
            join_all(ended).await;
            was_shared
        }
    }

    /// Revokes all access given by [`share`](Region::share), like [`revoke`](Region::revoke).
    ///
    /// # Cancel safety
    /// If the future is dropped, the revocation still happens.
    pub fn revoke_all(&self) -> impl Future<Output = ()> + use<T> {
        let (_, ended) = lease::end(&self.shares, None);
        async move { drop(join_all(ended).await) }
    }
}

impl<T> fmt::Debug for Region<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({} elements of {})", self.len, self.node.name())
    }
}
