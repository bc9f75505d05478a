//! Prefetched messages, which an actor took from its mailbox and has not begun yet.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::iter::from_fn;
use std::task::{Context, Poll};

use tokio::time::Instant;

use super::OutlinedDrop;

/// One or more messages of another node in a mailbox.
pub(crate) trait RemoteItem {
    /// The type of each message.
    type Message;

    /// Returns the number of messages.
    fn count(&self) -> usize;

    /// Takes out the first message. If it was the last one, the caller drops the item.
    fn take_first(&mut self) -> Option<Self::Message>;

    /// Like [`take_first`](Self::take_first), but only if the message is of a kind that never waits
    /// to begin.
    fn take_tell(&mut self) -> Option<Self::Message>;

    /// Returns the unique number of the node that sent it.
    fn peer(&self) -> usize;

    /// Waits until the first message can be begun: for an ask, until its link has room for the
    /// reply, or its deadline has passed. The link keeps the waker of `cx` for the room; nothing
    /// wakes it for the [`deadline`](Self::deadline).
    fn poll_begin(&self, cx: &mut Context<'_>) -> Poll<()>;

    /// Returns the deadline of the first message; `None` for a tell, and for an ask without one.
    /// From then on, [`poll_begin`](Self::poll_begin) is ready even without room for the reply.
    fn deadline(&self) -> Option<Instant>;
}

/// The messages that an actor took from its mailbox and has not begun yet.
pub(crate) struct Prefetched<L, R> {
    /// Messages of this node, of which the first `begun` have begun.
    local: OutlinedDrop<Vec<L>>,
    begun: u32,
    /// Number of the other messages that begin before the next look at both queues.
    turn: u32,
    /// Created with the first message of another node: most actors have none.
    far: OutlinedDrop<Option<Box<RemotePrefetched<R>>>>,
}

/// The prefetched messages of other nodes.
pub(super) struct RemotePrefetched<R> {
    pub(super) remote: VecDeque<R>,
    /// Number of items that ever left the queue; the last of them are in `remote`.
    pub(super) left: u64,
    /// Number of messages that begin before the next look at both queues.
    pub(super) turn: usize,
    /// The messages held back, by peer; no entry is empty between calls.
    held: VecDeque<HeldMessages<R>>,
    /// The last call of `take_with_held` took new messages before released ones: the two orders
    /// alternate.
    is_fresh_first: bool,
}

/// The messages of one peer that are held back: first an ask whose reply has no room on its link,
/// and then all that the peer sent later.
struct HeldMessages<R> {
    peer: usize,
    /// Each item with the number of items that were added to the queue before it.
    messages: VecDeque<(u64, R)>,
    /// At the last check, the first message could be begun.
    is_released: bool,
}

impl<L, R> Prefetched<L, R> {
    pub(crate) fn new() -> Self {
        Prefetched {
            local: OutlinedDrop::default(),
            begun: 0,
            turn: 0,
            far: OutlinedDrop::default(),
        }
    }

    /// Returns true if there are no messages, neither to begin nor held back.
    pub(crate) fn is_empty(&self) -> bool {
        let far = |far: &RemotePrefetched<R>| far.remote.is_empty() && far.held.is_empty();
        self.has_begun_all() && self.far.as_deref().is_none_or(far)
    }

    /// Returns the number of messages of this node left in the batch.
    pub(super) fn turn(&self) -> usize {
        self.turn as usize
    }

    /// Returns the messages of other nodes, if there ever was one.
    pub(super) fn remote(&self) -> Option<&RemotePrefetched<R>> {
        self.far.as_deref()
    }

    /// Like [`remote`](Self::remote), but mutable.
    pub(super) fn remote_mut(&mut self) -> &mut Option<Box<RemotePrefetched<R>>> {
        &mut self.far
    }

    /// Returns the messages of other nodes, to add more to them.
    pub(super) fn far(&mut self) -> &mut RemotePrefetched<R> {
        self.far.get_or_insert_default()
    }

    fn has_begun_all(&self) -> bool {
        self.begun as usize == self.local.len()
    }

