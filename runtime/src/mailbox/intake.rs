//! The side of a mailbox that does not name its messages: room for senders of this node (MB-2),
//! orders to end (MB-6), and what a snapshot shows. Compiled once.

use std::task::{Context, Poll, Waker};

use super::control::{Gate, Inside, NoRoom};
use super::{Closed, Depth, Phase, count_waited, wake};

/// A mailbox, whatever its messages are: what senders of this node see, and what orders an end.
pub(crate) trait Intake: Send + Sync {
    fn gate(&self) -> &Gate;

    /// Calls `look` under the lock. Nothing of a user runs in it (MB-7).
    fn look(&self, look: &mut dyn FnMut(Inside<'_>));
}

/// Room reserved for one message; given back when dropped (MB-3).
pub(crate) struct Room<'a>(&'a dyn Intake);

impl<'a> Room<'a> {
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

impl dyn Intake + '_ {
    fn within<T>(&self, act: impl FnOnce(Inside<'_>) -> T) -> T {
        let (mut act, mut done) = (Some(act), None);
        self.look(&mut |inside| done = act.take().map(|act| act(inside)));
        done.expect("`look` calls what it is given")
    }

    /// Reserves room for one message; waits for its turn (MB-2). Give the same `turn` to each poll
    /// of the same send, and call [`leave`](Self::leave) with what is left in it.
    pub(crate) fn poll_room(
        &self,
        turn: &mut Option<u64>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Room<'_>, Closed>> {
        let admitted = self.within(|Inside { control, local, .. }| {
            let admitted = control.admit(turn, self.gate().room(control, local), cx);
            control.reserved += u32::from(admitted.is_ok());
            admitted
        });
        match admitted {
            Ok(waited) => {
                count_waited(waited);
                Poll::Ready(Ok(Room(self)))
            }
            Err(refused) => refused.into_poll(),
        }
    }

    /// Reserves room for one message if no sender waits for it.
    pub(crate) fn try_room(&self) -> Result<Room<'_>, NoRoom> {
        self.within(|Inside { control, local, .. }| {
            control.check_room(self.gate().room(control, local))?;
            control.reserved += 1;
            Ok(Room(self))
        })
    }

    /// Returns true if nothing is accepted any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.within(|inside| inside.control.phase != Phase::Open)
    }

    /// Returns true if senders wait for room.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.within(|inside| inside.control.senders() > 0)
    }

    /// Takes reserved room back.
    fn give_back(&self) {
        let (next, actor) = self.within(|Inside { control, local, .. }| {
            control.reserved -= 1;
            let room = self.gate().room(control, local);
            let next = control.line.as_mut().and_then(|line| line.call_last(room));
            // An end may have waited for this very room, also of an actor that rests.
            let is_closed = control.phase != Phase::Open;
            (next, if is_closed { control.call().or_else(|| control.task.clone()) } else { None })
        });
        wake(next);
        wake(actor);
    }

    /// Gives up a turn.
    pub(crate) fn leave(&self, turn: u64) {
        let (left, next) = self.within(|Inside { control, local, .. }| {
            let room = self.gate().room(control, local);
            let Some(line) = &mut control.line else { return (None, None) };
            (line.leave(turn), line.call_last(room))
        });
        count_waited(left);
        wake(next);
    }

    /// Keeps the waker of the actor's task.
    pub(crate) fn attend(&self, task: &Waker) {
        let old = self.within(|inside| inside.control.task.replace(task.clone()));
        drop(old);
    }

    /// Wakes the actor's task, whatever it waits for.
    pub(crate) fn wake(&self) {
        wake(self.within(|inside| inside.control.task.clone()));
    }

    /// Returns the waker of the actor's task.
    pub(crate) fn task(&self) -> Option<Waker> {
        self.within(|inside| inside.control.task.clone())
    }

    /// Returns true if the actor's task waits for messages, none has come, and no sender waits.
    #[inline]
    pub(crate) fn waits_alone(&self) -> bool {
        self.within(|Inside { control: it, .. }| {
            it.waits && it.phase == Phase::Open && it.senders() == 0
        })
    }

    /// Forgets the actor's task.
    pub(super) fn forget(&self) {
        let task = self.within(|inside| inside.control.task.take());
        drop(task);
    }

    /// Opens the mailbox of an actor that restarts after a stop or a drain.
    pub(crate) fn reopen(&self) {
        self.within(|inside| {
            self.gate().set_stopping(false);
            inside.control.phase = Phase::Open;
        });
    }

    /// From now on nothing is accepted; what was accepted is still handled (MB-6).
    pub(crate) fn drain(&self) {
        self.enter(Phase::Draining);
    }

    /// From now on nothing is accepted, and no message begins any more (MB-6).
    pub(crate) fn stop(&self) {
        self.enter(Phase::Stopping);
    }

    /// Phases only go forward, until the mailbox is opened again. All that wait are woken, without
    /// the lock (MB-7), and told.
    fn enter(&self, phase: Phase) {
        let (actor, waiting) = self.within(|Inside { control, .. }| {
            if control.phase >= phase {
                return (None, Vec::new());
            }
            control.phase = phase;
            self.gate().set_stopping(phase == Phase::Stopping);
            // Whatever it waits for: a handler may want to know, too.
            (control.task.clone(), control.called(usize::MAX))
        });
        wake(actor);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Returns true if the actor is to begin no other message.
    #[inline]
    pub(crate) fn is_stopping(&self) -> bool {
        self.gate().is_stopping()
    }

    /// Returns true if nothing waits in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.within(|Inside { local, far, .. }| local.len() + far.map_or(0, |far| far.len()) == 0)
    }

    /// Returns what waits in it now.
    pub(crate) fn depth(&self) -> Depth {
        self.within(|Inside { control, local, mut far }| {
            let ages = [local.oldest(), far.as_mut().and_then(|far| far.oldest())];
            let longest = control.line.as_ref().and_then(|line| line.longest());
            Depth {
                local: local.len(),
                remote: far.map_or(0, |far| far.len()),
                senders: control.senders(),
                oldest: ages.into_iter().flatten().max(),
                longest: longest.map(|since| since.elapsed()),
            }
        })
    }

    /// Returns how many messages and senders of this node are before a new one: those that wait,
    /// and the one in hand. (The rest of a batch is not counted.)
    pub(crate) fn load(&self) -> usize {
        self.within(|Inside { control, local, .. }| {
            let waiting = local.len() + control.senders() + control.reserved as usize;
            waiting + usize::from(!control.waits)
        })
    }
}
