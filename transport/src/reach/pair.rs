//! A connected queue pair, and the task that drives it.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::mem::replace;
use std::ops::Deref;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::aside::{self, Aside, within};
use super::slots::Slots;
use super::{Means, Reach, Since, Stage, State, Task};
use crate::bootstrap::Sharing;
use crate::fabric::one_sided::{
    Access, Executor, Grant, OneSided, OneSidedConfig, Opening, Outcome,
};
use crate::fabric::{FabricError, Status};
use crate::id::ShareId;
use crate::limits::{
    CONNECT_TIMEOUT, FETCH_OPERATIONS, ONE_SIDED_OPERATIONS, ONE_SIDED_SLOT_BYTES, ONE_SIDED_SLOTS,
};
use crate::memory::{Landing, Slot, Words};

/// Bytes of a fence: a word.
pub(super) const FENCE_BYTES: u64 = 8;

/// Outcomes that are polled at once.
const BATCH: usize = (ONE_SIDED_OPERATIONS + FETCH_OPERATIONS) as usize;

/// As many bytes are copied with the outcome: that is sooner done than their slot given back later.
const INLINE_BYTES: usize = 64;

/// A connected queue pair, before it is driven, and what it is equipped with: its place (RE-13),
/// given back when the rest is gone, slots, and the fence of this side (RE-8), where it takes one.
struct Made {
    one_sided: Box<dyn OneSided>,
    slots: Option<Slots>,
    fence: Option<Grant>,
    place: Option<OwnedSemaphorePermit>,
}

impl Made {
    /// Returns one that has nothing yet. Where a task is ended that equips it, or waits to, its
    /// thread goes on (RE-7).
    fn new(one_sided: Box<dyn OneSided>, own: &Handle) -> Aside<Made> {
        let is_slow = one_sided.is_slow();
        Aside::new(Made { one_sided, slots: None, fence: None, place: None }, is_slow, own)
    }
}

/// A connected queue pair. It is dropped before the operations without an outcome, whose tasks hear
/// by that that the end is unknown: what they find out then does not change any more.
pub(super) struct Pair {
    pub(super) one_sided: Box<dyn OneSided>,
    /// Slots of no operation, and of no task that reads what came. There is one of the least length
    /// for each permit of `room`.
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
    /// Has all tasks that wait for room hear that it has ended.
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
    /// A task wants so many bytes at the front of the slot.
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
        /// Operations would have to wait for its slot: what came is copied out.
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

/// How an operation ended, and what it brought.
pub(crate) type Finished = (Status, Came);

/// The bytes that an operation brought. A few are copied with its outcome. More lie in its slot,
/// which is its task's meanwhile; where tasks that look late have so many slots that operations
/// would have to wait, they are copied out.
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

/// A slot for one operation, which the queue pair has meanwhile (RE-4), or of one that has ended.
/// Dropping it gives it back.
pub(crate) struct Piece {
    reach: Arc<Reach>,
    number: u32,
    slot: Option<Slot>,
    /// Those of the operation that it is for, one for each slot of the least length. Given back
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

impl Means {
    /// Opens the queue pair of this number.
    pub(super) fn open(&self, number: u32) -> Result<Box<dyn Opening>, FabricError> {
        let binding = [&self.binding[..], b"one-sided", &number.to_le_bytes()].concat();
        self.fabric.open_one_sided(OneSidedConfig {
            operations: ONE_SIDED_OPERATIONS + FETCH_OPERATIONS,
            // None comes; with a place for one a device tells of a refusal at once.
            notices: 1,
            side: self.side.clone(),
            binding,
        })
    }

    /// Returns the place of the link's way among these (both sides have the same ones, in the same
    /// order). Where it is not among them its device has no one-sided access, and the best one is
    /// taken of those that have.
    fn place_of_way(&self, ways: &[u32]) -> usize {
        ways.iter().position(|way| Some(*way) == self.way).unwrap_or(0)
    }

