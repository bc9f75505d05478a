//! Operations of this node's tasks on memory of the peer. No task is woken under the state's lock.

use std::pin::pin;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::pair::{FENCE_BYTES, Finished, Piece, Posted, Purpose};
use super::slots::Slots;
use super::{Known, Reach, Stage, State, Terms};
use crate::bootstrap::{Denial, Question};
use crate::cause::NotShared;
use crate::fabric::one_sided::{Key, Kind, Operation};
use crate::id::ShareId;
use crate::limits::ONE_SIDED_SLOT_BYTES;
use crate::mutants::planted;

/// A share of the peer that may be operated upon.
pub(crate) struct Ready {
    pub(super) reach: Arc<Reach>,
    pub(super) number: u32,
    pub(super) share: ShareId,
    pub(super) room: Arc<Semaphore>,
    fence: Option<Key>,
    pub(crate) terms: Terms,
}

/// Writes of a task that one queue pair has executed, or may have, and that are not made sure of:
/// no fence was read behind them, or, where there is none, their task gave them up before they had
/// an outcome (RE-8). Its link does not rest before this is dropped: another one could not tell
/// whether they are there.
pub(crate) struct Unfenced(Arc<Reach>, u32);

impl Unfenced {
    pub(crate) fn new(ready: &Ready) -> Self {
        if let Some(pair) = ready.reach.state.lock().pair(ready.number) {
            pair.unfenced += 1;
        }
        Unfenced(ready.reach.clone(), ready.number)
    }

    /// Returns true if it is of the same queue pair of the same link.
    pub(crate) fn is_of(&self, ready: &Ready) -> bool {
        let is_it = Arc::ptr_eq(&self.0, &ready.reach) && self.1 == ready.number;
        is_it || planted!(FenceOfAnyPair)
    }
}

impl Drop for Unfenced {
    fn drop(&mut self) {
        // (Writes by an earlier queue pair are not made sure of any more.)
        if let Some(pair) = self.0.state.lock().pair(self.1) {
            pair.unfenced -= 1;
        }
    }
}

/// An operation to be posted.
pub(crate) struct Wanted {
    pub(crate) act: Act,
    pub(crate) piece: Piece,
}

/// The act of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// Acts on `bytes` bytes of the share from `at` on, which lie in it (RE-2).
    On { kind: Kind, at: u64, bytes: usize },
    /// Reads the fence of this key (RE-8).
    Fence(Key),
}

/// The reason for which a share cannot be operated upon.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unready {
    /// The link has ended: another one may do.
    Ended,
    /// The peer's version shares no memory.
    Barred,
    /// The peer does not share it, or not any more.
    NotShared(NotShared),
    /// There is no queue pair.
    Unable(String),
}

/// The reason for which an operation was not posted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotPosted {
    /// The queue pair has ended, or the share, or the link rests: another look shows which.
    NotBegun,
    /// The device does not take it, and would not take another one: the reason, in words.
    Refused(String),
}

