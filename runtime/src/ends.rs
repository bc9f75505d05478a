//! The stage of an actor, the orders of others to its task, and the tasks that wait for its end.
//!
//! An actor ends once; each task that waits for the end is told once, and a task that begins to
//! wait later is told at once. A restart is not an end. The actor's task sees an order at its next
//! check. An order to end permanently is never withdrawn.

mod links;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::address::Address;
use crate::exit::ActorExit;
use crate::link_end::LinkEnd;
use crate::remote::{CloseNotice, reason_of};
use crate::rest::RestSender;
use crate::state::ActorState;
use links::tell_links;

/// The stage of an actor, the orders of others to its task, and the tasks that wait for its end.
/// (A stop and a drain are orders to its mailbox.)
pub(crate) struct ExitControl {
    /// Mirrors [`Status::urgency`] for the checks before each message and each poll. Relaxed,
    /// because each order is followed by taking the mailbox's lock, which wakes the task.
    urgency: AtomicU8,
    status: Mutex<Status>,
}

/// The stage of an actor. It only advances, and may skip stages; but from `Resting` it may go to
/// `Starting`, with the next incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// `on_start` runs, or is about to.
    Starting,
    /// It handles messages.
    Running,
    /// The incarnation ends in order, and ends its children: their failures do not fail it any
    /// more.
    Closing,
    /// The incarnation has ended. Failures of others do not fail it any more.
    Over,
    /// The actor pauses until the next incarnation, or is about to end.
    Resting,
    Ended,
}

/// The kinds of ends after which an actor is restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RestartPolicy {
    Never,
    AfterFailures,
    /// After a stop or a drain, too.
    Always,
}

/// The reason to end an incarnation early.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ForcedExit {
    Kill,
    Fail(Arc<str>),
}

/// The urgency of the orders to an incarnation.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
enum Urgency {
    None = 0,
    /// No other message may begin.
    Halt = 1,
    /// The running handler is dropped.
    Force = 2,
}

struct Status {
    stage: Stage,
    revival: RestartPolicy,
    /// The order to end now was given. Outside of `more`, because it needs no memory.
    is_killed: bool,
    /// Created with the first order with a value, the first link or the first waiting task.
    more: Option<Box<StatusExtras>>,
}

/// The part of a status that few actors need.
#[derive(Default)]
struct StatusExtras {
    /// The order to fail, with its reason; only the first order counts.
    fail: Option<Arc<str>>,
    /// The order to rest, which means to pause, when this incarnation has ended.
    pause: Option<RestSender>,
    notices: Vec<CloseNotice>,
    /// The tasks that wait for the end, in the order of their arrival.
    waiting: BTreeMap<u64, Waker>,
    next: u64,
    /// Links by the token of the other actor.
    links: BTreeMap<usize, LinkEnd>,
    /// The actor does not fail when linked actors fail.
    traps: bool,
    /// Set when the actor has ended.
    exit: Option<ActorExit>,
}

impl Status {
    fn more(&mut self) -> &mut StatusExtras {
        self.more.get_or_insert_default()
    }

    /// Returns the part that few actors need, which this creates if necessary; `None` if the actor
    /// has ended.
    fn living(&mut self) -> Option<&mut StatusExtras> {
        (self.stage != Stage::Ended).then(|| self.more())
    }

    /// Returns the part that few actors need, if it exists and the actor has not ended.
    fn kept(&mut self) -> Option<&mut StatusExtras> {
        self.more.as_deref_mut().filter(|_| self.stage != Stage::Ended)
    }

    /// Orders the incarnation to fail, if it starts or runs; otherwise does nothing.
    fn fail(&mut self, reason: Arc<str>) {
        if matches!(self.stage, Stage::Starting | Stage::Running) {
            self.more().fail.get_or_insert(reason);
        }
    }

    fn has_failed(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.fail.is_some())
    }

    fn is_to_rest(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.pause.is_some())
    }

    fn take_pause(&mut self) -> Option<RestSender> {
        self.more.as_mut()?.pause.take()
    }

    /// Forgets the order to fail.
    fn forget_failure(&mut self) {
        if let Some(more) = &mut self.more {
            more.fail = None;
        }
    }

    /// Returns how the actor ended. Called only after its end.
    fn exit(&mut self) -> &ActorExit {
        self.more().exit.get_or_insert(ActorExit::Killed)
    }

    fn urgency(&self) -> Urgency {
        match () {
            () if self.is_killed || self.has_failed() => Urgency::Force,
            () if self.is_to_rest() => Urgency::Halt,
            () => Urgency::None,
        }
    }
}

