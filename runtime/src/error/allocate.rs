//! The errors of creating a region, and of returning it to its node.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use ringpost_transport::cause::NodeDown;

use super::{AskCause, AskError};

/// The reason why a region was not created. No memory is kept for it.
///
/// | operation | errors |
/// |---|---|
/// | [`Node::region`], [`Node::region_of`] | `TooLarge`, `OutOfMemory` |
/// | [`Peer::region`] | all but `OutOfMemory`: if that node has no memory, this is `Refused` |
///
/// [`Node::region`]: crate::Node::region
/// [`Node::region_of`]: crate::Node::region_of
/// [`Peer::region`]: crate::Peer::region
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AllocateError {
    /// No machine has that much memory.
    #[error("a region of {len} elements of {element_bytes} bytes is larger than any memory")]
    TooLarge {
        /// The number of requested elements.
        len: usize,
        /// Bytes of each element.
        element_bytes: usize,
    },
    /// This node does not have enough memory.
    #[error("there is no memory for a region of {bytes} bytes: free some, or ask for less")]
    OutOfMemory {
        /// Bytes of the region.
        bytes: usize,
    },
    /// The node offers no memory.
    #[error("the node {node} offers no memory: have it call `offer_memory`")]
    NotOffered {
        /// The name of the node.
        node: Arc<str>,
    },
    /// The node offers no more memory to this node.
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
    /// The node refused to give memory.
    #[error("the node {node} gave no memory: {reason}")]
    Refused {
        /// The name of the node.
        node: Arc<str>,
        /// The reason, in words.
        reason: String,
    },
    /// The node is down.
    #[error("the node {node} is down: {down}; try again when it runs again")]
    NodeDown {
        /// The name of the node.
        node: Arc<str>,
        /// The cause, and how long it has been down.
        down: NodeDown,
    },
    /// No node of that name was linked in time, or ever before.
    #[error(
        "the node {node} was not linked in time; no node `{node}` has been linked yet: check the \
        name, and the seeds"
    )]
    UnknownNode {
        /// The name that was given.
        node: Arc<str>,
    },
    /// The node was asked and did not answer. If it has given memory, it takes the memory back
    /// without a request.
    #[error("the node {node} gave no answer about memory: {cause}")]
    NoAnswer {
        /// The name of the node.
        node: Arc<str>,
        /// The fate of the ask.
        #[source]
        cause: AskCause,
    },
    /// This node has no network, and the named node is another one.
    #[error("this node has no network: give its builder `listen` or `seeds`")]
    NoNetwork,
    /// This node is shutting down.
    #[error("this node is shutting down: it asks no other node for memory any more")]
    Shutdown,
}

impl AllocateError {
    /// Returns true if trying again can help later, which includes the next run of a node that is
    /// down. No memory is given twice: memory given without an answer has been returned.
    pub fn is_retryable(&self) -> bool {
        match self {
            AllocateError::NoAnswer { .. }
            | AllocateError::OutOfMemory { .. }
            | AllocateError::NotOffered { .. }
            | AllocateError::OverQuota { .. }
            | AllocateError::Refused { .. }
            | AllocateError::NodeDown { .. }
            | AllocateError::UnknownNode { .. } => true,
            AllocateError::TooLarge { .. } | AllocateError::NoNetwork | AllocateError::Shutdown => {
                false
            }
        }
    }
}

/// It is not known if the memory of a [`PeerRegion`](crate::region::PeerRegion) is back at its
/// node. It is returned in any case, when that node learns of it or finds this one down.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the memory of {node} is given back, and it is not known when it is there: {cause}; there is \
    nothing to do"
)]
#[non_exhaustive]
pub struct ReleaseError {
    /// The name of the node.
    pub node: Arc<str>,
    /// The fate of the ask that returns it.
    #[source]
    pub cause: AskCause,
}

/// Memory of another node, a [`PeerRegion`](crate::region::PeerRegion), was not handed over.
pub struct HandOverError<R> {
    /// The memory.
    pub region: R,
    /// The reason.
    pub cause: HandOverCause,
}

/// The reason why memory of another node was not handed over.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandOverCause {
    /// The actor is not on the memory's node.
    #[error("the actor is on the node {actor}, and the memory on {memory}: name an actor there")]
    OtherNode {
        /// The name of the actor's node.
        actor: Arc<str>,
        /// The name of the memory's node.
        memory: Arc<str>,
    },
    /// The actor was asked, and did not answer: it may have the memory.
    #[error(transparent)]
    NoAnswer(AskError),
}

impl<R> fmt::Display for HandOverError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the memory was not handed over: {}", self.cause)
    }
}

impl<R> Error for HandOverError<R> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

ringpost_transport::debug_by_display!(AllocateError, ReleaseError, HandOverError<R>, HandOverCause);
