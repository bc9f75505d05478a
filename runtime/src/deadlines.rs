//! The deadlines of a node's waiting asks, and of tells with a time-out, in one table with one
//! timer.
//!
//! An ask touches the table only when it has to wait, and leaves it when it ends. Most asks leave
//! long before their deadline, so the table sorts only deadlines in the near future: later ones are
//! unordered, and are sorted when their time comes near. A task that asks repeatedly uses one entry
//! for many asks: see [`leave`]. A task on the node's runtime sleeps until the earliest deadline
//! and wakes the asks that are due, so an ask may be polled anywhere, even outside of tokio. When
//! that task ends with its runtime, it wakes all waiting asks, which then fail.

mod left;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::DerefMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use slab::Slab;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use left::EntryCache;

/// Time span ahead in which deadlines are sorted.
const AHEAD: Duration = Duration::from_millis(500);
/// Maximum number of asks woken per acquisition of the lock.
const WOKEN_AT_ONCE: usize = 64;

/// The deadlines of a node's waiting asks, and of tells with a time-out. Owned by the node; sends
/// get access to it from their references to actors.
pub struct Deadlines {
    table: Arc<DeadlineTable>,
    timer: AbortHandle,
    runtime: Handle,
    ask_timeout: Duration,
}

/// The entry of one waiting ask in the table. The ask passes it to [`leave`] if it ends before its
/// deadline.
pub(crate) struct DeadlineEntry<P: SharedQueue = NativeSharedQueue> {
    table: Arc<DeadlineTable<P>>,
    key: DeadlineKey,
    /// The task whose waker is in the table.
    task: TaskId,
    /// Value of the table's `cleared` counter at the last check: this entry is in the table while
    /// the counter is unchanged.
    cleared: u64,
}

/// Identity of a waker, by the same rule as [`Waker::will_wake`].
type TaskId = (usize, usize);

fn task_of(waker: &Waker) -> TaskId {
    (waker.data().addr(), std::ptr::from_ref(waker.vtable()).addr())
}

thread_local! {
    static LEFT: RefCell<EntryCache> = const { RefCell::new(EntryCache::new()) };
    static KEEPS_NONE: Cell<bool> = const { Cell::new(false) };
}

/// Longest time-out of an ask whose entry a thread keeps: the entry keeps the memory of its task
/// alive, even if the task has ended.
const LEFT_FOR_MAX: Duration = Duration::from_secs(60);

/// Gives up the entry of an ask with this time-out. The thread keeps the last entries for the next
/// asks of the same tasks: most tasks that ask will ask again, and then touch neither the table nor
/// the waker.
pub(crate) fn leave(place: Box<DeadlineEntry>, time_out: Duration) {
    if time_out > LEFT_FOR_MAX || KEEPS_NONE.get() {
        return place.cancel();
    }
    let mut place = Some(place);
    // A thread that is ending has no next ask.
    let keep = |left: &RefCell<EntryCache>| {
        place = place.take().and_then(|place| left.borrow_mut().keep(place));
    };
    LEFT.try_with(keep).ok();
    if let Some(place) = place {
        place.cancel();
    }
}

/// Stops the thread from keeping entries: which entries it keeps depends on the addresses of tasks,
/// and a simulated run is to be repeatable.
#[cfg(feature = "test-kit")]
pub(crate) fn keep_no_entries() {
    KEEPS_NONE.set(true);
}

impl<P: SharedQueue> DeadlineEntry<P> {
    /// Returns true if the entry is certainly still in the table with the waker of this task.
    #[inline]
    fn is_held_by(&self, task: TaskId) -> bool {
        self.task == task && self.cleared == self.table.shared.cleared(Ordering::Acquire)
    }

    /// Removes the entry from the table.
    fn cancel(&self) {
        let waker = self.table.shared.lock().remove(&self.key);
        drop(waker);
    }
}

/// The position of a wait in the order: by deadline, then by arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct DeadlineKey {
    deadline: Instant,
    number: u64,
    /// Index in `late` while the wait is there.
    at: usize,
}

/// The reason why an ask stops waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpiryCause {
    /// Its deadline has passed.
    Deadline,
    /// The node's runtime has ended, so nothing on it can answer.
    RuntimeGone,
}

/// The wait of one task for the earliest of several deadlines, which may change. Dropping it
/// removes it from the table.
pub(crate) struct Alarm<D: AsRef<Deadlines>> {
    deadlines: D,
    set: Option<Box<DeadlineEntry>>,
}

impl<D: AsRef<Deadlines>> Alarm<D> {
    pub(crate) fn new(deadlines: D) -> Self {
        Alarm { deadlines, set: None }
    }

    /// Waits for `deadline`, which replaces an earlier one; waits forever if there is none, or no
    /// timer any more.
    pub(crate) fn poll(&mut self, deadline: Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        if self.set.as_ref().map(|set| set.key.deadline) != deadline {
            self.cancel();
        }
        let Some(deadline) = deadline else { return Poll::Pending };
        let expired = self.deadlines.as_ref().poll(&mut self.set, deadline, cx);
        if expired == Poll::Ready(ExpiryCause::Deadline) { Poll::Ready(()) } else { Poll::Pending }
    }

