//! One-sided access to the memory of one peer, over the queue pairs of its link.
//!
//! The session carries the [`Sharing`] messages; any task operates by [`Reach::access`] and what
//! that gives. The link's driver brings the outcomes of operations that travel as frames; a task of
//! the link waits for the outcomes of a device.
//!
//! - **RE-1 of the link**: operations, keys and grants end with the link, and a link ends with its
//!   one-sided access. So operations under way are done before any operation over the next link, or
//!   never.
//! - **RE-2 no refusals**: an operation is posted where the owner has granted the share, within its
//!   bytes and with its access. So an honest peer meets a refusal (PV-18) only where the owner did
//!   not wait for it (RE-3).
//! - **RE-3 revocation**: a share that ends is kept granted until the peer says that it has no
//!   operation under way and begins none, or for [`REVOKE_PATIENCE`](limits::REVOKE_PATIENCE),
//!   whether or not its program runs. An operation after that ends the link.
//! - **RE-4 owned**: the slot of an operation is the fabric's until its outcome, whether or not a
//!   task still waits for that.
//! - **RE-5 at rest**: while the link rests (LN-5) no operation is posted; it does not rest while
//!   one is under way, or before a task has made sure of its writes.
//! - **RE-7 not in the way**: memory that is shared, lent or landed in is registered with a device,
//!   and given back to it, by a thread that may block, without the lock: neither the session nor a
//!   driver waits for it. (A message of [`REGISTERED_AT_ONCE_MAX`](limits::REGISTERED_AT_ONCE_MAX)
//!   at most is registered by the driver that sends it, and the memory for operations by the task
//!   that first needs it.) One share is registered at a time. What a link leaves is given back by
//!   one thread, however many grants there were.
//! - **RE-8 written**: where a device executes writes, each side grants the other one a word to
//!   read, its *fence*. A write is done when a read of the fence that was posted after it has its
//!   outcome: then the owner's threads find the written bytes, whatever tells them to look. Without
//!   a fence a write is done with its outcome. A task that has given up the wait for that makes
//!   sure of the write by the outcome of an empty operation, posted after it (PV-14).
//! - **RE-9 in parts otherwise**: a fetch that does not succeed costs its message nothing but that
//!   it comes in parts, and a task that it reads by copies.
//!
//! RE-11 is [`slots`]'.

mod aside;
mod drafting;
mod fetching;
mod granting;
mod lending;
mod operating;
mod pair;
mod requests;
mod saying;
mod slots;
#[cfg(test)]
#[cfg(feature = "sim")]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::mem::take;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use crate::bootstrap::{Denial, Sharing};
use crate::cause::LinkCause;
use crate::fabric::one_sided::{Access, Executor, Key, OneSided};
use crate::id::{NodeName, ShareId};
#[cfg(doc)]
use crate::limits;
use crate::memory::Words;
use crate::mutants::planted;
use crate::shares::Shares;

use aside::drop_aside;
pub(crate) use aside::within;
pub(crate) use drafting::{Drafted, NotStored};
pub(crate) use fetching::Viewed;
use granting::{Granted, Grants};
pub(crate) use lending::{LendingRoom, LentMemory, PeerRoom};
pub(crate) use operating::{Act, NotPosted, Ready, Unfenced, Unready, Wanted};
use pair::Pair;
pub(crate) use pair::{Came, Finished};
pub(crate) use requests::Unexpected;
use saying::Unanswered;

/// One-sided access to the peer of one link.
pub(crate) struct Reach {
    this: Weak<Reach>,
    state: Mutex<State>,
    /// Operations are under way.
    operates: AtomicBool,
    /// Wakes the tasks that wait until the link goes on, or a share was let go of.
    changed: Notify,
    /// Wakes the session, which sends the waiting messages.
    outgoing: Notify,
}

