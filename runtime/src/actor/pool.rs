//! `Pool`: actors of one type that share the work.
//!
//! - **PL-1 one worker**: each message goes to one worker, and a sender has it or a worker does. A
//!   sender that got room at a worker which was stopped since looks for another one.
//! - **PL-2 apart**: there is no dispatcher. Each sender looks for a worker itself, so a worker
//!   without room holds up those alone that can go to no other.
//! - **PL-3 in place**: a worker that fails is made anew in its place, behind the same reference,
//!   with what waits for it; a key leads to the same place while the size stays. Who finds it
//!   closed meanwhile waits for it as for room: [`Shared::changed`] tells when it takes messages
//!   again, from its rest on.
//! - **PL-4 drained**: a worker that is removed handles what it has, and begins anew for that where
//!   it fails or stops itself, as often as another worker would. What would still be sent to it
//!   goes to another one. So do all workers of a pool that is drained, by a shutdown of its node,
//!   too; it takes nothing more before the first of them is closed.
//! - **PL-5 awake**: a worker that rests, until it has started anew, counts as one without room
//!   while another one is at work that will have some. Where there is no such one, it is given
//!   messages, also those whose senders wait already.

mod ask;
mod builder;
mod open;
mod ring;
mod router;
mod supervisor;
mod tell;
#[cfg(test)]
mod tests;

use std::any::type_name;
use std::fmt;
use std::ptr;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::runtime::Handle;

use super::context::task::ordered;
use super::destination::View;
use super::reference::Sent;
use super::{Accepts, ActorPermit, ActorRef, Handlers};
use crate::address::Address;
use crate::error::{Cause, SpawnError, TellError};
use crate::limits;
use crate::message::{Message, Wire};
use crate::resident::Ended;
use ring::{Order, Ring, Shared};

pub use ask::PoolAsk;
pub use builder::PoolBuilder;
pub use ring::Routing;
pub use router::Router;
use supervisor::Known;
pub use supervisor::PoolSupervisor;
pub use tell::PoolTell;

/// Actors of one type that share the work: each message goes to one of them. Cheap to clone.
///
/// ```
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
/// pool: it makes a worker anew that fails or stops, in its place, and fails itself with one that
/// does so too often. Then it is made anew with all workers. The pool ends with it.
///
/// [`drain`](Self::drain) has the workers handle what they accepted and ends the pool, and so does
/// [`Node::shutdown`](crate::Node::shutdown). A worker that is drained alone is made anew, and
/// counts as one that has ended.
///
/// A pool chooses among workers of its own node, and is used by programs of this node. Others send
/// to a [`Router`].
pub struct Pool<A: Handlers> {
    shared: Arc<Shared<A>>,
    /// Its supervisor, by the name: for texts, and before the pool has begun.
    named: ActorRef<PoolSupervisor>,
    known: Known,
}

impl<A: Handlers> Pool<A> {
    /// Begins to describe a pool whose workers' state `make` makes, first and after each failure.
    pub fn builder(make: impl Fn() -> A + Send + Sync + 'static) -> PoolBuilder<A> {
        PoolBuilder::new(make)
    }

    /// Returns the workers, in their places.
    pub fn workers(&self) -> Vec<ActorRef<A>> {
        self.shared.ring().to_vec()
    }

    /// Returns the actor that has the workers as its children: to watch its end, or to stop the
    /// pool, which leaves what waits for the workers (so does a drain of this actor alone:
    /// [`drain`](Self::drain) the pool).
    /// Before the pool has begun it is whatever actor has the pool's name then.
    pub fn supervisor(&self) -> ActorRef<PoolSupervisor> {
        self.begun().unwrap_or_else(|| self.named.clone())
    }

    /// Returns the address of its supervisor.
    fn address(&self) -> Address {
        self.supervisor().address().clone()
    }

    /// Returns its supervisor if it has begun.
    fn begun(&self) -> Option<ActorRef<PoolSupervisor>> {
        self.known.read().clone()
    }

    /// Returns the runtime of its node.
    pub(super) fn runtime(&self) -> &Handle {
        self.shared.node.runtime()
    }

    /// Has the pool have so many workers; 0 counts as 1, and more than
    /// [`limits::POOL_WORKERS_MAX`] as that many. Others are added after the last place, or removed
    /// from there: these handle what they have, and end. Returns when the workers are the new ones,
    /// and not when those that were removed have ended. To the size that it has, nothing is done.
    ///
    /// Of the keys of [`by_key`](PoolBuilder::by_key) no more change their worker than have to: to
    /// the ones that are added, or from the ones that are removed.
    ///
    /// # Errors
    /// [`SpawnError`] when a worker does not start: then the workers are the old ones.
    /// [`NoSupervisor`](SpawnError::NoSupervisor) when the pool has not begun or has ended.
    ///
    /// # Cancel safety
    /// When the future is dropped, the size may change all the same.
    pub async fn resize(&self, size: usize) -> Result<(), SpawnError> {
        let Some(supervisor) = self.begun() else {
            return Err(supervisor::not_begun(self.named.address().clone()));
        };
        supervisor::resize(&supervisor, size.clamp(1, limits::POOL_WORKERS_MAX)).await
    }