impl Reach {
    /// Opens the queue pair if there is none, and asks for the share if it is not known. With
    /// `again`, asks for it again if another executor did its atomics.
    ///
    /// # Errors
    /// [`Unready`].
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn access(
        self: &Arc<Self>,
        share: ShareId,
        mut again: bool,
    ) -> Result<Ready, Unready> {
        let failures = {
            let state = &mut *self.state.lock();
            if !again && let Some(ready) = self.ready_now(state, share) {
                return Ok(ready);
            }
            state.failures
        };
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let (look, speaks) = {
                let mut state = self.state.lock();
                let look = self.look_for(&mut state, (share, again), failures);
                (look, state.speaks())
            };
            if speaks {
                self.outgoing.notify_one();
            }
            match look? {
                Look::Ready(ready) => return Ok(ready),
                Look::Later => changed.await,
                Look::Asked(answer) => match answer.await {
                    Ok(Err(Denial::NotShared(why))) => return Err(Unready::NotShared(why)),
                    Ok(Err(Denial::Unable(reason))) => return Err(Unready::Unable(reason)),
                    Ok(Ok(())) => again = false,
                    // The queue pair has ended meanwhile.
                    Err(_) => {}
                },
            }
        }
    }

    /// Returns a share that may be operated upon without a word to the peer.
    fn ready_now(self: &Arc<Self>, state: &mut State, share: ShareId) -> Option<Ready> {
        let Stage::Connected(pair) = &state.stage else { return None };
        let Some(&Known::Held { terms, is_ending: false, .. }) = state.keys.get(&share) else {
            return None;
        };
        if state.resting || !state.peer_connected {
            return None;
        }
        state.used = true;
        let (reach, room) = (self.clone(), pair.room.clone());
        let (number, fence) = (state.number, state.fence);
        Some(Ready { reach, number, share, room, fence, terms })
    }

    fn look_for(
        self: &Arc<Self>,
        state: &mut State,
        (share, is_again): (ShareId, bool),
        failures: u64,
    ) -> Result<Look, Unready> {
        match state.stage {
            Stage::Ended => return Err(Unready::Ended),
            Stage::Barred => return Err(Unready::Barred),
            _ => {}
        }
        if state.failures != failures {
            return Err(Unready::Unable(state.trouble.clone()));
        }
        let Some(means) = state.means.clone().filter(|_| !state.resting) else {
            return Ok(Look::Later);
        };
        state.used = true;
        match &state.stage {
            Stage::Closed => {
                self.begin(state, &means);
                let failed = state.failures != failures;
                let trouble = || Err(Unready::Unable(state.trouble.clone()));
                return if failed { trouble() } else { Ok(Look::Later) };
            }
            Stage::Connected(_) if state.peer_connected => {}
            _ => return Ok(Look::Later),
        }
        let (asks, answer) = oneshot::channel();
        match state.keys.get_mut(&share) {
            Some(Known::Held { terms, is_ending: false, again, .. })
                if is_again && terms.is_elsewhere =>
            {
                let is_first = again.is_none();
                let tasks = again.get_or_insert_default();
                tasks.retain(|task| !task.is_closed());
                tasks.push(asks);
                if is_first {
                    state.ask(Question::Ask, share);
                }
            }
            // It may have been recalled: then it is asked for again when it was let go of (SM-3).
            Some(Known::Held { .. }) => {
                return Ok(self.ready_now(state, share).map_or(Look::Later, Look::Ready));
            }
            Some(Known::Asked(tasks)) => {
                tasks.retain(|task| !task.is_closed());
                tasks.push(asks);
            }
            None => {
                state.keys.insert(share, Known::Asked(vec![asks]));
                state.ask(Question::Ask, share);
            }
        }
        Ok(Look::Asked(answer))
    }
}

enum Look {
    Ready(Ready),
    Asked(oneshot::Receiver<Result<(), Denial>>),
    Later,
}

impl Ready {
    /// Returns how many operations may be posted now.
    #[cfg(test)]
    pub(super) fn room_left(&self) -> usize {
        self.room.available_permits()
    }

    /// Returns a slot, if one is free: for `bytes` bytes, or as many of them as there is room for.
    pub(crate) fn try_piece(&self, bytes: usize) -> Option<Piece> {
        let permit = self.room.clone().try_acquire_owned().ok()?;
        self.cut(permit, bytes)
    }

    /// Waits for a slot, in turn: for `bytes` bytes, or as many of them as there is room for then.
    ///
    /// # Cancel safety
    /// The place in the line is given up when the future is dropped.
    pub(crate) async fn piece(&self, bytes: usize) -> Result<Piece, NotPosted> {
        let permit = self.room.clone().acquire_owned().await.map_err(|_| NotPosted::NotBegun)?;
        self.cut(permit, bytes).ok_or(NotPosted::NotBegun)
    }