    /// Equips a queue pair that has been connected, when the one before is gone (RE-13).
    async fn equip(&self, made: &mut Made) -> Result<(), FabricError> {
        let place = self.room.place.clone().acquire_owned().await;
        made.place = Some(place.map_err(|closed| FabricError::Connect(io::Error::other(closed)))?);
        let bytes = ONE_SIDED_SLOTS as usize * ONE_SIDED_SLOT_BYTES;
        let memory = aside::made(&self.own, made.one_sided.alloc(bytes)).await?;
        made.slots = Some(Slots::new(made.one_sided.adopt(memory)));
        if let Executor::Device(_) = made.one_sided.executor() {
            let none = FabricError::Limit { what: "memory", asked: FENCE_BYTES, limit: 0 };
            let fence = Arc::new(Words::zeroed(FENCE_BYTES as usize).ok_or(none)?);
            let granting = made.one_sided.grant(&fence, 0, FENCE_BYTES, Access::READ);
            made.fence = Some(aside::made(&self.own, granting).await?);
        }
        Ok(())
    }
}

impl Reach {
    /// Connects the queue pair that is at hand to the peer's.
    pub(super) fn connect(
        self: &Arc<Self>,
        state: &mut State,
        means: &Arc<Means>,
        opening: Box<dyn Opening>,
        offer: Zeroizing<Vec<u8>>,
    ) {
        let (reach, means, number) = (self.clone(), means.clone(), state.number);
        let own = means.own.clone();
        // The state is locked until its task is known.
        let task = own.spawn(async move {
            let made = reach.make(&means, opening, offer).await;
            reach.note_connected(&means, number, made);
        });
        state.stage = Stage::Connecting(state.patience.now(), Task(task.abort_handle()));
    }

    /// Makes a queue pair and connects it to the one that the peer offers, by threads that may
    /// block.
    pub(super) fn open_and_connect(
        self: &Arc<Self>,
        state: &mut State,
        means: &Arc<Means>,
        offer: Zeroizing<Vec<u8>>,
    ) {
        let (reach, means, number) = (self.clone(), means.clone(), state.number);
        let own = means.own.clone();
        let task = own.spawn(async move {
            let made = match reach.open_aside(&means, number).await {
                Ok(opening) if reach.offer_in_return(number, &*opening) => {
                    reach.make(&means, opening, offer).await
                }
                Ok(_) => return,
                Err(reason) => Err(reason),
            };
            reach.note_connected(&means, number, made);
        });
        state.stage = Stage::Connecting(state.patience.now(), Task(task.abort_handle()));
    }

    /// Makes a queue pair, to be offered to the peer, by a thread that may block.
    pub(super) fn open_to_offer(self: &Arc<Self>, state: &mut State, means: &Arc<Means>) {
        let (reach, means, number) = (self.clone(), means.clone(), state.number);
        let own = means.own.clone();
        let task = own.spawn(async move {
            let opened = reach.open_aside(&means, number).await;
            reach.note_opened(number, opened);
        });
        let (since, _task) = (state.patience.now(), Task(task.abort_handle()));
        state.stage = Stage::Opening { since, _task };
    }

    /// Waits for the turn of a thread that may block (RE-10).
    async fn turn(&self) -> Result<OwnedSemaphorePermit, String> {
        self.blocking.clone().acquire_owned().await.map_err(|closed| closed.to_string())
    }

    /// Makes a queue pair by a thread that may block: one at a time (RE-10).
    async fn open_aside(
        &self,
        means: &Arc<Means>,
        number: u32,
    ) -> Result<Box<dyn Opening>, String> {
        let turn = self.turn().await?;
        let means = means.clone();
        let own = means.own.clone();
        let opened = own.spawn_blocking(move || {
            let opened = means.open(number);
            drop(turn);
            opened
        });
        let opened = opened.await.map_err(|lost| lost.to_string())?;
        opened.map_err(|error| error.to_string())
    }

