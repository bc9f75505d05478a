//! The queues of a mailbox, which know the approximate age of their messages.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::limits;

/// A FIFO queue of messages, which are stored in a `B`.
#[derive(Default)]
#[repr(C)]
pub(super) struct Queue<B> {
    items: B,
    pub(super) count: QueueStats,
}

/// The number and age of the messages in a queue. At most one message is marked with a time, so the
/// clock is read at most once per batch, and not for a message that is taken at once. The oldest
/// message has waited at least since the mark. Several messages may be one item.
#[derive(Default)]
#[repr(C)]
pub(crate) struct QueueStats {
    /// Number of items that were ever added.
    came: u64,
    /// Number of messages that wait, here or prefetched but outside of the batch.
    len: u32,
    mark: Option<AgeMark>,
}

/// Messages of this node, one per item. The actor prefetches them all at once, and those outside of
/// the batch still count as waiting. So no message is moved separately, and an empty queue is
/// always filled from the start of its memory.
pub(super) type LocalQueue<T> = Queue<Vec<T>>;

/// Messages of other nodes.
pub(super) type RemoteQueue<T> = Queue<VecDeque<T>>;

struct AgeMark {
    /// Number of items that were added before the marked one.
    number: u64,
    /// A time at which the item was in the queue.
    since: Instant,
}

impl QueueStats {
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns the number of items that were ever added.
    pub(super) fn came(&self) -> u64 {
        self.came
    }

    /// Returns a lower bound of the oldest message's waiting time, or `None` without messages.
    /// Without a mark, this sets one.
    pub(super) fn oldest(&mut self) -> Option<Duration> {
        if self.mark.is_none() && self.len > 0 {
            self.mark_last();
        }
        self.mark.as_ref().map(|mark| mark.since.elapsed())
    }

    /// Counts an appended message. `is_late` means that it is not taken at once, because the task
    /// is busy.
    #[inline]
    pub(super) fn add(&mut self, is_late: bool) {
        self.len += 1;
        self.came += 1;
        if is_late && self.mark.is_none() {
            self.mark_last();
        }
    }

    /// Removes the mark if its item is among the first `left`, which have left the queue. Then
    /// marks the last item, if messages still wait.
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
        self.mark = Some(AgeMark { number: self.came - 1, since: Instant::now() });
    }
}

impl<T> LocalQueue<T> {
    /// Returns the number of messages that ever left.
    pub(super) fn left(&self) -> u64 {
        self.count.came - u64::from(self.count.len)
    }

    /// Appends a message. `is_late` is as in [`QueueStats::add`].
    #[inline]
    pub(super) fn push(&mut self, message: T, is_late: bool) {
        self.items.push(message);
        self.count.add(is_late);
    }

    /// Allocates memory for one more message.
    #[inline]
    pub(super) fn make_room(&mut self) {
        self.items.reserve(1);
    }

    /// Appends a message, which the caller must [count](QueueStats::add). It cannot panic, so a
    /// sender needs no code to drop the message in case of a panic.
    ///
    /// # Safety
    /// [Room was made](Self::make_room) for the message, and has not been filled.
    #[inline(always)]
    #[allow(unsafe_code, reason = "writes the message where it is to lie")]
    pub(super) unsafe fn put(&mut self, message: T) {
        let len = self.items.len();
        debug_assert!(len < self.items.capacity(), "room was made (MB-10)");
        // SAFETY: the caller has made room (MB-10), so the place behind the last message belongs to
        // the vector.
        let place = unsafe { self.items.as_mut_ptr().add(len) };
        // SAFETY: as above, and the place holds no message.
        unsafe { place.write(message) };
        // SAFETY: this message is written, and so are all before it.
        unsafe { self.items.set_len(len + 1) };
    }

    /// Begins a batch of up to `most` messages, the first ones in `hand`, and returns their number.
    /// If `hand` is empty, moves all messages there first. Messages outside of the batch still
    /// count as waiting.
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

    /// Moves all messages to `hand`. None of them may begin any more.
    pub(super) fn empty(&mut self, hand: &mut Vec<T>) {
        hand.append(&mut self.items);
        (self.count.len, self.count.mark) = (0, None);
    }

    /// Prepares this queue and `hand`, both empty, for a wait of their actor: the next message gets
    /// the memory that was used last, which is in the processor's cache, and memory that only a
    /// burst needed is freed.
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

impl<T> RemoteQueue<T> {
    /// Returns the number of items that ever left.
    pub(super) fn left(&self) -> u64 {
        self.count.came - self.items.len() as u64
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.items.capacity()
    }

    /// Prepares this queue and `hand`, both empty, for a wait of their actor: frees memory that
    /// only a burst needed.
    pub(super) fn rest(&mut self, hand: &mut VecDeque<T>) {
        for empty in [&mut self.items, hand] {
            if empty.capacity() > limits::QUEUE_KEPT_MESSAGES {
                *empty = VecDeque::new();
            }
        }
    }

    /// Appends items; `count` returns the number of messages in an item.
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

    /// Moves items to `out` until they have `most` messages or more, or no item is left. `count` is
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

    /// Moves all items to `out`.
    pub(super) fn empty(&mut self, out: &mut VecDeque<T>) {
        out.append(&mut self.items);
        (self.count.len, self.count.mark) = (0, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The age is a lower bound, and grows as long as the oldest message stays.
    #[tokio::test(start_paused = true)]
    async fn the_age_of_the_oldest_is_a_lower_bound() {
        let second = Duration::from_secs(1);
        let (mut queue, mut out) = (RemoteQueue::default(), VecDeque::new());
        assert_eq!(queue.count.oldest(), None);
        for number in 0..4 {
            queue.extend([number].into_iter(), |_| 1);
            tokio::time::advance(second).await;
        }
        assert_eq!(queue.count.oldest(), Some(4 * second), "the first is marked");
        queue.take(1, &mut out, |_| 1);
        // The second message has waited for 3 s; the fourth is marked now.
        assert_eq!(queue.count.oldest(), Some(Duration::ZERO));
        tokio::time::advance(second).await;
        queue.take(2, &mut out, |_| 1);
        assert_eq!(queue.count.oldest(), Some(second));
        queue.take(9, &mut out, |_| 1);
        assert_eq!((queue.count.oldest(), queue.count.len()), (None, 0));
        assert_eq!(out, [0, 1, 2, 3]);
    }

    /// A prefetched message outside of the batch still waits: it counts, and gets older.
    #[tokio::test(start_paused = true)]
    async fn what_was_handed_over_waits_until_it_leaves() {
        let second = Duration::from_secs(1);
        let (mut queue, mut hand) = (LocalQueue::default(), Vec::new());
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
