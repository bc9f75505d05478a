//! Memory that this node shares with its peers, and who was let in.
//!
//! - **SM-1 by its number**: memory is reached by the 128 random bits of its [`ShareId`] alone. A
//!   peer that names a share that is none, or none any more, learns only that.
//! - **SM-2 ended**: each queue pair that was granted a share is told of its end, and
//!   [`Share::end`] returns when none of them reaches the memory any more. A share ends once, when
//!   its [`Share`] is dropped at the latest.
//! - **SM-3 one executor**: what is atomic on a memory is executed by one [`Executor`] at a time,
//!   however many shares of it there are: it belongs to the first one whose queue pair is granted
//!   it, until no queue pair of that one is granted it any more. When another one is asked for, it
//!   is [recalled](Grantee::recall): those that were granted it let go of it when they have no
//!   operation under way. Executors that were refused it, and asked again within
//!   [`EXECUTOR_RESERVED`](limits::EXECUTOR_RESERVED), have their turns in the order of their first
//!   refusals; a turn begins with one's first queue pair, and is kept for it that long. While
//!   another one waits, queue pairs join a turn within [`EXECUTOR_KEPT`](limits::EXECUTOR_KEPT) of
//!   its beginning, and none later: those that go on without a pause, however many, do not get it
//!   back before the others had their turns. What this node does itself takes its turn with the
//!   processor's.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::entropy::Entropy;
use crate::fabric::one_sided::{Access, Executor};
use crate::id::ShareId;
#[cfg(doc)]
use crate::limits;
use crate::limits::{EXECUTOR_KEPT, EXECUTOR_RESERVED};
use crate::memory::{OutOfRange, Words};
use crate::mutants::planted;

/// Memory that this node shares until this is dropped (SM-2).
pub struct Share {
    id: ShareId,
    shares: Arc<Shares>,
    holders: watch::Receiver<usize>,
}

/// What a node shares.
pub(crate) struct Shares {
    state: Mutex<State>,
    entropy: Entropy,
}

#[derive(Default)]
struct State {
    by_id: BTreeMap<ShareId, Shared>,
    /// Memory on which queue pairs may do what is atomic (SM-3), by its number. Each of them keeps
    /// it. Of memory that none has any more an entry may be left, until it is looked at
    /// ([`settle`](Bound::settle)).
    bound: BTreeMap<u64, Bound>,
}

/// The executor of atomic operations on a memory, and for how many queue pairs.
struct Bound {
    executor: Executor,
    holders: usize,
    /// Time at which the first of them had it.
    begun: Instant,
    /// Time until which it is kept for the executor, though no queue pair has it.
    kept: Option<Instant>,
    /// Executors that were refused it, each once, in the order of their turns. There are as many as
    /// this node has devices, and its processor.
    waiting: Vec<Waiting>,
}

struct Waiting {
    executor: Executor,
    /// Time of its last refusal.
    refused: Instant,
}

impl Waiting {
    /// Returns true if it has asked lately enough to be waited for.
    fn asks_still(&self) -> bool {
        self.refused.elapsed() < EXECUTOR_RESERVED
    }
}

impl Bound {
    fn new(executor: Executor) -> Self {
        let (begun, waiting) = (Instant::now(), Vec::new());
        Bound { executor, holders: 0, begun, kept: None, waiting }
    }

    /// Gives it to the next one that waits, if no queue pair has it and it is kept for none.
    /// Returns false where it is of no executor then.
    fn settle(&mut self) -> bool {
        let now = Instant::now();
        if self.holders > 0 || self.kept.is_some_and(|until| now < until) {
            return true;
        }
        self.waiting.retain(Waiting::asks_still);
        if self.waiting.is_empty() {
            return false;
        }
        self.executor = self.waiting.remove(0).executor;
        self.kept = Some(now + EXECUTOR_RESERVED);
        true
    }

    /// Returns true if one queue pair more may have it by this executor.
    fn is_for(&self, executor: &Executor) -> bool {
        let is_young = self.holders == 0 || self.begun.elapsed() < EXECUTOR_KEPT;
        let other_waits =
            || self.waiting.iter().any(|it| it.executor != *executor && it.asks_still());
        self.executor == *executor && (is_young || !other_waits() || planted!(NoTurn))
    }

    /// Takes note that an executor was refused it.
    fn note_refused(&mut self, executor: &Executor) {
        self.waiting.retain(Waiting::asks_still);
        let refused = Instant::now();
        match self.waiting.iter_mut().find(|it| it.executor == *executor) {
            Some(waiting) => waiting.refused = refused,
            None => self.waiting.push(Waiting { executor: executor.clone(), refused }),
        }
    }
}

