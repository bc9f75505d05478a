//! The state that an actor of this node shares with its senders: its mailbox and its end.

pub(crate) mod arrival;
mod base;
pub(super) mod in_place;
mod inlet;
pub(crate) mod route;
pub(crate) mod tether;
mod turn;

use std::any::{Any, TypeId};
use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;
use ringpost_transport::shield;

use super::Handlers;
use super::kind_of;
use crate::address::{Address, Identity};
use crate::busy::AskContext;
use crate::dead_letter::DeadLetterCause;
use crate::ends::ExitControl;
use crate::error::Cause;
use crate::exit::ActorExit;
use crate::fate::Fate;
use crate::mailbox::{
    ErasedMailbox, Mailbox, MailboxRoom, OutlinedDrop, OutlinedOption, Prefetched, WakeOnDrop,
};
use crate::node::Node;
use crate::resident::{HomeNode, LocalActor};
use crate::schema::ActorKind;
use crate::slot::{AskInPlace, OpenAsk, scoped};
use crate::spans::{self, Scope};
use crate::tally::ActorStats;
use crate::waits::{HandlerWaits, WaitingActor};

use arrival::{RemoteBatch, RemoteMessage};
pub(super) use base::{CellBase, ErasedCell};
use route::{Label, Source};
use turn::TurnLock;
pub(super) use turn::{ActorTask, BoxedActorFuture, HasTurn, IdleLife, InlineActorFuture};

/// An actor of this node, as seen from outside its task.
#[repr(C)]
pub(crate) struct ActorCell<A: Handlers> {
    base: OutlinedDrop<CellBase>,
    mailbox: ActorMailbox<A>,
}

pub(super) type ActorMailbox<A> = Mailbox<LocalMessage<<A as Handlers>::Envelope>, RemoteBatch>;
pub(super) type ActorPrefetched<A> =
    Prefetched<LocalMessage<<A as Handlers>::Envelope>, RemoteBatch>;

/// A message sent on this node.
pub(crate) struct LocalMessage<E> {
    /// `None` once its handler has begun.
    pub(super) envelope: OutlinedOption<E>,
    pub(super) label: &'static Label,
    /// The ask to begin, with its scope; for a tell, its scope. `None` for a tell without a scope.
    pub(super) ask: Option<Arc<dyn OpenAsk>>,
}

/// A message whose handler runs next.
pub(crate) struct BegunMessage<A: Handlers> {
    pub(super) label: &'static Label,
    /// Always `Some`.
    pub(super) envelope: OutlinedOption<A::Envelope>,
    pub(super) in_hand: AskContext,
    /// The payload's length in bytes, if the message came from another node.
    pub(super) bytes: u32,
    /// The scope in which the message is handled.
    pub(super) scope: Option<Box<Scope>>,
}

impl<A: Handlers> ActorCell<A> {
    pub(super) fn new(base: CellBase, capacity: usize) -> Self {
        ActorCell { base: OutlinedDrop::new(base), mailbox: Mailbox::new(capacity) }
    }

    pub(super) fn mailbox(&self) -> &ActorMailbox<A> {
        &self.mailbox
    }

    pub(super) fn node(&self) -> &Node {
        &self.base.node
    }

    /// Returns true if this thread may take the turn of the actor.
    #[inline]
    fn may_run_here(&self) -> bool {
        A::IN_PLACE
            && self.base.turn().is_free()
            && in_place::is_allowed(self.base.node.runtime().id())
    }

    pub(super) fn ends(&self) -> &ExitControl {
        &self.base.ends
    }

    /// Returns the actor without its type.
    pub(super) fn resident(&self) -> &dyn LocalActor {
        self
    }

    /// Returns the actor's counters, which snapshots show.
    pub(super) fn tally(&self) -> &Arc<ActorStats> {
        self.base.tally()
    }

    /// Puts a message into reserved room. Returns its fate, and the actor's task if the task waits
    /// for it. If the actor was stopped after the reservation, the message is refused, and a tell
    /// becomes a dead letter.
    pub(super) fn commit(
        &self,
        room: MailboxRoom<'_>,
        letter: LocalMessage<A::Envelope>,
    ) -> (Fate, WakeOnDrop) {
        let letter = match self.mailbox.fill(room, letter) {
            Ok(called) => return (Fate::Delivered, called),
            Err(letter) => letter,
        };
        if let Some(label) = letter.told() {
            self.base.bury(label, DeadLetterCause::Stopped);
        }
        (Fate::Refused, WakeOnDrop::default())
    }

    /// Begins a message of this node. Returns `None` for an ask whose asker has given up, which
    /// must not be handled.
    #[inline]
    pub(super) fn begin(
        &self,
        letter: &mut LocalMessage<A::Envelope>,
    ) -> Option<(AskContext, Option<Box<Scope>>)> {
        let begun = match letter.ask.take() {
            None if !spans::is_on() => return Some((AskContext::default(), None)),
            ask => self.base.begin(letter.label, ask),
        };
        if begun.is_none() {
            // Dropped now and not with the batch, because the message may be large.
            letter.envelope.clear();
        }
        begun
    }

    /// Begins a message from another node, and decodes it. Returns `None` if its asker has given
    /// up, or if the message cannot be read.
    pub(super) fn open(&self, unopened: RemoteMessage) -> Option<BegunMessage<A>> {
        let Some((route, form)) = route::at::<A>(unopened.ordinal) else {
            let label = unopened.label(route::head_of::<A>);
            self.base.refuse(label, unopened.ask.map(|(replier, _)| replier));
            return None;
        };
        let label = &route.head.label;
        let mut opened = self.base.open(label, unopened, form)?;
        match (route.take)(&mut Source::Far(&mut opened.far), &self.base.node) {
            Ok(envelope) => {
                let bytes = opened.bytes;
                let (in_hand, scope) = self.base.opened(label, opened);
                Some(BegunMessage { label, envelope: Some(envelope).into(), in_hand, bytes, scope })
            }
            Err(error) => {
                self.base.unread(label, opened, error);
                None
            }
        }
    }

