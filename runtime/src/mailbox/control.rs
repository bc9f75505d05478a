//! The state of a mailbox without its messages.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use ringpost_transport::shield;

use super::hand;
use super::line::{Admission, DepartedSender, SenderQueue};
use super::queue::{QueueStats, RemoteQueue};
use super::{Phase, RemoteItem};
use crate::error::Cause;
use crate::limits;

/// The part of a mailbox that is read without its lock.
#[repr(C)]
pub(crate) struct MailboxFlags {
    /// Mirrors `Phase::Stopping` for the check before each message. Relaxed, because it orders
    /// nothing, and a stop may be seen one message later.
    stopping: AtomicBool,
    /// Mirrors [`Control::waits`] for askers, which look at it before they take the lock. Relaxed:
    /// an outdated value costs time only.
    waits: AtomicBool,
    /// A new sender would find no room. Relaxed, for the same reason.
    full: AtomicBool,
    capacity: u32,
}

/// The state of a mailbox without its messages. It is under the mailbox's lock.
#[repr(C)]
pub(crate) struct Control {
    pub(super) phase: Phase,
    /// The task waits for messages, and is to be woken for the next one.
    pub(super) waits: bool,
    /// Number of messages for which senders have room that they have not filled yet.
    pub(super) reserved: u32,
    /// Created with the first sender that waits.
    pub(super) line: Option<Box<SenderQueue>>,
    /// Wakes the actor's task; set by its first poll.
    pub(super) task: Option<Waker>,
}

/// The fields under the lock of a mailbox, without its messages.
pub(crate) struct LockedState<'a> {
    pub(super) control: &'a mut Control,
    pub(super) local: &'a mut QueueStats,
    /// `None` before the first message of another node.
    pub(super) far: Option<&'a mut QueueStats>,
}

/// The outcome of [`Control::look`].
pub(super) enum BatchCheck {
    /// No more messages come.
    End,
    /// There is no message to begin: the actor waits.
    Rest,
    /// There is a batch to take.
    Take,
}

/// The reason why a sender has no room yet.
pub(super) enum RoomError {
    Closed,
    Waits(Admission),
}

impl MailboxFlags {
    pub(super) fn new(capacity: usize) -> Self {
        let capacity = u32::try_from(capacity).unwrap_or(u32::MAX).max(1);
        let [stopping, waits, full] = [(); 3].map(|()| AtomicBool::new(false));
        MailboxFlags { stopping, waits, full, capacity }
    }