/// Memory that is shared.
#[derive(Clone)]
pub(crate) struct Piece {
    pub(crate) memory: Arc<Words>,
    /// Its first byte, a multiple of 8.
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    pub(crate) access: Access,
    /// What is atomic is taken from the access, since another executor does it (SM-3).
    pub(crate) is_elsewhere: bool,
}

impl Piece {
    fn number(&self) -> u64 {
        self.memory.number()
    }
}

struct Shared {
    piece: Piece,
    /// Those that were granted it.
    granted: Vec<Weak<dyn Grantee>>,
    holders: watch::Sender<usize>,
}

/// What gives peers access to shares, and is told of their end.
pub(crate) trait Grantee: Send + Sync {
    /// This share has ended: has those let go of it that were granted it, and takes it back from
    /// those that do not in time (RE-3).
    fn revoke(&self, share: ShareId);

    /// Has those let go of it that were granted what is atomic on it, unless `executor` does it for
    /// them, or they have had it for a short while only. They may ask for it again (SM-3).
    fn recall(&self, share: ShareId, executor: &Executor);
}

/// Stands for one queue pair that reaches a share, in the share's count, and perhaps for its atomic
/// operations (SM-3).
pub(crate) struct Holder {
    holders: watch::Sender<usize>,
    bound: Option<(Arc<Shares>, Arc<Words>)>,
}

impl Holder {
    fn new(holders: &watch::Sender<usize>) -> Self {
        holders.send_modify(|count| *count += 1);
        Holder { holders: holders.clone(), bound: None }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        if let Some((shares, memory)) = self.bound.take() {
            shares.state.lock().release(memory.number());
        }
        self.holders.send_modify(|count| *count -= 1);
    }
}

impl State {
    /// Returns the executor of what is atomic on a memory, if there is one.
    fn bound(&mut self, number: u64) -> Option<&mut Bound> {
        let Entry::Occupied(mut bound) = self.bound.entry(number) else { return None };
        if !bound.get_mut().settle() {
            bound.remove();
            return None;
        }
        Some(bound.into_mut())
    }

    /// Has this executor do what is atomic on a memory, for one queue pair more. Returns false if
    /// another one does it, or has its turn next.
    fn bind(&mut self, number: u64, executor: &Executor) -> bool {
        let bound = match self.bound(number) {
            Some(bound) => bound,
            None => self.bound.entry(number).or_insert_with(|| Bound::new(executor.clone())),
        };
        if !bound.is_for(executor) {
            return false;
        }
        if bound.holders == 0 {
            (bound.begun, bound.kept) = (Instant::now(), None);
        }
        bound.waiting.retain(|it| it.executor != *executor);
        bound.holders += 1;
        true
    }

    fn release(&mut self, number: u64) {
        let Some(bound) = self.bound.get_mut(&number) else { return };
        bound.holders -= 1;
        if bound.holders == 0 {
            self.bound.retain(|_, bound| bound.settle());
        }
    }
}

/// Atomic operations are not done by this node.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotDone {
    /// There is no such share.
    NotShared,
    /// A device does it for peers (SM-3).
    Elsewhere,
}

impl Shares {
    pub(crate) fn new(entropy: Entropy) -> Arc<Self> {
        Arc::new(Shares { state: Mutex::default(), entropy })
    }

    /// Shares `bytes` bytes from the byte `at` on, a multiple of 8.
    ///
    /// # Errors
    /// [`OutOfRange`].
    pub(crate) fn share(
        self: &Arc<Self>,
        memory: &Arc<Words>,
        at: u64,
        bytes: u64,
        access: Access,
    ) -> Result<Share, OutOfRange> {
        let has_place = at.checked_add(bytes).is_some_and(|end| end <= memory.bytes() as u64);
        if !has_place || !at.is_multiple_of(8) {
            let wanted = at..at.saturating_add(bytes);
            return Err(OutOfRange { wanted, bytes: memory.bytes() as u64 });
        }
        let piece = Piece { memory: memory.clone(), at, bytes, access, is_elsewhere: false };
        let (sender, holders) = watch::channel(0);
        let id = ShareId(self.entropy.u128());
        let shared = Shared { piece, granted: Vec::new(), holders: sender };
        self.state.lock().by_id.insert(id, shared);
        Ok(Share { id, shares: self.clone(), holders })
    }

    /// Returns true if this is shared.
    pub(crate) fn has(&self, id: ShareId) -> bool {
        self.state.lock().by_id.contains_key(&id)
    }

