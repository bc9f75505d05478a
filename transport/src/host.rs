//! The interface to the layer above: the requests of the transport, and the events it reports.
//!
//! All calls come from a link's driver task, or from the node's own thread, on which the heartbeats
//! of all its links wait for them: they must not block.

mod tells;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::connect_error::ConnectError;
use crate::id::{NodeId, NodeName};
use crate::link::{CloseNotice, Receipt, Replier};
use crate::memory::Payload;
use crate::note::Note;

pub use crate::cause::{Fate, LinkCause, NodeDown, NodeDownCause, OpenRefusal, Refusal, Violation};
pub use crate::open_request::{Accepted, Form, MessageForms, OpenRequest, Target};
pub use tells::Tells;

/// The layer above: it knows the mailboxes of this node.
pub trait Host: Send + Sync + 'static {
    /// Opens a mailbox of this node to which a peer wants to send.
    ///
    /// # Errors
    /// [`OpenRefusal`], which the peer's senders get as their error.
    fn open(&self, peer: &NodeId, request: &OpenRequest) -> Result<Arc<dyn Inbox>, OpenRefusal>;

    /// Reports a committed message that ended in another way than delivery, as far as this node
    /// knows.
    fn lost(&self, lost: Lost);

    /// Reports that a link or a node came or went.
    fn event(&self, event: PeerEvent);

    /// Reports for how long the runtime that the node was started on has run none of its tasks;
    /// less than [`LIVENESS_INTERVAL`](crate::limits::LIVENESS_INTERVAL) is zero. Called again and
    /// again, but never on a simulated network.
    fn liveness(&self, _late: Duration) {}
}

/// A mailbox of this node, as links see it.
pub trait Inbox: Send + Sync + 'static {
    /// Returns the same for every `Arc` of the same mailbox, and never used for another one. With
    /// the run of its node it is the mailbox's identity, by which peers may
    /// [open](Target::Identity) it.
    fn id(&self) -> u64;

    /// Returns the messages that it accepts; the place of one in this list is its ordinal on the
    /// wire. There are at most [`ACCEPTED_MAX`](crate::limits::ACCEPTED_MAX): a peer ends its link
    /// when it is told of more.
    fn accepted(&self) -> Vec<Accepted>;

    /// Queues messages that arrived one after the other, in their order, and takes them all out of
    /// `run`. Never waits: what a peer may send is bounded by its window, so there is room. Their
    /// ordinals are less than the length of [`accepted`](Self::accepted).
    ///
    /// # Errors
    /// [`Refusal`] when the mailbox is closed: the whole run is refused.
    fn deliver(&self, run: &mut Vec<Deliveries>) -> Result<(), Refusal>;

    /// Handles a signal from the peer: a number that means something to the layer above.
    fn signal(&self, signal: u16);

    /// Keeps `notice` and drops it when the mailbox closes (at once when it is closed already).
    fn on_close(&self, notice: CloseNotice);
}

/// Messages that arrived one after the other.
#[derive(Debug)]
pub enum Deliveries {
    /// One message.
    One(Delivery),
    /// Tells that lie in one receive slot.
    Tells(Tells),
}

impl IntoIterator for Deliveries {
    type Item = Delivery;
    type IntoIter = std::iter::Chain<std::option::IntoIter<Delivery>, Flatten<Option<Tells>>>;

    fn into_iter(self) -> Self::IntoIter {
        let (one, tells) = match self {
            Deliveries::One(delivery) => (Some(delivery), None),
            Deliveries::Tells(tells) => (None, Some(tells)),
        };
        one.into_iter().chain(tells.into_iter().flatten())
    }
}

type Flatten<T> = std::iter::Flatten<<T as IntoIterator>::IntoIter>;

/// One message that arrived.
pub struct Delivery {
    /// Its place in the list of accepted messages.
    pub ordinal: u16,
    /// Its bytes; not checked yet.
    pub payload: Payload,
    /// The way of the answer to its asker; `None` for a tell.
    pub replier: Option<Replier>,
    /// Time at which the asker gives up, by the clock of this node.
    pub deadline: Option<Instant>,
    /// The note that its sender's side sent along.
    pub note: Option<Note>,
    /// The room it takes in the sender's window; given back when this is dropped, which is to be
    /// done when the message is taken from the mailbox.
    pub receipt: Receipt,
}

impl Delivery {
    /// Returns a number that is the same for all messages of one peer, and of no other.
    pub fn peer_number(&self) -> usize {
        self.receipt.peer_number()
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("ordinal", &self.ordinal)
            .field("bytes", &self.payload.len())
            .field("ask", &self.replier.is_some())
            .finish_non_exhaustive()
    }
}

/// A committed tell that was not delivered, as far as this node knows. (An ask's failure goes to
/// its asker instead.)
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// The node it was sent to.
    pub peer: NodeName,
    /// The mailbox it was sent to.
    pub target: Target,
    /// The identity of the message, as in [`Accepted::id`].
    pub message: u128,
    /// Its fate.
    pub fate: Fate,
}

/// An event of a peer: a link to it, or the node, came or went; or of this node itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerEvent {
    /// A link is up.
    LinkUp {
        /// The peer.
        peer: NodeId,
        /// The fabric that carries it.
        fabric: &'static str,
    },
    /// A link ended. It is dialled again, unless the peer left and no sender waits for it.
    LinkDown {
        /// The peer.
        peer: NodeId,
        /// The cause of the link's end.
        cause: LinkCause,
    },
    /// The node is shutting down: it says that nothing more is to be asked of it. It answers what
    /// it accepted, and is then down.
    NodeLeaving {
        /// The peer.
        peer: NodeId,
    },
    /// A seed refuses this node, or leads to a program that is no node. A person has to change
    /// that. The node goes on to dial the seed.
    Refused {
        /// The seed, and the cause.
        error: ConnectError,
    },
    /// This node itself did not run for so long: its process was stopped, or its machine. Other
    /// nodes may have found it down meanwhile; it does not count that time as their silence.
    Paused {
        /// How long.
        lasted: Duration,
    },
    /// The node is gone: it left, another run of it answered, or nothing was heard for
    /// `down_after`.
    NodeDown {
        /// The peer.
        peer: NodeId,
        /// The cause for which the node is down.
        cause: NodeDownCause,
    },
}
