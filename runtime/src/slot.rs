//! The slot through which the answer to an ask of this node comes back.
//!
//! One allocation, shared by three: the asker ([`Asker`]), the letter in the mailbox (as [`Ask`],
//! which is asked before the actor begins), and the way back in the envelope ([`Answerer`]).
//!
//! - **RS-1 begun or given up**: both are decided under one lock. Either the actor begins the ask,
//!   or its asker knows that the actor never will.
//! - **RS-2 nothing of a user under the lock**: wakers are woken, and answers dropped, without it.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::{AskError, NotBegun};

/// An ask as its actor sees it before the handler.
pub(crate) trait Ask: Send + Sync {
    /// Marks the ask as begun. Returns false when it must not be handled: its asker has given up,
    /// or does so now, because the deadline has passed.
    fn begin(&self) -> bool;
}

struct Slot<R> {
    /// When the asker gives up.
    deadline: Instant,
    state: Mutex<State<R>>,
}

enum State<R> {
    /// No answer yet. The waker is the asker's, once it waits.
    Open { begun: bool, waker: Option<Waker> },
    /// The answer, not taken yet.
    Answered(R),
    /// There will be none.
    Lost(AskError),
    /// The asker has its answer, or has given up.
    Done,
}

/// The asker's end, empty once the ask has ended. Dropped, it gives up.
pub(crate) struct Asker<R>(Option<Arc<Slot<R>>>);

/// The actor's end, in the envelope; empty once it has answered. Dropped unused, it tells the asker that no answer comes.
pub(crate) struct Answerer<R>(Option<Arc<Slot<R>>>);

/// Makes a slot for an ask that ends at `deadline`: the three that share it.
pub(crate) fn slot<R: Send + 'static>(deadline: Instant) -> (Asker<R>, Answerer<R>, Arc<dyn Ask>) {
    let state = Mutex::new(State::Open { begun: false, waker: None });
    let slot = Arc::new(Slot { deadline, state });
    (Asker(Some(slot.clone())), Answerer(Some(slot.clone())), slot)
}

impl<R> Slot<R> {
    /// Ends an open ask; a later end changes nothing. Returns what was given in vain.
    fn end(&self, end: State<R>) -> Option<State<R>> {
        let mut state = self.state.lock();
        if !matches!(*state, State::Open { .. }) {
            return Some(end);
        }
        let old = std::mem::replace(&mut *state, end);
        drop(state);
        if let State::Open { waker: Some(waker), .. } = old {
            waker.wake();
        }
        None
    }
}

impl<R: Send> Ask for Slot<R> {
    fn begin(&self) -> bool {
        if self.deadline <= Instant::now() {
            let late = State::Lost(AskError::NotBegun(NotBegun::Timeout));
            drop(self.end(late));
            return false;
        }
        match &mut *self.state.lock() {
            State::Open { begun, .. } => {
                *begun = true;
                true
            }
            State::Answered(_) | State::Lost(_) | State::Done => false,
        }
    }
}

impl<R> Asker<R> {
    /// Waits for the answer.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<R, AskError>> {
        let Some(slot) = &self.0 else { return Poll::Ready(Err(AskError::NoReply)) };
        let mut state = slot.state.lock();
        if let State::Open { waker, .. } = &mut *state {
            if waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                return Poll::Pending;
            }
            let old = waker.replace(cx.waker().clone());
            drop(state);
            drop(old);
            return Poll::Pending;
        }
        let end = std::mem::replace(&mut *state, State::Done);
        drop(state);
        self.0 = None;
        match end {
            State::Answered(answer) => Poll::Ready(Ok(answer)),
            State::Lost(error) => Poll::Ready(Err(error)),
            State::Open { .. } | State::Done => Poll::Ready(Err(AskError::NoReply)),
        }
    }

    /// Gives up (RS-1): `unbegun` when the actor never begins the ask, `begun` when it has. An end
    /// that came before is given as it is.
    pub(crate) fn give_up(mut self, unbegun: NotBegun, begun: AskError) -> Result<R, AskError> {
        let Some(slot) = self.0.take() else { return Err(begun) };
        let old = std::mem::replace(&mut *slot.state.lock(), State::Done);
        match old {
            State::Open { begun: false, .. } => Err(AskError::NotBegun(unbegun)),
            State::Open { begun: true, .. } | State::Done => Err(begun),
            State::Answered(answer) => Ok(answer),
            State::Lost(error) => Err(error),
        }
    }
}

impl<R> Drop for Asker<R> {
    fn drop(&mut self) {
        let Some(slot) = self.0.take() else { return };
        let old = std::mem::replace(&mut *slot.state.lock(), State::Done);
        drop(old);
    }
}

impl<R> Answerer<R> {
    /// Gives the answer; to an asker that gave up, nothing.
    pub(crate) fn send(mut self, answer: R) {
        if let Some(slot) = self.0.take() {
            drop(slot.end(State::Answered(answer)));
        }
    }
}

