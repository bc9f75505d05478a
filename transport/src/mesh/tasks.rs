//! The tasks of a node's mesh, so that none outlives it.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// The tasks of a node's mesh.
pub(super) struct Tasks {
    runtime: Handle,
    /// `None` when they have been ended.
    running: Mutex<Option<JoinSet<()>>>,
}

impl Tasks {
    /// None yet; they will run on the current runtime.
    pub(super) fn new() -> Self {
        Tasks { runtime: Handle::current(), running: Mutex::new(Some(JoinSet::new())) }
    }

    /// Starts one, unless they have been ended.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut running = self.running.lock();
        if let Some(running) = &mut *running {
            while running.try_join_next().is_some() {}
            running.spawn_on(task, &self.runtime);
        }
    }

    /// Waits for all of them, and ends those that are left after `patience`. None starts from now
    /// on.
    pub(super) async fn end(&self, patience: Duration) {
        let Some(mut running) = self.running.lock().take() else { return };
        let deadline = Instant::now() + patience;
        while let Ok(Some(_)) = timeout_at(deadline, running.join_next()).await {}
        running.shutdown().await;
    }
}
