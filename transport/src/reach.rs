//! One-sided access to one peer: a queue pair beside the link, opened when it is first used.
//!
//! The session carries the [`Sharing`] messages, a task of its own drives the queue pair, and any
//! task operates by [`Reach::access`] and what that gives.
//!
//! - **RE-1 one queue pair**: there is one at most. The side that dialled numbers and offers it,
//!   the other one asks it to. Keys, grants and operations belong to a queue pair and end with it;
//!   a side whose queue pair has ended says so (UNABLE) before it says anything of the next one,
//!   unless the peer has gone on to that itself.
//! - **RE-2 no refusals**: an operation is posted where the owner has granted the share, within its
//!   bytes and with its access. So an honest peer meets a refusal (PV-18) only where the owner did
//!   not wait for it (RE-3).
//! - **RE-3 revocation**: a share that ends is kept granted until the peer says that it has no
//!   operation under way and begins none, or for [`REVOKE_PATIENCE`](limits::REVOKE_PATIENCE),
//!   whether or not its program runs.
//! - **RE-4 owned**: the slot of an operation is the queue pair's until its outcome, whether or not
//!   a task still waits for that.
//! - **RE-5 at rest**: while the link rests (LN-5) no operation is posted; it does not rest while
//!   one is under way, or before a task has made sure of its writes.
//! - **RE-6 never stuck**: a queue pair on which operations wait and none ends, while the link
//!   lives, is given up after [`ONE_SIDED_PATIENCE`](limits::ONE_SIDED_PATIENCE), and likewise if
//!   the peer answers no ASK. Slower work has more time: a queue pair that is being made
//!   [`OPENING_PATIENCE`](limits::OPENING_PATIENCE), and operations under way on a share that is
//!   taken back [`DRAINING_PATIENCE`](limits::DRAINING_PATIENCE).
//! - **RE-7 not in the way**: memory that is shared, lent or landed in is registered with a device,
//!   and given back to it, by a thread that may block, without the lock: neither the session nor a
//!   driver waits for it. (A message of [`REGISTERED_AT_ONCE_MAX`](limits::REGISTERED_AT_ONCE_MAX)
//!   at most is registered by the driver that sends it, and given back by it, which is sooner done
//!   than another thread is woken: without the lock, too.) One share is registered at a
//!   time, and a peer that waits for one hears LATER meanwhile. What a queue pair leaves is given
//!   back by one thread, however many grants there were.
//! - **RE-8 written**: where a device executes writes, each side grants the other one a word to
//!   read, its *fence*. A write is done when a read of the fence that was posted after it has its
//!   outcome: then the owner's threads find the written bytes, whatever tells them to look. Without
//!   a fence a write is done with its outcome. A task that has given up the wait for that makes
//!   sure of the write by the outcome of an empty operation, posted after it (PV-14).
//! - **RE-9 lent only where it is there**: a message is lent over a queue pair that both sides have
//!   connected, and none waits for one to be opened. A fetch that does not succeed costs its
//!   message nothing but that it comes in parts, and a task that it reads by copies.
//! - **RE-10 one at a time**: a queue pair is made when it has its place. So a peer that offers one
//!   after the other has one, and one thread of this node that may block to make, to connect or to
//!   destroy it. A later message of the peer replaces the queue pair that waits for the place. It
//!   does not fill the outbox either: unsent messages about a queue pair are dropped with it.
//! - **RE-13 one after the other**: a side has one place for each peer, which a queue pair takes
//!   before it is made and gives back when it is gone, even across links. So operations under way
//!   on a queue pair are done before any operation of the next one, or never.
//!
//! RE-11 is [`slots`]', RE-12 [`patience`]'s.

