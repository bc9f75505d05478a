//! The incarnation of an actor, as its task polls it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use pin_project_lite::pin_project;
use ringpost_transport::shield;

use super::ExitReason;
use crate::actor::Handlers;
use crate::actor::cell::{ActorCell, CellBase, ErasedCell};
use crate::busy::{PollOutcome, began, enter_actor, take_turn};
use crate::ends::ForcedExit;
use crate::error::BoxError;

pin_project! {
    /// The future of an incarnation. It ends when that is ordered, and catches panics.
    pub(super) struct GuardedIncarnation<A: Handlers, F> {
        cell: Arc<ActorCell<A>>,
        attended: bool,
        is_waiting: bool,
        #[pin]
        inner: Option<F>,
    }
}

impl<A: Handlers, F> GuardedIncarnation<A, F> {
    pub(super) fn new(cell: Arc<ActorCell<A>>, incarnation: F) -> Self {
        GuardedIncarnation { cell, attended: false, is_waiting: false, inner: Some(incarnation) }
    }
}

/// An incarnation without its type; dropped when it has ended. (Implemented for a pointer to it,
/// like [`super::LifeRef`].)
trait ErasedIncarnation {
    fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), BoxError>>;

    fn end(&mut self);
}

impl<F: Future<Output = Result<(), BoxError>>> ErasedIncarnation for Pin<&mut Option<F>> {
    fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), BoxError>> {
        match self.as_mut().as_pin_mut() {
            Some(inner) => inner.poll(cx),
            None => Poll::Pending,
        }
    }

    fn end(&mut self) {
        self.set(None);
    }
}

impl<A: Handlers, F: Future<Output = Result<(), BoxError>>> Future for GuardedIncarnation<A, F> {
    type Output = ExitReason;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<ExitReason> {
        let mut this = self.project();
        let me = &**this.cell;
        if !std::mem::replace(this.attended, true) {
            me.mailbox().attend(cx.waker());
        }
        poll((me, me.base()), this.is_waiting, &mut this.inner, cx)
    }
}

/// Polls an incarnation of `me`.
fn poll(
    (me, base): (&dyn ErasedCell, &CellBase),
    is_waiting: &mut bool,
    inner: &mut dyn ErasedIncarnation,
    cx: &mut TaskContext<'_>,
) -> Poll<ExitReason> {
    let polled = if base.ends().is_forced() {
        note_turn(base, is_waiting);
        Ok(Poll::Pending)
    } else {
        let _within = enter_actor((base.token(), base.id()), base.node().runtime().id());
        // `ExitReason::of` runs code of the user, too: it gets the text of an error.
        let polled = shield::catch(|| inner.poll(cx).map(ExitReason::of));
        // Before the drop of `_within`, which restores the notes of an asker on this thread.
        note_turn(base, is_waiting);
        polled
    };
    // This is the usual case: nothing else about an end is checked.
    if let Ok(Poll::Pending) = &polled
        && !base.ends().is_forced()
    {
        return Poll::Pending;
    }
    let ending = ready!(judge(me, is_waiting, polled));
    // If the handler did not end, its state is dropped here, where a panic is caught.
    shield::run(|| inner.end());
    Poll::Ready(ending)
}

/// Returns how the incarnation ended, if it has; `polled` is the outcome of its poll.
#[cold]
fn judge(
    me: &dyn ErasedCell,
    is_waiting: &mut bool,
    polled: Result<Poll<ExitReason>, Arc<str>>,
) -> Poll<ExitReason> {
    let (base, ends) = (me.base(), me.ends());
    // An actor that killed itself and ended in the same poll was killed.
    let ending = match (ends.forced(), polled) {
        (Some(ForcedExit::Kill), _) => ExitReason::Killed,
        // Its own panic comes first: a failure of another actor is in the log of that one already.
        (Some(ForcedExit::Fail(_)) | None, Err(panic)) => ExitReason::Panicked(panic.into()),
        (Some(ForcedExit::Fail(reason)), _) => ExitReason::Failed(reason.into()),
        (None, Ok(Poll::Pending)) => return Poll::Pending,
        (None, Ok(Poll::Ready(ending))) => ending,
    };
    ends.leave_incarnation();
    // A handler that was ended waits no longer.
    if std::mem::take(is_waiting)
        && let Some(waits) = &mut *base.waits().lock()
    {
        waits.handler = None;
    }
    base.end_waits();
    Poll::Ready(ending)
}

/// Records the handler or hook that waits now, for the log and for snapshots, and gives it a new
/// number. If none waits, clears the record. `is_waiting` says whether one is recorded.
#[inline]
fn note_turn(me: &CellBase, is_waiting: &mut bool) {
    match (take_turn(), *is_waiting) {
        (PollOutcome::Idle | PollOutcome::Ended | PollOutcome::Rests, false)
        | (PollOutcome::Waits(_, false), true) => {}
        (PollOutcome::Idle | PollOutcome::Ended | PollOutcome::Rests, true) => {
            *is_waiting = false;
            if let Some(waits) = &mut *me.waits().lock() {
                waits.handler = None;
            }
        }
        (PollOutcome::Waits(duty, _), _) => {
            *is_waiting = true;
            let mut guard = me.waits().lock();
            let waits = guard.get_or_insert_default();
            waits.handler = Some(duty);
            waits.since = began();
            waits.number = waits.number.wrapping_add(1);
            let is_listed = waits.is_listed;
            drop(guard);
            if !is_listed {
                me.list();
            }
        }
    }
}
