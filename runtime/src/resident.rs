//! An actor of this node without its type, as links, look-ups, recipients and the shutdown use it.

use std::any::{Any, TypeId};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::address::{Address, AddressDisplay};
use crate::deadlines::Deadlines;
use crate::ends::ExitControl;
use crate::error::Cause;
use crate::exit::ActorExit;
use crate::fate::Fate;
use crate::link_end::TIE;
use crate::mailbox::{ErasedMailbox, MailboxRoom, WakeOnDrop};
use crate::remote::Inbox;
use crate::schema::ActorKind;
use crate::slot::{AskInPlace, OpenAsk};
use crate::state::ActorState;
use crate::tally::ActorStats;
use crate::waits::WaitingActor;

/// The way in which an actor should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Halt {
    /// After all messages that it has accepted so far.
    Drain,
    /// After the message it is handling.
    Stop,
    /// At the next await of the message it is handling.
    Kill,
}

/// An actor of this node, without its type.
pub(crate) trait LocalActor: Inbox + WaitingActor {
    fn address(&self) -> &Address;

    /// Returns its type.
    fn kind(&self) -> ActorKind;

    /// Returns its stage, the orders to its task, and the tasks that wait for its end.
    fn ends(&self) -> &ExitControl;

    /// Returns its mailbox, without the types of its messages.
    fn intake(&self) -> &dyn ErasedMailbox;

    /// Returns its node.
    fn home(&self) -> &dyn HomeNode;

    /// Returns its counters, or `None` if all are zero.
    fn tally(&self) -> Option<&ActorStats>;

    /// Returns the actor as `Any`, from which its type can be restored.
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;

    /// Returns the index of a message type in the actor's table of messages; `None` if the actor
    /// does not accept it, or not with this `reply`.
    fn route(&self, message: TypeId, reply: Option<TypeId>) -> Option<u16>;

    /// Puts a message into reserved room. `letter` is an `Option<M>`, which this empties; after an
    /// error it still holds the message. For an ask, `ask` holds an `Option<ReplyTo<R>>`, which
    /// this empties, too, and the ask, which the actor begins.
    fn put(
        &self,
        room: MailboxRoom<'_>,
        route: u16,
        letter: &mut dyn Any,
        ask: Option<(&mut dyn Any, Arc<dyn OpenAsk>)>,
    ) -> Result<(Fate, WakeOnDrop), Cause>;

    /// Returns true if the actor seems idle and this thread may run it; [`run_ask`](Self::run_ask)
    /// checks again.
    fn is_idle(&self) -> bool;

    /// Handles an ask on this thread if the actor waits for messages and its handler answers
    /// without waiting.
    fn run_ask(&self, ask: &mut AskInPlace<'_>);

    /// Polls the actor, which waited for messages until now, on this thread; if another thread
    /// polls it, wakes its `task`.
    fn take_turn(&self, task: Waker);
}

/// The node of an actor, for senders and links.
pub(crate) trait HomeNode: Send + Sync {
    fn deadlines(&self) -> &Deadlines;

    /// Returns true if it is shutting down.
    fn is_leaving(&self) -> bool;

    /// Returns the actor with this number: see [`Inbox::id`].
    fn actor(&self, id: u64) -> Option<Arc<dyn LocalActor>>;
}

impl dyn LocalActor + '_ {
    /// Returns a number that is the same for all references to this actor, and unique among living
    /// actors.
    #[inline]
    pub(crate) fn token(&self) -> usize {
        std::ptr::from_ref(self).cast::<()>().addr()
    }

    /// Returns the actor's address and type as a text for people.
    pub(crate) fn shown(&self) -> AddressDisplay<'_> {
        AddressDisplay { address: self.address(), kind: self.kind().name }
    }

    /// Returns true if it is a tie: an actor of this crate, unknown to users, that stands in for a
    /// linked actor of another node.
    pub(crate) fn is_tie(&self) -> bool {
        self.kind() == const { ActorKind::of(TIE) }
    }

    /// Ends it, or the current incarnation of a child that is restarted.
    pub(crate) fn halt(&self, halt: Halt) {
        let (ends, mailbox) = (self.ends(), self.intake());
        match halt {
            Halt::Drain => mailbox.drain(),
            Halt::Stop => mailbox.stop(),
            Halt::Kill => {
                // In this order: an actor that sees the stop sees the kill too, and runs no
                // `on_stop`.
                ends.kill();
                if ends.is_final() {
                    mailbox.stop();
                }
                mailbox.wake();
            }
        }
    }

    /// Ends it permanently: it is not restarted any more.
    pub(crate) fn retire(&self, halt: Halt) {
        self.ends().retire();
        self.halt(halt);
        // Wakes it, because it may pause before its next incarnation.
        self.intake().wake();
    }

    /// Drains the actor and ends it, even if it would be restarted after each end. If it fails
    /// meanwhile, it restarts for the messages that it still has.
    pub(crate) fn dismiss(&self) {
        // First, because a restart reopens the mailbox, then checks for this, and drains it.
        self.ends().dismiss();
        self.intake().drain();
        // Wakes it, because it may pause between two incarnations, after a stop.
        self.intake().wake();
    }

    /// Calls `order` with its [`ExitControl`], for example to record a failure, and wakes its task.
    pub(crate) fn order(&self, order: impl FnOnce(&ExitControl)) {
        order(self.ends());
        self.intake().wake();
    }

    /// Makes it fail with this reason, at the next await of the message it is handling.
    pub(crate) fn fail(&self, reason: Arc<str>) {
        self.order(|ends| ends.fail(reason));
    }

    /// Removes the link to the actor with the token `with`, which the other end has ended. With a
    /// reason, this actor fails, unless it traps exits.
    pub(crate) fn unlink(&self, with: usize, reason: Option<Arc<str>>) {
        self.order(|ends| ends.unlink(with, reason));
    }

    /// Tells other nodes and linked actors that it was killed, although it still runs: its handler
    /// never waits, and its node does not wait for it.
    pub(crate) fn leave_killed(&self) {
        self.ends().close(&ActorExit::Killed);
        self.ends().end_links(self.address(), &ActorExit::Killed);
    }

    /// Returns true if it was stopped or drained but not killed, and ends when its handlers have
    /// ended.
    pub(crate) fn is_ending(&self) -> bool {
        self.intake().is_closed() && !self.ends().is_forced()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ends().has_ended()
    }

    /// Returns its current state.
    pub(crate) fn state(&self) -> ActorState {
        let mailbox = self.intake();
        match self.ends().state() {
            ActorState::Starting | ActorState::Running if mailbox.is_stopping() => {
                ActorState::Stopping
            }
            ActorState::Starting | ActorState::Running if mailbox.is_closed() => {
                ActorState::Draining
            }
            state => state,
        }
    }
}

/// Waits until an actor of this node has ended, and returns how it ended.
pub(crate) struct ExitFuture {
    resident: Arc<dyn LocalActor>,
    place: Option<u64>,
}

impl ExitFuture {
    pub(crate) fn of(resident: Arc<dyn LocalActor>) -> Self {
        ExitFuture { resident, place: None }
    }
}

impl Future for ExitFuture {
    type Output = ActorExit;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ActorExit> {
        let ExitFuture { resident, place } = &mut *self;
        resident.ends().poll(place, cx)
    }
}

impl Drop for ExitFuture {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.resident.ends().leave(place);
        }
    }
}
