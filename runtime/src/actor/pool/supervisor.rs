//! The actor that has the workers of a pool as its children.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::RwLock;

use super::ring::Shared;
use crate::actor::{Actor, ActorRef, Child, Context, Handler, Handlers, Local};
use crate::address::Address;
use crate::error::{AskCause, AskError, BoxError, Cause, NotBegun, SpawnError};
use crate::limits;
use crate::message::Message;
use crate::mutants::planted;
use crate::resident::{Halt, Resident};
use crate::{actor, handlers, message};

/// The actor that has the workers of a [`Pool`](super::Pool) as its children. It has the name of
/// the pool; stopped, it stops the workers, and the pool has ended.
pub struct PoolSupervisor {
    workers: Box<dyn Workers>,
    known: Known,
}

/// The supervisor of a pool, from its first start on: another actor may have its name later.
pub(super) type Known = Arc<RwLock<Option<ActorRef<PoolSupervisor>>>>;

/// The workers of a pool, without their type.
trait Workers: Send + Sync {
    /// Starts all of them, in place of those that a pool had which was restarted.
    fn start<'a>(
        &'a self,
        cx: &'a mut Context<PoolSupervisor>,
    ) -> BoxFuture<'a, Result<(), SpawnError>>;

    /// Has there be so many.
    fn resize<'a>(
        &'a self,
        size: usize,
        cx: &'a mut Context<PoolSupervisor>,
    ) -> BoxFuture<'a, Result<(), SpawnError>>;

    /// Has all of them end when they have handled what they have.
    fn dismiss(&self);

    /// Waits until its routers have ended, and workers have all of theirs, where its node shuts
    /// down and drains them.
    fn routed_ended(&self) -> BoxFuture<'static, ()>;

    /// Waits until its routers have passed on the answers of its workers, where its node shuts
    /// down: their askers may be on other nodes, which are told goodbye then.
    fn answered(&self) -> BoxFuture<'static, ()>;

    /// Waits for `last`. Ready or dropped, it tells the senders that wait that the pool is over.
    fn finish(&self, last: BoxFuture<'static, ()>) -> BoxFuture<'static, ()>;
}

/// Tells the senders that wait, when it is dropped, that the pool is over: they do not wait for the
/// ends of the workers, among which they may be.
struct Over<A: Handlers>(Arc<Shared<A>>);

impl<A: Handlers> Drop for Over<A> {
    fn drop(&mut self) {
        // First: they look again, also whether it takes what its routers have.
        self.0.set_drained(true);
        self.0.is_anew();
    }
}

/// The workers of a pool.
struct Team<A: Handlers> {
    worker: Child<A>,
    shared: Arc<Shared<A>>,
}

impl PoolSupervisor {
    pub(super) fn new<A: Handlers>(worker: Child<A>, shared: Arc<Shared<A>>, known: Known) -> Self {
        PoolSupervisor { workers: Box::new(Team { worker, shared }), known }
    }
}

impl<A: Handlers> Team<A> {
    /// Starts so many workers more. Those that were started before one that fails to are ended.
    async fn add(
        &self,
        count: usize,
        cx: &mut Context<PoolSupervisor>,
    ) -> Result<Vec<ActorRef<A>>, SpawnError> {
        let mut started = Vec::with_capacity(count);
        for _ in 0..count {
            match cx.spawn(self.worker.clone()).await {
                Ok(worker) => started.push(worker),
                Err(error) => {
                    started.iter().for_each(|worker| worker.retire(Halt::Stop));
                    return Err(error);
                }
            }
        }
        Ok(started)
    }
}

