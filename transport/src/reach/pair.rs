//! A connected queue pair, and the task that drives it.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::ops::Deref;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::slots::Slots;
use super::{Means, Reach, Since, State, Task};
use crate::fabric::Status;
use crate::fabric::one_sided::{Grant, OneSided, Outcome};
use crate::id::ShareId;
use crate::limits::{FETCH_OPERATIONS, ONE_SIDED_OPERATIONS};
use crate::memory::{Landing, Slot};

/// Bytes of a fence: a word.
pub(super) const FENCE_BYTES: u64 = 8;

/// Outcomes that are polled at once.
const BATCH: usize = (ONE_SIDED_OPERATIONS + FETCH_OPERATIONS) as usize;

/// As many bytes are copied with the outcome: that is sooner done than their slot given back later.
const INLINE_BYTES: usize = 64;

/// A connected queue pair before it is driven: its slots, and this side's fence, if any (RE-8).
pub(super) struct Made {
    pub(super) one_sided: Box<dyn OneSided>,
    pub(super) slots: Slots,
    pub(super) fence: Option<Grant>,
    pub(super) place: OwnedSemaphorePermit,
}

/// A connected queue pair. It is dropped before the operations without an outcome, whose tasks then
/// hear that the end is unknown: these operations change nothing any more.
pub(super) struct Pair {
    pub(super) one_sided: Box<dyn OneSided>,
    /// Slots of no operation, and of no task that reads from its slot. There is one of the least
    /// length for each permit of `room`.
    pub(super) slots: Slots,
    pub(super) room: Arc<Semaphore>,
    /// The room of fetches.
    pub(super) fetch_room: Arc<Semaphore>,
    /// Operations without an outcome, in their order (PV-14).
    pub(super) posted: VecDeque<Posted>,
    /// Time since which they wait: of the last outcome, or of the first operation after a pause.
    pub(super) waiting: Since,
    /// Time since which this side of it is connected.
    pub(super) connected: Since,
    pub(super) landing: Landing,
    /// Tasks that have written by it and did not make sure of it (RE-8).
    pub(super) unfenced: usize,
    /// The word that the peer reads after it has written (RE-8).
    _fence: Option<Grant>,
    driver: Task,
    /// Given back when the queue pair is gone (RE-13).
    _place: OwnedSemaphorePermit,
}

impl Pair {
    /// Returns a driven queue pair. Its driver finds the state locked until the pair is there.
    pub(super) fn new(
        reach: &Arc<Reach>,
        means: &Means,
        number: u32,
        made: Made,
        now: Since,
    ) -> Self {
        let Made { one_sided, slots, fence, place } = made;
        let (driven, mut outcomes) = (reach.clone(), Vec::new());
        let driver = poll_fn(move |cx| driven.drive(number, &mut outcomes, cx));
        Pair {
            one_sided,
            slots,
            room: Arc::new(Semaphore::new(ONE_SIDED_OPERATIONS as usize)),
            fetch_room: Arc::new(Semaphore::new(FETCH_OPERATIONS as usize)),
            posted: VecDeque::new(),
            waiting: now,
            connected: now,
            landing: Landing::new(means.room.landing.clone(), means.room.viewed.clone()),
            unfenced: 0,
            _fence: fence,
            driver: Task(means.runtime.spawn(driver).abort_handle()),
            _place: place,
        }
    }

    /// Tells all tasks that wait for room that it has ended.
    pub(super) fn close(&self) {
        self.room.close();
        self.fetch_room.close();
    }

    /// Returns true if nothing drives it, as when its driver has panicked, or its runtime ended.
    pub(super) fn is_left(&self) -> bool {
        self.driver.0.is_finished()
    }

    /// Records operations that were posted.
    pub(super) fn note_posted(&mut self, posted: impl IntoIterator<Item = Posted>, now: Since) {
        if self.posted.is_empty() {
            self.waiting = now;
        }
        self.posted.extend(posted);
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

/// A slot for an operation, which the queue pair has meanwhile (RE-4), or a slot of an ended
/// operation. Dropping it gives it back.
pub(crate) struct Piece {
    reach: Arc<Reach>,
    number: u32,
    slot: Option<Slot>,
    /// Permits of the operation that it is for, one for each slot of the least length. Given back
    /// after the slot.
    permit: Option<OwnedSemaphorePermit>,
}

impl Piece {
    pub(super) fn new(
        reach: &Arc<Reach>,
        number: u32,
        slot: Slot,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Self {
        Piece { reach: reach.clone(), number, slot: Some(slot), permit }
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
            && let Some(pair) = self.reach.state.lock().pair(self.number)
        {
            pair.slots.give(slot);
        }
    }
}

impl Reach {
    /// Takes outcomes; ready when the queue pair has ended.
    fn drive(
        self: &Arc<Self>,
        number: u32,
        outcomes: &mut Vec<Outcome>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let mut finished = Vec::new();
        let mut state = self.state.lock();
        if state.pair(number).is_some() {
            state.patience.note_run(cx.waker());
        }
        let Some(pair) = state.pair(number) else { return Poll::Ready(()) };
        pair.one_sided.arm();
        while pair.one_sided.poll(outcomes, BATCH) > 0 {}
        if pair.one_sided.poll_ready(cx).is_ready() {
            // Mostly for the outcomes just polled: it is armed again when the tasks know of them.
            cx.waker().wake_by_ref();
        }
        let ended = outcomes.drain(..).find_map(|outcome| match outcome {
            Outcome::Done { slot, status } => {
                finished.extend(self.finish(&mut state, slot, status));
                (status != Status::Success).then_some(status)
            }
            Outcome::Notice(_) => None,
            Outcome::Ended(status) => Some(status),
        });
        let leftovers = ended.map(|status| {
            let reason = format!("its queue pair has ended: {status}");
            state.give_up(reason, false)
        });
        let is_over = leftovers.is_some();
        let speaks = state.speaks();
        drop(state);
        finished.into_iter().for_each(Brought::tell);
        drop(leftovers);
        if speaks {
            self.outgoing.notify_one();
            // Tasks that waited until it had let go of a share may ask for it.
            self.changed.notify_waiters();
        }
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Records the outcome of the oldest operation. The returned value is told to its task without
    /// the lock: that wakes tasks.
    fn finish(self: &Arc<Self>, state: &mut State, slot: Slot, status: Status) -> Option<Brought> {
        let (number, now) = (state.number, state.patience.now());
        let pair = state.pair(number)?;
        pair.waiting = now;
        let Posted { permit, share, purpose } = pair.posted.pop_front()?;
        if let Some(share) = share {
            state.release(share);
        }
        let (wanted, done) = match purpose {
            Purpose::Access { wanted, done } => (wanted, done),
            Purpose::InPlace(done) => {
                return Some(Brought::InPlace(done, (status, slot), permit));
            }
        };
        let pair = state.pair(number)?;
        let is_wanted = wanted > INLINE_BYTES && status == Status::Success && !done.is_closed();
        // However late tasks look, there is a slot for each permit.
        let is_short = is_wanted && pair.slots.count() < ONE_SIDED_OPERATIONS as usize;
        let came = if is_wanted {
            Came::InSlot { piece: Piece::new(self, number, slot, None), bytes: wanted }
        } else {
            let few = if status == Status::Success { wanted.min(INLINE_BYTES) } else { 0 };
            let mut bytes = [0; INLINE_BYTES];
            bytes[..few].copy_from_slice(&slot[..few]);
            pair.slots.give(slot);
            Came::Inline(bytes, few as u8)
        };
        Some(Brought::Access { task: done, status, came, is_short, permit })
    }
}