/// The surroundings of one-sided access over one link.
pub(crate) struct Means {
    /// For the log.
    pub(crate) peer: NodeName,
    /// Ends the link: it ends with its one-sided access.
    pub(crate) end_link: EndLink,
    pub(crate) shares: Arc<Shares>,
    /// The bytes that the links to this peer lend and land, one after the other.
    pub(crate) room: PeerRoom,
    /// Where devices are waited for, beside the program's tasks.
    pub(crate) runtime: Handle,
    /// The runtime of this node alone, whose threads may block: neither the program's work nor a
    /// driver that works long at large messages in parts delays them.
    pub(crate) own: Handle,
}

pub(crate) type EndLink = Box<dyn Fn(LinkCause) + Send + Sync>;

#[derive(Default)]
struct State {
    /// `None` before the link is up.
    means: Option<Arc<Means>>,
    /// `None` before the link is up, and from when it fails.
    pair: Option<Box<Pair>>,
    /// The link has ended.
    has_ended: bool,
    /// The word of the peer that is read after writes (RE-8).
    fence: Option<Key>,
    /// Messages to be sent; questions are in `unanswered`.
    outbox: VecDeque<Sharing>,
    /// RE-5.
    resting: bool,
    /// Something was done since the last look.
    used: bool,
    /// Shares of the peer.
    keys: BTreeMap<ShareId, Known>,
    /// Shares of this node.
    grants: Grants,
    /// Shares on which the peer wants atomics, by its executor: to be recalled without the lock.
    recalls: Vec<(ShareId, Executor)>,
    /// ASKs and REVOKEs that have no answer.
    unanswered: [Unanswered; 2],
    lending: lending::LendingState,
}

/// A share of the peer, to this side's knowledge.
enum Known {
    /// It was asked for; these tasks wait.
    Asked(Askers),
    Held {
        terms: Terms,
        /// Operations under way.
        running: usize,
        /// The owner has revoked it.
        is_ending: bool,
        /// It was asked for again, for atomics; these tasks wait.
        again: Option<Askers>,
    },
}

impl Known {
    /// Returns true if it is asked for.
    fn is_asked(&self) -> bool {
        matches!(self, Known::Asked(_) | Known::Held { again: Some(_), .. })
    }

    /// Takes the tasks that have asked for it again.
    fn take_again(&mut self) -> Option<Askers> {
        if let Known::Held { again, .. } = self { again.take() } else { None }
    }
}

/// The terms of a share of the peer.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    key: Key,
    /// Its size in bytes.
    pub(crate) bytes: u64,
    pub(crate) access: Access,
    /// It is shared for atomics, which another executor does.
    pub(crate) is_elsewhere: bool,
}

/// Tasks that wait for a share.
type Askers = Vec<oneshot::Sender<Result<(), Denial>>>;

/// The remains of an ended link, or of ended shares: dropped when the state's lock is free. The
/// parts that a device is slow to give back are dropped by one thread that may block (RE-7).
struct Leftovers {
    pair: Option<Box<Pair>>,
    granted: BTreeMap<ShareId, Granted>,
    /// Tasks that wait for these hear at once, tasks of operations when the pair is gone.
    _keys: BTreeMap<ShareId, Known>,
    means: Option<Arc<Means>>,
}

impl Leftovers {
    /// Grants that have ended.
    fn of_grants(granted: BTreeMap<ShareId, Granted>, means: Option<&Arc<Means>>) -> Self {
        Leftovers { pair: None, granted, _keys: BTreeMap::new(), means: means.cloned() }
    }
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        let mut pair = self.pair.take();
        if let Some(pair) = &mut pair {
            pair.close();
            if planted!(EarlyUnknown) {
                pair.posted.clear();
            }
        }
        let grants = take(&mut self.granted).into_values();
        let grants: Vec<_> = grants.filter_map(|mut granted| granted.take()).collect();
        let is_slow = pair.as_ref().is_some_and(|pair| pair.one_sided.is_slow());
        if (is_slow || grants.iter().any(|(grant, _)| grant.is_slow()))
            && let Some(means) = &self.means
        {
            drop_aside(&means.own, (pair, grants));
        }
    }
}

