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
//!   operation under way. Then it is kept for the one that asked last, for
//!   [`EXECUTOR_RESERVED`](limits::EXECUTOR_RESERVED): one that goes on without a pause does not
//!   get it back before the other one had its turn. What this node does itself takes its turn with
//!   the processor's.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::entropy::Entropy;
use crate::fabric::one_sided::{Access, Executor};
use crate::id::ShareId;
#[cfg(doc)]
use crate::limits;
use crate::limits::{EXECUTOR_RESERVED, REVOKE_PATIENCE};
use crate::memory::{OutOfRange, Words};

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
    /// Memory on which queue pairs may do what is atomic (SM-3), by its address. Each of them keeps
    /// it. Of memory that none has any more an entry may be left, until it is
    /// [over](Bound::is_over).
    bound: BTreeMap<u64, Bound>,
}

/// The executor of atomic operations on a memory, and for how many queue pairs.
struct Bound {
    executor: Executor,
    holders: usize,
    /// Another one that was refused it, and when the last one was.
    wanted: Option<(Executor, Instant)>,
    /// Time until which it is kept for the executor, though no queue pair has it.
    kept: Option<Instant>,
}

impl Bound {
    fn new(executor: Executor) -> Self {
        Bound { executor, holders: 0, wanted: None, kept: None }
    }

    /// Returns true if it is of no executor.
    fn is_over(&self) -> bool {
        self.holders == 0 && self.kept.is_none_or(|until| Instant::now() >= until)
    }