mod aside;
mod connecting;
mod drafting;
mod fetching;
mod granting;
mod lending;
mod operating;
mod pair;
mod patience;
mod requests;
mod saying;
mod slots;
#[cfg(test)]
#[cfg(feature = "sim")]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::mem::{replace, take};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::bootstrap::{Denial, Sharing};
use crate::fabric::one_sided::{Access, Executor, Key};
use crate::fabric::{Fabric, Side};
use crate::id::{NodeName, ShareId};
#[cfg(doc)]
use crate::limits;
use crate::mutants::planted;
use crate::shares::Shares;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

use aside::drop_aside;
pub(crate) use aside::within;
use connecting::Opened;
pub(crate) use drafting::{Drafted, NotStored};
pub(crate) use fetching::Viewed;
use granting::{Granted, Grants};
pub(crate) use lending::{LendingRoom, LentMemory, PeerRoom};
pub(crate) use operating::{Act, NotPosted, Ready, Unfenced, Unready, Wanted};
use pair::Pair;
pub(crate) use pair::{Came, Finished};
use patience::{Patience, Since};
pub(crate) use requests::Unexpected;
use saying::Unanswered;

/// One-sided access to the peer of one link.
pub(crate) struct Reach {
    this: Weak<Reach>,
    state: Mutex<State>,
    /// Wakes the tasks that wait for another stage.
    changed: Notify,
    /// Wakes the session, which sends the waiting messages.
    outgoing: Notify,
}

/// The means of a link to connect a queue pair for one-sided access.
pub(crate) struct Means {
    /// For the log.
    pub(crate) peer: NodeName,
    pub(crate) fabric: Arc<dyn Fabric>,
    /// The number of the link's way to the peer, which leads there: another one may not.
    pub(crate) way: Option<u32>,
    pub(crate) side: Side,
    /// Bytes that both sides of this link know, and no other link has.
    pub(crate) binding: Vec<u8>,
    pub(crate) shares: Arc<Shares>,
    /// The bytes that the links to this peer lend and land, one after the other.
    pub(crate) room: PeerRoom,
    /// Where queue pairs are driven, beside the program's tasks.
    pub(crate) runtime: Handle,
    /// The runtime of this node alone, where queue pairs are made: neither the program's work nor a
    /// driver that works long at large messages in parts delays them. Its blocking threads are the
    /// node's, too: the program's may all wait for work that is done here.
    pub(crate) own: Handle,
}

#[derive(Default)]
struct State {
    /// `None` before the link is up.
    means: Option<Arc<Means>>,
    stage: Stage,
    /// The number of the last queue pair (RE-1).
    number: u32,
    /// The peer's side of it is connected.
    peer_connected: bool,
    /// The word of the peer that is read after writes (RE-8).
    fence: Option<Key>,
    /// Messages to be sent; questions are in `unanswered`.
    outbox: VecDeque<Sharing>,
    /// RE-5.
    resting: bool,
    /// Something was done since the last look.
    used: bool,
    /// Queue pairs that did not come up, and why the last one did not.
    failures: u64,
    trouble: String,
    /// Shares of the peer.
    keys: BTreeMap<ShareId, Known>,
    /// Shares of this node.
    grants: Grants,
    /// Shares on which the peer wants atomics, by its executor: to be recalled without the lock.
    recalls: Vec<(ShareId, Executor)>,
    /// ASKs and REVOKEs that have no answer.
    unanswered: [Unanswered; 2],
    patience: Patience,
    lending: lending::LendingState,
}

#[derive(Default)]
enum Stage {
    /// There is no queue pair: it is opened at the next use.
    #[default]
    Closed,
    /// The side that dialled is asked to open one, since then.
    Wanted(Since),
    /// One is made since then, to be offered.
    Opening {
        since: Since,
        _task: Task,
    },
    /// It is offered, and the peer has not answered since then.
    Offered(Since, Opened),
    Connecting(Since, Task),
    /// It is connected, and usable once the peer's is, too.
    Connected(Box<Pair>),
    /// The peer cannot share memory: its version does not know how.
    Barred,
    /// The link has ended.
    Ended,
}

