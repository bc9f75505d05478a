//! The errors of memory that nodes share.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use ringpost_transport::cause::{NodeDown, NodeDownCause};

use super::{AskCause, TellError};

/// The reason for which memory of a region was not read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The elements do not lie in the region. Nothing was done.
    #[error("elements {}..{} are not in a region of {len} elements", .range.start, .range.end)]
    OutOfRange {
        /// The elements that were asked for.
        range: Range<usize>,
        /// The elements that there are.
        len: usize,
    },
    /// There is room for another number of elements than were asked for. Nothing was done.
    #[error("{wanted} elements do not go into a slice of {room}: give one that is as long")]
    LengthMismatch {
        /// The elements that were asked for.
        wanted: usize,
        /// The elements that there is room for.
        room: usize,
    },
    /// A part that is shared has to begin at a multiple of 8 bytes. Nothing was shared.
    #[error(
        "the element {element} does not begin at a multiple of 8 bytes: share from another one"
    )]
    Unaligned {
        /// The first element.
        element: usize,
    },
    /// It was not shared for that. Nothing was done.
    #[error("the region was not shared to {0}: share it with more `Access`")]
    NoAccess(&'static str),
    /// It is not shared any more: it was revoked, or its owner dropped it. A write that was under
    /// way may have been done in part.
    #[error("the region is not shared any more: ask its owner for another share")]
    Revoked,
    /// Its node is down, or the run of it that had the region is over. Nothing was done.
    #[error(
        "the node {node} is down: {down}; a region ends with the run of its node, so ask its \
        owner, by its name, for the next one when that runs again"
    )]
    NodeDown {
        /// The name of the node.
        node: Arc<str>,
        /// Why, and since when.
        down: NodeDown,
    },
    /// The link was lost: it may have been done, or a part of it.
    #[error(
        "the link to {0} was lost: the operation may have been done, or a part of it; read again, \
        and look before writing or counting again"
    )]
    Unknown(Arc<str>),
    /// What is atomic on the region is done by another device, or by the processor of its node: it
    /// would not be atomic with what this node does. Nothing was done.
    #[error(
        "what is atomic on the region is done by another device or processor of {0}, with which \
        this would not be atomic: try again when that has let go of it, or have all that count \
        reach it over one RDMA device, or all over TCP"
    )]
    OtherExecutor(Arc<str>),
    /// Its node runs a version that shares no memory. Nothing was done.
    #[error("the node {0} cannot share memory: its version does not know how, so update it")]
    Unsupported(Arc<str>),
    /// The link has no means for it. Nothing was done.
    #[error("the link to {node} gives no access to memory: {why}")]
    Unable {
        /// The name of the node.
        node: Arc<str>,
        /// The reason, in words.
        why: String,
    },
    /// The node offers no memory. Nothing was done.
    #[error("the node {node} offers no memory: have it call `offer_memory`")]
    NotOffered {
        /// The name of the node.
        node: Arc<str>,
    },
    /// The node offers this one no more. Nothing was done.
    #[error(
        "the node {node} has {left} bytes left for this one: drop a `PeerRegion` of it, or have it \
        offer more by `offer_memory`"
    )]
    OverQuota {
        /// The name of the node.
        node: Arc<str>,
        /// Bytes that are left.
        left: u64,
    },
    /// The node gave no memory. Nothing was done.
    #[error("the node {node} gave no memory: {reason}")]
    Refused {
        /// The name of the node.
        node: Arc<str>,
        /// The reason, in words.
        reason: String,
    },
    /// The node was asked for memory, or to take it back, and did not answer. Nothing is kept.
    #[error("the node {node} did not answer what it was asked about memory: {cause}")]
    NoAnswer {
        /// The name of the node.
        node: Arc<str>,
        /// The fate of the ask.
        #[source]
        cause: AskCause,
    },
    /// This node has not so much memory. Nothing was done.
    #[error("there is no memory for a region of {bytes} bytes: free some, or ask for less")]
    OutOfMemory {
        /// Bytes of the region.
        bytes: usize,
    },
    /// No memory has so many bytes.
    #[error("a region of {len} elements of {element_bytes} bytes is larger than any memory")]
    TooLarge {
        /// The elements that were asked for.
        len: usize,
        /// Bytes of each.
        element_bytes: usize,
    },
    /// This node has no network, and it is not its own region.
    #[error("this node has no network: give its builder `listen` or `seeds`")]
    NoNetwork,
}

impl RegionError {
    /// Returns true if trying again can help, and cannot do it twice. It cannot help where the run
    /// of the node is over that had the region: ask the next one for its region.
    ///
    /// A read may be tried again after [`Unknown`](Self::Unknown), too, and so may a write that no
    /// other node's can have come after.
    pub fn is_retryable(&self) -> bool {
        match self {
            RegionError::NodeDown { down, .. } => {
                matches!(down.cause, NodeDownCause::Silent { .. })
            }
            RegionError::NoAnswer { cause, .. } => cause.is_retryable(),
            RegionError::Unable { .. }
            | RegionError::OtherExecutor(_)
            | RegionError::NotOffered { .. }
            | RegionError::OverQuota { .. }
            | RegionError::Refused { .. }
            | RegionError::OutOfMemory { .. } => true,
            RegionError::OutOfRange { .. }
            | RegionError::LengthMismatch { .. }
            | RegionError::Unaligned { .. }
            | RegionError::NoAccess(_)
            | RegionError::Revoked
            | RegionError::Unknown(_)
            | RegionError::Unsupported(_)
            | RegionError::TooLarge { .. }
            | RegionError::NoNetwork => false,
        }
    }

    /// Returns true if the operation may have been done, or a part of it, now or later.
    pub fn may_be_done(&self) -> bool {
        matches!(self, RegionError::Unknown(_) | RegionError::Revoked)
    }
}

impl<M> WriteAndTellError<M> {
    /// Returns true if trying again can help, and the actor was certainly not told.
    pub fn is_retryable(&self) -> bool {
        match self {
            WriteAndTellError::NotWritten { error, .. } => error.is_retryable(),
            WriteAndTellError::NotTold(error) => error.is_retryable(),
        }
    }

    /// Returns true if the elements, or some of them, may have been written.
    pub fn may_be_written(&self) -> bool {
        match self {
            WriteAndTellError::NotWritten { error, .. } => error.may_be_done(),
            WriteAndTellError::NotTold(_) => true,
        }
    }
}

/// The reason for which an actor was not told of what was written. The message is in it.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum WriteAndTellError<M> {
    /// Not all was written.
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

impl<M> fmt::Debug for WriteAndTellError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteAndTellError::NotWritten { error, .. } => {
                f.debug_tuple("NotWritten").field(error).finish()
            }
            WriteAndTellError::NotTold(error) => f.debug_tuple("NotTold").field(error).finish(),
        }
    }
}
