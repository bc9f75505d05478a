//! A thread of a node's own, with a runtime that it alone drives.

use std::io;
use std::thread::{Builder, JoinHandle};

use tokio::runtime::{self, Handle};
use tokio::sync::oneshot;

/// A thread that drives a runtime until this is dropped. Dropping it does not wait.
pub(super) struct Thread {
    thread: JoinHandle<()>,
    /// Dropped to end it.
    stop: oneshot::Sender<()>,
    /// Dropped by it at its end.
    ended: oneshot::Receiver<()>,
}

impl Thread {
    /// Starts one; gives its runtime, too. (The system shows the first 15 bytes of the name.)
    pub(super) async fn start(name: String) -> io::Result<(Self, Handle)> {
        let (stop, stopped) = oneshot::channel();
        let (ending, ended) = oneshot::channel();
        let (started, start) = oneshot::channel();
        let thread = Builder::new().name(name).spawn(move || {
            drive(started, stopped);
            drop(ending);
        })?;
        // It drops the sender without a word only when it panics.
        let runtime = start.await.map_err(io::Error::other)??;
        Ok((Thread { thread, stop, ended }, runtime))
    }

    /// Ends it, and waits until it has. Not to be called on it.
    pub(super) async fn end(self) {
        drop(self.stop);
        // Never sent: dropped as the last thing that the thread does.
        let _ = self.ended.await;
        if self.thread.join().is_err() {
            tracing::error!("the thread of a node panicked");
        }
    }
}

/// Drives a runtime, which lives and dies on its own thread: dropped in another runtime's task it
/// would panic.
fn drive(started: oneshot::Sender<io::Result<Handle>>, stopped: oneshot::Receiver<()>) {
    match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            // The task that started it may have given up: then it stops at once.
            let _ = started.send(Ok(runtime.handle().clone()));
            let _ = runtime.block_on(stopped);
            // The resolver of a name that no task waits for any more may take long.
            runtime.shutdown_background();
        }
        Err(error) => drop(started.send(Err(error))),
    }
}
