//! Room in a mailbox: reserved, then filled or given back.

use std::task::{Context, Poll};

use super::Closed;

/// The side of a mailbox that senders of this node see, whatever its messages are.
pub(crate) trait Intake: Send + Sync {
    /// Reserves room for one message; waits for its turn (MB-2). Give the same `turn` to each poll
    /// of the same send, and call [`leave`](Self::leave) with what is left in it.
    fn poll_room(
        &self,
        turn: &mut Option<u64>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Room<'_>, Closed>>;

    /// Reserves room for one message if nobody waits for it.
    fn try_room(&self) -> Result<Room<'_>, NoRoom>;

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

    /// The room is being filled: it is not given back.
    pub(super) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.0.give_back();
    }
}
