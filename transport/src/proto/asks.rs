//! Asks that have no answer yet: at the asker, and at the node that answers.
//!
//! An ask holds one slot at its asker from its commit until its answer arrives, even if the asker
//! has given up, and one at the other node from its arrival until its answer is written. So an
//! asker that counts its own slots never exceeds the other node's bound. Each ask that arrives is
//! answered once, if only by a code; a CANCEL changes the answer, not that there is one. An ask
//! that was cancelled before its handler began is never handled.

use std::time::Instant;

use crate::limits;
use crate::mutants::planted;
use crate::proto::error::Violation;

/// Asks of this side, by correlation; `W` is the waiter for the answer. A correlation names place
/// and generation, so that a late answer never meets another ask.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, Hash))]
pub(crate) struct PendingAsks<W> {
    slots: Vec<Pending<W>>,
    free: Vec<u32>,
    generation: u32,
}

#[derive(Debug)]
#[cfg_attr(test, derive(Clone, Hash))]
struct Pending<W> {
    /// 0 when the slot is free.
    generation: u32,
    /// `None` when the asker has given up.
    waiter: Option<W>,
    written: Written,
}

/// The part of an ask that was written into frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Written {
    Nothing,
    /// The rest follows, whatever its asker does; then the peer can be told that the asker gave up.
    Part,
    All,
}

impl<W> Default for PendingAsks<W> {
    fn default() -> Self {
        PendingAsks { slots: Vec::new(), free: Vec::new(), generation: 0 }
    }
}

impl<W> PendingAsks<W> {
    /// Takes a slot; gives the waiter back when there is none.
    pub(crate) fn insert(&mut self, waiter: W) -> Result<u64, W> {
        let key = match self.free.pop() {
            Some(key) => key as usize,
            None if self.slots.len() >= limits::PENDING_ASKS_MAX => return Err(waiter),
            None => {
                self.slots.push(Pending { generation: 0, waiter: None, written: Written::Nothing });
                self.slots.len() - 1
            }
        };
        self.generation = self.generation.wrapping_add(1).max(1);
        let generation = self.generation;
        let written = Written::Nothing;
        self.slots[key] = Pending { generation, waiter: Some(waiter), written };
        Ok(u64::from(generation) << 32 | key as u64)
    }

    /// Frees the slot of an ask that was answered, or will not be sent. Returns the waiter for the
    /// answer; `None` when there is none, or no such ask.
    pub(crate) fn answer(&mut self, correlation: u64) -> Option<W> {
        let slot = self.find(correlation)?;
        slot.generation = 0;
        let waiter = slot.waiter.take();
        self.free.push(correlation as u32);
        waiter
    }

    /// Records that an asker waits no more. Returns how much of its ask was written; `None` when it
    /// had its answer already.
    pub(crate) fn give_up(&mut self, correlation: u64) -> Option<Written> {
        let slot = self.find(correlation)?;
        slot.waiter = None;
        Some(slot.written)
    }

    /// Returns true if no ask is unanswered, including asks that were given up.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.len() == self.free.len()
    }

    /// Returns true if the asker still waits.
    pub(crate) fn is_wanted(&self, correlation: u64) -> bool {
        let slot = self.slots.get(correlation as u32 as usize);
        slot.is_some_and(|slot| slot.waiter.is_some()) || planted!(HandledAbandoned)
    }

    /// Records that a part of the ask was written.
    pub(crate) fn leaves(&mut self, correlation: u64) {
        if let Some(slot) = self.find(correlation) {
            slot.written = Written::Part;
        }
    }

    /// Records that the ask's last record was written. Returns whether its asker has given up
    /// meanwhile, so that the other node is to be told.
    pub(crate) fn sent(&mut self, correlation: u64) -> bool {
        let Some(slot) = self.find(correlation) else { return false };
        slot.written = Written::All;
        slot.waiter.is_none()
    }

    /// Takes everything out, because the link has ended: each waiter, and whether its ask may have
    /// arrived.
    pub(crate) fn end(&mut self) -> impl Iterator<Item = (W, bool)> {
        self.free.clear();
        let arrived = |slot: &Pending<W>| slot.written == Written::All;
        let slots = std::mem::take(&mut self.slots).into_iter();
        slots.filter_map(move |slot| {
            let arrived = arrived(&slot);
            Some((slot.waiter?, arrived))
        })
    }

    fn find(&mut self, correlation: u64) -> Option<&mut Pending<W>> {
        let generation = (correlation >> 32) as u32;
        let slot = self.slots.get_mut(correlation as u32 as usize)?;
        (generation != 0 && slot.generation == generation).then_some(slot)
    }
}

