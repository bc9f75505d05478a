//! The methods of a context that the actor's task calls, and the store of the registrations.

use std::collections::BTreeMap;
use std::future::{poll_fn, ready};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use ringpost_transport::{log, shield};
use tokio::time::{Instant, timeout};

use super::Context;
use super::family::{ChildHandle, Children};
use super::lane::EventSources;
use crate::actor::cell::route::Label;
use crate::actor::cell::{ActorCell, ActorPrefetched, BegunMessage, CellBase, ErasedCell};
use crate::actor::{Accepts, Handlers, Reply, ReplyTo};
use crate::busy::AskContext;
use crate::dead_letter::DeadLetterCause;
use crate::limits;
use crate::resident::LocalActor;
use crate::rest::IncarnationEnd;
use crate::spans::{self, Scope};
use crate::tally::{self, ActorStats};
use crate::view::Input;
use crate::waits::HandledAsk;

/// The registrations of an actor, behind a trait object: registrations that an actor never makes
/// are not compiled for it. And as with a cell, the compiler must not look through it into the
/// envelope.
pub(super) trait TypedStore<A: Handlers>: ErasedStore {
    /// Returns the store itself, to register something.
    fn more(&mut self) -> &mut RegistrationStore<A>;

    fn take_item(
        &mut self,
        cell: &ActorCell<A>,
        hand: &ActorPrefetched<A>,
        task: &mut TaskContext<'_>,
    ) -> Option<BegunMessage<A>>;
}

/// The registrations of an actor, without its type.
pub(crate) trait ErasedStore: Send {
    fn find_child(&self, token: usize) -> Option<ChildHandle>;

    fn note_activity(&mut self);

    /// Records that the mailbox had its turn. Returns true if due messages of registrations had to
    /// wait for that.
    fn rest_lane(&mut self) -> bool;

    /// Registers the task to be woken when a timer is due.
    fn wait(&mut self, task: &mut TaskContext<'_>);

    /// Ends the children of `parent`.
    fn end_children<'a>(
        &'a mut self,
        parent: &'a dyn LocalActor,
        is_shutdown: bool,
    ) -> BoxFuture<'a, ()>;

    /// Ends all registrations except the children, and takes all messages out of the stash. Returns
    /// the number of asks that were left unanswered by this while their askers waited.
    fn clear<'a>(&'a mut self, me: &'a dyn LocalActor, patience: Duration) -> BoxFuture<'a, usize>;

    fn abandon_children(&mut self);

    /// Returns the future that a drain awaits before the children end.
    fn take_finish(&mut self) -> Option<BoxFuture<'static, ()>>;

    /// Returns the field of the [`IncarnationEnd`], which is set before the children end.
    fn judgement(&mut self) -> &mut Option<IncarnationEnd>;

    /// Drops the stashed messages; calls `bury` for each tell.
    fn bury_asides(&mut self, bury: &dyn Fn(&'static Label));

    /// Returns the work that is left undone if the incarnation ends now.
    fn undone(&self) -> UnfinishedWork;
}

/// The work that an incarnation has begun and not finished.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct UnfinishedWork {
    /// Asks that were begun and not answered, and whose askers still wait.
    pub(crate) asks: usize,
    pub(crate) pipes: usize,
    /// Timers that fire once.
    pub(crate) timers: usize,
}

impl<A: Handlers> TypedStore<A> for RegistrationStore<A> {
    fn more(&mut self) -> &mut RegistrationStore<A> {
        self
    }

