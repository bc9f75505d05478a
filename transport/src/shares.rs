//! Memory that this node shares with its peers, and who was let in.
//!
//! - **SM-1 by its number**: memory is reached by its [`ShareId`] alone, of which no peer can guess
//!   88 bits. A peer that names a share that never was one learns only that.
//! - **SM-2 ended**: each queue pair that was granted a share is told of its end, and
//!   [`Share::end`] returns when none of them reaches the memory any more. A share ends once, when
//!   its [`Share`] is dropped at the latest.
//! - **SM-3 one executor**: atomics on a memory are executed by one [`Executor`] at a time, however
//!   many shares of it there are. They belong to the first executor whose queue pair is granted
//!   them, until none of its queue pairs is granted them any more. When another executor asks for
//!   them, the first one is [recalled](Grantee::recall): its queue pairs let go of them when they
//!   have no operation under way. Executors that were refused, and asked again within
//!   [`EXECUTOR_RESERVED`](limits::EXECUTOR_RESERVED), have their turns in the order of their first
//!   refusals; a turn begins with the executor's first queue pair, and is kept for it that long. A
//!   place and a turn are also kept while an ASK of the executor waits for a device of this node.
//!   While another executor waits, queue pairs join a turn only within
//!   [`EXECUTOR_KEPT`](limits::EXECUTOR_KEPT) of its beginning: executors that go on without a
//!   pause do not get the atomics back before the others had their turns. This node's own
//!   operations take their turn with the processor's.
//! - **SM-4 told apart**: nothing is kept of a share that has ended, but its number says that this
//!   run gave it, and if it was a lease. Only the last leases that were revoked before their time
//!   are kept, [`LEASES_REVOKED_KEPT`](limits::LEASES_REVOKED_KEPT) of them.

mod executor;
mod lease;
mod numbers;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::cause::NotShared;
use crate::entropy::Entropy;
use crate::fabric::one_sided::{Access, Executor};
use crate::id::{NodeName, ShareId};
#[cfg(doc)]
use crate::limits;
use crate::memory::{OutOfRange, Words};
use crate::mutants::planted;
pub(crate) use executor::Asking;
use executor::Bound;
pub use lease::Term;
use numbers::Numbers;

/// Memory that this node shares until this is dropped (SM-2).
pub struct Share {
    id: ShareId,
    shares: Arc<Shares>,
    holders: Arc<Holders>,
}

/// Counts the queue pairs, and the uses by this node, that reach a share.
#[derive(Default)]
struct Holders {
    count: Mutex<usize>,
    /// Wakes the tasks that wait until there is none, in their order.
    none: Notify,
}

/// The shares of a node.
pub(crate) struct Shares {
    state: Mutex<State>,
}

struct State {
    by_id: BTreeMap<ShareId, Shared>,
    numbers: Numbers,
    /// Memory that is shared, or that queue pairs hold yet, by its number. (Both keep it.)
    memories: BTreeMap<u64, Memory>,
}

/// The state of a memory beside its shares.
#[derive(Default)]
struct Memory {
    shares: usize,
    /// The executor of its atomics (SM-3), by the last [`settle`](Bound::settle).
    bound: Option<Bound>,
}

/// Memory that is shared.
#[derive(Clone)]
pub(crate) struct Piece {
    pub(crate) memory: Arc<Words>,
    /// Its first byte, a multiple of 8.
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    pub(crate) access: Access,
    /// Atomics are taken from the access, since another executor does them (SM-3).
    pub(crate) is_elsewhere: bool,
}

impl Piece {
    fn number(&self) -> u64 {
        self.memory.number()
    }
}

/// A peer that has access to a share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareHolder {
    /// Its name.
    pub node: NodeName,
    /// The access that it was granted.
    pub access: Access,
    /// Time at which it was granted that.
    pub since: Instant,
}

