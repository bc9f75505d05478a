//! The orders of others to an actor's task, and the tasks that wait for its end.
//!
//! - **EN-1 one end**: an actor ends once; each task that waits for that is told once, and one that
//!   comes later at once. A restart is no end.
//! - **EN-2 orders last**: an order that came before the actor's task looked is seen when it looks.
//!   An order to end for good is never taken back.

mod links;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::child::Course;
use crate::exit::ActorExit;
use crate::link_end::LinkEnd;
use crate::remote::{CloseNotice, reason_of};
use crate::resident::Resident;
use crate::rest::Pause;
use crate::state::ActorState;
use links::tell_links;

/// End now: drop the running handler.
const KILL: u16 = 1;
/// The same, as a failure that somebody else had.
const FAIL: u16 = 2;
/// Never begin anew.
const FINAL: u16 = 4;
/// Rest when this incarnation has ended.
const PAUSE: u16 = 8;
/// The incarnation is over, and no other one has begun: a failure of others is not its own any
/// more.
const OVER: u16 = 16;
/// It is restarted also after a stop.
const REVIVED: u16 = 32;
/// The incarnation has started.
const STARTED: u16 = 64;
/// It rests, or is about to say so, or ends.
const RESTS: u16 = 128;
/// The incarnation ends in order, and ends its children: their failures are not its own.
const CLOSES: u16 = 256;

/// The orders of others to an actor's task, and the tasks that wait for its end.
pub(super) struct Ends {
    /// Written under the lock only, with what goes with an order; so nothing that is decided under
    /// it is about another moment. Looks without it save the way to it: before each message. They
    /// are relaxed, as an order is followed by a turn of the mailbox's lock, which wakes the task.
    orders: AtomicU16,
    state: Mutex<State>,
}

enum State {
    /// Without a box no task waits.
    Living(Option<Box<Living>>),
    Ended(Box<ActorExit>),
}

#[derive(Default)]
struct Living {
    notices: Vec<CloseNotice>,
    /// The tasks that wait for the end, in the order they came.
    waiting: BTreeMap<u64, Waker>,
    next: u64,
    /// Why it is to fail.
    reason: Option<Arc<str>>,
    pause: Option<Pause>,
    /// By the token of what it is linked to.
    links: BTreeMap<usize, LinkEnd>,
    /// It does not fail with what it is linked to.
    traps: bool,
}

/// Why an incarnation ends before it would by itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Forced {
    Kill,
    Fail(Arc<str>),
}

impl Ends {
    /// Of an actor that is restarted as `course` says; of one without nothing ever begins anew.
    pub(super) fn new(course: Option<&Course>) -> Self {
        let orders = match course {
            None => FINAL,
            Some(course) if course.is_revived() => REVIVED,
            Some(_) => 0,
        };
        Ends { orders: AtomicU16::new(orders), state: Mutex::new(State::Living(None)) }
    }

    /// Takes back that the actor is restarted after a stop or a drain. When it is drained then, it
    /// handles its accepted messages, restarts for these if it fails, and ends.
    pub(super) fn dismiss(&self) {
        let _locked = self.state.lock();
        self.take_back(REVIVED);
    }

    pub(super) fn is_revived(&self) -> bool {
        self.orders() & REVIVED != 0
    }

    /// The incarnation has started.
    pub(super) fn started(&self) {
        let _locked = self.state.lock();
        self.order(STARTED);
    }

    /// Returns what the actor does now, as far as its mailbox has not said so.
    pub(super) fn stage(&self) -> ActorState {
        let orders = self.orders();
        match () {
            () if orders & OVER != 0 && orders & FINAL != 0 => ActorState::Stopping,
            () if orders & OVER != 0 => ActorState::Resting,
            () if orders & (KILL | FAIL) != 0 => ActorState::Killed,
            () if orders & PAUSE != 0 => ActorState::Stopping,
            () if orders & STARTED == 0 => ActorState::Starting,
            () => ActorState::Running,
        }
    }

