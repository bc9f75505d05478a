//! The deadlines of a node's waiting asks: one table and one timer for all of them.
//!
//! An ask touches the table only when it has to wait, and leaves it when it ends. A task on the
//! node's runtime sleeps until the earliest deadline and wakes the asks that are due; so an ask may
//! be polled anywhere, also outside tokio. When that task ends, with its runtime, every ask that
//! waits is woken and told.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

/// Most asks that are woken under one turn of the lock.
const WOKEN_AT_ONCE: usize = 64;

/// The deadlines of a node's waiting asks. Owned by the node; its references lead asks to it.
pub struct Deadlines {
    table: Arc<Table>,
    timer: AbortHandle,
}

/// The place of one waiting ask in the table. The ask gives it to [`Deadlines::cancel`] when it
/// ends before its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    deadline: Instant,
    number: u64,
}

/// Why an ask waits no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expired {
    /// Its deadline has passed.
    Deadline,
    /// The node's runtime is gone, and with it all that could answer.
    RuntimeGone,
}

struct Table {
    state: Mutex<State>,
    /// Notified when a deadline is earlier than what the timer sleeps for.
    earlier: Notify,
}

struct State {
    /// Ordered by deadline, then by arrival. No waker is woken or dropped under the lock.
    waiting: BTreeMap<Key, Waker>,
    next: u64,
    /// When the timer looks next; `None` when it waits to be notified.
    look: Option<Instant>,
    /// The timer has ended.
    ended: bool,
}

impl Deadlines {
    /// Starts the timer on `runtime`; it ends when this is dropped.
    pub(crate) fn start(runtime: &Handle) -> Self {
        let state = State { waiting: BTreeMap::new(), next: 0, look: None, ended: false };
        let table = Arc::new(Table { state: Mutex::new(state), earlier: Notify::new() });
        // Made before its task: a runtime that is shutting down drops that unpolled.
        let timer = Timer(table.clone());
        let task = runtime.spawn(async move { timer.run().await });
        Deadlines { table, timer: task.abort_handle() }
    }

    /// Waits for `deadline`. The first call, with `key` empty, takes a place in the table; each
    /// later one keeps the place and renews the waker. When this is ready the place is given up.
    pub(crate) fn poll(
        &self,
        key: &mut Option<Key>,
        deadline: Instant,
        cx: &mut Context<'_>,
    ) -> Poll<Expired> {
        let waker = cx.waker();
        let mut state = self.table.state.lock();
        if let Some(known) = *key {
            let Some(kept) = state.waiting.get_mut(&known) else {
                *key = None;
                return Poll::Ready(state.expired());
            };
            if !kept.will_wake(waker) {
                let old = std::mem::replace(kept, waker.clone());
                drop(state);
                drop(old);
            }
            return Poll::Pending;
        }
        if state.ended {
            return Poll::Ready(Expired::RuntimeGone);
        }
        let place = Key { deadline, number: state.next };
        state.next += 1;
        state.waiting.insert(place, waker.clone());
        let is_earlier = state.look.is_none_or(|look| deadline < look);
        if is_earlier {
            state.look = Some(deadline);
        }
        drop(state);
        *key = Some(place);
        if is_earlier {
            self.table.earlier.notify_one();
        }
        Poll::Pending
    }

    /// Gives up a place in the table.
    pub(crate) fn cancel(&self, key: Key) {
        let waker = self.table.state.lock().waiting.remove(&key);
        drop(waker);
    }
}

impl Drop for Deadlines {
    fn drop(&mut self) {
        self.timer.abort();
    }
}

impl State {
    fn expired(&self) -> Expired {
        if self.ended { Expired::RuntimeGone } else { Expired::Deadline }
    }
}

/// The task that wakes the asks that are due.
struct Timer(Arc<Table>);

impl Timer {
    async fn run(&self) {
        let mut due = Vec::new();
        loop {
            match self.wake_due(&mut due) {
                None => self.0.earlier.notified().await,
                Some(next) => tokio::select! {
                    () = sleep_until(next) => {}
                    () = self.0.earlier.notified() => {}
                },
            }
        }
    }

    /// Wakes all that are due. Returns the next deadline. `due` is empty between calls and kept for
    /// its memory.
    fn wake_due(&self, due: &mut Vec<Waker>) -> Option<Instant> {
        let now = Instant::now();
        loop {
            let mut state = self.0.state.lock();
            while due.len() < WOKEN_AT_ONCE
                && let Some(first) = state.waiting.first_entry()
                && first.key().deadline <= now
            {
                due.push(first.remove());
            }
            state.look = state.waiting.first_key_value().map(|(key, _)| key.deadline);
            if due.is_empty() {
                return state.look;
            }
            drop(state);
            due.drain(..).for_each(Waker::wake);
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.ended = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_values().for_each(Waker::wake);
    }
}
