//! `Router`: an actor that hands messages to the workers of a pool.

use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use ringpost_transport::log;
use tokio::sync::{Mutex, OwnedMutexGuard, Semaphore};
use tokio::task::unconstrained;
use tokio::time::Instant;

use super::Pool;
use super::open::{Open, OpenOne};
use crate::actor::{Accepts, Actor, Context, Down, Handler, Handlers, ReplyTo};
use crate::address::Address;
use crate::busy::{apart, at_rest};
use crate::dead_letter::{DeadLetter, DeadLetterCause};
use crate::error::{AskCause, AskError, BoxError, Cause, TellError};
use crate::limits;
use crate::message::{Message, Wire};
use crate::spans;
use crate::waits::hand_on;
use crate::{actor, handlers};

/// An actor that hands each `M` that it is sent to a worker of a [`Pool`](super::Pool), by the
/// pool's routing and keys: for programs of other nodes. Made by [`Pool::router`], and spawned as
/// any other actor. It stops when the pool has ended (one that began before its pool, when it was
/// sent a message, too).
///
/// It waits for no answer, and a worker that has no room holds up those messages alone that can go
/// to no other one: [`limits::ROUTER_WAITING_MAX`] messages may wait, or be asks that are not
/// answered (one whose asker gives up waits no longer, and is not begun), or as many as
/// [`waiting_max`](Self::waiting_max) says. Only then does it take no more: they wait in its
/// mailbox, and then its senders do. An ask for which a worker of the pool waits needs no place
/// among them; but in the mailbox it waits as others do, so that a worker does better to ask its
/// pool itself. Messages with a [key](super::PoolBuilder::by_key) reach their worker in the order
/// in which the router has them, while the size of the pool stays and the router is not made anew
/// itself; of others the order is not promised.
///
/// An asker gets the worker's answer, or learns why there is none, as if it had asked the worker:
/// [`Panicked`](crate::AskCause::Panicked) says that the worker did. The router itself has the
/// message of an ask that no worker takes, so that the asker gets
/// [`NotBegun`](crate::AskCause::NotBegun) and not [`NotSent`](crate::AskCause::NotSent): with
/// [`Stopped`](crate::NotBegun::Stopped) when the pool has ended, and with
/// [`Timeout`](crate::NotBegun::Timeout) when no worker had room in time (mostly the time of its
/// own ask is over then, too, and it gets [`Timeout`](crate::AskCause::Timeout)). The log says why.
/// A message that was told and that no worker takes is a dead letter of the pool.
///
/// A drain hands over all that was sent to it: it has ended when workers have all of that, and what
/// it has in hand then, answers, goes on without it. So does all else after a stop, which waits for
/// no worker. To drain a pool and lose nothing, drain its routers first, and wait for their ends;
/// [`Node::shutdown`](crate::Node::shutdown) does so. (Not in a handler of a worker: where all
/// workers that may take what is left are full and wait for the end of their router so, it ends
/// before they have that. Two routers whose full workers each wait for the end of the other one
/// end when they are stopped.)
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
/// let pool = Pool::builder(Squarer::default).size(4).spawn(&node, "squarers").await?;
/// node.spawn("square", pool.router::<Square>()).await?;
/// // This program has no need to know the workers' type, or that they are many.
/// let square: Recipient<Square, u64> = node.recipient("alpha/square").await?;
/// assert_eq!(square.ask(Square { number: 3 }).await?, 9);
/// # Ok(())
/// # }
/// ```
pub struct Router<A: Handlers, M> {
    pool: Pool<A>,
    /// A permit for each message in hand.
    room: Arc<Semaphore>,
    /// The messages that no worker has, by the hash of the key that each may have: a drain waits
    /// for all.
    unsent: Open<Option<u64>, Turns>,
    /// It watches the pool, which has begun.
    watches: bool,
    /// There from its start on, where it is on the node of its pool.
    counted: Option<Arc<OpenOne<()>>>,
    _message: PhantomData<fn(M)>,
}

/// A message that no worker has, until this is dropped. The drain of the router waits for it, and
/// where the node shuts down the pool does, also when the router has ended.
struct Unsent {
    of_router: OpenOne<Option<u64>, Turns>,
    _of_pool: Option<Arc<OpenOne<()>>>,
}

/// The turns of the messages with one key, in the order in which they were waited for first: a
/// message has its turn until it is sent, or will not be.
type Turns = Arc<Mutex<()>>;

impl<A: Accepts<M>, M: Message + Wire> Router<A, M> {
    pub(super) fn new(pool: Pool<A>) -> Self {
        Router {
            pool,
            room: Arc::new(Semaphore::new(limits::ROUTER_WAITING_MAX)),
            unsent: Open::new(),
            watches: false,
            counted: None,
            _message: PhantomData,
        }
    }

    /// Sets how many messages it has in hand: those that wait for a worker, and asks that are not
    /// answered, but for those asks for which workers of the pool wait.
    /// [`limits::ROUTER_WAITING_MAX`] when not set, and no more than that; 0 counts as 1. Beyond
    /// them as many wait as its mailbox has room for, and then their senders. Of this node
    /// that is the capacity of the mailbox, and of each other node the window of its
    /// [`Profile`](crate::Profile).
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
    /// let options = SpawnOptions::named("square").mailbox_capacity(16);
    /// node.spawn_with(options, pool.router::<Square>().waiting_max(16)).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn waiting_max(mut self, messages: usize) -> Self {
        self.room = Arc::new(Semaphore::new(messages.clamp(1, limits::ROUTER_WAITING_MAX)));
        self
    }
}

