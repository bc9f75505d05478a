//! Spawning actors.

pub(crate) mod offer;
pub(crate) mod peer;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use tokio::sync::oneshot;

use super::cell::{ActorCell, ActorTask, BoxedActorFuture, CellBase, HasTurn, InlineActorFuture};
use super::context::child::{Child, Parent, RestartPlan};
use super::life::Life;
use super::options::SpawnOptions;
use super::send::wait::WaitGuard;
use super::{ActorRef, Handlers};
use crate::address::check_name;
use crate::ends::RestartPolicy;
use crate::error::SpawnError;
use crate::mailbox::OutlinedDrop;
use crate::node::Node;
use crate::registry::RegisterError;
use crate::resident::LocalActor;
use crate::rest::StartSender;
use crate::waits::Awaits;

impl Node {
    /// Spawns an actor under a name. Returns when it has started.
    ///
    /// # Errors
    /// [`SpawnError`] if the name is taken or invalid, the actor's
    /// [`on_start`](super::Actor::on_start) fails, or the node is shutting down.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the actor still runs.
    #[inline(never)]
    pub fn spawn<A: Handlers>(
        &self,
        name: impl Into<String>,
        actor: A,
    ) -> impl Future<Output = Result<ActorRef<A>, SpawnError>> + Send {
        SpawnFuture::new(self, SpawnOptions::named(name), actor)
    }

    /// Spawns an actor without a name: only its references lead to it. When they are all gone the
    /// actor lives on, until it is stopped or the node shuts down.
    ///
    /// # Errors
    /// As [`spawn`](Node::spawn).
    ///
    /// # Cancel safety
    /// As [`spawn`](Node::spawn).
    pub fn spawn_anonymous<A: Handlers>(
        &self,
        actor: A,
    ) -> impl Future<Output = Result<ActorRef<A>, SpawnError>> + Send {
        SpawnFuture::new(self, SpawnOptions::anonymous(), actor)
    }

    /// Spawns an actor with options.
    ///
    /// # Errors
    /// As [`spawn`](Node::spawn).
    ///
    /// # Cancel safety
    /// As [`spawn`](Node::spawn).
    pub fn spawn_with<A: Handlers>(
        &self,
        options: SpawnOptions,
        actor: A,
    ) -> impl Future<Output = Result<ActorRef<A>, SpawnError>> + Send {
        SpawnFuture::new(self, options, actor)
    }

    /// Spawns an actor that is restarted as `child` says, and has no parent actor. Returns when it
    /// has started. If it fails too often, it ends.
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

    /// Begins to start a child of `parent`.
    pub(super) fn begin_child<A: Handlers>(
        &self,
        child: Child<A>,
        parent: Parent,
    ) -> Result<(Arc<ActorCell<A>>, StartFuture), SpawnError> {
        let Child { make, options, restart, .. } = child;
        let (first, id) = (make(), parent.id());
        self.begin(options, first, RestartPlan::of(make, restart, parent), id)
    }

    /// Begins to start an actor. With `parent`, it is a child of the actor with this number.
    pub(super) fn begin<A: Handlers>(
        &self,
        options: SpawnOptions,
        actor: A,
        plan: Option<Box<RestartPlan<A>>>,
        parent: Option<u64>,
    ) -> Result<(Arc<ActorCell<A>>, StartFuture), SpawnError> {
        let revival = plan.as_ref().map_or(RestartPolicy::Never, |plan| plan.course().revival());
        let cell = self.place(options, revival)?;
        if let Some(parent) = parent {
            cell.tally().set_parent(parent);
        }
        let starts = self.run(cell.clone(), actor, plan);
        Ok((cell, starts))
    }

    /// Creates and registers the cell of an actor, to be started with [`run`](Self::run).
    pub(super) fn place<A: Handlers>(
        &self,
        options: SpawnOptions,
        revival: RestartPolicy,
    ) -> Result<Arc<ActorCell<A>>, SpawnError> {
        self.place_by(options, revival, make::<A>).map(cell_of)
    }

    fn place_by(
        &self,
        options: SpawnOptions,
        revival: RestartPolicy,
        make: CellFactory,
    ) -> Result<Arc<dyn LocalActor>, SpawnError> {
        let name = options.name.as_deref().map(check_name).transpose()?;
        let capacity = options.mailbox_capacity.unwrap_or(self.mailbox_capacity());
        let placed = self.place_made(name, capacity, revival, make);
        placed.map_err(|refused| why_refused(options, refused))
    }