    /// Returns a slot for `bytes` bytes, or as many of them as there is room for. It has a permit
    /// for each slot of the least length, the first of which is `permit`.
    fn cut(&self, mut permit: OwnedSemaphorePermit, bytes: usize) -> Option<Piece> {
        let more = (Slots::count_for(bytes) - 1).min(self.room.available_permits());
        // Without them the slot is shorter.
        if let Ok(more) = self.room.clone().try_acquire_many_owned(more as u32) {
            permit.merge(more);
        }
        let slot = {
            let mut state = self.reach.state.lock();
            state.pair(self.number)?.slots.take(permit.num_permits())?
        };
        let unused = permit.num_permits() - slot.len() / ONE_SIDED_SLOT_BYTES;
        drop(permit.split(unused));
        Some(Piece::new(&self.reach, self.number, slot, Some(permit)))
    }

    /// Returns the act that has to follow a write before it is done, if there is one (RE-8).
    pub(crate) fn fence(&self) -> Option<Act> {
        self.fence.filter(|_| !planted!(UnfencedWrite)).map(Act::Fence)
    }

    /// Posts operations with one doorbell. Returns what tells of the outcome of each.
    ///
    /// # Errors
    /// [`NotPosted`]: none was posted.
    pub(crate) fn post(
        &self,
        wanted: Vec<Wanted>,
    ) -> Result<Vec<oneshot::Receiver<Finished>>, NotPosted> {
        let mut guard = self.reach.state.lock();
        let state = &mut *guard;
        // A slot of an earlier queue pair belongs to no other.
        let is_open = state.number == self.number && !state.resting;
        let may_post = is_open && state.is_held(self.share, self.terms.key);
        let Stage::Connected(pair) = &mut state.stage else {
            drop(guard);
            return Err(NotPosted::NotBegun);
        };
        if !may_post {
            // Pieces give their slots back by themselves.
            drop(guard);
            return Err(NotPosted::NotBegun);
        }
        let (mut operations, mut posted, mut finished) = (Vec::new(), Vec::new(), Vec::new());
        for Wanted { act, piece } in wanted {
            let Some((slot, permit)) = piece.into_parts() else { continue };
            let (kind, key, at, bytes, wanted) = match act {
                Act::On { kind: kind @ (Kind::Write | Kind::WriteAndNotify(_)), at, bytes } => {
                    (kind, self.terms.key, at, bytes, 0)
                }
                Act::On { kind, at, bytes } => (kind, self.terms.key, at, bytes, bytes),
                Act::Fence(key) => (Kind::Read, key, 0, FENCE_BYTES as usize, 0),
            };
            operations.push(Operation { slot, bytes: bytes as u32, key, at, kind });
            let (done, outcome) = oneshot::channel();
            let purpose = Purpose::Access { wanted, done };
            posted.push(Posted { permit, share: Some(self.share), purpose });
            finished.push(outcome);
        }
        // There is room for each operation that has a slot, so only a device refuses one.
        if let Err(error) = pair.one_sided.post(&mut operations) {
            let begun = posted.len() - operations.len();
            let is_begun = begun > 0;
            // Their tasks hear when the queue pair is gone, as all others do.
            pair.note_posted(posted.drain(..begun), state.patience.now());
            let reason = format!("an operation cannot be posted: {error}");
            let leftovers = state.give_up(reason.clone(), false);
            drop(guard);
            drop((leftovers, operations, posted));
            self.reach.tell_change();
            // The end of the begun operations is unknown.
            return if is_begun { Ok(finished) } else { Err(NotPosted::Refused(reason)) };
        }
        if let Some(Known::Held { running, .. }) = state.keys.get_mut(&self.share) {
            *running += posted.len();
        }
        state.used = true;
        pair.note_posted(posted, state.patience.now());
        Ok(finished)
    }
}
