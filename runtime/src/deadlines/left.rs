//! Entries of a deadline table that a thread keeps.

use std::sync::Arc;

use tokio::time::Instant;

use super::{DeadlineEntry, DeadlineTable, NativeSharedQueue, SharedQueue, TaskId};

/// Maximum number of entries that a thread keeps, and of those in one set.
pub(super) const LEFT_MAX: usize = 128;
const LEFT_IN_SET: usize = 8;

/// Entries that asks have left on a thread, for the next asks of the same tasks: a hash table of
/// sets, each with a few entries. They are cancelled when the thread ends.
pub(super) struct EntryCache<P: SharedQueue = NativeSharedQueue>(
    Vec<Option<Box<DeadlineEntry<P>>>>,
);

impl<P: SharedQueue> EntryCache<P> {
    pub(super) const fn new() -> Self {
        EntryCache(Vec::new())
    }

    /// Returns the set of a task; empty while nothing was kept.
    #[inline]
    fn set(&mut self, task: TaskId) -> &mut [Option<Box<DeadlineEntry<P>>>] {
        // Fibonacci hashing: allocators align tasks to various powers of two.
        let hash = (task.0 as u64 >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let set = (hash >> 32) as usize % (LEFT_MAX / LEFT_IN_SET);
        self.0.chunks_mut(LEFT_IN_SET).nth(set).unwrap_or_default()
    }

    /// Keeps an entry. If its set is full, returns the entry that it replaces there.
    pub(super) fn keep(&mut self, place: Box<DeadlineEntry<P>>) -> Option<Box<DeadlineEntry<P>>> {
        if self.0.is_empty() {
            self.0.resize_with(LEFT_MAX, || None);
        }
        let set = self.set(place.task);
        let at = set.iter().position(Option::is_none).unwrap_or(0);
        set[at].replace(place)
    }

    /// Takes out an entry of this task in `table` that is due no later than `deadline`. If it is
    /// due earlier, the task is woken and takes another entry.
    #[inline]
    pub(super) fn take(
        &mut self,
        table: &Arc<DeadlineTable<P>>,
        deadline: Instant,
        task: TaskId,
    ) -> Option<Box<DeadlineEntry<P>>> {
        let fits = |place: &mut Box<DeadlineEntry<P>>| {
            place.is_held_by(task)
                && place.key.deadline <= deadline
                && Arc::ptr_eq(&place.table, table)
        };
        self.set(task).iter_mut().find_map(|slot| slot.take_if(fits))
    }
}

impl<P: SharedQueue> Drop for EntryCache<P> {
    fn drop(&mut self) {
        self.0.drain(..).flatten().for_each(|place| place.cancel());
    }
}
