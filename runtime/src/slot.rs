//! The slot through which the answer to an ask of this node returns.
//!
//! One allocation with three owners: the asker ([`AskerEnd`]), the message in the mailbox
//! ([`OpenAsk`], which is begun before the handler runs), and the envelope, with which the handler
//! answers ([`Answerer`]).
//!
//! Under one lock, either the actor begins the ask, or its asker learns that the actor never will.
//! Wakers are woken and answers are dropped outside of the lock.

#[cfg(test)]
mod tests;

use std::any::Any;
use std::cell::Cell;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::{AskCause, NotBegun};
use crate::spans::Scope;
use crate::waits::{Asker, HandledAsk};

/// An ask as its actor sees it before the handler runs.
pub(crate) trait OpenAsk: HandledAsk {
    /// Marks the ask as begun, and returns its deadline. Returns `None` if it must not be handled,
    /// because its asker has given up, or gives up now because the deadline has passed.
    fn begin(&self) -> Option<Option<Instant>>;

    /// Returns true if a handler waited for it when it was sent.
    fn is_of_handler(&self) -> bool;

    /// Returns the scope in which it was sent, if it is known.
    fn sent_in(&self) -> Option<&Scope> {
        None
    }

    /// Returns true if it is an ask, and false for a tell that has a scope.
    fn is_ask(&self) -> bool {
        true
    }
}

/// An ask or tell with the scope in which it was sent. Created only if a subscriber takes spans of
/// messages, so that other messages carry no extra data for scopes.
struct ScopedAsk {
    ask: Option<Arc<dyn OpenAsk>>,
    scope: Box<Scope>,
}

/// Combines the ask of a message with the scope in which the message is sent. A tell has no ask,
/// but may have a scope. Without a scope, returns `ask` unchanged.
#[inline]
pub(crate) fn scoped(
    ask: Option<Arc<dyn OpenAsk>>,
    scope: Option<Box<Scope>>,
) -> Option<Arc<dyn OpenAsk>> {
    match scope {
        None => ask,
        Some(scope) => Some(in_scope(ask, scope)),
    }
}

#[cold]
fn in_scope(ask: Option<Arc<dyn OpenAsk>>, scope: Box<Scope>) -> Arc<dyn OpenAsk> {
    Arc::new(ScopedAsk { ask, scope })
}

impl HandledAsk for ScopedAsk {
    fn asker(&self) -> Option<Asker> {
        self.ask.as_ref()?.asker()
    }
}

impl OpenAsk for ScopedAsk {
    fn begin(&self) -> Option<Option<Instant>> {
        self.ask.as_ref().map_or(Some(None), |ask| ask.begin())
    }

    fn is_of_handler(&self) -> bool {
        self.ask.as_ref().is_some_and(|ask| ask.is_of_handler())
    }

    fn sent_in(&self) -> Option<&Scope> {
        Some(&self.scope)
    }

    fn is_ask(&self) -> bool {
        self.ask.is_some()
    }
}

/// An ask whose handler runs on the asker's thread and answers at once. It has no slot.
pub(crate) struct AskInPlace<'a> {
    /// The index of the message in the actor's table.
    pub(crate) route: u16,
    /// An `Option` of the message, which the handler takes when it begins.
    pub(crate) message: &'a mut dyn Any,
    /// An `Option` of the answer: `None` if the handler panics.
    pub(crate) answer: &'a mut dyn Any,
    /// The asker's deadline.
    pub(crate) deadline: Instant,
}

thread_local! {
    /// The next ask that this thread begins was made just now, so there is no need to read the
    /// clock.
    static IS_FRESH: Cell<bool> = const { Cell::new(false) };
}

/// Calls `act`. The first ask that `act` begins was made just now.
pub(crate) fn first_is_fresh<T>(act: impl FnOnce() -> T) -> T {
    IS_FRESH.set(true);
    let done = act();
    IS_FRESH.set(false);
    done
}

struct Slot<R> {
    /// The asker's deadline.
    deadline: Instant,
    /// The handler that waits for the answer, if any.
    asker: Option<Asker>,
    state: Mutex<State<R>>,
}

enum State<R> {
    /// No answer yet. The waker is the asker's; `gone` is woken when the asker has given up.
    Open { begun: bool, waker: Waker, gone: Option<Waker> },
    /// The answer, before the asker takes it.
    Answered(R),
    /// There will be no answer. Boxed, because it is large and most asks are answered.
    Lost(Box<AskCause>),
    /// The asker has its answer, or has given up.
    Done,
}

/// The asker's end, empty once the ask has ended. Dropping it gives the ask up.
pub(crate) struct AskerEnd<R>(Option<Arc<Slot<R>>>);

/// The actor's end, in the envelope; empty once it has answered. Dropping it earlier tells the
/// asker that no answer comes.
pub(crate) struct Answerer<R>(Option<Arc<Slot<R>>>);

/// Creates a slot for an ask with this deadline and the waker of its asker. Returns its three
/// owners.
pub(crate) fn slot<R: Send + 'static>(
    deadline: Instant,
    waker: Waker,
    asker: Option<Asker>,
) -> (AskerEnd<R>, Answerer<R>, Arc<dyn OpenAsk>) {
    let state = Mutex::new(State::Open { begun: false, waker, gone: None });
    let slot = Arc::new(Slot { deadline, asker, state });
    (AskerEnd(Some(slot.clone())), Answerer(Some(slot.clone())), slot)
}

impl<R> State<R> {
    #[cold]
    fn lost(error: AskCause) -> Self {
        State::Lost(Box::new(error))
    }
}