    /// Has the workers handle what they accepted so far, accept nothing more, and stop; then the
    /// pool has ended. Returns when the pool accepts nothing more; its end may be waited for:
    ///
    /// ```
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
    /// worker that fails or stops itself meanwhile, or was stopping already, is made anew for what
    /// it still has, as often as another one; one that others stop ends, and what it still has are
    /// dead letters. One that has nothing left ends at once, also where it would rest first. A
    /// [`Router`] stops when the pool has ended, and what it still has finds no worker then: drain
    /// it first, and wait for its end.
    ///
    /// A stop of the [`supervisor`](Self::supervisor) ends the pool before that, and a shutdown of
    /// the node waits for it within its deadline.
    ///
    /// # Errors
    /// [`NoSuchActor`](Cause::NoSuchActor) when the pool has not begun. Draining one that has
    /// ended, or ends already, is no error.
    ///
    /// # Cancel safety
    /// When the future is dropped, the pool may drain all the same.
    pub async fn drain(&self) -> Result<(), Cause> {
        let supervisor = self.begun().ok_or(Cause::NoSuchActor)?;
        supervisor::drain(&supervisor).await
    }

    /// Returns an actor that hands each `M` that it is sent to a worker: for other nodes, which
    /// find it by the name under which it is spawned, or have its reference from a message.
    pub fn router<M: Message + Wire>(&self) -> Router<A, M>
    where
        A: Accepts<M>,
    {
        Router::new(self.clone())
    }

    /// Sends a message to a worker that has room for it now.
    ///
    /// # Errors
    /// [`TellError`], with the message: [`MailboxFull`](Cause::MailboxFull) when no worker has
    /// room that it may go to, also while that is made anew (one that rests or starts has none
    /// while another one is at work); [`Stopped`](Cause::Stopped) when the pool has ended, or
    /// [`Shutdown`](Cause::Shutdown) when it has, or ends, because its node shuts down.
    pub fn try_tell<M: Message>(&self, message: M) -> Result<(), TellError<M>>
    where
        A: Accepts<M>,
    {
        let ring = self.shared.ring();
        self.try_each(&ring, self.shared.order(&ring, &message), message)
    }

    /// Sends a message to a worker. When none has room to which it may go, it goes to the first one
    /// that has; workers that are added or made anew meanwhile are such, too.
    ///
    /// # Errors
    /// [`TellError`], with the message: [`Stopped`](Cause::Stopped) when the pool has ended or has
    /// not begun (or when only the worker that sends it could take it, and that is to stop),
    /// [`Shutdown`](Cause::Shutdown) instead when its node shuts down, and others as of
    /// [`ActorRef::tell`]. What a worker has when it ends for good, with its pool or because it
    /// failed too often, is a dead letter.
    pub fn tell<M>(&self, message: M) -> PoolTell<'_, A, Sent<A, M>>
    where
        A: Accepts<M>,
    {
        PoolTell::new(self, message)
    }

    /// Sends a message to a worker as [`tell`](Self::tell) does, and waits for the answer: as long
    /// as an ask of a worker does, or as [`timeout`](PoolAsk::timeout) says.
    ///
    /// # Errors
    /// [`AskError`](crate::AskError).
    pub fn ask<M>(&self, message: M) -> PoolAsk<'_, A, Sent<A, M>>
    where
        A: Accepts<M>,
    {
        PoolAsk::new(self, message)
    }

    /// Sends to the first worker in `order` that has room now.
    fn try_each<M: Message>(
        &self,
        ring: &Ring<A>,
        order: Order,
        mut message: M,
    ) -> Result<(), TellError<M>>
    where
        A: Accepts<M>,
    {
        let mut rounds = order.rounds(ring);
        while let Some(worker) = rounds.next() {
            let Err(unsent) = worker.try_tell(message) else { return Ok(()) };
            message = unsent.message;
            match Refusal::from(unsent.cause) {
                Refusal::Full => rounds.will_have_room |= !worker.is_in_hand(),
                Refusal::Closed => {}
                Refusal::Circular(cause) | Refusal::Never(cause) => {
                    return Err(TellError { message, cause });
                }
            }
        }
        let cause = if self.is_over(ring) { self.over() } else { Cause::MailboxFull };
        Err(TellError { message, cause })
    }

