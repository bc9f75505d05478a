//! Outcomes that wait to be polled, and the task that waits for them (PV-8).

use std::collections::VecDeque;
use std::mem::take;
use std::task::{Context, Poll, Waker};

use crate::fabric::one_sided::Outcome;

#[derive(Default)]
pub(super) struct Outcomes {
    waiting: VecDeque<Outcome>,
    /// Operations and notices among them.
    done: usize,
    notices: usize,
    is_armed: bool,
    is_notified: bool,
    waker: Option<Waker>,
}

impl Outcomes {
    /// Returns how many operations wait to be polled.
    pub(super) fn done(&self) -> usize {
        self.done
    }

    /// Returns how many notices wait to be polled.
    pub(super) fn notices(&self) -> usize {
        self.notices
    }

    pub(super) fn push(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Done { .. } => self.done += 1,
            Outcome::Notice(_) => self.notices += 1,
            Outcome::Ended(_) => {}
        }
        self.waiting.push_back(outcome);
        if take(&mut self.is_armed) {
            self.is_notified = true;
            if let Some(waker) = self.waker.take() {
                waker.wake();
            }
        }
    }

    pub(super) fn take(&mut self, out: &mut Vec<Outcome>, max: usize) -> usize {
        let count = self.waiting.len().min(max);
        for outcome in self.waiting.drain(..count) {
            match outcome {
                Outcome::Done { .. } => self.done -= 1,
                Outcome::Notice(_) => self.notices -= 1,
                Outcome::Ended(_) => {}
            }
            out.push(outcome);
        }
        count
    }

    pub(super) fn arm(&mut self) {
        self.is_armed = true;
    }

    pub(super) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if take(&mut self.is_notified) {
            return Poll::Ready(());
        }
        self.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}
