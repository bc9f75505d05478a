//! `Pool`: actors of one type that share the work.
//!
//! Each message goes to one worker, or its sender still has it. Each sender chooses a worker
//! itself, so a worker without room holds up only the messages that can go to no other.
//!
//! A worker that fails or stops restarts in its place, behind the same reference, and keeps its
//! mailbox: messages sent to it meanwhile wait there. A worker that is closed is passed over; a key
//! leads to the same place while the size stays. A worker that is removed, or whose pool is
//! drained, leaves the ring first, accepts nothing more, and handles its accepted messages.

mod ask;
mod builder;
mod ring;
mod router;
mod supervisor;

use std::any::type_name;
use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::runtime::Handle;
use tokio::task::coop;

use super::reference::AcceptedMessage;
use super::{Accepts, ActorPermit, ActorRef, Handlers};
use crate::error::{Cause, SpawnError, TellError};
use crate::limits;
use crate::message::{Message, Wire};
use ring::{PoolState, Ring};

pub use ask::PoolAsk;
pub use builder::PoolBuilder;
pub use ring::Routing;
pub use router::Router;
pub use supervisor::PoolSupervisor;
use supervisor::{SupervisorSlot, is_end};

/// Actors of one type that share the work: each message goes to one of them. Cheap to clone.
///
/// ```
/// use ringpost::pool::{Pool, Routing};
/// use ringpost::prelude::*;
///
/// #[actor]
/// #[derive(Default)]
/// struct Squarer;
///
/// #[handlers]
/// impl Squarer {
///     #[handler]
///     fn square(&mut self, number: u64) -> u64 {
///         number * number
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let node = Node::builder("alpha").start().await?;
/// let pool = Pool::builder(Squarer::default)
///     .size(4)
///     .routing(Routing::LeastLoaded)
///     .spawn(&node, "squarers")
///     .await?;
/// assert_eq!(pool.ask(Square { number: 3 }).await?, 9);
/// pool.resize(2).await?;
/// assert_eq!(pool.workers().len(), 2);
/// # Ok(())
/// # }
/// ```
///
/// The workers are the children of an actor, the [`PoolSupervisor`], which has the name of the
/// pool. A worker that fails or stops restarts in its place, and messages that are sent to it
/// meanwhile wait in its mailbox. If a worker ends too often, the supervisor fails, and restarts
/// with new workers in all places. The pool ends with its supervisor.
///
/// A worker that is stopping is closed until it has restarted: meanwhile messages go to the next
/// worker, including messages of its keys. When all workers are closed, or there are none because
/// the pool has ended or not begun, a message comes back with [`Cause::Stopped`].
///
/// A pool chooses among workers of its own node, and is used by programs of this node. Programs of
/// other nodes send to a [`Router`].
pub struct Pool<A: Handlers> {
    shared: Arc<PoolState<A>>,
    known: SupervisorSlot,
}

/// The workers that refused an ask because they wait for the asker, each with the reason.
type RefusedWorkers<A> = [(ActorRef<A>, Cause)];

impl<A: Handlers> Pool<A> {
    /// Returns a builder of a pool. `make` makes the state of each worker, at its start and at each
    /// restart.
    pub fn builder(make: impl Fn() -> A + Send + Sync + 'static) -> PoolBuilder<A> {
        PoolBuilder::new(make)
    }

    /// Returns the workers, in the order of their places: none if the pool was drained or has not
    /// begun.
    pub fn workers(&self) -> Vec<ActorRef<A>> {
        self.shared.ring().to_vec()
    }

    /// Returns the actor that has the workers as its children, to watch its end or to stop the
    /// pool. A stop leaves the waiting messages of the workers unhandled, and so does a drain of
    /// this actor alone: [`drain`](Self::drain) the pool instead.
    ///
    /// Before the pool has begun, this leads to whatever actor has the pool's name then.
    pub fn supervisor(&self) -> ActorRef<PoolSupervisor> {
        let named = || ActorRef::bind(&self.shared.node, self.shared.address.clone());
        self.begun().unwrap_or_else(named)
    }

    /// Returns the supervisor, if the pool has begun.
    fn begun(&self) -> Option<ActorRef<PoolSupervisor>> {
        self.known.read().clone()
    }

    /// Returns the runtime of the pool's node.
    pub(super) fn runtime(&self) -> &Handle {
        self.shared.node.runtime()
    }

