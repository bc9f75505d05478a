//! The deadlines of a node's waiting asks, and of tells with a time-out: one table and one timer
//! for all of them.
//!
//! An ask touches the table only when it has to wait, and leaves it when it ends. Most leave long
//! before their deadline, so only what is due soon is kept in order: what is due later lies
//! unordered, and is put in order when its time comes near. A task that asks again and again takes
//! one place for many asks: see [`leave`]. A task on the node's runtime sleeps until the earliest
//! deadline and wakes the asks that are due; so an ask may be polled anywhere, also outside tokio.
//! When that task ends, with its runtime, every ask that waits is woken and told.

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
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

/// The place of one waiting ask in the table. The ask gives it to [`leave`] when it ends before its
/// deadline.
pub(crate) struct Place<P: Primitives = Native> {
    table: Arc<Table<P>>,
    key: Key,
    /// Whose waker is in the table.
    task: TaskId,
    /// It is in the table as long as the table's own number is this one.
    cleared: u64,
}

/// Tells one waker from another, as [`Waker::will_wake`] does.
type TaskId = (usize, usize);

fn task_of(waker: &Waker) -> TaskId {
    (waker.data().addr(), std::ptr::from_ref(waker.vtable()).addr())
}

/// Places that asks have left on a thread, for the next ones of the same tasks. They are given up
/// when the thread ends.
struct Left<P: Primitives = Native>(VecDeque<Box<Place<P>>>);

impl<P: Primitives> Left<P> {
    /// Keeps a place; returns the oldest one where there are too many.
    fn keep(&mut self, place: Box<Place<P>>) -> Option<Box<Place<P>>> {
        let oldest = if self.0.len() >= LEFT_MAX { self.0.pop_front() } else { None };
        self.0.push_back(place);
        oldest
    }

    /// Returns a place of this task in this table that is due no later than `deadline`: when it is
    /// due before, the task looks again.
    #[inline]
    fn take(
        &mut self,
        table: &Arc<Table<P>>,
        deadline: Instant,
        task: TaskId,
    ) -> Option<Box<Place<P>>> {
        let fits = |place: &Place<P>| {
            place.is_held_by(task)
                && place.key.deadline <= deadline
                && Arc::ptr_eq(&place.table, table)
        };
        if fits(self.0.back()?) {
            // Mostly: the task that asked last asks again.
            return self.0.pop_back();
        }
        let at = self.0.iter().rposition(|place| fits(place))?;
        self.0.remove(at)
    }
}

impl<P: Primitives> Drop for Left<P> {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|place| place.cancel());
    }
}

thread_local! {
    static LEFT: RefCell<Left> = const { RefCell::new(Left(VecDeque::new())) };
}

/// Most places that a thread keeps.
const LEFT_MAX: usize = 8;

/// Longest time-out of an ask whose place a thread keeps: with it, it keeps the memory of a task
/// that may have ended.
const LEFT_FOR_MAX: Duration = Duration::from_secs(60);

/// Gives up a place that was taken for an ask with this time-out. The thread keeps the last ones
/// that were left for the next asks of the same tasks: most tasks that ask do so again, and then
/// neither the table nor the waker is touched.
pub(crate) fn leave(place: Box<Place>, time_out: Duration) {
    if time_out > LEFT_FOR_MAX {
        return place.cancel();
    }
    let mut place = Some(place);
    // While the thread ends there is no next ask.
    let keep = |left: &RefCell<Left>| {
        place = place.take().and_then(|place| left.borrow_mut().keep(place));
    };
    LEFT.try_with(keep).ok();
    if let Some(place) = place {
        place.cancel();
    }
}

impl<P: Primitives> Place<P> {
    /// Returns true if it is certain that it is still in the table, with the waker of this task.
    #[inline]
    fn is_held_by(&self, task: TaskId) -> bool {
        self.task == task && self.cleared == self.table.shared.cleared(Ordering::Acquire)
    }

    /// Gives it up.
    fn cancel(&self) {
        let waker = self.table.shared.lock().remove(&self.key);
        drop(waker);
    }
}

/// A wait's place in the order: by its deadline, then by its arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
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
    set: Option<Box<Place>>,
}

impl<D: AsRef<Deadlines>> Alarm<D> {
    pub(crate) fn new(deadlines: D) -> Self {
        Alarm { deadlines, set: None }
    }

