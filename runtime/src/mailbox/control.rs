//! The state of a mailbox but for its messages.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use ringpost_transport::shield;

use super::hand;
use super::line::{Admitted, Gone, Line};
use super::queue::{Count, Far};
use super::{Closed, Phase, Remote};
use crate::limits;

/// The part of a mailbox that is read without its lock.
#[repr(C)]
pub(crate) struct Gate {
    /// Mirrors `Phase::Stopping` for the look before each message (MB-6). Relaxed: it orders
    /// nothing, and a stop that is seen one message later is as good.
    stopping: AtomicBool,
    capacity: u32,
}

/// The state of a mailbox but for its messages. Under its lock.
#[repr(C)]
pub(crate) struct Control {
    pub(super) phase: Phase,
    /// The task waits for messages, and is to be woken for the next one.
    pub(super) waits: bool,
    /// Room given to senders that have not filled it yet.
    pub(super) reserved: u32,
    /// There from the first sender that waited on.
    pub(super) line: Option<Box<Line>>,
    /// Wakes the actor's task; there from its first poll on.
    pub(super) task: Option<Waker>,
}

/// What lies under the lock of a mailbox, without its messages.
pub(crate) struct Inside<'a> {
    pub(super) control: &'a mut Control,
    pub(super) local: &'a mut Count,
    /// There from the first message of another node on.
    pub(super) far: Option<&'a mut Count>,
}

/// The outcome of a look for a batch.
pub(super) enum Look {
    /// Nothing comes any more.
    End,
    /// There is nothing to begin.
    Rest,
    Take,
}

/// Why no room was reserved.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// There is none, or others wait for it.
    Full,
    /// The actor takes nothing any more.
    Closed,
}

/// Why a sender has no room yet.
pub(super) enum Refused {
    Closed,
    Waits(Admitted),
}

impl Gate {
    pub(super) fn new(capacity: usize) -> Self {
        let capacity = u32::try_from(capacity).unwrap_or(u32::MAX).max(1);
        Gate { stopping: AtomicBool::new(false), capacity }
    }

    #[inline]
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// To be called under the lock, where the phase changes: the two never differ.
    pub(super) fn set_stopping(&self, is_stopping: bool) {
        self.stopping.store(is_stopping, Ordering::Relaxed);
    }

    /// Returns how many messages a batch has at most.
    pub(super) fn batch(&self) -> u32 {
        (self.capacity / 32).clamp(1, limits::BATCH_MESSAGES_MAX as u32)
    }

    /// Returns for how many more messages of this node there is room.
    #[inline]
    pub(super) fn room(&self, control: &Control, local: &Count) -> usize {
        (self.capacity - control.reserved) as usize - local.len()
    }
}

impl Control {
    pub(super) fn new() -> Self {
        Control { phase: Phase::Open, reserved: 0, line: None, task: None, waits: false }
    }

    /// Returns how many senders wait for room.
    pub(super) fn senders(&self) -> usize {
        self.line.as_ref().map_or(0, |line| line.len())
    }

    pub(super) fn line(&mut self) -> &mut Line {
        self.line.get_or_insert_default()
    }

    /// Admits a sender with this turn, where there is such `room`; returns since when it waited, if
    /// it did. A refusal becomes the outcome of the poll without the lock: [`Refused::into_poll`].
    #[inline]
    pub(super) fn admit(
        &mut self,
        turn: &mut Option<u64>,
        room: usize,
        cx: &mut Context<'_>,
    ) -> Result<Option<Gone>, Refused> {
        if self.phase != Phase::Open {
            return Err(Refused::Closed);
        }
        if turn.is_none() && room > self.senders() {
            return Ok(None);
        }
        match self.line().admit(turn, room, cx) {
            Admitted::Yes(gone) => Ok(gone),
            admitted => Err(Refused::Waits(admitted)),
        }
    }

    /// Refuses a sender where there is no such room, or others wait for it.
    #[inline]
    pub(super) fn check_room(&self, room: usize) -> Result<(), NoRoom> {
        if self.phase != Phase::Open {
            return Err(NoRoom::Closed);
        }
        if room <= self.senders() { Err(NoRoom::Full) } else { Ok(()) }
    }

    /// Returns the waker of the actor's task if it waits for messages; it does so no more.
    #[inline]
    pub(super) fn call(&mut self) -> Option<Waker> {
        if std::mem::take(&mut self.waits) { self.task.clone() } else { None }
    }

    /// Returns the wakers of all senders that there is room for.
    #[inline]
    pub(super) fn called(&mut self, room: usize) -> Vec<Waker> {
        self.line.as_mut().map(|line| line.call(room)).unwrap_or_default()
    }

    /// Looks whether there is a batch to take into a hand that has `hand` of other nodes.
    #[inline]
    pub(super) fn look<R: Remote>(
        &self,
        local: &Count,
        far: Option<&Far<R>>,
        hand: Option<&hand::Far<R>>,
        is_released: bool,
    ) -> Look {
        if self.phase == Phase::Stopping {
            return Look::End;
        }
        let has_remote = hand.is_some_and(|hand| !hand.remote.is_empty());
        if is_released || has_remote || local.len() + far.map_or(0, |far| far.count.len()) > 0 {
            return Look::Take;
        }
        let is_drained = self.phase == Phase::Draining && self.reserved == 0;
        let holds_back = hand.is_some_and(hand::Far::holds_back);
        if is_drained && !holds_back { Look::End } else { Look::Rest }
    }

    /// Notes that the task waits for messages. Returns a waker to be dropped without the lock.
    #[inline]
    pub(super) fn rest<R: Remote>(
        &mut self,
        far: &mut Option<Box<Far<R>>>,
        hand: &mut Option<Box<hand::Far<R>>>,
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

impl Refused {
    /// Returns the refusal as the outcome of a poll, and counts a sender that begins to wait. Must
    /// be called without the lock.
    #[cold]
    pub(super) fn into_poll<T>(self) -> Poll<Result<T, Closed>> {
        match self {
            Refused::Closed => Poll::Ready(Err(Closed)),
            Refused::Waits(admitted) => {
                if matches!(admitted, Admitted::Begun) {
                    shield::run(|| metrics::counter!("ringpost_mailbox_waits_total").increment(1));
                }
                Poll::Pending
            }
        }
    }
}
