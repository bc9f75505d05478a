//! Handling of the peer's messages about shared memory.

use std::mem::replace;
use std::sync::Arc;

use zeroize::Zeroizing;

use super::{Askers, Known, Leftovers, Means, Opened, Reach, Stage, State, Terms};
use crate::bootstrap::{Question, Sharing};
use crate::fabric::Side;
use crate::fabric::one_sided::Key;
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
        let (mut leftovers, mut unused) = (None, None);
        let mut answered = None;
        match message {
            Sharing::Want if means.is_dialer() => {
                if matches!(state.stage, Stage::Closed) {
                    self.begin(&mut state, &means);
                }
            }
            Sharing::Want => return Err(Unexpected),
            Sharing::Offer { number, queue_pair } if means.is_dialer() => {
                if number > state.number {
                    return Err(Unexpected);
                }
                // One of a queue pair that was given up meanwhile comes too late.
                let offered = if number == state.number { state.take_offered() } else { None };
                if let Some(opened) = offered {
                    self.connect(&mut state, &means, opened, queue_pair);
                }
            }
            Sharing::Offer { number, queue_pair } => {
                if number <= state.number {
                    return Err(Unexpected);
                }
                leftovers = Some(self.accept(&mut state, &means, number, queue_pair));
            }
            Sharing::Connected { number, fence } => state.heed_connected(number, fence),
            Sharing::Unable { number, reason } => {
                leftovers = state.heed_unable(number, reason);
            }
            Sharing::Ask(share) => state.heed_ask(self, &means, share),
            Sharing::Later => {
                state.unanswered[Question::Ask as usize].since = state.patience.now();
            }
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
        drop((leftovers, unused));
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

    /// Connects the queue pair that the peer offers, which takes the place of an earlier one.
    fn accept(
        self: &Arc<Self>,
        state: &mut State,
        means: &Arc<Means>,
        number: u32,
        queue_pair: Zeroizing<Vec<u8>>,
    ) -> Leftovers {
        let leftovers = state.leave(Stage::Closed);
        state.number = number;
        // The peer has gone on: it needs not hear of earlier ones.
        state.outbox.clear();
        self.open_and_connect(state, means, queue_pair);
        leftovers
    }

    /// Begins to open a queue pair, or asks the peer to.
    pub(super) fn begin(self: &Arc<Self>, state: &mut State, means: &Arc<Means>) {
        if !means.is_dialer() {
            state.outbox.push_back(Sharing::Want);
            state.stage = Stage::Wanted(state.patience.now());
            return;
        }
        let Some(number) = state.number.checked_add(1) else {
            return state.note_failure("this link has opened too many".into());
        };
        state.number = number;
        self.open_to_offer(state, means);
    }

    /// Takes the result of making a queue pair to be offered.
    pub(super) fn note_opened(&self, number: u32, opened: Result<Opened, String>) {
        let unwanted = {
            let mut state = self.state.lock();
            if state.number == number && matches!(state.stage, Stage::Opening { .. }) {
                state.stage = Stage::Closed;
                state.offer(opened);
                None
            } else {
                opened.ok()
            }
        };
        drop(unwanted);
        self.tell_change();
    }

    /// Answers the peer's offer by one of a queue pair that has been made. Returns false if it is
    /// not wanted any more.
    pub(super) fn offer_in_return(&self, number: u32, opened: &mut Opened) -> bool {
        let Some((opening, _)) = opened.get() else { return false };
        let queue_pair = opening.offer();
        let mut state = self.state.lock();
        if state.number != number || !matches!(state.stage, Stage::Connecting(..)) {
            return false;
        }
        state.outbox.push_back(Sharing::Offer { number, queue_pair });
        drop(state);
        self.outgoing.notify_one();
        true
    }
}

impl State {
    /// Offers a queue pair to the peer, or says that there is none.
    fn offer(&mut self, opened: Result<Opened, String>) {
        let number = self.number;
        match opened {
            Ok(mut opened) => {
                let queue_pair = opened.get().map(|(opening, _)| opening.offer());
                let queue_pair = queue_pair.unwrap_or_default();
                self.outbox.push_back(Sharing::Offer { number, queue_pair });
                self.stage = Stage::Offered(self.patience.now(), opened);
            }
            Err(reason) => {
                // The peer may have asked for it, and waits.
                self.say_unable(number, reason.clone());
                self.note_failure(reason);
            }
        }
    }

    /// Checks how many answers wait: a peer that asks no more than it may is owed no more of them.
    fn check_answers(&self) -> Result<(), Unexpected> {
        let answers = self.outbox.iter().filter(|it| it.is_answer()).count();
        if answers > 2 * limits::SHARING_UNANSWERED_MAX { Err(Unexpected) } else { Ok(()) }
    }

    fn is_connecting(&self) -> bool {
        matches!(self.stage, Stage::Connecting(..) | Stage::Connected(_))
    }

    fn heed_connected(&mut self, number: u32, fence: Option<Key>) {
        if number == self.number && self.is_connecting() {
            (self.peer_connected, self.fence) = (true, fence);
        }
    }

    /// Takes the queue pair that was offered to the peer.
    fn take_offered(&mut self) -> Option<Opened> {
        match replace(&mut self.stage, Stage::Closed) {
            Stage::Offered(_, opened) => Some(opened),
            other => {
                self.stage = other;
                None
            }
        }
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

    /// Ends the queue pair that the peer does not have, or not any more. A new number is about a
    /// queue pair that this side asked for and never heard of.
    fn heed_unable(&mut self, number: u32, reason: String) -> Option<Leftovers> {
        match self.stage {
            // It may be about the last one, whose end this side has told, too.
            Stage::Wanted(_) if number > self.number => self.number = number,
            Stage::Wanted(_) | Stage::Closed | Stage::Barred | Stage::Ended => return None,
            _ if number != self.number => return None,
            _ => {}
        }
        if !self.is_usable() {
            self.note_failure(format!("the peer says: {reason}"));
        }
        Some(self.leave(Stage::Closed))
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

impl Means {
    fn is_dialer(&self) -> bool {
        matches!(self.side, Side::Dialer { .. })
    }
}
