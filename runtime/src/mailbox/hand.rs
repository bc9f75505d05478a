//! The actor's hand: what it took from its mailbox and has not begun yet.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::iter::from_fn;
use std::task::{Context, Poll};

use tokio::time::Instant;

use super::Outlined;

/// One or several messages of another node, as a mailbox sees them; at least one.
pub(crate) trait Remote {
    /// One of them.
    type Message;

    /// Returns how many messages there are.
    fn count(&self) -> usize;

    /// Takes out the first message. When it was the last one, this is to be dropped.
    fn take_first(&mut self) -> Option<Self::Message>;

    /// As [`take_first`](Self::take_first), only if the message is of a kind that never waits.
    fn take_tell(&mut self) -> Option<Self::Message>;

    /// Returns the number of the node it came from; no other has it.
    fn peer(&self) -> usize;

    /// Waits until the first message can be begun: for an ask, until its link has room for the
    /// reply, or its deadline has passed. The link keeps the waker of `cx` for the room; nothing
    /// wakes it for the [`deadline`](Self::deadline).
    fn poll_begin(&self, cx: &mut Context<'_>) -> Poll<()>;

    /// Returns when the first message can be begun at the latest, if that is known.
    fn deadline(&self) -> Option<Instant>;
}

/// The messages that an actor took from its mailbox and has not begun yet.
pub(crate) struct Hand<L, R> {
    /// Those that have begun, and the others.
    local: Outlined<Vec<L>>,
    begun: u32,
    /// How many of the others come before the next look at both intakes (MB-5).
    turn: u32,
    /// There from the first message of another node on: most actors have none.
    far: Outlined<Option<Box<Far<R>>>>,
}

/// The messages of other nodes.
pub(super) struct Far<R> {
    pub(super) remote: VecDeque<R>,
    /// How many items ever left the intake; the last ones of these are in `remote`.
    pub(super) left: u64,
    /// How many more of them come before the next look at both intakes (MB-5).
    pub(super) turn: usize,
    /// The messages held back, by peer (MB-8); no entry is empty between calls.
    held: VecDeque<Held<R>>,
    /// Messages that came since go before those that were released: the two take turns.
    is_fresh_first: bool,
}

/// The messages of one peer since an ask for whose reply its link had no room, and the ask.
struct Held<R> {
    peer: usize,
    /// Each with how many items came before it.
    messages: VecDeque<(u64, R)>,
    /// The first one could be begun when it was looked at last.
    is_released: bool,
}

impl<L, R> Hand<L, R> {
    pub(crate) fn new() -> Self {
        Hand { local: Outlined::default(), begun: 0, turn: 0, far: Outlined::default() }
    }

    /// Returns true if it holds nothing that can be begun, nor holds anything back.
    pub(crate) fn is_empty(&self) -> bool {
        let far = |far: &Far<R>| far.remote.is_empty() && far.held.is_empty();
        self.has_begun_all() && self.far.as_deref().is_none_or(far)
    }

    /// Returns how many messages of this node are left of the batch.
    pub(super) fn turn(&self) -> usize {
        self.turn as usize
    }

    /// Returns the messages of other nodes, if ever there was one.
    pub(super) fn remote(&self) -> Option<&Far<R>> {
        self.far.as_deref()
    }

    /// As [`remote`](Self::remote), to be added to.
    pub(super) fn remote_mut(&mut self) -> &mut Option<Box<Far<R>>> {
        &mut self.far
    }

    /// Returns the messages of other nodes.
    pub(super) fn far(&mut self) -> &mut Far<R> {
        self.far.get_or_insert_default()
    }

    fn has_begun_all(&self) -> bool {
        self.begun as usize == self.local.len()
    }

    /// Returns the messages of this node, to be added to; none of them when all have begun.
    #[inline]
    pub(super) fn local(&mut self) -> &mut Vec<L> {
        if self.has_begun_all() {
            self.begun = 0;
            self.local.clear();
        }
        &mut self.local
    }

    /// Begins a new batch, with `local` messages of this node and `most` of others (MB-5).
    pub(super) fn begin_turn(&mut self, local: u32, most: u32) {
        self.turn = local;
        if let Some(far) = &mut *self.far {
            far.turn = most as usize;
        }
    }
}

impl<L, R: Remote> Hand<L, R> {
    /// Returns the next message of this node of an actor that begins none any more, in their
    /// order, to be taken out of its place. `None` when there are no more, and none of the memory.
    pub(crate) fn take_local(&mut self) -> Option<&mut L> {
        if self.has_begun_all() {
            self.begun = 0;
            drop(std::mem::take(&mut *self.local));
            return None;
        }
        self.begun += 1;
        self.local.get_mut(self.begun as usize - 1)
    }