    /// The incarnation is over.
    pub(super) fn leave_incarnation(&self) {
        let _locked = self.state.lock();
        self.take_back(FAIL | STARTED);
        self.order(OVER);
    }

    /// The incarnation ends in order.
    pub(super) fn close_incarnation(&self) {
        let _locked = self.state.lock();
        self.order(CLOSES);
    }

    pub(super) fn kill(&self) {
        let _locked = self.state.lock();
        self.order(KILL);
    }

    /// Kills an actor that is to rest and does not yet. (One that rests may have been told to
    /// again, with others, and not have said so.)
    pub(super) fn kill_unless_resting(&self) {
        let _locked = self.state.lock();
        if self.orders() & (PAUSE | RESTS) == PAUSE {
            self.order(KILL);
        }
    }

    /// Never begins anew.
    pub(super) fn retire(&self) {
        let _locked = self.state.lock();
        self.order(FINAL);
    }

    /// Called under the lock.
    fn order(&self, orders: u16) {
        self.orders.store(self.orders() | orders, Ordering::Relaxed);
    }

    /// Orders a failure, if there is an incarnation to fail. Called under the lock.
    fn order_failure(&self) {
        if self.orders() & (OVER | CLOSES) == 0 {
            self.order(FAIL);
        }
    }

    /// Called under the lock.
    fn take_back(&self, orders: u16) {
        self.orders.store(self.orders() & !orders, Ordering::Relaxed);
    }

    #[inline]
    fn orders(&self) -> u16 {
        self.orders.load(Ordering::Relaxed)
    }

    /// Ends this incarnation as a failure; the first reason counts.
    pub(super) fn fail(&self, reason: Arc<str>) {
        if let State::Living(living) = &mut *self.state.lock() {
            living.get_or_insert_default().reason.get_or_insert(reason);
            self.order_failure();
        }
    }

    /// Has the actor rest when this incarnation has ended. An actor that has ended drops `pause`.
    pub(super) fn pause(&self, pause: Pause) {
        if let State::Living(living) = &mut *self.state.lock() {
            living.get_or_insert_default().pause = Some(pause);
            self.order(PAUSE);
        }
    }

    #[inline]
    pub(super) fn is_forced(&self) -> bool {
        self.orders() & (KILL | FAIL) != 0
    }

    pub(super) fn is_killed(&self) -> bool {
        self.orders() & KILL != 0
    }

    pub(super) fn is_final(&self) -> bool {
        self.orders() & FINAL != 0
    }

    /// Returns true if no other message is to begin: this incarnation ends, or is to rest.
    #[inline]
    pub(super) fn is_halted(&self) -> bool {
        self.orders() & (KILL | FAIL | PAUSE) != 0
    }

    /// Returns true if an actor that rests has to look what else it is to do.
    pub(super) fn is_ordered(&self) -> bool {
        self.orders() & (FINAL | PAUSE | KILL) != 0
    }

    /// Returns what ends the incarnation now.
    #[cold]
    pub(super) fn forced(&self) -> Option<Forced> {
        if !self.is_forced() {
            return None;
        }
        let mut state = self.state.lock();
        if self.is_killed() {
            return Some(Forced::Kill);
        }
        let reason = match &mut *state {
            State::Living(Some(living)) => living.reason.take(),
            _ => None,
        };
        Some(Forced::Fail(reason.unwrap_or_else(|| "no reason".into())))
    }

    /// Returns true if it is to rest when this incarnation has ended.
    pub(super) fn is_to_rest(&self) -> bool {
        self.orders() & PAUSE != 0
    }

    pub(super) fn take_pause(&self) -> Option<Pause> {
        let mut state = self.state.lock();
        self.take_back(PAUSE);
        match &mut *state {
            State::Living(Some(living)) => living.pause.take(),
            _ => None,
        }
    }

