//! An outlet: a way to one mailbox of another node, over whatever link there is.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use rkyv::util::AlignedVec;
use tokio::time::Instant;

use crate::cause::{NodeDownCause, OpenRefusal};
use crate::id::NodeName;
use crate::link::{Attempt, Awaited, Link, LinkEnded, Outgoing, SendFailure, SendKind, Wait};
use crate::mailbox::{Accepted, OpenRequest};
use crate::mesh::Peer;
use crate::proto::outbound::Unopened;

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
    /// No answer, but its fate.
    ConfirmedTell,
    /// One answer.
    Ask {
        /// When the asker gives up; travels with the ask as the time that is left.
        deadline: Option<Instant>,
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
    /// There is no link right now. Only from [`Outlet::try_send`].
    #[error("there is no link to the node right now")]
    LinkDown,
    /// The mailbox is not opened yet. Only from [`Outlet::try_send`].
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
    /// As many asks are pending on the link as it keeps.
    #[error("too many asks are pending on the link")]
    TooManyAsks,
    /// The window is full. Only from [`Outlet::try_send`].
    #[error("the mailbox is full")]
    Full,
    /// The archive could not be written.
    #[error("the message could not be archived")]
    Archive,
    /// One of the two nodes is shutting down.
    #[error("the link is being shut down")]
    Leaving,
}

/// A place in the lines an outlet's senders wait in. Give the same one to every poll of the same
/// send; dropping it gives the place up.
#[derive(Default)]
pub struct Waiter {
    line: Option<(Arc<Link>, usize)>,
    peer: Option<(Arc<Peer>, u64)>,
}

impl Waiter {
    fn leave_line(&mut self) {
        if let Some((link, place)) = self.line.take() {
            link.forget(place);
        }
    }

    fn leave_peer(&mut self) {
        if let Some((peer, ticket)) = self.peer.take() {
            peer.forget(ticket);
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.leave_line();
        self.leave_peer();
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match (&self.line, &self.peer) {
            (Some(_), _) => "in line",
            (None, Some(_)) => "for a link",
            (None, None) => "nowhere",
        };
        write!(f, "Waiter({place})")
    }
}

/// A place in a line while a message is archived: given up if that panics.
struct Place<'a> {
    link: &'a Arc<Link>,
    key: Option<usize>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.link.forget(key);
        }
    }
}

/// Writes a message's archive into the empty buffer it is given; run without any lock held, perhaps
/// more than once.
pub type Archive<'a> = &'a mut dyn FnMut(&mut AlignedVec<16>) -> Result<(), ArchiveFailed>;

/// An archive could not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveFailed;

thread_local! {
    /// Archives are written here, so that a send allocates nothing.
    static SCRATCH: RefCell<AlignedVec<16>> = RefCell::new(AlignedVec::new());
}

