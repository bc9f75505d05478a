//! The errors of operations on regions.

use std::ops::Range;
use std::sync::Arc;

use ringpost_transport::cause::{NodeDown, NodeDownCause};

use super::TellError;

/// The reason why memory of a region was not read, written or shared.
///
/// After every error except [`Unknown`](Self::Unknown), nothing was done
/// ([`may_be_done`](Self::may_be_done)). The errors of each operation:
///
/// | operation | errors |
/// |---|---|
/// | [`Region`], [`RegionSlice`]: `get`, `set`, `read`, `write`, `slice` | `OutOfRange` |
/// | their `read_into` | `OutOfRange`, `LengthMismatch` |
/// | [`Region::share`], [`Lease::share`] | none at present |
/// | [`Region::share_range`], [`Lease::share_range`] | `OutOfRange`, `Unaligned` |
/// | [`RemoteRegion::slice`] | `OutOfRange` |
/// | [`RemoteRegion`]: `get`, `read`, `view` | *read errors*, see below |
/// | its `read_into` | read errors, `LengthMismatch` |
/// | its `read_many` | read errors, `TooManyRanges` |
/// | its `set`, `write`, and `write_and_tell` in [`NotWritten`] | read errors, `Unknown` |
/// | its `write_many`, and `write_many_and_tell` | as for `write`, `TooManyRanges` |
/// | [`Node::renew`] | read errors |
/// | [`RegionWriter`]: `write`, `write_draft` | read errors, `Unknown` |
/// | its `draft` | read errors |
/// | its `flush` | `Unknown` |
/// | [`RemoteRegion`]: `fetch_add`, `compare_exchange` | read errors, `Unknown`, `OtherExecutor` |
///
/// Read errors are `OutOfRange`, `NoAccess`, `NodeDown`, `Unsupported`, `Unable`, `NoNetwork`,
/// `Shutdown`, and of a share that is none or none any more `NeverShared`, `Revoked`, `Expired` and
/// `OtherRun`. For a region of this node they are `OutOfRange`, `NoAccess` and the last four (for
/// atomic operations also `OtherExecutor`), and no operation on it returns `Unknown`. Creating a
/// region fails with an [`AllocateError`], returning it to its node with a [`ReleaseError`].
///
/// [`AllocateError`]: super::AllocateError
/// [`Lease::share`]: crate::region::Lease::share
/// [`Lease::share_range`]: crate::region::Lease::share_range
/// [`Node::renew`]: crate::Node::renew
/// [`NotWritten`]: WriteAndTellError::NotWritten
/// [`Region`]: crate::region::Region
/// [`Region::share`]: crate::region::Region::share
/// [`Region::share_range`]: crate::region::Region::share_range
/// [`RegionSlice`]: crate::region::RegionSlice
/// [`RegionWriter`]: crate::region::RegionWriter
/// [`ReleaseError`]: super::ReleaseError
/// [`RemoteRegion`]: crate::region::RemoteRegion
/// [`RemoteRegion::slice`]: crate::region::RemoteRegion::slice
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The elements are outside of the region.
    #[error("elements {} are not in a region of {len} elements", named(.range, *.len))]
    OutOfRange {
        /// The requested elements.
        range: Range<usize>,
        /// The number of elements in the region.
        len: usize,
    },
    /// The slice has room for a different number of elements.
    #[error("{wanted} elements do not go into a slice of {room}: give one that is as long")]
    LengthMismatch {
        /// The number of requested elements.
        wanted: usize,
        /// The number of elements that there is room for.
        room: usize,
    },
    /// A shared part must begin at a multiple of 8 bytes.
    #[error(
        "the element {element} does not begin at a multiple of 8 bytes: share from another one"
    )]
    Unaligned {
        /// The first element.
        element: usize,
    },
    /// The region was not shared for this operation.
    #[error("the region was not shared to {0}: share it with more `Access`")]
    NoAccess(&'static str),
    /// There are more ranges than one call can read or write.
    #[error("{ranges} ranges are more than one call takes, which is {max}: make several calls")]
    TooManyRanges {
        /// The number of ranges.
        ranges: usize,
        /// The maximum, [`REGION_RANGES_MAX`](crate::limits::REGION_RANGES_MAX).
        max: usize,
    },
    /// Its node has never shared it in this run: its owner has not made this reference.
    #[error("the node {0} has never shared this region: use a reference that its owner has made")]
    NeverShared(Arc<str>),
    /// The region is not shared any more: the share was revoked, or its owner dropped it. This is
    /// final.
    #[error(
        "the region is not shared any more: ask its owner for another share, or allocate another \
        `PeerRegion`"
    )]
    Revoked,
    /// The time of the lease is over ([`Lease::for_at_most`]). This is final. A lease that was
    /// revoked before its time is `Revoked`, also if its time is over since then, until
    /// [`LEASES_REVOKED_KEPT`] others of its node were revoked before theirs.
    ///
    /// [`Lease::for_at_most`]: crate::region::Lease::for_at_most
    /// [`LEASES_REVOKED_KEPT`]: crate::limits::LEASES_REVOKED_KEPT
    #[error("the time of the lease is over: ask its owner for another one, and renew that in time")]
    Expired,
    /// The region belongs to another run of its node: that was started again, and nothing of its
    /// memory is left. This is final.
    #[error(
        "the region was of another run of the node {0}, which is over: ask its owner, by its name, \
        for the next one"
    )]
    OtherRun(Arc<str>),
    /// Its node is down.
    #[error("the node {node} is down: {down}; try again if it was only silent")]
    NodeDown {
        /// The name of the node.
        node: Arc<str>,
        /// The cause, and how long it has been down.
        down: NodeDown,
    },
    /// The link was lost, or the share ended, during a write or an atomic operation: all of it may
    /// have been done, or a part of a write. The next operation of this node on the region sees
    /// every part that was done, and no further part is done after that. Reads do not end this way,
    /// because they are started again.
    #[error(
        "the link to {0} was lost, or the share ended, while the operation was under way: it may \
        have been done, or a part of it; do the same write or exchange again, and do not add again"
    )]
    Unknown(Arc<str>),
    /// One device or processor at a time performs the atomic operations on a region; now another
    /// one does. Each attempt asks it to release them. It keeps them for at least half a second,
    /// and at least eight times as long as registering the memory took. Then they are reserved for
    /// two seconds for whoever was refused first and still tries.
    #[error(
        "what is atomic on the region is done by another device or processor of {0}, with which \
        this would not be atomic: try again every half a second until that has let go of it, or \
        have all that count reach it over one RDMA device, or all over TCP"
    )]
    OtherExecutor(Arc<str>),
    /// The version of its node cannot share memory.
    #[error("the node {0} cannot share memory: its version does not know how, so update it")]
    Unsupported(Arc<str>),
    /// The link cannot access memory, or lost its access repeatedly during a read. It may get
    /// access later, so this [is retryable](Self::is_retryable). It never does if the reason is a
    /// permanent limit, such as a limit of locked memory: bound your retries.
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
    /// This node has no network, and the region belongs to another node.
    #[error("this node has no network: give its builder `listen` or `seeds`")]
    NoNetwork,
    /// This node is shutting down, and does not reach other nodes any more.
    #[error("this node is shutting down: it reaches no other node's memory any more")]
    Shutdown,
}

