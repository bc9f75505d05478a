//! Threads that may block, for work that takes a device long (RE-7); and the right runtime for a
//! future that is polled elsewhere.

use std::future::poll_fn;
use std::io;
use std::pin::pin;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::fabric::FabricError;
use crate::fabric::one_sided::Making;

/// Drops something by a thread that may block; here, if the runtime has ended. The returned handle
/// is ready when that is done, and need not be kept.
pub(super) fn drop_aside(runtime: &Handle, it: impl Send + 'static) -> JoinHandle<()> {
    runtime.spawn_blocking(move || drop(it))
}

/// A value that is dropped by a thread that may block if it `is_slow`, even if its task is ended.
pub(super) struct Aside<T: Send + 'static> {
    it: Option<T>,
    is_slow: bool,
    runtime: Handle,
}

impl<T: Send + 'static> Aside<T> {
    pub(super) fn new(it: T, is_slow: bool, runtime: &Handle) -> Self {
        Aside { it: Some(it), is_slow, runtime: runtime.clone() }
    }

    pub(super) fn get(&mut self) -> Option<&mut T> {
        self.it.as_mut()
    }

    pub(super) fn take(mut self) -> Option<T> {
        self.it.take()
    }
}

impl<T: Send + 'static> Drop for Aside<T> {
    fn drop(&mut self) {
        if let Some(it) = self.it.take()
            && self.is_slow
        {
            drop_aside(&self.runtime, it);
        }
    }
}

/// Waits until the value is made, by a thread that may block if that is slow.
///
/// # Errors
/// [`FabricError`]: it was not made.
///
/// # Cancel safety
/// When the future is dropped it is made, and dropped by a thread that may block.
pub(super) async fn made<T: Send + 'static>(
    runtime: &Handle,
    making: Making<T>,
) -> Result<T, FabricError> {
    match making {
        Making::Done(made) => made,
        Making::Slow(make) => {
            let own = runtime.clone();
            // (A task that ends after this drops it on its own thread: so it is an `Aside`.)
            let make = move || make().map(|made| Aside::new(made, true, &own));
            let lost = |lost| FabricError::Connect(io::Error::other(lost));
            let made = runtime.spawn_blocking(make).await.map_err(lost)??;
            made.take().ok_or(FabricError::Offer("there is none"))
        }
    }
}

/// Polls a future here whose sockets and tasks are for another runtime.
pub(crate) async fn within<F: Future>(runtime: &Handle, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let _entered = runtime.enter();
        future.as_mut().poll(cx)
    })
    .await
}