    /// Returns true if this executor may do what is atomic.
    fn is_for(&self, executor: &Executor) -> bool {
        self.executor == *executor || self.is_over()
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
    /// This share has ended: has those let go of it that were granted it.
    fn revoke(&self, share: ShareId);

    /// Takes it back from those that have not let go of it.
    fn take_back(&self, share: ShareId);

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
    /// Has this executor do what is atomic on a memory, for one queue pair more. Returns false if
    /// another one does it.
    fn bind(&mut self, number: u64, executor: &Executor) -> bool {
        let bound = self.bound.entry(number);
        let bound = bound.or_insert_with(|| Bound::new(executor.clone()));
        if bound.is_over() {
            *bound = Bound::new(executor.clone());
        }
        let is_it = bound.executor == *executor;
        bound.holders += usize::from(is_it);
        is_it
    }

    fn release(&mut self, number: u64) {
        let Some(bound) = self.bound.get_mut(&number) else { return };
        bound.holders -= 1;
        if bound.holders == 0 {
            let wanted = bound.wanted.take();
            if let Some((next, since)) = wanted
                && since.elapsed() < EXECUTOR_RESERVED
            {
                bound.executor = next;
                bound.kept = Some(Instant::now() + EXECUTOR_RESERVED);
            }
            self.bound.retain(|_, bound| !bound.is_over());
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
        let state = self.state.lock();
        let piece = &state.by_id.get(&id).ok_or(NotDone::NotShared)?.piece;
        let bound = state.bound.get(&piece.number());
        // SM-3: no device begins to while this holds the lock.
        if bound.is_some_and(|bound| !bound.is_for(&Executor::Processor)) {
            drop(state);
            self.recall(id, &Executor::Processor);
            return Err(NotDone::Elsewhere);
        }
        Ok(act(piece))
    }

    /// Has the executor of what is atomic on shared memory let go of it, for another one (SM-3).
    pub(crate) fn recall(&self, id: ShareId, executor: &Executor) {
        let granted: Vec<_> = {
            let state = &mut *self.state.lock();
            let Some(number) = state.by_id.get(&id).map(|shared| shared.piece.number()) else {
                return;
            };
            let bound = state.bound.get_mut(&number);
            if let Some(bound) = bound.filter(|bound| !bound.is_for(executor)) {
                bound.wanted = Some((executor.clone(), Instant::now()));
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
        let state = self.state.lock();
        let bound = state.by_id.get(&id).map(|shared| state.bound.get(&shared.piece.number()));
        bound.is_some_and(|bound| bound.is_none_or(|bound| bound.is_for(executor)))
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

    /// Ends a share. Returns those that were granted it, the first time.
    fn end(&self, id: ShareId) -> Vec<Weak<dyn Grantee>> {
        let ended = self.state.lock().by_id.remove(&id);
        let granted = ended.map(|shared| shared.granted).unwrap_or_default();
        granted.iter().filter_map(Weak::upgrade).for_each(|grantee| grantee.revoke(id));
        granted
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
        let granted = self.shares.end(self.id);
        // An error says that the last holder is gone.
        let gone = self.holders.wait_for(|count| *count == 0).map(|_| ());
        if timeout(REVOKE_PATIENCE, gone).await.is_err() {
            let late = granted.iter().filter_map(Weak::upgrade);
            late.for_each(|grantee| grantee.take_back(self.id));
            let _ = self.holders.wait_for(|count| *count == 0).await;
        }
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
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::limits::EXECUTOR_KEPT;

    /// A link by one executor, whose peer lets go when it is told, or ignores that.
    struct Link {
        executor: Executor,
        held: Mutex<Option<Holder>>,
        is_deaf: bool,
        recalls: Mutex<usize>,
    }

    impl Grantee for Link {
        fn revoke(&self, _: ShareId) {
            if !self.is_deaf {
                drop(self.held.lock().take());
            }
        }

        fn take_back(&self, _: ShareId) {
            drop(self.held.lock().take());
        }

        fn recall(&self, _: ShareId, executor: &Executor) {
            *self.recalls.lock() += 1;
            if self.executor != *executor && !self.is_deaf {
                drop(self.held.lock().take());
            }
        }
    }

    impl Link {
        fn new(name: &str, is_deaf: bool) -> Arc<Self> {
            let executor = Executor::Device(name.into());
            Arc::new(Link { executor, held: Mutex::default(), is_deaf, recalls: Mutex::default() })
        }

        /// Asks as a peer does that wants to do what is atomic. Returns true if it may.
        fn asks(self: &Arc<Self>, shares: &Arc<Shares>, id: ShareId) -> bool {
            if self.held.lock().is_some() {
                return true;
            }
            let grantee: Arc<dyn Grantee> = self.clone();
            let (piece, holder) = shares.open_for(id, &self.executor, &grantee).unwrap();
            if piece.is_elsewhere {
                drop(holder);
                shares.recall(id, &self.executor);
            } else {
                *self.held.lock() = Some(holder);
            }
            !piece.is_elsewhere
        }
    }

    /// SM-3: of executors that want a memory at random none gets it twice while another one waits
    /// that asks again soon, and one that goes on without a pause gets it when nobody else does. At
    /// each moment it is of one. Before, the right that was taken from a busy device went back to
    /// it.
    // Promised in docs/SEMANTICS.md.
    #[tokio::test(start_paused = true)]
    async fn who_was_refused_has_its_turn() {
        let (mut turns, mut kept_from) = (0, 0);
        for seed in 0..200 {
            let mut chance = fastrand::Rng::with_seed(seed);
            let shares = Shares::new(Entropy::seeded(seed));
            let words = Arc::new(Words::zeroed(64).unwrap());
            let share = shares.share(&words, 0, 64, Access::ALL).unwrap();
            let [busy, other] = ["mlx5_0", "mlx5_1"].map(|name| Link::new(name, false));
            assert!(busy.asks(&shares, share.id()));
            assert!(!other.asks(&shares, share.id()), "it is recalled");
            // The busy one asks all the time, and the other one again after a pause.
            let pause = chance.u64(..2 * EXECUTOR_RESERVED.as_millis() as u64);
            let mut got_back = false;
            for _ in 0..pause {
                got_back |= busy.asks(&shares, share.id());
                tokio::time::advance(Duration::from_millis(1)).await;
            }
            let is_soon = pause <= EXECUTOR_RESERVED.as_millis() as u64;
            assert_eq!(got_back, !is_soon, "seed {seed}, {pause} ms");
            assert_eq!(other.asks(&shares, share.id()), is_soon, "seed {seed}, {pause} ms");
            assert!(other.asks(&shares, share.id()), "it had to be let go of");
            turns += usize::from(is_soon);
            // Operations of this node are of the same order.
            let act = || shares.act(share.id(), |_| ());
            assert_eq!(act(), Err(NotDone::Elsewhere), "one of them has it");
            assert!(act().is_ok(), "it had to let go");
            kept_from += usize::from(!busy.asks(&shares, share.id()));
            tokio::time::advance(EXECUTOR_RESERVED + EXECUTOR_KEPT).await;
            assert!(busy.asks(&shares, share.id()));
            drop(share);
            drop((busy.held.lock().take(), other.held.lock().take()));
            assert!(shares.state.lock().bound.is_empty(), "seed {seed}");
            // A right that is kept for who was refused ends with its memory, and other memory in
            // its place is of nobody.
            let share = shares.share(&words, 0, 64, Access::ALL).unwrap();
            assert!(busy.asks(&shares, share.id()) && !other.asks(&shares, share.id()));
            drop(share);
            let held = busy.held.lock().take();
            drop((held, words));
            for _ in 0..4 {
                let words = Arc::new(Words::zeroed(64).unwrap());
                let share = shares.share(&words, 0, 64, Access::ALL).unwrap();
                assert_eq!(shares.act(share.id(), |_| ()), Ok(()));
            }
        }
        println!("{turns} turns, {kept_from} times a device waited for the node");
        assert!(turns > 50 && kept_from > 50);
    }

    /// SM-3, SM-2: a peer that ignores a recall keeps the right, whoever else asks however often;
    /// the end of the share takes it back.
    #[tokio::test(start_paused = true)]
    async fn a_peer_that_ignores_a_recall_keeps_what_it_has_until_the_share_ends() {
        let shares = Shares::new(Entropy::seeded(1));
        let words = Arc::new(Words::zeroed(64).unwrap());
        let share = shares.share(&words, 0, 64, Access::ALL).unwrap();
        let (deaf, other) = (Link::new("mlx5_0", true), Link::new("mlx5_1", false));
        assert!(deaf.asks(&shares, share.id()));
        for _ in 0..50 {
            assert!(!other.asks(&shares, share.id()));
            assert_eq!(shares.act(share.id(), |_| ()), Err(NotDone::Elsewhere));
            tokio::time::advance(EXECUTOR_KEPT).await;
        }
        assert_eq!(*deaf.recalls.lock(), 100);
        share.end().await;
        assert!(deaf.held.lock().is_none() && shares.state.lock().bound.len() <= 1);
    }
}
