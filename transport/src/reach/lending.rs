//! Large messages that are lent to the peer (RE-9).

use std::mem::replace;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::aside::drop_aside;
use super::{Means, Reach, State};
use crate::fabric::FabricError;
use crate::fabric::one_sided::{Grant, Key, Making};
use crate::limits::REGISTERED_AT_ONCE_MAX;
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

/// The room that links to one peer have, one after the other, for bytes lent and landed.
#[derive(Clone)]
pub(crate) struct PeerRoom {
    pub(super) lent: Account,
    pub(super) landing: Account,
    /// The bytes of what lands that tasks view.
    pub(super) viewed: Account,
}

impl PeerRoom {
    /// Returns true if nothing of it is taken.
    pub(crate) fn is_unused(&self) -> bool {
        let bytes = [&self.lent, &self.landing, &self.viewed];
        bytes.iter().all(|account| account.taken() == 0)
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
    /// The log says why large messages go in parts.
    has_warned: bool,
}

impl Reach {
    /// Lends a message to the peer. Returns the result; `None` if a device takes its time, and
    /// `done` is called with it later.
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
        let pair = state.pair.as_mut().ok_or(NotLent::NotYet)?;
        state.used = true;
        let taken = means.room.lent.take(body.len() as u64).ok_or(NotLent::Full)?;
        Ok((pair.one_sided.lend(body), Loan { taken, means }))
    }

    /// Takes the result of registering a message, on a thread that may block if that was slow.
    fn note_lent(
        &self,
        Loan { taken, means }: Loan,
        made: Result<Grant, FabricError>,
    ) -> Result<LentMemory, NotLent> {
        let grant = match made {
            Ok(grant) => grant,
            Err(error) => return Err(self.state.lock().warn_of_parts(&error.to_string())),
        };
        let Key { number, base } = grant.key();
        let registered = Registered { held: Some((grant, taken)), runtime: means.own.clone() };
        // It belongs to the link, which may have ended meanwhile (RE-1).
        if self.state.lock().pair.is_none() {
            return Err(NotLent::NotYet);
        }
        Ok((LentAt { key: (number, base) }, Arc::new(registered)))
    }
}

/// A message that is being registered.
struct Loan {
    taken: BudgetShare,
    means: Arc<Means>,
}

impl State {
    /// Unlocks memory of which no slot is left, by a thread that may block. The returned handle is
    /// ready when that is done.
    pub(super) fn drop_unused(&mut self) -> Option<JoinHandle<()>> {
        let unused = self.pair.as_mut().and_then(|pair| pair.one_sided.take_unused())?;
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
