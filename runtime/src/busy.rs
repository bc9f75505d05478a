//! Records which handler each thread of this process runs. The log names handlers that block a
//! runtime.
//!
//! A thread notes in its own memory when it begins to run a handler and when the handler ends or
//! waits. That takes a few plain stores per message, without a lock, an allocation or a look at a
//! clock. Other threads may read a slightly outdated note.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crossbeam_utils::atomic::AtomicCell;
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use ringpost_transport::{log, shield};
use tokio::runtime::Id;

use crate::limits;
use crate::spans::Scope;
use crate::waits::{AskChain, HandledAsk};

pub(crate) use crate::duty::HandlerInfo;

/// An actor whose handler or hook runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunningActor {
    /// The actor: [`LocalActor::token`](crate::resident::LocalActor::token).
    pub(crate) token: usize,
    /// Its number on its node.
    pub(crate) id: u64,
    /// Deadline of the asker of the message that the handler handles.
    pub(crate) deadline: Option<tokio::time::Instant>,
}

/// The ask that a handler handles, with its deadline; empty for a tell and for a hook. Owned by the
/// code that runs the handler.
#[derive(Default)]
pub(crate) struct AskContext {
    /// Deadline of its asker.
    pub(crate) deadline: Option<tokio::time::Instant>,
    /// The ask, if a handler waits for its answer; asks of this handler belong to the same chain.
    pub(crate) asked: Option<Arc<dyn HandledAsk>>,
}

/// The part of [`AskContext`] that a thread notes.
#[derive(Clone, Copy)]
struct ThreadAskContext {
    deadline: Option<tokio::time::Instant>,
    /// The thread holds the [`AskChain`] of the handler.
    has_hand: bool,
}

/// Returns true if the caller is a handler or hook of the actor with this token.
#[inline]
pub(crate) fn is_running(token: usize) -> bool {
    running().is_some_and(|running| running.token == token)
}

/// Returns the actor whose handler or hook is the caller.
#[inline]
pub(crate) fn running() -> Option<RunningActor> {
    let ThreadAskContext { deadline, .. } = IN_HAND.get()?;
    let (token, id) = ACTOR.get();
    Some(RunningActor { token, id, deadline })
}

/// Notes that the calling handler or hook begins to wait for an actor, and that the thread has its
/// [`AskChain`].
pub(crate) fn note_wait() {
    WAITS.set(true);
    IN_HAND.set(IN_HAND.get().map(|facts| ThreadAskContext { has_hand: true, ..facts }));
}

/// Returns true if [`note_wait`] was called on this thread since the last call of this.
#[inline]
pub(crate) fn take_wait() -> bool {
    WAITS.replace(false)
}

pin_project! {
    /// A future that notes at every poll that the thread is busy with it, and runs in its scope.
    pub(crate) struct HandlerFuture<F> {
        duty: &'static HandlerInfo,
        deadline: Option<tokio::time::Instant>,
        asks: AskChain,
        scope: Option<Box<Scope>>,
        #[pin]
        future: F,
    }
}

/// Wraps `future`, a handler of a message or a hook, to run within [`enter_actor`], and in its own
/// scope if it has one.
pub(crate) fn on_duty<F: Future>(
    duty: &'static HandlerInfo,
    in_hand: AskContext,
    scope: Option<Box<Scope>>,
    future: F,
) -> HandlerFuture<F> {
    let AskContext { deadline, asked } = in_hand;
    HandlerFuture { duty, deadline, asks: AskChain::of(asked), scope, future }
}

/// Notes that the task of the actor with this token and number is being polled on this runtime,
/// until the result is dropped.
pub(crate) fn enter_actor((token, id): (usize, u64), runtime: Id) -> PollGuard {
    let place = PLACE.get().unwrap_or_else(take_place);
    let is_within = ACTOR.get() != NO_ACTOR;
    let polled = PollGuard(if is_within { Some(place.leave()) } else { None });
    ACTOR.with(|cell| cell.set((token, id)));
    place.enter(runtime, token, id);
    polled
}

/// Guard of a poll of an actor's task. It restores the notes of the task that this poll is nested
/// in, if any.
pub(crate) struct PollGuard(Option<OuterNotes>);

