//! The part of a mailbox that is independent of its message types: room for senders of this node,
//! stop and drain, and the numbers of a snapshot. Compiled once.

use std::task::{Context, Poll, Waker};

use super::control::{LockedState, MailboxFlags};
use super::{Depth, Phase, count_waited, wake};
use crate::error::Cause;

/// A mailbox without its message types, for the senders of this node and for the code that ends the
/// actor.
pub(crate) trait ErasedMailbox: Send + Sync {
    fn gate(&self) -> &MailboxFlags;

    /// Calls `look` under the lock. `look` runs no code of a user.
    fn look(&self, look: &mut dyn FnMut(LockedState<'_>));
}

/// Room reserved for one message; returned when it is dropped.
pub(crate) struct MailboxRoom<'a>(&'a dyn ErasedMailbox);

impl<'a> MailboxRoom<'a> {
    /// Leaves the room reserved: it is filled now, or later by the caller.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }

    /// Recreates room of this mailbox that was [kept](Self::keep). Call this once per kept room.
    pub(crate) fn kept(intake: &'a dyn ErasedMailbox) -> Self {
        MailboxRoom(intake)
    }
}

impl Drop for MailboxRoom<'_> {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

impl dyn ErasedMailbox + '_ {
    fn within<T>(&self, act: impl FnOnce(LockedState<'_>) -> T) -> T {
        let (mut act, mut done) = (Some(act), None);
        self.look(&mut |inside| done = act.take().map(|act| act(inside)));
        done.expect("`look` calls what it is given")
    }

    /// Reserves room for one message; waits for its turn. Pass the same `turn` to each poll of the
    /// same send. If the send ends before it has room, pass the number in `turn` to
    /// [`leave`](Self::leave).
    pub(crate) fn poll_room(
        &self,
        turn: &mut Option<u64>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<MailboxRoom<'_>, Cause>> {
        let admitted = self.within(|LockedState { control, local, .. }| {
            let admitted = control.admit(turn, self.gate().room(control, local), cx);
            control.reserved += u32::from(admitted.is_ok());
            self.gate().note_room(control, self.gate().room(control, local));
            admitted
        });
        match admitted {
            Ok(waited) => {
                count_waited(waited);
                Poll::Ready(Ok(MailboxRoom(self)))
            }
            Err(refused) => refused.into_poll(),
        }
    }

    /// Reserves room for one message if there is some and no sender waits for it.
    pub(crate) fn try_room(&self) -> Result<MailboxRoom<'_>, Cause> {
        self.within(|LockedState { control, local, .. }| {
            control.check_room(self.gate().room(control, local))?;
            control.reserved += 1;
            Ok(MailboxRoom(self))
        })
    }

    /// Returns true if the mailbox accepts no more messages.
    pub(crate) fn is_closed(&self) -> bool {
        self.within(|inside| inside.control.phase != Phase::Open)
    }

    /// Returns true if senders wait for room.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.within(|inside| inside.control.senders() > 0)
    }

    /// Gives back the room reserved for one message, and wakes the sender that may have it.
    fn give_back(&self) {
        let (next, actor) = self.within(|LockedState { control, local, .. }| {
            control.reserved -= 1;
            let room = self.gate().room(control, local);
            let next = control.line.as_mut().and_then(|line| line.call_last(room));
            self.gate().note_room(control, room);
            // An actor that ends may wait for this room, even between two incarnations.
            let is_closed = control.phase != Phase::Open;
            (
                next,
                if is_closed {
                    control.call(self.gate()).or_else(|| control.task.clone())
                } else {
                    None
                },
            )
        });
        wake(next);
        wake(actor);
    }

    /// Removes the sender with this turn from the queue, and wakes the sender that may have its
    /// room.
    pub(crate) fn leave(&self, turn: u64) {
        let (left, next) = self.within(|LockedState { control, local, .. }| {
            let room = self.gate().room(control, local);
            let Some(line) = &mut control.line else { return (None, None) };
            let left = (line.leave(turn), line.call_last(room));
            self.gate().note_room(control, room);
            left
        });
        count_waited(left);
        wake(next);
    }

    /// Keeps the waker of the actor's task.
    pub(crate) fn attend(&self, task: &Waker) {
        let old = self.within(|inside| inside.control.task.replace(task.clone()));
        drop(old);
    }

    /// Wakes the actor's task, whatever the task waits for.
    pub(crate) fn wake(&self) {
        wake(self.within(|inside| inside.control.task.clone()));
    }

    /// Notes that the actor's task does not wait for messages any more, and returns its waker.
    pub(crate) fn busy_task(&self) -> Option<Waker> {
        self.within(|inside| {
            inside.control.waits = false;
            self.gate().set_waits(false);
            inside.control.task.clone()
        })
    }

    /// Returns true if the mailbox is open, the actor's task waits for messages, and no sender
    /// waits.
    #[inline]
    pub(crate) fn waits_alone(&self) -> bool {
        self.within(|LockedState { control: it, .. }| {
            it.waits && it.phase == Phase::Open && it.senders() == 0
        })
    }

    /// Drops the waker of the actor's task.
    pub(super) fn forget(&self) {
        let task = self.within(|inside| inside.control.task.take());
        drop(task);
    }

    /// Opens the mailbox of an actor that restarts after a stop or a drain.
    pub(crate) fn reopen(&self) {
        self.within(|inside| {
            self.gate().set_stopping(false);
            inside.control.phase = Phase::Open;
            self.gate().note_room(inside.control, self.gate().room(inside.control, inside.local));
        });
    }

    /// Accepts no more messages from now on; accepted ones are still handled.
    pub(crate) fn drain(&self) {
        self.enter(Phase::Draining);
    }

    /// Accepts no more messages from now on, and begins none any more.
    pub(crate) fn stop(&self) {
        self.enter(Phase::Stopping);
    }

    /// Enters `phase`, unless a later phase has begun: only [`reopen`](Self::reopen) goes back. All
    /// waiting tasks are woken outside of the lock, and see the phase.
    fn enter(&self, phase: Phase) {
        let (actor, waiting) = self.within(|LockedState { control, .. }| {
            if control.phase >= phase {
                return (None, Vec::new());
            }
            control.phase = phase;
            self.gate().set_stopping(phase == Phase::Stopping);
            // The task is always woken, because a handler may wait for this, too.
            (control.task.clone(), control.called(usize::MAX))
        });
        wake(actor);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Returns true if the actor must not begin another message.
    #[inline]
    pub(crate) fn is_stopping(&self) -> bool {
        self.gate().is_stopping()
    }

    /// Returns true if no message waits in the mailbox.
    pub(crate) fn is_empty(&self) -> bool {
        self.within(|LockedState { local, far, .. }| {
            local.len() + far.map_or(0, |far| far.len()) == 0
        })
    }

    /// Returns the numbers of messages and senders that wait now.
    pub(crate) fn depth(&self) -> Depth {
        self.within(|LockedState { control, local, mut far }| {
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

    /// Returns the number of messages and senders of this node that are ahead of a new message: all
    /// that wait, and the message that the actor handles. (The rest of a batch is not counted.)
    pub(crate) fn load(&self) -> usize {
        self.within(|LockedState { control, local, .. }| {
            let waiting = local.len() + control.senders() + control.reserved as usize;
            waiting + usize::from(!control.waits)
        })
    }
}