struct Shared {
    piece: Piece,
    /// The term of a lease, and when that ends.
    lease: Option<(Term, Instant)>,
    /// The grantees that were granted it.
    granted: Vec<Weak<dyn Grantee>>,
    holders: Arc<Holders>,
}

/// The side of a link that gives a peer access to shares, and is told of their end.
pub(crate) trait Grantee: Send + Sync {
    /// This share has ended: makes the peer let go of it, and takes it back if it is late (RE-3).
    fn revoke(&self, share: ShareId);

    /// Makes a peer that was granted atomics on it let go of it, unless `executor` does them for
    /// this peer, or it has had them for a short while only. It may ask for it again (SM-3).
    fn recall(&self, share: ShareId, executor: &Executor);

    /// Returns the peer, if it has access to this share.
    fn holder(&self, share: ShareId) -> Option<ShareHolder>;
}

/// Stands for one queue pair that reaches a share, in the share's count, and perhaps for its atomic
/// operations (SM-3).
pub(crate) struct Holder {
    holders: Arc<Holders>,
    bound: Option<(Arc<Shares>, Arc<Words>, ShareId)>,
}

impl Holder {
    fn new(holders: &Arc<Holders>) -> Self {
        *holders.count.lock() += 1;
        Holder { holders: holders.clone(), bound: None }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        if let Some((shares, memory, share)) = self.bound.take() {
            shares.state.lock().release(memory.number(), share);
        }
        let is_last = {
            let mut count = self.holders.count.lock();
            *count -= 1;
            *count == 0
        };
        if is_last {
            self.holders.none.notify_waiters();
        }
    }
}

impl State {
    fn find(&self, id: ShareId) -> Result<&Shared, NotShared> {
        self.by_id.get(&id).ok_or_else(|| self.numbers.ended(id))
    }

    /// Returns the executor of the atomics on a memory, if there is one.
    fn bound(&mut self, number: u64) -> Option<&mut Bound> {
        let memory = self.memories.get_mut(&number)?;
        memory.bound.take_if(|bound| !bound.settle());
        memory.bound.as_mut()
    }

    /// Gives the atomics on a memory to this executor, for one more queue pair, which has them by
    /// this share. Returns false if another executor has them, or has its turn next.
    fn bind(&mut self, number: u64, share: ShareId, executor: &Executor) -> bool {
        let memory = self.memories.entry(number).or_default();
        memory.bound.take_if(|bound| !bound.settle());
        let bound = memory.bound.get_or_insert_with(|| Bound::new(executor.clone()));
        if !bound.is_for(executor) {
            return false;
        }
        if bound.holders.is_empty() {
            (bound.begun, bound.kept) = (Instant::now(), None);
        }
        bound.waiting.retain(|it| it.executor != *executor);
        *bound.holders.entry(share).or_default() += 1;
        true
    }

    fn release(&mut self, number: u64, share: ShareId) {
        if let Some(memory) = self.memories.get_mut(&number)
            && let Some(bound) = &mut memory.bound
            && let Entry::Occupied(mut count) = bound.holders.entry(share)
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
            memory.bound.take_if(|bound| !bound.settle());
        }
        self.forget_unused(number);
    }

    /// Forgets a memory that is neither shared nor held.
    fn forget_unused(&mut self, number: u64) {
        let is_used = |memory: &Memory| {
            memory.shares > 0 || memory.bound.as_ref().is_some_and(|it| !it.holders.is_empty())
        };
        if self.memories.get(&number).is_some_and(|memory| !is_used(memory)) {
            self.memories.remove(&number);
        }
    }
}

/// Atomic operations are not done by this node.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotDone {
    /// There is no such share.
    NotShared(NotShared),
    /// A device does it for peers (SM-3).
    Elsewhere,
}

impl Shares {
    pub(crate) fn new(entropy: Entropy) -> Arc<Self> {
        let (by_id, numbers, memories) = (BTreeMap::new(), Numbers::new(entropy), BTreeMap::new());
        Arc::new(Shares { state: Mutex::new(State { by_id, numbers, memories }) })
    }