impl Drop for PollGuard {
    #[inline]
    fn drop(&mut self) {
        match self.0.take() {
            None => ACTOR.with(|cell| cell.set(NO_ACTOR)),
            Some(outer) => outer.resume(),
        }
    }
}

/// The outcome of the last poll of an actor's task.
#[derive(Clone, Copy, Default)]
pub(crate) enum PollOutcome {
    /// No handler or hook waits, and none that may have waited has ended.
    #[default]
    Idle,
    /// A handler or hook that may have waited has ended.
    Ended,
    /// A handler or hook waits; true if another one ended in the same poll.
    Waits(&'static HandlerInfo, bool),
    /// A handler or hook waits on purpose: the log never reports it, however long it waits.
    Rests,
}

/// Waits for `future` in a handler that waits on purpose: the log does not report it.
pub(crate) async fn at_rest<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let rests = poll_fn(|cx| {
        let polled = future.as_mut().poll(cx);
        if polled.is_pending() {
            TURN.with(|cell| cell.set(PollOutcome::Rests));
        }
        polled
    });
    rests.await
}

/// Returns the outcome of the last poll of an actor's task on this thread.
#[inline]
pub(crate) fn take_turn() -> PollOutcome {
    TURN.take()
}

/// The saved notes about an actor while another one is polled within its poll; restored later. The
/// first one asked the other, or runs a runtime of its own on its thread.
struct OuterNotes {
    place: &'static ThreadNotes,
    actor: (usize, u64),
    in_hand: Option<ThreadAskContext>,
    asks: AskChain,
    runtime: Option<Id>,
    duty: Option<&'static HandlerInfo>,
    since: u64,
    turn: PollOutcome,
    waits: bool,
}

impl OuterNotes {
    /// Restores the notes.
    #[cold]
    fn resume(mut self) {
        let (place, (token, id)) = (self.place, self.actor);
        ACTOR.set(self.actor);
        place.runtime.store(self.runtime);
        place.token.store(token, Ordering::Relaxed);
        place.id.store(id, Ordering::Relaxed);
        place.since.store(self.since, Ordering::Relaxed);
        place.duty.store(self.duty);
        IN_HAND.set(self.in_hand);
        TURN.set(self.turn);
        WAITS.set(self.waits);
        self.asks.swap();
    }
}

/// Notes that the thread is busy with `duty`, within [`enter_actor`], until the result is dropped.
#[inline]
pub(crate) fn note<'a>(
    duty: &'static HandlerInfo,
    deadline: Option<tokio::time::Instant>,
    asks: &'a mut AskChain,
) -> BusyGuard<'a> {
    let place = PLACE.get().unwrap_or_else(take_place);
    place.begin(duty);
    let has_hand = !asks.is_empty();
    if has_hand {
        asks.swap();
    }
    IN_HAND.with(|cell| cell.set(Some(ThreadAskContext { deadline, has_hand })));
    BusyGuard { place, asks }
}

impl<F: Future> Future for HandlerFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let is_next = matches!(TURN.take(), PollOutcome::Ended);
        let polled = {
            let _noted = note(this.duty, *this.deadline, this.asks);
            let _within = this.scope.as_deref().map(Scope::enter);
            this.future.poll(cx)
        };
        note_polled(this.duty, is_next, polled.is_ready());
        polled
    }
}

/// Notes the outcome of a poll of a handler or hook.
fn note_polled(duty: &'static HandlerInfo, is_next: bool, is_ready: bool) {
    let turn = match (is_ready, TURN.get()) {
        (true, _) | (false, PollOutcome::Rests) => PollOutcome::Ended,
        (false, _) => PollOutcome::Waits(duty, is_next),
    };
    TURN.with(|cell| cell.set(turn));
}

/// Guard of a note that a thread is busy. Dropping it removes the note.
pub(crate) struct BusyGuard<'a> {
    place: &'static ThreadNotes,
    asks: &'a mut AskChain,
}

impl Drop for BusyGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // Most handlers have no chain; then this is the only check.
        if let Some(ThreadAskContext { has_hand: true, .. }) = IN_HAND.take() {
            self.asks.swap();
        }
        self.place.duty.store(None);
    }
}