    /// Ends the actor: frees its name, tells its senders and every task that waits for its end, and
    /// turns the tells that it never began into dead letters. `hand` holds the messages that it had
    /// taken from the mailbox.
    pub(super) fn end(&self, hand: &mut ActorPrefetched<A>, exit: ActorExit) {
        self.mailbox.close(hand);
        self.base.close(&exit);
        self.bury_unbegun(hand);
        self.base.ends.tell(exit, self.base.address());
    }

    /// Closes the mailbox of an actor that begins no more messages but has not ended yet. Messages
    /// that it never began are dropped: tells become dead letters, and the askers of asks are told.
    /// `hand` holds the messages that it had taken from the mailbox.
    pub(super) fn leave_unbegun(&self, hand: &mut ActorPrefetched<A>) {
        self.mailbox.empty(hand);
        self.bury_unbegun(hand);
    }

    fn bury_unbegun(&self, hand: &mut ActorPrefetched<A>) {
        while let Some(letter) = hand.take_local() {
            bury_one(&self.base, letter.told(), &mut || letter.clear());
        }
        bury_far(&self.base, hand.take_remote(), route::head_of::<A>);
    }
}

/// Drops the messages from other nodes that an actor never began. Tells become dead letters.
fn bury_far(me: &CellBase, unbegun: impl Iterator<Item = RemoteMessage>, heads: route::HeadAt) {
    for unopened in unbegun {
        let (label, mut left) = (unopened.told(heads), Some(unopened));
        bury_one(me, label, &mut || left = None);
    }
}

/// Drops a message that was not begun. A tell becomes a dead letter; `told` is its label.
fn bury_one(me: &CellBase, told: Option<&'static Label>, drop_it: &mut dyn FnMut()) {
    if let Some(label) = told {
        me.bury(label, DeadLetterCause::Stopped);
    }
    shield::run(drop_it);
}

impl<A: Handlers> HasTurn for ActorCell<A> {
    fn turn(&self) -> &TurnLock {
        self.base.turn()
    }
}

impl<A: Handlers> ErasedCell for ActorCell<A> {
    fn base(&self) -> &CellBase {
        &self.base
    }

    fn name(&self) -> &'static str {
        A::NAME
    }
}

impl<E> LocalMessage<E> {
    /// Drops the ask and the message. If one of these drops panics, the other value is still
    /// dropped.
    fn clear(&mut self) {
        drop((self.ask.take(), std::mem::replace(&mut self.envelope, None.into())));
    }

    /// Returns the label of a tell that was not begun. `None` for an ask, whose failure its asker
    /// learns.
    fn told(&self) -> Option<&'static Label> {
        let is_tell = self.ask.as_ref().is_none_or(|ask| !ask.is_ask());
        (is_tell && self.envelope.is_some()).then_some(self.label)
    }
}

impl<A: Handlers> WaitingActor for ActorCell<A> {
    fn has_token(&self, token: usize) -> bool {
        self.base.token() == token
    }

    fn node_number(&self) -> usize {
        std::ptr::from_ref(self.base.node.residents()).addr()
    }

    fn identity(&self) -> Option<Identity> {
        self.base.address().identity()
    }

    fn called(&self) -> String {
        self.resident().shown().to_string()
    }

    fn waits(&self) -> &Mutex<Option<Box<HandlerWaits>>> {
        self.base.waits()
    }

    fn list(&self) {
        self.base.list();
    }
}

impl<A: Handlers> LocalActor for ActorCell<A> {
    fn address(&self) -> &Address {
        self.base.address()
    }

    fn kind(&self) -> ActorKind {
        kind_of::<A>()
    }

    fn ends(&self) -> &ExitControl {
        &self.base.ends
    }

    fn intake(&self) -> &dyn ErasedMailbox {
        &self.mailbox
    }

    fn home(&self) -> &dyn HomeNode {
        &self.base.node
    }

    fn tally(&self) -> Option<&ActorStats> {
        self.base.known_tally()
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn route(&self, message: TypeId, reply: Option<TypeId>) -> Option<u16> {
        route::place(route::head_of::<A>, message, reply)
    }

    fn put(
        &self,
        room: MailboxRoom<'_>,
        route: u16,
        letter: &mut dyn Any,
        ask: Option<(&mut dyn Any, Arc<dyn OpenAsk>)>,
    ) -> Result<(Fate, WakeOnDrop), Cause> {
        let route = A::ROUTES.get(usize::from(route)).ok_or(Cause::NotAccepted)?;
        let (reply, ask) = ask.unzip();
        let envelope = (route.take)(&mut Source::Near(letter, reply), &self.base.node)?;
        let ask = scoped(ask, Scope::here());
        let label = &route.head.label;
        Ok(self.commit(room, LocalMessage { label, ask, envelope: Some(envelope).into() }))
    }

    #[inline]
    fn is_idle(&self) -> bool {
        self.mailbox.waits() && self.may_run_here()
    }

    fn run_ask(&self, ask: &mut AskInPlace<'_>) {
        let route = A::ROUTES.get(usize::from(ask.route));
        if route.is_some_and(|route| route.answer.is_some()) && !spans::is_on() {
            in_place::run_ask(&self.base, &self.mailbox, ask);
        }
    }

    fn take_turn(&self, task: Waker) {
        in_place::run(self.base.turn(), task);
    }
}
