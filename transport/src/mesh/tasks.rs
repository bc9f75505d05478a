//! The tasks of a node's mesh: where they run, and that none outlives it.
//!
//! A node listens, dials, proves itself and sends heartbeats on a thread of its own, on which
//! nothing of its user's runs. So it lives for its peers as long as its process does, whatever
//! blocks the runtime that it was started on. The drivers of links, and their sockets, stay on that
//! runtime, beside the tasks that send and receive: no message changes threads for this. Where the
//! profile asks for it (`pinned_to`) they run on a thread of theirs instead. A simulated network
//! stays on one thread.

use std::io;
use std::sync::mpsc;
use std::thread::{self, JoinHandle as ThreadHandle};
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::net::UnixStream;
use tokio::runtime::{self, Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::task::{self, JoinHandle, JoinSet};
use tokio::time::{Instant, timeout, timeout_at};

use super::pinning;
use crate::config::Config;
use crate::log;
use crate::reach::within;
use crate::shield;

/// The tasks of a node's mesh.
pub(super) struct Tasks {
    /// The runtime on which they run.
    own: Handle,
    /// The runtime that the node was started on.
    application: Handle,
    /// The runtime of the drivers of links: `application`, or the runtime of a pinned thread.
    links: Handle,
    /// The threads that drive `own`, and `links` if it is pinned; none when they have been ended.
    threads: Mutex<Vec<Thread>>,
    /// `None` when they have been ended.
    running: Mutex<Option<JoinSet<()>>>,
}

impl Tasks {
    /// Creates an empty set of tasks. Starts their own thread, and a thread for the drivers if they
    /// are pinned, unless the network is simulated.
    ///
    /// # Errors
    /// The system gives no thread, or not what its runtime needs.
    ///
    /// # Panics
    /// In a runtime without I/O, which the sockets of links need.
    pub(super) async fn new(config: &Config) -> io::Result<Self> {
        let application = Handle::current();
        let [mut own, mut links] = [application.clone(), application.clone()];
        let mut threads = Vec::new();
        if !config.network.wire.is_simulated() {
            // Panics here, not at the first link, where the runtime has no I/O.
            drop(UnixStream::pair());
            let started = Thread::start(format!("ringpost-{}", config.name), None).await?;
            threads.push(started.0);
            own = started.1;
            if let Some(core) = config.profile.pinned_to {
                let started = Thread::start(format!("links-{}", config.name), Some(core)).await?;
                threads.push(started.0);
                links = started.1;
            }
        }
        let running = Mutex::new(Some(JoinSet::new()));
        Ok(Tasks { own, application, links, threads: Mutex::new(threads), running })
    }

    /// Starts a task, unless the tasks have been ended. When it panics, its state is dropped: its
    /// connection, and the link on it, end as [`Failed`](crate::cause::LinkCause::Failed).
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let task = shield::caught(task).map(|ended| {
            if ended.is_err() {
                log::error!("a task of a connection panicked, and its link ends: please report it");
            }
        });
        let mut running = self.running.lock();
        if let Some(running) = &mut *running {
            while running.try_join_next().is_some() {}
            running.spawn_on(task, &self.own);
        }
    }

    /// Runs a future whose sockets are for the tasks.
    pub(super) async fn own<F: Future>(&self, future: F) -> F::Output {
        within(&self.own, future).await
    }

    /// Runs a future whose sockets and tasks are for a link.
    pub(super) async fn links<F: Future>(&self, future: F) -> F::Output {
        within(&self.links, future).await
    }

    /// Returns the runtime of the links.
    pub(super) fn links_runtime(&self) -> &Handle {
        &self.links
    }

    /// Returns the runtime of the node alone.
    pub(super) fn own_runtime(&self) -> &Handle {
        &self.own
    }

    /// Returns a handle that is ready when the runtime that the node was started on has run a task,
    /// and fails when that runtime is gone. `None` if the tasks themselves run on it: they cannot
    /// tell.
    pub(super) fn sign(&self) -> Option<JoinHandle<()>> {
        (self.own.id() != self.application.id()).then(|| self.application.spawn(async {}))
    }

    /// Runs a future while the calling thread waits, for so long at most; not at all where the
    /// links cannot get on meanwhile: this thread drives them, or none does.
    pub(super) fn linger(
        &self,
        patience: Duration,
        future: impl Future<Output = ()> + Send + 'static,
    ) {
        let is_pinned = self.links.id() != self.application.id();
        let here = Handle::try_current().ok();
        let is_here = |runtime: &Handle| here.as_ref().is_some_and(|it| it.id() == runtime.id());
        let has_one_thread = self.links.runtime_flavor() == RuntimeFlavor::CurrentThread;
        if (has_one_thread && (!is_pinned || is_here(&self.links)))
            || is_here(&self.own)
            || thread::panicking()
        {
            return;
        }
        let (ending, ended) = mpsc::channel::<()>();
        let sign = self.links.spawn(async {});
        self.own.spawn(async move {
            // An error says that the runtime of the links is gone.
            let whole = async {
                if sign.await.is_ok() {
                    future.await
                }
            };
            let _ = timeout(patience, whole).await;
            drop(ending);
        });
        // Never sent: dropped when it is over.
        let wait = || _ = ended.recv();
        let is_worker = here.is_some_and(|it| it.runtime_flavor() == RuntimeFlavor::MultiThread);
        if is_worker && task::try_id().is_some() {
            // The driver may be the next task of this very thread. A task of a `LocalSet` cannot
            // hand it over, and then just waits.
            if shield::run(|| task::block_in_place(wait)).is_some() {
                return;
            }
        }
        wait();
    }

    /// Waits for all tasks, and aborts the remaining ones after `patience`. No task starts from now
    /// on.
    pub(super) async fn end(&self, patience: Duration) {
        let Some(mut running) = self.running.lock().take() else { return };
        let deadline = Instant::now() + patience;
        while let Ok(Some(_)) = timeout_at(deadline, running.join_next()).await {}
        running.shutdown().await;
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            thread.end().await;
        }
    }
}