impl<R> Drop for Answerer<R> {
    fn drop(&mut self) {
        let Some(slot) = self.0.take() else { return };
        let mut state = slot.state.lock();
        let State::Open { begun, waker } = &mut *state else { return };
        let error = if *begun { AskError::NoReply } else { AskError::NotBegun(NotBegun::Stopped) };
        let waker = waker.take();
        // Of the open state only the waker had to be dropped without the lock.
        *state = State::Lost(error);
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const STOPPED: AskError = AskError::NotBegun(NotBegun::Stopped);
    const LATE: AskError = AskError::NotBegun(NotBegun::Timeout);

    #[derive(Default)]
    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct Ends<R> {
        asker: Asker<R>,
        ask: Arc<dyn Ask>,
        answerer: Answerer<R>,
        bell: Arc<Bell>,
    }

    /// An ask that waits.
    fn ends<R: Send + 'static>() -> Ends<R> {
        let (asker, answerer, ask) = slot(Instant::now() + SECOND);
        let mut ends = Ends { ask, asker, answerer, bell: Arc::default() };
        assert!(poll(&mut ends.asker, &ends.bell).is_pending());
        ends
    }

    fn poll<R>(asker: &mut Asker<R>, bell: &Arc<Bell>) -> Poll<Result<R, AskError>> {
        asker.poll(&mut Context::from_waker(&Waker::from(bell.clone())))
    }

    fn rings(bell: &Bell) -> usize {
        bell.0.load(Ordering::Relaxed)
    }

    #[test]
    fn an_answer_wakes_its_asker_once() {
        let Ends { mut asker, ask, answerer, bell } = ends();
        assert!(ask.begin());
        answerer.send(7);
        assert_eq!((rings(&bell), poll(&mut asker, &bell)), (1, Poll::Ready(Ok(7))));
    }

    #[test]
    fn the_waker_of_the_last_poll_is_woken() {
        let Ends { mut asker, answerer, bell, .. } = ends::<u8>();
        let other = Arc::<Bell>::default();
        assert!(poll(&mut asker, &other).is_pending());
        assert_eq!(Arc::strong_count(&bell), 1, "the waker before is gone");
        drop(answerer);
        assert_eq!((rings(&bell), rings(&other)), (0, 1));
    }

    /// RS-1.
    #[test]
    fn an_ask_whose_asker_has_gone_never_begins() {
        let Ends { asker, ask, answerer, bell } = ends::<u8>();
        drop(asker);
        assert!(!ask.begin());
        drop((ask, answerer));
        assert_eq!((rings(&bell), Arc::strong_count(&bell)), (0, 1));
    }

    /// RS-1.
    #[test]
    fn giving_up_tells_an_ask_that_was_begun_from_one_that_never_will_be() {
        let Ends { asker, ask, answerer: _unused, .. } = ends::<u8>();
        assert_eq!(asker.give_up(NotBegun::Timeout, AskError::Timeout), Err(LATE));
        assert!(!ask.begin());
        let Ends { asker, ask, answerer, .. } = ends::<u8>();
        assert!(ask.begin());
        assert_eq!(asker.give_up(NotBegun::Timeout, AskError::Timeout), Err(AskError::Timeout));
        answerer.send(1);
        let Ends { asker, ask, answerer, .. } = ends::<u8>();
        assert!(ask.begin());
        answerer.send(2);
        let answer = asker.give_up(NotBegun::Timeout, AskError::Timeout);
        assert_eq!(answer, Ok(2), "it came in time");
    }

    #[test]
    fn an_answerer_that_is_dropped_says_whether_the_ask_was_begun() {
        let Ends { mut asker, answerer, bell, .. } = ends::<u8>();
        drop(answerer);
        assert_eq!((rings(&bell), poll(&mut asker, &bell)), (1, Poll::Ready(Err(STOPPED))));
        let Ends { mut asker, ask, answerer, bell } = ends::<u8>();
        assert!(ask.begin());
        drop(answerer);
        let lost = Poll::Ready(Err(AskError::NoReply));
        assert_eq!((rings(&bell), poll(&mut asker, &bell)), (1, lost));
    }

    #[tokio::test(start_paused = true)]
    async fn an_ask_that_is_found_too_late_never_begins_and_its_asker_is_told() {
        let Ends { mut asker, ask, answerer, bell } = ends::<u8>();
        tokio::time::advance(SECOND).await;
        assert!(!ask.begin());
        assert_eq!((rings(&bell), poll(&mut asker, &bell)), (1, Poll::Ready(Err(LATE))));
        drop(answerer);
        assert_eq!(rings(&bell), 1);
    }

    /// RS-2: an answer whose drop looks at the slot again would wait for itself for ever.
    #[test]
    fn an_answer_is_dropped_without_the_lock() {
        struct Nosy(Option<Arc<dyn Ask>>);
        impl Drop for Nosy {
            fn drop(&mut self) {
                assert!(!self.0.take().unwrap().begin());
            }
        }
        let Ends { asker, ask, answerer, .. } = ends::<Nosy>();
        drop(asker);
        answerer.send(Nosy(Some(ask)));
        let Ends { asker, ask, answerer, .. } = ends::<Nosy>();
        answerer.send(Nosy(Some(ask)));
        drop(asker);
    }

    /// RS-1, with both at the same time.
    #[test]
    fn either_the_actor_begins_or_its_asker_knows_that_it_never_will() {
        for _ in 0..500 {
            let (asker, answerer, ask) = slot::<u8>(Instant::now() + SECOND);
            let actor = std::thread::spawn(move || {
                let begun = ask.begin();
                drop(answerer);
                begun
            });
            let error = asker.give_up(NotBegun::Timeout, AskError::Timeout).unwrap_err();
            let begun = actor.join().unwrap();
            // The actor may drop the answerer, begun or not, before the asker gives up.
            assert_eq!(begun, matches!(error, AskError::Timeout | AskError::NoReply), "{error}");
        }
    }
}