    /// Connects a queue pair, and makes what it works with.
    async fn make(
        &self,
        means: &Arc<Means>,
        opening: Box<dyn Opening>,
        offer: Zeroizing<Vec<u8>>,
    ) -> Result<Aside<Made>, String> {
        let way = means.place_of_way(&opening.ways(&offer));
        let late = |_| format!("not connected within {CONNECT_TIMEOUT:?}");
        let (runtime, own) = (means.runtime.clone(), means.own.clone());
        let connected = if means.fabric.blocks() {
            let opening = Aside::new(opening, true, &own);
            // RE-10: what is not waited for any more goes on, and the next one waits for it.
            let turn = self.turn().await?;
            let task = means.own.spawn(async move {
                let opening = opening.take()?;
                // (It is begun there, too: what it makes waits by the runtime that it is made on.)
                let connecting = async move { opening.connect(offer, way).await };
                let connected = within(&runtime, connecting).await;
                drop(turn);
                Some(connected.map(|one_sided| Made::new(one_sided, &own)))
            });
            let connected = timeout(CONNECT_TIMEOUT, task).await.map_err(late)?;
            connected.map_err(|lost| lost.to_string())?.ok_or("there is none")?
        } else {
            let connecting = async move { opening.connect(offer, way).await };
            let connected = timeout(CONNECT_TIMEOUT, within(&runtime, connecting)).await;
            connected.map_err(late)?.map(|one_sided| Made::new(one_sided, &own))
        };
        let mut made = connected.map_err(|error| error.to_string())?;
        if let Some(made) = made.get() {
            means.equip(made).await.map_err(|error| error.to_string())?;
        }
        Ok(made)
    }

    /// Takes what came of connecting, and has it driven.
    fn note_connected(
        self: &Arc<Self>,
        means: &Arc<Means>,
        number: u32,
        made: Result<Aside<Made>, String>,
    ) {
        let (landing, viewed) = (means.room.landing.clone(), means.room.viewed.clone());
        let mut state = self.state.lock();
        if state.number != number || !matches!(state.stage, Stage::Connecting(..)) {
            return drop(state);
        }
        let stage = replace(&mut state.stage, Stage::Closed);
        let leftovers = match (made.map(Aside::take), stage) {
            (
                Ok(Some(Made { one_sided, slots: Some(slots), fence, place: Some(place) })),
                Stage::Connecting(_, task),
            ) => {
                let reach = self.clone();
                // It finds the state locked until its queue pair is there.
                let mut outcomes = Vec::new();
                let driver = poll_fn(move |cx| reach.drive(number, &mut outcomes, cx));
                let driver = Task(means.runtime.spawn(driver).abort_handle());
                let landing = Landing::new(landing, viewed);
                let room = Arc::new(Semaphore::new(ONE_SIDED_OPERATIONS as usize));
                let (posted, waiting) = (VecDeque::new(), state.patience.now());
                let fetch_room = Arc::new(Semaphore::new(FETCH_OPERATIONS as usize));
                let key = fence.as_ref().map(Grant::key);
                let pair = Pair {
                    one_sided,
                    slots,
                    room,
                    fetch_room,
                    posted,
                    waiting,
                    connected: waiting,
                    landing,
                    unfenced: 0,
                    _fence: fence,
                    driver,
                    _place: place,
                };
                state.stage = Stage::Connected(Box::new(pair));
                state.outbox.push_back(Sharing::Connected { number, fence: key });
                // It is the task that calls this, and ends.
                drop(task);
                None
            }
            (made, stage) => {
                let reason = made.err().unwrap_or_default();
                Some((stage, state.give_up(reason, true)))
            }
        };
        drop(state);
        drop(leftovers);
        self.tell_change();
    }

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
            // Mostly for what was just polled: it is armed again when the tasks know of that.
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

    /// Records the outcome of the oldest operation. What is returned is for its task, and wakes
    /// others: without the lock.
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
