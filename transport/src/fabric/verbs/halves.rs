//! The halves of a queue pair. They share it under a lock, which no waker is called under.

use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;

use super::connected::Connected;
use crate::fabric::{
    Completion, CompletionQueue, Halves, Notify, PostError, RecvQueue, SendQueue, SendRequest,
};
use crate::memory::Slot;

/// One of the halves; the trait it is used by says which.
struct Half(Arc<Mutex<Connected>>);

/// Takes a queue pair apart.
pub(super) fn halves(connected: Connected) -> Halves {
    let shared = Arc::new(Mutex::new(connected));
    Halves {
        send: Box::new(Half(shared.clone())),
        recv: Box::new(Half(shared.clone())),
        done: Box::new(Half(shared)),
    }
}

impl Half {
    /// Posts, then wakes whoever waits for the completions: it may be another task.
    fn post(
        &self,
        post: impl FnOnce(&mut Connected) -> Result<(), PostError>,
    ) -> Result<(), PostError> {
        let (result, waiter) = {
            let mut connected = self.0.lock();
            (post(&mut connected), connected.waiter())
        };
        if let Some(waiter) = waiter {
            waiter.wake();
        }
        result
    }
}

impl SendQueue for Half {
    fn post(&mut self, batch: &mut Vec<SendRequest>) -> Result<(), PostError> {
        Half::post(self, |connected| connected.post_send(batch))
    }
}

impl RecvQueue for Half {
    fn post(&mut self, slots: &mut Vec<Slot>) -> Result<(), PostError> {
        Half::post(self, |connected| connected.post_recv(slots))
    }
}

impl CompletionQueue for Half {
    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> usize {
        self.0.lock().poll(out, max)
    }

    fn arm(&mut self, on: Notify) {
        self.0.lock().arm(on);
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.lock().poll_ready(cx)
    }

    fn close(&mut self) {
        self.0.lock().close();
    }
}
