//! Connected one-sided access, and the task that drives it.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::AbortHandle;

use super::slots::Slots;
use super::{Means, Reach, State};
use crate::cause::LinkCause;
use crate::fabric::one_sided::{Grant, Locked, Making, OneSided, Outcome};
use crate::fabric::{FabricError, Status};
use crate::id::ShareId;
use crate::limits::{
    FETCH_OPERATIONS, ONE_SIDED_OPERATIONS, ONE_SIDED_SLOT_BYTES, ONE_SIDED_SLOTS,
};
use crate::memory::{Landing, Slot};

/// Bytes of a fence: a word.
pub(super) const FENCE_BYTES: u64 = 8;

/// Outcomes that are polled at once.
const BATCH: usize = (ONE_SIDED_OPERATIONS + FETCH_OPERATIONS) as usize;

/// As many bytes are copied with the outcome: that is sooner done than their slot given back later.
const INLINE_BYTES: usize = 64;

/// The connected access. It is dropped before the operations without an outcome,
/// whose tasks then hear that the end is unknown: these operations change nothing any more.
pub(super) struct Pair {
    pub(super) one_sided: Box<dyn OneSided>,
    /// Slots of no operation, and of no task that reads from its slot. There is one of the least
    /// length for each permit of `room`. `None` before the first operation.
    pub(super) slots: Option<Slots>,
    pub(super) room: Arc<Semaphore>,
    /// The room of fetches.
    pub(super) fetch_room: Arc<Semaphore>,
    /// Operations without an outcome, in their order (PV-14).
    pub(super) posted: VecDeque<Posted>,
    pub(super) landing: Landing,
    /// Tasks that have written by it and did not make sure of it (RE-8).
    pub(super) unfenced: usize,
    /// The word that the peer reads after it has written (RE-8).
    pub(super) fence: Option<Grant>,
    /// Waits for outcomes, where the link's driver does not.
    driver: Option<AbortHandle>,
}

impl Drop for Pair {
    fn drop(&mut self) {
        if let Some(driver) = &self.driver {
            driver.abort();
        }
    }
}

impl Pair {
    /// Returns driven access. Its driver finds the state locked until the pair is there.
    pub(super) fn new(reach: &Arc<Reach>, means: &Means, one_sided: Box<dyn OneSided>) -> Self {
        let driver = (!one_sided.is_driven_by_link()).then(|| {
            let reach = Arc::downgrade(reach);
            let driver = poll_fn(move |cx| match reach.upgrade() {
                Some(reach) => reach.drive(cx),
                None => Poll::Ready(()),
            });
            means.runtime.spawn(driver).abort_handle()
        });
        Pair {
            one_sided,
            slots: None,
            room: Arc::new(Semaphore::new(ONE_SIDED_OPERATIONS as usize)),
            fetch_room: Arc::new(Semaphore::new(FETCH_OPERATIONS as usize)),
            posted: VecDeque::new(),
            landing: Landing::new(means.room.landing.clone(), means.room.viewed.clone()),
            unfenced: 0,
            fence: None,
            driver,
        }
    }

    /// Returns the memory for operations that is to be made, if there is none yet.
    fn lacking(&self) -> Option<Making<Locked>> {
        let bytes = ONE_SIDED_SLOTS as usize * ONE_SIDED_SLOT_BYTES;
        self.slots.is_none().then(|| self.one_sided.alloc(bytes))
    }

    /// Takes a slot back.
    fn give(&mut self, slot: Slot) {
        if let Some(slots) = &mut self.slots {
            slots.give(slot);
        }
    }

    /// Moves it to its error state, and tells all tasks that wait for room that it has ended.
    pub(super) fn close(&mut self) {
        self.one_sided.close();
        self.room.close();
        self.fetch_room.close();
    }
}

/// An operation that is under way.
pub(super) struct Posted {
    pub(super) permit: OwnedSemaphorePermit,
    /// The share of the peer that it is on; a message that is lent is of none.
    pub(super) share: Option<ShareId>,
    pub(super) purpose: Purpose,
}

pub(super) enum Purpose {
    /// A task wants `wanted` bytes at the front of the slot.
    Access { wanted: usize, done: oneshot::Sender<Finished> },
    /// It moves what stays in the slot.
    InPlace(oneshot::Sender<Fetched>),
}

/// How an operation ended that moves what stays in its slot, and the slot.
pub(super) type Fetched = (Status, Slot);

/// The outcome of an operation, for the task that waits: told without the state's lock.
pub(super) enum Brought {
    Access {
        task: oneshot::Sender<Finished>,
        status: Status,
        came: Came,
        /// Operations would have to wait for its slot: the bytes are copied out.
        is_short: bool,
        permit: OwnedSemaphorePermit,
    },
    InPlace(oneshot::Sender<Fetched>, Fetched, OwnedSemaphorePermit),
}

impl Brought {
    fn tell(self) {
        let permit = match self {
            Brought::Access { task, status, came, is_short, permit } => {
                let came = if is_short { Came::Copied(came.to_vec()) } else { came };
                drop(task.send((status, came)));
                permit
            }
            Brought::InPlace(task, fetched, permit) => {
                drop(task.send(fetched));
                permit
            }
        };
        drop(permit);
    }
}

/// How an operation ended, and its bytes.
pub(crate) type Finished = (Status, Came);

/// The bytes that an operation brought. A few are copied with its outcome. More lie in its slot,
/// which is its task's meanwhile; if slow tasks keep slots for which operations would have to wait,
/// the bytes are copied out.
pub(crate) enum Came {
    InSlot {
        piece: Piece,
        bytes: usize,
    },
    Copied(Vec<u8>),
    /// At most [`INLINE_BYTES`].
    Inline([u8; INLINE_BYTES], u8),
}

