//! Operations of this node's tasks on memory of the peer.

use std::pin::pin;
use std::sync::Arc;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;

use super::pair::{Finished, Piece, Posted, Purpose};
use super::{Denied, Known, Reach, Stage};
use crate::bootstrap::Sharing;
use crate::fabric::one_sided::{Access, Key, Kind, Operation};
use crate::id::ShareId;

/// A share of the peer that may be operated upon.
pub(crate) struct Ready {
    reach: Arc<Reach>,
    number: u32,
    share: ShareId,
    key: Key,
    room: Arc<Semaphore>,
    /// Its size in bytes.
    pub(crate) bytes: u64,
    pub(crate) access: Access,
}

/// The reason for which a share cannot be operated upon.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unready {
    /// The link has ended: another one may do.
    Ended,
    /// The peer does not share it, or not any more.
    Denied,
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
    /// Opens the queue pair if there is none, and asks for the share if it is not known.
    ///
    /// # Errors
    /// [`Unready`].
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn access(self: &Arc<Self>, share: ShareId) -> Result<Ready, Unready> {
        let failures = self.state.lock().failures;
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            match self.look_for(share, failures)? {
                Look::Ready(ready) => return Ok(ready),
                Look::Later => changed.await,
                Look::Asked(answer) => match answer.await {
                    Ok(Err(Denied(reason))) if reason.is_empty() => return Err(Unready::Denied),
                    Ok(Err(Denied(reason))) => return Err(Unready::Unable(reason)),
                    // The queue pair has ended meanwhile, or it is granted.
                    Ok(Ok(())) | Err(_) => {}
                },
            }
        }
    }

    fn look_for(self: &Arc<Self>, share: ShareId, failures: u64) -> Result<Look, Unready> {
        let state = &mut *self.state.lock();
        if matches!(state.stage, Stage::Ended) {
            return Err(Unready::Ended);
        }
        if state.failures != failures {
            return Err(Unready::Unable(state.trouble.clone()));
        }
        let Some(means) = state.means.clone().filter(|_| !state.resting) else {
            return Ok(Look::Later);
        };
        state.used = true;
        let pair = match &mut state.stage {
            Stage::Closed => {
                self.begin(state, &means);
                self.outgoing.notify_one();
                let failed = state.failures != failures;
                let trouble = || Err(Unready::Unable(state.trouble.clone()));
                return if failed { trouble() } else { Ok(Look::Later) };
            }
            Stage::Connected(pair) if state.peer_connected => pair,
            _ => return Ok(Look::Later),
        };
        let (asks, answer) = oneshot::channel();
        match state.keys.get_mut(&share) {
            Some(&mut Known::Held { key, bytes, access, is_ending: false, .. }) => {
                let (reach, number, room) = (self.clone(), state.number, pair.room.clone());
                return Ok(Look::Ready(Ready { reach, number, share, key, room, bytes, access }));
            }
            Some(Known::Held { .. }) => return Err(Unready::Denied),
            Some(Known::Asked(_, tasks)) => {
                tasks.retain(|task| !task.is_closed());
                tasks.push(asks);
            }
            None => {
                state.keys.insert(share, Known::Asked(Instant::now(), vec![asks]));
                state.outbox.push(Sharing::Ask(share));
                self.outgoing.notify_one();
            }
        }
        Ok(Look::Asked(answer))
    }
}

enum Look {
    Ready(Ready),
    Asked(oneshot::Receiver<Result<(), Denied>>),
    Later,
}

impl Ready {
    /// Returns how many operations may be posted now.
    #[cfg(test)]
    pub(super) fn room_left(&self) -> usize {
        self.room.available_permits()
    }

    /// Returns a slot, if one is free.
    pub(crate) fn try_piece(&self) -> Option<Piece> {
        let permit = self.room.clone().try_acquire_owned().ok()?;
        let slot = self.reach.state.lock().pair(self.number)?.slots.pop()?;
        Some(Piece::new(&self.reach, self.number, slot, permit))
    }

    /// Waits for a slot, in turn.
    ///
    /// # Cancel safety
    /// The place in the line is given up when the future is dropped.
    pub(crate) async fn piece(&self) -> Result<Piece, NotPosted> {
        let permit = self.room.clone().acquire_owned().await.map_err(|_| NotPosted::NotBegun)?;
        let mut state = self.reach.state.lock();
        let slot =
            state.pair(self.number).and_then(|pair| pair.slots.pop()).ok_or(NotPosted::NotBegun)?;
        Ok(Piece::new(&self.reach, self.number, slot, permit))
    }

    /// Posts an operation on `bytes` bytes from `at` on, which lie in the share (RE-2).
    pub(crate) fn post(
        &self,
        kind: Kind,
        at: u64,
        bytes: usize,
        piece: Piece,
    ) -> Result<oneshot::Receiver<Finished>, NotPosted> {
        let (slot, permit) = piece.into_parts().ok_or(NotPosted::NotBegun)?;
        let (done, finished) = oneshot::channel();
        let mut guard = self.reach.state.lock();
        let state = &mut *guard;
        let Stage::Connected(pair) = &mut state.stage else { return Err(NotPosted::NotBegun) };
        // A slot of an earlier queue pair belongs to no other.
        if state.number != self.number {
            return Err(NotPosted::NotBegun);
        }
        let known = state.keys.get_mut(&self.share).filter(|_| !state.resting);
        let Some(Known::Held { running, is_ending: false, .. }) = known else {
            pair.slots.push(slot);
            return Err(NotPosted::NotBegun);
        };
        let operation = Operation { slot, bytes: bytes as u32, key: self.key, at, kind };
        // There is a slot for each operation that it takes, so it refuses none.
        if let Err(error) = pair.one_sided.post(&mut vec![operation]) {
            let reason = format!("an operation cannot be posted: {error}");
            let leftovers = state.leave(Stage::Closed);
            state.outbox.push(Sharing::Unable { number: self.number, reason: reason.clone() });
            drop(guard);
            drop(leftovers);
            self.reach.outgoing.notify_one();
            self.reach.changed.notify_waiters();
            return Err(NotPosted::Refused(reason));
        }
        *running += 1;
        state.used = true;
        if pair.posted.is_empty() {
            pair.waiting = Instant::now();
        }
        let wanted = if matches!(kind, Kind::Write | Kind::WriteAndNotify(_)) { 0 } else { bytes };
        let purpose = Purpose::Access { share: self.share, wanted, done };
        pair.posted.push_back(Posted { permit, purpose });
        Ok(finished)
    }
}
