//! A sender to one mailbox of another node, over whatever link there is.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker, ready};

use rkyv::util::AlignedVec;
use tokio::time::Instant;

use crate::cause::{NodeDownCause, OpenRefusal};
use crate::id::NodeName;
use crate::link::{self, Attempt, Awaited, Link, LinkEnded, Outgoing, SendFailure, Wait};
use crate::mailbox::{Accepted, OpenRequest};
use crate::memory::buffer;
use crate::mesh::Peer;
use crate::mutants::planted;
use crate::proto::outbound::Unopened;

/// A sender to one mailbox of another node. Survives the loss of links: each new link opens the
/// mailbox again. Cheap to clone.
#[derive(Clone)]
pub struct RemoteSender(Arc<Way>);

struct Way {
    peer: Arc<Peer>,
    request: Arc<OpenRequest>,
    /// Where a link found the request the last time; another link looks there too, and at worst in
    /// vain.
    hint: AtomicU32,
}

/// Whether an answer is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendKind {
    /// No answer.
    Tell,
    /// No answer, but its fate.
    ConfirmedTell,
    /// One answer.
    Ask {
        /// When the asker gives up. How long that is travels with the ask.
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
    /// There is no link right now. Only from [`RemoteSender::try_send`].
    #[error("there is no link to the node right now")]
    LinkDown,
    /// The mailbox is not opened yet. Only from [`RemoteSender::try_send`].
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
    /// The window is full. Only from [`RemoteSender::try_send`].
    #[error("the mailbox is full")]
    Full,
    /// The archive could not be written.
    #[error("the message could not be archived")]
    Archive,
    /// One of the two nodes is shutting down.
    #[error("the link is being shut down")]
    Leaving,
}

/// A place in the lines that the tasks of a sender wait in, and the archive of what is to be sent.
/// Give the same one to every poll of the same send; dropping it gives the place up.
#[derive(Default)]
pub struct Waiter(Option<Box<Waiting>>);

/// What a send that waits has. Most sends do not: they never allocate it.
#[derive(Default)]
struct Waiting {
    line: Option<(Arc<Link>, usize)>,
    peer: Option<(Arc<Peer>, u64)>,
    /// Written once, whatever the send has to wait for.
    archive: Option<AlignedVec<16>>,
}

impl Waiter {
    fn line(&self) -> Option<&(Arc<Link>, usize)> {
        self.0.as_ref()?.line.as_ref()
    }

    fn take_line(&mut self) -> Option<(Arc<Link>, usize)> {
        self.0.as_mut()?.line.take()
    }

    fn take_peer(&mut self) -> Option<(Arc<Peer>, u64)> {
        self.0.as_mut()?.peer.take()
    }

    fn archive(&mut self) -> Option<&mut AlignedVec<16>> {
        self.0.as_mut()?.archive.as_mut()
    }

    fn keep(&mut self) -> &mut Waiting {
        self.0.get_or_insert_default()
    }

    #[inline]
    fn leave_peer(&mut self) {
        if let Some((peer, ticket)) = self.take_peer() {
            peer.forget(ticket);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some((link, place)) = self.line.take() {
            link.forget(place);
        }
        if let Some((peer, ticket)) = self.peer.take() {
            peer.forget(ticket);
        }
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match &self.0 {
            Some(waiting) if waiting.line.is_some() => "in line",
            Some(waiting) if waiting.peer.is_some() => "for a link",
            _ => "nowhere",
        };
        write!(f, "Waiter({place})")
    }
}

/// Writes a message's archive into the empty buffer it is given; run without any lock held, once
/// for each [`Waiter`].
pub type Archive<'a> = &'a mut dyn FnMut(&mut AlignedVec<16>) -> Result<(), ArchiveFailed>;

/// An archive could not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveFailed;

thread_local! {
    /// Archives are written here, so that a send allocates nothing.
    static SCRATCH: Cell<AlignedVec<16>> = Cell::new(AlignedVec::new());
}

/// Memory that a thread's scratch keeps between sends.
const SCRATCH_BYTES_MAX: usize = 1024 * 1024;

impl RemoteSender {
    pub(crate) fn new(peer: Arc<Peer>, request: OpenRequest) -> Self {
        RemoteSender(Arc::new(Way { peer, request: Arc::new(request), hint: AtomicU32::new(0) }))
    }

    /// The node it leads to.
    pub fn peer(&self) -> &NodeName {
        self.0.peer.name()
    }

    /// The mailbox it leads to.
    pub fn request(&self) -> &OpenRequest {
        &self.0.request
    }

