//! The handle with which tasks of any node use a region.

mod many;

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Range, RangeBounds};
use std::sync::Arc;

use bytemuck::Pod;
use ringpost_transport::cause::{NodeDown, NodeDownCause, NotShared};
use ringpost_transport::id::{Incarnation, NodeId, NodeName};
use rkyv::{Archive, Deserialize, Serialize};

use super::range::{self, element_bytes, out_of_range, place};
use super::view::RegionView;
use crate::actor::{Accepts, ActorRef};
use crate::error::{RegionError, WriteAndTellError};
use crate::message::Message;
use crate::node::Node;
use crate::remote::{AccessError, OutOfRange, ShareId, SharedMemory};
use crate::shared::RegionOperation;

/// Access to a [`Region`](super::Region), possibly of another node. Cloning is cheap; clones, and
/// copies that arrive in messages, lead to the same memory.
///
/// It can be a field of a message, and is bound to the node that takes it out of the message. All
/// nodes that use it must have the byte order of its owner.
///
/// # Bounds
/// Transfers over 256 KiB are split into several operations, in 2 MiB of memory per link. No
/// operation has a separate time-out: it waits until there is a link or the node is down, which
/// takes the node's `down_after` at most. Then it waits for its outcome while the link lives and
/// makes progress with it, and 8 s and four heartbeats longer without progress. Time in which the
/// program of either node blocks its runtime, or in which memory is registered for the first
/// operation, does not count. A read that was lost in this way is started again, up to four times
/// in total. To give up sooner, drop the future (`tokio::time::timeout`). Memory of this node is
/// accessed at once.
///
/// # Errors
/// [`RegionError`] has a table of the errors of each operation. After all errors but
/// [`RegionError::Unknown`], nothing was done.
///
/// A write or an atomic operation that ended as unknown was done before this node's next operation
/// on the region, or never will be: a read can tell. For *other* nodes, it may still be done later,
/// until the owner has revoked the share. An operation whose future was dropped may be done later,
/// at most once.
pub struct RemoteRegion<T> {
    pub(super) place: Arc<RegionAddress>,
    /// `None` if it belongs to another node and this one has no network.
    memory: Option<SharedMemory>,
    _elements: PhantomData<fn() -> T>,
}

/// Bytes of a read for which memory is allocated at once.
const READ_STEP_BYTES: usize = 1024 * 1024;

/// The address of a region, as messages contain it: its node, its share and its elements.
#[derive(Clone, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct RegionAddress {
    pub(super) node: String,
    pub(super) incarnation: u128,
    pub(super) share: u128,
    /// Index of its first element in the shared part.
    pub(super) at: u64,
    pub(super) len: u64,
}

impl<T> RemoteRegion<T> {
    /// Creates a handle bound to `node`.
    pub(super) fn bind(node: &Node, place: RegionAddress) -> Self {
        let name = NodeName::new(&place.node).ok();
        let id = name.map(|name| NodeId { name, incarnation: Incarnation(place.incarnation) });
        let memory = id.and_then(|id| node.shared_memory(&id, ShareId(place.share)));
        RemoteRegion { place: Arc::new(place), memory, _elements: PhantomData }
    }

    /// Returns the name of its node.
    pub fn node(&self) -> &str {
        &self.place.node
    }

    /// Returns its number of elements.
    pub fn len(&self) -> usize {
        self.place.len as usize
    }

    /// Returns true if it has no elements.
    pub fn is_empty(&self) -> bool {
        self.place.len == 0
    }

    /// Returns these elements as a region. This narrows the elements that calls can name, not the
    /// access of the holder: a revocation ends the access of all regions with the same share.
    ///
    /// # Errors
    /// [`RegionError::OutOfRange`].
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Self, RegionError> {
        let range = range::elements(range, self.len());
        place::<T>(&range, self.len())?;
        let mut place = (*self.place).clone();
        place.at = place.at.saturating_add(range.start as u64);
        place.len = range.len() as u64;
        let (place, memory) = (Arc::new(place), self.memory.clone());
        Ok(RemoteRegion { place, memory, _elements: PhantomData })
    }

    /// Returns the same memory as a region of another element type, for example as bytes or as the
    /// words that [`fetch_add`](RemoteRegion::fetch_add) needs, with as many elements as fit.
    ///
    /// # Errors
    /// [`RegionError::Unaligned`] if the first element of a [slice](Self::slice) does not begin at
    /// a multiple of the size of the new type.
    pub fn cast<U: Pod>(&self) -> Result<RemoteRegion<U>, RegionError> {
        let (from, to) = (size_of::<T>() as u64, element_bytes::<U>() as u64);
        let begin = self.place.at.saturating_mul(from);
        if !begin.is_multiple_of(to) {
            return Err(RegionError::Unaligned { element: 0 });
        }
        let mut place = (*self.place).clone();
        (place.at, place.len) = (begin / to, place.len.saturating_mul(from) / to);
        let (place, memory) = (Arc::new(place), self.memory.clone());
        Ok(RemoteRegion { place, memory, _elements: PhantomData })
    }

