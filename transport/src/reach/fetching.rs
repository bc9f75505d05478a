//! Bytes that no task copies: fetched from the peer's memory to where they stay, of a message that
//! it has lent or of a share; and stored in a share from where a task has drafted them.

use std::ops::Deref;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinHandle;

use super::aside::{drop_aside, made};
use super::lending::Done;
use super::pair::{Fetched, Posted, Purpose};
use super::{Known, Means, Reach, Ready, State};
use crate::bootstrap::Question;
use crate::fabric::Status;
use crate::fabric::one_sided::{Key, Kind, Locked, Making, Operation};
use crate::id::ShareId;
use crate::limits::{FETCH_BYTES, FETCH_SHARED_BYTES, ONE_SIDED_SLOT_BYTES, VIEWED_BYTES_MAX};
use crate::memory::{BudgetShare, Lease, Room, Runway, Slot, landing_size_of};
use crate::mutants::planted;
use crate::proto::fetches::Lent;
use crate::proto::loans::NotLent;
use crate::steps::step;

/// The bytes of the peer that are fetched, or stored.
pub(super) struct Source {
    /// Read, or write.
    kind: Kind,
    /// The queue pair by which they are reached, and their memory there.
    pub(super) number: u32,
    key: Key,
    /// The first one of them in that memory.
    at: u64,
    bytes: usize,
    /// The task that views or stores them; none where they are a message.
    viewer: Option<Viewer>,
}

/// A task that views or stores a part of a share.
struct Viewer {
    share: ShareId,
    /// Its part of the room of views, as long as anything is under way. It has this, too, while it
    /// waits.
    taken: Arc<BudgetShare>,
}

impl Source {
    fn message(lent: Lent) -> Self {
        let (number, base) = lent.at.key;
        let (key, bytes) = (Key { number, base }, lent.bytes as usize);
        Source { kind: Kind::Read, number: lent.at.pair, key, at: 0, bytes, viewer: None }
    }

    /// Returns how many bytes one operation moves. Messages have operations of their own; an
    /// operation on a share takes its turn among tasks that copy, and half of their room.
    fn operation_bytes(&self) -> usize {
        if self.viewer.is_some() { FETCH_SHARED_BYTES } else { FETCH_BYTES }
    }

    /// Returns the share that they are of.
    fn share(&self) -> Option<ShareId> {
        self.viewer.as_ref().map(|viewer| viewer.share)
    }

    /// Returns true if the task waits yet; a message is always wanted.
    fn is_wanted(&self) -> bool {
        self.viewer.as_ref().is_none_or(|viewer| Arc::strong_count(&viewer.taken) > 1)
    }

    /// Waits for the turn of an operation of `bytes` bytes; `None` if the queue pair has ended.
    async fn permit(&self, room: &Arc<Semaphore>, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let views = self.viewer.is_some();
        let permits = if views { bytes.div_ceil(ONE_SIDED_SLOT_BYTES) as u32 } else { 1 };
        room.clone().acquire_many_owned(permits).await.ok()
    }
}

/// Bytes of a share that have landed. They count in the room of views until this is dropped.
pub(crate) struct Viewed {
    lease: Lease,
    /// The first bytes of it, which are not viewed.
    skipped: usize,
    _taken: Arc<BudgetShare>,
}

impl Deref for Viewed {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.lease[self.skipped..]
    }
}

impl Ready {
    /// Fetches these bytes of the share, which lie in it and may be read (RE-2). Returns nothing
    /// where there is no memory for them to land in, or something failed: then a read says what.
    ///
    /// # Cancel safety
    /// Operations under way then give back their memory when they end, and no more is begun.
    pub(crate) async fn fetch(&self, at: u64, bytes: usize) -> Option<Viewed> {
        // From the beginning of its first word on, so that parts are cut between words (PV-15).
        let skipped = (at % 8) as usize;
        let (at, bytes) = (at - skipped as u64, bytes + skipped);
        let taken = self.take_viewed(bytes)?;
        let (done, fetched) = oneshot::channel();
        let source = self.source((Kind::Read, at, bytes), &taken);
        self.reach.fetch_source(source, move |outcome| drop(done.send(outcome)));
        let lease = fetched.await.ok()?.ok()?;
        Some(Viewed { lease, skipped, _taken: taken })
    }

    pub(super) fn source(
        &self,
        (kind, at, bytes): (Kind, u64, usize),
        taken: &Arc<BudgetShare>,
    ) -> Source {
        let viewer = Some(Viewer { share: self.share, taken: taken.clone() });
        Source { kind, number: self.number, key: self.terms.key, at, bytes, viewer }
    }