/// Asks of the peer that were delivered and whose answers are not written yet, by the place that
/// their correlation names.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, Hash))]
pub(crate) struct OpenAsks {
    slots: Vec<Open>,
    open: usize,
    /// Watched asks whose askers have given up since the last look.
    gone: Vec<u64>,
}

#[derive(Debug, Clone, Copy, Default)]
#[cfg_attr(test, derive(Hash))]
struct Open {
    /// 0 when the slot is free.
    correlation: u64,
    /// Time at which the asker gives up.
    deadline: Option<Instant>,
    cancelled: bool,
    /// Its answer waits to be written.
    answered: bool,
    /// A task waits for the asker to give up.
    watched: bool,
}

impl OpenAsks {
    /// Returns the time at which the asker of an open ask gives up, if it ever does.
    pub(crate) fn deadline(&self, correlation: u64) -> Option<Instant> {
        let open = self.slots.get(correlation as u32 as usize)?;
        open.deadline.filter(|_| open.correlation == correlation)
    }

    /// Records an ask that arrived.
    ///
    /// # Errors
    /// [`Violation::Flood`] when the peer has more open than it may, or two under one number.
    pub(crate) fn open(
        &mut self,
        correlation: u64,
        deadline: Option<Instant>,
    ) -> Result<(), Violation> {
        let key = correlation as u32 as usize;
        if planted!(EndlessReplies) {
            return Ok(());
        }
        if key >= limits::PENDING_ASKS_MAX {
            return Err(Violation::Flood);
        }
        if key >= self.slots.len() {
            self.slots.resize(key + 1, Open::default());
        }
        if self.slots[key].correlation != 0 {
            return Err(Violation::Flood);
        }
        self.slots[key] = Open { correlation, deadline, ..Open::default() };
        self.open += 1;
        Ok(())
    }

    /// Records that the asker waits no more. An ask that is not open was answered already.
    pub(crate) fn cancel(&mut self, correlation: u64) {
        if let Some(open) = self.find(correlation) {
            open.cancelled = true;
            if std::mem::take(&mut open.watched) {
                self.gone.push(correlation);
            }
        }
    }

    /// Makes [`take_gone`](Self::take_gone) name this ask when its asker gives up. Returns false if
    /// it already has, or if there is no such ask.
    pub(crate) fn watch(&mut self, correlation: u64) -> bool {
        let Some(open) = self.find(correlation) else { return false };
        open.watched = !open.cancelled;
        open.watched
    }