    /// Shares without a term.
    #[cfg(test)]
    pub(crate) fn share(
        self: &Arc<Self>,
        memory: &Arc<Words>,
        at: u64,
        bytes: u64,
        access: Access,
    ) -> Result<Share, OutOfRange> {
        self.lease(memory, (at, bytes), access, None)
    }

    /// Shares `bytes` bytes from the byte `at` on, a multiple of 8. If there is a `term`,
    /// [`Share::expire`] ends it then.
    ///
    /// # Errors
    /// [`OutOfRange`].
    pub(crate) fn lease(
        self: &Arc<Self>,
        memory: &Arc<Words>,
        (at, bytes): (u64, u64),
        access: Access,
        term: Option<Term>,
    ) -> Result<Share, OutOfRange> {
        let has_place = at.checked_add(bytes).is_some_and(|end| end <= memory.bytes() as u64);
        if !has_place || !at.is_multiple_of(8) {
            let wanted = at..at.saturating_add(bytes);
            return Err(OutOfRange { wanted, bytes: memory.bytes() as u64 });
        }
        let piece = Piece { memory: memory.clone(), at, bytes, access, is_elsewhere: false };
        let holders: Arc<Holders> = Arc::default();
        let lease = term.map(|term| (term, term.end()));
        let shared = Shared { piece, lease, granted: Vec::new(), holders: holders.clone() };
        let mut state = self.state.lock();
        let id = state.numbers.give(term.is_some());
        state.by_id.insert(id, shared);
        state.memories.entry(memory.number()).or_default().shares += 1;
        drop(state);
        Ok(Share { id, shares: self.clone(), holders })
    }

    /// Returns the reason why there is no such share; `None` if there is.
    pub(crate) fn not_shared(&self, id: ShareId) -> Option<NotShared> {
        self.state.lock().find(id).err()
    }

    /// Returns shared memory for a use on this node, which holds the share as a peer's does.
    ///
    /// # Errors
    /// [`NotShared`].
    pub(crate) fn open(&self, id: ShareId) -> Result<(Piece, Holder), NotShared> {
        let state = self.state.lock();
        let shared = state.find(id)?;
        Ok((shared.piece.clone(), Holder::new(&shared.holders)))
    }

    /// Acts on shared memory for this node, atomically with the operations of peers by its
    /// processor. `act` has to be short: no queue pair is granted anything meanwhile.
    ///
    /// # Errors
    /// [`NotDone`].
    pub(crate) fn act<R>(&self, id: ShareId, act: impl FnOnce(&Piece) -> R) -> Result<R, NotDone> {
        let mut state = self.state.lock();
        let number = state.find(id).map_err(NotDone::NotShared)?.piece.number();
        // SM-3: no device begins to while this holds the lock. It is done then, and makes no turn
        // of the processor's longer.
        if state.bound(number).is_some_and(|bound| bound.executor != Executor::Processor) {
            drop(state);
            self.recall(id, &Executor::Processor);
            return Err(NotDone::Elsewhere);
        }
        let shared = state.find(id).map_err(NotDone::NotShared)?;
        Ok(act(&shared.piece))
    }

    /// Makes the executor of the atomics on shared memory let go of them, for another one (SM-3).
    pub(crate) fn recall(&self, id: ShareId, executor: &Executor) {
        let granted: Vec<_> = {
            let state = &mut *self.state.lock();
            let Some(number) = state.by_id.get(&id).map(|shared| shared.piece.number()) else {
                return;
            };
            let Some(bound) = state.bound(number) else { return };
            bound.note_asked(executor);
            let held: Vec<_> = bound.holders.keys().copied().collect();
            let held = held.iter().filter_map(|id| Some((*id, state.by_id.get(id)?)));
            let granted = held.flat_map(|(id, shared)| {
                shared.granted.iter().filter_map(move |grantee| Some((id, grantee.upgrade()?)))
            });
            granted.collect()
        };
        granted.into_iter().for_each(|(id, grantee)| grantee.recall(id, executor));
    }