/// Memory that a thread's scratch keeps between sends.
const SCRATCH_BYTES_MAX: usize = 1024 * 1024;

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
    /// window; then the message is committed.
    pub fn poll_send(
        &self,
        message: &Accepted,
        kind: Kind,
        archive: Archive<'_>,
        waiter: &mut Waiter,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Awaited, Unsent>> {
        self.poll_any(message, send_kind(kind), archive, waiter, cx)
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
    ) -> Result<Awaited, Unsent> {
        let Some(link) = self.peer.link().filter(|link| !link.has_ended()) else {
            self.peer.want_link();
            return Err(Unsent::LinkDown);
        };
        match self.try_commit(&link, message, send_kind(kind), archive, &mut None, None) {
            Attempt::Committed(awaited) => Ok(awaited),
            Attempt::Failed(failure) => Err(unsent(failure)),
            Attempt::Wait(Wait::Opening) => Err(Unsent::Opening),
            Attempt::Wait(Wait::Room) => Err(Unsent::Full),
            Attempt::LinkEnded => Err(Unsent::LinkDown),
            Attempt::Ready => Err(Unsent::Archive),
        }
    }

    /// Sends a signal, see [`Inbox::signal`](crate::Inbox::signal). Waits for a link and for the
    /// mailbox to be opened, and in [`Lane::Data`] for room as a message does.
    pub fn poll_signal(
        &self,
        signal: u16,
        lane: Lane,
        waiter: &mut Waiter,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Unsent>> {
        let kind = match lane {
            Lane::Control => SendKind::UrgentSignal(signal),
            Lane::Data => SendKind::Signal(signal),
        };
        let nothing = Accepted { id: 0, layout: 0, reply: 0 };
        self.poll_any(&nothing, kind, &mut |_| Ok(()), waiter, cx).map_ok(|_| ())
    }

    /// Ready when the mailbox is closed or was never there; an error when its node is down first.
    pub fn poll_closed(
        &self,
        waiter: &mut Waiter,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Unsent>> {
        loop {
            let link = ready!(self.poll_link(waiter, cx))?;
            let mut place = waiter.line.take().map(|(_, place)| place);
            let ended = link.await_end(&self.request, &mut place, cx.waker());
            waiter.line = place.map(|place| (link, place));
            match ended {
                Ok(Some(Unopened::Closed | Unopened::Refused(OpenRefusal::NoSuchMailbox))) => {
                    return Poll::Ready(Ok(()));
                }
                Ok(Some(Unopened::Refused(OpenRefusal::WrongKind))) => {
                    return Poll::Ready(Err(Unsent::WrongKind));
                }
                Ok(None) => return Poll::Pending,
                Err(LinkEnded) => {}
            }
        }
    }

    fn poll_any(
        &self,
        message: &Accepted,
        kind: SendKind,
        archive: Archive<'_>,
        waiter: &mut Waiter,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Awaited, Unsent>> {
        loop {
            let link = ready!(self.poll_link(waiter, cx))?;
            let mut place = Place { link: &link, key: waiter.line.take().map(|(_, key)| key) };
            let attempt =
                self.try_commit(&link, message, kind, archive, &mut place.key, Some(cx.waker()));
            waiter.line = place.key.take().map(|key| (link.clone(), key));
            return match attempt {
                Attempt::Committed(awaited) => Poll::Ready(Ok(awaited)),
                Attempt::Failed(failure) => Poll::Ready(Err(unsent(failure))),
                Attempt::Wait(_) => Poll::Pending,
                Attempt::Ready => Poll::Ready(Err(Unsent::Archive)),
                Attempt::LinkEnded => continue,
            };
        }
    }

    /// The link the sender stands in line at, or the current one; waits for one.
    fn poll_link(
        &self,
        waiter: &mut Waiter,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Arc<Link>, Unsent>> {
        if let Some((link, _)) = &waiter.line {
            if !link.has_ended() {
                return Poll::Ready(Ok(link.clone()));
            }
            // Its lines were emptied when it ended.
            waiter.line = None;
        }
        if let Some(link) = self.peer.link().filter(|link| !link.has_ended()) {
            waiter.leave_peer();
            return Poll::Ready(Ok(link));
        }
        let mut ticket = waiter.peer.take().map(|(_, ticket)| ticket);
        let polled = self.peer.poll_link(&mut ticket, cx);
        waiter.peer = ticket.map(|ticket| (self.peer.clone(), ticket));
        polled.map_err(Unsent::NodeDown)
    }

    /// Checks, writes the archive without a lock, checks again and commits. `Ready` means that the
    /// archive could not be written.
    fn try_commit(
        &self,
        link: &Arc<Link>,
        message: &Accepted,
        kind: SendKind,
        archive: Archive<'_>,
        place: &mut Option<usize>,
        waker: Option<&Waker>,
    ) -> Attempt {
        let check = Outgoing { message, kind, archive: None };
        match link.attempt(&self.request, check, place, waker) {
            Attempt::Ready => {}
            other => return other,
        }
        SCRATCH.with(|scratch| {
            // A message whose archiving sends another message finds the scratch in use.
            let mut own = AlignedVec::new();
            let mut borrowed = scratch.try_borrow_mut();
            let bytes = borrowed.as_deref_mut().unwrap_or(&mut own);
            bytes.clear();
            if archive(bytes).is_err() {
                if let Some(place) = place.take() {
                    link.forget(place);
                }
                return Attempt::Ready;
            }
            let send = Outgoing { message, kind, archive: Some(bytes) };
            let attempt = link.attempt(&self.request, send, place, waker);
            if bytes.capacity() > SCRATCH_BYTES_MAX {
                *bytes = AlignedVec::new();
            }
            attempt
        })
    }
}

fn send_kind(kind: Kind) -> SendKind {
    match kind {
        Kind::Tell => SendKind::Tell,
        Kind::ConfirmedTell => SendKind::ConfirmedTell,
        Kind::Ask { deadline } => {
            let us = |at: Instant| {
                let left = at.saturating_duration_since(Instant::now());
                u64::try_from(left.as_micros()).unwrap_or(u64::MAX)
            };
            SendKind::Ask { deadline_us: deadline.map(us) }
        }
    }
}

fn unsent(failure: SendFailure) -> Unsent {
    match failure {
        SendFailure::Unopened(Unopened::Refused(OpenRefusal::NoSuchMailbox)) => {
            Unsent::NoSuchMailbox
        }
        SendFailure::Unopened(Unopened::Refused(OpenRefusal::WrongKind)) => Unsent::WrongKind,
        SendFailure::Unopened(Unopened::Closed) => Unsent::Closed,
        SendFailure::NotAccepted => Unsent::NotAccepted,
        SendFailure::SchemaMismatch => Unsent::SchemaMismatch,
        SendFailure::TooLarge { bytes, limit } => Unsent::TooLarge { bytes, limit },
        SendFailure::TooManyAsks => Unsent::TooManyAsks,
        SendFailure::Leaving => Unsent::Leaving,
    }
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outlet({}/{:?})", self.peer.name(), self.request.target)
    }
}
