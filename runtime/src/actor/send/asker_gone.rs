//! Ends the asks that a handler makes when the handler's own asker has gone.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use pin_project_lite::pin_project;
use slab::Slab;

use crate::actor::ReplyTo;

/// Tells the asks of a handler that the handler's asker has gone: it dropped its ask, or its node
/// is down.
#[derive(Default)]
pub(crate) struct AskerGone(Mutex<State>);

#[derive(Default)]
struct State {
    has_gone: bool,
    waiting: Slab<Waker>,
}

/// The key of a waiting ask's waker in [`AskerGone`]. Small, because every ask has room for one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WakerKey(NonZeroU32);

impl WakerKey {
    fn of(index: usize) -> Option<Self> {
        u32::try_from(index + 1).ok().and_then(NonZeroU32::new).map(WakerKey)
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl AskerGone {
    /// Waits until the asker has gone. Pass the same `place` to each poll of the same wait: `None`
    /// at first, then the key of its waker. When the wait ends, pass it to [`leave`](Self::leave).
    pub(crate) fn poll(&self, place: &mut Option<WakerKey>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock();
        if state.has_gone {
            return Poll::Ready(());
        }
        let old = match *place {
            None => {
                *place = WakerKey::of(state.waiting.insert(cx.waker().clone()));
                return Poll::Pending;
            }
            Some(place) => match state.waiting.get_mut(place.index()) {
                Some(waker) if !waker.will_wake(cx.waker()) => {
                    Some(std::mem::replace(waker, cx.waker().clone()))
                }
                _ => None,
            },
        };
        drop(state);
        drop(old);
        Poll::Pending
    }

    /// Ends a wait: removes its waker.
    pub(crate) fn leave(&self, place: Option<WakerKey>) {
        let old = place.and_then(|place| self.0.lock().waiting.try_remove(place.index()));
        drop(old);
    }

    fn tell(&self) {
        let mut state = self.0.lock();
        state.has_gone = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

thread_local! {
    /// The signal of the handler that this thread polls, if the handler answers an asker;
    /// `Some(None)` until one of its asks first needs the signal.
    static ASKER: Cell<Option<Option<Arc<AskerGone>>>> = const { Cell::new(None) };
}

/// Returns the signal that the asker of the calling handler has gone. Returns `None` if the caller
/// is not the future of a handler that answers an asker, for example if the handler takes the
/// `ReplyTo`.
pub(crate) fn asker_gone() -> Option<Arc<AskerGone>> {
    let mut asker = ASKER.take();
    let gone = asker.as_mut().map(|gone| gone.get_or_insert_default().clone());
    ASKER.set(asker);
    gone
}

/// Calls `act` outside the current handler, so that asks of `act` do not depend on the handler's
/// asker.
pub(crate) fn apart<T>(act: impl FnOnce() -> T) -> T {
    let asker = ASKER.take();
    let done = act();
    ASKER.set(asker);
    done
}

pin_project! {
    /// The future of a handler whose output is the answer to its asker.
    pub struct AnswerFuture<'a, R, F> {
        reply: &'a ReplyTo<R>,
        gone: Option<Arc<AskerGone>>,
        #[pin]
        handler: F,
    }
}

/// Wraps `handler`, whose output is the answer for `reply`. The asks that the handler makes end
/// when its asker has gone.
pub fn answering<R, F: Future>(reply: &ReplyTo<R>, handler: F) -> AnswerFuture<'_, R, F> {
    AnswerFuture { reply, gone: None, handler }
}

impl<R, F: Future> Future for AnswerFuture<'_, R, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        if !this.reply.is_awaited() {
            return this.handler.poll(cx);
        }
        let polled = {
            let _lent = AskerGuard::of(this.gone);
            this.handler.poll(cx)
        };
        if polled.is_pending()
            && let Some(gone) = this.gone
            && this.reply.poll_gone(cx).is_ready()
        {
            gone.tell();
        }
        polled
    }
}

/// Keeps the signal of a handler in [`ASKER`] while the handler is polled. Dropping it restores the
/// previous content.
struct AskerGuard<'a> {
    gone: &'a mut Option<Arc<AskerGone>>,
    outer: Option<Option<Arc<AskerGone>>>,
}

impl<'a> AskerGuard<'a> {
    fn of(gone: &'a mut Option<Arc<AskerGone>>) -> Self {
        let outer = ASKER.replace(Some(gone.take()));
        AskerGuard { gone, outer }
    }
}

impl Drop for AskerGuard<'_> {
    fn drop(&mut self) {
        *self.gone = ASKER.replace(self.outer.take()).flatten();
    }
}