    /// Waits for `deadline`, in place of an earlier one; for ever, if there is none or no timer any
    /// more.
    pub(crate) fn poll(&mut self, deadline: Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        if self.set.as_ref().map(|set| set.key.deadline) != deadline {
            self.cancel();
        }
        let Some(deadline) = deadline else { return Poll::Pending };
        let expired = self.deadlines.as_ref().poll(&mut self.set, deadline, cx);
        if expired == Poll::Ready(Expired::Deadline) { Poll::Ready(()) } else { Poll::Pending }
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

struct Table<P: Primitives = Native> {
    shared: P,
    /// Notified when a deadline is earlier than what the timer sleeps for.
    earlier: Notify,
}

/// The part of a table that the tasks and the timer share, by the primitives of the machine, or in
/// a model by those of loom.
pub(crate) trait Primitives: Send + Sync + 'static {
    fn new(state: State) -> Self;
    fn lock(&self) -> impl DerefMut<Target = State>;
    /// Returns how often the timer has cleared places. Written under the lock, before a task is
    /// woken for its own: a task that still finds the old number is about to be woken, and looks
    /// again.
    fn cleared(&self, order: Ordering) -> u64;
    /// Counts that the timer has cleared places.
    fn count_cleared(&self, order: Ordering);
}

/// The primitives of the machine.
pub(crate) struct Native {
    state: Mutex<State>,
    cleared: AtomicU64,
}

impl Primitives for Native {
    fn new(state: State) -> Self {
        Native { state: Mutex::new(state), cleared: AtomicU64::new(0) }
    }

    fn lock(&self) -> impl DerefMut<Target = State> {
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

/// No waker is woken or dropped under the lock.
pub(crate) struct State {
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
        let table = Table::new();
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

    /// Waits for `deadline`. The first call, with `place` empty, takes a place in the table; each
    /// later one keeps the place and renews the waker. When this is ready the place is given up.
    pub(crate) fn poll(
        &self,
        place: &mut Option<Box<Place>>,
        deadline: Instant,
        cx: &mut Context<'_>,
    ) -> Poll<Expired> {
        if place.is_none() {
            let task = task_of(cx.waker());
            let take = |left: &RefCell<Left>| left.borrow_mut().take(&self.table, deadline, task);
            *place = LEFT.try_with(take).ok().flatten();
        }
        self.table.poll(place, deadline, cx)
    }
}

impl<P: Primitives> Table<P> {
    fn new() -> Arc<Self> {
        Arc::new(Table { shared: P::new(State::new()), earlier: Notify::new() })
    }

    /// As [`Deadlines::poll`], without a look at the places that were left.
    #[inline]
    fn poll(
        self: &Arc<Self>,
        place: &mut Option<Box<Place<P>>>,
        deadline: Instant,
        cx: &mut Context<'_>,
    ) -> Poll<Expired> {
        let task = task_of(cx.waker());
        if place.as_ref().is_some_and(|place| place.is_held_by(task)) {
            return Poll::Pending;
        }
        self.poll_locked(place, deadline, cx)
    }

    /// As [`poll`](Self::poll), with a look under the lock.
    fn poll_locked(
        self: &Arc<Self>,
        place: &mut Option<Box<Place<P>>>,
        deadline: Instant,
        cx: &mut Context<'_>,
    ) -> Poll<Expired> {
        let waker = cx.waker().clone();
        // Of the one that stays: one that was lent for this poll alone may be at the place of
        // another task's the next time.
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
            // One that another ask had left may have been due too early for this one.
            let is_due = deadline <= known.key.deadline || deadline <= Instant::now();
            *place = None;
            if is_due {
                return Poll::Ready(state.expired());
            }
        }
        if state.ended {
            return Poll::Ready(Expired::RuntimeGone);
        }
        let (key, is_earlier) = state.insert(deadline, waker);
        let cleared = self.shared.cleared(Ordering::Relaxed);
        drop(state);
        *place = Some(Box::new(Place { table: self.clone(), key, task, cleared }));
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
struct Timer<P: Primitives = Native>(Arc<Table<P>>);

impl<P: Primitives> Timer<P> {
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

    /// Wakes all that are due. Returns the next deadline. `due` is empty between calls and kept for
    /// its memory.
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

impl<P: Primitives> Drop for Timer<P> {
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
