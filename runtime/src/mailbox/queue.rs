//! One intake of a mailbox, which knows roughly how old its messages are.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Messages, first in first out. One of them is marked with a time, so that the clock is read once
/// a batch and not once a message: the oldest has waited at least since the mark.
pub(super) struct Queue<T> {
    messages: VecDeque<T>,
    /// Messages that ever left.
    left: u64,
    mark: Option<Mark>,
}

struct Mark {
    /// How many messages came before the marked one.
    number: u64,
    /// A time at which it was there.
    since: Instant,
}

impl<T> Queue<T> {
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn push(&mut self, message: T) {
        self.messages.push_back(message);
        if self.mark.is_none() {
            self.mark_last();
        }
    }

    pub(super) fn extend(&mut self, messages: impl Iterator<Item = T>) {
        self.messages.extend(messages);
        if self.mark.is_none() && !self.messages.is_empty() {
            self.mark_last();
        }
    }

    /// Moves up to `most` messages to `out`.
    pub(super) fn take(&mut self, most: usize, out: &mut VecDeque<T>) {
        let count = most.min(self.messages.len());
        if count == self.messages.len() && out.is_empty() {
            // Mostly: then none is moved.
            std::mem::swap(&mut self.messages, out);
        } else {
            out.extend(self.messages.drain(..count));
        }
        self.left += count as u64;
        if self.mark.as_ref().is_some_and(|mark| mark.number < self.left) {
            self.mark = None;
            if !self.messages.is_empty() {
                self.mark_last();
            }
        }
    }

    /// How long the oldest has waited, at least; `None` when there is none.
    pub(super) fn oldest(&self) -> Option<Duration> {
        self.mark.as_ref().map(|mark| mark.since.elapsed())
    }

    fn mark_last(&mut self) {
        let number = self.left + self.messages.len() as u64 - 1;
        self.mark = Some(Mark { number, since: Instant::now() });
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue { messages: VecDeque::new(), left: 0, mark: None }
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
            queue.push(number);
            tokio::time::advance(second).await;
        }
        assert_eq!(queue.oldest(), Some(4 * second), "the first is marked");
        queue.take(1, &mut out);
        // The second has waited for 3 s; the fourth is marked now.
        assert_eq!(queue.oldest(), Some(Duration::ZERO));
        tokio::time::advance(second).await;
        queue.take(2, &mut out);
        assert_eq!(queue.oldest(), Some(second));
        queue.take(9, &mut out);
        assert_eq!((queue.oldest(), queue.len()), (None, 0));
        assert_eq!(out, [0, 1, 2, 3]);
    }
}
