//! Large messages: lent to the peer, and fetched from it (RE-9).

use std::collections::VecDeque;
use std::mem::replace;
use std::sync::{Arc, Weak};

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::aside::{drop_aside, made};
use super::pair::{Fetched, Posted, Purpose};
use super::{Means, Reach, Stage, State};
use crate::bootstrap::Sharing;
use crate::fabric::one_sided::{Grant, Key, Kind, Locked, Making, Operation};
use crate::fabric::{FabricError, Status};
use crate::limits::{FETCH_BYTES, LOAN_PATIENCE, REGISTERED_AT_ONCE_MAX};
use crate::memory::{Account, Budget, BudgetShare, Buffer, Lease, Room, Runway, Slot};
use crate::profile::Lending;
use crate::proto::fetches::Lent;
use crate::proto::loans::{Held, LentAt, NotLent};

/// The bytes that all links of a node lend and land together.
pub(crate) struct LendingRoom {
    lent: Arc<Budget>,
    landing: Arc<Budget>,
}

/// The bytes of those that the links to one peer lend and land.
#[derive(Clone)]
pub(crate) struct PeerRoom {
    pub(super) lent: Account,
    pub(super) landing: Account,
}

impl LendingRoom {
    /// Room for as much as a node's profile says.
    pub(crate) fn new(lending: &Lending) -> Self {
        let new = |bytes| Arc::new(Budget::new(bytes));
        LendingRoom { lent: new(lending.lent_bytes_max), landing: new(lending.landing_bytes_max) }
    }

    /// Returns the room of a peer that has none yet.
    pub(crate) fn of_peer(&self) -> PeerRoom {
        PeerRoom { lent: Account::new(&self.lent), landing: Account::new(&self.landing) }
    }
}

/// A place that a message is lent at, and what keeps it there.
pub(crate) type LentMemory = (LentAt, Held);

/// Memory that is lent as long as this lives. Dropping it takes no time (RE-7).
pub(super) struct Registered {
    held: Option<(Grant, BudgetShare)>,
    /// The queue pair by which it is lent, and since when it is.
    number: u32,
    since: Instant,
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
    /// Messages that are lent to it.
    lent: Vec<Weak<Registered>>,
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
        let runtime = means.own.clone();
        let since = Instant::now();
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
        let (leftovers, ended_before) = {
            let state = &mut *self.state.lock();
            let lent = state.lending.lent.iter().filter_map(Weak::upgrade);
            let overdue: Vec<_> =
                lent.filter(|lent| lent.since.elapsed() >= LOAN_PATIENCE).collect();
            // By an earlier queue pair nothing is read any more.
            let number = state.number;
            let is_open = state.pair(number).is_some();
            let ends = is_open && overdue.iter().any(|lent| lent.number == number);
            let leftovers = ends.then(|| {
                let reason = format!("a message was lent for {LOAN_PATIENCE:?} without an answer");
                state.note_failure(reason.clone());
                let leftovers = state.leave(Stage::Closed);
                state.outbox.push(Sharing::Unable { number, reason });
                leftovers
            });
            let ended_before = if is_open && !ends { number } else { number.saturating_add(1) };
            (leftovers, (!overdue.is_empty()).then_some(ended_before))
        };
        if leftovers.is_some() {
            self.outgoing.notify_one();
            self.changed.notify_waiters();
        }
        drop(leftovers);
        ended_before
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
            drop(state.drop_unused());
        }
    }

    /// Frees memory in which nothing lands any more. What is returned is ready when it is freed.
    pub(super) fn free(&self, slots: Vec<Slot>) -> Option<JoinHandle<()>> {
        if slots.is_empty() {
            return None;
        }
        drop(slots);
        self.state.lock().drop_unused()
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
        loop {
            let mut freed = Vec::new();
            let found = self.find_runway(lent, &mut freed)?;
            let freed_some = !freed.is_empty();
            let freeing = self.free(freed);
            match found {
                Found::Runway(runway, room) => return Ok((runway, room)),
                Found::Room(making, new, room) => {
                    let runway = self.new_runway(number, making, new).await?;
                    return Ok((runway, room));
                }
                Found::Nothing if freed_some => {
                    // It counts until a device has let go of it.
                    if let Some(freeing) = freeing {
                        freeing.await.map_err(|_| NotLent::Full)?;
                    }
                }
                Found::Nothing => return Err(NotLent::Full),
            }
        }
    }

    /// Looks for memory for a message, or for room for some. Where there is none, unused memory
    /// that makes room is taken out, and the next look may find some.
    fn find_runway(&self, lent: &Lent, freed: &mut Vec<Slot>) -> Result<Found, NotLent> {
        let state = &mut *self.state.lock();
        let means = state.means.clone().ok_or(NotLent::Failed)?;
        let pair = state.pair(lent.at.pair).ok_or(NotLent::Failed)?;
        let (bytes, room) = (lent.bytes as usize, pair.fetch_room.clone());
        if let Some(runway) = pair.landing.take(bytes) {
            return Ok(Found::Runway(runway, room));
        }
        let Some(new) = pair.landing.room(bytes, freed) else { return Ok(Found::Nothing) };
        let making = pair.one_sided.alloc(new.size);
        Ok(Found::Room((means, making), new, room))
    }

    /// Makes memory to land in, for which there is room.
    async fn new_runway(
        &self,
        number: u32,
        (means, making): (Arc<Means>, Making<Locked>),
        Room { size, taken }: Room,
    ) -> Result<Runway, NotLent> {
        let made = made(&means.own, making).await;
        let state = &mut *self.state.lock();
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
            if memory.is_slow() {
                drop_aside(&means.own, memory);
            }
            return Err(NotLent::Failed);
        };
        let slot = pair.one_sided.adopt(memory);
        Ok(pair.landing.add(slot, size))
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

/// The memory that a message can land in.
enum Found {
    Runway(Runway, Arc<Semaphore>),
    /// Room for memory that is to be made.
    Room((Arc<Means>, Making<Locked>), Room, Arc<Semaphore>),
    Nothing,
}

/// A message that is being registered, for a queue pair.
struct Loan {
    number: u32,
    taken: BudgetShare,
    means: Arc<Means>,
}

impl State {
    /// Has a thread that may block unlock memory of which no slot is left. What is returned is
    /// ready when that is done.
    pub(super) fn drop_unused(&mut self) -> Option<JoinHandle<()>> {
        let number = self.number;
        let unused = self.pair(number).and_then(|pair| pair.one_sided.take_unused())?;
        self.means.as_ref().map(|means| drop_aside(&means.own, unused))
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
