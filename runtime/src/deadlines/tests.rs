//! The table of deadlines alone, polled by the tests and served by its own timer.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;
use std::time::Duration;

use super::left::LEFT_MAX;
use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[derive(Default)]
struct TestWaker(AtomicUsize);

impl Wake for TestWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl TestWaker {
    fn rings(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn poll(
    deadlines: &Deadlines,
    place: &mut Option<Box<DeadlineEntry>>,
    at: Instant,
    bell: &Arc<TestWaker>,
) -> bool {
    let waker = Waker::from(bell.clone());
    deadlines.poll(place, at, &mut Context::from_waker(&waker)).is_pending()
}

fn is_empty(deadlines: &Deadlines) -> bool {
    let state = deadlines.table.shared.lock();
    state.near.is_empty() && state.late.is_empty()
}

async fn expired(deadlines: &Deadlines, at: Instant) -> (ExpiryCause, Duration) {
    let (start, mut key) = (Instant::now(), None);
    let expired = poll_fn(|cx| deadlines.poll(&mut key, at, cx)).await;
    assert!(key.is_none());
    (expired, start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn each_deadline_expires_at_its_time_in_whatever_order_they_came() {
    let deadlines = Deadlines::start(&Handle::current(), crate::limits::ASK_TIMEOUT);
    let now = Instant::now();
    let at = |seconds| expired(&deadlines, now + seconds * SECOND);
    let (late, early, same) = tokio::join!(at(3), at(1), at(3));
    assert_eq!(late, (ExpiryCause::Deadline, 3 * SECOND));
    assert_eq!(early, (ExpiryCause::Deadline, SECOND));
    assert_eq!(same, (ExpiryCause::Deadline, 3 * SECOND));
    assert_eq!(at(3).await.1, Duration::ZERO, "one that has passed");
    assert_eq!(at(7).await.1, 4 * SECOND, "after the table was empty");
}

#[tokio::test(start_paused = true)]
async fn more_than_one_turn_of_the_lock_expires_at_once() {
    let deadlines = Deadlines::start(&Handle::current(), crate::limits::ASK_TIMEOUT);
    let (at, bell) = (Instant::now() + SECOND, Arc::<TestWaker>::default());
    let mut keys = [const { None }; 2 * WOKEN_AT_ONCE + 1];
    assert!(keys.iter_mut().all(|key| poll(&deadlines, key, at, &bell)));
    assert_eq!(expired(&deadlines, at).await.1, SECOND);
    assert_eq!(bell.rings(), keys.len());
    assert!(keys.iter_mut().all(|key| !poll(&deadlines, key, at, &bell)));
}

#[tokio::test(start_paused = true)]
async fn the_last_waker_is_woken_and_a_cancelled_one_is_not() {
    let deadlines = Deadlines::start(&Handle::current(), crate::limits::ASK_TIMEOUT);
    let at = Instant::now() + SECOND;
    let [first, second, cancelled] = [(); 3].map(|()| Arc::<TestWaker>::default());
    let (mut key, mut other) = (None, None);
    assert!(poll(&deadlines, &mut key, at, &first));
    assert!(poll(&deadlines, &mut other, at, &cancelled));
    assert!(poll(&deadlines, &mut key, at, &second));
    other.take().unwrap().cancel();
    assert_eq!(Arc::strong_count(&cancelled), 1, "its waker was dropped");
    assert_eq!(expired(&deadlines, at).await.1, SECOND);
    assert_eq!((first.rings(), second.rings(), cancelled.rings()), (0, 1, 0));
    assert!(is_empty(&deadlines), "nothing is left");
}

/// Entries are cancelled and renewed in both parts of the table; a reused position there belongs to
/// its new task.
#[tokio::test(start_paused = true)]
async fn a_place_is_found_before_and_after_it_was_put_in_order() {
    let deadlines = Deadlines::start(&Handle::current(), crate::limits::ASK_TIMEOUT);
    let at = Instant::now() + 4 * AHEAD - AHEAD / 4;
    let [kept, renewed, other] = [(); 3].map(|()| Arc::<TestWaker>::default());
    let (mut first, mut second, mut third) = (None, None, None);
    assert!(poll(&deadlines, &mut first, at, &kept));
    assert!(poll(&deadlines, &mut second, at, &kept));
    first.take().unwrap().cancel();
    assert!(poll(&deadlines, &mut third, at, &other), "in the place of the first");
    assert_eq!(deadlines.table.shared.lock().late.len(), 2);
    assert_eq!(expired(&deadlines, at - AHEAD / 4).await.0, ExpiryCause::Deadline);
    assert_eq!(deadlines.table.shared.lock().near.len(), 2);
    assert!(poll(&deadlines, &mut second, at, &renewed));
    third.take().unwrap().cancel();
    assert_eq!(expired(&deadlines, at).await.1, AHEAD / 4);
    assert_eq!((kept.rings(), renewed.rings(), other.rings()), (0, 1, 0));
    assert!(!poll(&deadlines, &mut second, at, &renewed) && is_empty(&deadlines));
}

/// A task that asks repeatedly has one entry and is never woken late for it; another task has its
/// own.
#[tokio::test(start_paused = true)]
async fn a_place_that_was_left_is_for_the_next_ask_of_the_same_task() {
    let deadlines = Deadlines::start(&Handle::current(), crate::limits::ASK_TIMEOUT);
    let (now, bells) = (Instant::now(), [(); 2].map(|()| Arc::<TestWaker>::default()));
    let places = || deadlines.table.shared.lock().late.len();
    let mut place = None;
    for seconds in 1..4 {
        assert!(poll(&deadlines, &mut place, now + seconds * SECOND, &bells[0]));
        assert_eq!(places(), 1);
        leave(place.take().unwrap(), SECOND);
    }
    let mut early = None;
    assert!(poll(&deadlines, &mut early, now + SECOND / 2 + AHEAD / 2, &bells[0]));
    assert_eq!(places(), 2, "none that is left may be due after it is");
    leave(early.take().unwrap(), SECOND);
    assert!(poll(&deadlines, &mut place, now + 3 * SECOND, &bells[0]));
    assert_eq!(places(), 2);
    let mut other = None;
    assert!(poll(&deadlines, &mut other, now + 3 * SECOND, &bells[1]));
    assert_eq!(places(), 3);
    tokio::time::sleep_until(now + 2 * SECOND).await;
    assert_eq!((bells[0].rings(), bells[1].rings()), (2, 0), "it looks again");
    assert!(poll(&deadlines, &mut place, now + 3 * SECOND, &bells[0]));
    tokio::time::sleep_until(now + 4 * SECOND).await;
    assert_eq!((bells[0].rings(), bells[1].rings()), (3, 1));
    assert!(!poll(&deadlines, &mut place, now + 3 * SECOND, &bells[0]) && is_empty(&deadlines));
}

/// An entry holds a waker, and so the memory of a task that may have ended.
#[tokio::test(start_paused = true)]
async fn a_place_of_a_long_ask_is_not_kept() {
    let deadlines = Deadlines::start(&Handle::current(), crate::limits::ASK_TIMEOUT);
    for (time_out, is_kept) in [(LEFT_FOR_MAX, true), (LEFT_FOR_MAX + SECOND, false)] {
        let (mut place, bell) = (None, Arc::<TestWaker>::default());
        assert!(poll(&deadlines, &mut place, Instant::now() + time_out, &bell));
        leave(place.take().unwrap(), time_out);
        assert_eq!(Arc::strong_count(&bell) > 1, is_kept);
    }
}

/// Calls [`leave`] with an entry when it is dropped.
struct LeaveOnDrop(RefCell<Option<Box<DeadlineEntry>>>);

impl Drop for LeaveOnDrop {
    fn drop(&mut self) {
        leave(self.0.take().unwrap(), SECOND);
    }
}

/// Covers entries left before the thread's end, and an entry left when the thread keeps none any
/// more.
#[test]
fn places_that_a_thread_has_left_are_given_up_at_its_end() {
    thread_local! {
        static LATE: LeaveOnDrop = const { LeaveOnDrop(RefCell::new(None)) };
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let deadlines = Deadlines::start(runtime.handle(), crate::limits::ASK_TIMEOUT);
    let places = || deadlines.table.shared.lock().late.len();
    let at = Instant::now() + 60 * SECOND;
    let bells: [_; 2 * LEFT_MAX] = std::array::from_fn(|_| Arc::<TestWaker>::default());
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let mut late = None;
            assert!(poll(&deadlines, &mut late, at, &Arc::default()));
            // Dropped after the entries that were left, because it was initialized before them.
            LATE.with(|kept| *kept.0.borrow_mut() = late);
            for bell in &bells {
                let mut place = None;
                assert!(poll(&deadlines, &mut place, at, bell));
                leave(place.unwrap(), SECOND);
            }
            let kept = places() - 1;
            assert!((1..=LEFT_MAX).contains(&kept), "a thread keeps so many: {kept}");
        });
        thread.join().unwrap();
    });
    assert!(is_empty(&deadlines));
    assert!(bells.iter().all(|bell| Arc::strong_count(bell) == 1 && bell.rings() == 0));
}

#[test]
fn the_end_of_the_runtime_wakes_all_and_lets_none_wait_any_more() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let deadlines = Deadlines::start(runtime.handle(), crate::limits::ASK_TIMEOUT);
    let (at, bell) = (Instant::now() + SECOND, Arc::<TestWaker>::default());
    let (mut key, mut late) = (None, None);
    assert!(poll(&deadlines, &mut key, at, &bell));
    drop(runtime);
    assert_eq!(bell.rings(), 1);
    let waker = Waker::from(bell);
    let mut cx = Context::from_waker(&waker);
    let gone = Poll::Ready(ExpiryCause::RuntimeGone);
    assert_eq!(deadlines.poll(&mut key, at, &mut cx), gone);
    assert_eq!(deadlines.poll(&mut late, at, &mut cx), gone);
}

#[test]
fn a_thread_outside_tokio_is_woken_at_its_deadline() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let deadlines = Deadlines::start(runtime.handle(), crate::limits::ASK_TIMEOUT);
    let time = Duration::from_millis(20);
    let waited = futures::executor::block_on(expired(&deadlines, Instant::now() + time));
    assert!(waited.0 == ExpiryCause::Deadline && waited.1 >= time, "{waited:?}");
}
