//! Messages to the peer about shared memory, one message after the other.

use std::collections::VecDeque;

use super::{Reach, Since, State};
use crate::bootstrap::{Question, Sharing};
use crate::id::ShareId;
use crate::limits::SHARING_UNANSWERED_MAX;

/// Questions of one kind that have no answer.
#[derive(Default)]
pub(super) struct Unanswered {
    /// The questions that are still to be sent.
    pub(super) unsent: VecDeque<ShareId>,
    /// How many were sent: [`SHARING_UNANSWERED_MAX`] at most.
    pub(super) count: usize,
    /// Of the last answer, or of the first question after a pause. (A peer that answers others
    /// meanwhile is on its way to this one.)
    pub(super) since: Since,
}

impl Unanswered {
    fn may_ask(&self) -> bool {
        self.count < SHARING_UNANSWERED_MAX && !self.unsent.is_empty()
    }

    /// Takes the next question that may be sent, and counts it.
    fn take(&mut self, now: Since) -> Option<ShareId> {
        let share = if self.may_ask() { self.unsent.pop_front() } else { None }?;
        if self.count == 0 {
            self.since = now;
        }
        self.count += 1;
        Some(share)
    }
}

impl Reach {
    /// Waits until there is something to send, and takes the next message.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next_outgoing(&self) -> Sharing {
        loop {
            if let Some(message) = self.state.lock().take_outgoing() {
                return message;
            }
            self.outgoing.notified().await;
        }
    }

    /// Waits until there is something to send, and takes all of it.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    #[cfg(test)]
    pub(crate) async fn outgoing(&self) -> Vec<Sharing> {
        let mut messages = vec![self.next_outgoing().await];
        let mut state = self.state.lock();
        messages.extend(std::iter::from_fn(|| state.take_outgoing()));
        messages
    }
}

impl State {
    /// Puts a question to the peer.
    pub(super) fn ask(&mut self, question: Question, share: ShareId) {
        self.unanswered[question as usize].unsent.push_back(share);
    }

    /// Returns true if something may be sent.
    pub(super) fn speaks(&self) -> bool {
        !self.outbox.is_empty() || self.unanswered.iter().any(Unanswered::may_ask)
    }

    /// Takes the next message that may be sent: no more questions than the peer has room to answer.
    /// Answers for which the peer waits are never kept back.
    fn take_outgoing(&mut self) -> Option<Sharing> {
        let (said, now) = (self.outbox.pop_front(), self.patience.now());
        said.or_else(|| {
            let mut questions = [Question::Ask, Question::Revoke].into_iter();
            questions.find_map(|it| Some(it.about(self.unanswered[it as usize].take(now)?)))
        })
    }

    /// Records that the peer answered an ASK or a REVOKE.
    pub(super) fn note_answer(&mut self, question: Question) {
        let unanswered = &mut self.unanswered[question as usize];
        unanswered.count = unanswered.count.saturating_sub(1);
        unanswered.since = self.patience.now();
    }
}