    /// Takes out the watched asks whose askers have given up since the last call.
    pub(crate) fn take_gone(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.gone)
    }

    /// Returns true if the asker still waits at this time, as far as this side knows.
    pub(crate) fn is_wanted(&mut self, correlation: u64, now: Instant) -> bool {
        let wanted = |open: &mut Open| !open.cancelled && open.deadline.is_none_or(|end| end > now);
        self.find(correlation).is_none_or(wanted) || planted!(HandledAbandoned)
    }

    /// Records that the ask is answered: the answer waits to be written.
    pub(crate) fn answer(&mut self, correlation: u64) {
        self.find(correlation).into_iter().for_each(|open| open.answered = true);
    }

    /// Returns true if the ask is not answered, and its asker still waits at this time, as far as
    /// this side knows.
    pub(crate) fn is_awaited(&mut self, correlation: u64, now: Instant) -> bool {
        self.find(correlation).is_some_and(|open| !open.answered)
            && self.is_wanted(correlation, now)
    }

    /// Returns true if the asker has taken the ask back.
    pub(crate) fn is_cancelled(&mut self, correlation: u64) -> bool {
        self.find(correlation).is_some_and(|open| open.cancelled) && !planted!(HandledAbandoned)
    }

    /// Frees the slot of an ask whose answer is being written.
    pub(crate) fn close(&mut self, correlation: u64) {
        if let Some(open) = self.find(correlation) {
            *open = Open::default();
            self.open -= 1;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open == 0
    }

    /// Returns how many are open.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.open
    }

    fn find(&mut self, correlation: u64) -> Option<&mut Open> {
        let open = self.slots.get_mut(correlation as u32 as usize)?;
        (correlation != 0 && open.correlation == correlation).then_some(open)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    // Promised in docs/SEMANTICS.md.
    #[test]
    fn a_slot_is_held_until_the_answer_whoever_gives_up() {
        let mut asks = PendingAsks::default();
        let first = asks.insert("first").unwrap();
        assert!(!asks.sent(first), "nobody gave it up");
        assert_eq!(asks.give_up(first), Some(Written::All));
        let second = asks.insert("second").unwrap();
        assert_ne!(first as u32, second as u32, "the place of the first is taken");
        assert_eq!(asks.answer(first), None, "answered, and nobody waits");
        let third = asks.insert("third").unwrap();
        assert_eq!(first as u32, third as u32, "and now it is free");
        assert_eq!(asks.answer(first), None, "a late answer meets no other ask");
        assert_eq!(asks.give_up(first), None);
        asks.leaves(second);
        assert_eq!(asks.give_up(third), Some(Written::Nothing));
        assert!(!asks.is_wanted(third) && asks.is_wanted(second));
        assert!(asks.sent(third), "it is to be cancelled");
        assert_eq!(asks.give_up(second), Some(Written::Part));
        assert!(asks.sent(second), "now the other node can be told");
        let fourth = asks.insert("fourth").unwrap();
        asks.sent(fourth);
        assert_eq!(asks.end().collect::<Vec<_>>(), [("fourth", true)]);
    }

    // Promised in docs/SEMANTICS.md.
    #[test]
    fn as_many_asks_are_pending_as_the_other_node_takes() {
        let (mut asks, mut open) = (PendingAsks::default(), OpenAsks::default());
        for _ in 0..limits::PENDING_ASKS_MAX {
            open.open(asks.insert(()).unwrap(), None).expect("an honest asker");
        }
        assert_eq!(asks.insert(()), Err(()));
        assert_eq!(
            open.open(1 << 32 | limits::PENDING_ASKS_MAX as u64, None),
            Err(Violation::Flood)
        );
        assert_eq!(open.open(7 << 32, None), Err(Violation::Flood), "its place is taken");
        assert_eq!(open.len(), limits::PENDING_ASKS_MAX);
    }

    // Promised in docs/SEMANTICS.md.
    #[test]
    fn a_cancelled_ask_is_not_wanted_and_still_closed_once() {
        let (mut open, now) = (OpenAsks::default(), crate::sync::some_moment());
        open.open(1 << 32, None).unwrap();
        assert!(open.is_wanted(1 << 32, now));
        open.cancel(2 << 32);
        assert!(open.is_wanted(1 << 32, now), "another one's");
        open.cancel(1 << 32);
        assert!(!open.is_wanted(1 << 32, now) && open.is_cancelled(1 << 32));
        assert!(open.take_gone().is_empty() && !open.watch(1 << 32), "gone before it is watched");
        open.close(1 << 32);
        open.close(1 << 32);
        assert_eq!(open.len(), 0);
        open.cancel(1 << 32);
        open.open(2 << 32, Some(now + Duration::from_secs(1))).unwrap();
        assert!(open.is_wanted(2 << 32, now));
        assert!(!open.is_wanted(2 << 32, now + Duration::from_secs(1)), "its time is over");
        assert!(open.watch(2 << 32));
        open.cancel(2 << 32);
        open.cancel(2 << 32);
        assert_eq!((open.take_gone(), open.take_gone()), (vec![2 << 32], vec![]));
    }
}
