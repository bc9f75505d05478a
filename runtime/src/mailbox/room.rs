//! Room in a mailbox: reserved, then filled or given back.

use std::task::{Context, Poll};

use super::hand::Remote;
use super::line::Admitted;
use super::{Closed, Mailbox, Phase, count_wait, count_waited, wake};

/// The side of a mailbox that senders of this node see, whatever its messages are.
pub(crate) trait Intake: Send + Sync {
    /// Reserves room for one message; waits for its turn (MB-2). Give the same `turn` to each poll
    /// of the same send, and call [`leave`](Self::leave) with what is left in it.
    fn poll_room(
        &self,
        turn: &mut Option<u64>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Room<'_>, Closed>>;

    /// Reserves room for one message if no sender waits for it.
    fn try_room(&self) -> Result<Room<'_>, NoRoom>;

    /// Returns true if the sender with this turn waits, and there is no room for it yet.
    fn lacks_room(&self, turn: u64) -> bool;

    /// Wakes the sender with this turn.
    fn call(&self, turn: u64);

    /// Returns true if it takes nothing any more.
    fn is_closed(&self) -> bool;

    /// Returns true if senders wait for room.
    fn is_waited_for(&self) -> bool;

    /// Takes reserved room back.
    fn give_back(&self);

    /// Gives up a turn.
    fn leave(&self, turn: u64);
}

/// Why no room was reserved.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// There is none, or others wait for it.
    Full,
    /// The actor takes nothing any more.
    Closed,
}

/// Room reserved for one message; given back when dropped (MB-3).
pub(crate) struct Room<'a>(&'a dyn Intake);

impl<'a> Room<'a> {
    pub(super) fn new(intake: &'a dyn Intake) -> Self {
        Room(intake)
    }

    /// The room is being filled, or kept by its owner: it is not given back.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }

    /// Room that was [kept](Self::keep) in this mailbox, once.
    pub(crate) fn kept(intake: &'a dyn Intake) -> Self {
        Room(intake)
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

impl<L: Send, R: Remote + Send> Intake for Mailbox<L, R> {
    fn poll_room(
        &self,
        turn: &mut Option<u64>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Room<'_>, Closed>> {
        let mut state = self.state.lock();
        if state.phase != Phase::Open {
            return Poll::Ready(Err(Closed));
        }
        let room = state.room(self.capacity);
        let admitted = state.line().admit(turn, room, cx);
        state.reserved += u32::from(matches!(admitted, Admitted::Yes(_)));
        drop(state);
        match admitted {
            Admitted::Yes(waited) => {
                count_waited(waited);
                Poll::Ready(Ok(Room::new(self)))
            }
            admitted => {
                count_wait(admitted);
                Poll::Pending
            }
        }
    }

    fn try_room(&self) -> Result<Room<'_>, NoRoom> {
        let mut state = self.state.lock();
        if state.phase != Phase::Open {
            return Err(NoRoom::Closed);
        }
        if state.room(self.capacity) <= state.senders() {
            return Err(NoRoom::Full);
        }
        state.reserved += 1;
        Ok(Room::new(self))
    }

    fn lacks_room(&self, turn: u64) -> bool {
        let state = self.state.lock();
        let room = state.room(self.capacity);
        let is_open = state.phase == Phase::Open;
        is_open && state.line.as_ref().is_some_and(|line| line.is_behind(turn, room))
    }

    fn call(&self, turn: u64) {
        let called = self.state.lock().line.as_mut().and_then(|line| line.call_turn(turn));
        wake(called);
    }

    fn is_closed(&self) -> bool {
        self.is_closing()
    }

    fn is_waited_for(&self) -> bool {
        self.state.lock().senders() > 0
    }

    fn give_back(&self) {
        let mut state = self.state.lock();
        state.reserved -= 1;
        let room = state.room(self.capacity);
        let next = state.line.as_mut().and_then(|line| line.call_last(room));
        // A drain may have waited for this very room.
        let actor = if state.phase == Phase::Draining { state.call() } else { None };
        drop(state);
        wake(next);
        wake(actor);
    }

    fn leave(&self, turn: u64) {
        let mut state = self.state.lock();
        let left = state.line.as_mut().and_then(|line| line.leave(turn));
        let room = state.room(self.capacity);
        let next = state.line.as_mut().and_then(|line| line.call_last(room));
        drop(state);
        count_waited(left);
        wake(next);
    }
}
