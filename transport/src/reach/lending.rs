//! Large messages that are lent to the peer (RE-9).

use std::mem::replace;
use std::sync::{Arc, Weak};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::aside::drop_aside;
use super::{Means, Reach, Since, Stage, State};
use crate::fabric::FabricError;
use crate::fabric::one_sided::{Grant, Key, Making};
use crate::limits::{LOAN_PATIENCE, REGISTERED_AT_ONCE_MAX};
use crate::log;
use crate::memory::{Account, Budget, BudgetShare, Buffer};
use crate::profile::Lending;
use crate::proto::loans::{Held, LentAt, NotLent};

/// The bytes that all links of a node lend and land together.
pub(crate) struct LendingRoom {
    lent: Arc<Budget>,
    landing: Arc<Budget>,
    /// The part of what lands that tasks may view.
    viewed: Arc<Budget>,
}

/// The room that links to one peer have, one after the other: for bytes lent and landed, and for
/// their queue pair.
#[derive(Clone)]
pub(crate) struct PeerRoom {
    /// One permit, held by a queue pair from before it is made until it is gone (RE-13).
    pub(super) place: Arc<Semaphore>,
    pub(super) lent: Account,
    pub(super) landing: Account,
    /// The bytes of what lands that tasks view.
    pub(super) viewed: Account,
}

impl PeerRoom {
    /// Returns true if nothing of it is taken.
    pub(crate) fn is_unused(&self) -> bool {
        let bytes = [&self.lent, &self.landing, &self.viewed];
        self.place.available_permits() > 0 && bytes.iter().all(|account| account.taken() == 0)
    }
}

impl LendingRoom {
    /// Room for as much as a node's profile says.
    pub(crate) fn new(lending: &Lending) -> Self {
        let new = |bytes| Arc::new(Budget::new(bytes));
        LendingRoom {
            lent: new(lending.lent_bytes_max),
            landing: new(lending.landing_bytes_max),
            viewed: new(lending.landing_bytes_max / 2),
        }
    }

    /// Returns the room of a peer that has none yet.
    pub(crate) fn of_peer(&self) -> PeerRoom {
        PeerRoom {
            place: Arc::new(Semaphore::new(1)),
            lent: Account::new(&self.lent),
            landing: Account::new(&self.landing),
            viewed: Account::new(&self.viewed),
        }
    }
}

/// A place that a message is lent at, and what keeps it there.
pub(crate) type LentMemory = (LentAt, Held);

/// Memory that is lent as long as this lives. Dropping it takes no more time than RE-7 says.
pub(super) struct Registered {
    held: Option<(Grant, BudgetShare)>,
    /// The queue pair by which it is lent, and since when it is.
    number: u32,
    since: Since,
    runtime: Handle,
}

impl Drop for Registered {
    fn drop(&mut self) {
        if let Some(held) = self.held.take()
            && held.0.is_slow()
        {
            drop_aside(&self.runtime, held);
        }
    }
}

/// The state of lending and fetching.
#[derive(Default)]
pub(super) struct LendingState {
    /// Messages, views and drafts under way, or for which memory is being made.
    pub(super) moving: usize,
    /// Messages that are lent to it.
    lent: Vec<Weak<Registered>>,
    /// The failures of queue pairs to come up that were taken note of.
    failures: u64,
    /// The log says why large messages go in parts.
    has_warned: bool,
}

impl LendingState {
    /// Returns true if the peer has something lent.
    pub(super) fn is_lending(&self) -> bool {
        self.lent.iter().any(|lent| lent.strong_count() > 0)
    }
}

impl Reach {
    /// Lends a message to the peer. If there is no queue pair yet, one is opened for the next
    /// messages. Returns the result; `None` if a device takes its time, and `done` is called with
    /// it later.
    pub(crate) fn lend(
        self: &Arc<Self>,
        body: &Arc<Buffer>,
        done: impl FnOnce(Result<LentMemory, NotLent>) + Send + 'static,
    ) -> Option<Result<LentMemory, NotLent>> {
        let (making, loan) = match self.begin_to_lend(body) {
            Ok(begun) => begun,
            Err(why) => return Some(Err(why)),
        };
        match making {
            Making::Done(made) => Some(self.note_lent(loan, made)),
            Making::Slow(make) if body.len() <= REGISTERED_AT_ONCE_MAX => {
                Some(self.note_lent(loan, make()))
            }
            Making::Slow(make) => {
                // RE-7.
                let (reach, done) = (self.clone(), Done::new(done));
                let runtime = loan.means.own.clone();
                runtime.spawn_blocking(move || done.call(reach.note_lent(loan, make())));
                None
            }
        }
    }

