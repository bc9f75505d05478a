//! The context of a handler: its actor and node, and the registrations that it makes.

pub(crate) mod child;
pub(crate) mod family;
pub(crate) mod lane;
mod stash;
pub(super) mod task;
pub(crate) mod timers;
pub(crate) mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use parking_lot::Mutex;
use ringpost_transport::log;
use rkyv::Archived;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::cell::ActorCell;
use super::cell::route::{Label, LabeledEnvelope};
use super::send::destination::Destination;
use super::{Accepts, ActorPort, ActorRef, ClosureMessage, Handlers, ReplyTo, SpawnOptions};
use crate::archive;
use crate::error::{Cause, SpawnError};
use crate::limits;
use crate::message::{Message, Wire};
use crate::node::Node;
use crate::remote::Inbox;
use crate::resident::Halt;
use crate::spans::{self, Scope};
use crate::view::Input;
use child::{Child, Parent};
use family::{ChildHandle, Children};
use lane::{EventSources, TaskContinuation};
use task::{RegistrationStore, TypedStore};
use timers::{MessageFactory, TimerKey, TimerKind};
use watch::{Down, Watchable};

pub use stash::StashFull;

/// The context of a handler or hook: the reference of its own actor, its node, and the
/// registrations of timers, tasks, streams, and watched or linked actors.
///
/// A registration ends with the incarnation of the actor that made it: when the actor is stopped,
/// fails, or is restarted.
#[repr(C)]
pub struct Context<A: HasHandlers> {
    actor: A::Ref,
    more: Option<A::Registrations>,
    /// The message whose handler runs, if one runs.
    in_hand: Option<&'static Label>,
    deadline: Option<Instant>,
    /// The length of that message's payload in bytes; 0 if it was sent on this node.
    bytes: u32,
    /// Set if that message came from the mailbox.
    is_mail: bool,
    /// Set once the actor has started.
    pub(super) is_born: bool,
    /// The number of messages handled since the actor's task last let other tasks run.
    pub(super) turn: u16,
}

/// Implemented for each type that has `#[handlers]`, and for no other. Hooks have this bound and
/// not [`Handlers`]: `Handlers` requires `Actor`, so in the `impl Actor` of a generic type the
/// compiler would compare the hook's bound with the impl that is being written, and refuse it.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "actor `{Self}` has no `#[handlers]` block",
    note = "write `#[handlers] impl {Self} {{ .. }}`"
)]
pub trait HasHandlers {
    type Ref: Send + Sync;
    type Registrations: Send + Sync;
}

/// The registrations of an actor.
#[doc(hidden)]
pub struct Registrations<A: Handlers>(
    /// Never locked. The mutex makes `&Context` `Send`, although its content is not `Sync`.
    Box<Mutex<dyn TypedStore<A>>>,
);

#[diagnostic::do_not_recommend]
impl<A: Handlers> HasHandlers for A {
    type Ref = ActorRef<A>;
    type Registrations = Registrations<A>;
}

/// A handle to a stream that is [attached](Context::attach) to an actor. It may be kept anywhere,
/// for example in the actor's state.
#[derive(Debug, Clone)]
pub struct Attached(stream::AbortHandle);

impl Attached {
    /// Detaches the stream. If the actor itself calls this, for example in a handler, no further
    /// item is handled. The stream is dropped when the actor next looks for a message.
    pub fn detach(&self) {
        self.0.abort();
    }
}

impl<A: Handlers> Context<A> {
    pub(super) fn new(cell: Arc<ActorCell<A>>) -> Self {
        Context {
            actor: ActorRef::local(cell),
            in_hand: None,
            deadline: None,
            bytes: 0,
            is_mail: false,
            is_born: false,
            turn: 0,
            more: None,
        }
    }

    /// Returns the reference of the actor itself, to be sent in messages. Asking it from its own
    /// handler fails at once.
    pub fn actor(&self) -> &ActorRef<A> {
        &self.actor
    }

