//! Model of the entries that asks leave, under loom: runs a task that asks again, and the timer
//! that clears entries, in all orders, with the code of the table itself.

use std::sync::atomic::AtomicU64 as PlainU64;
use std::task::Wake;
use std::time::Duration;

use futures::FutureExt;
use loom::model::Builder;
use loom::sync::atomic::{AtomicBool, AtomicU64};
use loom::thread::{self, JoinHandle};

use super::*;

/// Maximum number of preemptions per execution: loom recommends two or three.
const PREEMPTIONS: usize = 3;

/// The primitives of loom.
struct LoomSharedQueue {
    state: loom::sync::Mutex<DeadlineQueue>,
    cleared: AtomicU64,
}

impl SharedQueue for LoomSharedQueue {
    fn new(state: DeadlineQueue) -> Self {
        LoomSharedQueue { state: loom::sync::Mutex::new(state), cleared: AtomicU64::new(0) }
    }

    fn lock(&self) -> impl DerefMut<Target = DeadlineQueue> {
        self.state.lock().expect("no model panics under a lock and goes on")
    }

    fn cleared(&self, order: Ordering) -> u64 {
        self.cleared.load(order)
    }

    fn count_cleared(&self, order: Ordering) {
        self.cleared.fetch_add(1, order);
    }
}

/// A planted bug: counts cleared entries only when the lock is taken next, which the timer does
/// after it has woken their tasks.
struct LateSharedQueue {
    loomed: LoomSharedQueue,
    uncounted: PlainU64,
}

impl SharedQueue for LateSharedQueue {
    fn new(state: DeadlineQueue) -> Self {
        LateSharedQueue { loomed: LoomSharedQueue::new(state), uncounted: PlainU64::new(0) }
    }

    fn lock(&self) -> impl DerefMut<Target = DeadlineQueue> {
        let state = self.loomed.lock();
        for _ in 0..self.uncounted.swap(0, Ordering::Relaxed) {
            self.loomed.count_cleared(Ordering::Release);
        }
        state
    }

    fn cleared(&self, order: Ordering) -> u64 {
        self.loomed.cleared(order)
    }

    fn count_cleared(&self, _: Ordering) {
        self.uncounted.fetch_add(1, Ordering::Relaxed);
    }
}

/// The waker of a task.
struct TestWaker(AtomicBool);

impl Wake for TestWaker {
    fn wake(self: Arc<Self>) {
        // A `swap`, because loom may order a plain store before the last `swap`.
        self.0.swap(true, Ordering::AcqRel);
    }
}

fn bell() -> Arc<TestWaker> {
    Arc::new(TestWaker(AtomicBool::new(false)))
}

/// A task that asks repeatedly, with the entries left on its thread, and the timer.
struct AskingTask<P: SharedQueue> {
    table: Arc<DeadlineTable<P>>,
    bell: Arc<TestWaker>,
    place: Option<Box<DeadlineEntry<P>>>,
    left: EntryCache<P>,
    /// The timer, unless it has ended or runs.
    timer: Option<DeadlineTimer<P>>,
    running: Option<JoinHandle<Option<DeadlineTimer<P>>>>,
}

impl<P: SharedQueue> AskingTask<P> {
    fn new() -> Self {
        let (table, left) = (DeadlineTable::new(), EntryCache::new());
        let timer = Some(DeadlineTimer(table.clone()));
        AskingTask { table, bell: bell(), place: None, left, timer, running: None }
    }

    /// Like [`Deadlines::poll`].
    fn poll(&mut self, deadline: Instant) -> Poll<ExpiryCause> {
        let waker = Waker::from(self.bell.clone());
        if self.place.is_none() {
            self.place = self.left.take(&self.table, deadline, task_of(&waker));
        }
        self.table.poll(&mut self.place, deadline, &mut Context::from_waker(&waker))
    }

    /// Like [`leave`].
    fn leave(&mut self) {
        let place = self.place.take().expect("it waits");
        if let Some(earlier) = self.left.keep(place) {
            earlier.cancel();
        }
    }

    /// Starts the timer on its own thread to wake the waits that are due. With `ends`, the timer
    /// then ends.
    fn run_timer(&mut self, ends: bool) {
        let timer = self.timer.take().expect("it runs once");
        self.running = Some(thread::spawn(move || {
            timer.wake_due(&mut Vec::new());
            (!ends).then_some(timer)
        }));
    }

    /// Runs the task until `look` is ready. It looks again after each wake-up.
    fn run<T>(&mut self, mut look: impl FnMut(&mut Self) -> Poll<T>) -> T {
        loop {
            self.bell.0.swap(false, Ordering::AcqRel);
            if let Poll::Ready(value) = look(self) {
                return value;
            }
            while !self.bell.0.load(Ordering::Acquire) {
                self.sleep();
            }
        }
    }