#[actor(name = "ringpost::Router")]
#[diagnostic::do_not_recommend]
impl<A: Accepts<M>, M: Message + Wire> Actor for Router<A, M> {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.watch(cx);
        let routed = &self.pool.shared.routed;
        let is_near = cx.node().id() == self.pool.shared.node.id();
        self.counted = is_near.then(|| Arc::new(routed.begin(())));
        let unsent = self.unsent.clone();
        cx.finish_with(async move { unsent.none().await });
        Ok(())
    }
}

impl<A: Accepts<M>, M: Message + Wire> Router<A, M> {
    /// Has it stop when its pool has ended, if that has begun.
    fn watch(&mut self, cx: &mut Context<Self>) {
        if !self.watches
            && let Some(supervisor) = self.pool.begun()
        {
            cx.watch(&supervisor);
            self.watches = true;
        }
    }
}

#[handlers(Down)]
impl<A: Accepts<M>, M: Message + Wire> Router<A, M> {
    /// Hands a message to a worker, whose answer goes to the asker.
    #[handler]
    pub async fn route(
        &mut self,
        msg: M,
        reply: ReplyTo<<A as Accepts<M>>::Reply>,
        cx: &mut Context<Self>,
    ) {
        self.watch(cx);
        let room = match self.room.clone().try_acquire_owned() {
            Ok(room) => Some(room),
            Err(_) => {
                let room = async {
                    tokio::select! {
                        biased;
                        () = poll_fn(|cx| reply.poll_gone(cx)), if reply.is_awaited() => None,
                        room = self.room.clone().acquire_owned() => Some(room.ok()),
                        // A drain does not wait for workers: no more comes than its mailbox has.
                        () = cx.is_to_end() => Some(None),
                    }
                };
                let Some(room) = at_rest(room).await else { return };
                room
            }
        };
        let deadline = cx.deadline();
        let asker = reply.asked().and_then(|asked| asked.asker());
        let key = self.pool.shared.key(&msg);
        let _of_pool = self.counted.clone();
        let unsent = Unsent { of_router: self.unsent.begin(key), _of_pool };
        let turns = key.map(|_| unsent.of_router.shared());
        let hand_over = hand_over(self.pool.clone(), msg, reply, deadline, (turns, unsent));
        let of_pool = self.counted.is_some().then(|| self.pool.shared.in_hand.begin(()));
        let mut in_hand = Box::pin(hand_on(
            asker,
            spans::keep(async move {
                hand_over.await;
                drop((room, of_pool));
            }),
        ));
        // Most need no task. One that does outlives the router. It waits for its turn from here on.
        // (Apart: this handler does not wait for the worker.)
        let first = poll_fn(|task| Poll::Ready(apart(|| in_hand.as_mut().poll(task))));
        if unconstrained(first).await.is_pending() {
            cx.node().runtime().spawn(in_hand);
        }
    }
}

#[diagnostic::do_not_recommend]
impl<A: Accepts<M>, M: Message + Wire> Handler<Down> for Router<A, M> {
    type Reply = ();

    async fn handle(&mut self, _: Down, cx: &mut Context<Self>) {
        cx.stop();
    }
}

/// Waits for the turn of a message; `None` when its asker has given up.
async fn turn_of<R>(turns: Turns, reply: &mut ReplyTo<R>) -> Option<OwnedMutexGuard<()>> {
    tokio::select! {
        biased;
        () = reply.given_up() => None,
        turn = turns.lock_owned() => Some(turn),
    }
}

async fn hand_over<A: Accepts<M>, M: Message>(
    pool: Pool<A>,
    message: M,
    mut reply: ReplyTo<<A as Accepts<M>>::Reply>,
    deadline: Option<Instant>,
    (turns, unsent): (Option<Turns>, Unsent),
) {
    let turn = match turns {
        None => None,
        Some(turns) => match turn_of(turns, &mut reply).await {
            None => {
                let (late, name) = (AskCause::NotSent(Cause::Timeout), pool.address());
                return unanswered(reply, &name, AskError::new(late, name.clone(), M::NAME));
            }
            turn => turn,
        },
    };
    if !reply.is_awaited() {
        return pool.tell(message).await.unwrap_or_else(|error| lost(&pool, &error));
    }
    let mut ask = pool.ask(message);
    if let Some(deadline) = deadline {
        ask = ask.timeout(deadline.saturating_duration_since(Instant::now()));
    }
    let answer = {
        let mut asked = pin!(ask.answer(|| drop((turn, unsent))));
        tokio::select! {
            biased;
            // As that of an asker which had asked the worker itself: also one that has room now is
            // not begun.
            () = poll_fn(|cx| reply.poll_gone(cx)) => return,
            answer = &mut asked => answer,
        }
    };
    match answer {
        Ok(answer) => reply.send(answer),
        Err(error) => unanswered(reply, &pool.address(), error),
    }
}

/// Buries a message that a router was told, and that no worker takes.
fn lost<A: Accepts<M>, M: Message>(pool: &Pool<A>, error: &TellError<M>) {
    let name = pool.address();
    log::warn!(pool = %name, message = M::NAME, %error, "a router lost a message");
    pool.shared.node.dead_letters().bury(DeadLetter {
        to: name,
        message: M::ID,
        name: Some(M::NAME),
        cause: DeadLetterCause::Stopped,
    });
}

/// Ends a routed ask of the pool `name` without an answer.
fn unanswered<R>(reply: ReplyTo<R>, name: &Address, error: AskError) {
    log::warn!(pool = %name, %error, "no answer to an ask that was routed");
    reply.unanswered_by(error.cause);
}
