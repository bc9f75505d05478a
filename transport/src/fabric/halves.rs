//! The halves of a queue pair that is one value. They share it under a lock, which no waker is
//! called under.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::{
    Completion, CompletionQueue, Halves, Notify, PostError, RecvQueue, SendQueue, SendRequest,
};
use crate::memory::Slot;

/// A connected queue pair in one piece.
pub(super) trait Whole: Send + 'static {
    /// [`SendQueue::post`].
    fn post_send(&mut self, batch: &mut Vec<SendRequest>) -> Result<(), PostError>;

    /// [`RecvQueue::post`].
    fn post_recv(&mut self, slots: &mut Vec<Slot>) -> Result<(), PostError>;

    /// [`CompletionQueue::poll`].
    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> usize;

    /// [`CompletionQueue::arm`].
    fn arm(&mut self, on: Notify);

    /// Looks for the notification. Before it says [`Readiness::Pending`] it registers for whatever
    /// can bring it.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Readiness;

    /// [`CompletionQueue::close`].
    fn close(&mut self);

    /// The task to wake after a post, which may have been another one's.
    fn waiter(&mut self) -> Option<Waker>;
}

/// Whether the notification came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readiness {
    /// It did.
    Ready,
    /// It did not.
    Pending,
    /// It did not yet, and there is more to look at: other tasks should run before the next call.
    Busy,
}

/// One of the halves; the trait it is used by says which.
struct Half<Q>(Arc<Mutex<Q>>);

/// Takes a queue pair apart.
pub(super) fn halves(queue_pair: impl Whole) -> Halves {
    let shared = Arc::new(Mutex::new(queue_pair));
    Halves {
        send: Box::new(Half(shared.clone())),
        recv: Box::new(Half(shared.clone())),
        done: Box::new(Half(shared)),
    }
}

impl<Q: Whole> Half<Q> {
    /// Posts, then wakes whoever waits for the completions: it may be another task.
    fn post(&self, post: impl FnOnce(&mut Q) -> Result<(), PostError>) -> Result<(), PostError> {
        let (result, waiter) = {
            let mut queue_pair = self.0.lock();
            (post(&mut queue_pair), queue_pair.waiter())
        };
        if let Some(waiter) = waiter {
            waiter.wake();
        }
        result
    }
}

impl<Q: Whole> SendQueue for Half<Q> {
    fn post(&mut self, batch: &mut Vec<SendRequest>) -> Result<(), PostError> {
        Half::post(self, |queue_pair| queue_pair.post_send(batch))
    }
}

impl<Q: Whole> RecvQueue for Half<Q> {
    fn post(&mut self, slots: &mut Vec<Slot>) -> Result<(), PostError> {
        Half::post(self, |queue_pair| queue_pair.post_recv(slots))
    }
}

impl<Q: Whole> CompletionQueue for Half<Q> {
    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> usize {
        self.0.lock().poll(out, max)
    }

    fn arm(&mut self, on: Notify) {
        self.0.lock().arm(on);
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let readiness = self.0.lock().poll_ready(cx);
        match readiness {
            Readiness::Ready => return Poll::Ready(()),
            Readiness::Busy => cx.waker().wake_by_ref(),
            Readiness::Pending => {}
        }
        Poll::Pending
    }

    fn close(&mut self) {
        self.0.lock().close();
    }
}