    /// Returns the node of the actor.
    pub fn node(&self) -> &Node {
        self.cell().node()
    }

    /// Stops the actor after the message it is handling. The messages in its mailbox become dead
    /// letters.
    pub fn stop(&self) {
        self.cell().resident().halt(Halt::Stop);
    }

    /// Drains the actor: it accepts nothing more, handles the messages that it has accepted, and
    /// stops.
    pub fn drain(&self) {
        self.cell().resident().halt(Halt::Drain);
    }

    /// Returns the time at which the asker of the message in hand gives up. An ask that the handler
    /// makes ends then at the latest, unless it has a [`timeout`](super::Ask::timeout) of its own.
    /// It also ends when the asker goes away earlier, except in a handler that takes a [`ReplyTo`].
    /// Returns `None` for a tell.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Deserializes a part of a [`View`](crate::View): `cx.own(&msg.reply_to)`. References to
    /// actors are bound to this node.
    ///
    /// # Panics
    /// See [`View::to_owned`](crate::View::to_owned).
    pub fn own<T: Wire>(&self, archive: &Archived<T>) -> T {
        archive::own::<T>(archive, self.node())
            .expect("a field's `Deserialize` refuses what its own `CheckBytes` accepted")
    }

    /// Sends `message` to the actor itself after a time, at most a year. Replaces an earlier timer
    /// of the same key.
    pub fn tell_after<M: Message>(&mut self, key: impl Into<TimerKey>, after: Duration, message: M)
    where
        A: Accepts<M>,
    {
        let Some(item) = self.item(message) else { return };
        self.set_timer(key.into(), after, TimerKind::Once(item));
    }

    /// Sends `message` to the actor itself once per period, at first after one period, which is at
    /// most a year. Replaces an earlier timer of the same key. While one of these messages waits,
    /// no other is added: firings that were missed are skipped.
    ///
    /// # Panics
    /// If the period is zero.
    pub fn tell_every<M: Message + Clone>(
        &mut self,
        key: impl Into<TimerKey>,
        period: Duration,
        message: M,
    ) where
        A: Accepts<M>,
    {
        assert!(!period.is_zero(), "a timer needs a period");
        let make = self.maker(message);
        self.set_timer(key.into(), period, TimerKind::Every(period, make));
    }

    /// Sends `message` to the actor itself whenever it has handled no message of its mailbox for
    /// the time `after`, at most a year. The timer is cancelled by the key [`TimerKey::Idle`].
    ///
    /// # Panics
    /// If the time is zero.
    pub fn tell_when_idle<M: Message + Clone>(&mut self, after: Duration, message: M)
    where
        A: Accepts<M>,
    {
        assert!(!after.is_zero(), "an actor is always idle for no time");
        let make = self.maker(message);
        self.set_timer(TimerKey::Idle, after, TimerKind::Idle(after, make));
    }

    /// Cancels a timer: it sends nothing any more. Returns false if there is no such timer.
    pub fn cancel(&mut self, key: impl Into<TimerKey>) -> bool {
        let key = key.into();
        let Some(lane) = self.registered() else { return false };
        let is_cancelled = lane.timers.cancel(&key);
        lane.count();
        is_cancelled
    }

    /// Runs a future as a task of the actor, which is aborted when the actor ends. If the future
    /// panics, so does the actor.
    pub fn spawn_task(&mut self, future: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.spawn_for(async move {
            future.await;
            None
        })
    }