    /// Returns the messages of this node, to add more to them. If all have begun, drops them first.
    #[inline]
    pub(super) fn local(&mut self) -> &mut Vec<L> {
        if self.has_begun_all() {
            self.begun = 0;
            self.local.clear();
        }
        &mut self.local
    }

    /// Begins a new batch, with `local` messages of this node and up to `most` of others.
    pub(super) fn begin_turn(&mut self, local: u32, most: u32) {
        self.turn = local;
        if let Some(far) = &mut *self.far {
            far.turn = most as usize;
        }
    }
}

impl<L, R: RemoteItem> Prefetched<L, R> {
    /// Returns the next message of this node, for an actor that begins no more messages. The caller
    /// takes the message out of its place. After the last one, returns `None` and frees the memory.
    pub(crate) fn take_local(&mut self) -> Option<&mut L> {
        if self.has_begun_all() {
            self.begun = 0;
            drop(std::mem::take(&mut *self.local));
            return None;
        }
        self.begun += 1;
        self.local.get_mut(self.begun as usize - 1)
    }

    /// Takes out all messages of other nodes, for an actor that begins no more messages. The
    /// messages of each link are in order.
    pub(crate) fn take_remote(&mut self) -> impl Iterator<Item = R::Message> + use<L, R> {
        let mut far = self.far.take();
        from_fn(move || far.as_mut()?.take_unbegun())
    }

    /// Begins the next message of this node in this batch, and returns it in its place, because
    /// each move of it costs time. It is not dropped until all prefetched messages of this node
    /// have begun: the caller takes out the parts that must be dropped earlier.
    #[inline]
    pub(crate) fn begin_local(&mut self) -> Option<&mut L> {
        self.turn = self.turn.checked_sub(1)?;
        let next = self.local.get_mut(self.begun as usize)?;
        self.begun += 1;
        Some(next)
    }

    /// Fast path of [`take_far`](Self::take_far): takes out the next message of other nodes in this
    /// batch if it is a tell and no message is held back.
    #[inline]
    pub(crate) fn take_tell(&mut self) -> Option<R::Message> {
        self.far.as_mut()?.take_tell()
    }

    /// Takes out the next message of other nodes in this batch to begin it. Messages that cannot be
    /// begun are held back; the waker of `cx` is woken when that changes.
    #[inline]
    pub(crate) fn take_far(&mut self, cx: &mut Context<'_>) -> Option<R::Message> {
        self.far.as_mut()?.take(cx)
    }

    /// Checks the messages held back. Returns true if one of them can be begun; if not, the waker
    /// of `cx` is woken when that changes.
    #[inline]
    pub(super) fn release(&mut self, cx: &mut Context<'_>) -> bool {
        self.far.as_mut().is_some_and(|far| far.release(cx))
    }

    /// Returns true if all messages of this peer among the first `came` items that were ever added
    /// to the remote queue are begun.
    pub(super) fn has_begun(&self, peer: usize, came: u64) -> bool {
        self.far.as_ref().map_or(came == 0, |far| far.has_begun(peer, came))
    }
}

impl<R> Default for RemotePrefetched<R> {
    fn default() -> Self {
        RemotePrefetched {
            remote: VecDeque::new(),
            left: 0,
            turn: 0,
            held: VecDeque::new(),
            is_fresh_first: false,
        }
    }
}

impl<R: RemoteItem> HeldMessages<R> {
    fn first(&self) -> Option<&R> {
        self.messages.front().map(|(_, first)| first)
    }

    fn take_first(&mut self) -> Option<R::Message> {
        let (_, first) = self.messages.front_mut()?;
        let is_last = first.count() <= 1;
        let message = first.take_first();
        if is_last {
            drop(self.messages.pop_front());
        }
        message
    }
}

impl<R: RemoteItem> RemotePrefetched<R> {
    /// Returns true if messages are held back.
    pub(super) fn holds_back(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns the first deadline of the asks held back; it releases its ask even without room.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let first = |held: &HeldMessages<R>| held.first().and_then(RemoteItem::deadline);
        self.held.iter().filter_map(first).min()
    }