    #[inline]
    fn cancel(&mut self) {
        if let Some(place) = self.set.take() {
            place.cancel();
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

struct DeadlineTable<P: SharedQueue = NativeSharedQueue> {
    shared: P,
    /// Notified about a deadline that is earlier than the end of the timer's sleep.
    earlier: Notify,
}

/// The part of a table that tasks and the timer share, with native primitives or, in a model, those
/// from loom.
pub(crate) trait SharedQueue: Send + Sync + 'static {
    fn new(state: DeadlineQueue) -> Self;
    fn lock(&self) -> impl DerefMut<Target = DeadlineQueue>;
    /// Returns how often the timer has cleared entries. The number is written under the lock before
    /// a task is woken for its own entry: a task that still sees the old number is about to be
    /// woken, and looks again.
    fn cleared(&self, order: Ordering) -> u64;
    /// Counts that the timer has cleared entries.
    fn count_cleared(&self, order: Ordering);
}

/// The native primitives.
pub(crate) struct NativeSharedQueue {
    state: Mutex<DeadlineQueue>,
    cleared: AtomicU64,
}

impl SharedQueue for NativeSharedQueue {
    fn new(state: DeadlineQueue) -> Self {
        NativeSharedQueue { state: Mutex::new(state), cleared: AtomicU64::new(0) }
    }

    fn lock(&self) -> impl DerefMut<Target = DeadlineQueue> {
        self.state.lock()
    }

    #[inline]
    fn cleared(&self, order: Ordering) -> u64 {
        self.cleared.load(order)
    }

    fn count_cleared(&self, order: Ordering) {
        self.cleared.fetch_add(1, order);
    }
}

/// The waits of a table. No waker is woken or dropped under its lock.
pub(crate) struct DeadlineQueue {
    /// All waits due before `ahead`, and possibly others, ordered by deadline and then by arrival.
    near: BTreeMap<DeadlineKey, Waker>,
    /// Due at `ahead` or later, in no order.
    late: Slab<(DeadlineKey, Waker)>,
    ahead: Instant,
    next: u64,
    /// Time at which the timer looks next; `None` while it waits for a notification.
    look: Option<Instant>,
    /// The timer has ended.
    ended: bool,
}

impl Deadlines {
    /// Starts the timer on `runtime`; it ends when this is dropped. `ask_timeout` is the time-out
    /// of asks that set none.
    pub(crate) fn start(runtime: &Handle, ask_timeout: Duration) -> Self {
        let table = DeadlineTable::new();
        // Created before its task, because a runtime that is shutting down drops the task unpolled.
        let timer = DeadlineTimer(table.clone());
        let task = runtime.spawn(async move { timer.run().await });
        Deadlines { table, timer: task.abort_handle(), runtime: runtime.clone(), ask_timeout }
    }

    /// Returns the time-out of asks that set none.
    pub(crate) fn ask_timeout(&self) -> Duration {
        self.ask_timeout
    }

    /// Returns the runtime of its node, whose clock counts.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Waits for `deadline`. The first call, with `None` in `place`, puts an entry there; later
    /// calls keep the entry and renew its waker. When this is ready, the entry is gone.
    pub(crate) fn poll(
        &self,
        place: &mut Option<Box<DeadlineEntry>>,
        deadline: Instant,
        cx: &mut Context<'_>,
    ) -> Poll<ExpiryCause> {
        // A handler that runs on its asker's thread is first polled with this waker, and at once
        // again with its own.
        if cx.waker().will_wake(Waker::noop()) && Instant::now() < deadline {
            return Poll::Pending;
        }
        if place.is_none() {
            let task = task_of(cx.waker());
            let take =
                |left: &RefCell<EntryCache>| left.borrow_mut().take(&self.table, deadline, task);
            *place = LEFT.try_with(take).ok().flatten();
        }
        self.table.poll(place, deadline, cx)
    }
}

impl<P: SharedQueue> DeadlineTable<P> {
    fn new() -> Arc<Self> {
        Arc::new(DeadlineTable { shared: P::new(DeadlineQueue::new()), earlier: Notify::new() })
    }

    /// Like [`Deadlines::poll`], but does not reuse entries that asks have left.
    #[inline]
    fn poll(
        self: &Arc<Self>,
        place: &mut Option<Box<DeadlineEntry<P>>>,
        deadline: Instant,
        cx: &mut Context<'_>,
    ) -> Poll<ExpiryCause> {
        let task = task_of(cx.waker());
        if place.as_ref().is_some_and(|place| place.is_held_by(task)) {
            return Poll::Pending;
        }
        self.poll_locked(place, deadline, cx)
    }

    /// Slow path of [`poll`](Self::poll), under the lock.
    fn poll_locked(
        self: &Arc<Self>,
        place: &mut Option<Box<DeadlineEntry<P>>>,
        deadline: Instant,
        cx: &mut Context<'_>,
    ) -> Poll<ExpiryCause> {
        let waker = cx.waker().clone();
        // Identifies the clone, which lives as long as the entry: a waker lent for this poll may
        // later share its address with the waker of another task.
        let task = task_of(&waker);
        let mut state = self.shared.lock();
        if let Some(known) = place {
            if let Some(kept) = state.get_mut(&known.key) {
                known.cleared = self.shared.cleared(Ordering::Relaxed);
                known.task = task;
                let old = std::mem::replace(kept, waker);
                drop(state);
                drop(old);
                return Poll::Pending;
            }
            // An entry left by an earlier ask may be due before this ask is.
            let is_due = deadline <= known.key.deadline || deadline <= Instant::now();
            *place = None;
            if is_due {
                return Poll::Ready(state.expired());
            }
        }
        if state.ended {
            return Poll::Ready(ExpiryCause::RuntimeGone);
        }
        let (key, is_earlier) = state.insert(deadline, waker);
        let cleared = self.shared.cleared(Ordering::Relaxed);
        drop(state);
        *place = Some(Box::new(DeadlineEntry { table: self.clone(), key, task, cleared }));
        if is_earlier {
            self.earlier.notify_one();
        }
        Poll::Pending
    }
}

impl Drop for Deadlines {
    fn drop(&mut self) {
        self.timer.abort();
    }
}

impl DeadlineQueue {
    fn new() -> Self {
        DeadlineQueue {
            near: BTreeMap::new(),
            late: Slab::new(),
            ahead: Instant::now(),
            next: 0,
            look: None,
            ended: false,
        }
    }

    /// Adds a wait. Returns its key, and true if the timer must be notified.
    fn insert(&mut self, deadline: Instant, waker: Waker) -> (DeadlineKey, bool) {
        let number = self.next;
        self.next += 1;
        let look = if deadline < self.ahead { deadline } else { self.ahead };
        let key = if deadline < self.ahead {
            let key = DeadlineKey { deadline, number, at: usize::MAX };
            self.near.insert(key, waker);
            key
        } else {
            let key = DeadlineKey { deadline, number, at: self.late.vacant_key() };
            self.late.insert((key, waker));
            key
        };
        let is_earlier = self.look.is_none_or(|before| look < before);
        if is_earlier {
            self.look = Some(look);
        }
        (key, is_earlier)
    }

    fn get_mut(&mut self, key: &DeadlineKey) -> Option<&mut Waker> {
        match self.late.get_mut(key.at) {
            Some((late, waker)) if late == key => Some(waker),
            _ => self.near.get_mut(key),
        }
    }

    fn remove(&mut self, key: &DeadlineKey) -> Option<Waker> {
        if self.late.get(key.at).is_some_and(|(late, _)| late == key) {
            return Some(self.late.remove(key.at).1);
        }
        self.near.remove(key)
    }

    /// Sorts the waits due within [`AHEAD`] of `now`, and sets the time of the next look.
    fn look_ahead(&mut self, now: Instant) {
        if self.ahead <= now {
            self.ahead = now + AHEAD;
            let DeadlineQueue { near, late, ahead, .. } = self;
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

    fn expired(&self) -> ExpiryCause {
        if self.ended { ExpiryCause::RuntimeGone } else { ExpiryCause::Deadline }
    }
}

/// The task that wakes asks that are due.
struct DeadlineTimer<P: SharedQueue = NativeSharedQueue>(Arc<DeadlineTable<P>>);

impl<P: SharedQueue> DeadlineTimer<P> {
    async fn run(&self) {
        let mut due = Vec::new();
        loop {
            match self.wake_due(&mut due) {
                None => self.0.earlier.notified().await,
                Some(next) => tokio::select! {
                    biased;
                    () = sleep_until(next) => {}
                    () = self.0.earlier.notified() => {}
                },
            }
        }
    }

    /// Wakes all waits that are due. Returns the time of the next look; `None` if no wait is left.
    /// `due` is empty between calls and only keeps its allocation.
    fn wake_due(&self, due: &mut Vec<Waker>) -> Option<Instant> {
        let now = Instant::now();
        loop {
            let mut state = self.0.shared.lock();
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
            self.0.shared.count_cleared(Ordering::Release);
            drop(state);
            due.drain(..).for_each(Waker::wake);
        }
    }
}

impl<P: SharedQueue> Drop for DeadlineTimer<P> {
    fn drop(&mut self) {
        let mut state = self.0.shared.lock();
        state.ended = true;
        self.0.shared.count_cleared(Ordering::Release);
        let (near, late) = (std::mem::take(&mut state.near), std::mem::take(&mut state.late));
        drop(state);
        near.into_values().for_each(Waker::wake);
        late.into_iter().for_each(|(_, (_, waker))| waker.wake());
    }
}
