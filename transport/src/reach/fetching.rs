//! Fetches from the peer's memory to where the bytes stay: of a message that it has lent, or a part
//! of a share. No task copies it.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinHandle;

use super::aside::{drop_aside, made};
use super::lending::Done;
use super::pair::{Fetched, Posted, Purpose};
use super::{Known, Means, Reach, Ready, State};
use crate::fabric::Status;
use crate::fabric::one_sided::{Key, Kind, Locked, Making, Operation};
use crate::id::ShareId;
use crate::limits::{FETCH_BYTES, FETCH_SHARED_BYTES, ONE_SIDED_SLOT_BYTES};
use crate::memory::{Lease, Room, Runway, Slot};
use crate::proto::fetches::Lent;
use crate::proto::loans::NotLent;

/// The bytes that are fetched.
struct Source {
    /// The queue pair by which they are reached, and their memory there.
    number: u32,
    key: Key,
    /// The first one of them in that memory.
    at: u64,
    bytes: usize,
    /// The share that they are of; none where they are a message.
    share: Option<ShareId>,
    /// The task that they are for is there as long as this is; a message is always wanted.
    task: Option<Weak<()>>,
}

impl Source {
    fn message(lent: Lent) -> Self {
        let (number, base) = lent.at.key;
        let (key, bytes) = (Key { number, base }, lent.bytes as usize);
        Source { number: lent.at.pair, key, at: 0, bytes, share: None, task: None }
    }

    /// Returns how many bytes one operation moves. A message has operations of its own; those of a
    /// share take their turn, and half of the room, among those of tasks that copy.
    fn operation_bytes(&self) -> usize {
        if self.share.is_some() { FETCH_SHARED_BYTES } else { FETCH_BYTES }
    }

    fn is_wanted(&self) -> bool {
        self.task.as_ref().is_none_or(|task| task.strong_count() > 0)
    }

    /// Returns how many permits an operation of so many bytes takes.
    fn permits(&self, bytes: usize) -> u32 {
        if self.share.is_some() { bytes.div_ceil(ONE_SIDED_SLOT_BYTES) as u32 } else { 1 }
    }
}

impl Ready {
    /// Fetches these bytes of the share, which lie in it and may be read (RE-2). Returns nothing
    /// where there is no memory for them to land in, or something failed: then a read says what.
    ///
    /// # Cancel safety
    /// Operations under way then give back their memory when they end, and no more is begun.
    pub(crate) async fn fetch(&self, at: u64, bytes: usize) -> Option<Lease> {
        let (number, key, share) = (self.number, self.terms.key, Some(self.share));
        let (done, fetched) = oneshot::channel();
        let here = Arc::new(());
        let task = Some(Arc::downgrade(&here));
        let source = Source { number, key, at, bytes, share, task };
        self.reach.fetch_source(source, move |outcome| drop(done.send(outcome)));
        let fetched = fetched.await;
        drop(here);
        fetched.ok()?.ok()
    }
}

impl Reach {
    /// Fetches a message that the peer has lent, and calls `done` with what came of it.
    pub(crate) fn fetch(
        self: &Arc<Self>,
        lent: Lent,
        done: impl FnOnce(Result<Lease, NotLent>) + Send + 'static,
    ) {
        self.fetch_source(Source::message(lent), done);
    }

    fn fetch_source(
        self: &Arc<Self>,
        source: Source,
        done: impl FnOnce(Result<Lease, NotLent>) + Send + 'static,
    ) {
        let done = Done::new(done);
        let means = self.state.lock().means.clone();
        let Some(means) = means else { return };
        let fetching = Fetching::new(self.clone());
        means.runtime.spawn(async move {
            let fetched = fetching.0.fetch_all(&source).await;
            drop(fetching);
            done.call(fetched);
        });
    }

