//! Large messages: lent to the peer, and fetched from it (RE-9).

use std::collections::VecDeque;
use std::mem::replace;
use std::sync::Arc;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;

use super::pair::{Fetched, Posted, Purpose};
use super::{Reach, Stage, State};
use crate::fabric::Status;
use crate::fabric::one_sided::{Key, Kind, Operation};
use crate::limits::FETCH_BYTES;
use crate::memory::{Buffer, Lease, Runway, Slot};
use crate::proto::fetches::Lent;
use crate::proto::loans::{Held, LentAt, NotLent};

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
    /// messages.
    ///
    /// # Errors
    /// [`NotLent`]: the message is to go in parts.
    pub(crate) fn lend(&self, body: &Arc<Buffer>) -> Result<(LentAt, Held), NotLent> {
        let state = &mut *self.state.lock();
        let means = state.means.clone().filter(|_| !state.resting).ok_or(NotLent::NotYet)?;
        let number = state.number;
        match &mut state.stage {
            Stage::Connected(pair) if state.peer_connected => {
                state.used = true;
                match pair.one_sided.lend(body) {
                    Ok(grant) => {
                        let Key { number: key, base } = grant.key();
                        Ok((LentAt { pair: number, key: (key, base) }, Arc::new(grant)))
                    }
                    Err(error) => Err(state.warn_of_parts(&error.to_string())),
                }
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

    /// Fetches a message that the peer has lent, and calls `done` with what came of it.
    pub(crate) fn fetch(
        self: &Arc<Self>,
        lent: Lent,
        done: impl FnOnce(Result<Lease, NotLent>) + Send + 'static,
    ) {
        let done = Done(Some(done));
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
        let (runway, room) = self.runway(&lent)?;
        let size = runway.size();
        let fetched = self.fetch_into(runway, &room, &lent).await;
        if fetched.is_err()
            && let Some(pair) = self.state.lock().pair(lent.at.pair)
        {
            pair.landing.lose(size);
        }
        fetched
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
    /// lent.
    fn runway(&self, lent: &Lent) -> Result<(Runway, Arc<Semaphore>), NotLent> {
        let state = &mut *self.state.lock();
        let pair = state.pair(lent.at.pair).ok_or(NotLent::Failed)?;
        let room = pair.fetch_room.clone();
        let size = match pair.landing.take(lent.bytes as usize) {
            Ok(runway) => return Ok((runway, room)),
            Err(size) => size.ok_or(NotLent::Failed)?,
        };
        match pair.one_sided.alloc(size) {
            Ok(region) => Ok((pair.landing.add(region, size).ok_or(NotLent::Failed)?, room)),
            Err(error) => Err(state.warn_of_parts(&error.to_string())),
        }
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

impl State {
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

/// The function to be called when a fetch has ended, in whatever way.
struct Done<F: FnOnce(Result<Lease, NotLent>)>(Option<F>);

impl<F: FnOnce(Result<Lease, NotLent>)> Done<F> {
    fn call(mut self, fetched: Result<Lease, NotLent>) {
        if let Some(done) = self.0.take() {
            done(fetched);
        }
    }
}

impl<F: FnOnce(Result<Lease, NotLent>)> Drop for Done<F> {
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