    /// Returns shared memory for a use on this node, which holds the share as a peer's does.
    pub(crate) fn open(&self, id: ShareId) -> Option<(Piece, Holder)> {
        let state = self.state.lock();
        let shared = state.by_id.get(&id)?;
        Some((shared.piece.clone(), Holder::new(&shared.holders)))
    }

    /// Does on shared memory, for this node, what is atomic with what peers do by its processor.
    /// `act` has to be short: no queue pair is granted anything meanwhile.
    ///
    /// # Errors
    /// [`NotDone`].
    pub(crate) fn act<R>(&self, id: ShareId, act: impl FnOnce(&Piece) -> R) -> Result<R, NotDone> {
        let mut state = self.state.lock();
        let number = state.by_id.get(&id).ok_or(NotDone::NotShared)?.piece.number();
        // SM-3: no device begins to while this holds the lock. It is done then, and makes no turn
        // of the processor's longer.
        if state.bound(number).is_some_and(|bound| bound.executor != Executor::Processor) {
            drop(state);
            self.recall(id, &Executor::Processor);
            return Err(NotDone::Elsewhere);
        }
        let shared = state.by_id.get(&id).ok_or(NotDone::NotShared)?;
        Ok(act(&shared.piece))
    }

    /// Has the executor of what is atomic on shared memory let go of it, for another one (SM-3).
    pub(crate) fn recall(&self, id: ShareId, executor: &Executor) {
        let granted: Vec<_> = {
            let state = &mut *self.state.lock();
            let Some(number) = state.by_id.get(&id).map(|shared| shared.piece.number()) else {
                return;
            };
            if let Some(bound) = state.bound(number).filter(|bound| !bound.is_for(executor)) {
                bound.note_refused(executor);
            }
            let of_memory =
                state.by_id.iter().filter(|(_, shared)| shared.piece.number() == number);
            let granted = of_memory.flat_map(|(id, shared)| {
                shared.granted.iter().filter_map(|grantee| Some((*id, grantee.upgrade()?)))
            });
            granted.collect()
        };
        granted.into_iter().for_each(|(id, grantee)| grantee.recall(id, executor));
    }

    /// Returns true if this executor would be the one of what is atomic on shared memory (SM-3).
    pub(crate) fn is_free_for(&self, id: ShareId, executor: &Executor) -> bool {
        let mut state = self.state.lock();
        let number = state.by_id.get(&id).map(|shared| shared.piece.number());
        number.is_some_and(|it| state.bound(it).is_none_or(|bound| bound.is_for(executor)))
    }

    /// Returns shared memory for a peer whose operations `executor` executes, by way of one that is
    /// told of the end.
    pub(crate) fn open_for(
        self: &Arc<Self>,
        id: ShareId,
        executor: &Executor,
        grantee: &Arc<dyn Grantee>,
    ) -> Option<(Piece, Holder)> {
        let state = &mut *self.state.lock();
        let shared = state.by_id.get_mut(&id)?;
        shared.granted.retain(|known| known.strong_count() > 0);
        let grantee = Arc::downgrade(grantee);
        if !shared.granted.iter().any(|known| known.ptr_eq(&grantee)) {
            shared.granted.push(grantee);
        }
        let (mut piece, mut holder) = (shared.piece.clone(), Holder::new(&shared.holders));
        if piece.access.atomic {
            if state.bind(piece.number(), executor) {
                holder.bound = Some((self.clone(), piece.memory.clone()));
            } else {
                piece.access.atomic = false;
                piece.is_elsewhere = true;
            }
        }
        Some((piece, holder))
    }

    /// Ends a share.
    fn end(&self, id: ShareId) {
        let ended = self.state.lock().by_id.remove(&id);
        let granted = ended.map(|shared| shared.granted).unwrap_or_default();
        granted.iter().filter_map(Weak::upgrade).for_each(|grantee| grantee.revoke(id));
    }
}

impl Share {
    /// Returns the number by which peers reach it.
    pub fn id(&self) -> ShareId {
        self.id
    }

    /// Ends it, and waits until no operation of any peer reaches the memory any more: that a peer
    /// says so, its link has ended, or it has not said so for a while.
    ///
    /// # Cancel safety
    /// When the future is dropped the share ends all the same.
    pub async fn end(mut self) {
        self.shares.end(self.id);
        // An error says that the last holder is gone.
        let _ = self.holders.wait_for(|count| *count == 0).await;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shares.end(self.id);
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Share")
    }
}

#[cfg(test)]
mod tests;