impl ExitControl {
    pub(crate) fn new(revival: RestartPolicy) -> Self {
        let status = Status { stage: Stage::Starting, revival, is_killed: false, more: None };
        ExitControl { urgency: AtomicU8::new(Urgency::None as u8), status: Mutex::new(status) }
    }

    /// Calls `change` with the status, under its lock. `change` must not drop a value of a user.
    fn change<T>(&self, change: impl FnOnce(&mut Status) -> T) -> T {
        let mut status = self.status.lock();
        let changed = change(&mut status);
        self.urgency.store(status.urgency() as u8, Ordering::Relaxed);
        changed
    }

    /// Notes that the incarnation has started.
    pub(crate) fn started(&self) {
        self.change(|status| status.stage = Stage::Running);
    }

    /// Notes that the incarnation ends in order.
    pub(crate) fn close_incarnation(&self) {
        self.change(|status| status.stage = Stage::Closing);
    }

    /// Notes that the incarnation has ended.
    pub(crate) fn leave_incarnation(&self) {
        self.change(|status| {
            status.stage = Stage::Over;
            status.forget_failure();
        });
    }

    /// Notes that the actor rests, and forgets the orders to the last incarnation: a kill from now
    /// on is for the resting actor. If the actor must rest with others, returns the sender for its
    /// report that it rests.
    pub(crate) fn rest(&self) -> Option<RestSender> {
        self.change(|status| {
            (status.stage, status.is_killed) = (Stage::Resting, false);
            status.forget_failure();
            status.take_pause()
        })
    }

    /// Begins the next incarnation of an actor that rested. Returns false if it was killed before.
    pub(crate) fn begin_anew(&self) -> bool {
        self.change(|status| {
            if !status.is_killed {
                status.stage = Stage::Starting;
            }
            !status.is_killed
        })
    }

    /// Returns the actor's current state, without orders to its mailbox.
    pub(crate) fn state(&self) -> ActorState {
        let status = self.status.lock();
        match (status.stage, status.urgency()) {
            (Stage::Over | Stage::Resting | Stage::Ended, _) => match status.revival {
                RestartPolicy::Never => ActorState::Stopping,
                _ => ActorState::Resting,
            },
            (_, Urgency::Force) => ActorState::Killed,
            (_, Urgency::Halt) => ActorState::Stopping,
            (Stage::Starting, Urgency::None) => ActorState::Starting,
            (Stage::Running | Stage::Closing, Urgency::None) => ActorState::Running,
        }
    }

    /// Orders the incarnation to end now: its running handler is dropped.
    pub(crate) fn kill(&self) {
        self.change(|status| status.is_killed = true);
    }

    /// Kills an actor that must rest but does not rest yet. (A resting actor may have been ordered
    /// to rest again with others, and not have reported it yet.)
    pub(crate) fn kill_unless_resting(&self) {
        self.change(|status| {
            status.is_killed |= status.is_to_rest() && status.stage != Stage::Resting;
        });
    }

    /// Orders this incarnation to fail, unless it is already ending; only the first reason counts.
    pub(crate) fn fail(&self, reason: Arc<str>) {
        self.change(|status| status.fail(reason));
    }

    /// Orders the actor to rest when this incarnation has ended. An actor that has ended drops
    /// `pause`.
    pub(crate) fn pause(&self, pause: RestSender) {
        let unkept = self.change(|status| match status.living() {
            Some(living) => living.pause.replace(pause),
            None => Some(pause),
        });
        drop(unkept);
    }

    /// Forbids further restarts.
    pub(crate) fn retire(&self) {
        self.change(|status| status.revival = RestartPolicy::Never);
    }

    /// Forbids restarts after a stop or a drain. If the actor is then drained, it handles its
    /// accepted messages, restarts for these if it fails, and ends.
    pub(crate) fn dismiss(&self) {
        self.change(|status| {
            if status.revival == RestartPolicy::Always {
                status.revival = RestartPolicy::AfterFailures;
            }
        });
    }

    #[inline]
    pub(crate) fn is_forced(&self) -> bool {
        self.urgency.load(Ordering::Relaxed) == Urgency::Force as u8
    }

    /// Returns true if no other message may begin, because this incarnation ends or must rest.
    #[inline]
    pub(crate) fn is_halted(&self) -> bool {
        self.urgency.load(Ordering::Relaxed) != Urgency::None as u8
    }