    async fn fetch_all(&self, source: &Source) -> Result<Lease, NotLent> {
        let (runway, room) = self.runway(source).await?;
        let size = runway.size();
        let fetched = self.fetch_into(runway, &room, source).await;
        if fetched.is_err() {
            self.lose(source.number, size);
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

    /// Fetches what is to be fetched. When that fails no read of it is under way any more (LO-1).
    async fn fetch_into(
        &self,
        mut runway: Runway,
        room: &Arc<Semaphore>,
        source: &Source,
    ) -> Result<Lease, NotLent> {
        let bytes = source.bytes;
        // The slot beyond it is not read into.
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
            let longest = source.operation_bytes();
            let part = if slot.len() > longest {
                let (front, back) = slot.split(longest);
                rest = Some(back);
                front
            } else {
                slot
            };
            let wanted = part.len().min(bytes - at);
            let posted = self.post_fetch(source, (at, wanted), part, room).await;
            failed = posted.is_err() || !source.is_wanted();
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
        let pair = state.pair(source.number).ok_or(NotLent::Failed)?;
        pair.landing.lease(runway, bytes).ok_or(NotLent::Failed)
    }

    /// Returns memory for what is fetched, and the room for operations of its queue pair. New
    /// memory is registered by a thread that may block (RE-7).
    async fn runway(&self, source: &Source) -> Result<(Runway, Arc<Semaphore>), NotLent> {
        loop {
            let mut freed = Vec::new();
            let found = self.find_runway(source, &mut freed)?;
            let freed_some = !freed.is_empty();
            let freeing = self.free(freed);
            match found {
                Found::Runway(runway, room) => return Ok((runway, room)),
                Found::Room(making, new, room) => {
                    let runway = self.new_runway(source, making, new).await?;
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

    /// Looks for memory to land in, or for room for some. Where there is none, unused memory
    /// that makes room is taken out, and the next look may find some.
    fn find_runway(&self, source: &Source, freed: &mut Vec<Slot>) -> Result<Found, NotLent> {
        let state = &mut *self.state.lock();
        let means = state.means.clone().ok_or(NotLent::Failed)?;
        let pair = state.pair(source.number).ok_or(NotLent::Failed)?;
        // No message waits for a task that uses memory of the peer.
        let room = if source.share.is_some() { &pair.room } else { &pair.fetch_room };
        let (bytes, room) = (source.bytes, room.clone());
        if let Some(runway) = pair.landing.take(bytes) {
            return Ok(Found::Runway(runway, room));
        }
        // Nothing makes room for a task's view but what is free: messages come first.
        if source.share.is_some() && !pair.landing.has_room_for_view(bytes) {
            return Ok(Found::Nothing);
        }
        let Some(new) = pair.landing.room(bytes, freed) else { return Ok(Found::Nothing) };
        let making = pair.one_sided.alloc(new.size);
        Ok(Found::Room((means, making), new, room))
    }

    /// Makes memory to land in, for which there is room.
    async fn new_runway(
        &self,
        source: &Source,
        (means, making): (Arc<Means>, Making<Locked>),
        Room { size, taken }: Room,
    ) -> Result<Runway, NotLent> {
        let made = made(&means.own, making).await;
        let state = &mut *self.state.lock();
        let memory = match made {
            Ok(memory) => memory,
            Err(error) => {
                if let Some(pair) = state.pair(source.number) {
                    pair.landing.lose(size);
                }
                return Err(state.not_fetched(source, &error.to_string()));
            }
        };
        memory.region().keep_taken(taken);
        let Some(pair) = state.pair(source.number) else {
            if memory.is_slow() {
                drop_aside(&means.own, memory);
            }
            return Err(NotLent::Failed);
        };
        let slot = pair.one_sided.adopt(memory);
        Ok(pair.landing.add(slot, size))
    }

    /// Posts the read of `wanted` bytes from `at` on.
    async fn post_fetch(
        &self,
        source: &Source,
        (at, wanted): (usize, usize),
        slot: Slot,
        room: &Arc<Semaphore>,
    ) -> Result<oneshot::Receiver<Fetched>, NotLent> {
        let permits = room.clone().acquire_many_owned(source.permits(wanted)).await;
        let permit: OwnedSemaphorePermit = permits.map_err(|_| NotLent::Failed)?;
        let state = &mut *self.state.lock();
        if let Some(share) = source.share {
            state.hold(share, source.key).ok_or(NotLent::Failed)?;
        }
        let posted = state.post_read(source, (at, wanted), slot, permit);
        if posted.is_err()
            && let Some(share) = source.share
        {
            state.release(share);
        }
        posted
    }
}

/// The memory that something can land in.
enum Found {
    Runway(Runway, Arc<Semaphore>),
    /// Room for memory that is to be made.
    Room((Arc<Means>, Making<Locked>), Room, Arc<Semaphore>),
    Nothing,
}

impl State {
    /// Posts a read for which there is a permit.
    fn post_read(
        &mut self,
        source: &Source,
        (at, wanted): (usize, usize),
        slot: Slot,
        permit: OwnedSemaphorePermit,
    ) -> Result<oneshot::Receiver<Fetched>, NotLent> {
        let now = self.patience.now();
        let pair = self.pair(source.number).ok_or(NotLent::Failed)?;
        let (key, at) = (source.key, source.at + at as u64);
        let mut batch = vec![Operation { slot, bytes: wanted as u32, key, at, kind: Kind::Read }];
        // There is a permit for each operation that it takes, so what it refuses is the memory.
        if let Err(error) = pair.one_sided.post(&mut batch) {
            return Err(self.not_fetched(source, &error.to_string()));
        }
        let (done, fetched) = oneshot::channel();
        let purpose = Purpose::Fetch(done);
        pair.note_posted([Posted { permit, share: source.share, purpose }], now);
        self.used = true;
        Ok(fetched)
    }

    /// Says of a message that is not fetched why. What a task is to view is read instead.
    fn not_fetched(&mut self, source: &Source, reason: &str) -> NotLent {
        match source.share {
            Some(_) => NotLent::Failed,
            None => self.warn_of_parts(reason),
        }
    }

    /// Counts an operation on a share, which is not let go of meanwhile (RE-3). `None` where
    /// none may begin.
    fn hold(&mut self, share: ShareId, key: Key) -> Option<()> {
        if self.resting || !self.is_held(share, key) {
            return None;
        }
        if let Some(Known::Held { running, .. }) = self.keys.get_mut(&share) {
            *running += 1;
        }
        Some(())
    }

    /// Returns true if operations on a share may begin by this key. It may have been let go of and
    /// granted again meanwhile: then the key is of another grant (RE-2).
    pub(super) fn is_held(&self, share: ShareId, key: Key) -> bool {
        matches!(
            self.keys.get(&share),
            Some(Known::Held { terms, is_ending: false, .. }) if terms.key == key
        )
    }

    /// Counts an operation on a share no more, and lets go of one that is ending.
    pub(super) fn release(&mut self, share: ShareId) {
        if let Some(Known::Held { running, is_ending, .. }) = self.keys.get_mut(&share) {
            *running -= 1;
            if *is_ending && *running == 0 {
                self.let_go(share);
            }
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

/// A fetch under way, in the count of those.
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
