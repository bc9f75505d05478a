//! An outlet: a way to one mailbox of another node, over whatever link there is.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rkyv::util::AlignedVec;

use crate::cause::{LinkCause, NodeDownCause, Refusal};
use crate::id::NodeName;
use crate::mailbox::{Accepted, OpenRequest};
use crate::memory::Payload;
use crate::mesh::Peer;

/// A way to one mailbox of another node. Survives the loss of links: each new link opens the
/// mailbox again. Cheap to clone.
#[derive(Clone)]
pub struct Outlet {
    peer: Arc<Peer>,
    request: Arc<OpenRequest>,
}

/// Whether an answer is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// No answer.
    Tell,
    /// One answer.
    Ask {
        /// How long the asker waits; travels with the ask.
        deadline: Option<Duration>,
    },
}

/// In which order a signal arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Ahead of messages.
    Control,
    /// After every message committed before it.
    Data,
}

/// Nothing was sent, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsent {
    /// The node cannot be reached.
    #[error("the node is unreachable: {0}")]
    NodeDown(NodeDownCause),
    /// There is no link right now. Only from the `try_` calls.
    #[error("there is no link to the node right now")]
    LinkDown,
    /// The mailbox is not opened yet. Only from the `try_` calls.
    #[error("the mailbox is being opened")]
    Opening,
    /// There is no such mailbox.
    #[error("there is no such mailbox")]
    NoSuchMailbox,
    /// There is one, of another kind.
    #[error("the mailbox is of another kind")]
    WrongKind,
    /// The mailbox was closed.
    #[error("the mailbox is closed")]
    Closed,
    /// The mailbox does not take this message.
    #[error("the mailbox does not accept this message")]
    NotAccepted,
    /// The mailbox takes this message, in another layout.
    #[error("the peer was built with another layout of this message")]
    SchemaMismatch,
    /// The archive is larger than the limit.
    #[error("the message is {bytes} bytes, more than the limit of {limit}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The window is full. Only from the `try_` calls.
    #[error("the mailbox is full")]
    Full,
    /// The archive could not be written.
    #[error("the message could not be archived")]
    Archive,
    /// This node is shutting down.
    #[error("this node is shutting down")]
    Shutdown,
}

/// An ask that was committed will not be answered, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyLoss {
    /// The link was lost; whether the ask was handled is unknown.
    #[error("the link was lost: {0}")]
    LinkDown(LinkCause),
    /// The peer refused it.
    #[error("refused")]
    Refused(Refusal),
    /// The handler's side gave up, with a code of the layer above.
    #[error("failed with code {0}")]
    Failed(u16),
}

/// A place in the lines an outlet's senders wait in. Give the same one to every poll of the same
/// send; dropping it gives the place up.
#[derive(Default)]
pub struct Waiter {}

/// The answer to an ask, when it comes. Dropping it forgets the ask: a late answer is dropped.
pub struct PendingReply {}

impl Future for PendingReply {
    type Output = Result<Payload, ReplyLoss>;
    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Self::Output> {
        unimplemented!()
    }
}

/// Writes a message's archive; run without any lock held, perhaps more than once.
pub type Archive<'a> = &'a mut dyn FnMut(&mut AlignedVec<16>) -> Result<(), ArchiveFailed>;

/// An archive could not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveFailed;

impl Outlet {
    pub(crate) fn new(peer: Arc<Peer>, request: OpenRequest) -> Self {
        Outlet { peer, request: Arc::new(request) }
    }

    /// The node it leads to.
    pub fn peer(&self) -> &NodeName {
        self.peer.name()
    }

    /// The mailbox it leads to.
    pub fn request(&self) -> &OpenRequest {
        &self.request
    }

    /// Sends one message: waits for a link, for the mailbox to be opened and for room in its
    /// window; then the message is committed. For an ask, gives the answer to wait for.
    pub fn poll_send(
        &self,
        message: &Accepted,
        kind: Kind,
        archive: Archive<'_>,
        waiter: &mut Waiter,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<PendingReply>, Unsent>> {
        let _ = (message, kind, archive, waiter, cx);
        unimplemented!()
    }

    /// Sends one message if that is possible without waiting.
    ///
    /// # Errors
    /// [`Unsent`], with `LinkDown`, `Opening` or `Full` where waiting would help. (The link is
    /// dialled and the mailbox opened all the same.)
    pub fn try_send(
        &self,
        message: &Accepted,
        kind: Kind,
        archive: Archive<'_>,
    ) -> Result<Option<PendingReply>, Unsent> {
        let _ = (message, kind, archive);
        unimplemented!()
    }

    /// Sends a signal, see [`Inbox::signal`](crate::Inbox::signal). Waits as a message does.
    pub fn poll_signal(
        &self,
        signal: u16,
        lane: Lane,
        waiter: &mut Waiter,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Unsent>> {
        let _ = (signal, lane, waiter, cx);
        unimplemented!()
    }

    /// Ready when the mailbox is closed or was never there, or its node is down.
    pub fn poll_closed(
        &self,
        waiter: &mut Waiter,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Unsent>> {
        let _ = (waiter, cx);
        unimplemented!()
    }
}
