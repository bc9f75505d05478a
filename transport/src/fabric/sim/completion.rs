//! A simulated completion queue.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use super::super::{Completion, Notify, Status, Work};
use super::physics::Physics;
use crate::memory::Slot;

/// Completions of one queue pair and who is to be told of the next (PV-8).
#[derive(Debug)]
pub(super) struct CompletionState {
    ready: VecDeque<Completion>,
    holds: usize,
    armed: Option<Notify>,
    notified: bool,
    waker: Option<Waker>,
}

impl CompletionState {
    /// An empty queue that holds this many completions.
    pub(super) fn new(holds: usize) -> Self {
        CompletionState { ready: VecDeque::new(), holds, armed: None, notified: false, waker: None }
    }

    /// Whether one more completion of success would overrun it (PV-9). Errors always find room.
    pub(super) fn is_full(&self) -> bool {
        self.ready.len() >= self.holds
    }

    /// Adds a completion; notifies if that was asked for before (PV-8).
    pub(super) fn push(
        &mut self,
        physics: &mut Physics,
        work: Work,
        slot: Slot,
        status: Status,
        solicited: bool,
    ) {
        self.ready.push_back(Completion { work, slot, status });
        let solicited = solicited || status != Status::Success;
        match self.armed {
            Some(Notify::Any) => self.notify(physics),
            Some(Notify::Solicited) if solicited => self.notify(physics),
            _ => {}
        }
    }

    /// Tells whoever armed the queue, once, and perhaps for nothing.
    pub(super) fn notify(&mut self, physics: &mut Physics) {
        if self.armed.take().is_some() {
            self.notified = true;
            physics.wake(self.waker.take());
        }
    }

    /// Takes some of what is there: at least one if there is any, but perhaps fewer than there
    /// are. Says how many of each queue.
    pub(super) fn poll(
        &mut self,
        physics: &mut Physics,
        out: &mut Vec<Completion>,
        max: usize,
    ) -> Polled {
        let mut count = self.ready.len().min(max);
        if count > 1 && physics.one_in(4) {
            count = physics.chance.usize(1..count);
        }
        let sends = self.ready.iter().take(count).filter(|c| c.work == Work::Send).count();
        out.extend(self.ready.drain(..count));
        Polled { all: count, sends }
    }

    /// Asks for one notification. `Any` is kept if `Solicited` is asked for after it.
    pub(super) fn arm(&mut self, on: Notify) {
        if self.armed != Some(Notify::Any) {
            self.armed = Some(on);
        }
    }

    /// Whether a notification has come; takes it.
    pub(super) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::take(&mut self.notified) {
            return Poll::Ready(());
        }
        match &mut self.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

/// How many completions a poll took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Polled {
    pub(super) all: usize,
    /// Of them, how many were sends.
    pub(super) sends: usize,
}
