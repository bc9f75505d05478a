//! The errors of operations on regions.

use std::ops::Range;
use std::sync::Arc;

use ringpost_transport::cause::{NodeDown, NodeDownCause};

use super::TellError;

/// The reason for which memory of a region was not read, written or shared.
///
/// After every error but [`Unknown`](Self::Unknown) nothing was done
/// ([`may_be_done`](Self::may_be_done)). What each operation can return:
///
/// | operation | errors |
/// |---|---|
/// | [`Region`], [`RegionSlice`]: `get`, `set`, `read`, `write`, `slice` | `OutOfRange` |
/// | their `read_into` | `OutOfRange`, `LengthMismatch` |
/// | [`Region::share`], [`Lease::share`] | none at present |
/// | [`Region::share_range`], [`Lease::share_range`] | `OutOfRange`, `Unaligned` |
/// | [`RemoteRegion::slice`] | `OutOfRange` |
/// | [`RemoteRegion`]: `get`, `read`, `read_many`, `view` | *read errors*, see below |
/// | its `read_into` | read errors, `LengthMismatch` |
/// | its `set`, `write`, and `write_and_tell` in [`NotWritten`] | read errors, `Unknown` |
/// | [`RegionWriter`]: `write`, `write_draft` | read errors, `Unknown` |
/// | its `draft` | read errors |
/// | its `flush` | `Unknown` |
/// | [`RemoteRegion`]: `fetch_add`, `compare_exchange` | read errors, `Unknown`, `OtherExecutor` |
///
/// Read errors are `OutOfRange`, `NoAccess`, `Revoked`, `NodeDown`, `Unsupported`, `Unable`,
/// `NoNetwork` and `Shutdown`; of a region of this node `OutOfRange`, `NoAccess` and `Revoked`
/// (what is atomic on it may be for an `OtherExecutor`, too), and no operation on it is `Unknown`.
/// To make a region fails with an [`AllocateError`], and to give it back to its node with a
/// [`ReleaseError`].
///
/// [`AllocateError`]: super::AllocateError
/// [`Lease::share`]: crate::Lease::share
/// [`Lease::share_range`]: crate::Lease::share_range
/// [`NotWritten`]: WriteAndTellError::NotWritten
/// [`Region`]: crate::Region
/// [`Region::share`]: crate::Region::share
/// [`Region::share_range`]: crate::Region::share_range
/// [`RegionSlice`]: crate::RegionSlice
/// [`RegionWriter`]: crate::RegionWriter
/// [`ReleaseError`]: super::ReleaseError
/// [`RemoteRegion`]: crate::RemoteRegion
/// [`RemoteRegion::slice`]: crate::RemoteRegion::slice
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The elements do not lie in the region.
    #[error("elements {} are not in a region of {len} elements", named(.range, *.len))]
    OutOfRange {
        /// The elements that were asked for.
        range: Range<usize>,
        /// The elements that there are.
        len: usize,
    },
    /// There is room for another number of elements than were asked for.
    #[error("{wanted} elements do not go into a slice of {room}: give one that is as long")]
    LengthMismatch {
        /// The elements that were asked for.
        wanted: usize,
        /// The elements that there is room for.
        room: usize,
    },
    /// A part that is shared has to begin at a multiple of 8 bytes.
    #[error(
        "the element {element} does not begin at a multiple of 8 bytes: share from another one"
    )]
    Unaligned {
        /// The first element.
        element: usize,
    },
    /// It was not shared for that.
    #[error("the region was not shared to {0}: share it with more `Access`")]
    NoAccess(&'static str),
    /// It is not shared any more: it was revoked, or its owner dropped it. It stays so.
    #[error(
        "the region is not shared any more: ask its owner for another share, or allocate another \
        `PeerRegion`"
    )]
    Revoked,
    /// Its node is down, or the run of it that had the region is over.
    #[error(
        "the node {node} is down: {down}; try again if it was only silent, and after a restart \
        ask the region's owner, by its name, for the next one"
    )]
    NodeDown {
        /// The name of the node.
        node: Arc<str>,
        /// Why, and since when.
        down: NodeDown,
    },
    /// The link was lost, or the share ended, while a write or an atomic operation was under way:
    /// it may have been done, or a part of a write. What this node does next on the region finds
    /// what was done of it, and more of it is not done after that. No read ends so: it is begun
    /// again.
    #[error(
        "the link to {0} was lost, or the share ended, while the operation was under way: it may \
        have been done, or a part of it; do the same write or exchange again, and do not add again"
    )]
    Unknown(Arc<str>),
    /// What is atomic on the region is done by another device, or by the processor of its node: it
    /// would not be atomic with what this node does.
    #[error(
        "what is atomic on the region is done by another device or processor of {0}, with which \
        this would not be atomic: try again every half a second until that has let go of it, or \
        have all that count reach it over one RDMA device, or all over TCP"
    )]
    OtherExecutor(Arc<str>),
    /// Its node runs a version that shares no memory.
    #[error("the node {0} cannot share memory: its version does not know how, so update it")]
    Unsupported(Arc<str>),
    /// The link has no means for it, or those of a read were lost again and again. It may have them
    /// later, so it [is retryable](Self::is_retryable); but it does not where the reason is a limit
    /// that stays, as that of the memory that may be locked: bound your tries.
    #[error(
        "the link to {node} gives no access to memory: {why}; try again later, a few times where \
        the reason is a limit"
    )]
    Unable {
        /// The name of the node.
        node: Arc<str>,
        /// The reason, in words.
        why: String,
    },
    /// This node has no network, and it is not its own region.
    #[error("this node has no network: give its builder `listen` or `seeds`")]
    NoNetwork,
    /// This node is shutting down, and reaches no other one any more.
    #[error("this node is shutting down: it reaches no other node's memory any more")]
    Shutdown,
}

