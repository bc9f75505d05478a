//! How a queue pair is made, connected and equipped, before it is driven.

use std::io;
use std::mem::replace;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::aside::{self, Aside, within};
use super::pair::{FENCE_BYTES, Pair};
use super::slots::Slots;
use super::{Means, Reach, Stage, State, Task};
use crate::bootstrap::Sharing;
use crate::fabric::FabricError;
use crate::fabric::one_sided::{Access, Executor, Grant, OneSided, OneSidedConfig, Opening};
use crate::limits::{
    CONNECT_TIMEOUT, FETCH_OPERATIONS, ONE_SIDED_OPERATIONS, ONE_SIDED_SLOT_BYTES, ONE_SIDED_SLOTS,
};
use crate::memory::Words;
use crate::mutants::planted;

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
        let room = &self.room.place;
        let room = if planted!(NoPlace) { &Arc::new(Semaphore::new(1)) } else { room };
        let place = room.clone().acquire_owned().await;
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
                let key = fence.as_ref().map(Grant::key);
                let (made, now) = ((one_sided, slots, fence), state.patience.now());
                let pair = Pair::new((self, &**means), number, made, place, now);
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
}