    /// Creates and registers the cell of an actor that is never restarted. The caller has checked
    /// the name, or it is a name that users cannot give.
    pub(super) fn place_as<A: Handlers>(
        &self,
        name: Option<Arc<str>>,
        mailbox_capacity: usize,
    ) -> Result<Arc<ActorCell<A>>, RegisterError> {
        self.place_made(name, mailbox_capacity, RestartPolicy::Never, make::<A>).map(cell_of)
    }

    fn place_made(
        &self,
        name: Option<Arc<str>>,
        mailbox_capacity: usize,
        revival: RestartPolicy,
        make: CellFactory,
    ) -> Result<Arc<dyn LocalActor>, RegisterError> {
        let mut made = None;
        self.residents().insert(name.clone(), &mut |key| {
            let base = CellBase::new(self.clone(), key, name.clone(), revival);
            made.insert(make(base, mailbox_capacity)).clone()
        })?;
        Ok(made.expect("`insert` makes what it has a place for"))
    }

    /// Begins to spawn an actor of the runtime without a name. The actor is registered when this
    /// returns: a caller that drops the result must end the actor.
    pub(crate) fn begin_anonymous<A: Handlers>(
        &self,
        actor: A,
    ) -> Result<
        StartingActor<A, impl Future<Output = Result<(), SpawnError>> + Send + use<A>>,
        SpawnError,
    > {
        let (cell, starts) = self.begin(SpawnOptions::anonymous(), actor, None, None)?;
        Ok(StartingActor { resident: cell.clone(), actor: ActorRef::local(cell), starts })
    }

    /// Spawns an actor of the runtime, under a name that users cannot give. Returns false if the
    /// name is taken or the node is shutting down.
    pub(crate) fn spawn_own<A: Handlers>(&self, name: Arc<str>, actor: A) -> bool {
        let Ok(cell) = self.place_as::<A>(Some(name), self.mailbox_capacity()) else {
            return false;
        };
        // The actor has no start to wait for.
        drop(self.run(cell, actor, None));
        true
    }

    /// Spawns the task of an actor that is in the registry. Returns a future of its start.
    pub(super) fn run<A: Handlers>(
        &self,
        cell: Arc<ActorCell<A>>,
        actor: A,
        plan: Option<Box<RestartPlan<A>>>,
    ) -> StartFuture {
        let (told, starts) = StartFuture::of(&*cell);
        // `Life` uses the sender `told`, even if the task is dropped before it runs.
        let life = Life::new(cell.clone(), Some(actor), plan, told);
        self.run_task(cell, Life::run(life));
        starts
    }

    /// Spawns an actor's task, without the actor's type: tokio's task is compiled once, and not
    /// into each program for each actor and each of tokio's schedulers.
    fn run_task<F: Future<Output = ()> + Send + 'static>(&self, whose: Arc<dyn HasTurn>, life: F) {
        if const {
            InlineActorFuture::has_space_for::<F>() && InlineActorFuture::has_alignment_for::<F>()
        } {
            let Ok(life) = InlineActorFuture::try_from(life) else {
                unreachable!("it has the space")
            };
            self.run_small(ActorTask::new(whose, life));
        } else {
            self.run_large(ActorTask::new(whose, Box::pin(life)));
        }
    }

    fn run_small(&self, life: ActorTask<InlineActorFuture>) {
        self.runtime().spawn(life);
    }

    fn run_large(&self, life: ActorTask<BoxedActorFuture>) {
        self.runtime().spawn(life);
    }
}

/// An actor that is registered, and may not have started yet.
pub(crate) struct StartingActor<A: Handlers, S> {
    pub(crate) actor: ActorRef<A>,
    pub(crate) resident: Arc<dyn LocalActor>,
    /// Ready when the actor has started.
    pub(crate) starts: S,
}

/// A function that makes the cell of an actor, with this mailbox capacity.
type CellFactory = fn(CellBase, usize) -> Arc<dyn LocalActor>;

