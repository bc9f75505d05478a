//! One intake of a mailbox, which knows roughly how old its messages are.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::limits;

/// Messages, first in first out, in a `B`.
#[derive(Default)]
#[repr(C)]
pub(super) struct Queue<B> {
    items: B,
    pub(super) count: Count,
}

/// How many messages there are in a queue, and how old they are. One of them is marked with a time,
/// so that the clock is read once a batch and not once a message, and not at all for one that is
/// taken at once: the oldest has waited at least since the mark. Several messages may be one item.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Count {
    /// Items that ever came.
    came: u64,
    /// How many messages wait, in items or in the hand.
    len: u32,
    mark: Option<Mark>,
}

/// Messages of this node, each an item. They leave all at once, into the actor's hand, and those
/// that are not to begin yet wait there as before; so none is moved by itself, and the first one
/// always lies in the same place.
pub(super) type Local<T> = Queue<Vec<T>>;

/// Messages of other nodes.
pub(super) type Far<T> = Queue<VecDeque<T>>;

struct Mark {
    /// How many items came before the marked one.
    number: u64,
    /// A time at which it was there.
    since: Instant,
}

impl Count {
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns how many items ever came.
    pub(super) fn came(&self) -> u64 {
        self.came
    }

    /// How long the oldest has waited, at least; `None` when there is none. One that is not marked
    /// is, now.
    pub(super) fn oldest(&mut self) -> Option<Duration> {
        if self.mark.is_none() && self.len > 0 {
            self.mark_last();
        }
        self.mark.as_ref().map(|mark| mark.since.elapsed())
    }

    /// Counts a message that was put at the end. `is_late` says that it is not taken at once: the
    /// task is busy.
    #[inline]
    pub(super) fn add(&mut self, is_late: bool) {
        self.len += 1;
        self.came += 1;
        if is_late && self.mark.is_none() {
            self.mark_last();
        }
    }

    /// Marks the last one when the marked one is one of the first `left`, which have left.
    #[inline]
    fn mark_anew(&mut self, left: u64) {
        if self.mark.as_ref().is_some_and(|mark| mark.number < left) {
            self.mark = None;
            if self.len > 0 {
                self.mark_last();
            }
        }
    }

    #[cold]
    fn mark_last(&mut self) {
        self.mark = Some(Mark { number: self.came - 1, since: Instant::now() });
    }
}

impl<T> Local<T> {
    /// Returns how many ever left.
    pub(super) fn left(&self) -> u64 {
        self.count.came - u64::from(self.count.len)
    }

    /// Puts a message at the end. `is_late` is as in [`Count::add`].
    #[inline]
    pub(super) fn push(&mut self, message: T, is_late: bool) {
        self.items.push(message);
        self.count.add(is_late);
    }

    /// Makes memory for one message more.
    #[inline]
    pub(super) fn make_room(&mut self) {
        self.items.reserve(1);
    }

    /// Puts a message at the end, which is to be [counted](Count::add). Nothing in it can panic, so
    /// no sender has code that drops a message which it was about to put.
    ///
    /// # Safety
    /// [Room was made](Self::make_room) for it, and is not filled.
    #[inline(always)]
    #[allow(unsafe_code, reason = "writes the message where it is to lie")]
    pub(super) unsafe fn put(&mut self, message: T) {
        let len = self.items.len();
        debug_assert!(len < self.items.capacity(), "room was made (MB-10)");
        // SAFETY: the caller has made room (MB-10), so the place behind the last message is the
        // vector's.
        let place = unsafe { self.items.as_mut_ptr().add(len) };
        // SAFETY: as above, and no message lies there.
        unsafe { place.write(message) };
        // SAFETY: it is written, and those before it are.
        unsafe { self.items.set_len(len + 1) };
    }

    /// Lets up to `most` messages leave: the first ones in `hand`. Returns how many those are. All
    /// others wait as before, though an empty hand gets every one of them.
    #[inline]
    pub(super) fn hand_over(&mut self, most: u32, hand: &mut Vec<T>) -> u32 {
        if hand.is_empty() {
            std::mem::swap(&mut self.items, hand);
        }
        let leaving = (self.count.len - self.items.len() as u32).min(most);
        self.count.len -= leaving;
        self.count.mark_anew(self.left());
        leaving
    }

    /// Moves all to `hand`, which is to begin none of them.
    pub(super) fn empty(&mut self, hand: &mut Vec<T>) {
        hand.append(&mut self.items);
        (self.count.len, self.count.mark) = (0, None);
    }

