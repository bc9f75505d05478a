//! What is said to the peer of shared memory, one message after the other.

use super::{Reach, State};
use crate::bootstrap::{Question, Sharing};
use crate::limits;

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
    /// Takes the next message that may be sent: of what the peer answers no more than it has room
    /// to answer. What it waits for itself is never kept.
    fn take_outgoing(&mut self) -> Option<Sharing> {
        let unanswered = &mut self.unanswered;
        let fits = |question| unanswered[question as usize].count < limits::SHARING_UNANSWERED_MAX;
        let at = self.outbox.iter().position(|it| it.question().is_none_or(fits))?;
        let message = self.outbox.remove(at);
        if let Some(question) = message.question() {
            let unanswered = &mut unanswered[question as usize];
            if unanswered.count == 0 {
                unanswered.since = self.patience.now();
            }
            unanswered.count += 1;
        }
        Some(message)
    }

    /// Records that the peer answered an ASK or a REVOKE.
    pub(super) fn note_answer(&mut self, question: Question) {
        let unanswered = &mut self.unanswered[question as usize];
        unanswered.count = unanswered.count.saturating_sub(1);
        unanswered.since = self.patience.now();
    }
}