/// Formats a range for an error message. `9..` was resolved to `9..len`: a range that begins after
/// its end, and ends at `len`, is shown as `9..` again. All others are shown as `start..end`.
fn named(Range { start, end }: &Range<usize>, len: usize) -> String {
    if start > end && *end == len { format!("{start}..") } else { format!("{start}..{end}") }
}

impl RegionError {
    /// Returns true if trying again can help, and cannot do the operation twice. After
    /// [`Unable`](Self::Unable) it helps only if the reason is not permanent: bound your retries.
    ///
    /// After [`Unknown`](Self::Unknown) this returns false. But a program may repeat the same
    /// write, if no other writer can have written there since, and the same compare and exchange.
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
            | RegionError::TooManyRanges { .. }
            | RegionError::NeverShared(_)
            | RegionError::Revoked
            | RegionError::Expired
            | RegionError::OtherRun(_)
            | RegionError::Unknown(_)
            | RegionError::Unsupported(_)
            | RegionError::NoNetwork
            | RegionError::Shutdown => false,
        }
    }

    /// Returns true if the operation, or a part of it, may have been done or may still be done:
    /// only after [`Unknown`](Self::Unknown).
    pub fn may_be_done(&self) -> bool {
        matches!(self, RegionError::Unknown(_))
    }
}

/// The reason why an actor was not told about a write. It contains the message.
///
/// After [`NotTold`](Self::NotTold) the elements are written: tell again, and do not write again.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum WriteAndTellError<M> {
    /// The elements were not written, or it is not known if they were.
    #[error("not written, so the actor was not told: {error}")]
    NotWritten {
        /// The reason.
        #[source]
        error: RegionError,
        /// The message for the actor.
        message: M,
    },
    /// All elements were written, but the actor did not get the message.
    #[error(transparent)]
    NotTold(TellError<M>),
}

ringpost_transport::debug_by_display!(RegionError, WriteAndTellError<M>);

impl<M> WriteAndTellError<M> {
    /// Returns true if trying again can help: the whole operation after
    /// [`NotWritten`](Self::NotWritten), only the `tell` after [`NotTold`](Self::NotTold). The
    /// actor was certainly not told.
    pub fn is_retryable(&self) -> bool {
        match self {
            WriteAndTellError::NotWritten { error, .. } => error.is_retryable(),
            WriteAndTellError::NotTold(error) => error.is_retryable(),
        }
    }

    /// Returns true if all or some elements may have been written or may still be: after
    /// [`RegionError::Unknown`], and after [`NotTold`](Self::NotTold), when all are written.
    pub fn may_be_done(&self) -> bool {
        match self {
            WriteAndTellError::NotWritten { error, .. } => error.may_be_done(),
            WriteAndTellError::NotTold(_) => true,
        }
    }
}