    fn has_begun(&self, peer: usize, came: u64) -> bool {
        let before = came.saturating_sub(self.batch_begins_at());
        let mut batch = self.remote.iter().take(before as usize);
        let is_held = |held: &HeldMessages<R>| {
            held.peer == peer && held.messages.front().is_some_and(|(number, _)| *number < came)
        };
        self.left >= came && batch.all(|item| item.peer() != peer) && !self.held.iter().any(is_held)
    }

    fn take_unbegun(&mut self) -> Option<R::Message> {
        while let Some(held) = self.held.front_mut() {
            if let Some(message) = held.take_first() {
                return Some(message);
            }
            self.held.pop_front();
        }
        take_first(&mut self.remote)
    }

    #[inline]
    fn take_tell(&mut self) -> Option<R::Message> {
        if self.turn == 0 || !self.held.is_empty() {
            return None;
        }
        let first = self.remote.front_mut()?;
        let message = first.take_tell()?;
        self.turn -= 1;
        if first.count() == 0 {
            drop(self.remote.pop_front());
        }
        Some(message)
    }

    #[inline]
    fn take(&mut self, cx: &mut Context<'_>) -> Option<R::Message> {
        if self.held.is_empty() {
            // The common case.
            let first = self.remote.front().filter(|_| self.turn > 0)?;
            if first.poll_begin(cx).is_ready() {
                self.turn -= 1;
                return take_first(&mut self.remote);
            }
            self.hold_first();
        }
        self.take_with_held(cx)
    }

    /// Returns the number of items that were added to the queue before the first one of the batch.
    fn batch_begins_at(&self) -> u64 {
        self.left - self.remote.len() as u64
    }

    #[cold]
    fn hold_first(&mut self) {
        let number = self.batch_begins_at();
        let Some(first) = self.remote.pop_front() else { return };
        self.turn = self.turn.saturating_sub(first.count());
        let peer = first.peer();
        match self.held.iter_mut().find(|held| held.peer == peer) {
            Some(held) => held.messages.push_back((number, first)),
            None => {
                let messages = VecDeque::from([(number, first)]);
                self.held.push_back(HeldMessages { peer, messages, is_released: false });
            }
        }
    }

    #[cold]
    fn take_with_held(&mut self, cx: &mut Context<'_>) -> Option<R::Message> {
        if self.turn == 0 {
            return None;
        }
        // Released messages and new messages of other links alternate, also across batches.
        self.is_fresh_first = !self.is_fresh_first;
        if !self.is_fresh_first
            && let Some(message) = self.take_released(cx)
        {
            return Some(message);
        }
        while self.turn > 0
            && let Some(first) = self.remote.front()
        {
            let peer = first.peer();
            let is_held = self.held.iter().any(|held| held.peer == peer);
            if !is_held && first.poll_begin(cx).is_ready() {
                self.turn -= 1;
                return take_first(&mut self.remote);
            }
            self.hold_first();
        }
        if self.is_fresh_first { self.take_released(cx) } else { None }
    }

    fn release(&mut self, cx: &mut Context<'_>) -> bool {
        let mut any = false;
        for held in &mut self.held {
            held.is_released = held.first().is_none_or(|first| first.poll_begin(cx).is_ready());
            any |= held.is_released;
        }
        any
    }

    /// Takes a message of a released link; the links take turns. Returns `None` if no link is
    /// released, or if the batch has no messages left before the next look at both queues.
    fn take_released(&mut self, cx: &mut Context<'_>) -> Option<R::Message> {
        if self.turn == 0 {
            return None;
        }
        for _ in 0..self.held.len() {
            let mut held = self.held.pop_front()?;
            let first = held.first().filter(|_| held.is_released);
            // Each message is checked again, because the previous one may have used up the room.
            held.is_released = first.is_some_and(|first| first.poll_begin(cx).is_ready());
            let taken = if held.is_released { held.take_first() } else { None };
            if !held.messages.is_empty() {
                self.held.push_back(held);
            }
            if taken.is_some() {
                self.turn -= 1;
                return taken;
            }
        }
        None
    }
}

/// Takes out the first message of the first item.
#[inline]
fn take_first<R: RemoteItem>(all: &mut VecDeque<R>) -> Option<R::Message> {
    let first = all.front_mut()?;
    let is_last = first.count() <= 1;
    let message = first.take_first();
    if is_last {
        drop(all.pop_front());
    }
    message
}