    /// Notes that it is empty, and the hand too, and that their actor waits: the memory that was
    /// used last, which a processor has at hand, is for the next message, and what only a burst
    /// needed is given back.
    #[inline]
    pub(super) fn rest(&mut self, hand: &mut Vec<T>) {
        std::mem::swap(&mut self.items, hand);
        for empty in [&mut self.items, hand] {
            if empty.capacity() > limits::QUEUE_KEPT_MESSAGES {
                give_back(empty);
            }
        }
    }
}

#[cold]
fn give_back<T>(empty: &mut Vec<T>) {
    *empty = Vec::new();
}

impl<T> Far<T> {
    /// Returns how many items ever left.
    pub(super) fn left(&self) -> u64 {
        self.count.came - self.items.len() as u64
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.items.capacity()
    }

    /// Notes that it is empty, and the hand too, and that their actor waits: what only a burst
    /// needed is given back.
    pub(super) fn rest(&mut self, hand: &mut VecDeque<T>) {
        for empty in [&mut self.items, hand] {
            if empty.capacity() > limits::QUEUE_KEPT_MESSAGES {
                *empty = VecDeque::new();
            }
        }
    }

    /// Puts items at the end, each of so many messages as `count` says.
    pub(super) fn extend(&mut self, items: impl Iterator<Item = T>, count: impl Fn(&T) -> usize) {
        for item in items {
            self.count.len += count(&item) as u32;
            self.count.came += 1;
            self.items.push_back(item);
        }
        if self.count.mark.is_none() && !self.items.is_empty() {
            self.count.mark_last();
        }
    }

    /// Moves up to `most` messages to `out`, and what else the last of their items has; `count` is
    /// as in [`extend`](Self::extend).
    pub(super) fn take(&mut self, most: usize, out: &mut VecDeque<T>, count: impl Fn(&T) -> usize) {
        let mut taken = 0;
        while taken < most
            && let Some(item) = self.items.pop_front()
        {
            taken += count(&item);
            out.push_back(item);
        }
        self.count.len -= taken as u32;
        self.count.mark_anew(self.left());
    }

    /// Moves all to `out`.
    pub(super) fn empty(&mut self, out: &mut VecDeque<T>) {
        out.append(&mut self.items);
        (self.count.len, self.count.mark) = (0, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The age is never more than the truth, and grows as long as the oldest stays.
    #[tokio::test(start_paused = true)]
    async fn the_age_of_the_oldest_is_a_lower_bound() {
        let second = Duration::from_secs(1);
        let (mut queue, mut out) = (Far::default(), VecDeque::new());
        assert_eq!(queue.count.oldest(), None);
        for number in 0..4 {
            queue.extend([number].into_iter(), |_| 1);
            tokio::time::advance(second).await;
        }
        assert_eq!(queue.count.oldest(), Some(4 * second), "the first is marked");
        queue.take(1, &mut out, |_| 1);
        // The second has waited for 3 s; the fourth is marked now.
        assert_eq!(queue.count.oldest(), Some(Duration::ZERO));
        tokio::time::advance(second).await;
        queue.take(2, &mut out, |_| 1);
        assert_eq!(queue.count.oldest(), Some(second));
        queue.take(9, &mut out, |_| 1);
        assert_eq!((queue.count.oldest(), queue.count.len()), (None, 0));
        assert_eq!(out, [0, 1, 2, 3]);
    }

    /// A message in the hand that is not to begin yet waits as before: it counts, and grows older.
    #[tokio::test(start_paused = true)]
    async fn what_was_handed_over_waits_until_it_leaves() {
        let second = Duration::from_secs(1);
        let (mut queue, mut hand) = (Local::default(), Vec::new());
        (0..5).for_each(|number| queue.push(number, true));
        tokio::time::advance(second).await;
        assert_eq!((queue.hand_over(2, &mut hand), hand.len()), (2, 5));
        assert_eq!((queue.count.len(), queue.left(), queue.count.came()), (3, 2, 5));
        assert_eq!(queue.count.oldest(), Some(Duration::ZERO), "the last one is marked anew");
        queue.push(5, true);
        tokio::time::advance(second).await;
        drop(hand.drain(..2));
        assert_eq!((queue.hand_over(9, &mut hand), queue.count.len()), (3, 1));
        assert_eq!((queue.count.oldest(), queue.count.came()), (Some(Duration::ZERO), 6));
        queue.empty(&mut hand);
        assert_eq!((hand, queue.count.len(), queue.left()), (vec![2, 3, 4, 5], 0, 6));
        assert_eq!(queue.count.oldest(), None);
    }
}
