//! One-sided access: a queue pair over which each side reads and writes memory that the other side
//! granted it, without a message to the other side's software.
//!
//! It stands beside the [`QueuePair`](super::QueuePair) of a link, is opened when it is first used,
//! and keeps the shape and the words of verbs, where the devices execute the operations. A fabric
//! without such a device brings none of its own: then `emulated` does the same over one more queue
//! pair of that fabric, and the driver of the memory's owner executes the operations. The same
//! cases of conformance judge both.
//!
//! # The contract
//!
//! The rules of [the fabric's](super) contract about tokens, errors, closing and notifications hold
//! here, too (PV-2, PV-7, PV-8, PV-10). Beyond them:
//!
//! - **PV-13 grants**: memory is reached by the [`Key`] of a [`Grant`] alone, within its bytes,
//!   with the access that it gives, and only over the queue pair that made it. When the drop of the
//!   grant, or of the queue pair, has returned, no operation of the peer reads or writes that
//!   memory any more.
//! - **PV-14 order**: operations are executed at the peer in the order they were posted, and their
//!   outcomes come in that order. When the outcome is a success, the bytes of a read lie in the
//!   slot and the bytes of a write in the peer's memory. A read that has no outcome yet may see the
//!   bytes of a *later* write of the same side.
//! - **PV-15 words**: an operation never tears an aligned 64-bit word of shared memory, on verbs as
//!   far as the device keeps to that. Of longer pieces a reader may find some words from before a
//!   write and others from after it.
//! - **PV-16 atomics**: [`Kind::FetchAdd`] and [`Kind::CompareAndSwap`] act on one aligned word,
//!   and are atomic with such operations of all queue pairs of the same [`Executor`]: a device, or
//!   the processor of the owner. Atomic instructions of the owner's threads on the word are atomic
//!   with operations that the processor executes, and with no others.
//! - **PV-17 notices**: after a write with a notice is done, the peer's owner polls
//!   [`Outcome::Notice`], and then sees the bytes of that write and of all before it. Up to
//!   [`OneSidedConfig::notices`] notices may wait to be polled: a write whose notice finds no place
//!   ends with [`Status::RnrRetryExceeded`], and its bytes may have been written.
//! - **PV-18 refusals**: an operation that PV-13 forbids changes nothing, brings nothing, and ends
//!   both queue pairs; its own status is [`Status::RemoteAccess`]. Operations posted after it are
//!   not executed. So one side's mistake never costs the peer more than this queue pair. (A write
//!   that is under way when its grant ends may have written a part.)
//! - **PV-19 unknown ends**: of operations that end with any status but success and `RemoteAccess`,
//!   no side can tell whether they were executed; each was executed at most once.
//!
//! Not promised, nor to be assumed:
//!
//! - That operations are executed while the peer's owner calls neither [`OneSided::poll`] nor
//!   [`OneSided::poll_ready`].
//! - That the owner's threads see the bytes of a write before a notice that was posted after it: a
//!   device may answer before they are in the memory.
//! - That the owner learns of a refusal (PV-18) before it uses the queue pair, if it asked
//!   for no notices; or of a notice that found no place.
//! - That an operation ends when the peer is gone: its answer may never come. The owner closes the
//!   queue pair when the link that it stands beside ends.
//! - That the key of an operation of no bytes is looked at.
//! - That a slot of another fabric's memory is refused.

pub(super) mod emulated;
mod frame;
mod grants;

use std::any::Any;
use std::fmt;
use std::ops::BitOr;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use zeroize::Zeroizing;

use super::{FabricError, PostError, Side, Status};
use crate::memory::{Buffer, Region, Slot, Words};

/// The demands on a new queue pair for one-sided access.
#[derive(Debug, Clone)]
pub struct OneSidedConfig {
    /// Operations that may be without an outcome at one time; at least 1.
    pub operations: u32,
    /// Notices of the peer that may wait to be polled (PV-17).
    pub notices: u32,
    /// Which side of the bootstrap connection this is.
    pub side: Side,
    /// As in [`QueuePairConfig`](super::QueuePairConfig).
    pub binding: Vec<u8>,
}