/// A task that ends when this is dropped.
struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
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

    /// Returns true if it is let go of when the operations under way on it have ended.
    fn is_draining(&self) -> bool {
        matches!(self, Known::Held { is_ending: true, .. })
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

/// The remains of a queue pair: dropped when the state's lock is free. The parts that a device is
/// slow to give back are dropped by one thread that may block (RE-7).
struct Leftovers {
    stage: Stage,
    granted: BTreeMap<ShareId, Granted>,
    /// Tasks that wait for these hear at once, tasks of operations when the queue pair is gone.
    _keys: BTreeMap<ShareId, Known>,
    means: Option<Arc<Means>>,
}

impl Leftovers {
    /// Grants that have ended.
    fn of_grants(granted: BTreeMap<ShareId, Granted>, means: Option<&Arc<Means>>) -> Self {
        let (stage, _keys, means) = (Stage::Closed, BTreeMap::new(), means.cloned());
        Leftovers { stage, granted, _keys, means }
    }
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        let mut stage = take(&mut self.stage);
        if let Stage::Connected(pair) = &mut stage {
            pair.close();
            if planted!(EarlyUnknown) {
                pair.posted.clear();
            }
        }
        let grants = take(&mut self.granted).into_values();
        let grants: Vec<_> = grants.filter_map(|mut granted| granted.take()).collect();
        let is_slow = match &stage {
            Stage::Connected(pair) => pair.one_sided.is_slow(),
            _ => false,
        };
        if (is_slow || grants.iter().any(|(grant, _)| grant.is_slow()))
            && let Some(means) = &self.means
        {
            drop_aside(&means.own, (stage, grants));
        }
    }
}

impl State {
    /// Returns the queue pair of this number.
    fn pair(&mut self, number: u32) -> Option<&mut Pair> {
        match &mut self.stage {
            Stage::Connected(pair) if self.number == number => Some(pair),
            _ => None,
        }
    }

    /// Ends the queue pair, and all that belongs to it (RE-1).
    fn leave(&mut self, stage: Stage) -> Leftovers {
        (self.peer_connected, self.fence) = (false, None);
        self.unanswered = Default::default();
        self.patience.forget_driver();
        // All other messages are about the queue pair that ends here.
        self.outbox.retain(Sharing::is_unable);
        let (stage, granted) = (replace(&mut self.stage, stage), self.grants.leave());
        Leftovers { stage, granted, _keys: take(&mut self.keys), means: self.means.clone() }
    }

    /// Ends the queue pair for a reason of this side, and tells the peer (RE-1). A queue pair that
    /// was never usable counts as a failure to come up, so that tasks that wait for it have an
    /// error; so does a queue pair that `was_silent`, for the next one may be, too.
    fn give_up(&mut self, reason: String, was_silent: bool) -> Leftovers {
        if was_silent || !self.is_usable() {
            self.note_failure(reason.clone());
        }
        let number = self.number;
        let leftovers = self.leave(Stage::Closed);
        self.say_unable(number, reason);
        leftovers
    }

    /// Tells the peer that there is no queue pair of this number. Of the unsent messages of this
    /// kind only the first and the newest are kept: the peer may have the first one's queue pair,
    /// and may wait for the last one's (RE-10).
    fn say_unable(&mut self, number: u32, reason: String) {
        let mut unable = self.outbox.iter().enumerate().filter(|(_, said)| said.is_unable());
        if let (Some(_), Some((last, _))) = (unable.next(), unable.next_back()) {
            self.outbox.remove(last);
        }
        self.outbox.push_back(Sharing::Unable { number, reason });
    }

    fn is_usable(&self) -> bool {
        self.peer_connected && matches!(self.stage, Stage::Connected(_))
    }

    /// Records that a queue pair did not come up.
    fn note_failure(&mut self, reason: String) {
        self.failures += 1;
        self.trouble = reason;
    }