    fn take_item(
        &mut self,
        cell: &ActorCell<A>,
        hand: &ActorPrefetched<A>,
        task: &mut TaskContext<'_>,
    ) -> Option<BegunMessage<A>> {
        self.came_back = None;
        let lane = self.lane.as_mut();
        if let Some((item, made_in)) = lane.and_then(|lane| lane.take(cell, hand, task)) {
            let (label, envelope) = item;
            let scope = spans::is_on().then(|| cell.base().scope(label, false, made_in.as_deref()));
            let envelope = Some(envelope).into();
            return Some(BegunMessage {
                label,
                envelope,
                in_hand: AskContext::default(),
                bytes: 0,
                scope,
            });
        }
        while let Some((number, aside)) = self.unstashed.pop_first() {
            self.count();
            let StashEntry { label, kept, is_ask, deadline, bytes, scope } = aside;
            if kept.is_given_up() {
                continue;
            }
            self.came_back = Some(number);
            self.lane.as_mut().map(EventSources::rest);
            let in_hand = AskContext { deadline, asked: kept.asked() };
            let envelope = Some(kept.envelope()).into();
            let scope = spans::is_on().then(|| cell.base().scope(label, is_ask, scope.as_deref()));
            return Some(BegunMessage { label, envelope, in_hand, bytes, scope });
        }
        None
    }
}

impl<A: Handlers> ErasedStore for RegistrationStore<A> {
    fn find_child(&self, token: usize) -> Option<ChildHandle> {
        self.family.find(token)
    }

    fn note_activity(&mut self) {
        if let Some(lane) = &mut self.lane {
            lane.timers.note_activity();
        }
    }

    fn rest_lane(&mut self) -> bool {
        self.lane.as_mut().is_some_and(EventSources::rest)
    }

    fn wait(&mut self, task: &mut TaskContext<'_>) {
        if let Some(lane) = &mut self.lane {
            lane.wait(task);
        }
    }

    fn end_children<'a>(
        &'a mut self,
        parent: &'a dyn LocalActor,
        is_shutdown: bool,
    ) -> BoxFuture<'a, ()> {
        Box::pin(self.family.end(parent, is_shutdown))
    }

    fn clear<'a>(&'a mut self, me: &'a dyn LocalActor, patience: Duration) -> BoxFuture<'a, usize> {
        self.unstash();
        let Some(lane) = self.lane.take() else { return Box::pin(ready(0)) };
        Box::pin(async move {
            let mut end = pin!(lane.end());
            if let Ok(unanswered) = timeout(patience, &mut end).await {
                return unanswered;
            }
            let (actor, seconds) = (me.address(), patience.as_secs_f32());
            log::warn!(%actor, seconds, "an actor does not end: a task of it never waits");
            end.await
        })
    }

    fn abandon_children(&mut self) {
        self.family.abandon();
    }

    fn take_finish(&mut self) -> Option<BoxFuture<'static, ()>> {
        self.finish.take()
    }

    fn judgement(&mut self) -> &mut Option<IncarnationEnd> {
        &mut self.judgement
    }

    fn bury_asides(&mut self, bury: &dyn Fn(&'static Label)) {
        self.unstash();
        let asides = std::mem::take(&mut self.unstashed);
        self.count();
        for StashEntry { label, kept, is_ask, .. } in asides.into_values() {
            if !is_ask {
                bury(label);
            } else if !kept.is_given_up() {
                self.unanswered += 1;
            }
            shield::discard(kept);
        }
    }

    fn undone(&self) -> UnfinishedWork {
        let lane = self.lane.as_ref();
        UnfinishedWork {
            asks: self.unanswered,
            pipes: lane.map_or(0, EventSources::open_pipes),
            timers: lane.map_or(0, |lane| lane.timers.once()),
        }
    }
}

impl<A: Handlers> RegistrationStore<A> {
    /// Returns true if a message whose payload has `bytes` bytes may be stashed.
    pub(super) fn has_room_aside(&self, bytes: u32) -> bool {
        let asides = || self.stash.values().chain(self.unstashed.values());
        let held: u64 = asides().map(|aside| u64::from(aside.bytes)).sum();
        let fits = held == 0 || held + u64::from(bytes) <= limits::STASH_BYTES_MAX as u64;
        fits && asides().count() < limits::MAILBOX_CAPACITY
    }

