//! The future events, by virtual time; events of one instant in the order they were added.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A queue of events by time.
#[derive(Debug)]
pub(super) struct Heap<E> {
    events: BinaryHeap<Reverse<Entry<E>>>,
    added: u64,
}

impl<E> Heap<E> {
    /// A queue with nothing in it.
    pub(super) fn new() -> Self {
        Heap { events: BinaryHeap::new(), added: 0 }
    }

    /// Adds an event for the instant `at`, in nanoseconds.
    pub(super) fn push(&mut self, at: u64, event: E) {
        self.events.push(Reverse(Entry { at, order: self.added, event }));
        self.added += 1;
    }

    /// When the next event happens.
    pub(super) fn next_at(&self) -> Option<u64> {
        self.events.peek().map(|Reverse(entry)| entry.at)
    }

    /// Takes the next event and its instant.
    pub(super) fn pop(&mut self) -> Option<(u64, E)> {
        self.events.pop().map(|Reverse(entry)| (entry.at, entry.event))
    }
}

#[derive(Debug)]
struct Entry<E> {
    at: u64,
    order: u64,
    event: E,
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_within_an_instant_in_the_order_they_were_added() {
        let mut heap = Heap::new();
        for (at, name) in [(5, 'd'), (1, 'a'), (5, 'e'), (1, 'b'), (2, 'c'), (5, 'f')] {
            heap.push(at, name);
        }
        assert_eq!(heap.next_at(), Some(1));
        let order: String = std::iter::from_fn(|| heap.pop()).map(|(_, name)| name).collect();
        assert_eq!(order, "abcdef");
        assert_eq!(heap.next_at(), None);
    }
}