    /// Sends one message: waits for a link, for the mailbox to be opened and for room in its
    /// window; then the message is committed.
    pub fn poll_send(
        &self,
        message: &Accepted,
        kind: SendKind,
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
        kind: SendKind,
        archive: Archive<'_>,
    ) -> Result<Awaited, Unsent> {
        let Some(link) = self.0.peer.link().filter(|link| !link.has_ended()) else {
            self.0.peer.want_link();
            return Err(Unsent::LinkDown);
        };
        // Nothing is archived that could not be sent.
        let attempt = match self.hinted(|way| link.has_room(way)) {
            Attempt::Committed(_) => with_scratch(|bytes| {
                archive(bytes).map_err(|ArchiveFailed| Unsent::Archive)?;
                let outgoing = Outgoing { message, kind: send_kind(kind), archive: bytes };
                Ok(self.hinted(|way| link.attempt(way, outgoing, &mut None, None)))
            })?,
            other => other,
        };
        match attempt {
            Attempt::Committed(awaited) => Ok(awaited),
            Attempt::Failed(failure) => Err(unsent(failure)),
            Attempt::Wait(Wait::Opening) => Err(Unsent::Opening),
            Attempt::Wait(Wait::Room) => Err(Unsent::Full),
            Attempt::LinkEnded => Err(Unsent::LinkDown),
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
            Lane::Control => link::SendKind::UrgentSignal(signal),
            Lane::Data => link::SendKind::Signal(signal),
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
            let mut place = waiter.take_line().map(|(_, place)| place);
            let ended = self.hinted(|way| link.await_end(way, &mut place, cx.waker()));
            if let Some(place) = place {
                waiter.keep().line = Some((link, place));
            }
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
        kind: link::SendKind,
        archive: Archive<'_>,
        waiter: &mut Waiter,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Awaited, Unsent>> {
        loop {
            let link = ready!(self.poll_link(waiter, cx))?;
            let mut place = waiter.take_line().map(|(_, place)| place);
            let attempt = match waiter.archive() {
                Some(bytes) => self.attempt(&link, (message, kind, bytes), &mut place, cx.waker()),
                None => with_scratch(|bytes| {
                    archive(bytes).map_err(|ArchiveFailed| Unsent::Archive)?;
                    let attempt =
                        self.attempt(&link, (message, kind, bytes), &mut place, cx.waker());
                    if matches!(attempt, Attempt::Wait(_) | Attempt::LinkEnded) {
                        waiter.keep().archive = Some(keep(bytes));
                    }
                    Ok(attempt)
                })?,
            };
            if let Some(place) = place {
                waiter.keep().line = Some((link, place));
            }
            if planted!(ArchivedAgain) {
                waiter.keep().archive = None;
            }
            return match attempt {
                Attempt::Committed(awaited) => Poll::Ready(Ok(awaited)),
                Attempt::Failed(failure) => Poll::Ready(Err(unsent(failure))),
                Attempt::Wait(_) => Poll::Pending,
                Attempt::LinkEnded => continue,
            };
        }
    }

    fn attempt(
        &self,
        link: &Arc<Link>,
        (message, kind, archive): (&Accepted, link::SendKind, &mut AlignedVec<16>),
        place: &mut Option<usize>,
        waker: &Waker,
    ) -> Attempt {
        let outgoing = Outgoing { message, kind, archive };
        self.hinted(|way| link.attempt(way, outgoing, place, Some(waker)))
    }

    /// Has a link look for the request where one found it the last time.
    fn hinted<T>(&self, look: impl FnOnce((&Arc<OpenRequest>, &mut u32)) -> T) -> T {
        let before = self.0.hint.load(Ordering::Relaxed);
        let mut hint = before;
        let result = look((&self.0.request, &mut hint));
        if hint != before {
            self.0.hint.store(hint, Ordering::Relaxed);
        }
        result
    }

    /// The link the sender stands in line at, or the current one; waits for one.
    fn poll_link(
        &self,
        waiter: &mut Waiter,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Arc<Link>, Unsent>> {
        if let Some((link, _)) = waiter.line() {
            if !link.has_ended() {
                return Poll::Ready(Ok(link.clone()));
            }
            // Its lines were emptied when it ended.
            waiter.take_line();
        }
        if let Some(link) = self.0.peer.link().filter(|link| !link.has_ended()) {
            waiter.leave_peer();
            return Poll::Ready(Ok(link));
        }
        let mut ticket = waiter.take_peer().map(|(_, ticket)| ticket);
        let polled = self.0.peer.poll_link(&mut ticket, cx);
        if let Some(ticket) = ticket {
            waiter.keep().peer = Some((self.0.peer.clone(), ticket));
        }
        polled.map_err(Unsent::NodeDown)
    }
}

/// Lends the thread's scratch, emptied.
fn with_scratch<T>(use_it: impl FnOnce(&mut AlignedVec<16>) -> T) -> T {
    // Taken, not borrowed: a message whose archiving sends another message finds none.
    let mut bytes = SCRATCH.take();
    bytes.clear();
    let result = use_it(&mut bytes);
    if bytes.capacity() > SCRATCH_BYTES_MAX {
        buffer::give(bytes);
    } else {
        SCRATCH.set(bytes);
    }
    result
}

/// Takes an archive out of the scratch: a large one as it is, a small one as a copy.
fn keep(scratch: &mut AlignedVec<16>) -> AlignedVec<16> {
    if scratch.len() > SCRATCH_BYTES_MAX / 16 {
        return std::mem::take(scratch);
    }
    let mut copy = buffer::take(scratch.len());
    copy.extend_from_slice(scratch);
    copy
}

fn send_kind(kind: SendKind) -> link::SendKind {
    match kind {
        SendKind::Tell => link::SendKind::Tell,
        SendKind::ConfirmedTell => link::SendKind::ConfirmedTell,
        SendKind::Ask { deadline } => {
            link::SendKind::Ask { deadline: deadline.map(Instant::into_std) }
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

impl fmt::Debug for RemoteSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteSender({}/{:?})", self.0.peer.name(), self.0.request.target)
    }
}