    /// Resizes the pool to `size` workers, at least 1 and at most [`limits::POOL_WORKERS_MAX`].
    /// Workers are added after the last place, or removed from there: removed workers handle their
    /// messages, and end. Returns when the new workers have started, which may be before the
    /// removed ones have ended.
    ///
    /// As few keys of [`by_key`](PoolBuilder::by_key) as possible change their worker: they move to
    /// added workers, or away from removed ones.
    ///
    /// # Errors
    /// [`SpawnError`] if a worker does not start: then the workers are the old ones.
    /// [`NoSupervisor`](SpawnError::NoSupervisor) if the pool has not begun or has ended.
    ///
    /// # Cancel safety
    /// If the future is dropped, the size may still change.
    pub async fn resize(&self, size: usize) -> Result<(), SpawnError> {
        let Some(supervisor) = self.begun() else {
            return Err(supervisor::not_begun(self.shared.address.clone()));
        };
        supervisor::resize(&supervisor, size.clamp(1, limits::POOL_WORKERS_MAX)).await
    }

    /// Closes the pool: it accepts nothing more, its workers handle their accepted messages, and
    /// then the pool has ended. Returns when the pool is closed. To wait for its end:
    ///
    /// ```
    /// # use ringpost::pool::Pool;
    /// # use ringpost::prelude::*;
    /// # #[actor]
    /// # #[derive(Default)]
    /// # struct Squarer;
    /// # #[handlers]
    /// # impl Squarer {
    /// #     #[handler]
    /// #     fn square(&mut self, number: u64) -> u64 {
    /// #         number * number
    /// #     }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), BoxError> {
    /// # let node = Node::builder("alpha").start().await?;
    /// # let pool = Pool::builder(Squarer::default).spawn(&node, "squarers").await?;
    /// let asked = tokio::spawn(pool.ask(Square { number: 3 }).into_ask());
    /// # tokio::task::yield_now().await;
    /// pool.drain().await?;
    /// assert_eq!(pool.tell(Square { number: 4 }).await.unwrap_err().cause, Cause::Stopped);
    /// assert_eq!(asked.await??, 9);
    /// assert_eq!(pool.supervisor().wait_stopped().await, ActorExit::Stopped);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Senders that wait for room get their messages back, with [`Stopped`](Cause::Stopped). A
    /// worker that fails meanwhile restarts for the messages it still has, as often as any worker;
    /// messages left in a worker that is stopped, or stops itself, are dead letters. A [`Router`]
    /// stops when the pool has ended, and its messages find no worker then: drain the router first,
    /// and wait for its end.
    ///
    /// A stop of the [`supervisor`](Self::supervisor) ends the pool earlier. A shutdown of the node
    /// waits for the drain within its deadline.
    ///
    /// # Errors
    /// [`NoSuchActor`](Cause::NoSuchActor) if the pool has not begun. Draining a pool that has
    /// ended, or is ending, is no error.
    ///
    /// # Cancel safety
    /// If the future is dropped, the pool may still drain.
    pub async fn drain(&self) -> Result<(), Cause> {
        let supervisor = self.begun().ok_or(Cause::NoSuchActor)?;
        supervisor::drain(&supervisor).await
    }

    /// Returns an actor that passes each `M` to a worker. It serves other nodes, which find it by
    /// the name under which it is spawned, or get its reference in a message.
    pub fn router<M: Message + Wire>(&self) -> Router<A, M>
    where
        A: Accepts<M>,
    {
        Router::new(self.clone())
    }

    /// Sends a message to a worker that has room for it now.
    ///
    /// # Errors
    /// [`TellError`], with the message: [`MailboxFull`](Cause::MailboxFull) when no worker that may
    /// take it has room; [`Stopped`](Cause::Stopped) when all workers are closed or there are none,
    /// or [`Shutdown`](Cause::Shutdown) when that is because the node shuts down.
    pub fn try_tell<M: Message>(&self, message: M) -> Result<(), TellError<M>>
    where
        A: Accepts<M>,
    {
        let (ring, key) = (self.shared.ring(), self.shared.key(&message));
        let mut unsent = TellError { message, cause: self.shared.over() };
        let mut is_full = false;
        for worker in self.shared.order(&ring, key) {
            let Err(refused) = worker.try_tell(unsent.message) else { return Ok(()) };
            unsent = refused;
            match unsent.cause {
                Cause::MailboxFull if key.is_none() => is_full = true,
                ref cause if is_end(cause) => {}
                _ => return Err(unsent),
            }
        }
        if is_full {
            unsent.cause = Cause::MailboxFull;
        }
        Err(unsent)
    }

    /// Sends a message to a worker. When no worker that may take it has room, it goes to the first
    /// that gets room.
    ///
    /// # Errors
    /// [`TellError`], with the message: the errors of [`try_tell`](Self::try_tell). The exception
    /// is [`MailboxFull`](Cause::MailboxFull), which only a worker of the pool gets, because it
    /// does not wait for room in its own mailbox. Messages that a worker has accepted when it ends
    /// without a restart, with its pool or because it failed too often, are dead letters.
    pub fn tell<M>(&self, message: M) -> PoolTell<'_, A, AcceptedMessage<A, M>>
    where
        A: Accepts<M>,
    {
        PoolTell { pool: self, message: Some(message), sends: None }
    }