fn make<A: Handlers>(base: CellBase, mailbox_capacity: usize) -> Arc<dyn LocalActor> {
    Arc::new(ActorCell::<A>::new(base, mailbox_capacity))
}

/// Restores the type of a cell that [`make`] made.
fn cell_of<A: Handlers>(made: Arc<dyn LocalActor>) -> Arc<ActorCell<A>> {
    match made.as_any().downcast() {
        Ok(cell) => cell,
        Err(_) => unreachable!("a cell is of the type that it was made of"),
    }
}

/// The future of a spawn, ready when the actor has started. (Not an `async fn`: that would be
/// compiled into each function that spawns.)
struct SpawnFuture<'a, A: Handlers> {
    node: &'a Node,
    step: OutlinedDrop<SpawnStep<A>>,
}

enum SpawnStep<A: Handlers> {
    /// Not polled yet.
    New(SpawnOptions, A),
    Begun(Arc<ActorCell<A>>, StartFuture),
    Ended,
}

impl<'a, A: Handlers> SpawnFuture<'a, A> {
    fn new(node: &'a Node, options: SpawnOptions, actor: A) -> Self {
        SpawnFuture { node, step: OutlinedDrop::new(SpawnStep::New(options, actor)) }
    }
}

impl<A: Handlers> Unpin for SpawnFuture<'_, A> {}

impl<A: Handlers> Future for SpawnFuture<'_, A> {
    type Output = Result<ActorRef<A>, SpawnError>;

    #[inline(never)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let (cell, mut starts) = match std::mem::replace(&mut *self.step, SpawnStep::Ended) {
            SpawnStep::New(options, actor) => match self.node.begin(options, actor, None, None) {
                Ok(begun) => begun,
                Err(error) => return Poll::Ready(Err(error)),
            },
            SpawnStep::Begun(cell, starts) => (cell, starts),
            SpawnStep::Ended => panic!("a spawn was polled after it was ready"),
        };
        match Pin::new(&mut starts).poll(cx) {
            Poll::Pending => {
                *self.step = SpawnStep::Begun(cell, starts);
                Poll::Pending
            }
            Poll::Ready(Ok(())) => Poll::Ready(Ok(ActorRef::local(cell))),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        }
    }
}

#[cold]
fn why_refused(options: SpawnOptions, refused: RegisterError) -> SpawnError {
    match refused {
        RegisterError::NameTaken => SpawnError::NameTaken(options.name.unwrap_or_default()),
        RegisterError::Closed => SpawnError::Shutdown,
    }
}

/// An actor that is registered and does not run yet. Dropping this ends the actor without running
/// it.
pub(super) struct UnstartedActor<A: Handlers> {
    life: OutlinedDrop<Life<A>>,
    starts: StartFuture,
}

impl<A: Handlers> UnstartedActor<A> {
    /// Creates this from a registered cell, before the state of the actor is made.
    pub(super) fn new(cell: Arc<ActorCell<A>>) -> Self {
        let (told, started) = oneshot::channel();
        UnstartedActor {
            life: Life::new(cell, None, None, told),
            starts: StartFuture { started, _wait: None },
        }
    }

    /// Stores the state of the actor. [`run`](Self::run) needs it.
    pub(super) fn give(&mut self, actor: A) {
        self.life.give(actor);
    }

    /// Runs the actor. The returned future does not record a handler as waiting for the start.
    pub(super) fn run(self, node: &Node) -> StartFuture {
        node.run_task(self.life.cell(), Life::run(self.life));
        self.starts
    }
}

/// A future that is ready when an actor has started, or has failed to start.
pub(super) struct StartFuture {
    started: oneshot::Receiver<Result<(), SpawnError>>,
    /// The record of the wait, if a handler waits.
    _wait: Option<WaitGuard>,
}

impl StartFuture {
    /// Returns the sender of the result of the start of `whom`, and the future that waits for it.
    fn of(whom: &dyn LocalActor) -> (StartSender, Self) {
        let (told, started) = oneshot::channel();
        (told, StartFuture { started, _wait: WaitGuard::begin(whom, Awaits::Start) })
    }
}

impl Future for StartFuture {
    type Output = Result<(), SpawnError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let started = Pin::new(&mut self.started).poll(cx);
        started.map(|told| told.unwrap_or(Err(SpawnError::Killed)))
    }
}