impl Deref for Came {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Came::InSlot { piece, bytes } => {
                piece.slot.as_deref().and_then(|slot| slot.get(..*bytes)).unwrap_or_default()
            }
            Came::Copied(bytes) => bytes,
            Came::Inline(bytes, count) => &bytes[..usize::from(*count)],
        }
    }
}

impl fmt::Debug for Came {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Came({} bytes)", self.len())
    }
}

/// A slot for an operation, which the fabric has meanwhile (RE-4), or a slot of an ended
/// operation. Dropping it gives it back.
pub(crate) struct Piece {
    reach: Arc<Reach>,
    slot: Option<Slot>,
    /// Permits of the operation that it is for, one for each slot of the least length. Given back
    /// after the slot.
    permit: Option<OwnedSemaphorePermit>,
}

impl Piece {
    pub(super) fn new(
        reach: &Arc<Reach>,
        slot: Slot,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Self {
        Piece { reach: reach.clone(), slot: Some(slot), permit }
    }

    /// Returns the bytes of the operation.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        self.slot.as_deref_mut().unwrap_or_default()
    }

    pub(super) fn into_parts(mut self) -> Option<(Slot, OwnedSemaphorePermit)> {
        Some((self.slot.take()?, self.permit.take()?))
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take()
            && let Some(pair) = &mut self.reach.state.lock().pair
        {
            pair.give(slot);
        }
    }
}

impl Reach {
    /// Makes the memory for operations, if there is none yet (RE-7).
    ///
    /// # Errors
    /// [`FabricError`].
    pub(super) fn equip(&self) -> Result<(), FabricError> {
        let lacking = self.state.lock().pair.as_ref().and_then(|pair| pair.lacking());
        let Some(making) = lacking else { return Ok(()) };
        let memory = making.finish()?;
        let unused = match &mut self.state.lock().pair {
            Some(pair) if pair.slots.is_none() => {
                pair.slots = Some(Slots::new(pair.one_sided.adopt(memory)));
                None
            }
            _ => Some(memory),
        };
        // Without the lock: a device takes its time.
        drop(unused);
        Ok(())
    }

    /// Takes outcomes that the link's driver does not bring; ready when the access has ended.
    fn drive(self: &Arc<Self>, cx: &mut Context<'_>) -> Poll<()> {
        {
            let state = &mut *self.state.lock();
            let Some(pair) = &mut state.pair else { return Poll::Ready(()) };
            pair.one_sided.arm();
        }
        self.take_outcomes();
        let state = &mut *self.state.lock();
        let Some(pair) = &mut state.pair else { return Poll::Ready(()) };
        if pair.one_sided.poll_ready(cx).is_ready() {
            // Mostly for the outcomes just polled: it is armed again when the tasks know of them.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Takes outcomes, and tells the tasks that wait for them.
    pub(crate) fn take_outcomes(self: &Arc<Self>) {
        let (mut outcomes, mut finished) = (Vec::new(), Vec::new());
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let Some(pair) = &mut state.pair else { return };
        while pair.one_sided.poll(&mut outcomes, BATCH) > 0 {}
        let ended = outcomes.drain(..).find_map(|outcome| match outcome {
            Outcome::Done { slot, status } => {
                finished.extend(self.finish(state, slot, status));
                (status != Status::Success).then_some(status)
            }
            Outcome::Notice(_) => None,
            Outcome::Ended(status) => Some(status),
        });
        let operates = state.pair.as_ref().is_some_and(|pair| !pair.posted.is_empty());
        self.operates.store(operates, Ordering::Release);
        let leftovers = ended.map(|_| state.leave());
        let speaks = state.speaks();
        let ended = ended.zip(state.means.clone());
        drop(guard);
        finished.into_iter().for_each(Brought::tell);
        drop(leftovers);
        if let Some((status, means)) = &ended {
            (means.end_link)(LinkCause::Fabric(*status));
        }
        if speaks || ended.is_some() {
            self.outgoing.notify_one();
            // Tasks that waited until it had let go of a share may ask for it.
            self.changed.notify_waiters();
        }
    }

    /// Records the outcome of the oldest operation. The returned value is told to its task without
    /// the lock: that wakes tasks.
    fn finish(self: &Arc<Self>, state: &mut State, slot: Slot, status: Status) -> Option<Brought> {
        let Posted { permit, share, purpose } = state.pair.as_mut()?.posted.pop_front()?;
        if let Some(share) = share {
            state.release(share);
        }
        let (wanted, done) = match purpose {
            Purpose::Access { wanted, done } => (wanted, done),
            Purpose::InPlace(done) => {
                return Some(Brought::InPlace(done, (status, slot), permit));
            }
        };
        let pair = state.pair.as_mut()?;
        let is_wanted = wanted > INLINE_BYTES && status == Status::Success && !done.is_closed();
        // However late tasks look, there is a slot for each permit.
        let left = pair.slots.as_ref().map_or(0, Slots::count);
        let is_short = is_wanted && left < ONE_SIDED_OPERATIONS as usize;
        let came = if is_wanted {
            Came::InSlot { piece: Piece::new(self, slot, None), bytes: wanted }
        } else {
            let few = if status == Status::Success { wanted.min(INLINE_BYTES) } else { 0 };
            let mut bytes = [0; INLINE_BYTES];
            bytes[..few].copy_from_slice(&slot[..few]);
            pair.give(slot);
            Came::Inline(bytes, few as u8)
        };
        Some(Brought::Access { task: done, status, came, is_short, permit })
    }

    /// Records operations that were posted.
    pub(super) fn note_posted(&self, pair: &mut Pair, posted: impl IntoIterator<Item = Posted>) {
        pair.posted.extend(posted);
        self.operates.store(true, Ordering::Release);
    }
}