/// A thread that drives a runtime until this is dropped. Dropping it does not wait.
struct Thread {
    thread: ThreadHandle<()>,
    /// Dropped to end it.
    stop: oneshot::Sender<()>,
    /// Dropped by it at its end.
    ended: oneshot::Receiver<()>,
}

impl Thread {
    /// Starts one, which stays on `core`; gives its runtime, too. (The system shows the first 15
    /// bytes of the name.)
    async fn start(name: String, core: Option<usize>) -> io::Result<(Self, Handle)> {
        let (stop, stopped) = oneshot::channel();
        let (ending, ended) = oneshot::channel();
        let (started, start) = oneshot::channel();
        let thread = thread::Builder::new().name(name).spawn(move || {
            drive(core, started, stopped);
            drop(ending);
        })?;
        // It drops the sender without a word only when it panics.
        let runtime = start.await.map_err(io::Error::other)??;
        Ok((Thread { thread, stop, ended }, runtime))
    }

    /// Ends it, and waits until it has. Not to be called on it.
    async fn end(self) {
        drop(self.stop);
        // Never sent: dropped as the last thing that the thread does.
        let _ = self.ended.await;
        if self.thread.join().is_err() {
            log::error!("the thread of the node panicked: please report it");
        }
    }
}

/// Drives a runtime, which lives and dies on its own thread: dropped in another runtime's task it
/// would panic.
fn drive(
    core: Option<usize>,
    started: oneshot::Sender<io::Result<Handle>>,
    stopped: oneshot::Receiver<()>,
) {
    let runtime = core.map(pinning::pin_to).transpose().and_then(|before| {
        let mut builder = runtime::Builder::new_current_thread();
        if let Some(before) = before {
            // Those are the threads that may block.
            builder.on_thread_start(move || before.restore());
        }
        builder.enable_all().build()
    });
    match runtime {
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// A thread that may block has all cores, even if a pinned thread starts it.
    #[tokio::test]
    async fn what_may_block_is_not_pinned() {
        let all = pinning::cores();
        let core = all[0];
        let (thread, runtime) = Thread::start("links-test".into(), Some(core)).await.unwrap();
        let drivers = runtime.spawn(async { pinning::cores() });
        assert_eq!(drivers.await.unwrap(), [core]);
        assert_eq!(runtime.spawn_blocking(pinning::cores).await.unwrap(), all);
        thread.end().await;
    }
}
