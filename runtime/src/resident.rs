//! An actor of this node, seen without its type: by links, by lookups, by recipients, by shutdown.

use std::any::{Any, TypeId};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::address::{Address, Shown};
use crate::deadlines::Deadlines;
use crate::error::Cause;
use crate::exit::ActorExit;
use crate::fate::Fate;
use crate::link_end::LinkEnd;
use crate::mailbox::{Called, Depth, Intake, Room};
use crate::remote::Inbox;
use crate::rest::Pause;
use crate::schema::Kind;
use crate::slot::{AskInPlace, OpenAsk};
use crate::state::ActorState;
use crate::tally::Tally;
use crate::waits::WaitingActor;

/// How an actor is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Halt {
    /// After what it accepted so far.
    Drain,
    /// After the message it is handling.
    Stop,
    /// At the next await of the message it is handling.
    Kill,
}

/// An actor of this node, seen without its type.
pub(crate) trait Resident: Inbox + WaitingActor {
    fn address(&self) -> &Address;

    /// Returns its type.
    fn kind(&self) -> Kind;

    /// Returns true if it is a tie: no user knows it, and it tells another node how an actor ended.
    fn is_tie(&self) -> bool;

    /// Ends it, or, of a child that is restarted, what it is now.
    fn halt(&self, halt: Halt);

    /// Ends it for good: it is not restarted any more.
    fn retire(&self, halt: Halt);

    /// Drains an actor, even one restarted however it ends, and ends it. If it fails meanwhile, it
    /// restarts for the messages it still has.
    fn dismiss(&self);

    /// Ends it as [`Halt::Kill`] does, as a failure.
    fn fail(&self, reason: Arc<str>);

    /// Ends it as [`fail`](Self::fail) does, unless it traps the ends of what it is linked to.
    fn fail_linked(&self, reason: Arc<str>);

    /// Gives it a link, to what has the token `with`. Returns false when it has ended.
    fn link(&self, with: usize, link: LinkEnd) -> bool;

    /// Takes a link from it that has ended at the other end, and ends it as
    /// [`fail_linked`](Self::fail_linked) does if there is a reason.
    fn unlink(&self, with: usize, reason: Option<Arc<str>>);

    /// Has it rest after the message it is handling.
    fn pause(&self, pause: Pause);

    /// Ends what it is now as [`Halt::Kill`] does, if it was told to rest and does not yet.
    fn kill_unless_resting(&self);

    /// Returns true if what it is now was killed.
    fn is_killed(&self) -> bool;

    /// Tells other nodes, and what it is linked to, that it was killed, though it still runs: its
    /// handler never waits, and its node does not wait for it.
    fn leave_killed(&self);

    /// Returns true if it was stopped or drained, and ends when its handlers have: it was not
    /// killed.
    fn is_ending(&self) -> bool;

    /// Returns true if it has ended.
    fn has_ended(&self) -> bool;

    /// Waits for its end, and says how it ended. Give the same `place` to each poll of the same
    /// wait, and call [`leave_exit`](Self::leave_exit) with what is left in it.
    fn poll_exit(&self, place: &mut Option<u64>, cx: &mut Context<'_>) -> Poll<ActorExit>;

    /// Gives up a wait for its end.
    fn leave_exit(&self, place: u64);

    /// Returns its type again.
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;

    /// Returns the same for every view of this actor, and of no other that lives.
    fn token(&self) -> usize;

    /// Returns the place of a message in its table of messages; with `reply`, only if it answers
    /// so.
    fn route(&self, message: TypeId, reply: Option<TypeId>) -> Option<u16>;

    /// Returns what people call it.
    fn shown(&self) -> Shown<'_> {
        Shown { address: self.address(), kind: self.kind().name }
    }

    /// Returns what waits in its mailbox.
    fn depth(&self) -> Depth;

    /// Returns what it does now.
    fn state(&self) -> ActorState;

    /// Returns its figures; `None` where all are zero.
    fn tally(&self) -> Option<&Tally>;

    /// Returns the room in its mailbox.
    fn intake(&self) -> &dyn Intake;

    /// Puts a message into reserved room. `letter` is an `Option<M>`, which is emptied. On an error
    /// the message is left in it. With an answer wanted, `ask` is an `Option<ReplyTo<R>>`, which is
    /// emptied as well, and the same ask, to be begun.
    fn put(
        &self,
        room: Room<'_>,
        route: u16,
        letter: &mut dyn Any,
        ask: Option<(&mut dyn Any, Arc<dyn OpenAsk>)>,
    ) -> Result<(Fate, Called), Cause>;

    /// Returns true if its node is shutting down.
    fn is_node_leaving(&self) -> bool;

    /// Returns the deadlines of its node.
    fn deadlines(&self) -> &Deadlines;

    /// Returns the actor of its node with this number: see [`Inbox::id`].
    fn neighbour(&self, id: u64) -> Option<Arc<dyn Resident>>;

    /// Lists it for the log's look-out: a handler of it waits, or a sender for room in its mailbox.
    fn list(&self);

    /// Returns true if an asker may handle its own ask on this thread, should the actor be idle.
    fn is_idle(&self) -> bool;

    /// Handles an ask on this thread, should the actor wait for messages and have a handler that
    /// answers at once.
    fn answer(&self, ask: &mut AskInPlace<'_>);

    /// Runs the actor's turn on this thread, or wakes its `task`, which waits for messages.
    fn take_turn(&self, task: Waker);
}

/// Waits until an actor of this node has ended, and says how.
pub(crate) struct Ended {
    resident: Arc<dyn Resident>,
    place: Option<u64>,
}

impl Ended {
    pub(crate) fn of(resident: Arc<dyn Resident>) -> Self {
        Ended { resident, place: None }
    }
}

impl Future for Ended {
    type Output = ActorExit;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ActorExit> {
        let Ended { resident, place } = &mut *self;
        resident.poll_exit(place, cx)
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.resident.leave_exit(place);
        }
    }
}
