//! The runtime that everything here runs on, and how a thread of C waits for it.

use std::sync::OnceLock;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;

use crate::failure::{Code, Failure};

static RUNTIME: OnceLock<Runtime> = OnceLock::new();
static STARTING: Mutex<()> = Mutex::new(());

/// Returns the runtime. It is started by the first call, and ends with the process.
///
/// # Errors
/// No thread can be started.
fn runtime() -> Result<&'static Runtime, Failure> {
    let _starting = STARTING.lock();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let runtime = Builder::new_multi_thread().enable_all().thread_name("ringpost").build()?;
    Ok(RUNTIME.get_or_init(|| runtime))
}

/// Waits for a future on this thread.
///
/// # Errors
/// Those of the future; this thread is one of an async runtime, which must not wait.
pub(crate) fn wait<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    if Handle::try_current().is_ok() {
        return Err(Failure::invalid("the call was made on a thread of an async runtime"));
    }
    runtime()?.block_on(future)
}

/// Says to all calls on a thing that it is being closed.
pub(crate) struct Closing(watch::Sender<bool>);

impl Default for Closing {
    fn default() -> Self {
        Closing(watch::Sender::new(false))
    }
}

impl Closing {
    pub(crate) fn close(&self) {
        self.0.send_replace(true);
    }

    /// Waits until it is being closed.
    pub(crate) async fn closed(&self) {
        // The sender lives as long as `self`, so that this gives no error.
        self.0.subscribe().wait_for(|is_closed| *is_closed).await.ok();
    }

    /// Waits for a future on this thread, until the thing is closed, and for so long at most.
    ///
    /// # Errors
    /// Those of the future; [`Code::TimedOut`]; [`Code::WouldBlock`] where the time is zero; the
    /// thing is being closed by another thread.
    pub(crate) fn wait<T>(
        &self,
        time: Option<Duration>,
        future: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        wait(async move {
            tokio::select! {
                biased;
                done = future => done,
                () = self.closed() => Err(Failure::closed()),
                failure = late(time) => Err(failure),
            }
        })
    }
}

/// Returns when the time is over, with the failure that this is.
async fn late(time: Option<Duration>) -> Failure {
    match time {
        None => std::future::pending().await,
        Some(Duration::ZERO) => Failure::new(Code::WouldBlock, "the call would have to wait"),
        Some(time) => {
            tokio::time::sleep(time).await;
            Failure::new(Code::TimedOut, format!("nothing came within {time:?}"))
        }
    }
}
