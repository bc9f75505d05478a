//! A node, and the runtime that all blocking values share.

use std::io;
use std::ops::Deref;
use std::sync::{Arc, Weak, mpsc};
use std::time::Duration;

use parking_lot::Mutex;
use ringpost::net::ConnectError;
use ringpost::{Address, NodeBuilder};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::error::Elapsed;

/// How long the drop of the last value of a node waits, so that written bytes arrive.
const LINGER: Duration = Duration::from_secs(1);

/// The runtime, as long as there is a value that keeps it.
static SHARED: Mutex<Weak<Kept>> = Mutex::new(Weak::new());

struct Kept(Option<Runtime>);

impl Drop for Kept {
    fn drop(&mut self) {
        // The last value may be dropped on any thread, also on one of the runtime.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Kept {
    fn shared() -> io::Result<Arc<Self>> {
        let mut shared = SHARED.lock();
        if let Some(kept) = shared.upgrade() {
            return Ok(kept);
        }
        let runtime = Builder::new_multi_thread().enable_all().thread_name("ringpost").build()?;
        let kept = Arc::new(Kept(Some(runtime)));
        *shared = Arc::downgrade(&kept);
        Ok(kept)
    }

    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.as_ref().expect("it is taken by the drop alone").block_on(future)
    }
}

/// A node and its runtime. All values of the node keep both.
#[derive(Clone)]
pub(super) struct Blocking(Arc<Running>);

struct Running {
    node: ringpost::Node,
    runtime: Arc<Kept>,
}

impl Drop for Running {
    /// Shuts the node down, so that written bytes arrive, as when a socket is closed.
    fn drop(&mut self) {
        let Some(runtime) = &self.runtime.0 else { return };
        // A thread of a runtime must not wait.
        if Handle::try_current().is_ok() || std::thread::panicking() {
            return;
        }
        let ((ending, ended), node) = (mpsc::channel::<()>(), self.node.clone());
        runtime.spawn(async move {
            node.shutdown(LINGER).await;
            drop(ending);
        });
        // Never sent: dropped at the end.
        ended.recv_timeout(LINGER).ok();
    }
}

impl Blocking {
    /// Waits for a future on this thread.
    pub(super) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.runtime.wait(future)
    }

    /// Waits for a future on this thread, for so long at most.
    pub(super) fn wait_for<T>(
        &self,
        time: Option<Duration>,
        future: impl Future<Output = T>,
    ) -> Result<T, Elapsed> {
        self.wait(async move {
            match time {
                Some(time) => tokio::time::timeout(time, future).await,
                None => Ok(future.await),
            }
        })
    }
}

/// A node that runs on the runtime of this module. Dereferences to the node itself. Clones are the
/// same node. When the last of them and of its streams, channels and clients is dropped on a thread
/// that belongs to no tokio runtime, the node shuts down, so that written bytes arrive. The drop
/// waits for that for a second at most, whatever [`NodeBuilder::linger`] is.
#[derive(Clone)]
pub struct Node {
    blocking: Blocking,
}

impl Node {
    /// Starts a node.
    ///
    /// # Errors
    /// [`StartError`](ringpost::StartError); an `io::Error` where no thread can be started.
    ///
    /// # Panics
    /// In an async task, as all calls that wait do.
    pub fn start(builder: NodeBuilder) -> Result<Self, ringpost::BoxError> {
        let runtime = Kept::shared()?;
        let node = runtime.wait(builder.start())?;
        Ok(Node { blocking: Blocking(Arc::new(Running { node, runtime })) })
    }

    /// Starts a node and connects it to the first of its seeds that answers; see
    /// [`NodeBuilder::connect`].
    ///
    /// # Errors
    /// As of [`NodeBuilder::connect`]; an `io::Error` where no thread can be started.
    pub fn connect(builder: NodeBuilder) -> Result<(Self, ringpost::Peer), ringpost::BoxError> {
        let runtime = Kept::shared()?;
        let (node, peer) = runtime.wait(builder.connect())?;
        Ok((Node { blocking: Blocking(Arc::new(Running { node, runtime })) }, peer))
    }

    /// Waits until `count` other nodes are linked; see [`ringpost::Node::ready`].
    ///
    /// # Errors
    /// As of [`ringpost::Node::ready`].
    pub fn ready(&self, count: usize) -> Result<(), ConnectError> {
        self.blocking.wait((**self).ready(count))
    }

    /// Ends the node in order, within this time; see [`ringpost::Node::shutdown`].
    pub fn shutdown(&self, deadline: Duration) -> Vec<Address> {
        self.blocking.wait((**self).shutdown(deadline))
    }

    pub(super) fn blocking(&self) -> &Blocking {
        &self.blocking
    }
}

impl Deref for Node {
    type Target = ringpost::Node;

    fn deref(&self) -> &ringpost::Node {
        &self.blocking.0.node
    }
}
