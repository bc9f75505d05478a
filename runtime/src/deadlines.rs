//! The deadlines of a node's waiting asks: one table and one timer for all of them.
//!
//! An ask touches the table only when it has to wait, and leaves it when it ends. A task on the
//! node's runtime sleeps until the earliest deadline and wakes the asks that are due; so an ask may
//! be polled anywhere, also outside tokio. When that task ends, with its runtime, every ask that
//! waits is woken and told.

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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[derive(Default)]
    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Bell {
        fn rings(&self) -> usize {
            self.0.load(Ordering::SeqCst)
        }
    }

    fn poll(deadlines: &Deadlines, key: &mut Option<Key>, at: Instant, bell: &Arc<Bell>) -> bool {
        let waker = Waker::from(bell.clone());
        deadlines.poll(key, at, &mut Context::from_waker(&waker)).is_pending()
    }

    async fn expired(deadlines: &Deadlines, at: Instant) -> (Expired, Duration) {
        let (start, mut key) = (Instant::now(), None);
        let expired = poll_fn(|cx| deadlines.poll(&mut key, at, cx)).await;
        assert_eq!(key, None);
        (expired, start.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn each_deadline_expires_at_its_time_in_whatever_order_they_came() {
        let deadlines = Deadlines::start(&Handle::current());
        let now = Instant::now();
        let at = |seconds| expired(&deadlines, now + seconds * SECOND);
        let (late, early, same) = tokio::join!(at(3), at(1), at(3));
        assert_eq!(late, (Expired::Deadline, 3 * SECOND));
        assert_eq!(early, (Expired::Deadline, SECOND));
        assert_eq!(same, (Expired::Deadline, 3 * SECOND));
        assert_eq!(at(3).await.1, Duration::ZERO, "one that has passed");
        assert_eq!(at(7).await.1, 4 * SECOND, "after the table was empty");
    }

    #[tokio::test(start_paused = true)]
    async fn more_than_one_turn_of_the_lock_expires_at_once() {
        let deadlines = Deadlines::start(&Handle::current());
        let (at, bell) = (Instant::now() + SECOND, Arc::<Bell>::default());
        let mut keys = [None; 2 * WOKEN_AT_ONCE + 1];
        assert!(keys.iter_mut().all(|key| poll(&deadlines, key, at, &bell)));
        assert_eq!(expired(&deadlines, at).await.1, SECOND);
        assert_eq!(bell.rings(), keys.len());
        assert!(keys.iter_mut().all(|key| !poll(&deadlines, key, at, &bell)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_waker_is_woken_and_a_cancelled_one_is_not() {
        let deadlines = Deadlines::start(&Handle::current());
        let at = Instant::now() + SECOND;
        let [first, second, cancelled] = [(); 3].map(|()| Arc::<Bell>::default());
        let (mut key, mut other) = (None, None);
        assert!(poll(&deadlines, &mut key, at, &first));
        assert!(poll(&deadlines, &mut other, at, &cancelled));
        assert!(poll(&deadlines, &mut key, at, &second));
        deadlines.cancel(other.take().unwrap());
        assert_eq!(Arc::strong_count(&cancelled), 1, "its waker was dropped");
        assert_eq!(expired(&deadlines, at).await.1, SECOND);
        assert_eq!((first.rings(), second.rings(), cancelled.rings()), (0, 1, 0));
        assert!(deadlines.table.state.lock().waiting.len() == 0, "nothing is left");
    }

    #[test]
    fn the_end_of_the_runtime_wakes_all_and_lets_none_wait_any_more() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let deadlines = Deadlines::start(runtime.handle());
        let (at, bell) = (Instant::now() + SECOND, Arc::<Bell>::default());
        let (mut key, mut late) = (None, None);
        assert!(poll(&deadlines, &mut key, at, &bell));
        drop(runtime);
        assert_eq!(bell.rings(), 1);
        let waker = Waker::from(bell);
        let mut cx = Context::from_waker(&waker);
        let gone = Poll::Ready(Expired::RuntimeGone);
        assert_eq!(deadlines.poll(&mut key, at, &mut cx), gone);
        assert_eq!(deadlines.poll(&mut late, at, &mut cx), gone);
    }

    #[test]
    fn a_thread_outside_tokio_is_woken_at_its_deadline() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let deadlines = Deadlines::start(runtime.handle());
        let time = Duration::from_millis(20);
        let waited = futures::executor::block_on(expired(&deadlines, Instant::now() + time));
        assert!(waited.0 == Expired::Deadline && waited.1 >= time, "{waited:?}");
    }
}