    #[inline]
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Must be called under the lock whenever the phase changes, so that flag and phase never
    /// differ.
    pub(super) fn set_stopping(&self, is_stopping: bool) {
        self.stopping.store(is_stopping, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    /// Must be called under the lock, where [`Control::waits`] changes.
    #[inline]
    pub(super) fn set_waits(&self, waits: bool) {
        self.waits.store(waits, Ordering::Relaxed);
    }

    /// Returns true if a new sender would find no room. The answer may be outdated.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Must be called under the lock, with the current room, when there is more of it, and when a
    /// sender found none.
    #[inline]
    pub(super) fn note_room(&self, control: &Control, room: usize) {
        let is_full = room <= control.senders();
        // (A store that changes nothing would cost the senders a cache miss.)
        if is_full != self.is_full() {
            self.full.store(is_full, Ordering::Relaxed);
        }
    }

    /// Returns the maximum number of messages in a batch.
    pub(super) fn batch(&self) -> u32 {
        (self.capacity / 32).clamp(1, limits::BATCH_MESSAGES_MAX as u32)
    }

    /// Returns the number of further messages of this node that have room.
    #[inline]
    pub(super) fn room(&self, control: &Control, local: &QueueStats) -> usize {
        (self.capacity - control.reserved) as usize - local.len()
    }
}

impl Control {
    pub(super) fn new() -> Self {
        Control { phase: Phase::Open, reserved: 0, line: None, task: None, waits: false }
    }

    /// Returns the number of senders that wait for room.
    pub(super) fn senders(&self) -> usize {
        self.line.as_ref().map_or(0, |line| line.len())
    }

    pub(super) fn line(&mut self) -> &mut SenderQueue {
        self.line.get_or_insert_default()
    }

    /// Admits the sender with this turn if it may have one of `room` places. Returns the sender as
    /// it left the queue, if it waited there. Outside of the lock, [`RoomError::into_poll`] turns
    /// an error into the outcome of the poll.
    #[inline]
    pub(super) fn admit(
        &mut self,
        turn: &mut Option<u64>,
        room: usize,
        cx: &mut Context<'_>,
    ) -> Result<Option<DepartedSender>, RoomError> {
        if self.phase != Phase::Open {
            return Err(RoomError::Closed);
        }
        if turn.is_none() && room > self.senders() {
            return Ok(None);
        }
        match self.line().admit(turn, room, cx) {
            Admission::Yes(gone) => Ok(gone),
            admitted => Err(RoomError::Waits(admitted)),
        }
    }

    /// Checks that a sender may have room without a wait: the mailbox is open and has room for
    /// which no other sender waits.
    #[inline]
    pub(super) fn check_room(&self, room: usize) -> Result<(), Cause> {
        if self.phase != Phase::Open {
            return Err(Cause::Stopped);
        }
        if room <= self.senders() { Err(Cause::MailboxFull) } else { Ok(()) }
    }

    /// Checks that the sender with this turn, which has waited, was woken for one of `room` places.
    #[cold]
    pub(super) fn check_turn(&self, turn: u64, room: usize) -> Result<(), Cause> {
        let was_called = || self.line.as_ref().is_some_and(|line| line.was_called(turn, room));
        if self.phase == Phase::Open && was_called() { Ok(()) } else { Err(Cause::MailboxFull) }
    }

    /// Returns the waker of the actor's task if it waits for messages, and notes that it does not
    /// any more.
    #[inline]
    pub(super) fn call(&mut self, gate: &MailboxFlags) -> Option<Waker> {
        if !std::mem::take(&mut self.waits) {
            return None;
        }
        gate.set_waits(false);
        self.task.clone()
    }

    /// Returns the wakers of all senders that have room now.
    #[inline]
    pub(super) fn called(&mut self, room: usize) -> Vec<Waker> {
        self.line.as_mut().map(|line| line.call(room)).unwrap_or_default()
    }

    /// Checks whether the actor has a batch to take. `hand` has the messages that it prefetched
    /// from other nodes, and `is_released` means that one of those held back can be begun.
    #[inline]
    pub(super) fn look<R: RemoteItem>(
        &self,
        local: &QueueStats,
        far: Option<&RemoteQueue<R>>,
        hand: Option<&hand::RemotePrefetched<R>>,
        is_released: bool,
    ) -> BatchCheck {
        if self.phase == Phase::Stopping {
            return BatchCheck::End;
        }
        let has_remote = hand.is_some_and(|hand| !hand.remote.is_empty());
        if is_released || has_remote || local.len() + far.map_or(0, |far| far.count.len()) > 0 {
            return BatchCheck::Take;
        }
        let is_drained = self.phase == Phase::Draining && self.reserved == 0;
        let holds_back = hand.is_some_and(hand::RemotePrefetched::holds_back);
        if is_drained && !holds_back { BatchCheck::End } else { BatchCheck::Rest }
    }

    /// Notes that the task waits for messages. Returns a waker to be dropped outside of the lock.
    #[inline]
    pub(super) fn rest<R: RemoteItem>(
        &mut self,
        far: &mut Option<Box<RemoteQueue<R>>>,
        hand: &mut Option<Box<hand::RemotePrefetched<R>>>,
        cx: &mut Context<'_>,
    ) -> Option<Waker> {
        self.waits = true;
        if let Some(far) = far {
            far.rest(&mut hand.get_or_insert_default().remote);
        }
        let is_known = self.task.as_ref().is_some_and(|task| task.will_wake(cx.waker()));
        if is_known { None } else { self.task.replace(cx.waker().clone()) }
    }
}

impl RoomError {
    /// Returns the outcome of a poll that found no room, and counts a sender that begins to wait.
    /// Must be called outside of the lock.
    #[cold]
    pub(super) fn into_poll<T>(self) -> Poll<Result<T, Cause>> {
        match self {
            RoomError::Closed => Poll::Ready(Err(Cause::Stopped)),
            RoomError::Waits(admitted) => {
                if matches!(admitted, Admission::Begun) {
                    shield::run(|| metrics::counter!("ringpost_mailbox_waits_total").increment(1));
                }
                Poll::Pending
            }
        }
    }
}
