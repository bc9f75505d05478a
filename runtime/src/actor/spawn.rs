//! Spawning actors.

use std::sync::Arc;

use futures::future::AbortHandle;
use tokio::sync::oneshot;

use super::cell::Cell;
use super::life::{self, Exit};
use super::{ActorRef, Handlers};
use crate::address::check_name;
use crate::error::SpawnError;
use crate::node::Node;
use crate::registry::Refused;

/// How an actor is spawned, where the defaults do not fit.
#[derive(Debug, Clone, Default)]
pub struct SpawnOptions {
    name: Option<String>,
    mailbox_capacity: Option<usize>,
}

impl SpawnOptions {
    /// An actor without a name.
    pub fn anonymous() -> Self {
        SpawnOptions::default()
    }

    /// An actor with a name: 1 to 256 bytes without `/` and control characters, not starting with
    /// `#`.
    pub fn named(name: impl Into<String>) -> Self {
        SpawnOptions { name: Some(name.into()), mailbox_capacity: None }
    }

    /// Messages of this node that may wait in its mailbox; 0 counts as 1. (What other nodes may
    /// have waiting there is set by the node's profile.)
    pub fn mailbox_capacity(mut self, messages: usize) -> Self {
        self.mailbox_capacity = Some(messages);
        self
    }
}

impl Node {
    /// Spawns an actor under a name; returns when it has started.
    ///
    /// # Errors
    /// [`SpawnError`] when the name is taken or cannot be one, when the actor's
    /// [`on_start`](super::Actor::on_start) fails, or when the node is shutting down.
    ///
    /// # Cancel safety
    /// When the future is dropped after its first poll, the actor runs all the same.
    pub async fn spawn<A: Handlers>(
        &self,
        name: impl Into<String>,
        actor: A,
    ) -> Result<ActorRef<A>, SpawnError> {
        self.spawn_with(SpawnOptions::named(name), actor).await
    }

    /// Spawns an actor without a name: only its references lead to it. When they are all gone it
    /// lives on, until it is stopped or the node shuts down.
    ///
    /// # Errors
    /// As [`spawn`](Node::spawn).
    ///
    /// # Cancel safety
    /// As [`spawn`](Node::spawn).
    pub async fn spawn_anonymous<A: Handlers>(&self, actor: A) -> Result<ActorRef<A>, SpawnError> {
        self.spawn_with(SpawnOptions::anonymous(), actor).await
    }

    /// Spawns an actor with options.
    ///
    /// # Errors
    /// As [`spawn`](Node::spawn).
    ///
    /// # Cancel safety
    /// As [`spawn`](Node::spawn).
    pub async fn spawn_with<A: Handlers>(
        &self,
        options: SpawnOptions,
        actor: A,
    ) -> Result<ActorRef<A>, SpawnError> {
        let name = options.name.as_deref().map(check_name).transpose()?;
        let capacity = options.mailbox_capacity.unwrap_or(self.mailbox_capacity());
        let (kill, killed) = AbortHandle::new_pair();
        let cell = self.residents().insert(name.clone(), |key| {
            Arc::new(Cell::<A>::new(self.clone(), key, name, capacity, kill))
        });
        let cell = cell.map_err(|refused| match refused {
            Refused::NameTaken => SpawnError::NameTaken(options.name.unwrap_or_default()),
            Refused::Closed => SpawnError::Shutdown,
        })?;
        let (started, start) = oneshot::channel();
        let exit = Exit::new(cell.clone(), started);
        self.runtime().spawn(life::run(actor, exit, killed));
        // `Exit` uses the sender, also where the task is dropped before it runs.
        start.await.unwrap_or(Err(SpawnError::Killed))?;
        Ok(ActorRef::local(cell))
    }
}
