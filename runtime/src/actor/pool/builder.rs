//! `PoolBuilder`: the description of a pool.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use super::ring::{KeyHashers, PoolState};
use super::supervisor::SupervisorSlot;
use super::{Pool, PoolSupervisor, Routing};
use crate::actor::{Accepts, Child, Handlers, Restart};
use crate::address::{Address, check_name};
use crate::error::SpawnError;
use crate::limits;
use crate::message::Message;
use crate::node::Node;

/// The description of a [`Pool`]. Created by [`Pool::builder`].
#[must_use = "a pool has no workers until it is spawned"]
pub struct PoolBuilder<A: Handlers> {
    worker: Child<A>,
    size: usize,
    routing: Routing,
    keys: KeyHashers,
}

impl<A: Handlers> PoolBuilder<A> {
    pub(super) fn new(make: impl Fn() -> A + Send + Sync + 'static) -> Self {
        let worker = Child::new(make).mailbox_capacity(limits::POOL_MAILBOX_CAPACITY);
        PoolBuilder {
            worker: worker.restart(Restart::always()),
            size: 1,
            routing: Routing::default(),
            keys: KeyHashers::default(),
        }
    }

    /// Sets the number of workers, at least 1 and at most [`limits::POOL_WORKERS_MAX`]; the default
    /// is 1.
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
    /// them, as long as the pool keeps its size. They wait for room there, and go to another worker
    /// only while theirs is closed, for example because it is stopping. Each pool distributes the
    /// keys differently, so that senders cannot choose keys that all go to one worker.
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

    /// Sets how many messages may wait in the mailbox of each worker; 0 counts as 1, and the
    /// default is [`limits::POOL_MAILBOX_CAPACITY`]. A worker takes a thirty-second of that at
    /// once, which [`Routing::LeastLoaded`] does not see then.
    pub fn mailbox_capacity(mut self, messages: usize) -> Self {
        self.worker = self.worker.mailbox_capacity(messages);
        self
    }

    /// Limits how often a worker is restarted, however it ends; the default is 5 times within a
    /// minute. If it ends once more, the whole pool restarts.
    pub fn restart_at_most(mut self, restarts: u32, within: Duration) -> Self {
        self.worker.restart = self.worker.restart.at_most(restarts, within);
        self
    }

    /// Sets the pause before a worker is restarted, as [`Restart::backoff`] does; the default is 10
    /// ms at first, and at most 5 s. Messages sent to the worker meanwhile wait in its mailbox.
    pub fn restart_backoff(mut self, shortest: Duration, longest: Duration) -> Self {
        self.worker.restart = self.worker.restart.backoff(shortest, longest);
        self
    }

    /// Spawns the pool under a name, as [`Node::supervise`] does. Returns when all workers have
    /// started.
    ///
    /// # Errors
    /// [`SpawnError`] if the name is taken or invalid, a worker does not start, or the node is
    /// shutting down.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the pool still runs.
    pub async fn spawn(self, node: &Node, name: impl Into<String>) -> Result<Pool<A>, SpawnError> {
        let (pool, child) = self.child(node, name)?;
        node.supervise(child).await?;
        Ok(pool)
    }

    /// Returns the pool, and the child that makes its workers. The child is for a
    /// [`Supervisor`](crate::spawn::Supervisor) or another actor of this node, with which the pool
    /// ends. The pool has no workers until the child is spawned.
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
        let shared = Arc::new(PoolState::new(node, address, (routing, keys), size));
        let pool = Pool { shared: shared.clone(), known: SupervisorSlot::default() };
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
