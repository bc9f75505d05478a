//! A simulated completion queue.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use super::super::{Completion, Notify, Status, Work};
use super::event::Event;
use super::physics::Physics;
use crate::memory::Slot;

/// How late a notification may be.
const NOTIFIED_LATE_MAX_NS: u64 = 3_000_000;

/// Completions of one queue pair and the task to be told of the next (PV-8).
#[derive(Debug, Default)]
pub(super) struct CompletionState {
    ready: VecDeque<Completion>,
    /// Completions that came while the owner was running: ready after a poll that finds nothing.
    late: VecDeque<Completion>,
    armed: Option<Notify>,
    notified: bool,
    waker: Option<Waker>,
}

impl CompletionState {
    /// Adds a completion; notifies if that was asked for before (PV-8).
    pub(super) fn push(
        &mut self,
        physics: &mut Physics,
        work: Work,
        slot: Slot,
        status: Status,
        solicited: bool,
    ) {
        let completion = Completion { work, slot, status };
        let looks = self.notified && !self.ready.is_empty();
        if !self.late.is_empty() || (looks && physics.one_in(2)) {
            self.late.push_back(completion);
            return;
        }
        self.ready.push_back(completion);
        let solicited = solicited || status != Status::Success;
        match self.armed {
            Some(Notify::Any) => self.notify(physics),
            Some(Notify::Solicited) if solicited => self.notify(physics),
            _ => {}
        }
    }

    /// Tells the owner that armed the queue, once, perhaps for nothing and perhaps late: an event
    /// takes its time through the system, and more completions come meanwhile.
    pub(super) fn notify(&mut self, physics: &mut Physics) {
        if self.armed.take().is_none() {
            return;
        }
        self.notified = true;
        match self.waker.take() {
            Some(waker) if physics.one_in(8) => {
                let late = physics.chance.u64(1_000..NOTIFIED_LATE_MAX_NS);
                physics.at(physics.now + late, Event::Wake(waker));
            }
            waker => physics.wake(waker),
        }
    }

    /// Wakes an owner that sleeps, for nothing. Returns false if it is awake, or has a reason to.
    pub(super) fn wake_idle(&mut self, physics: &mut Physics) -> bool {
        let sleeps = self.armed.is_some() && self.ready.is_empty() && !self.notified;
        let waker = self.waker.as_ref().filter(|_| sleeps).cloned();
        let woken = waker.is_some();
        physics.wake(waker);
        woken
    }

    /// The software goes on after a pause: it looks again, whatever was notified meanwhile.
    pub(super) fn resume(&mut self, physics: &mut Physics) {
        self.notified = true;
        physics.wake(self.waker.take());
    }

    /// Takes some of the ready completions: at least one if there is any, but perhaps not all.
    pub(super) fn poll(&mut self, physics: &mut Physics, out: &mut Vec<Completion>, max: usize) {
        let mut count = self.ready.len().min(max);
        if count > 1 && physics.one_in(4) {
            count = physics.chance.usize(1..count);
        }
        out.extend(self.ready.drain(..count));
        if count == 0 && !self.late.is_empty() {
            self.ready.append(&mut self.late);
            self.notify(physics);
        }
    }

    /// Asks for one notification. `Any` is kept if `Solicited` is asked for after it.
    pub(super) fn arm(&mut self, on: Notify) {
        if self.armed != Some(Notify::Any) {
            self.armed = Some(on);
        }
    }

    /// Takes a notification, if one has come and the node is not paused.
    pub(super) fn poll_ready(&mut self, paused: bool, cx: &mut Context<'_>) -> Poll<()> {
        if !paused && std::mem::take(&mut self.notified) {
            return Poll::Ready(());
        }
        match &mut self.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}