    /// Takes out the messages of other nodes of an actor that begins none any more; one link's in
    /// their order.
    pub(crate) fn take_remote(&mut self) -> impl Iterator<Item = R::Message> + use<L, R> {
        let mut far = self.far.take();
        from_fn(move || far.as_mut()?.take_unbegun())
    }

    /// Returns the next message of this node in this batch, which begins, where it lies: each move
    /// of it costs. It lies there until the last one has begun: take out of it what is dropped
    /// before.
    #[inline]
    pub(crate) fn begin_local(&mut self) -> Option<&mut L> {
        self.turn = self.turn.checked_sub(1)?;
        let next = self.local.get_mut(self.begun as usize)?;
        self.begun += 1;
        Some(next)
    }

    /// Takes out the next message of other nodes in this batch if that needs no look at anything:
    /// as [`take_far`](Self::take_far) does, mostly.
    #[inline]
    pub(crate) fn take_tell(&mut self) -> Option<R::Message> {
        self.far.as_mut()?.take_tell()
    }

    /// Takes out the next message of other nodes in this batch to begin. A message that cannot be
    /// begun is held back (MB-8); the waker of `cx` is woken when that changes.
    #[inline]
    pub(crate) fn take_far(&mut self, cx: &mut Context<'_>) -> Option<R::Message> {
        self.far.as_mut()?.take(cx)
    }

    /// Looks at what is held back. Returns true if some of it can be begun; if not, the waker of
    /// `cx` is woken when that changes.
    #[inline]
    pub(super) fn release(&mut self, cx: &mut Context<'_>) -> bool {
        self.far.as_mut().is_some_and(|far| far.release(cx))
    }

    /// Returns true if what came from this peer among the first `came` items of the intake is
    /// begun.
    pub(super) fn has_begun(&self, peer: usize, came: u64) -> bool {
        self.far.as_ref().map_or(came == 0, |far| far.has_begun(peer, came))
    }
}

impl<R> Default for Far<R> {
    fn default() -> Self {
        Far {
            remote: VecDeque::new(),
            left: 0,
            turn: 0,
            held: VecDeque::new(),
            is_fresh_first: false,
        }
    }
}

impl<R: Remote> Held<R> {
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

impl<R: Remote> Far<R> {
    /// Returns true if something is held back.
    pub(super) fn holds_back(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns when the first of what is held back is released, whatever room its link has.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let first = |held: &Held<R>| held.first().and_then(Remote::deadline);
        self.held.iter().filter_map(first).min()
    }

    fn has_begun(&self, peer: usize, came: u64) -> bool {
        let before = came.saturating_sub(self.batch_begins_at());
        let mut batch = self.remote.iter().take(before as usize);
        let is_held = |held: &Held<R>| {
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
            // Mostly.
            let first = self.remote.front().filter(|_| self.turn > 0)?;
            if first.poll_begin(cx).is_ready() {
                self.turn -= 1;
                return take_first(&mut self.remote);
            }
            self.hold_first();
        }
        self.take_with_held(cx)
    }

    /// Returns how many items came before the first one of the batch.
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
                self.held.push_back(Held { peer, messages, is_released: false });
            }
        }
    }

    #[cold]
    fn take_with_held(&mut self, cx: &mut Context<'_>) -> Option<R::Message> {
        if self.turn == 0 {
            return None;
        }
        // In turn, from batch to batch: what was released, and what came since, of other links.
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

    /// Takes a message of a link that was released, one of each in turn, and as many as of other
    /// messages before the next look at both intakes (MB-5).
    fn take_released(&mut self, cx: &mut Context<'_>) -> Option<R::Message> {
        if self.turn == 0 {
            return None;
        }
        for _ in 0..self.held.len() {
            let mut held = self.held.pop_front()?;
            let first = held.first().filter(|_| held.is_released);
            // Each message is looked at again: the one before it may have taken the room.
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

/// Takes out the first message of the first of `all`.
#[inline]
fn take_first<R: Remote>(all: &mut VecDeque<R>) -> Option<R::Message> {
    let first = all.front_mut()?;
    let is_last = first.count() <= 1;
    let message = first.take_first();
    if is_last {
        drop(all.pop_front());
    }
    message
}