/// The executor of operations on granted memory. Atomic operations of one executor are atomic with
/// each other (PV-16).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Executor {
    /// The processor of the memory's owner, by the same atomic instructions as its other threads.
    Processor,
    /// The device of this name, of the owner's machine. It may say that a write is done before the
    /// owner's threads see it; they see it once a later operation that reads is done.
    Device(Arc<str>),
}

/// The operations that a peer may do on granted memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access {
    /// It may read.
    pub read: bool,
    /// It may write.
    pub write: bool,
    /// It may do atomic operations.
    pub atomic: bool,
}

/// The name of granted memory, for the peer it was granted to. Means nothing on other queue pairs.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// The number by which the fabric knows it.
    pub number: u32,
    /// The place of its first byte, by which the fabric counts.
    pub base: u64,
}

/// Memory that the peer may reach, as long as this lives (PV-13). Where it
/// [is slow](Grant::is_slow), dropping it takes a thread that may block.
pub struct Grant {
    key: Key,
    is_slow: bool,
    _held: Box<dyn Any + Send + Sync>,
}

/// The result of a request for locked memory: it is made, or a device has yet to lock the memory,
/// which takes fractions of a second for each GiB.
pub enum Making<T> {
    /// It is made, or refused: the request does not fit the memory, or the fabric does not take it.
    Done(Result<T, FabricError>),
    /// Makes it, on a thread that may block, and without a lock that others wait for.
    Slow(Box<dyn FnOnce() -> Result<T, FabricError> + Send>),
}

/// A grant that is asked for.
pub type Granting = Making<Grant>;

/// Memory for operations of one queue pair, before that has [adopted](OneSided::adopt) it. Where it
/// is locked, dropping it takes a thread that may block.
pub struct Locked {
    // Given back before the memory that it locks.
    registered: Option<Box<dyn Any + Send>>,
    slot: Slot,
}

/// One operation on the peer's memory.
#[derive(Debug)]
pub struct Operation {
    /// Holds the bytes to write, or receives the bytes read, at its front; it comes back with the
    /// outcome. An atomic operation leaves the word's old value in its first 8 bytes.
    pub slot: Slot,
    /// How many bytes; 8 for an atomic operation.
    pub bytes: u32,
    /// Which memory.
    pub key: Key,
    /// The first byte of the operation, counted from the first one of the grant.
    pub at: u64,
    /// The kind of operation, with its operands.
    pub kind: Kind,
}

/// The kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Writes, and tells the peer's owner this number when that is done (PV-17).
    WriteAndNotify(u32),
    /// Adds to a word, which wraps around.
    FetchAdd(u64),
    /// Writes `new` to a word that is `expected`.
    CompareAndSwap {
        /// The value that the word must have.
        expected: u64,
        /// The value that it gets.
        new: u64,
    },
}

/// A result of a poll.
#[derive(Debug)]
pub enum Outcome {
    /// An operation has ended; its slot is the caller's again. After an error its bytes are
    /// meaningless.
    Done {
        /// The slot that was posted.
        slot: Slot,
        /// The result. Any status but [`Status::Success`] is terminal for the queue pair.
        status: Status,
    },
    /// A write of the peer with this number as its notice is done (PV-17).
    Notice(u32),
    /// The queue pair has ended. Comes once, after the outcomes of all operations that were posted
    /// before.
    Ended(Status),
}

/// A queue pair for one-sided access before it is connected.
pub trait Opening: Send {
    /// Returns what the peer needs to connect, as [`Opening::offer`](super::Opening::offer) does.
    fn offer(&self) -> Zeroizing<Vec<u8>>;

    /// Returns the ways that lead to the peer, as [`Opening::ways`](super::Opening::ways) does.
    fn ways(&self, peer: &[u8]) -> Vec<u32>;