/// Returns a range as its caller wrote it: an open range has got the end of the region.
fn named(Range { start, end }: &Range<usize>, len: usize) -> String {
    if start > end && *end == len { format!("{start}..") } else { format!("{start}..{end}") }
}

impl RegionError {
    /// Returns true if trying again can help, and cannot do it twice. It cannot help where the run
    /// of the node is over that had the region: ask the next one for its region. After
    /// [`Unable`](Self::Unable) it helps only where the reason does not stay: bound your tries.
    ///
    /// After [`Unknown`](Self::Unknown) a program may write the same again, where no other writer
    /// can have written over it meanwhile, and compare and exchange the same again; this returns
    /// false all the same.
    pub fn is_retryable(&self) -> bool {
        match self {
            RegionError::NodeDown { down, .. } => {
                matches!(down.cause, NodeDownCause::Silent { .. })
            }
            RegionError::Unable { .. } | RegionError::OtherExecutor(_) => true,
            RegionError::OutOfRange { .. }
            | RegionError::LengthMismatch { .. }
            | RegionError::Unaligned { .. }
            | RegionError::NoAccess(_)
            | RegionError::Revoked
            | RegionError::Unknown(_)
            | RegionError::Unsupported(_)
            | RegionError::NoNetwork
            | RegionError::Shutdown => false,
        }
    }

    /// Returns true if the operation may have been done, or a part of it, now or later: after
    /// [`Unknown`](Self::Unknown) alone.
    pub fn may_be_done(&self) -> bool {
        matches!(self, RegionError::Unknown(_))
    }
}

/// The reason for which an actor was not told of what was written. The message is in it.
///
/// After [`NotTold`](Self::NotTold) the elements are written: tell again, and do not write again.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum WriteAndTellError<M> {
    /// The elements were not written, or it is not known whether they were.
    #[error("not written, so the actor was not told: {error}")]
    NotWritten {
        /// The reason.
        #[source]
        error: RegionError,
        /// The message that the actor was to be told.
        message: M,
    },
    /// All was written, and the actor did not get the message.
    #[error(transparent)]
    NotTold(TellError<M>),
}

ringpost_transport::debug_by_display!(RegionError, WriteAndTellError<M>);

impl<M> WriteAndTellError<M> {
    /// Returns true if trying again can help: both after [`NotWritten`](Self::NotWritten), and
    /// after [`NotTold`](Self::NotTold) to tell. The actor was certainly not told.
    pub fn is_retryable(&self) -> bool {
        match self {
            WriteAndTellError::NotWritten { error, .. } => error.is_retryable(),
            WriteAndTellError::NotTold(error) => error.is_retryable(),
        }
    }

    /// Returns true if the elements, or some of them, may be written, now or later: after
    /// [`RegionError::Unknown`], and after [`NotTold`](Self::NotTold), when they all are.
    pub fn may_be_done(&self) -> bool {
        match self {
            WriteAndTellError::NotWritten { error, .. } => error.may_be_done(),
            WriteAndTellError::NotTold(_) => true,
        }
    }
}
