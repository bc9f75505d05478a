//! One intake of a mailbox, which knows roughly how old its messages are.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::limits;

/// Messages, first in first out. One of them is marked with a time, so that the clock is read once
/// a batch and not once a message, and not at all for one that is taken at once: the oldest has
/// waited at least since the mark. Several messages
/// may be one item.
pub(super) struct Queue<T> {
    messages: VecDeque<T>,
    /// Items that lie in the hand already, and wait as before.
    handed: usize,
    /// How many messages all those are.
    len: usize,
    /// Items that ever left.
    left: u64,
    mark: Option<Mark>,
}

struct Mark {
    /// How many items came before the marked one.
    number: u64,
    /// A time at which it was there.
    since: Instant,
}

impl<T> Queue<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns how many items ever left.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Returns how many items ever came.
    pub(super) fn came(&self) -> u64 {
        self.left + (self.handed + self.messages.len()) as u64
    }

    /// Puts a message at the end. `is_late` says that it is not taken at once: the task is busy.
    #[inline]
    pub(super) fn push(&mut self, message: T, is_late: bool) {
        self.messages.push_back(message);
        self.len += 1;
        if is_late && self.mark.is_none() {
            self.mark_last();
        }
    }

    /// Puts items at the end, each of so many messages as `count` says.
    pub(super) fn extend(&mut self, items: impl Iterator<Item = T>, count: impl Fn(&T) -> usize) {
        for item in items {
            self.len += count(&item);
            self.messages.push_back(item);
        }
        if self.mark.is_none() && !self.messages.is_empty() {
            self.mark_last();
        }
    }

    /// Lets up to `most` messages, each an item of its own, leave: the first ones in `hand`.
    /// Returns how many those are. All others wait as before, though an empty hand gets every one
    /// of them: none is moved by itself.
    pub(super) fn hand_over(&mut self, most: usize, hand: &mut VecDeque<T>) -> usize {
        if hand.is_empty() {
            std::mem::swap(&mut self.messages, hand);
            self.handed = hand.len();
        }
        let leaving = self.handed.min(most);
        self.handed -= leaving;
        self.len -= leaving;
        self.left += leaving as u64;
        self.mark_anew();
        leaving
    }

    /// Moves all to `hand`, which is to begin none of them.
    pub(super) fn empty(&mut self, hand: &mut VecDeque<T>) {
        self.left = self.came();
        hand.append(&mut self.messages);
        (self.len, self.handed, self.mark) = (0, 0, None);
    }

    /// Moves up to `most` messages to `out`, and what else the last of their items has; `count` is
    /// as in [`extend`](Self::extend).
    pub(super) fn take(&mut self, most: usize, out: &mut VecDeque<T>, count: impl Fn(&T) -> usize) {
        let mut taken = 0;
        while taken < most
            && let Some(item) = self.messages.pop_front()
        {
            taken += count(&item);
            self.left += 1;
            out.push_back(item);
        }
        self.len -= taken;
        self.mark_anew();
    }

    /// How long the oldest has waited, at least; `None` when there is none. One that is not marked
    /// is, now.
    pub(super) fn oldest(&mut self) -> Option<Duration> {
        if self.mark.is_none() && self.len > 0 {
            self.mark_last();
        }
        self.mark.as_ref().map(|mark| mark.since.elapsed())
    }

    /// Gives back memory that only a burst needed. To be called when it is empty.
    #[inline]
    pub(super) fn shrink(&mut self) {
        shrink(&mut self.messages);
    }

    /// Marks the last one when the marked one has left.
    fn mark_anew(&mut self) {
        if self.mark.as_ref().is_some_and(|mark| mark.number < self.left) {
            self.mark = None;
            if self.len > 0 {
                self.mark_last();
            }
        }
    }

    fn mark_last(&mut self) {
        let number = self.came() - 1;
        self.mark = Some(Mark { number, since: Instant::now() });
    }
}

/// Gives back the memory of an empty queue that only a burst needed.
#[inline]
pub(super) fn shrink<T>(empty: &mut VecDeque<T>) {
    if empty.capacity() > limits::QUEUE_KEPT_MESSAGES {
        *empty = VecDeque::new();
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue { messages: VecDeque::new(), handed: 0, len: 0, left: 0, mark: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The age is never more than the truth, and grows as long as the oldest stays.
    #[tokio::test(start_paused = true)]
    async fn the_age_of_the_oldest_is_a_lower_bound() {
        let second = Duration::from_secs(1);
        let (mut queue, mut out) = (Queue::default(), VecDeque::new());
        assert_eq!(queue.oldest(), None);
        for number in 0..4 {
            queue.push(number, true);
            tokio::time::advance(second).await;
        }
        assert_eq!(queue.oldest(), Some(4 * second), "the first is marked");
        queue.take(1, &mut out, |_| 1);
        // The second has waited for 3 s; the fourth is marked now.
        assert_eq!(queue.oldest(), Some(Duration::ZERO));
        tokio::time::advance(second).await;
        queue.take(2, &mut out, |_| 1);
        assert_eq!(queue.oldest(), Some(second));
        queue.take(9, &mut out, |_| 1);
        assert_eq!((queue.oldest(), queue.len()), (None, 0));
        assert_eq!(out, [0, 1, 2, 3]);
    }

    /// A message in the hand that is not to begin yet waits as before: it counts, and grows older.
    #[tokio::test(start_paused = true)]
    async fn what_was_handed_over_waits_until_it_leaves() {
        let second = Duration::from_secs(1);
        let (mut queue, mut hand) = (Queue::default(), VecDeque::new());
        (0..5).for_each(|number| queue.push(number, true));
        tokio::time::advance(second).await;
        assert_eq!((queue.hand_over(2, &mut hand), hand.len()), (2, 5));
        assert_eq!((queue.len(), queue.left(), queue.came()), (3, 2, 5));
        assert_eq!(queue.oldest(), Some(Duration::ZERO), "the last one is marked anew");
        queue.push(5, true);
        tokio::time::advance(second).await;
        drop(hand.drain(..2));
        assert_eq!((queue.hand_over(9, &mut hand), queue.len()), (3, 1));
        assert_eq!((queue.oldest(), queue.came()), (Some(Duration::ZERO), 6));
        queue.empty(&mut hand);
        assert_eq!((hand, queue.len(), queue.left()), ([2, 3, 4, 5].into(), 0, 6));
        assert_eq!(queue.oldest(), None);
    }
}
