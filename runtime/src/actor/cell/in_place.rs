//! Turns that an actor takes on its asker's thread, without waking or switching to its own task.

use std::any::Any;
use std::cell::Cell;
use std::task::Waker;

use tokio::runtime::{Handle, Id};
use tokio::task;
use tokio::time::Instant;

use super::CellBase;
use super::turn::{IdleTurn, TurnLock};
use crate::actor::send::asker_gone::apart;
use crate::mailbox::ErasedMailbox;
use crate::slot::{AskInPlace, first_is_fresh};
use crate::waits::AskChain;
use crate::{limits, spans};

thread_local! {
    /// The number of turns that are nested on this thread.
    static DEPTH: Cell<u8> = const { Cell::new(0) };
    /// The number of further asks on this thread that must wake their actors' tasks instead of
    /// taking turns.
    static RESTS: Cell<u8> = const { Cell::new(0) };
    /// The last draw of [`is_measured`].
    static DRAW: Cell<u8> = const { Cell::new(0) };
    /// The task that last looked up its runtime, and that runtime.
    static TASK: Cell<Option<(task::Id, Id)>> = const { Cell::new(None) };
}

/// Returns true if an actor of this runtime may take a turn on this thread.
#[inline]
pub(super) fn is_allowed(runtime: Id) -> bool {
    if DEPTH.get() >= limits::IN_PLACE_DEPTH_MAX {
        return false;
    }
    match RESTS.get() {
        0 => is_on(runtime),
        rests => {
            RESTS.set(rests - 1);
            false
        }
    }
}

/// Returns true if the caller is on this runtime. Cached, because a task never changes its runtime.
#[inline]
fn is_on(runtime: Id) -> bool {
    let task = task::try_id();
    match TASK.get() {
        Some((last, of_last)) if task == Some(last) => of_last == runtime,
        _ => look(task, runtime),
    }
}

#[cold]
fn look(task: Option<task::Id>, runtime: Id) -> bool {
    let Ok(here) = Handle::try_current() else { return false };
    TASK.set(task.map(|task| (task, here.id())));
    here.id() == runtime
}

/// Runs the turn of an actor on this thread. If another thread polls the actor or it has ended,
/// wakes its `task` instead. The actor was idle until it got the ask that the caller has sent.
pub(super) fn run(turn: &TurnLock, task: Waker) {
    if !visit(is_measured(), || first_is_fresh(|| turn.run(&task))) {
        task.wake();
    }
}

/// Runs the turn of an actor as [`run`] does, on the thread of a link, and measures every turn.
pub(super) fn run_for_link(turn: &TurnLock, task: Waker) {
    if !visit(true, || turn.run(&task)) {
        task.wake();
    }
}

/// Runs the handler of an ask on this thread, if the actor waits for messages.
pub(super) fn run_ask(me: &CellBase, mailbox: &dyn ErasedMailbox, ask: &mut AskInPlace<'_>) {
    visit(is_measured(), || {
        if let Some(visit) = me.turn().visit(mailbox) {
            visit.act(|life| life.run_ask(ask));
        }
    });
}

/// Takes the turn of an actor. Returns `None` unless the actor waits for messages and is not about
/// to end.
#[inline]
pub(crate) fn turn_of<'a>(
    me: &'a CellBase,
    mailbox: &'a dyn ErasedMailbox,
) -> Option<IdleTurn<'a>> {
    let turn = me.turn().visit(mailbox)?;
    (!me.ends().is_halted()).then_some(turn)
}

/// Begins to handle `letter`, a `LocalMessage` of the actor with an ask, on this thread.
pub(crate) fn handle(turn: IdleTurn<'_>, letter: &mut dyn Any) {
    visit(is_measured(), || turn.act(|life| life.handle(letter)));
}

/// Calls `act`, in which an actor takes a turn, outside the current handler and span. If the turn
/// is measured and took too long, the next asks on this thread take no turns.
fn visit<T>(is_measured: bool, act: impl FnOnce() -> T) -> T {
    let _within = NestingGuard::enter();
    let began = is_measured.then(Instant::now);
    let done = spans::outside(|| apart(|| AskChain::apart(act)));
    if began.is_some_and(|began| began.elapsed() > limits::IN_PLACE_TURN_MAX) {
        RESTS.set(limits::IN_PLACE_RESTS);
    }
    done
}

/// Returns true for one turn of eight on this thread, because reading the clock costs as much as a
/// short handler. Which ones follow no rhythm that a program may have: handlers that are slow at
/// every second turn, or every eighth, are measured as often.
fn is_measured() -> bool {
    // (A linear congruential generator: its numbers pass through all 256 values.)
    let draw = DRAW.get().wrapping_mul(5).wrapping_add(1);
    DRAW.set(draw);
    draw < 32
}

struct NestingGuard;

impl NestingGuard {
    fn enter() -> Self {
        DEPTH.set(DEPTH.get() + 1);
        NestingGuard
    }
}

impl Drop for NestingGuard {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}