    /// Runs a future as a task of the actor, as [`spawn_task`](Self::spawn_task) does, and then
    /// calls `then` with its output in the actor's turn: while no handler of the actor runs.
    pub fn pipe<F>(
        &mut self,
        future: F,
        then: impl FnOnce(&mut A, F::Output, &mut Context<A>) + Send + 'static,
    ) -> AbortHandle
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let piped = self.lane().pipes.clone();
        // The future runs in the scope of the handler's message, as if the handler awaited it.
        self.spawn_for(spans::keep(async move {
            let output = future.await;
            let task: ClosureMessage<A> = Box::new(move |actor, cx| {
                drop(piped);
                then(actor, output, cx);
                Box::pin(std::future::ready(()))
            });
            Some(TaskContinuation { task, scope: Scope::here() })
        }))
    }

    /// Sends each item of a stream to the actor itself. The next item is taken when the previous
    /// one was handled: a stream that is faster than the actor waits. The actor keeps the stream
    /// until it ends, even if the returned handle is dropped.
    pub fn attach<M: Message>(&mut self, stream: impl Stream<Item = M> + Send + 'static) -> Attached
    where
        A: Accepts<M>,
    {
        let node = self.node().clone();
        let items = stream.map(move |message| item::<A, M>(message, &node));
        let (items, attached) = stream::abortable(items);
        let lane = self.lane();
        lane.streams.push(items.boxed());
        lane.count();
        Attached(attached)
    }

    /// Watches another actor, on any node: when it has ended, this actor is sent [`Down`] once,
    /// after all messages from the watched actor. Watching it again changes nothing, and `Down`
    /// comes at once if it has ended already. A restart is not an end. If the watched actor's node
    /// is down, but reported the actor's end before it left or lost its link, `Down` reports that
    /// end instead of [`NodeDown`](crate::ActorExit::NodeDown).
    pub fn watch(&mut self, actor: &impl Watchable)
    where
        A: Accepts<Down>,
    {
        let lane = self.lane();
        lane.watches.watch(actor);
        lane.down = Some(item::<A, Down>);
    }

    /// Stops watching an actor. Returns false if it was not watched, or its [`Down`] was delivered
    /// before.
    pub fn unwatch(&mut self, actor: &impl Watchable) -> bool {
        let address = actor.place();
        self.registered().is_some_and(|lane| lane.watches.unwatch(address))
    }

    /// Spawns a child: an actor that ends with this one, and that is restarted as `child` says.
    /// Returns when it has started. A child that fails too often makes this actor fail, too.
    ///
    /// When this actor ends, its children end before its [`on_stop`](super::Actor::on_stop), all at
    /// once: each is stopped, and killed if it takes longer than
    /// [`stop_within`](Child::stop_within). If one child needs another until its end, spawn a
    /// [`Supervisor`](super::Supervisor), which ends its children in order.
    ///
    /// # Errors
    /// [`SpawnError`] if the name is taken or invalid, the child fails to start, or the node is
    /// shutting down.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the child still runs.
    pub async fn spawn<B: Handlers>(&mut self, child: Child<B>) -> Result<ActorRef<B>, SpawnError> {
        let stop_within = child.stop_within;
        let parent = Parent::Actor(self.shared_cell());
        let (actor, starts) = self.node().begin_child(child, parent)?;
        self.more().family.add(ChildHandle { actor: actor.clone(), stop_within });
        starts.await?;
        Ok(ActorRef::local(actor))
    }

    /// Spawns a child that is never restarted, for state that cannot be made again. The rest is as
    /// with [`spawn`](Context::spawn). The child has [`limits::STOP_WITHIN`] to stop.
    ///
    /// # Errors
    /// As [`spawn`](Context::spawn).
    ///
    /// # Cancel safety
    /// As [`spawn`](Context::spawn).
    pub async fn spawn_once<B: Handlers>(
        &mut self,
        options: SpawnOptions,
        actor: B,
    ) -> Result<ActorRef<B>, SpawnError> {
        let parent = Some(self.cell().id());
        let (actor, starts) = self.node().begin(options, actor, None, parent)?;
        let stop_within = limits::STOP_WITHIN;
        self.more().family.add(ChildHandle { actor: actor.clone(), stop_within });
        starts.await?;
        Ok(ActorRef::local(actor))
    }

    /// Adds a child. When this actor ends, the child ends before the children added earlier.
    pub(super) fn adopt(&mut self, child: ChildHandle) {
        self.more().family.add_in_order(child);
    }

    /// Returns the child with this token, if it has not ended.
    pub(super) fn child(&mut self, token: usize) -> Option<ChildHandle> {
        self.held()?.find_child(token)
    }

    /// Waits until the current children have ended. The caller has already told them to end.
    pub(super) fn children_ended(&mut self) -> impl Future<Output = ()> + Send + use<A> {
        self.more().family.ended()
    }

    /// Makes a drain wait for `finish`, after all accepted messages are handled and before the
    /// children end. A stop does not wait for it, even if it comes during the drain.
    pub(super) fn finish_with(&mut self, finish: impl Future<Output = ()> + Send + 'static) {
        self.more().finish = Some(Box::pin(finish));
    }

    fn set_timer(&mut self, key: TimerKey, after: Duration, what: TimerKind<A>) {
        let lane = self.lane();
        lane.timers.set(key, after, what);
        lane.count();
    }

    fn spawn_for(
        &mut self,
        future: impl Future<Output = Option<TaskContinuation<A>>> + Send + 'static,
    ) -> AbortHandle {
        let runtime = self.node().runtime().clone();
        self.lane().spawn(future, &runtime)
    }

    fn item<M: Message>(&self, message: M) -> Option<LabeledEnvelope<A>>
    where
        A: Accepts<M>,
    {
        item::<A, M>(message, self.node())
    }

    fn maker<M: Message + Clone>(&self, message: M) -> MessageFactory<A>
    where
        A: Accepts<M>,
    {
        let node = self.node().clone();
        // `Message` is `Send` and need not be `Sync`: the message is kept with the actor.
        Box::new(move || item::<A, M>(message.clone(), &node))
    }

    pub(super) fn cell(&self) -> &ActorCell<A> {
        self.near().cell()
    }

    pub(super) fn shared_cell(&self) -> Arc<ActorCell<A>> {
        self.near().shared()
    }

    pub(super) fn near(&self) -> &ActorPort<A> {
        match self.actor.destination() {
            Destination::Local(near) => near,
            Destination::ByAddress(_) => unreachable!("an actor is on its own node"),
        }
    }

    fn more(&mut self) -> &mut RegistrationStore<A> {
        let held = self.more.take().unwrap_or_else(|| {
            Registrations(Box::new(Mutex::new(RegistrationStore {
                tally: self.cell().tally().clone(),
                lane: None,
                family: Children::default(),
                stash: BTreeMap::new(),
                unstashed: BTreeMap::new(),
                asides: 0,
                came_back: None,
                unanswered: 0,
                finish: None,
                judgement: None,
            })))
        });
        self.more.insert(held).0.get_mut().more()
    }

    #[inline]
    fn held(&mut self) -> Option<&mut dyn TypedStore<A>> {
        Some(self.more.as_mut()?.0.get_mut())
    }

    fn lane(&mut self) -> &mut EventSources<A> {
        let node = self.node().clone();
        let RegistrationStore { lane, tally, .. } = self.more();
        lane.get_or_insert_with(|| EventSources::new(node, tally.clone()))
    }

    /// Returns the event sources, if a timer, task, stream or watch was ever registered.
    fn registered(&mut self) -> Option<&mut EventSources<A>> {
        self.held()?.more().lane.as_mut()
    }
}

/// Makes the envelope of a message that the actor sends to itself. Returns `None`, and logs an
/// error, if the message cannot be archived for a handler that takes it as a `View`.
fn item<A: Accepts<M>, M: Message>(message: M, node: &Node) -> Option<LabeledEnvelope<A>> {
    match <A as Accepts<M>>::Input::take_local(&mut Some(message), node) {
        Ok(input) => {
            let envelope = A::envelope(input, ReplyTo::nobody());
            Some((const { &Label::of::<A, M>() }, envelope))
        }
        Err(cause) => {
            note_dropped(A::NAME, M::NAME, cause);
            None
        }
    }
}

#[cold]
fn note_dropped(actor: &str, message: &str, cause: Cause) {
    log::error!(
        actor,
        message,
        %cause,
        "a message of an actor to itself could not be archived: it is dropped"
    );
}
