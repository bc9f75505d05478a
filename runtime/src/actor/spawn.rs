//! Spawning actors.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use tokio::sync::oneshot;

use super::cell::{Base, Cell};
use super::child::{Child, Parent, Plan};
use super::life::Life;
use super::options::SpawnOptions;
use super::wait::Wait;
use super::{ActorRef, Handlers};
use crate::address::check_name;
use crate::busy::InHand;
use crate::error::SpawnError;
use crate::node::Node;
use crate::registry::Refused;

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
        let (started, starts) = self.begin(options, actor, None, None)?;
        starts.await?;
        Ok(ActorRef::local(started))
    }

    /// Spawns an actor that is restarted as `child` says, and that no other actor answers for;
    /// returns when it has started. One that fails too often ends.
    ///
    /// # Errors
    /// As [`spawn`](Node::spawn).
    ///
    /// # Cancel safety
    /// As [`spawn`](Node::spawn).
    pub async fn supervise<A: Handlers>(&self, child: Child<A>) -> Result<ActorRef<A>, SpawnError> {
        let (cell, starts) = self.begin_child(child, Parent::Node)?;
        starts.await?;
        Ok(ActorRef::local(cell))
    }

    /// Begins to start a child.
    pub(super) fn begin_child<A: Handlers>(
        &self,
        child: Child<A>,
        parent: Parent,
    ) -> Result<(Arc<Cell<A>>, Starts), SpawnError> {
        let Child { make, options, restart, .. } = child;
        let (first, id) = (make(), parent.id());
        self.begin(options, first, Plan::of(make, restart, parent), id)
    }

    /// Begins to start an actor, the child of the one with the number `parent`.
    pub(super) fn begin<A: Handlers>(
        &self,
        options: SpawnOptions,
        actor: A,
        plan: Option<Box<Plan<A>>>,
        parent: Option<u64>,
    ) -> Result<(Arc<Cell<A>>, Starts), SpawnError> {
        let cell = self.place(options, plan.is_some())?;
        if let Some(parent) = parent {
            cell.tally().set_parent(parent);
        }
        let starts = self.run(cell.clone(), actor, plan);
        Ok((cell, starts))
    }

    /// Gives a place to an actor, which is to [run](Self::run) then.
    pub(super) fn place<A: Handlers>(
        &self,
        options: SpawnOptions,
        is_child: bool,
    ) -> Result<Arc<Cell<A>>, SpawnError> {
        let (name, capacity) = self.check(&options)?;
        let cell = self.place_as(name, capacity, is_child);
        cell.map_err(|refused| why_refused(options, refused))
    }

    /// Returns the name and the capacity of the mailbox that options say.
    fn check(&self, options: &SpawnOptions) -> Result<(Option<Arc<str>>, usize), SpawnError> {
        let name = options.name.as_deref().map(check_name).transpose()?;
        Ok((name, options.mailbox_capacity.unwrap_or(self.mailbox_capacity())))
    }

    /// Gives a place to an actor whose name was checked, or is one that users cannot give.
    pub(super) fn place_as<A: Handlers>(
        &self,
        name: Option<Arc<str>>,
        mailbox_capacity: usize,
        is_child: bool,
    ) -> Result<Arc<Cell<A>>, Refused> {
        let mut made = None;
        self.residents().insert(name.clone(), &mut |key| {
            let base = Base::new(self.clone(), key, name.clone(), is_child);
            made.insert(Arc::new(Cell::<A>::new(base, mailbox_capacity))).clone()
        })?;
        Ok(made.expect("`insert` makes what it has a place for"))
    }

    /// Spawns an actor of the runtime's, by a name that users cannot give. Returns false where the
    /// name is taken, or the node shuts down.
    pub(crate) fn spawn_own<A: Handlers>(&self, name: Arc<str>, actor: A) -> bool {
        let Ok(cell) = self.place_as::<A>(Some(name), self.mailbox_capacity(), false) else {
            return false;
        };
        // It has no start to wait for.
        drop(self.run(cell, actor, None));
        true
    }

    /// Has an actor run that has its place.
    pub(super) fn run<A: Handlers>(
        &self,
        cell: Arc<Cell<A>>,
        actor: A,
        plan: Option<Box<Plan<A>>>,
    ) -> Starts {
        let (told, started) = oneshot::channel();
        // Before it runs: what it asks as it starts finds that its spawner waits for it (WC-1).
        let starts = Starts { started, _wait: Wait::for_start(&*cell, InHand::FIRST_START) };
        // `Life` uses the sender, also where the task is dropped before it runs.
        self.runtime().spawn(Life::new(cell, Some(actor), plan, told).run());
        starts
    }
}

#[cold]
fn why_refused(options: SpawnOptions, refused: Refused) -> SpawnError {
    match refused {
        Refused::NameTaken => SpawnError::NameTaken(options.name.unwrap_or_default()),
        Refused::Closed => SpawnError::Shutdown,
    }
}

/// An actor that has its place and does not run yet. Dropped, it ends without having run.
pub(super) struct Unborn<A: Handlers> {
    life: Life<A>,
    starts: Starts,
}

impl<A: Handlers> Unborn<A> {
    /// Takes a place for an actor that is not made yet.
    pub(super) fn new(cell: Arc<Cell<A>>) -> Self {
        let (told, started) = oneshot::channel();
        Unborn { life: Life::new(cell, None, None, told), starts: Starts { started, _wait: None } }
    }

    /// Gives it the actor, which it needs to run.
    pub(super) fn give(&mut self, actor: A) {
        self.life.give(actor);
    }

    /// Has it run. No handler waits for its start.
    pub(super) fn run(self, node: &Node) -> Starts {
        node.runtime().spawn(self.life.run());
        self.starts
    }
}

/// Tells when an actor has started, or why it has not.
pub(super) struct Starts {
    started: oneshot::Receiver<Result<(), SpawnError>>,
    /// There while a handler waits.
    _wait: Option<Wait>,
}

impl Future for Starts {
    type Output = Result<(), SpawnError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let started = Pin::new(&mut self.started).poll(cx);
        started.map(|told| told.unwrap_or(Err(SpawnError::Killed)))
    }
}