    pub(super) fn memory(&self) -> Option<&SharedMemory> {
        self.memory.as_ref()
    }

    pub(super) fn share(&self) -> u128 {
        self.place.share
    }

    /// Returns the memory, and the offset in bytes at which these elements begin.
    pub(super) fn find(&self, range: &Range<usize>) -> Result<(&SharedMemory, u64), RegionError> {
        let at = place::<T>(range, self.len())?;
        let memory = self.memory.as_ref().ok_or(RegionError::NoNetwork)?;
        let base = self.place.at.saturating_mul(size_of::<T>() as u64);
        Ok((memory, base.saturating_add(at)))
    }

    pub(super) fn error(&self, range: Range<usize>, error: AccessError) -> RegionError {
        let node = || self.place.node.as_str().into();
        match error {
            AccessError::NoAccess(what) => RegionError::NoAccess(what),
            AccessError::NotShared(NotShared::Unknown) => RegionError::NeverShared(node()),
            AccessError::NotShared(NotShared::Revoked) => RegionError::Revoked,
            AccessError::NotShared(NotShared::Expired) => RegionError::Expired,
            AccessError::OtherRun => RegionError::OtherRun(node()),
            AccessError::NodeDown(NodeDown {
                cause: NodeDownCause::Shutdown | NodeDownCause::Failed,
                ..
            }) => RegionError::Shutdown,
            AccessError::NodeDown(down) => RegionError::NodeDown { node: node(), down },
            AccessError::Unknown => RegionError::Unknown(node()),
            AccessError::OtherExecutor => RegionError::OtherExecutor(node()),
            AccessError::Unsupported => RegionError::Unsupported(node()),
            AccessError::Unable(why) => RegionError::Unable { node: node(), why },
            // A peer may claim more elements than it shares.
            AccessError::OutOfRange(OutOfRange { bytes, .. }) => {
                let shared = (bytes / element_bytes::<T>() as u64).saturating_sub(self.place.at);
                out_of_range(range, self.len().min(shared as usize))
            }
            _ => out_of_range(range, self.len()),
        }
    }
}

impl<T: Pod> RemoteRegion<T> {
    /// Returns a copy of an element.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    ///
    /// # Cancel safety
    /// The future can be dropped.
    pub async fn get(&self, at: usize) -> Result<T, RegionError> {
        let mut element = [T::zeroed()];
        self.read_into(range::following(at, 1), &mut element).await?;
        Ok(element[0])
    }

    /// Copies these elements to `into`, which must have exactly their length.
    ///
    /// # Errors
    /// As for [`read`](Self::read), and [`RegionError::LengthMismatch`]. Then parts of `into` may
    /// be overwritten with meaningless bytes.
    ///
    /// # Cancel safety
    /// The future can be dropped; parts of `into` may be overwritten.
    pub async fn read_into(
        &self,
        range: impl RangeBounds<usize>,
        into: &mut [T],
    ) -> Result<(), RegionError> {
        let range = range::elements(range, self.len());
        let (memory, at) = self.find(&range)?;
        range::check_room(&range, into)?;
        RegionOperation::Read.note();
        let read = memory.read(at, bytemuck::cast_slice_mut(into)).await;
        read.map_err(|error| self.error(range, error))
    }

