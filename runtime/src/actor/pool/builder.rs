//! How a pool is described.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use super::ring::{Keys, Shared};
use super::supervisor::Known;
use super::{Pool, PoolSupervisor, Routing};
use crate::actor::{Accepts, Child, Handlers, Restart};
use crate::address::{Address, check_name};
use crate::error::SpawnError;
use crate::limits;
use crate::message::Message;
use crate::node::Node;

/// Describes a [`Pool`]; made by [`Pool::builder`].
#[must_use = "a pool has no workers until it is spawned"]
pub struct PoolBuilder<A: Handlers> {
    worker: Child<A>,
    size: usize,
    routing: Routing,
    keys: Keys,
}

impl<A: Handlers> PoolBuilder<A> {
    pub(super) fn new(make: impl Fn() -> A + Send + Sync + 'static) -> Self {
        let worker = Child::new(make).mailbox_capacity(limits::POOL_MAILBOX_CAPACITY);
        PoolBuilder {
            worker: worker.restart(Restart::always()),
            size: 1,
            routing: Routing::default(),
            keys: Keys::default(),
        }
    }

    /// Sets the number of workers: 1 when not set; 0 counts as 1, and more than
    /// [`limits::POOL_WORKERS_MAX`] as that many.
    pub fn size(mut self, workers: usize) -> Self {
        self.size = workers.clamp(1, limits::POOL_WORKERS_MAX);
        self
    }

    /// Sets how the worker is chosen for messages that have no key.
    pub fn routing(mut self, routing: Routing) -> Self {
        self.routing = routing;
        self
    }

    /// Sends messages `M` of equal keys to the same worker, in the order in which one sender sends
    /// them, while the size of the pool stays. They wait for room there, and go to another worker
    /// only while theirs is closed: it is stopping, say. Another pool has other workers for the
    /// same keys, so that senders cannot choose keys that all meet.
    pub fn by_key<M: Message, K: Hash>(
        mut self,
        key: impl Fn(&M) -> K + Send + Sync + 'static,
    ) -> Self
    where
        A: Accepts<M>,
    {
        self.keys.add(key);
        self
    }

    /// Sets how many messages may wait in the mailbox of each worker:
    /// [`limits::POOL_MAILBOX_CAPACITY`] when not set; 0 counts as 1. A worker takes a
    /// thirty-second of that at once, which [`Routing::LeastLoaded`] does not see then.
    pub fn mailbox_capacity(mut self, messages: usize) -> Self {
        self.worker = self.worker.mailbox_capacity(messages);
        self
    }

    /// Limits how often a worker is restarted, however it ends: 5 times within a minute when not
    /// set. After one more end the whole pool restarts.
    pub fn restart_at_most(mut self, restarts: u32, within: Duration) -> Self {
        self.worker.restart = self.worker.restart.at_most(restarts, within);
        self
    }

    /// Sets the pause before a worker is restarted, as [`Restart::backoff`] does: 10 ms at first,
    /// and 5 s at most, when not set. Messages that are sent to it meanwhile wait in its mailbox.
    pub fn restart_backoff(mut self, shortest: Duration, longest: Duration) -> Self {
        self.worker.restart = self.worker.restart.backoff(shortest, longest);
        self
    }

    /// Spawns the pool under a name, as [`Node::supervise`] does: returns when all workers have
    /// started.
    ///
    /// # Errors
    /// [`SpawnError`] when the name is taken or cannot be one, when a worker does not start, or
    /// when the node is shutting down.
    ///
    /// # Cancel safety
    /// When the future is dropped after its first poll, the pool runs all the same.
    pub async fn spawn(self, node: &Node, name: impl Into<String>) -> Result<Pool<A>, SpawnError> {
        let (pool, child) = self.child(node, name)?;
        node.supervise(child).await?;
        Ok(pool)
    }

    /// Returns the pool, and the child that makes its workers: for a
    /// [`Supervisor`](crate::Supervisor), or another actor of this node, whose pool it is to be and
    /// with which it ends. Until the child was spawned the pool has no workers.
    ///
    /// # Errors
    /// [`SpawnError::InvalidName`].
    pub fn child(
        self,
        node: &Node,
        name: impl Into<String>,
    ) -> Result<(Pool<A>, Child<PoolSupervisor>), SpawnError> {
        let PoolBuilder { worker, size, routing, keys } = self;
        let name = name.into();
        let address = Address::by_name(node.shared_name().clone(), check_name(&name)?);
        let shared = Arc::new(Shared::new(node, address, (routing, keys), size));
        let pool = Pool { shared: shared.clone(), known: Known::default() };
        let known = pool.known.clone();
        let make = move || PoolSupervisor::new(worker.clone(), shared.clone(), known.clone());
        let child = Child::new(make);
        Ok((pool, child.named(name)))
    }
}

impl<A: Handlers> fmt::Debug for PoolBuilder<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolBuilder")
            .field("worker", &self.worker)
            .field("size", &self.size)
            .field("routing", &self.routing)
            .finish_non_exhaustive()
    }
}