    /// Takes all messages out of the stash. Returns how many there were.
    pub(super) fn unstash(&mut self) -> usize {
        let count = self.stash.len();
        self.unstashed.append(&mut self.stash);
        count
    }
}

/// The registrations of an actor. Created with the first of them: few actors have any.
pub(super) struct RegistrationStore<A: Handlers> {
    pub(super) tally: Arc<ActorStats>,
    pub(super) lane: Option<EventSources<A>>,
    pub(super) family: Children,
    /// The stashed messages, by the order in which they were first stashed.
    pub(super) stash: BTreeMap<u64, StashEntry<A>>,
    /// Messages taken out of the stash, to be handled before the mailbox.
    pub(super) unstashed: BTreeMap<u64, StashEntry<A>>,
    /// The number given to the last message that was stashed for the first time.
    pub(super) asides: u64,
    /// The number of the message in hand, if it was stashed before. If it is stashed again, it
    /// keeps this number, and so its place.
    pub(super) came_back: Option<u64>,
    /// The number of stashed asks that were dropped while their askers waited.
    pub(super) unanswered: usize,
    /// The future that a drain awaits before the children end.
    pub(super) finish: Option<BoxFuture<'static, ()>>,
    pub(super) judgement: Option<IncarnationEnd>,
}

impl<A: Handlers> RegistrationStore<A> {
    /// Updates the count of stashed messages.
    pub(super) fn count(&self) {
        self.tally.set(tally::RegistrationKind::Stashed, self.stash.len() + self.unstashed.len());
    }
}

/// A stashed message.
pub(super) struct StashEntry<A: Handlers> {
    pub(super) label: &'static Label,
    /// The message. If it is dropped, its asker learns that there is no answer.
    pub(super) kept: Box<dyn StashedMessage<A>>,
    pub(super) is_ask: bool,
    /// The time at which its asker gives up.
    pub(super) deadline: Option<Instant>,
    /// The payload's length in bytes; 0 if the message was sent on this node.
    pub(super) bytes: u32,
    /// The scope in which it was stashed.
    pub(super) scope: Option<Box<Scope>>,
}

/// A message and the `ReplyTo` of its asker, without their types.
pub(super) trait StashedMessage<A: Handlers>: Send {
    /// Returns true if its asker has given up.
    fn is_given_up(&self) -> bool;

    /// Returns the ask, if a handler waits for the answer.
    fn asked(&self) -> Option<Arc<dyn HandledAsk>>;

    fn envelope(self: Box<Self>) -> A::Envelope;
}

impl<A: Handlers, I: Input, R: Reply> StashedMessage<A> for (I, ReplyTo<R>)
where
    A: Accepts<I::Message, Input = I, Reply = R>,
{
    fn is_given_up(&self) -> bool {
        self.1.is_given_up()
    }

    fn asked(&self) -> Option<Arc<dyn HandledAsk>> {
        self.1.asked()
    }

    fn envelope(self: Box<Self>) -> A::Envelope {
        let (message, reply) = *self;
        A::envelope(message, reply)
    }
}

/// The methods that the actor's task calls.
impl<A: Handlers> Context<A> {
    /// Records the message whose handler begins.
    pub(crate) fn begin(&mut self, label: &'static Label, in_hand: &AskContext, bytes: u32) {
        self.in_hand = Some(label);
        self.deadline = in_hand.deadline;
        self.bytes = bytes;
    }

    /// Records that the handler of the message in hand has ended.
    #[inline]
    pub(crate) fn done(&mut self) {
        self.in_hand = None;
        self.deadline = None;
        if std::mem::take(&mut self.is_mail)
            && let Some(held) = self.held()
        {
            held.note_activity();
        }
    }

    /// Records that the next message to be handled comes from the mailbox.
    #[inline]
    pub(crate) fn note_mail(&mut self) {
        self.is_mail = true;
    }