impl<R> Slot<R> {
    /// Ends the ask because its asker has given up, and wakes the task that waits for this. Returns
    /// the previous state.
    fn leave(&self) -> State<R> {
        let mut old = std::mem::replace(&mut *self.state.lock(), State::Done);
        if let State::Open { gone, .. } = &mut old {
            gone.take().into_iter().for_each(Waker::wake);
        }
        old
    }

    /// Sets the state of an open ask to `end`, and wakes its asker. If the ask has ended before,
    /// changes nothing and returns `end`.
    fn end(&self, end: State<R>) -> Option<State<R>> {
        let mut state = self.state.lock();
        if !matches!(*state, State::Open { .. }) {
            return Some(end);
        }
        let old = std::mem::replace(&mut *state, end);
        drop(state);
        if let State::Open { waker, gone, .. } = old {
            waker.wake();
            gone.into_iter().for_each(Waker::wake);
        }
        None
    }
}

impl<R: Send> HandledAsk for Slot<R> {
    fn asker(&self) -> Option<Asker> {
        // Once the ask is answered, its asker does not wait any more.
        let asker = self.asker.as_ref()?;
        matches!(&*self.state.lock(), State::Open { .. }).then(|| asker.clone())
    }
}

impl<R: Send> OpenAsk for Slot<R> {
    fn begin(&self) -> Option<Option<Instant>> {
        if !IS_FRESH.replace(false) && self.deadline <= Instant::now() {
            drop(self.end(State::lost(AskCause::NotBegun(NotBegun::Timeout))));
            return None;
        }
        match &mut *self.state.lock() {
            State::Open { begun, .. } => {
                *begun = true;
                Some(Some(self.deadline))
            }
            State::Answered(_) | State::Lost(_) | State::Done => None,
        }
    }

    fn is_of_handler(&self) -> bool {
        self.asker.is_some()
    }
}

impl<R> AskerEnd<R> {
    /// Waits for the answer.
    #[inline]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<R, AskCause>> {
        let Some(slot) = &self.0 else { return Poll::Ready(Err(AskCause::NoReply)) };
        let mut state = slot.state.lock();
        if let State::Open { waker, .. } = &mut *state {
            if !waker.will_wake(cx.waker()) {
                let old = std::mem::replace(waker, cx.waker().clone());
                drop(state);
                drop(old);
            }
            return Poll::Pending;
        }
        let end = std::mem::replace(&mut *state, State::Done);
        drop(state);
        self.0 = None;
        match end {
            // The error is a separate allocation, because it is large.
            State::Answered(answer) => Poll::Ready(Ok(answer)),
            State::Lost(error) => Poll::Ready(Err(*error)),
            State::Open { .. } | State::Done => Poll::Ready(Err(AskCause::NoReply)),
        }
    }

    /// Gives up the ask. Returns the answer or error if there is one already. Otherwise returns the
    /// error `begun` if the actor has begun the ask, and `unbegun` if it never will.
    pub(crate) fn give_up(mut self, unbegun: NotBegun, begun: AskCause) -> Result<R, AskCause> {
        let Some(slot) = self.0.take() else { return Err(begun) };
        match slot.leave() {
            State::Open { begun: false, .. } => Err(AskCause::NotBegun(unbegun)),
            State::Open { begun: true, .. } | State::Done => Err(begun),
            State::Answered(answer) => Ok(answer),
            State::Lost(error) => Err(*error),
        }
    }
}

impl<R> Drop for AskerEnd<R> {
    fn drop(&mut self) {
        let Some(slot) = self.0.take() else { return };
        drop(slot.leave());
    }
}

impl<R: Send + 'static> Answerer<R> {
    /// Returns the ask if a handler waits for the answer.
    pub(crate) fn asked(&self) -> Option<Arc<dyn HandledAsk>> {
        let slot = self.0.as_ref().filter(|slot| slot.asker.is_some())?;
        Some(slot.clone())
    }
}

impl<R> Answerer<R> {
    /// Returns the asker's deadline.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.0.as_ref().map(|slot| slot.deadline)
    }

    /// Returns true if the asker has given up.
    pub(crate) fn is_given_up(&self) -> bool {
        self.0.as_ref().is_some_and(|slot| !matches!(*slot.state.lock(), State::Open { .. }))
    }

    /// Waits until the asker has given up. Keeps the waker of the last poll.
    pub(crate) fn poll_given_up(&self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(slot) = &self.0 else { return Poll::Ready(()) };
        let mut state = slot.state.lock();
        let State::Open { gone, .. } = &mut *state else { return Poll::Ready(()) };
        let old = gone.replace(cx.waker().clone());
        drop(state);
        drop(old);
        Poll::Pending
    }

    /// Sends the answer; drops it if the asker has given up.
    pub(crate) fn send(mut self, answer: R) {
        if let Some(slot) = self.0.take() {
            drop(slot.end(State::Answered(answer)));
        }
    }

    /// Ends the ask without an answer.
    pub(crate) fn fail(mut self, cause: AskCause) {
        if let Some(slot) = self.0.take() {
            drop(slot.end(State::lost(cause)));
        }
    }
}

impl<R> Drop for Answerer<R> {
    fn drop(&mut self) {
        let Some(slot) = self.0.take() else { return };
        let begun = match &*slot.state.lock() {
            State::Open { begun, .. } => *begun,
            State::Answered(_) | State::Lost(_) | State::Done => return,
        };
        let error = match begun {
            // A panic drops the answerer, mostly a panic of its handler.
            true if thread::panicking() => AskCause::Panicked,
            // The asker is about to report a time-out, too, which may be the reason for this drop.
            true if slot.deadline <= Instant::now() => AskCause::Timeout,
            true => AskCause::NoReply,
            false => AskCause::NotBegun(NotBegun::Stopped),
        };
        // Only the actor's side can begin it, and does not any more: `begun` cannot change.
        drop(slot.end(State::lost(error)));
    }
}
