//! The deadlines of a node's waiting asks, and of tells with a time-out: one table and one timer
//! for all of them.
//!
//! An ask touches the table only when it has to wait, and leaves it when it ends. Most leave long
//! before their deadline, so only what is due soon is kept in order: what is due later lies
//! unordered, and is put in order when its time comes near. A task on the
//! node's runtime sleeps until the earliest deadline and wakes the asks that are due; so an ask may
//! be polled anywhere, also outside tokio. When that task ends, with its runtime, every ask that
//! waits is woken and told.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use slab::Slab;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

/// How far ahead the table is in order.
const AHEAD: Duration = Duration::from_millis(500);
/// Most asks that are woken under one turn of the lock.
const WOKEN_AT_ONCE: usize = 64;

/// The deadlines of a node's waiting asks, and of tells with a time-out. Owned by the node; its
/// references lead sends to it.
pub struct Deadlines {
    table: Arc<Table>,
    timer: AbortHandle,
    runtime: Handle,
    ask_timeout: Duration,
}

/// The place of one waiting ask in the table. The ask gives it to [`Deadlines::cancel`] when it
/// ends before its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    deadline: Instant,
    number: u64,
    /// Where it lies among the late ones, as long as it does.
    at: usize,
}

/// Why an ask waits no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expired {
    /// Its deadline has passed.
    Deadline,
    /// The node's runtime is gone, and with it all that could answer.
    RuntimeGone,
}

/// The wait of one task for the earliest of several deadlines, which may change. It leaves the
/// table when it is dropped.
pub(crate) struct Alarm<D: AsRef<Deadlines>> {
    deadlines: D,
    /// In a box: mostly there is none.
    set: Option<Box<Key>>,
}

impl<D: AsRef<Deadlines>> Alarm<D> {
    pub(crate) fn new(deadlines: D) -> Self {
        Alarm { deadlines, set: None }
    }

    /// Waits for `deadline`, in place of an earlier one; for ever, if there is none or no timer any
    /// more.
    pub(crate) fn poll(&mut self, deadline: Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        if self.set.as_ref().map(|set| set.deadline) != deadline {
            self.cancel();
        }
        let Some(deadline) = deadline else { return Poll::Pending };
        let mut key = self.set.as_deref().copied();
        let expired = self.deadlines.as_ref().poll(&mut key, deadline, cx);
        match (key, &mut self.set) {
            (None, set) => *set = None,
            (Some(key), set @ None) => *set = Some(Box::new(key)),
            (Some(_), Some(_)) => {}
        }
        if expired == Poll::Ready(Expired::Deadline) { Poll::Ready(()) } else { Poll::Pending }
    }

    fn cancel(&mut self) {
        if let Some(key) = self.set.take() {
            self.deadlines.as_ref().cancel(*key);
        }
    }
}

impl<D: AsRef<Deadlines>> Drop for Alarm<D> {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl AsRef<Deadlines> for Deadlines {
    fn as_ref(&self) -> &Deadlines {
        self
    }
}

struct Table {
    state: Mutex<State>,
    /// Notified when a deadline is earlier than what the timer sleeps for.
    earlier: Notify,
}

/// No waker is woken or dropped under the lock.
struct State {
    /// All that are due before `ahead`, and maybe others, ordered by deadline and then by arrival.
    near: BTreeMap<Key, Waker>,
    /// Due at `ahead` or later, in no order.
    late: Slab<(Key, Waker)>,
    ahead: Instant,
    next: u64,
    /// When the timer looks next; `None` when it waits to be notified.
    look: Option<Instant>,
    /// The timer has ended.
    ended: bool,
}

impl Deadlines {
    /// Starts the timer on `runtime`; it ends when this is dropped. `ask_timeout` is how long an
    /// ask waits that does not say otherwise.
    pub(crate) fn start(runtime: &Handle, ask_timeout: Duration) -> Self {
        let table = Arc::new(Table { state: Mutex::new(State::new()), earlier: Notify::new() });
        // Made before its task: a runtime that is shutting down drops that unpolled.
        let timer = Timer(table.clone());
        let task = runtime.spawn(async move { timer.run().await });
        Deadlines { table, timer: task.abort_handle(), runtime: runtime.clone(), ask_timeout }
    }

    /// Returns how long an ask waits that does not say otherwise.
    pub(crate) fn ask_timeout(&self) -> Duration {
        self.ask_timeout
    }

    /// Returns the runtime of its node, which keeps the time.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
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
            let Some(kept) = state.get_mut(&known) else {
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
        let (place, is_earlier) = state.insert(deadline, waker.clone());
        drop(state);
        *key = Some(place);
        if is_earlier {
            self.table.earlier.notify_one();
        }
        Poll::Pending
    }

    /// Gives up a place in the table.
    pub(crate) fn cancel(&self, key: Key) {
        let waker = self.table.state.lock().remove(&key);
        drop(waker);
    }
}

impl Drop for Deadlines {
    fn drop(&mut self) {
        self.timer.abort();
    }
}

impl State {
    fn new() -> Self {
        State {
            near: BTreeMap::new(),
            late: Slab::new(),
            ahead: Instant::now(),
            next: 0,
            look: None,
            ended: false,
        }
    }

    /// Returns the place, and whether the timer has to be told.
    fn insert(&mut self, deadline: Instant, waker: Waker) -> (Key, bool) {
        let number = self.next;
        self.next += 1;
        let look = if deadline < self.ahead { deadline } else { self.ahead };
        let key = if deadline < self.ahead {
            let key = Key { deadline, number, at: usize::MAX };
            self.near.insert(key, waker);
            key
        } else {
            let key = Key { deadline, number, at: self.late.vacant_key() };
            self.late.insert((key, waker));
            key
        };
        let is_earlier = self.look.is_none_or(|before| look < before);
        if is_earlier {
            self.look = Some(look);
        }
        (key, is_earlier)
    }

    fn get_mut(&mut self, key: &Key) -> Option<&mut Waker> {
        match self.late.get_mut(key.at) {
            Some((late, waker)) if late == key => Some(waker),
            _ => self.near.get_mut(key),
        }
    }

    fn remove(&mut self, key: &Key) -> Option<Waker> {
        if self.late.get(key.at).is_some_and(|(late, _)| late == key) {
            return Some(self.late.remove(key.at).1);
        }
        self.near.remove(key)
    }

    /// Puts in order what is due within [`AHEAD`] of `now`, and says when to look again.
    fn look_ahead(&mut self, now: Instant) {
        if self.ahead <= now {
            self.ahead = now + AHEAD;
            let State { near, late, ahead, .. } = self;
            late.retain(|_, (key, waker)| {
                let is_late = key.deadline >= *ahead;
                if !is_late {
                    near.insert(*key, std::mem::replace(waker, Waker::noop().clone()));
                }
                is_late
            });
        }
        let first = self.near.first_key_value().map(|(key, _)| key.deadline);
        let ahead = (!self.late.is_empty()).then_some(self.ahead);
        self.look = first.into_iter().chain(ahead).min();
    }

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
            state.look_ahead(now);
            while due.len() < WOKEN_AT_ONCE
                && let Some(first) = state.near.first_entry()
                && first.key().deadline <= now
            {
                due.push(first.remove());
            }
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
        let (near, late) = (std::mem::take(&mut state.near), std::mem::take(&mut state.late));
        drop(state);
        near.into_values().for_each(Waker::wake);
        late.into_iter().for_each(|(_, (_, waker))| waker.wake());
    }
}
