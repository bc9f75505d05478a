//! Handling of the peer's messages about shared memory.

use std::sync::Arc;

use super::{Askers, Known, Reach, State, Terms};
use crate::bootstrap::{Question, Sharing};
use crate::id::ShareId;
use crate::limits;
use crate::mutants::planted;

/// The peer said something that does not belong here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unexpected;

impl Reach {
    /// Handles what the peer said.
    ///
    /// # Errors
    /// [`Unexpected`]: the peer broke the protocol.
    pub(crate) fn handle(self: &Arc<Self>, message: Sharing) -> Result<(), Unexpected> {
        let mut state = self.state.lock();
        let Some(means) = state.means.clone() else { return Err(Unexpected) };
        let (mut unused, mut answered) = (None, None);
        match message {
            Sharing::Fence(key) => state.fence = Some(key),
            Sharing::Ask(share) => state.heed_ask(self, &means, share),
            Sharing::Granted { share, key, bytes, access, is_elsewhere } => {
                state.note_answer(Question::Ask);
                let terms = Terms { key, bytes, access, is_elsewhere };
                let held = Known::Held { terms, running: 0, is_ending: false, again: None };
                answered = state.take_asked(share).map(|tasks| (tasks, Ok(())));
                if answered.is_some() {
                    state.keys.entry(share).or_insert(held);
                }
            }
            Sharing::Denied { share, why } => {
                state.note_answer(Question::Ask);
                answered = state.take_asked(share).map(|tasks| (tasks, Err(why)));
            }
            Sharing::Revoke(share) => state.heed_revoke(share),
            Sharing::Revoked(share) => unused = state.heed_revoked(self, &means, share),
        }
        let checked = state.check_answers();
        let speaks = state.speaks();
        drop(state);
        drop(unused);
        checked?;
        self.recall_for_peer(&means);
        if let Some((tasks, answer)) = answered {
            tasks.into_iter().for_each(|task| drop(task.send(answer.clone())));
        }
        if speaks {
            self.outgoing.notify_one();
        }
        self.changed.notify_waiters();
        Ok(())
    }
}

impl State {
    /// Checks how many answers wait: a peer that asks no more than it may is owed no more of them.
    fn check_answers(&self) -> Result<(), Unexpected> {
        let answers = self.outbox.iter().filter(|it| it.is_answer()).count();
        if answers > 2 * limits::SHARING_UNANSWERED_MAX { Err(Unexpected) } else { Ok(()) }
    }

    /// Takes the tasks that asked for a share: it is not known any more, unless it was asked for
    /// again.
    fn take_asked(&mut self, share: ShareId) -> Option<Askers> {
        match self.keys.remove(&share)? {
            Known::Asked(tasks) => Some(tasks),
            mut held @ Known::Held { .. } => {
                let again = held.take_again();
                self.keys.insert(share, held);
                again
            }
        }
    }

    /// Begins no more operations on a share of the peer, and says when none is under way (RE-3).
    fn heed_revoke(&mut self, share: ShareId) {
        match self.keys.get_mut(&share) {
            Some(Known::Held { running, is_ending, .. })
                if *running > 0 && !planted!(EarlyRevoked) =>
            {
                *is_ending = true;
            }
            Some(Known::Asked(_)) => {}
            _ => self.let_go(share),
        }
    }

    /// Says that no operation on a share of the peer is under way. Tasks that have asked for it
    /// again wait for their answer.
    pub(super) fn let_go(&mut self, share: ShareId) {
        let again = self.keys.remove(&share).and_then(|mut known| known.take_again());
        if let Some(tasks) = again {
            self.keys.insert(share, Known::Asked(tasks));
        }
        self.outbox.push_back(Sharing::Revoked(share));
    }
}
