//! A sender to one mailbox of another node, over whatever link there is.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker, ready};

use crate::cause::NodeDown;
use crate::close_reason::CloseReason;
use crate::id::NodeName;
use crate::link::{Attempt, Awaited, Hint, LinkHandle, Outgoing, SendKind, Unsent};
use crate::mesh::Peer;
use crate::mutants::planted;
use crate::open_request::{Accepted, MessageForms, OpenRequest};

use super::archive::{Archive, ArchiveFailed, keep, with_scratch};
use super::waiter::{Place, WaitState, Waiter};

/// A sender to one mailbox of another node. Survives the loss of links: each new link opens the
/// mailbox again. Cheap to clone.
#[derive(Clone)]
pub struct RemoteSender(Arc<Shared>);

/// The part of a sender that its clones share.
struct Shared {
    peer: Arc<Peer>,
    request: Arc<OpenRequest>,
    hint: SharedHint,
}

impl Shared {
    fn new(peer: Arc<Peer>, request: Arc<OpenRequest>) -> Arc<Self> {
        Arc::new(Shared { peer, request, hint: SharedHint::default() })
    }
}

/// A [`Hint`] that the tasks of a sender share. Relaxed: a hint may be wrong.
#[derive(Default)]
struct SharedHint(AtomicU64);

impl SharedHint {
    /// Runs `look` with the hint, and stores the hint if `look` changed it.
    #[inline]
    fn with<T>(&self, look: impl FnOnce(&mut Hint) -> T) -> T {
        let word = self.0.load(Ordering::Relaxed);
        let before = Hint { outlet: word as u32, ordinal: (word >> 32) as u16 };
        let mut hint = before;
        let result = look(&mut hint);
        if hint != before {
            let word = u64::from(hint.ordinal) << 32 | u64::from(hint.outlet);
            self.0.store(word, Ordering::Relaxed);
        }
        result
    }
}

/// The function that keeps a waker at a link, if there is something to wait for.
type Aside = fn(&LinkHandle, &Waker) -> Option<usize>;

/// A link, and the place of a sender that stands in line there; what a look-up finds.
type LinkAndPlace = (Arc<LinkHandle>, Option<usize>);
type Found = (RemoteSender, Arc<[Accepted]>);

impl RemoteSender {
    pub(crate) fn new(peer: Arc<Peer>, request: OpenRequest) -> Self {
        RemoteSender(Shared::new(peer, Arc::new(request)))
    }

    /// Returns the node it leads to.
    pub fn peer(&self) -> &NodeName {
        self.0.peer.name()
    }

    /// Returns true if this node is closing: it has said goodbye on its links.
    pub fn is_closing(&self) -> bool {
        self.0.peer.is_closing()
    }

    /// Returns a number that all messages of that node have, and of no other: see
    /// [`Delivery::peer_number`](crate::host::Delivery::peer_number).
    pub fn peer_number(&self) -> usize {
        self.0.peer.number()
    }

    /// Returns the mailbox it leads to.
    pub fn request(&self) -> &OpenRequest {
        &self.0.request
    }