impl<A: Handlers> Workers for Team<A> {
    fn start<'a>(
        &'a self,
        cx: &'a mut Context<PoolSupervisor>,
    ) -> BoxFuture<'a, Result<(), SpawnError>> {
        let start = async {
            self.shared.set_drained(false);
            let workers = self.add(self.shared.size(), cx).await?;
            self.shared.replace(workers);
            Ok(())
        };
        start.boxed()
    }

    fn resize<'a>(
        &'a self,
        size: usize,
        cx: &'a mut Context<PoolSupervisor>,
    ) -> BoxFuture<'a, Result<(), SpawnError>> {
        let resize = async move {
            let mut workers = self.shared.ring().to_vec();
            if workers.len() == size {
                // Senders that wait keep their turns.
                return Ok(());
            }
            workers.extend(self.add(size.saturating_sub(workers.len()), cx).await?);
            let removed = workers.split_off(size);
            // First: a sender that finds one closed finds the others in its place (PL-4).
            self.shared.replace(workers);
            for worker in &removed {
                if planted!(StoppedWorkers) {
                    worker.retire(Halt::Stop);
                } else {
                    worker.dismiss();
                }
            }
            Ok(())
        };
        resize.boxed()
    }

    fn dismiss(&self) {
        self.shared.set_drained(true);
        self.shared.ring().iter().for_each(ActorRef::dismiss);
        // Senders that wait for one to be made anew learn that none is.
        self.shared.is_anew();
    }

    fn routed_ended(&self) -> BoxFuture<'static, ()> {
        let shared = self.shared.clone();
        Box::pin(async move {
            if shared.is_leaving() {
                shared.routed.none().await;
            }
        })
    }

    fn answered(&self) -> BoxFuture<'static, ()> {
        let shared = self.shared.clone();
        Box::pin(async move {
            if shared.is_leaving() {
                shared.in_hand.none().await;
            }
        })
    }

    fn finish(&self, last: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        let over = Over(self.shared.clone());
        Box::pin(async move {
            let _over = over;
            last.await;
        })
    }
}

#[actor(name = "ringpost::Pool")]
#[diagnostic::do_not_recommend]
impl Actor for PoolSupervisor {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        let old = self.known.write().replace(cx.actor().clone());
        drop(old);
        cx.finish_with(self.workers.finish(self.workers.routed_ended()));
        Ok(self.workers.start(cx).await?)
    }

    async fn on_stop(&mut self, _: &mut Context<Self>) {
        self.workers.answered().await;
    }
}

#[handlers(Resize)]
impl PoolSupervisor {
    /// Ends the pool when the workers have handled what they have. Answers when the pool takes
    /// nothing more; so do those that come after it.
    #[handler(local)]
    fn drain_workers(&mut self, cx: &mut Context<Self>) {
        // First: a sender that finds a worker closed finds that the pool is over.
        cx.drain();
        self.workers.dismiss();
        // Also those that were removed before, and have not ended. (Not here: a worker that drains
        // its pool, too, has its answer then.)
        let ended = cx.children_ended();
        if !planted!(HastyDrain) {
            cx.finish_with(self.workers.finish(Box::pin(ended)));
        }
    }
}

/// Has a pool have so many workers.
#[message(local)]
struct Resize(usize);

/// Has a pool have so many workers.
pub(super) async fn resize(
    supervisor: &ActorRef<PoolSupervisor>,
    size: usize,
) -> Result<(), SpawnError> {
    // Its workers say how long they take to start.
    let asked = supervisor.ask(Resize(size)).timeout(limits::ASK_TIMEOUT_MAX);
    asked.await.map_err(SpawnError::NoSupervisor)?.0
}

/// Has a pool take nothing more, and end when its workers have handled what they have.
pub(super) async fn drain(supervisor: &ActorRef<PoolSupervisor>) -> Result<(), Cause> {
    let asked = supervisor.ask(DrainWorkers).timeout(limits::ASK_TIMEOUT_MAX).await;
    match asked.map_err(|error| error.cause) {
        Err(AskCause::NotSent(cause)) if !is_end(&cause) => Err(cause),
        // Where there is no answer it has ended, or does.
        _ => Ok(()),
    }
}

/// Returns true if an actor that was not asked has ended, or does, with its node or without.
fn is_end(cause: &Cause) -> bool {
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
            // New workers would be told of and stopped.
            let never = AskCause::NotBegun(NotBegun::Stopped);
            let error = AskError::new(never, cx.actor().address().clone(), Resize::NAME);
            return Local(Err(SpawnError::NoSupervisor(error)));
        }
        Local(self.workers.resize(msg.0, cx).await)
    }
}
