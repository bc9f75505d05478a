//! Large messages: lent to the peer, and fetched from it (RE-9).

use std::collections::VecDeque;
use std::mem::replace;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;

use super::aside::{drop_aside, made};
use super::pair::{Fetched, Posted, Purpose};
use super::{Means, Reach, Stage, State};
use crate::fabric::one_sided::{Grant, Key, Kind, Making, Operation};
use crate::fabric::{FabricError, Status};
use crate::limits::{FETCH_BYTES, REGISTERED_AT_ONCE_MAX};
use crate::memory::{Budget, BudgetShare, Buffer, Lease, Room, Runway, Slot};
use crate::profile::Lending;
use crate::proto::fetches::Lent;
use crate::proto::loans::{Held, LentAt, NotLent};

/// The bytes that all links of a node lend and land together.
#[derive(Clone)]
pub(crate) struct LendingRoom {
    pub(crate) lent: Arc<Budget>,
    pub(crate) landing: Arc<Budget>,
}

impl LendingRoom {
    /// Room for as much as a node's profile says.
    pub(crate) fn new(lending: &Lending) -> Self {
        let new = |bytes| Arc::new(Budget::new(bytes));
        LendingRoom { lent: new(lending.lent_bytes_max), landing: new(lending.landing_bytes_max) }
    }
}

/// A place that a message is lent at, and what keeps it there.
pub(crate) type LentMemory = (LentAt, Held);

/// Memory that is lent as long as this lives. Dropping it takes no time (RE-7).
struct Registered {
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
    /// Messages of the peer that are being fetched.
    pub(super) fetching: usize,
    /// The failures of queue pairs to come up that were taken note of.
    failures: u64,
    /// The log says why large messages go in parts.
    has_warned: bool,
}

impl Reach {
    /// Lends a message to the peer. Where there is no queue pair yet, one is opened for the next
    /// messages. Returns what came of it, or `None`: then a device takes its time, and `done` is
    /// called with that later.
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
                let runtime = loan.means.blocking.clone();
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
                let taken = means.room.lent.take_first(bytes, 0).ok_or(NotLent::Full)?;
                Ok((pair.one_sided.lend(body), Loan { number, taken, means }))
            }
            // The last one did not come up: the next one is opened after a pause.
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

    /// Takes what came of registering a message, by a thread that may block where that is slow.
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
        let runtime = means.blocking.clone();
        let registered = Registered { held: Some((grant, taken)), runtime };
        // RE-1: it belongs to a queue pair that may have ended meanwhile.
        if self.state.lock().pair(number).is_none() {
            return Err(NotLent::NotYet);
        }
        Ok((LentAt { pair: number, key: (key, base) }, Arc::new(registered)))
    }

    /// Fetches a message that the peer has lent, and calls `done` with what came of it.
    pub(crate) fn fetch(
        self: &Arc<Self>,
        lent: Lent,
        done: impl FnOnce(Result<Lease, NotLent>) + Send + 'static,
    ) {
        let done = Done::new(done);
        let means = self.state.lock().means.clone();
        let Some(means) = means else { return };
        let fetching = Fetching::new(self.clone());
        means.runtime.spawn(async move {
            let fetched = fetching.0.fetch_all(lent).await;
            drop(fetching);
            done.call(fetched);
        });
    }

    async fn fetch_all(&self, lent: Lent) -> Result<Lease, NotLent> {
        let (runway, room) = self.runway(&lent).await?;
        let size = runway.size();
        let fetched = self.fetch_into(runway, &room, &lent).await;
        if fetched.is_err() {
            self.lose(lent.at.pair, size);
        }
        fetched
    }

    /// Records that nothing lands in memory of this size, which is gone.
    fn lose(&self, number: u32, size: usize) {
        let mut state = self.state.lock();
        if let Some(pair) = state.pair(number) {
            pair.landing.lose(size);
            state.drop_unused();
        }
    }

    /// Frees memory in which nothing lands any more.
    pub(super) fn free(&self, slots: Vec<Slot>) {
        if !slots.is_empty() {
            drop(slots);
            self.state.lock().drop_unused();
        }
    }

    /// Fetches a message. When it fails no read of it is under way any more (LO-1).
    async fn fetch_into(
        &self,
        mut runway: Runway,
        room: &Arc<Semaphore>,
        lent: &Lent,
    ) -> Result<Lease, NotLent> {
        let bytes = lent.bytes as usize;
        // The slot beyond the message is not read into.
        let (mut rest, mut beyond) = (Some(runway.slot), None);
        let end = bytes.next_multiple_of(16);
        if let Some(slot) = rest.take_if(|slot| end < slot.len()) {
            let (front, back) = slot.split(end);
            (rest, beyond) = (Some(front), Some(back));
        }
        let mut parts = VecDeque::new();
        let mut at = 0;
        let mut failed = false;
        while !failed && let Some(slot) = rest.take() {
            let part = if slot.len() > FETCH_BYTES {
                let (front, back) = slot.split(FETCH_BYTES);
                rest = Some(back);
                front
            } else {
                slot
            };
            let wanted = part.len().min(bytes - at);
            let posted = self.post_fetch(lent, (at, wanted), part, room).await;
            failed = posted.is_err();
            parts.extend(posted);
            at += wanted;
        }
        let mut whole: Option<Slot> = None;
        for part in parts {
            match part.await {
                Ok((Status::Success, slot)) if !failed => whole = Some(join(whole, slot)?),
                _ => failed = true,
            }
        }
        if failed {
            return Err(NotLent::Failed);
        }
        if let Some(beyond) = beyond {
            whole = Some(join(whole, beyond)?);
        }
        runway.slot = whole.ok_or(NotLent::Failed)?;
        let mut state = self.state.lock();
        let pair = state.pair(lent.at.pair).ok_or(NotLent::Failed)?;
        pair.landing.lease(runway, bytes).ok_or(NotLent::Failed)
    }

    /// Returns memory for a message, and the room for operations of the queue pair by which it is
    /// lent. New memory is registered by a thread that may block (RE-7).
    async fn runway(&self, lent: &Lent) -> Result<(Runway, Arc<Semaphore>), NotLent> {
        let number = lent.at.pair;
        let mut freed = Vec::new();
        let found = {
            let state = &mut *self.state.lock();
            let means = state.means.clone().ok_or(NotLent::Failed)?;
            let pair = state.pair(number).ok_or(NotLent::Failed)?;
            let room = pair.fetch_room.clone();
            if let Some(runway) = pair.landing.take(lent.bytes as usize) {
                return Ok((runway, room));
            }
            let found = pair.landing.room(lent.bytes as usize, &mut freed);
            let made = |Room { size, taken }| (pair.one_sided.alloc(size), room, size, taken);
            (means.blocking.clone(), found.map(made))
        };
        self.free(freed);
        let (blocking, found) = found;
        let (making, room, size, taken) = found.ok_or(NotLent::Full)?;
        let made = made(&blocking, making).await;
        let state = &mut *self.state.lock();
        let runtime = state.means.as_ref().map(|means| means.blocking.clone());
        let memory = match made {
            Ok(memory) => memory,
            Err(error) => {
                if let Some(pair) = state.pair(number) {
                    pair.landing.lose(size);
                }
                return Err(state.warn_of_parts(&error.to_string()));
            }
        };
        memory.region().keep_taken(taken);
        let Some(pair) = state.pair(number) else {
            if let Some(runtime) = runtime.filter(|_| memory.is_slow()) {
                drop_aside(&runtime, memory);
            }
            return Err(NotLent::Failed);
        };
        let slot = pair.one_sided.adopt(memory);
        Ok((pair.landing.add(slot, size), room))
    }

    /// Posts the read of `wanted` bytes of a message from `at` on.
    async fn post_fetch(
        &self,
        lent: &Lent,
        (at, wanted): (usize, usize),
        slot: Slot,
        room: &Arc<Semaphore>,
    ) -> Result<oneshot::Receiver<Fetched>, NotLent> {
        let permit = room.clone().acquire_owned().await.map_err(|_| NotLent::Failed)?;
        let state = &mut *self.state.lock();
        let pair = state.pair(lent.at.pair).ok_or(NotLent::Failed)?;
        let key = Key { number: lent.at.key.0, base: lent.at.key.1 };
        let (at, bytes) = (at as u64, wanted as u32);
        let mut batch = vec![Operation { slot, bytes, key, at, kind: Kind::Read }];
        // There is a permit for each operation that it takes, so what it refuses is the memory.
        if let Err(error) = pair.one_sided.post(&mut batch) {
            return Err(state.warn_of_parts(&error.to_string()));
        }
        if pair.posted.is_empty() {
            pair.waiting = Instant::now();
        }
        let (done, fetched) = oneshot::channel();
        pair.posted.push_back(Posted { permit, purpose: Purpose::Fetch(done) });
        state.used = true;
        Ok(fetched)
    }
}