    /// Forgets what ended the last incarnation: a kill that comes now is one of an actor that
    /// rests. Returns where it is to say that it does, if it is to rest with others.
    pub(super) fn rest(&self) -> Option<Pause> {
        let mut state = self.state.lock();
        self.take_back(KILL | FAIL | PAUSE);
        self.order(RESTS);
        let State::Living(Some(living)) = &mut *state else { return None };
        living.reason = None;
        living.pause.take()
    }

    /// Has an actor that rested begin anew; a failure of others that it was to share is forgotten.
    /// Returns false when it was killed first.
    pub(super) fn begin_anew(&self) -> bool {
        let mut state = self.state.lock();
        if self.is_killed() {
            return false;
        }
        self.take_back(FAIL | OVER | RESTS | CLOSES);
        if let State::Living(Some(living)) = &mut *state {
            living.reason = None;
        }
        true
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(*self.state.lock(), State::Ended(_))
    }

    /// Tells the links how the actor ended; the tasks that wait are told by [`tell`](Self::tell).
    pub(super) fn close(&self, exit: &ActorExit) {
        let notices = match &mut *self.state.lock() {
            State::Living(Some(living)) => std::mem::take(&mut living.notices),
            _ => Vec::new(),
        };
        if !notices.is_empty() {
            let reason = reason_of(exit);
            notices.into_iter().for_each(|notice| notice.close(reason.clone()));
        }
    }

    /// Tells all that are linked to `me`, the actor, and then all that wait for the end (EN-1): a
    /// shutdown does, and ends the ties when no actor has anything to tell them any more.
    pub(super) fn tell(&self, exit: ActorExit, me: &dyn Resident) {
        let reason = reason_of(&exit);
        self.end_links(me, &exit);
        let ended = State::Ended(Box::new(exit.clone()));
        let old = std::mem::replace(&mut *self.state.lock(), ended);
        if let State::Living(Some(living)) = old {
            // Notices and links that came since the others were told.
            let Living { waiting, notices, links, .. } = *living;
            notices.into_iter().for_each(|notice| notice.close(reason.clone()));
            waiting.into_values().for_each(Waker::wake);
            tell_links(links, me, &exit);
        }
    }

    /// Keeps a notice until the end.
    pub(super) fn on_close(&self, notice: CloseNotice) {
        let mut state = self.state.lock();
        let unkept: Vec<_> = match &mut *state {
            State::Living(living) => {
                let notices = &mut living.get_or_insert_default().notices;
                // Those of links that ended: a peer that relinks gives a new one each time.
                let stale = notices.extract_if(.., |notice| notice.is_stale()).collect();
                notices.push(notice);
                stale
            }
            State::Ended(exit) => {
                let reason = reason_of(exit);
                drop(state);
                return notice.close(reason);
            }
        };
        drop(state);
        drop(unkept);
    }

    /// Waits for the end. Give the same `place` to each poll of the same wait, and call
    /// [`leave`](Self::leave) with what is left in it.
    pub(super) fn poll(&self, place: &mut Option<u64>, cx: &mut Context<'_>) -> Poll<ActorExit> {
        let mut state = self.state.lock();
        let living = match &mut *state {
            State::Living(living) => living.get_or_insert_default(),
            State::Ended(exit) => {
                *place = None;
                return Poll::Ready(ActorExit::clone(exit));
            }
        };
        let number = *place.get_or_insert_with(|| {
            living.next += 1;
            living.next
        });
        let old = living.waiting.insert(number, cx.waker().clone());
        drop(state);
        drop(old);
        Poll::Pending
    }

    /// Gives up a wait.
    pub(super) fn leave(&self, place: u64) {
        let mut state = self.state.lock();
        let old = match &mut *state {
            State::Living(Some(living)) => living.waiting.remove(&place),
            _ => None,
        };
        drop(state);
        drop(old);
    }
}