    fn begin_to_lend(
        self: &Arc<Self>,
        body: &Arc<Buffer>,
    ) -> Result<(Making<Grant>, Loan), NotLent> {
        let state = &mut *self.state.lock();
        let means = state.means.clone().filter(|_| !state.resting).ok_or(NotLent::NotYet)?;
        let number = state.number;
        match &mut state.stage {
            Stage::Connected(pair) if state.peer_connected => {
                state.used = true;
                let bytes = body.len() as u64;
                let taken = means.room.lent.take(bytes).ok_or(NotLent::Full)?;
                Ok((pair.one_sided.lend(body), Loan { number, taken, means }))
            }
            // The last one did not come up. (LO-3: the next message tries after a pause.)
            Stage::Closed
                if replace(&mut state.lending.failures, state.failures) != state.failures =>
            {
                let reason = state.trouble.clone();
                Err(state.warn_of_parts(&reason))
            }
            Stage::Closed => {
                self.begin(state, &means);
                self.outgoing.notify_one();
                Err(NotLent::NotYet)
            }
            _ => Err(NotLent::NotYet),
        }
    }

    /// Takes the result of registering a message, on a thread that may block if that was slow.
    fn note_lent(
        &self,
        Loan { number, taken, means }: Loan,
        made: Result<Grant, FabricError>,
    ) -> Result<LentMemory, NotLent> {
        let grant = match made {
            Ok(grant) => grant,
            Err(error) => return Err(self.state.lock().warn_of_parts(&error.to_string())),
        };
        let Key { number: key, base } = grant.key();
        let runtime = means.own.clone();
        let since = self.state.lock().patience.now();
        let registered = Registered { held: Some((grant, taken)), number, since, runtime };
        let registered = Arc::new(registered);
        {
            let state = &mut *self.state.lock();
            // RE-1: it belongs to a queue pair that may have ended meanwhile.
            if state.pair(number).is_none() {
                return Err(NotLent::NotYet);
            }
            let lent = &mut state.lending.lent;
            lent.retain(|lent| lent.strong_count() > 0);
            lent.push(Arc::downgrade(&registered));
        }
        Ok((LentAt { pair: number, key: (key, base) }, registered))
    }

    /// Gives up the queue pair by which the peer has something lent of which it says nothing
    /// (LO-4). Where there is something to be taken back, returns the number below which
    /// all queue pairs have ended.
    pub(super) fn give_up_overdue(&self) -> Option<u32> {
        // (Overdue memory may be let go of meanwhile, and is then dropped here: without the lock.)
        let (leftovers, ended_before, _overdue) = {
            let state = &mut *self.state.lock();
            let lent = state.lending.lent.iter().filter_map(Weak::upgrade);
            let overdue: Vec<_> = lent
                .filter(|lent| state.patience.is_over_by_driver(lent.since, LOAN_PATIENCE))
                .collect();
            // By an earlier queue pair nothing is read any more.
            let number = state.number;
            let is_open = state.pair(number).is_some();
            let ends = is_open && overdue.iter().any(|lent| lent.number == number);
            let leftovers = ends.then(|| {
                let reason = "a message was lent for too long without an answer".into();
                state.give_up(reason, true)
            });
            let ended_before = if is_open && !ends { number } else { number.saturating_add(1) };
            (leftovers, (!overdue.is_empty()).then_some(ended_before), overdue)
        };
        if leftovers.is_some() {
            self.tell_change();
        }
        drop(leftovers);
        ended_before
    }
}

/// A message that is being registered, for a queue pair.
struct Loan {
    number: u32,
    taken: BudgetShare,
    means: Arc<Means>,
}

impl State {
    /// Unlocks memory of which no slot is left, by a thread that may block. The returned handle is
    /// ready when that is done.
    pub(super) fn drop_unused(&mut self) -> Option<JoinHandle<()>> {
        let number = self.number;
        let unused = self.pair(number).and_then(|pair| pair.one_sided.take_unused())?;
        self.means.as_ref().map(|means| drop_aside(&means.own, unused))
    }

    /// Says, once for each link, why large messages go in parts.
    pub(super) fn warn_of_parts(&mut self, reason: &str) -> NotLent {
        if !replace(&mut self.lending.has_warned, true) {
            let peer = self.means.as_ref().map(|means| means.peer.as_str());
            log::warn!(peer, %reason, "a large message goes in parts: it could not be lent");
        }
        NotLent::Failed
    }
}

/// The function to be called when a fetch has ended, or a message was registered, in whatever way.
pub(super) struct Done<T>(Option<Tell<T>>);

type Tell<T> = Box<dyn FnOnce(Result<T, NotLent>) + Send>;

impl<T> Done<T> {
    pub(super) fn new(done: impl FnOnce(Result<T, NotLent>) + Send + 'static) -> Self {
        Done(Some(Box::new(done)))
    }

    pub(super) fn call(mut self, outcome: Result<T, NotLent>) {
        if let Some(done) = self.0.take() {
            done(outcome);
        }
    }
}

impl<T> Drop for Done<T> {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done(Err(NotLent::Failed));
        }
    }
}