/// A message that is being registered, for a queue pair.
struct Loan {
    number: u32,
    taken: BudgetShare,
    means: Arc<Means>,
}

impl State {
    /// Has a thread that may block unlock memory of which no slot is left.
    pub(super) fn drop_unused(&mut self) {
        let number = self.number;
        let unused = self.pair(number).and_then(|pair| pair.one_sided.take_unused());
        if let (Some(unused), Some(means)) = (unused, &self.means) {
            drop_aside(&means.blocking, unused);
        }
    }

    /// Says, once for each link, why large messages go in parts.
    fn warn_of_parts(&mut self, reason: &str) -> NotLent {
        if !replace(&mut self.lending.has_warned, true) {
            tracing::warn!(
                %reason,
                "large messages go in parts: they could not be lent"
            );
        }
        NotLent::Failed
    }
}

/// The function to be called when a fetch has ended, or a message was registered, in whatever way.
struct Done<T>(Option<Tell<T>>);

type Tell<T> = Box<dyn FnOnce(Result<T, NotLent>) + Send>;

impl<T> Done<T> {
    fn new(done: impl FnOnce(Result<T, NotLent>) + Send + 'static) -> Self {
        Done(Some(Box::new(done)))
    }

    fn call(mut self, outcome: Result<T, NotLent>) {
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

fn join(front: Option<Slot>, behind: Slot) -> Result<Slot, NotLent> {
    match front {
        None => Ok(behind),
        // They were cut from one slot, in this order.
        Some(front) => front.join(behind).map_err(|_| NotLent::Failed),
    }
}

/// A message that is being fetched, in the count of those.
struct Fetching(Arc<Reach>);

impl Fetching {
    fn new(reach: Arc<Reach>) -> Self {
        reach.state.lock().lending.fetching += 1;
        Fetching(reach)
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.0.state.lock().lending.fetching -= 1;
    }
}