    /// Takes room for a view or a draft.
    pub(super) fn take_viewed(&self, bytes: usize) -> Option<Arc<BudgetShare>> {
        if bytes > VIEWED_BYTES_MAX {
            return None;
        }
        let viewed = self.reach.state.lock().means.as_ref()?.room.viewed.clone();
        let taken = viewed.take_spare(landing_size_of(bytes) as u64)?;
        let fits = viewed.taken() <= VIEWED_BYTES_MAX as u64 || planted!(ViewsUnbounded);
        fits.then(|| Arc::new(taken))
    }
}

impl Reach {
    /// Fetches a message that the peer has lent, and calls `done` with the result.
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
        let moving = Moving::new(self.clone());
        means.runtime.spawn(async move {
            let fetched = moving.0.fetch_all(&source).await;
            drop((moving, source));
            done.call(fetched);
        });
    }

    async fn fetch_all(&self, source: &Source) -> Result<Lease, NotLent> {
        let (runway, room) = self.runway(source).await?;
        let Moved { runway, bytes, has_failed } = self.move_all(runway, &room, source).await;
        let runway = runway.ok_or(NotLent::Failed)?;
        let mut state = self.state.lock();
        let pair = state.pair(source.number).ok_or(NotLent::Failed)?;
        let lease = pair.landing.lease(runway, source.bytes).ok_or(NotLent::Failed)?;
        drop(state);
        // Else the memory serves the next one.
        if has_failed || bytes < source.bytes { Err(NotLent::Failed) } else { Ok(lease) }
    }

    /// Records that nothing lands in memory of this size, which is gone.
    fn lose(&self, number: u32, size: usize) {
        let mut state = self.state.lock();
        if let Some(pair) = state.pair(number) {
            pair.landing.lose(size);
            drop(state.drop_unused());
        }
    }

    /// Frees memory in which nothing lands any more. The returned handle is ready when it is freed.
    pub(super) fn free(&self, slots: Vec<Slot>) -> Option<JoinHandle<()>> {
        if slots.is_empty() {
            return None;
        }
        drop(slots);
        self.state.lock().drop_unused()
    }

    /// Moves the bytes to or from the first ones of `runway`, as far as operations can be posted.
    /// When this returns none is under way (LO-1).
    pub(super) async fn move_all(
        &self,
        mut runway: Runway,
        room: &Arc<Semaphore>,
        source: &Source,
    ) -> Moved {
        let (size, length) = (runway.size(), runway.slot.len());
        debug_assert!(source.bytes <= length, "it has room for all of it");
        let (mut rest, mut unposted) = (Some(runway.slot), None);
        let (mut parts, mut bytes) = (Vec::new(), 0);
        while bytes < source.bytes {
            let part = source.operation_bytes().min(source.bytes - bytes);
            let Some(permit) = source.permit(room, part).await else { break };
            // Padding behind the last byte is not used.
            let Some((slot, behind)) = rest.take().map(|it| cut(it, part.next_multiple_of(16)))
            else {
                break;
            };
            rest = behind;
            match self.post_in_place(source, (bytes, part), slot, permit) {
                Ok(outcome) => parts.push(outcome),
                Err(slot) => {
                    unposted = slot;
                    break;
                }
            }
            bytes += part;
        }
        let mut has_failed = false;
        let mut slots = Vec::with_capacity(parts.len() + 2);
        for part in parts {
            match part.await {
                Ok((status, slot)) => {
                    has_failed |= status != Status::Success;
                    slots.push(slot);
                }
                Err(_) => has_failed = true,
            }
        }
        slots.extend(unposted);
        slots.extend(rest);
        // They were cut from one slot, in this order; where one has not come back all are lost.
        let whole = slots.into_iter().map(Some).reduce(|front, behind| front?.join(behind?).ok());
        let whole = whole.flatten().filter(|whole| whole.len() == length);
        let runway = match whole {
            Some(whole) => {
                runway.slot = whole;
                Some(runway)
            }
            None => {
                self.lose(source.number, size);
                None
            }
        };
        Moved { runway, bytes, has_failed }
    }

    /// Returns memory for the fetched bytes, and the room for operations of its queue pair. New
    /// memory is registered by a thread that may block (RE-7).
    pub(super) async fn runway(
        &self,
        source: &Source,
    ) -> Result<(Runway, Arc<Semaphore>), NotLent> {
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
        let (views, landing, bytes) = (source.viewer.is_some(), &mut pair.landing, source.bytes);
        // No message waits for a task that uses memory of the peer.
        let room = if views { &pair.room } else { &pair.fetch_room }.clone();
        let size = landing_size_of(bytes);
        let found = if views { landing.take_for_view(size) } else { landing.take(bytes) };
        if let Some(runway) = found {
            return Ok(Found::Runway(runway, room));
        }
        let new = if views { landing.room_for_view(size) } else { landing.room(bytes, freed) };
        let Some(new) = new else { return Ok(Found::Nothing) };
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

    /// Posts the operation on a part (first byte, size). Else returns the slot, if it comes back.
    fn post_in_place(
        &self,
        source: &Source,
        part: (usize, usize),
        slot: Slot,
        permit: OwnedSemaphorePermit,
    ) -> Result<oneshot::Receiver<Fetched>, Option<Slot>> {
        let refused = {
            let state = &mut *self.state.lock();
            match state.post_wanted(source, part, slot, permit) {
                Ok(outcome) => return Ok(outcome),
                Err(refused) => refused,
            }
        };
        // The permit wakes others: without the lock.
        Err(refused.0)
    }
}

