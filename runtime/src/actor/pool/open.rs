//! Counts open things, so that one task can wait until there are none.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::Mutex;

/// A count of open things, by their keys; those of one key may share a `V`. Clones are the same
/// count.
pub(super) struct Open<K, V = ()>(Arc<Mutex<State<K, V>>>);

struct State<K, V> {
    /// The number of open things of each key, none of them 0, and what they share, if that was
    /// asked for.
    open: BTreeMap<K, (usize, Option<V>)>,
    /// Wakes the task that waits until nothing is open.
    waiting: Option<Waker>,
}

/// A thing that is open until this is dropped.
pub(super) struct OpenOne<K: Ord, V = ()> {
    of: Open<K, V>,
    key: K,
}

impl<K: Ord + Copy, V: Clone + Default> Open<K, V> {
    pub(super) fn new() -> Self {
        Open(Arc::new(Mutex::new(State { open: BTreeMap::new(), waiting: None })))
    }

    pub(super) fn begin(&self, key: K) -> OpenOne<K, V> {
        self.0.lock().open.entry(key).or_insert((0, None)).0 += 1;
        OpenOne { of: self.clone(), key }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().open.is_empty()
    }

    /// Waits until nothing is open. One task waits at a time.
    pub(super) async fn none(&self) {
        poll_fn(|cx| {
            let mut state = self.0.lock();
            let old = state.waiting.replace(cx.waker().clone());
            let is_none = state.open.is_empty();
            drop(state);
            drop(old);
            if is_none { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl<K: Ord, V: Clone + Default> OpenOne<K, V> {
    /// Returns what the open things of its key share. It is forgotten with the last of them.
    pub(super) fn shared(&self) -> V {
        let mut state = self.of.0.lock();
        let open = state.open.get_mut(&self.key);
        open.map(|(_, shared)| shared.get_or_insert_default().clone()).unwrap_or_default()
    }
}

impl<K: Ord, V> Drop for OpenOne<K, V> {
    fn drop(&mut self) {
        let mut state = self.of.0.lock();
        let Some((count, _)) = state.open.get_mut(&self.key) else { return };
        *count -= 1;
        let last = if *count == 0 { state.open.remove(&self.key) } else { None };
        let waiting = state.waiting.take();
        drop(state);
        drop(last);
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl<K, V> Clone for Open<K, V> {
    fn clone(&self) -> Self {
        Open(self.0.clone())
    }
}
