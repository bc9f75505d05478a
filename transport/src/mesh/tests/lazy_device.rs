//! A device over the simulated fabric that says that a write is done before the memory has it, as
//! adapters may until something is read behind it. Its operations are not atomic with operations of
//! others, and a write that begins within a word comes in packets.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use super::over::Over;
use super::*;
use crate::fabric::one_sided::{
    Access, Executor, Granting, Key, Kind, Locked, Making, OneSided, Operation, Outcome,
};
use crate::fabric::{Fabric, PostError, Status};
use crate::memory::{Buffer, Region, Slot, Words};

/// One such device.
#[derive(Debug, Clone)]
pub(super) struct LazyDevice {
    name: &'static str,
    /// How many operations each doorbell brought.
    pub(super) doorbells: Arc<Mutex<Vec<usize>>>,
}

impl LazyDevice {
    /// Returns it, and the fabric of its queue pairs.
    pub(super) fn new(name: &'static str, below: &Arc<dyn Fabric>) -> (Self, Arc<dyn Fabric>) {
        let device = LazyDevice { name, doorbells: Arc::default() };
        let of_pairs = device.clone();
        let change = move |below| {
            let (order, waker) = (VecDeque::new(), None);
            let (late, outcomes) = (Vec::new(), VecDeque::new());
            let device = of_pairs.clone();
            Box::new(Lazy { below, device, late, order, outcomes, waker }) as Box<dyn OneSided>
        };
        let below = below.clone();
        (device, Arc::new(Over { name, below, operations: 4, change: Arc::new(change) }))
    }
}

/// Bytes of a packet. (The first one is cut off, and of a write just that begins within a word.)
const PACKET: usize = 256;

/// Writes after which the memory has them, though nothing is read behind them.
const LATE_MAX: usize = 16;

struct Lazy {
    below: Box<dyn OneSided>,
    device: LazyDevice,
    /// Writes that were said to be done: [`LATE_MAX`] at most.
    late: Vec<Operation>,
    /// Operations without an outcome, in order (PV-14).
    order: VecDeque<Expected>,
    outcomes: VecDeque<Outcome>,
    waker: Option<Waker>,
}

/// An outcome to come.
enum Expected {
    /// Of a write, which its user was told already.
    Late,
    /// Of an operation that its user has posted.
    Below,
    /// Of a write, which its user is told when it has its turn.
    Write(Slot),
}

impl Lazy {
    /// Keeps a write of these bytes back, which are copied.
    fn put_off(&mut self, packet: &[u8], key: Key, at: u64) {
        let length = packet.len().next_multiple_of(16).max(16);
        let mut slot = Region::heap(length).into_slots(length).remove(0);
        slot[..packet.len()].copy_from_slice(packet);
        let bytes = packet.len() as u32;
        self.late.push(Operation { slot, bytes, key, at, kind: Kind::Write });
    }

    /// Posts the writes that were kept back.
    fn post_late(&mut self) -> Result<(), PostError> {
        self.order.extend(self.late.iter().map(|_| Expected::Late));
        self.below.post(&mut self.late)
    }

    /// Tells the writes that have their turn.
    fn tell_writes(&mut self) {
        while let Some(Expected::Write(_)) = self.order.front() {
            let Some(Expected::Write(slot)) = self.order.pop_front() else { return };
            self.outcomes.push_back(Outcome::Done { slot, status: Status::Success });
        }
    }
}

impl OneSided for Lazy {
    fn grant(&mut self, memory: &Arc<Words>, at: u64, bytes: u64, access: Access) -> Granting {
        self.below.grant(memory, at, bytes, access)
    }

    fn lend(&mut self, bytes: &Arc<Buffer>) -> Granting {
        self.below.lend(bytes)
    }

    fn alloc(&self, bytes: usize) -> Making<Locked> {
        self.below.alloc(bytes)
    }

    fn executor(&self) -> Executor {
        Executor::Device(self.device.name.into())
    }

    fn post(&mut self, batch: &mut Vec<Operation>) -> Result<(), PostError> {
        self.device.doorbells.lock().push(batch.len());
        for operation in batch.drain(..) {
            if operation.kind != Kind::Write || self.late.len() >= LATE_MAX {
                self.post_late()?;
            }
            if operation.kind != Kind::Write {
                self.order.push_back(Expected::Below);
                self.below.post(&mut vec![operation])?;
                continue;
            }
            let Operation { slot, bytes, key, at, .. } = operation;
            let bytes = &slot[..bytes as usize];
            let cut = if at.is_multiple_of(8) { bytes.len() } else { PACKET.min(bytes.len()) };
            let (first, rest) = bytes.split_at(cut);
            self.put_off(first, key, at);
            if !rest.is_empty() {
                self.post_late()?;
                self.put_off(rest, key, at + first.len() as u64);
            }
            self.order.push_back(Expected::Write(slot));
        }
        self.tell_writes();
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
        Ok(())
    }

    fn poll(&mut self, out: &mut Vec<Outcome>, max: usize) -> usize {
        let mut below = Vec::new();
        self.below.poll(&mut below, max);
        for outcome in below {
            let is_done = matches!(outcome, Outcome::Done { .. });
            match (outcome, is_done.then(|| self.order.pop_front()).flatten()) {
                (Outcome::Done { slot, .. }, Some(Expected::Late)) => drop(slot),
                (outcome, _) => self.outcomes.push_back(outcome),
            }
            self.tell_writes();
        }
        let count = self.outcomes.len().min(max);
        out.extend(self.outcomes.drain(..count));
        count
    }

    fn arm(&mut self) {
        self.below.arm();
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.outcomes.is_empty() {
            return Poll::Ready(());
        }
        self.waker = Some(cx.waker().clone());
        self.below.poll_ready(cx)
    }

    fn close(&mut self) {
        self.below.close();
    }
}