    /// Removes and returns the message in hand, if there is one: its handler has not ended.
    pub(crate) fn take_in_hand(&mut self) -> Option<&'static Label> {
        self.in_hand.take()
    }

    /// Returns true if a message is in hand.
    pub(crate) fn has_in_hand(&self) -> bool {
        self.in_hand.is_some()
    }

    /// Returns true if there are registrations to [`clear`].
    pub(crate) fn has_more(&mut self) -> bool {
        self.more.is_some()
    }

    /// Takes the next message that is handled before the mailbox's messages: a message of a timer,
    /// stream, task, watch or the stash.
    #[inline]
    pub(crate) fn take_item(
        &mut self,
        cell: &ActorCell<A>,
        hand: &ActorPrefetched<A>,
        task: &mut TaskContext<'_>,
    ) -> Option<BegunMessage<A>> {
        self.held()?.take_item(cell, hand, task)
    }

    /// Records that the mailbox had its turn. Returns true if due messages of registrations had to
    /// wait for that.
    #[inline]
    pub(crate) fn rest_lane(&mut self) -> bool {
        self.held().is_some_and(|held| held.rest_lane())
    }

    /// Registers the task to be woken when a timer is due.
    pub(crate) fn wait(&mut self, task: &mut TaskContext<'_>) {
        if let Some(held) = self.held() {
            held.wait(task);
        }
    }

    /// Waits until the actor must end, or must pause to be restarted together with others.
    pub(crate) async fn is_to_end(&self) {
        let cell = self.cell();
        ordered(|| cell.intake().is_closed() || cell.ends().is_halted()).await;
    }

    /// Returns the registrations, if there are any.
    pub(crate) fn more_registered(&mut self) -> Option<&mut dyn ErasedStore> {
        Some(self.more.as_mut()?.0.get_mut())
    }

    /// Ends all registrations without waiting.
    pub(crate) fn abandon(&mut self) {
        if self.more.is_none() {
            return;
        }
        let cell = self.near().shared();
        bury_asides(cell.base(), self.more_registered());
        let Some(mut held) = self.more.take() else { return };
        held.0.get_mut().abandon_children();
        shield::discard(held);
    }
}

/// Waits, in the task of an actor, until the actor must end before it has handled its accepted
/// messages, or must pause to be restarted together with others.
pub(crate) async fn is_to_stop(me: &dyn ErasedCell) {
    ordered(|| me.intake().is_stopping() || me.ends().is_halted()).await;
}

/// Waits, in the task of an actor, until `is_ordered` returns true. Every order to the actor wakes
/// its task.
pub(crate) async fn ordered(is_ordered: impl Fn() -> bool) {
    poll_fn(|_| if is_ordered() { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// Ends the children of `me`.
pub(crate) async fn end_children(me: &dyn ErasedCell, held: Option<&mut dyn ErasedStore>) {
    let is_shutdown = me.base().node().residents().is_closed();
    if let Some(held) = held {
        held.end_children(me, is_shutdown).await;
    }
}

/// Ends all registrations of the incarnation of `me`, and takes all messages out of the stash.
/// Returns the number of asks that were left unanswered by this while their askers waited.
pub(crate) async fn clear(me: &dyn ErasedCell, held: Option<&mut dyn ErasedStore>) -> usize {
    let Some(held) = held else { return 0 };
    // First, because dropping this future may wake actors that the children wait for.
    drop(held.take_finish());
    end_children(me, Some(held)).await;
    held.clear(me, me.base().node().reported_after()).await
}

/// Drops the stashed messages, which no handler takes any more: askers are told, and tells become
/// dead letters.
pub(crate) fn bury_asides(me: &CellBase, held: Option<&mut dyn ErasedStore>) {
    if let Some(held) = held {
        held.bury_asides(&|label| me.bury(label, DeadLetterCause::Stopped));
    }
}