    async fn tell_when_room<M: Message>(&self, message: M) -> Result<(), TellError<M>>
    where
        A: Accepts<M>,
    {
        // A task that does nothing but tell must let other tasks run.
        coop::consume_budget().await;
        let message = match self.try_tell(message) {
            Err(TellError { message, cause: Cause::MailboxFull }) => message,
            told => return told,
        };
        match self.room(self.shared.key(&message), &[]).await {
            Ok((_, room)) => room.tell(message),
            Err(cause) => Err(TellError { message, cause }),
        }
    }

    /// Sends a message to a worker as [`tell`](Self::tell) does, and waits for the answer. The
    /// timeout is that for an ask of a worker, unless [`timeout`](PoolAsk::timeout) sets another.
    /// If a worker asks its own pool, the pool chooses a worker that does not wait for the asker.
    ///
    /// # Errors
    /// [`AskError`](crate::AskError).
    pub fn ask<M>(&self, message: M) -> PoolAsk<'_, A, AcceptedMessage<A, M>>
    where
        A: Accepts<M>,
    {
        PoolAsk::new(self, message)
    }

    /// Waits for room at a worker for a message with this key, and chooses again when the workers
    /// are replaced.
    async fn room<M: Message>(
        &self,
        key: Option<u64>,
        refused: &RefusedWorkers<A>,
    ) -> Result<(ActorRef<A>, ActorPermit<A, M>), Cause>
    where
        A: Accepts<M>,
    {
        loop {
            let mut changed = pin!(self.shared.changed());
            changed.as_mut().enable();
            let ring = self.shared.ring();
            tokio::select! {
                biased;
                () = changed => {}
                room = self.first_room(&ring, key, refused) => return room,
            }
        }
    }

    /// Waits for room at the workers of `ring`: at all of them if there is no key, otherwise at the
    /// first worker that is not closed.
    async fn first_room<M: Message>(
        &self,
        ring: &Ring<A>,
        key: Option<u64>,
        refused: &RefusedWorkers<A>,
    ) -> Result<(ActorRef<A>, ActorPermit<A, M>), Cause>
    where
        A: Accepts<M>,
    {
        let mut refusal = refused.last().map_or_else(|| self.shared.over(), |last| last.1.clone());
        let is_left = |worker: &&ActorRef<A>| refused.iter().all(|(other, _)| other != *worker);
        let mut workers = self.shared.order(ring, key).filter(is_left);
        let mut rooms = FuturesUnordered::new();
        loop {
            let next = if key.is_none() || rooms.is_empty() { workers.next() } else { None };
            let room = match next {
                None => rooms.next().await,
                Some(worker) => {
                    rooms.push(async move { (worker, worker.reserve::<M>().await) });
                    match futures::poll!(rooms.next()) {
                        Poll::Ready(room) => room,
                        Poll::Pending => continue,
                    }
                }
            };
            match room {
                None => return Err(refusal),
                Some((worker, Ok(room))) if !room.is_void() => return Ok((worker.clone(), room)),
                // The worker has closed: in its room the message would be a dead letter.
                Some((_, Ok(_))) => {}
                Some((_, Err(cause))) if key.is_some() && !is_end(&cause) => return Err(cause),
                Some((_, Err(cause))) => refusal = cause,
            }
        }
    }
}

/// A message on its way to a worker of a [`Pool`].
///
/// # Cancel safety
/// If this is dropped before it is ready, nothing was sent: the message is dropped with it, and the
/// next senders get its turns for room.
#[must_use = "nothing is sent until this is awaited"]
pub struct PoolTell<'a, A: Handlers, M> {
    pool: &'a Pool<A>,
    /// `Some` until the first poll.
    message: Option<M>,
    sends: Option<BoxFuture<'a, Result<(), TellError<M>>>>,
}

impl<A: Handlers, M> Unpin for PoolTell<'_, A, M> {}

impl<A: Accepts<M>, M: Message> Future for PoolTell<'_, A, M> {
    type Output = Result<(), TellError<M>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(message) = this.message.take() {
            this.sends = Some(Box::pin(this.pool.tell_when_room(message)));
        }
        this.sends.as_mut().expect("a `tell` was polled after it was ready").as_mut().poll(cx)
    }
}

impl<A: Handlers> Clone for Pool<A> {
    fn clone(&self) -> Self {
        Pool { shared: self.shared.clone(), known: self.known.clone() }
    }
}

impl<A: Handlers> fmt::Debug for Pool<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool<{}>({})", type_name::<A>(), self.shared.address)
    }
}