    /// Connects, as [`Opening::connect`](super::Opening::connect) does.
    ///
    /// # Errors
    /// [`FabricError`] when the offer cannot be used or the connection cannot be made.
    ///
    /// # Cancel safety
    /// Dropping the future drops the queue pair. Where [it blocks](super::Fabric::blocks) the first
    /// poll takes a while, and is the last one.
    fn connect(
        self: Box<Self>,
        peer: Zeroizing<Vec<u8>>,
        way: usize,
    ) -> BoxFuture<'static, Result<Box<dyn OneSided>, FabricError>>;
}

/// A connected queue pair for one-sided access. It has one owner, as a
/// [`QueuePair`](super::QueuePair) has: one task calls `poll`, `arm` and `poll_ready`; any may call
/// `grant` and `post` under the owner's lock.
pub trait OneSided: Send {
    /// Grants the peer access to `bytes` bytes of this memory from `at` on, a multiple of 8. The
    /// grant keeps the memory alive (PV-13). A device must lock the memory, which takes time
    /// ([`Granting`]): so grant a large piece once rather than a small one for each operation.
    fn grant(&mut self, memory: &Arc<Words>, at: u64, bytes: u64, access: Access) -> Granting;

    /// Returns the executor of the peer's operations on the memory of this side.
    fn executor(&self) -> Executor;

    /// Grants the peer reads of these bytes, and of nothing else, as long as the grant lives
    /// (PV-13). Nothing writes them meanwhile. As with [`grant`](Self::grant), a device takes time,
    /// and refuses if it may not lock that much memory.
    fn lend(&mut self, bytes: &Arc<Buffer>) -> Granting;

    /// Makes memory for operations of this queue pair alone, of `bytes` bytes at least: a multiple
    /// of 16. It is refused where there is not that much.
    fn alloc(&self, bytes: usize) -> Making<Locked>;

    /// Takes over memory that it [made](Self::alloc), which may be posted from now on. Returns it.
    fn adopt(&mut self, memory: Locked) -> Slot {
        memory.slot
    }

    /// Removes the registrations of memory of which no slot is left: to be dropped on a thread that
    /// may block, without a lock.
    fn take_unused(&mut self) -> Option<Box<dyn Send>> {
        None
    }

    /// Returns true if its end takes a thread that may block.
    fn is_slow(&self) -> bool {
        false
    }

    /// Posts operations with one doorbell. Removes the accepted ones from the front of `batch`.
    ///
    /// # Errors
    /// [`PostError`] about the first operation that is left in `batch`.
    fn post(&mut self, batch: &mut Vec<Operation>) -> Result<(), PostError>;

    /// Appends up to `max` outcomes that are there now to `out` and returns their number. With 0,
    /// and `max` above 0, there are none, or a notification has come.
    fn poll(&mut self, out: &mut Vec<Outcome>, max: usize) -> usize;

    /// Asks for one notification of an outcome that comes after this (PV-8).
    fn arm(&mut self);

    /// Ready when the notification has come, perhaps spuriously. Keeps the waker of the last call.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Moves to the error state (PV-10).
    fn close(&mut self);
}

impl Grant {
    /// A grant that ends when `held` is dropped.
    pub(crate) fn new(key: Key, held: impl Any + Send + Sync) -> Self {
        Grant { key, is_slow: false, _held: Box::new(held) }
    }

    /// A grant that ends when `held` is dropped, which takes a thread that may block.
    #[cfg(any(test, feature = "verbs"))]
    pub(crate) fn slow(key: Key, held: impl Any + Send + Sync) -> Self {
        Grant { key, is_slow: true, _held: Box::new(held) }
    }

    /// Returns true if its end takes a device fractions of a second for each GiB.
    pub fn is_slow(&self) -> bool {
        self.is_slow
    }

    /// Returns the name by which the peer reaches the memory.
    pub fn key(&self) -> Key {
        self.key
    }
}

impl<T> Making<T> {
    /// Returns the result, making it now if need be: to be called on a thread that may block.
    ///
    /// # Errors
    /// [`FabricError`] when the request does not fit the memory, or the device refuses.
    pub fn finish(self) -> Result<T, FabricError> {
        match self {
            Making::Done(made) => made,
            Making::Slow(make) => make(),
        }
    }
}