    /// Waits for room at one of the workers in `order` but the one that sends and those in
    /// `circular`, and returns it with the worker: at those that rest only when no other one is at
    /// work (PL-5). While all of them are closed and the pool is not over, it waits for its end; so
    /// it does while some are and the others wait for the sender. (The caller looks again when
    /// [`Shared::changed`] says so: when the pool is about to end, too.)
    async fn room<'r, M: Message>(
        &self,
        ring: &'r Ring<A>,
        order: Order,
        circular: &[&'r ActorRef<A>],
    ) -> Result<(&'r ActorRef<A>, ActorPermit<A, M>), Cause>
    where
        A: Accepts<M>,
    {
        let mine = order.of(ring).find(|worker| worker.is_in_hand());
        let is_circular = |worker: &ActorRef<A>| circular.iter().any(|it| ptr::eq(*it, worker));
        let others = order.of(ring).filter(|worker| !worker.is_in_hand() && !is_circular(worker));
        let (resting, at_work): (Vec<_>, Vec<_>) =
            others.partition(|worker| order.passes_over(worker));
        let is_alone = resting.is_empty() && at_work.is_empty();
        let (has_closed, refusal) = match self.first_room(order, resting, at_work).await {
            Ok(room) => return Ok(room),
            Err(refused) => refused,
        };
        // One that has closed is made anew, and takes what would wait in a circle at the others.
        let (may_wait, cause) = match refusal {
            Refusal::Closed => (true, self.over()),
            Refusal::Circular(cause) => (has_closed, cause),
            Refusal::Full => (false, Cause::MailboxFull),
            Refusal::Never(cause) => (false, cause),
        };
        match mine {
            // It makes no room while it waits, and is not made anew.
            Some(mine) if !mine.is_closed() && is_alone => Err(Cause::MailboxFull),
            Some(mine) if mine.is_closed() => Err(cause),
            _ if !may_wait || self.is_over(ring) => Err(cause),
            _ => {
                tokio::select! {
                    () = self.ended() => {}
                    // All workers are told to stop, and this one is the last of them.
                    () = ordered(|| mine.is_some_and(ActorRef::is_closed)) => {}
                }
                Err(self.over())
            }
        }
    }

    /// Waits for room at one of the workers at work; at those that are `resting` only when none is
    /// at work any more (PL-5). An error says whether one has closed, and why the others refuse:
    /// the last of them counts.
    async fn first_room<'r, M: Message>(
        &self,
        order: Order,
        mut resting: Vec<&'r ActorRef<A>>,
        at_work: Vec<&'r ActorRef<A>>,
    ) -> Result<(&'r ActorRef<A>, ActorPermit<A, M>), (bool, Refusal)>
    where
        A: Accepts<M>,
    {
        let (mut has_closed, mut refusal) = (false, Refusal::Closed);
        let room_at =
            |worker: &'r ActorRef<A>| async move { (worker, worker.reserve::<M>().await) };
        let mut rooms: FuturesUnordered<_> = at_work.iter().copied().map(room_at).collect();
        loop {
            let room = tokio::select! {
                biased;
                room = rooms.next() => room,
                // It keeps its turns where it waits.
                () = self.shared.none_at_work(order, &at_work), if !resting.is_empty() => None,
            };
            let Some((worker, room)) = room else {
                if resting.is_empty() {
                    return Err((has_closed, refusal));
                }
                rooms.extend(resting.drain(..).map(room_at));
                continue;
            };
            match room.map_err(Refusal::from) {
                Ok(room) if !room.is_void() => return Ok((worker, room)),
                // In its room the message would be a dead letter (PL-1).
                Ok(_) | Err(Refusal::Closed) => has_closed = true,
                Err(refused) => refusal = refused,
            }
        }
    }

    /// Returns true if no worker of these is made anew: the pool has ended, is to end, or has not
    /// begun.
    fn is_over(&self, ring: &Ring<A>) -> bool {
        let supervisor = self.supervisor();
        ring.is_empty()
            || supervisor.is_closed() && (supervisor.is_stopping() || !self.shared.takes_routed())
    }

    /// Returns what the sender to a pool is told that is over.
    fn over(&self) -> Cause {
        if self.shared.is_leaving() { Cause::Shutdown } else { Cause::Stopped }
    }

    /// Waits until the pool has ended.
    async fn ended(&self) {
        if let View::Local(supervisor) = self.supervisor().destination().view() {
            Ended::of(supervisor.shared()).await;
        }
    }
}

/// The refusal of a message by one worker, as it counts for its pool.
enum Refusal {
    /// It has no room now, and will have some.
    Full,
    /// It is closed: it begins anew, or was removed (PL-3, PL-4).
    Closed,
    /// It is the sender, or waits for that: another one may take the message.
    Circular(Cause),
    /// No worker takes the message.
    Never(Cause),
}

impl From<Cause> for Refusal {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::MailboxFull => Refusal::Full,
            // On a node that shuts down, too: its workers are made anew for what routers have.
            Cause::Stopped | Cause::Shutdown => Refusal::Closed,
            Cause::SelfAsk | Cause::Cycle(_) => Refusal::Circular(cause),
            cause => Refusal::Never(cause),
        }
    }
}

impl<A: Handlers> Clone for Pool<A> {
    fn clone(&self) -> Self {
        Pool { shared: self.shared.clone(), named: self.named.clone(), known: self.known.clone() }
    }
}

impl<A: Handlers> fmt::Debug for Pool<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool<{}>({})", type_name::<A>(), self.named.address())
    }
}
