//! The slot alone, with all its ends polled by the tests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;
use std::time::Duration;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const STOPPED: AskCause = AskCause::NotBegun(NotBegun::Stopped);
const LATE: AskCause = AskCause::NotBegun(NotBegun::Timeout);

#[derive(Default)]
struct TestWaker(AtomicUsize);

impl Wake for TestWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct SlotEnds<R> {
    asker: AskerEnd<R>,
    ask: Arc<dyn OpenAsk>,
    answerer: Answerer<R>,
    bell: Arc<TestWaker>,
}

/// Returns the ends of a waiting ask.
fn ends<R: Send + 'static>() -> SlotEnds<R> {
    let bell = Arc::<TestWaker>::default();
    let (asker, answerer, ask) = slot(Instant::now() + SECOND, Waker::from(bell.clone()), None);
    SlotEnds { ask, asker, answerer, bell }
}

fn poll<R>(asker: &mut AskerEnd<R>, bell: &Arc<TestWaker>) -> Poll<Result<R, AskCause>> {
    asker.poll(&mut Context::from_waker(&Waker::from(bell.clone())))
}

fn rings(bell: &TestWaker) -> usize {
    bell.0.load(Ordering::Relaxed)
}

#[test]
fn an_answer_wakes_its_asker_once() {
    let SlotEnds { mut asker, ask, answerer, bell } = ends();
    assert!(ask.begin().is_some());
    answerer.send(7);
    assert_eq!((rings(&bell), poll(&mut asker, &bell)), (1, Poll::Ready(Ok(7))));
}

#[test]
fn the_waker_of_the_last_poll_is_woken() {
    let SlotEnds { mut asker, answerer, bell, .. } = ends::<u8>();
    let other = Arc::<TestWaker>::default();
    assert!(poll(&mut asker, &other).is_pending());
    assert_eq!(Arc::strong_count(&bell), 1, "the waker before is gone");
    drop(answerer);
    assert_eq!((rings(&bell), rings(&other)), (0, 1));
}

#[test]
fn an_ask_whose_asker_has_gone_never_begins() {
    let SlotEnds { asker, ask, answerer, bell } = ends::<u8>();
    drop(asker);
    assert!(ask.begin().is_none());
    drop((ask, answerer));
    assert_eq!((rings(&bell), Arc::strong_count(&bell)), (0, 1));
}

#[test]
fn giving_up_tells_an_ask_that_was_begun_from_one_that_never_will_be() {
    let SlotEnds { asker, ask, answerer: _unused, .. } = ends::<u8>();
    assert_eq!(asker.give_up(NotBegun::Timeout, AskCause::Timeout), Err(LATE));
    assert!(ask.begin().is_none());
    let SlotEnds { asker, ask, answerer, .. } = ends::<u8>();
    assert!(ask.begin().is_some());
    assert_eq!(asker.give_up(NotBegun::Timeout, AskCause::Timeout), Err(AskCause::Timeout));
    answerer.send(1);
    let SlotEnds { asker, ask, answerer, .. } = ends::<u8>();
    assert!(ask.begin().is_some());
    answerer.send(2);
    let answer = asker.give_up(NotBegun::Timeout, AskCause::Timeout);
    assert_eq!(answer, Ok(2), "it came in time");
}

#[test]
fn an_answerer_that_is_dropped_says_whether_the_ask_was_begun() {
    let SlotEnds { mut asker, answerer, bell, .. } = ends::<u8>();
    drop(answerer);
    assert_eq!((rings(&bell), poll(&mut asker, &bell)), (1, Poll::Ready(Err(STOPPED))));
    let SlotEnds { mut asker, ask, answerer, bell } = ends::<u8>();
    assert!(ask.begin().is_some());
    drop(answerer);
    let lost = Poll::Ready(Err(AskCause::NoReply));
    assert_eq!((rings(&bell), poll(&mut asker, &bell)), (1, lost));
}

#[tokio::test(start_paused = true)]
async fn an_ask_that_is_found_too_late_never_begins_and_its_asker_is_told() {
    let SlotEnds { mut asker, ask, answerer, bell } = ends::<u8>();
    tokio::time::advance(SECOND).await;
    assert!(ask.begin().is_none());
    assert_eq!((rings(&bell), poll(&mut asker, &bell)), (1, Poll::Ready(Err(LATE))));
    drop(answerer);
    assert_eq!(rings(&bell), 1);
}

/// An answer whose drop accesses the slot must not deadlock.
#[test]
fn an_answer_is_dropped_without_the_lock() {
    struct ReentrantAnswer(Option<Arc<dyn OpenAsk>>);
    impl Drop for ReentrantAnswer {
        fn drop(&mut self) {
            assert!(self.0.take().unwrap().begin().is_none());
        }
    }
    let SlotEnds { asker, ask, answerer, .. } = ends::<ReentrantAnswer>();
    drop(asker);
    answerer.send(ReentrantAnswer(Some(ask)));
    let SlotEnds { asker, ask, answerer, .. } = ends::<ReentrantAnswer>();
    answerer.send(ReentrantAnswer(Some(ask)));
    drop(asker);
}

/// The asker gives up and the actor begins at the same time.
#[test]
fn either_the_actor_begins_or_its_asker_knows_that_it_never_will() {
    for _ in 0..500 {
        let (asker, answerer, ask) =
            slot::<u8>(Instant::now() + SECOND, Waker::noop().clone(), None);
        let actor = std::thread::spawn(move || {
            let begun = ask.begin().is_some();
            drop(answerer);
            begun
        });
        let error = asker.give_up(NotBegun::Timeout, AskCause::Timeout).unwrap_err();
        let begun = actor.join().unwrap();
        // The actor may drop the answerer before the asker gives up, whether it has begun the ask
        // or not.
        assert_eq!(begun, matches!(error, AskCause::Timeout | AskCause::NoReply), "{error}");
    }
}
