//! Large messages: lent to the peer, and fetched from it (RE-7).

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

impl Reach {
    /// Lends a message to the peer. Where there is no queue pair yet, one is opened for the next
    /// messages.
    ///
    /// # Errors
    /// [`NotLent`]: the message is to go in parts.
    pub(crate) fn lend(&self, body: &Arc<Buffer>) -> Result<(LentAt, Held), NotLent> {
        let state = &mut *self.state.lock();
        let means = state.means.clone().filter(|_| !state.resting).ok_or(NotLent::Now)?;
        if state.lends_no_more {
            return Err(NotLent::Ever);
        }
        let number = state.number;
        match &mut state.stage {
            Stage::Connected(pair) if state.peer_connected => {
                state.used = true;
                match pair.one_sided.lend(body) {
                    Ok(grant) => {
                        let Key { number: key, base } = grant.key();
                        Ok((LentAt { pair: number, key: (key, base) }, Arc::new(grant)))
                    }
                    Err(error) => Err(state.lend_no_more(&error.to_string())),
                }
            }
            // One that did not come up once is left to those who cannot do without.
            Stage::Closed if state.failures == 0 => {
                self.begin(state, &means);
                self.outgoing.notify_one();
                Err(NotLent::Now)
            }
            _ => Err(NotLent::Now),
        }
    }

    /// Fetches a message that the peer has lent, and calls `done` with what came of it.
    pub(crate) fn fetch(
        self: &Arc<Self>,
        lent: Lent,
        done: impl FnOnce(Result<Lease, NotLent>) + Send + 'static,
    ) {
        let means = self.state.lock().means.clone();
        let Some(means) = means else { return done(Err(NotLent::Now)) };
        let reach = self.clone();
        means.runtime.spawn(async move {
            let fetching = Fetching::new(&reach);
            let fetched = reach.fetch_all(lent).await;
            drop(fetching);
            done(fetched);
        });
    }

    async fn fetch_all(&self, lent: Lent) -> Result<Lease, NotLent> {
        let bytes = lent.bytes as usize;
        let (mut runway, room) = self.runway(&lent)?;
        // What is beyond the message is not read into.
        let (mut rest, mut beyond) = (Some(runway.slot), None);
        let end = bytes.next_multiple_of(16);
        if let Some(slot) = rest.take_if(|slot| end < slot.len()) {
            let (front, back) = slot.split(end);
            (rest, beyond) = (Some(front), Some(back));
        }
        let mut parts = VecDeque::new();
        let mut at = 0;
        while let Some(slot) = rest.take() {
            let part = if slot.len() > FETCH_BYTES {
                let (front, back) = slot.split(FETCH_BYTES);
                rest = Some(back);
                front
            } else {
                slot
            };
            let wanted = part.len().min(bytes - at);
            parts.push_back(self.post_fetch(&lent, (at, wanted), part, &room).await?);
            at += wanted;
        }
        let mut whole: Option<Slot> = None;
        for part in parts {
            let (status, slot) = part.await.map_err(|_| NotLent::Now)?;
            if status != Status::Success {
                return Err(NotLent::Now);
            }
            whole = Some(join(whole, slot)?);
        }
        if let Some(beyond) = beyond {
            whole = Some(join(whole, beyond)?);
        }
        runway.slot = whole.ok_or(NotLent::Now)?;
        let mut state = self.state.lock();
        let pair = state.pair(lent.at.pair).ok_or(NotLent::Now)?;
        pair.landing.lease(runway, bytes).ok_or(NotLent::Now)
    }

    /// Returns memory for a message, and the room for operations of the queue pair by which it is
    /// lent.
    fn runway(&self, lent: &Lent) -> Result<(Runway, Arc<Semaphore>), NotLent> {
        let state = &mut *self.state.lock();
        if state.lends_no_more {
            return Err(NotLent::Ever);
        }
        let pair = state.pair(lent.at.pair).ok_or(NotLent::Now)?;
        let room = pair.room.clone();
        let size = match pair.landing.take(lent.bytes as usize) {
            Ok(runway) => return Ok((runway, room)),
            Err(size) => size.ok_or(NotLent::Now)?,
        };
        match pair.one_sided.alloc(size) {
            Ok(region) => Ok((pair.landing.add(region, size).ok_or(NotLent::Now)?, room)),
            Err(error) => Err(state.lend_no_more(&error.to_string())),
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
        let permit = room.clone().acquire_owned().await.map_err(|_| NotLent::Now)?;
        let state = &mut *self.state.lock();
        let pair = state.pair(lent.at.pair).ok_or(NotLent::Now)?;
        let key = Key { number: lent.at.key.0, base: lent.at.key.1 };
        let (at, bytes) = (at as u64, wanted as u32);
        let mut batch = vec![Operation { slot, bytes, key, at, kind: Kind::Read }];
        // There is a permit for each operation that it takes, so what it refuses is the memory.
        if let Err(error) = pair.one_sided.post(&mut batch) {
            return Err(state.lend_no_more(&error.to_string()));
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
    /// Lends and fetches no more over this link, and says why, once.
    fn lend_no_more(&mut self, reason: &str) -> NotLent {
        if !replace(&mut self.lends_no_more, true) {
            tracing::warn!(
                %reason,
                "large messages go in parts: memory for one-sided reads could not be registered"
            );
        }
        NotLent::Ever
    }
}

fn join(front: Option<Slot>, behind: Slot) -> Result<Slot, NotLent> {
    match front {
        None => Ok(behind),
        // They were cut from one slot, in this order.
        Some(front) => front.join(behind).map_err(|_| NotLent::Now),
    }
}

/// A message that is being fetched, in the count of those.
struct Fetching<'a>(&'a Reach);

impl<'a> Fetching<'a> {
    fn new(reach: &'a Reach) -> Self {
        reach.state.lock().fetching += 1;
        Fetching(reach)
    }
}

impl Drop for Fetching<'_> {
    fn drop(&mut self) {
        self.0.state.lock().fetching -= 1;
    }
}