impl State {
    /// Ends with the link, and all that belongs to it (RE-1).
    fn leave(&mut self) -> Leftovers {
        self.unanswered = Default::default();
        self.outbox.clear();
        let (pair, granted) = (self.pair.take(), self.grants.leave());
        Leftovers { pair, granted, _keys: take(&mut self.keys), means: self.means.clone() }
    }

    /// Returns true if nothing is under way.
    fn is_unused(&self) -> bool {
        let pair = self.pair.as_ref();
        let idle = pair.is_none_or(|pair| pair.posted.is_empty() && pair.unfenced == 0);
        let asks = self.keys.values().any(Known::is_asked);
        let is_granting = self.grants.is_asked();
        idle && !self.speaks() && !asks && !is_granting && self.lending.moving == 0
    }
}

impl Reach {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new_cyclic(|this| Reach {
            this: this.clone(),
            state: Mutex::default(),
            operates: AtomicBool::new(false),
            changed: Notify::new(),
            outgoing: Notify::new(),
        })
    }

    /// Begins with the link, before any other task has that.
    pub(crate) fn begin(self: &Arc<Self>, one_sided: Box<dyn OneSided>, means: Means) {
        let means = Arc::new(means);
        let mut pair = Box::new(Pair::new(self, &means, one_sided));
        let state = &mut *self.state.lock();
        // RE-8. (Where there is no memory for a word there is none to share either.)
        if let Executor::Device(_) = pair.one_sided.executor()
            && let Some(words) = Words::zeroed(pair::FENCE_BYTES as usize)
        {
            let granting =
                pair.one_sided.grant(&Arc::new(words), 0, pair::FENCE_BYTES, Access::READ);
            if let Ok(fence) = granting.finish() {
                state.outbox.push_back(Sharing::Fence(fence.key()));
                pair.fence = Some(fence);
            }
        }
        (state.means, state.pair) = (Some(means), Some(pair));
    }

    /// Gives back memory in which nothing has landed for a while. Called now and then.
    pub(crate) fn look(&self) {
        let unused = match &mut self.state.lock().pair {
            Some(pair) => pair.landing.take_unused(),
            None => return,
        };
        drop(self.free(unused));
    }

    /// Returns true if operations are under way: outcomes may have come.
    #[inline]
    pub(crate) fn operates(&self) -> bool {
        self.operates.load(Ordering::Acquire)
    }

    /// Begins a rest, if nothing is under way (RE-5). Returns true if it rests.
    pub(crate) fn rest(&self) -> bool {
        let mut state = self.state.lock();
        state.resting |= state.is_unused();
        state.resting
    }

    /// Ends a rest.
    pub(crate) fn end_rest(&self) {
        self.state.lock().resting = false;
        self.changed.notify_waiters();
    }

    /// Returns true if something is under way, or was done since the last call.
    pub(crate) fn take_use(&self) -> bool {
        let mut state = self.state.lock();
        take(&mut state.used) || !state.is_unused()
    }

    /// Returns the executor of the atomics that the peer may do on memory of this node, if any.
    #[cfg(test)]
    pub(crate) fn atomic_executor(&self) -> Option<Executor> {
        let state = self.state.lock();
        let pair = state.pair.as_ref()?;
        state.grants.is_any_atomic().then(|| pair.one_sided.executor())
    }

    /// Ends the access, as a device does that has failed.
    #[cfg(test)]
    pub(crate) fn fail_queue_pair(&self) -> bool {
        match &mut self.state.lock().pair {
            Some(pair) => {
                pair.one_sided.close();
                true
            }
            None => false,
        }
    }

    /// Returns the bytes of memory in which something of the peer lands, or has.
    #[cfg(test)]
    pub(crate) fn landing_bytes(&self) -> u64 {
        self.state.lock().means.as_ref().map_or(0, |means| means.room.landing.taken())
    }

    /// Ends it with its link. Operations that are under way have an unknown end.
    pub(crate) fn end(&self) {
        let leftovers = {
            let mut state = self.state.lock();
            state.has_ended = true;
            self.operates.store(false, Ordering::Release);
            state.leave()
        };
        drop(leftovers);
        self.changed.notify_waiters();
    }
}