impl Locked {
    /// Memory that needs no registration.
    pub(crate) fn plain(region: Region, bytes: usize) -> Option<Self> {
        Self::whole(region, bytes).map(|slot| Locked { registered: None, slot })
    }

    /// Memory that stays locked as long as `registered` lives.
    #[cfg(feature = "verbs")]
    pub(crate) fn new(slot: Slot, registered: impl Any + Send) -> Self {
        Locked { registered: Some(Box::new(registered)), slot }
    }

    /// Returns the first `bytes` bytes of a region as one slot.
    pub(crate) fn whole(region: Region, bytes: usize) -> Option<Slot> {
        region.into_slots(bytes).into_iter().next()
    }

    /// Returns the region of the memory.
    pub(crate) fn region(&self) -> &Arc<Region> {
        self.slot.region()
    }

    /// Returns true if its end takes a thread that may block.
    pub(crate) fn is_slow(&self) -> bool {
        self.registered.is_some()
    }

    /// Returns the memory, and what locks it.
    #[cfg(feature = "verbs")]
    pub(crate) fn into_parts(self) -> (Slot, Option<Box<dyn Any + Send>>) {
        (self.slot, self.registered)
    }
}

impl Access {
    /// Everything.
    pub const ALL: Self = Access { read: true, write: true, atomic: true };
    /// Reads.
    pub const READ: Self = Access { read: true, write: false, atomic: false };
    /// Writes.
    pub const WRITE: Self = Access { read: false, write: true, atomic: false };
    /// Atomic operations.
    pub const ATOMIC: Self = Access { read: false, write: false, atomic: true };

    /// Returns the access as a sum of bits: 1 to read, 2 to write, 4 for atomic operations.
    pub fn bits(self) -> u8 {
        u8::from(self.read) | u8::from(self.write) << 1 | u8::from(self.atomic) << 2
    }

    /// Returns the access that a number stands for.
    pub fn from_bits(bits: u8) -> Option<Self> {
        let access = Access { read: bits & 1 != 0, write: bits & 2 != 0, atomic: bits & 4 != 0 };
        (access.bits() == bits).then_some(access)
    }

    /// Returns true if it allows operations of this kind.
    pub fn allows(self, kind: Kind) -> bool {
        match kind {
            Kind::Read => self.read,
            Kind::Write | Kind::WriteAndNotify(_) => self.write,
            Kind::FetchAdd(_) | Kind::CompareAndSwap { .. } => self.atomic,
        }
    }
}

/// Both of them.
impl BitOr for Access {
    type Output = Access;

    fn bitor(self, other: Access) -> Access {
        Access {
            read: self.read | other.read,
            write: self.write | other.write,
            atomic: self.atomic | other.atomic,
        }
    }
}

impl Kind {
    /// Returns true if it acts on one word at once.
    pub fn is_atomic(self) -> bool {
        matches!(self, Kind::FetchAdd(_) | Kind::CompareAndSwap { .. })
    }

    fn writes(self) -> bool {
        matches!(self, Kind::Write | Kind::WriteAndNotify(_))
    }
}

impl Operation {
    /// Checks what can be known before it is posted.
    pub(crate) fn check(&self) -> Result<(), PostError> {
        let word = size_of::<u64>() as u32;
        if self.kind.is_atomic() && (self.bytes != word || !self.at.is_multiple_of(word.into())) {
            return Err(PostError::Unaligned);
        }
        if self.bytes as usize > self.slot.len() { Err(PostError::TooLong) } else { Ok(()) }
    }
}

/// Checks that `bytes` bytes of the memory can be granted from `at` on.
pub(super) fn check_grant(memory: &Words, at: u64, bytes: u64) -> Result<(), FabricError> {
    let (asked, limit) = (at.saturating_add(bytes), memory.bytes() as u64);
    if asked > limit {
        return Err(FabricError::Limit { what: "granted memory", asked, limit });
    }
    if at.is_multiple_of(8) { Ok(()) } else { Err(FabricError::Unaligned { at }) }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Grant").field(&self.key).finish()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A key gives its peer access, so it stays out of logs.
        f.write_str("Key")
    }
}