    /// Keeps the turn of an executor for an ASK that waits, as long as the returned value is kept.
    /// If the ASK `is_again`, it also keeps the executor's place while another one has the atomics.
    pub(crate) fn wait_for(
        &self,
        id: ShareId,
        executor: &Executor,
        is_again: bool,
    ) -> Option<Asking> {
        let state = &mut *self.state.lock();
        let piece = &state.by_id.get(&id)?.piece;
        let number = piece.access.atomic.then(|| piece.number())?;
        let bound = state.bound(number)?;
        let may_ask = (is_again || bound.is_for(executor)) && !planted!(ForgottenAsk);
        may_ask.then(|| bound.note_asked(executor))?.map(|place| place.asking.clone())
    }

    /// Returns true if this executor could have the atomics on shared memory now (SM-3).
    pub(crate) fn is_free_for(&self, id: ShareId, executor: &Executor) -> bool {
        let mut state = self.state.lock();
        let number = state.by_id.get(&id).map(|shared| shared.piece.number());
        number.is_some_and(|it| state.bound(it).is_none_or(|bound| bound.is_for(executor)))
    }

    /// Returns shared memory for a peer whose operations `executor` executes; `grantee` hears of
    /// its end.
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
            if state.bind(piece.number(), id, executor) {
                holder.bound = Some((self.clone(), piece.memory.clone(), id));
            } else {
                piece.access.atomic = false;
                piece.is_elsewhere = true;
            }
        }
        Some((piece, holder))
    }

    /// Ends a share.
    fn end(&self, id: ShareId) {
        let ended = {
            let state = &mut *self.state.lock();
            let ended = state.by_id.remove(&id);
            let lease = ended.as_ref().and_then(|shared| shared.lease);
            if lease.is_some_and(|(_, end)| end > Instant::now()) {
                state.numbers.note_revoked(id);
            }
            if let Some(number) = ended.as_ref().map(|shared| shared.piece.number()) {
                state.memories.entry(number).or_default().shares -= 1;
                state.forget_unused(number);
            }
            ended
        };
        let granted = ended.map(|shared| shared.granted).unwrap_or_default();
        granted.iter().filter_map(Weak::upgrade).for_each(|grantee| grantee.revoke(id));
    }
}

impl Share {
    /// Returns the number by which peers reach it.
    pub fn id(&self) -> ShareId {
        self.id
    }

    /// Ends it, if it has not ended. What this returns waits until no operation of any peer reaches
    /// the memory any more: that a peer says so, its link has ended, or it has not said so for a
    /// while. Several tasks may wait.
    pub fn end(&self) -> impl Future<Output = ()> + Send + use<> {
        self.shares.end(self.id);
        let holders = self.holders.clone();
        async move {
            let mut none = pin!(holders.none.notified());
            none.as_mut().enable();
            // No new holder comes to an ended share.
            if *holders.count.lock() > 0 {
                none.await;
            }
        }
    }

    /// Returns the peers that have access to it, in the order in which they asked. An ended share
    /// has none.
    pub fn holders(&self) -> Vec<ShareHolder> {
        let granted: Vec<_> = {
            let state = self.shares.state.lock();
            let shared = state.by_id.get(&self.id).into_iter();
            shared.flat_map(|shared| shared.granted.iter().filter_map(Weak::upgrade)).collect()
        };
        granted.iter().filter_map(|grantee| grantee.holder(self.id)).collect()
    }

    /// Returns true if an operation of a peer, or of this node, may reach the memory yet.
    pub fn is_held(&self) -> bool {
        *self.holders.count.lock() > 0
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