/// The slot of an operation that was not posted, if it comes back, and its permit.
type Refused = (Option<Slot>, OwnedSemaphorePermit);

/// The outcome of moving bytes.
pub(super) struct Moved {
    /// The memory; `None` where it does not come back.
    pub(super) runway: Option<Runway>,
    /// The first bytes, of which operations were posted.
    pub(super) bytes: usize,
    /// Some of those did not succeed.
    pub(super) has_failed: bool,
}

/// The memory that something can land in.
enum Found {
    Runway(Runway, Arc<Semaphore>),
    /// Room for memory that is to be made.
    Room((Arc<Means>, Making<Locked>), Room, Arc<Semaphore>),
    Nothing,
}

impl State {
    /// Posts an operation that is wanted yet, and counts it on its share.
    fn post_wanted(
        &mut self,
        source: &Source,
        part: (usize, usize),
        slot: Slot,
        permit: OwnedSemaphorePermit,
    ) -> Result<oneshot::Receiver<Fetched>, Refused> {
        // (Under the lock: what a task begins after it has dropped this comes after it, too.)
        if !source.is_wanted() {
            return Err((Some(slot), permit));
        }
        let share = source.share();
        if share.is_some_and(|share| self.hold(share, source.key).is_none()) {
            return Err((Some(slot), permit));
        }
        let posted = self.post_in_place(source, part, slot, permit);
        if posted.is_err()
            && let Some(share) = share
        {
            self.release(share);
        }
        posted
    }

    /// Posts an operation for which there is a permit.
    fn post_in_place(
        &mut self,
        source: &Source,
        (at, wanted): (usize, usize),
        slot: Slot,
        permit: OwnedSemaphorePermit,
    ) -> Result<oneshot::Receiver<Fetched>, Refused> {
        let now = self.patience.now();
        let Some(pair) = self.pair(source.number) else { return Err((Some(slot), permit)) };
        let (key, at) = (source.key, source.at + at as u64);
        let (bytes, kind) = (wanted as u32, source.kind);
        let mut batch = vec![Operation { slot, bytes, key, at, kind }];
        // There is a permit for each operation that it takes, so it can only refuse the memory.
        if let Err(error) = pair.one_sided.post(&mut batch) {
            self.not_fetched(source, &error.to_string());
            return Err((batch.pop().map(|operation| operation.slot), permit));
        }
        let (done, fetched) = oneshot::channel();
        let purpose = Purpose::InPlace(done);
        pair.note_posted([Posted { permit, share: source.share(), purpose }], now);
        self.used = true;
        step!(any source.viewer.is_none().then_some(crate::steps::Step::FetchPosted));
        Ok(fetched)
    }

    /// Says of a message that is not fetched why. What a task is to view is read instead.
    fn not_fetched(&mut self, source: &Source, reason: &str) -> NotLent {
        match source.viewer {
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
            Some(Known::Held { terms, is_ending: false, .. })
                if terms.key == key || planted!(KeyOfEarlierGrant)
        )
    }

    /// Counts an operation on a share no more, and lets go of an ending share after the last one.
    pub(super) fn release(&mut self, share: ShareId) {
        if let Some(Known::Held { running, is_ending, .. }) = self.keys.get_mut(&share) {
            *running -= 1;
            if *is_ending {
                let is_over = *running == 0;
                // The peer cannot answer what asks for it again before this side has let go.
                self.unanswered[Question::Ask as usize].since = self.patience.now();
                if is_over {
                    self.let_go(share);
                }
            }
        }
    }
}

/// Cuts the first `bytes` bytes off, if there are more.
fn cut(slot: Slot, bytes: usize) -> (Slot, Option<Slot>) {
    if bytes >= slot.len() {
        return (slot, None);
    }
    let (front, behind) = slot.split(bytes);
    (front, Some(behind))
}

/// A message, a view or a draft under way, in the count of those.
pub(super) struct Moving(pub(super) Arc<Reach>);

impl Moving {
    pub(super) fn new(reach: Arc<Reach>) -> Self {
        reach.state.lock().lending.moving += 1;
        Moving(reach)
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        self.0.state.lock().lending.moving -= 1;
    }
}