    /// Returns true if nothing is under way.
    fn is_unused(&self) -> bool {
        let idle = match &self.stage {
            Stage::Closed | Stage::Barred | Stage::Ended => true,
            Stage::Connected(pair) => {
                self.peer_connected && pair.posted.is_empty() && pair.unfenced == 0
            }
            Stage::Wanted(_)
            | Stage::Opening { .. }
            | Stage::Offered(..)
            | Stage::Connecting(..) => false,
        };
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
            changed: Notify::new(),
            outgoing: Notify::new(),
        })
    }

    /// Gives it its means, before the link is up.
    pub(crate) fn attach(&self, means: Means) {
        self.state.lock().means = Some(Arc::new(means));
    }

    /// Tells in which interval the peer's heartbeats come, which say whether its driver runs
    /// (RE-12).
    pub(crate) fn expect_beats(&self, interval: Duration) {
        self.state.lock().patience.expect_beats(interval);
    }

    /// Bars it, before the link is up: the peer does not know SHARING.
    pub(crate) fn bar(&self) {
        self.state.lock().stage = Stage::Barred;
    }

    /// Returns the time of the last look.
    #[cfg(test)]
    pub(crate) fn looked(&self) -> Option<tokio::time::Instant> {
        self.state.lock().patience.looked
    }

    /// Gives up a queue pair that brings nothing (RE-6), and has a peer that waits wait on (RE-7).
    /// Where loans are to be taken back, too (LO-4), returns the number below which all queue pairs
    /// have ended. `peer_runs` says whether the peer's driver does (RE-12).
    pub(crate) fn look(&self, peer_runs: bool) -> Option<u32> {
        let driver = {
            let state = &mut *self.state.lock();
            let waits = state.waits();
            state.patience.look(peer_runs).filter(|_| waits)
        };
        self.give_up_stuck();
        let ended_before = self.give_up_overdue();
        self.free_landing();
        if self.state.lock().reassure() {
            self.outgoing.notify_one();
        }
        if let Some(driver) = driver {
            driver.wake();
        }
        ended_before
    }

    /// Wakes the session to send the messages, and the waiting tasks to look again.
    fn tell_change(&self) {
        self.outgoing.notify_one();
        self.changed.notify_waiters();
    }

    /// Gives back memory in which nothing has landed for a while.
    fn free_landing(&self) {
        let unused = match &mut self.state.lock().stage {
            Stage::Connected(pair) => pair.landing.take_unused(),
            _ => Vec::new(),
        };
        drop(self.free(unused));
    }

    fn give_up_stuck(&self) {
        let mut state = self.state.lock();
        if state.is_stuck() {
            let leftovers = state.give_up("nothing came of it for too long".into(), true);
            drop(state);
            drop(leftovers);
            self.tell_change();
        }
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
        let Stage::Connected(pair) = &state.stage else { return None };
        state.grants.is_any_atomic().then(|| pair.one_sided.executor())
    }

    /// Ends the queue pair, as a device does that has failed.
    #[cfg(test)]
    pub(crate) fn fail_queue_pair(&self) -> bool {
        match &mut self.state.lock().stage {
            Stage::Connected(pair) => {
                pair.one_sided.close();
                true
            }
            _ => false,
        }
    }

    /// Returns the bytes of memory in which something of the peer lands, or has.
    #[cfg(test)]
    pub(crate) fn landing_bytes(&self) -> u64 {
        self.state.lock().means.as_ref().map_or(0, |means| means.room.landing.taken())
    }

    /// Returns how many queue pairs there have been, as far as this side knows.
    #[cfg(test)]
    pub(crate) fn queue_pairs(&self) -> u32 {
        self.state.lock().number
    }

    /// Ends it with its link. Operations that are under way have an unknown end.
    pub(crate) fn end(&self) {
        let leftovers = self.state.lock().leave(Stage::Ended);
        drop(leftovers);
        self.changed.notify_waiters();
    }
}