/// The notes of one thread, which only this thread writes.
struct ThreadNotes {
    duty: AtomicCell<Option<&'static HandlerInfo>>,
    /// The runtime on which the thread last polled an actor's task.
    runtime: AtomicCell<Option<Id>>,
    /// Start of the current poll, by the coarse clock.
    since: AtomicU64,
    /// The actor whose task was polled last: its token and its number.
    token: AtomicUsize,
    id: AtomicU64,
}

const _: () = assert!(AtomicCell::<Option<&'static HandlerInfo>>::is_lock_free());
const _: () = assert!(AtomicCell::<Option<Id>>::is_lock_free());

impl ThreadNotes {
    const fn new() -> Self {
        ThreadNotes {
            duty: AtomicCell::new(None),
            runtime: AtomicCell::new(None),
            since: AtomicU64::new(0),
            token: AtomicUsize::new(0),
            id: AtomicU64::new(0),
        }
    }

    fn enter(&self, runtime: Id, token: usize, id: u64) {
        self.runtime.store(Some(runtime));
        self.token.store(token, Ordering::Relaxed);
        self.id.store(id, Ordering::Relaxed);
    }

    /// Saves and clears the notes about the actor that is polled, because another one is polled
    /// within its poll.
    #[cold]
    fn leave(&'static self) -> OuterNotes {
        OuterNotes {
            place: self,
            actor: ACTOR.get(),
            in_hand: IN_HAND.take(),
            asks: AskChain::take(),
            runtime: self.runtime.load(),
            duty: self.duty.load(),
            since: self.since.load(Ordering::Relaxed),
            turn: TURN.take(),
            waits: WAITS.take(),
        }
    }

    #[inline]
    fn begin(&self, duty: &'static HandlerInfo) {
        self.since.store(CLOCK.load(Ordering::Relaxed), Ordering::Relaxed);
        self.duty.store(Some(duty));
    }
}

/// A handler or hook that a thread runs now.
pub(crate) struct RunningHandler {
    pub(crate) duty: &'static HandlerInfo,
    /// The actor, as in [`RunningActor`].
    pub(crate) token: usize,
    pub(crate) id: u64,
    /// Start of the current poll of it, by the coarse clock.
    pub(crate) since: u64,
}

/// Returns the handlers that the threads of a runtime run now, and advances the coarse clock, so
/// that later polls have a later start.
pub(crate) fn held(runtime: Id) -> Vec<RunningHandler> {
    let held = places(runtime, |place, duty| RunningHandler {
        duty,
        token: place.token.load(Ordering::Relaxed),
        id: place.id.load(Ordering::Relaxed),
        since: place.since.load(Ordering::Relaxed),
    });
    tick();
    held
}

/// Returns the start of this thread's last poll of a handler or hook, by the coarse clock.
pub(crate) fn began() -> u64 {
    PLACE.get().map_or(0, |place| place.since.load(Ordering::Relaxed))
}

/// Returns the age of a time of the coarse clock. It may be too high by the delay of that clock.
pub(crate) fn age(since: u64) -> Duration {
    START.elapsed().saturating_sub(Duration::from_millis(since))
}

fn places<T>(runtime: Id, look: impl Fn(&ThreadNotes, &'static HandlerInfo) -> T) -> Vec<T> {
    let of_runtime = |place: &&'static ThreadNotes| {
        let duty = place.duty.load()?;
        (place.runtime.load() == Some(runtime)).then(|| look(place, duty))
    };
    PLACES.lock().all.iter().filter_map(of_runtime).collect()
}

fn tick() {
    CLOCK.fetch_max(START.elapsed().as_millis() as u64, Ordering::Relaxed);
}

/// The notes of all threads that ran an actor. A new thread reuses the notes of an ended thread: so
/// there are at most as many as threads lived at one time, and none are ever freed.
static PLACES: Mutex<NotesPool> = Mutex::new(NotesPool { all: Vec::new(), free: Vec::new() });

struct NotesPool {
    all: Vec<&'static ThreadNotes>,
    free: Vec<&'static ThreadNotes>,
}

/// The notes of threads that have given their own back; no task reads them.
static NOWHERE: ThreadNotes = ThreadNotes::new();

/// The notes of a thread. When the thread ends, this is dropped and a new thread gets the notes.
struct NotesGuard(&'static ThreadNotes);

impl Drop for NotesGuard {
    fn drop(&mut self) {
        PLACE.set(Some(&NOWHERE));
        self.0.runtime.store(None);
        PLACES.lock().free.push(self.0);
    }
}

/// The value of `ACTOR` while no actor is polled.
const NO_ACTOR: (usize, u64) = (0, 0);

thread_local! {
    /// The actor whose task is polled: its token and its number.
    static ACTOR: Cell<(usize, u64)> = const { Cell::new(NO_ACTOR) };
    /// Notes about the message that is handled; `None` while no handler or hook runs.
    static IN_HAND: Cell<Option<ThreadAskContext>> = const { Cell::new(None) };
    /// A handler or hook has begun to wait for an actor, and [`take_wait`] has not reported it yet.
    static WAITS: Cell<bool> = const { Cell::new(false) };
    static TURN: Cell<PollOutcome> = const { Cell::new(PollOutcome::Idle) };
    /// The thread's notes; `None` before its first note.
    static PLACE: Cell<Option<&'static ThreadNotes>> = const { Cell::new(None) };
    static OWNED: NotesGuard = {
        let mut places = PLACES.lock();
        let place = places.free.pop().unwrap_or_else(|| {
            let place: &'static ThreadNotes = Box::leak(Box::new(ThreadNotes::new()));
            places.all.push(place);
            place
        });
        NotesGuard(place)
    };
}

/// Gives the thread its notes, and returns them.
#[cold]
fn take_place() -> &'static ThreadNotes {
    let place = OWNED.try_with(|owned| owned.0).unwrap_or(&NOWHERE);
    PLACE.set(Some(place));
    place
}

/// The coarse clock: milliseconds since its first use, advanced by each watchdog and by each look
/// at the running handlers.
static CLOCK: AtomicU64 = AtomicU64::new(0);
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Returns the handlers that a runtime's threads run now, each with its approximate time so far,
/// longest first.
fn duties(runtime: Id) -> Vec<(Duration, &'static HandlerInfo)> {
    let now = CLOCK.load(Ordering::Relaxed);
    let mut duties = places(runtime, |place, duty| {
        let since = place.since.load(Ordering::Relaxed);
        (Duration::from_millis(now.saturating_sub(since)), duty)
    });
    duties.sort_by_key(|(busy, _)| std::cmp::Reverse(*busy));
    duties
}

/// Logs when a node's runtime is blocked and when it runs again, once each time.
pub(crate) struct RuntimeWatchdog {
    node: String,
    runtime: Id,
    /// Duration of the blockage so far, after it was logged.
    blocked: Mutex<Option<Duration>>,
}

impl RuntimeWatchdog {
    pub(crate) fn new(node: String, runtime: Id) -> Self {
        RuntimeWatchdog { node, runtime, blocked: Mutex::new(None) }
    }

    /// Records the delay of a task that the runtime should have run at once. Call this several
    /// times a second.
    pub(crate) fn liveness(&self, late: Duration) {
        tick();
        let gauge = "ringpost_runtime_lateness_seconds";
        shield::run(|| metrics::gauge!(gauge).set(late.as_secs_f64()));
        let is_blocked = late >= limits::BLOCKED_AFTER;
        let before = {
            let mut blocked = self.blocked.lock();
            std::mem::replace(&mut *blocked, is_blocked.then_some(late))
        };
        let (node, seconds) = (&self.node, before.unwrap_or(late).as_secs_f32());
        if before.is_none() && is_blocked {
            let handlers = self.handlers();
            log::warn!(node, seconds, handlers, "blocked: no thread runs other tasks");
        } else if before.is_some() && !is_blocked {
            log::info!(node, seconds, "no longer blocked: tasks run again");
        }
    }

    /// Returns how long the runtime has not run a task, if that is too long.
    pub(crate) fn blocked(&self) -> Option<Duration> {
        *self.blocked.lock()
    }

    fn handlers(&self) -> String {
        let duties = duties(self.runtime);
        let text = |(busy, duty): &(Duration, _)| format!("{duty} for {:.1} s", busy.as_secs_f32());
        match duties.iter().map(text).collect::<Vec<_>>() {
            none if none.is_empty() => "none: it is no handler that blocks".into(),
            some => some.join(", "),
        }
    }
}