    /// Returns copies of these elements. Allocates memory for 1 MiB of them at first, and for more
    /// as they arrive.
    ///
    /// # Errors
    /// [`RegionError`], according to its table for reads: never [`Unknown`](RegionError::Unknown).
    ///
    /// # Cancel safety
    /// The future can be dropped.
    pub async fn read(&self, range: impl RangeBounds<usize>) -> Result<Vec<T>, RegionError> {
        let range = range::elements(range, self.len());
        let (memory, at) = self.find(&range)?;
        RegionOperation::Read.note();
        // Memory is doubled as elements arrive, because the number of elements was claimed by their
        // node.
        let step = (READ_STEP_BYTES / element_bytes::<T>()).max(1);
        let (mut come, mut elements) = (0, vec![T::zeroed(); range.len().min(step)]);
        loop {
            let is_last = elements.len() == range.len();
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut elements[..]);
            // Cut between words, because two operations on parts of a word may see two different
            // writes.
            let into_word = (at.wrapping_add(bytes.len() as u64) % 8) as usize;
            let end = bytes.len() - if is_last { 0 } else { into_word };
            let read = memory.read(at + come as u64, &mut bytes[come..end]).await;
            read.map_err(|error| self.error(range.clone(), error))?;
            if is_last {
                return Ok(elements);
            }
            come = end;
            elements.resize(range.len().min(2 * elements.len()), T::zeroed());
        }
    }

    /// Returns these elements in the memory where they arrived. From 64 KiB on, this is memory
    /// reserved for data of their node, and over RDMA the device has written them there: there is
    /// no copy, and usually no allocation. This memory counts towards
    /// [`Lending::landing_bytes_max`](crate::net::Lending::landing_bytes_max) until the result is
    /// dropped; views of one node can have 48 MiB of it in total, and views of all nodes half of
    /// `landing_bytes_max`. Fewer bytes, bytes for which it has no room, and elements of this
    /// node's regions are [read](Self::read): then the view [is a copy](RegionView::is_copied).
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    ///
    /// # Cancel safety
    /// The future can be dropped.
    pub async fn view(&self, range: impl RangeBounds<usize>) -> Result<RegionView<T>, RegionError> {
        let range = range::elements(range, self.len());
        let (memory, at) = self.find(&range)?;
        let fetched = memory.fetch(at, range.len().saturating_mul(size_of::<T>())).await;
        match fetched.map_err(|error| self.error(range.clone(), error))? {
            Some(fetched) if RegionView::<T>::is_made_of(&fetched) => {
                RegionOperation::Read.note();
                Ok(RegionView::fetched(fetched))
            }
            _ => self.read(range).await.map(RegionView::copied),
        }
    }

    /// Writes an element, like [`write`](RemoteRegion::write).
    ///
    /// # Errors
    /// As for `write`.
    ///
    /// # Cancel safety
    /// If the future is dropped, the element may be written, now or later.
    pub async fn set(&self, at: usize, element: T) -> Result<(), RegionError> {
        self.write(at, &[element]).await
    }

    /// Writes `elements` to the elements from `at` on. They are written when this returns: messages
    /// sent after that find them. (Over RDMA, a word is read after the write, which no device
    /// answers before the memory has the elements. A [`writer`](Self::writer) does so once for many
    /// writes.)
    ///
    /// # Errors
    /// [`RegionError`], according to its table for writes. After [`Unknown`](RegionError::Unknown),
    /// some elements may be written, now or later; after all other errors, none is.
    ///
    /// # Cancel safety
    /// If the future is dropped, some of these elements may be written, now or later.
    pub async fn write(&self, at: usize, elements: &[T]) -> Result<(), RegionError> {
        self.write_many(&[(at, elements)]).await
    }

    /// Writes `elements` to the elements from `at` on, and then tells an actor on any node: when it
    /// handles the message, the elements are written.
    ///
    /// # Errors
    /// As for [`write_many_and_tell`](Self::write_many_and_tell).
    ///
    /// # Cancel safety
    /// As for `write_many_and_tell`.
    pub async fn write_and_tell<A, M>(
        &self,
        at: usize,
        elements: &[T],
        actor: &ActorRef<A>,
        message: M,
    ) -> Result<(), WriteAndTellError<M>>
    where
        A: Accepts<M>,
        M: Message,
    {
        self.write_many_and_tell(&[(at, elements)], actor, message).await
    }
}

/// Operations that are atomic with each other, whatever tasks and nodes use them. Either the
/// processor of the region's node performs them (for its own tasks and over TCP) or one RDMA device
/// does. While nodes with [atomic access](crate::region::Access) to the region are linked over one
/// of them, nodes linked over another get [`RegionError::OtherExecutor`].
impl RemoteRegion<u64> {
    /// Adds `n` to an element, which wraps around. Returns the previous value.
    ///
    /// # Errors
    /// [`RegionError`], according to its table. After [`Unknown`](RegionError::Unknown) it may have
    /// been done once; after all other errors it was not done.
    ///
    /// # Cancel safety
    /// If the future is dropped, the addition may be done, now or later.
    pub async fn fetch_add(&self, at: usize, n: u64) -> Result<u64, RegionError> {
        let range = range::following(at, 1);
        let (memory, at) = self.find(&range)?;
        RegionOperation::Atomic.note();
        memory.fetch_add(at, n).await.map_err(|error| self.error(range, error))
    }

    /// Sets an element to `new` if it is `old`. Returns `Ok(old)` if it was set, and otherwise the
    /// current value in `Err`, like an atomic of the standard library.
    ///
    /// # Errors
    /// As for [`fetch_add`](Self::fetch_add).
    ///
    /// # Cancel safety
    /// As for `fetch_add`.
    pub async fn compare_exchange(
        &self,
        at: usize,
        old: u64,
        new: u64,
    ) -> Result<Result<u64, u64>, RegionError> {
        let range = range::following(at, 1);
        let (memory, at) = self.find(&range)?;
        RegionOperation::Atomic.note();
        let done = memory.compare_and_swap(at, old, new).await;
        let found = done.map_err(|error| self.error(range, error))?;
        Ok(if found == old { Ok(found) } else { Err(found) })
    }
}

impl<T> Clone for RemoteRegion<T> {
    fn clone(&self) -> Self {
        let (place, memory) = (self.place.clone(), self.memory.clone());
        RemoteRegion { place, memory, _elements: PhantomData }
    }
}

/// Equal regions lead to the same elements.
impl<T> PartialEq for RemoteRegion<T> {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl<T> Eq for RemoteRegion<T> {}

impl<T> fmt::Debug for RemoteRegion<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteRegion({} elements of {})", self.place.len, self.place.node)
    }
}

#[cfg(test)]
mod tests;
