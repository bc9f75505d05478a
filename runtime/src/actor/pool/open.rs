//! Counts open things, so that one task can wait until there are none.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::Mutex;

/// A count of open things, by their keys. Clones are the same count.
pub(super) struct Open<K>(Arc<Mutex<State<K>>>);

struct State<K> {
    /// The number of open things of each key; none is 0.
    counts: BTreeMap<K, usize>,
    /// Wakes the task that waits until nothing is open.
    waiting: Option<Waker>,
}

/// A thing that is open until this is dropped.
pub(super) struct OpenOne<K: Ord> {
    of: Open<K>,
    key: K,
}

impl<K: Ord + Copy> Open<K> {
    pub(super) fn new() -> Self {
        Open(Arc::new(Mutex::new(State { counts: BTreeMap::new(), waiting: None })))
    }

    pub(super) fn begin(&self, key: K) -> OpenOne<K> {
        *self.0.lock().counts.entry(key).or_insert(0) += 1;
        OpenOne { of: self.clone(), key }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().counts.is_empty()
    }

    /// Returns the keys of what is open.
    pub(super) fn keys(&self) -> Vec<K> {
        self.0.lock().counts.keys().copied().collect()
    }

    /// Waits until nothing is open. One task waits at a time.
    pub(super) async fn none(&self) {
        poll_fn(|cx| {
            let mut state = self.0.lock();
            let old = state.waiting.replace(cx.waker().clone());
            let is_none = state.counts.is_empty();
            drop(state);
            drop(old);
            if is_none { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl<K: Ord> Drop for OpenOne<K> {
    fn drop(&mut self) {
        let mut state = self.of.0.lock();
        let Some(count) = state.counts.get_mut(&self.key) else { return };
        *count -= 1;
        if *count == 0 {
            state.counts.remove(&self.key);
        }
        let waiting = state.waiting.take();
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl<K> Clone for Open<K> {
    fn clone(&self) -> Self {
        Open(self.0.clone())
    }
}