    /// Runs the timer while the task sleeps: it looks again if it was notified of an earlier
    /// deadline.
    fn sleep(&mut self) {
        if let Some(running) = self.running.take() {
            self.timer = running.join().expect("it does not panic");
            return;
        }
        let is_told = self.table.earlier.notified().now_or_never().is_some();
        let timer = self.timer.as_ref().filter(|_| is_told);
        timer.expect("a task sleeps, and nothing wakes it").wake_due(&mut Vec::new());
    }
}

/// Returns a deadline that has passed when the timer looks, and another that has not.
fn due_and_later() -> (Instant, Instant) {
    let now = Instant::now();
    (now, now + Duration::from_secs(3600))
}

/// The entry of the first ask is due while the task asks again with a longer time-out: the task
/// takes another entry.
fn asks_for_longer<P: SharedQueue>() {
    let (due, later) = due_and_later();
    let mut asker = AskingTask::<P>::new();
    assert!(asker.poll(due).is_pending());
    asker.run_timer(false);
    asker.leave();
    assert!(asker.poll(later).is_pending(), "one that has its answer at once");
    asker.leave();
    asker.run(|asker| {
        assert!(asker.poll(later).is_pending());
        let is_own = asker.place.as_ref().is_some_and(|own| own.key.deadline == later);
        if is_own { Poll::Ready(()) } else { Poll::Pending }
    });
    asker.leave();
}

/// The entry of the first ask is due while the task asks again with the same time-out: the second
/// ask expires.
fn asks_for_as_long<P: SharedQueue>() {
    let (due, _) = due_and_later();
    let mut asker = AskingTask::<P>::new();
    assert!(asker.poll(due).is_pending());
    asker.run_timer(false);
    asker.leave();
    assert_eq!(asker.run(|asker| asker.poll(due)), ExpiryCause::Deadline);
}

/// A task asks again with a shorter time-out: it takes no entry that is due later.
fn asks_for_less<P: SharedQueue>() {
    let (due, later) = due_and_later();
    let mut asker = AskingTask::<P>::new();
    assert!(asker.poll(later).is_pending());
    asker.run_timer(false);
    asker.leave();
    assert_eq!(asker.run(|asker| asker.poll(due)), ExpiryCause::Deadline);
}

/// The entry of another task is due, and then the timer ends, while a task asks again.
fn outlives_the_timer<P: SharedQueue>() {
    let (due, later) = due_and_later();
    let mut asker = AskingTask::<P>::new();
    let (other, mut others) = (Waker::from(bell()), None);
    let polled = asker.table.poll(&mut others, due, &mut Context::from_waker(&other));
    assert!(polled.is_pending() && asker.poll(later).is_pending());
    asker.run_timer(true);
    asker.leave();
    assert_eq!(asker.run(|asker| asker.poll(later)), ExpiryCause::RuntimeGone);
}

/// An entry is due while the ask moves from one task to another.
fn moves_to_another_task<P: SharedQueue>() {
    let (due, _) = due_and_later();
    let mut asker = AskingTask::<P>::new();
    let other = Waker::from(bell());
    let polled = asker.table.poll(&mut asker.place, due, &mut Context::from_waker(&other));
    assert!(polled.is_pending());
    asker.run_timer(false);
    assert_eq!(asker.run(|asker| asker.poll(due)), ExpiryCause::Deadline);
}

/// Runs `run` in every order; returns the number of orders.
fn orders(run: fn()) -> u64 {
    let orders = Arc::new(PlainU64::new(0));
    let count = orders.clone();
    let mut builder = Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(move || {
        count.fetch_add(1, Ordering::Relaxed);
        run();
    });
    orders.load(Ordering::Relaxed)
}

// Promised in docs/SEMANTICS.md.
#[test]
fn model_of_places_that_are_left() {
    let cases: [(&str, fn()); 5] = [
        ("a task asks again, for longer", asks_for_longer::<LoomSharedQueue>),
        ("for as long", asks_for_as_long::<LoomSharedQueue>),
        ("for less", asks_for_less::<LoomSharedQueue>),
        ("the timer ends", outlives_the_timer::<LoomSharedQueue>),
        ("an ask moves to another task", moves_to_another_task::<LoomSharedQueue>),
    ];
    for (case, run) in cases {
        let orders = orders(run);
        println!("places that are left: {case}: {orders} orders of events");
        assert!(orders > 10, "{case}: {orders}");
    }
    println!("places that are left: no task sleeps on a place that was cleared");
}

/// The order matters: the model finds a number that is written after the wake-up.
#[test]
#[should_panic(expected = "nothing wakes it")]
fn model_of_places_catches_a_number_that_is_late() {
    orders(asks_for_longer::<LateSharedQueue>);
}