    /// Sends one message or signal: waits for a link, for the mailbox to be opened and, unless it
    /// goes ahead of messages, for room in its window; then it is committed.
    ///
    /// # Errors
    /// [`Unsent`]: nothing was sent. With `NodeDown` at once where the node is down, unless
    /// `waiter` [waits for a link](Waiter::wait_for_link).
    ///
    /// # Cancel safety
    /// Dropping `waiter` before this is ready sends nothing and gives up the place in line.
    pub fn poll_send(
        &self,
        message: &MessageForms,
        kind: SendKind,
        archive: Archive<'_>,
        waiter: &mut Waiter,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Awaited, Unsent>> {
        let sent = ready!(self.poll_attempts((message, kind), archive, waiter, cx));
        // Now, not when the waiter is dropped: that may be long after, or it serves another send.
        waiter.clear();
        Poll::Ready(sent)
    }

    fn poll_attempts(
        &self,
        (message, kind): (&MessageForms, SendKind),
        archive: Archive<'_>,
        waiter: &mut Waiter,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Awaited, Unsent>> {
        loop {
            // The first step of a send, and the last one of most.
            let attempt = if waiter.is_new()
                && let Some(link) = &*self.0.peer.link()
                && !link.has_ended()
            {
                self.begin(link, (message, kind), archive, waiter, cx.waker())?
            } else {
                ready!(self.poll_next(message, kind, archive, waiter, cx))?
            };
            return match attempt {
                Attempt::Committed(awaited) => Poll::Ready(Ok(awaited)),
                // The peer leaves; a later run of it may come.
                Attempt::Failed(Unsent::Leaving) if waiter.is_patient() => {
                    ready!(self.poll_aside(LinkHandle::await_left, waiter, cx));
                    continue;
                }
                Attempt::Rests => {
                    ready!(self.poll_aside(LinkHandle::await_rested, waiter, cx));
                    continue;
                }
                Attempt::Failed(unsent) => Poll::Ready(Err(unsent)),
                Attempt::Wait => Poll::Pending,
                Attempt::LinkEnded => continue,
                Attempt::OtherForm(form) => {
                    waiter.state().archive_as(form, archive)?;
                    continue;
                }
            };
        }
    }

    /// Returns the form in which a message is to be archived for a link. Most have one.
    #[inline]
    fn form(&self, link: &LinkHandle, message: &MessageForms, kind: SendKind) -> u8 {
        if message.layouts.len() < 2 {
            return 0;
        }
        self.0.hint.with(|hint| link.form((&self.0.request, hint), message, kind))
    }

    /// Waits at the link as `wait` says, if there is a link and something to wait for.
    fn poll_aside(&self, wait: Aside, waiter: &mut Waiter, cx: &mut Context<'_>) -> Poll<()> {
        let Some(link) = &*self.0.peer.link() else { return Poll::Ready(()) };
        let Some(place) = wait(link, cx.waker()) else { return Poll::Ready(()) };
        waiter.state().place = Place::InLine(link.clone(), place);
        Poll::Pending
    }

    /// Sends one tell as [`poll_send`](Self::poll_send) does; quicker where nothing has to be
    /// waited for.
    ///
    /// # Errors
    /// [`Unsent`]: nothing was sent.
    ///
    /// # Cancel safety
    /// The same as for [`poll_send`](Self::poll_send).
    pub fn poll_tell(
        &self,
        message: &MessageForms,
        archive: Archive<'_>,
        waiter: &mut Waiter,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Unsent>> {
        if waiter.is_new()
            && let Some(link) = &*self.0.peer.link()
        {
            let form = self.form(link, message, SendKind::Tell);
            let attempt = with_scratch(|bytes| {
                let note = archive(form, bytes).map_err(|ArchiveFailed| Unsent::Archive)?;
                if note.is_none() && self.commit_at_once(link, (message, form), bytes) {
                    return Ok(None);
                }
                let (kind, note) = (SendKind::Tell, note.as_ref());
                let outgoing = Outgoing { message, form, kind, note, archive: bytes };
                Ok(Some(self.attempt_first(link, outgoing, waiter, cx.waker())))
            })?;
            match attempt {
                None | Some(Attempt::Committed(_)) => return Poll::Ready(Ok(())),
                Some(Attempt::Wait) => return Poll::Pending,
                Some(Attempt::Failed(unsent)) => return Poll::Ready(Err(unsent)),
                // Its archive is kept.
                Some(Attempt::LinkEnded | Attempt::Rests | Attempt::OtherForm(_)) => {}
            }
        }
        self.poll_send(message, SendKind::Tell, archive, waiter, cx).map_ok(|_| ())
    }

    #[inline]
    fn commit_at_once(
        &self,
        link: &LinkHandle,
        message: (&MessageForms, u8),
        archive: &[u8],
    ) -> bool {
        self.0.hint.with(|hint| link.commit_at_once((&self.0.request, hint), message, archive))
    }

    /// Archives a message and tries to send it. When it has to wait, its place and archive are in
    /// `waiter`.
    fn begin(
        &self,
        link: &Arc<LinkHandle>,
        (message, kind): (&MessageForms, SendKind),
        archive: Archive<'_>,
        waiter: &mut Waiter,
        waker: &Waker,
    ) -> Result<Attempt, Unsent> {
        let form = self.form(link, message, kind);
        with_scratch(|bytes| {
            let note = archive(form, bytes).map_err(|ArchiveFailed| Unsent::Archive)?;
            let outgoing = Outgoing { message, form, kind, note: note.as_ref(), archive: bytes };
            Ok(self.attempt_first(link, outgoing, waiter, waker))
        })
    }

    /// Tries to send a message that was archived. When it has to wait, its place and archive are in
    /// `waiter`.
    fn attempt_first(
        &self,
        link: &Arc<LinkHandle>,
        mut outgoing: Outgoing<'_>,
        waiter: &mut Waiter,
        waker: &Waker,
    ) -> Attempt {
        let mut place = None;
        let again = outgoing.reborrow();
        let attempt = self
            .0
            .hint
            .with(|hint| link.attempt((&self.0.request, hint), again, &mut place, Some(waker)));
        if matches!(attempt, Attempt::Wait | Attempt::LinkEnded | Attempt::Rests) {
            let waiting = waiter.state();
            keep(outgoing.archive, &mut waiting.archive);
            (waiting.form, waiting.archived) = (outgoing.form, true);
            waiting.note = outgoing.note.cloned();
            if let Some(place) = place {
                waiting.place = Place::InLine(link.clone(), place);
            }
        }
        attempt
    }

    /// Takes a later step of a send that waits, or the first one where there is no link.
    #[cold]
    fn poll_next(
        &self,
        message: &MessageForms,
        kind: SendKind,
        archive: Archive<'_>,
        waiter: &mut Waiter,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Attempt, Unsent>> {
        let (link, mut place) = ready!(self.poll_link(waiter, cx)).map_err(Unsent::NodeDown)?;
        let waiting = waiter.state();
        if !waiting.archived {
            waiting.archive_as(waiting.form, archive)?;
        }
        let WaitState { archive, form, note, .. } = &mut *waiting;
        let outgoing = Outgoing { message, form: *form, kind, note: note.as_ref(), archive };
        let attempt = self.0.hint.with(|hint| {
            link.attempt((&self.0.request, hint), outgoing, &mut place, Some(cx.waker()))
        });
        if let Some(place) = place {
            waiting.place = Place::InLine(link, place);
        }
        if planted!(ArchivedAgain) {
            waiting.archived = false;
        }
        Poll::Ready(Ok(attempt))
    }

    /// Sends one message if that is possible without waiting.
    ///
    /// # Errors
    /// [`Unsent`], with `LinkDown`, `Opening` or `Full` where waiting would help, and `NodeDown`
    /// where the node is down. (The link is still dialled and the mailbox opened.)
    pub fn try_send(
        &self,
        message: &MessageForms,
        kind: SendKind,
        archive: Archive<'_>,
    ) -> Result<Awaited, Unsent> {
        let link = self.0.peer.link();
        let Some(link) = link.as_ref().filter(|link| !link.has_ended()) else {
            let down = self.0.peer.want_link();
            return Err(down.map_or(Unsent::LinkDown, Unsent::NodeDown));
        };
        // Nothing is archived that could not be sent.
        let request = &self.0.request;
        self.0.hint.with(|hint| link.has_room((request, hint), kind))?;
        let mut form = self.form(link, message, kind);
        let mut attempt = |form| {
            with_scratch(|bytes| {
                let note = archive(form, bytes).map_err(|ArchiveFailed| Unsent::Archive)?;
                let note = note.as_ref();
                let outgoing = Outgoing { message, form, kind, note, archive: bytes };
                let attempt =
                    |hint: &mut _| link.attempt((request, hint), outgoing, &mut None, None);
                Ok(self.0.hint.with(attempt))
            })
        };
        let attempt = loop {
            match attempt(form)? {
                // The mailbox was opened or closed in between.
                Attempt::OtherForm(other) => form = other,
                attempt => break attempt,
            }
        };
        match attempt {
            Attempt::Committed(awaited) => Ok(awaited),
            Attempt::Failed(unsent) => Err(unsent),
            Attempt::Rests if !kind.takes_no_room() => Err(Unsent::Full),
            Attempt::Wait | Attempt::LinkEnded | Attempt::Rests | Attempt::OtherForm(_) => {
                Err(Unsent::LinkDown)
            }
        }
    }

    /// Reserves room for a tell of `bytes` bytes; waits as [`poll_send`](Self::poll_send) does.
    /// `waiter` then holds the room until it is given to [`send_reserved`](Self::send_reserved) or
    /// dropped.
    ///
    /// # Errors
    /// The same as for [`poll_send`](Self::poll_send).
    ///
    /// # Cancel safety
    /// Dropping `waiter` gives the room, or the place in line, to the next sender.
    pub fn poll_reserve(
        &self,
        (message, bytes): (&MessageForms, u32),
        waiter: &mut Waiter,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Unsent>> {
        loop {
            let (link, mut place) = ready!(self.poll_link(waiter, cx)).map_err(Unsent::NodeDown)?;
            let request = &self.0.request;
            let step = |hint: &mut _| {
                link.reserve((request, hint), (message, bytes), &mut place, cx.waker())
            };
            let attempt = self.0.hint.with(step);
            if let Some(place) = place {
                waiter.state().place = Place::InLine(link, place);
            }
            match attempt {
                Attempt::Committed(_) => return Poll::Ready(Ok(())),
                Attempt::Wait => return Poll::Pending,
                Attempt::Failed(unsent) => {
                    waiter.clear();
                    return Poll::Ready(Err(unsent));
                }
                Attempt::Rests => ready!(self.poll_aside(LinkHandle::await_rested, waiter, cx)),
                Attempt::LinkEnded | Attempt::OtherForm(_) => {}
            }
        }
    }

    /// Sends a tell to room that [`poll_reserve`](Self::poll_reserve) reserved.
    ///
    /// # Errors
    /// [`Unsent`]: nothing was sent. `LinkDown` where the room went with its link, `Full` where the
    /// message is larger than the room and there is no more.
    pub fn send_reserved(
        &self,
        message: &MessageForms,
        archive: Archive<'_>,
        mut waiter: Waiter,
    ) -> Result<(), Unsent> {
        let link = match waiter.link() {
            Some(link) if !link.has_ended() => link.clone(),
            _ => return Err(Unsent::LinkDown),
        };
        let form = waiter.place_in_line().map_or(0, |place| link.reserved_form(place));
        with_scratch(|bytes| {
            let note = archive(form, bytes).map_err(|ArchiveFailed| Unsent::Archive)?;
            // From here on the link has the place.
            let Place::InLine(_, place) = waiter.take_place() else { return Err(Unsent::LinkDown) };
            let (kind, note) = (SendKind::Tell, note.as_ref());
            link.commit_reserved(place, Outgoing { message, form, kind, note, archive: bytes })
        })
    }

    /// Waits for a link and for the mailbox to be opened, as [`poll_send`](Self::poll_send) does.
    /// Returns a sender to this very mailbox, whoever takes its name, and its accepted messages.
    ///
    /// # Errors
    /// The same as for [`poll_send`](Self::poll_send).
    ///
    /// # Cancel safety
    /// Dropping `waiter` gives the look-up up.
    pub fn poll_find(
        &self,
        waiter: &mut Waiter,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Found, Unsent>> {
        let nothing = &MessageForms::NONE;
        let found = self.poll_send(nothing, SendKind::LookUp, &mut |_, _| Ok(None), waiter, cx);
        found.map_ok(|found| match found {
            Awaited::Found(request, accepted) => {
                (RemoteSender(Shared::new(self.0.peer.clone(), request)), accepted)
            }
            _ => unreachable!("a look-up finds a mailbox or fails"),
        })
    }

    /// Waits until the mailbox is closed, was never there, or is of another kind; returns why it
    /// was closed, if the peer said so. When a link is lost on which it was open, this sender leads
    /// to exactly that mailbox from then on: on the next link another one may have its name.
    ///
    /// # Errors
    /// [`NodeDown`], when the node is down first, or is down already.
    ///
    /// # Cancel safety
    /// Dropping `waiter` gives the wait up.
    pub fn poll_closed(
        &mut self,
        waiter: &mut Waiter,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<CloseReason>, NodeDown>> {
        loop {
            // A link that has ended meanwhile may have heard of the end before.
            let (link, mut place) = match waiter.take_place() {
                Place::InLine(link, place) => (link, Some(place)),
                elsewhere => {
                    waiter.put_place(elsewhere);
                    ready!(self.poll_link(waiter, cx))?
                }
            };
            let request = &self.0.request;
            let waited = place.is_some();
            let look = |hint: &mut _| link.await_end((request, hint), &mut place, cx.waker());
            match self.0.hint.with(look) {
                Attempt::Wait => {
                    waiter.state().place =
                        place.map_or(Place::Nowhere, |at| Place::InLine(link, at));
                    return Poll::Pending;
                }
                Attempt::LinkEnded if waited => {
                    if let Some(found) = link.found(request) {
                        self.0 = Shared::new(self.0.peer.clone(), found);
                    }
                }
                Attempt::LinkEnded | Attempt::OtherForm(_) => {}
                Attempt::Failed(Unsent::Closed(end)) => return Poll::Ready(Ok(Some(end))),
                Attempt::Committed(_) | Attempt::Rests | Attempt::Failed(_) => {
                    return Poll::Ready(Ok(None));
                }
            }
        }
    }

    /// Takes out the link the sender stands in line at, and its place, or returns the current link;
    /// waits for one.
    fn poll_link(
        &self,
        waiter: &mut Waiter,
        cx: &mut Context<'_>,
    ) -> Poll<Result<LinkAndPlace, NodeDown>> {
        let mut ticket = None;
        match waiter.take_place() {
            Place::InLine(link, place) if !link.has_ended() => {
                return Poll::Ready(Ok((link, Some(place))));
            }
            Place::AtPeer(_, kept) => ticket = Some(kept),
            // The lines of a link were emptied when it ended.
            Place::InLine(..) | Place::Nowhere => {}
        }
        let polled = self.0.peer.poll_link(&mut ticket, waiter.is_patient(), cx);
        if let Some(ticket) = ticket {
            waiter.state().place = Place::AtPeer(self.0.peer.clone(), ticket);
        }
        polled.map_ok(|link| (link, None))
    }
}

impl fmt::Debug for RemoteSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteSender({}/{:?})", self.0.peer.name(), self.0.request.target)
    }
}
