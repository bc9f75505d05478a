//! The actor that has the workers of a pool as its children.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::RwLock;
use ringpost_transport::log;

use super::ring::PoolState;
use crate::actor::cell::ActorCell;
use crate::actor::{Actor, ActorRef, Child, Context, Down, Handler, Handlers, Local};
use crate::address::Address;
use crate::error::{AskCause, AskError, BoxError, Cause, NotBegun, SpawnError};
use crate::limits;
use crate::message::Message;
use crate::resident::{Halt, LocalActor};
use crate::{actor, handlers, message};

/// The actor that has the workers of a [`Pool`](super::Pool) as its children. It has the pool's
/// name. Stopping it stops the workers and ends the pool.
pub struct PoolSupervisor {
    workers: Box<dyn Workers>,
    known: SupervisorSlot,
}

/// The supervisor of a pool, set each time it starts. (Its name does not suffice: another actor may
/// have it later.)
pub(super) type SupervisorSlot = Arc<RwLock<Option<ActorRef<PoolSupervisor>>>>;

/// The workers of a pool, without their type.
trait Workers: Send + Sync {
    /// Fills `size` places with workers; `None` stands for the current number of places. Workers
    /// that have ended are replaced.
    fn fill<'a>(
        &'a self,
        size: Option<usize>,
        cx: &'a mut Context<PoolSupervisor>,
    ) -> BoxFuture<'a, Result<(), SpawnError>>;

    /// Takes the workers out of the ring, and drains them.
    fn drain(&self);
}

/// The workers of a pool, with their type.
struct WorkerSet<A: Handlers> {
    worker: Child<A>,
    shared: Arc<PoolState<A>>,
}

impl PoolSupervisor {
    pub(super) fn new<A: Handlers>(
        worker: Child<A>,
        shared: Arc<PoolState<A>>,
        known: SupervisorSlot,
    ) -> Self {
        PoolSupervisor { workers: Box::new(WorkerSet { worker, shared }), known }
    }
}

impl<A: Handlers> WorkerSet<A> {
    /// Fills `size` places: living workers keep theirs, and workers of higher places are drained.
    async fn fill_places(
        &self,
        size: usize,
        cx: &mut Context<PoolSupervisor>,
    ) -> Result<(), SpawnError> {
        let old = self.shared.ring();
        let (mut ring, mut added) = (Vec::with_capacity(size), Vec::new());
        for place in 0..size {
            if let Some(worker) = old.get(place).filter(|worker| !worker.has_ended()) {
                ring.push(worker.clone());
                continue;
            }
            match cx.spawn(self.worker.clone()).await {
                Ok(worker) => {
                    cx.watch(&worker);
                    added.push(worker.clone());
                    ring.push(worker);
                }
                Err(error) => {
                    let cells = added.iter().filter_map(ActorRef::near_cell);
                    cells.for_each(|worker| worker.resident().retire(Halt::Stop));
                    return Err(error);
                }
            }
        }
        self.shared.set_size(size);
        if !added.is_empty() || old.len() != size {
            // First, so that a sender that finds a removed worker closed chooses among the others.
            self.shared.replace(ring);
            old.iter().skip(size).for_each(ActorRef::remove);
        }
        Ok(())
    }
}

impl<A: Handlers> ActorRef<A> {
    /// Drains a worker, which is not restarted once it has handled its messages.
    fn remove(&self) {
        if let Some(worker) = self.near_cell().map(ActorCell::resident) {
            worker.dismiss();
        }
    }
}

impl<A: Handlers> Workers for WorkerSet<A> {
    fn fill<'a>(
        &'a self,
        size: Option<usize>,
        cx: &'a mut Context<PoolSupervisor>,
    ) -> BoxFuture<'a, Result<(), SpawnError>> {
        self.fill_places(size.unwrap_or_else(|| self.shared.size()), cx).boxed()
    }

    fn drain(&self) {
        let workers = self.shared.ring();
        self.shared.replace(Vec::new());
        workers.iter().for_each(ActorRef::remove);
    }
}

#[actor(name = "ringpost::Pool")]
#[diagnostic::do_not_recommend]
impl Actor for PoolSupervisor {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        let old = self.known.write().replace(cx.actor().clone());
        drop(old);
        Ok(self.workers.fill(None, cx).await?)
    }
}

#[handlers(Resize, Down)]
impl PoolSupervisor {
    /// Closes the pool, which ends when the workers have handled their messages. Answers when the
    /// pool accepts nothing more.
    #[handler(local)]
    fn drain_workers(&mut self, cx: &mut Context<Self>) {
        cx.drain();
        self.workers.drain();
        // Includes workers that were removed before and have not ended. (Not awaited here: a worker
        // that drains its own pool waits for this answer.)
        let ended = cx.children_ended();
        cx.finish_with(ended);
    }
}

/// Changes the number of workers.
#[message(local)]
struct Resize(usize);

/// Resizes a pool to `size` workers.
pub(super) async fn resize(
    supervisor: &ActorRef<PoolSupervisor>,
    size: usize,
) -> Result<(), SpawnError> {
    // The longest timeout, because the workers may take long to start.
    let asked = supervisor.ask(Resize(size)).timeout(limits::ASK_TIMEOUT_MAX);
    asked.await.map_err(SpawnError::NoSupervisor)?.0
}

/// Closes a pool, which ends when its workers have handled their messages.
pub(super) async fn drain(supervisor: &ActorRef<PoolSupervisor>) -> Result<(), Cause> {
    let asked = supervisor.ask(DrainWorkers).timeout(limits::ASK_TIMEOUT_MAX).await;
    match asked.map_err(|error| error.cause) {
        Err(AskCause::NotSent(cause)) if !is_end(&cause) => Err(cause),
        // No answer means that the pool has ended or is ending.
        _ => Ok(()),
    }
}

/// Returns true if a message was refused because its actor accepts nothing now.
pub(super) fn is_end(cause: &Cause) -> bool {
    matches!(cause, Cause::Stopped | Cause::Shutdown)
}

/// Returns the error for a change of the size of a pool that has not begun.
pub(super) fn not_begun(pool: Address) -> SpawnError {
    let unsent = AskCause::NotSent(Cause::NoSuchActor);
    SpawnError::NoSupervisor(AskError::new(unsent, pool, Resize::NAME))
}

#[diagnostic::do_not_recommend]
impl Handler<Resize> for PoolSupervisor {
    type Reply = Local<Result<(), SpawnError>>;

    async fn handle(&mut self, msg: Resize, cx: &mut Context<Self>) -> Self::Reply {
        if cx.cell().intake().is_closed() {
            // The resize was accepted before the drain, and would spawn workers after it.
            let never = AskCause::NotBegun(NotBegun::Stopped);
            let error = AskError::new(never, cx.actor().address().clone(), Resize::NAME);
            return Local(Err(SpawnError::NoSupervisor(error)));
        }
        Local(self.workers.fill(Some(msg.0), cx).await)
    }
}

#[diagnostic::do_not_recommend]
impl Handler<Down> for PoolSupervisor {
    type Reply = ();

    /// Replaces a worker that has ended without a restart: it was killed in the pause before its
    /// restart.
    async fn handle(&mut self, _: Down, cx: &mut Context<Self>) {
        if cx.cell().intake().is_closed() {
            return;
        }
        if let Err(error) = self.workers.fill(None, cx).await {
            let pool = cx.actor().address();
            log::warn!(%pool, %error, "a worker of a pool has ended, and no other one started");
        }
    }
}
