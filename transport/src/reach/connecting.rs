//! How a queue pair is made, connected and equipped, before it is driven.

use std::error::Error;
use std::io;
use std::mem::replace;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::aside::{self, Aside, within};
use super::pair::{FENCE_BYTES, Made, Pair};
use super::slots::Slots;
use super::{Means, Reach, Stage, State, Task};
use crate::bootstrap::Sharing;
use crate::fabric::FabricError;
use crate::fabric::one_sided::{Access, Executor, Grant, OneSided, OneSidedConfig, Opening};
use crate::limits::{
    CONNECT_TIMEOUT, FETCH_OPERATIONS, ONE_SIDED_OPERATIONS, ONE_SIDED_SLOT_BYTES, ONE_SIDED_SLOTS,
    PLACE_PATIENCE,
};
use crate::log;
use crate::memory::Words;
use crate::mutants::planted;

/// A queue pair before it is connected, and its place (RE-13), given back when it is gone.
pub(super) type Opened = Aside<(Box<dyn Opening>, OwnedSemaphorePermit)>;

/// A connected queue pair, and its place.
type Connected = Aside<(Box<dyn OneSided>, OwnedSemaphorePermit)>;

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
    /// order). If not there, its device has no one-sided access, and the best of these is taken.
    fn place_of_way(&self, ways: &[u32]) -> usize {
        ways.iter().position(|way| Some(*way) == self.way).unwrap_or(0)
    }

    /// Makes the queue pair of this number, when the one before is gone (RE-13).
    async fn make(self: &Arc<Self>, number: u32) -> Result<Opened, FabricError> {
        let room = &self.room.place;
        let room = if planted!(NoPlace) { &Arc::new(Semaphore::new(1)) } else { room };
        let place = timeout(PLACE_PATIENCE, room.clone().acquire_owned()).await;
        let place = place.map_err(|_| self.not_gone())?.map_err(lost)?;
        let means = self.clone();
        let open = move || {
            let opening = means.open(number)?;
            Ok(Aside::new((opening, place), means.fabric.blocks(), &means.own))
        };
        if self.fabric.blocks() {
            self.own.spawn_blocking(open).await.map_err(lost)?
        } else {
            open()
        }
    }

    fn not_gone(&self) -> FabricError {
        let (peer, patience) = (&self.peer, PLACE_PATIENCE);
        log::warn!(%peer, ?patience, "the last queue pair has not gone");
        lost("the queue pair before it has not gone: a device makes, connects or destroys it")
    }

    /// Connects a queue pair to the peer's offer.
    async fn connect(
        self: &Arc<Self>,
        opened: Opened,
        offer: Zeroizing<Vec<u8>>,
    ) -> Result<Connected, FabricError> {
        let means = self.clone();
        let connecting = async move {
            let (opening, place) = opened.take().ok_or(FabricError::Offer("there is none"))?;
            let way = means.place_of_way(&opening.ways(&offer));
            let one_sided = opening.connect(offer, way).await?;
            let is_slow = one_sided.is_slow();
            Ok(Aside::new((one_sided, place), is_slow, &means.own))
        };
        let runtime = self.runtime.clone();
        let connected = if self.fabric.blocks() {
            // It goes on after the timeout, and the next queue pair waits for its place.
            let task = self.own.spawn_blocking(move || runtime.block_on(connecting));
            timeout(CONNECT_TIMEOUT, task).await.map(|ended| ended.map_err(lost)?)
        } else {
            timeout(CONNECT_TIMEOUT, within(&runtime, connecting)).await
        };
        let late = |_| lost(format!("not connected within {CONNECT_TIMEOUT:?}"));
        connected.map_err(late)?
    }

    /// Gives a connected queue pair its memory, and a fence if it takes one.
    async fn equip(&self, mut connected: Connected) -> Result<Aside<Made>, FabricError> {
        let gone = || FabricError::Offer("there is none");
        let (one_sided, _) = connected.get().ok_or_else(gone)?;
        let bytes = ONE_SIDED_SLOTS as usize * ONE_SIDED_SLOT_BYTES;
        let memory = aside::made(&self.own, one_sided.alloc(bytes)).await?;
        let slots = Slots::new(one_sided.adopt(memory));
        let mut fence = None;
        if let Executor::Device(_) = one_sided.executor() {
            let none = FabricError::Limit { what: "memory", asked: FENCE_BYTES, limit: 0 };
            let words = Arc::new(Words::zeroed(FENCE_BYTES as usize).ok_or(none)?);
            let granting = one_sided.grant(&words, 0, FENCE_BYTES, Access::READ);
            fence = Some(aside::made(&self.own, granting).await?);
        }
        let is_slow = one_sided.is_slow();
        let (one_sided, place) = connected.take().ok_or_else(gone)?;
        Ok(Aside::new(Made { one_sided, slots, fence, place }, is_slow, &self.own))
    }
}

/// The error of something that did not come to its end.
fn lost(reason: impl Into<Box<dyn Error + Send + Sync>>) -> FabricError {
    FabricError::Connect(io::Error::other(reason))
}

impl Reach {
    /// Makes a queue pair, to be offered to the peer.
    pub(super) fn open_to_offer(self: &Arc<Self>, state: &mut State, means: &Arc<Means>) {
        let (reach, number, making) = (self.clone(), state.number, means.clone());
        let task = means.own.spawn(async move {
            let opened = making.make(number).await;
            reach.note_opened(number, opened.map_err(|error| error.to_string()));
        });
        let (since, _task) = (state.patience.now(), Task(task.abort_handle()));
        state.stage = Stage::Opening { since, _task };
    }

    /// Makes a queue pair and connects it to the peer's offer.
    pub(super) fn open_and_connect(
        self: &Arc<Self>,
        state: &mut State,
        means: &Arc<Means>,
        offer: Zeroizing<Vec<u8>>,
    ) {
        let (reach, number, making) = (self.clone(), state.number, means.clone());
        let task = means.own.spawn(async move {
            let made = match making.make(number).await {
                Ok(mut opened) => {
                    if !reach.offer_in_return(number, &mut opened) {
                        return;
                    }
                    reach.complete(&making, opened, offer).await
                }
                Err(error) => Err(error.to_string()),
            };
            reach.note_connected(&making, number, made);
        });
        state.stage = Stage::Connecting(state.patience.now(), Task(task.abort_handle()));
    }

    /// Connects the queue pair that is at hand to the peer's.
    pub(super) fn connect(
        self: &Arc<Self>,
        state: &mut State,
        means: &Arc<Means>,
        opened: Opened,
        offer: Zeroizing<Vec<u8>>,
    ) {
        let (reach, number, making) = (self.clone(), state.number, means.clone());
        // The state is locked until its task is known.
        let task = means.own.spawn(async move {
            let made = reach.complete(&making, opened, offer).await;
            reach.note_connected(&making, number, made);
        });
        state.stage = Stage::Connecting(state.patience.now(), Task(task.abort_handle()));
    }

    async fn complete(
        &self,
        means: &Arc<Means>,
        opened: Opened,
        offer: Zeroizing<Vec<u8>>,
    ) -> Result<Aside<Made>, String> {
        let made = async { means.equip(means.connect(opened, offer).await?).await };
        made.await.map_err(|error| error.to_string())
    }

    /// Takes the result of connecting, and starts the driver.
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
            (Ok(Some(made)), Stage::Connecting(_, task)) => {
                let fence = made.fence.as_ref().map(Grant::key);
                let pair = Pair::new(self, means, number, made, state.patience.now());
                state.stage = Stage::Connected(Box::new(pair));
                state.outbox.push_back(Sharing::Connected { number, fence });
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