    /// Returns the reason to end the incarnation now, if any.
    #[cold]
    pub(crate) fn forced(&self) -> Option<ForcedExit> {
        self.change(|status| match status.is_killed {
            true => Some(ForcedExit::Kill),
            false => status.more.as_mut()?.fail.clone().map(ForcedExit::Fail),
        })
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.status.lock().is_killed
    }

    pub(crate) fn revival(&self) -> RestartPolicy {
        self.status.lock().revival
    }

    pub(crate) fn is_final(&self) -> bool {
        self.revival() == RestartPolicy::Never
    }

    /// Returns true if the actor is restarted even after a stop or a drain.
    pub(crate) fn is_revived(&self) -> bool {
        self.revival() == RestartPolicy::Always
    }

    /// Returns true if the actor must rest when this incarnation has ended.
    pub(crate) fn is_to_rest(&self) -> bool {
        self.status.lock().is_to_rest()
    }

    /// Returns true if there is an order for a resting actor.
    pub(crate) fn is_ordered(&self) -> bool {
        let status = self.status.lock();
        status.revival == RestartPolicy::Never || status.is_killed || status.is_to_rest()
    }

    pub(crate) fn take_pause(&self) -> Option<RestSender> {
        self.change(Status::take_pause)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.status.lock().stage == Stage::Ended
    }

    /// Closes the kept notices: this tells the nodes that have opened the actor's mailbox how it
    /// ended. [`tell`](Self::tell) tells the tasks that wait for the end.
    pub(crate) fn close(&self, exit: &ActorExit) {
        let take = |more: &mut StatusExtras| std::mem::take(&mut more.notices);
        let notices = self.change(|status| status.kept().map(take));
        let reason = reason_of(exit);
        notices.into_iter().flatten().for_each(|notice| notice.close(reason.clone()));
    }

    /// Tells the linked actors how `me` ended, and then all tasks that wait for that. In this
    /// order: a shutdown is such a task, and then ends the ties, which tell linked actors
    /// elsewhere.
    pub(crate) fn tell(&self, exit: ActorExit, me: &Address) {
        self.end_links(me, &exit);
        let old = self.change(|status| {
            status.stage = Stage::Ended;
            status.more.replace(Box::new(StatusExtras {
                exit: Some(exit.clone()),
                ..StatusExtras::default()
            }))
        });
        if let Some(old) = old {
            // Notices and links that were added after the others were told.
            let StatusExtras { waiting, notices, links, .. } = *old;
            let reason = reason_of(&exit);
            notices.into_iter().for_each(|notice| notice.close(reason.clone()));
            waiting.into_values().for_each(Waker::wake);
            tell_links(links, me, &exit);
        }
    }

    /// Keeps a notice until the actor ends. If it has ended, closes the notice at once.
    pub(crate) fn on_close(&self, notice: CloseNotice) {
        let kept = self.change(|status| match status.living() {
            Some(living) => {
                let notices = &mut living.notices;
                // Notices of links that have ended: a peer that links again gives a new notice each
                // time.
                let stale: Vec<_> = notices.extract_if(.., |notice| notice.is_stale()).collect();
                notices.push(notice);
                Ok(stale)
            }
            None => Err((notice, status.exit().clone())),
        });
        if let Err((notice, exit)) = kept {
            notice.close(reason_of(&exit));
        }
    }

    /// Waits for the end, and returns it. Pass the same `place` to each poll of the same wait. If
    /// the wait is given up, pass the number in `place` to [`leave`](Self::leave).
    pub(crate) fn poll(&self, place: &mut Option<u64>, cx: &mut Context<'_>) -> Poll<ActorExit> {
        let waker = cx.waker().clone();
        let replaced = self.change(|status| match status.living() {
            Some(living) => {
                let number = *place.get_or_insert_with(|| {
                    living.next += 1;
                    living.next
                });
                Ok(living.waiting.insert(number, waker))
            }
            None => Err((waker, status.exit().clone())),
        });
        match replaced {
            Ok(_old) => Poll::Pending,
            Err((_waker, exit)) => {
                *place = None;
                Poll::Ready(exit)
            }
        }
    }

    /// Gives up the wait with this number.
    pub(crate) fn leave(&self, place: u64) {
        let old = self.change(|status| status.kept()?.waiting.remove(&place));
        drop(old);
    }
}
