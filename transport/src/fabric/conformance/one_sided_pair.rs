//! Two connected queue pairs for one-sided access, and what the cases do with them.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::pair::Pairs;
use crate::fabric::Status;
use crate::fabric::one_sided::{
    Access, Grant, Key, Kind, OneSided, OneSidedConfig, Operation, Outcome,
};
use crate::limits::OFFER_BYTES_MAX;
use crate::memory::{Slot, Words};

/// Bytes of the memory that b grants to a.
pub(super) const BYTES: usize = 256;

/// One side, its slots, and the outcomes that it has polled.
pub(crate) struct OneSidedEnd {
    pub(crate) one_sided: Box<dyn OneSided>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) got: Vec<Outcome>,
}

/// Both sides. Operations are a's, on memory of b, unless a case says otherwise.
pub(crate) struct OneSidedPair {
    pub(crate) a: OneSidedEnd,
    pub(crate) b: OneSidedEnd,
}

impl OneSidedPair {
    pub(crate) async fn new(pairs: &impl Pairs) -> Self {
        OneSidedPair::of(pairs, 16, 4, 512).await
    }

    /// Queues of these sizes, and slots.
    pub(crate) async fn of(
        pairs: &impl Pairs,
        operations: u32,
        notices: u32,
        slot_bytes: usize,
    ) -> Self {
        let opened = pairs.ends().map(|(fabric, side)| {
            let binding = b"one-sided".to_vec();
            let config = OneSidedConfig { operations, notices, side, binding };
            let count = if slot_bytes > 4096 { 8 } else { 64 };
            let slots = fabric.alloc(count * slot_bytes).unwrap().into_slots(slot_bytes);
            (fabric.open_one_sided(config).unwrap(), slots)
        });
        let [(a, a_slots), (b, b_slots)] = opened;
        let [for_b, for_a] = [a.offer(), b.offer()];
        assert!(for_a.len() <= OFFER_BYTES_MAX && for_b.len() <= OFFER_BYTES_MAX);
        let (a, b) = futures::join!(a.connect(for_a, 0), b.connect(for_b, 0));
        let end = |one_sided, slots| OneSidedEnd { one_sided, slots, got: Vec::new() };
        OneSidedPair { a: end(a.unwrap(), a_slots), b: end(b.unwrap(), b_slots) }
    }

    /// The same, and memory of b that a may reach: its bytes are 0, 1, 2 ...
    pub(crate) async fn granted(pairs: &impl Pairs, access: Access) -> (Self, Arc<Words>, Grant) {
        let mut pair = OneSidedPair::new(pairs).await;
        let memory = Arc::new(Words::zeroed(BYTES).unwrap());
        memory.write(0, &numbers(BYTES)).unwrap();
        let grant = pair.b.one_sided.grant(&memory, 0, BYTES as u64, access).finish().unwrap();
        (pair, memory, grant)
    }

    /// Drives both sides until `met`.
    pub(crate) async fn until(&mut self, mut met: impl FnMut(&OneSidedEnd, &OneSidedEnd) -> bool) {
        let OneSidedPair { a, b } = self;
        poll_fn(|cx| {
            let more = [a.turn(cx), b.turn(cx)];
            if met(a, b) {
                return Poll::Ready(());
            }
            if more != [false; 2] {
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        })
        .await;
    }

    /// Posts an operation of a, and returns its status and its slot.
    pub(crate) async fn run(
        &mut self,
        kind: Kind,
        key: Key,
        at: u64,
        bytes: &[u8],
    ) -> (Status, Slot) {
        let before = self.a.done();
        self.a.post(kind, key, at, bytes);
        self.until(|a, _| a.done() > before).await;
        self.a.take_done()
    }

    /// Checks that an operation is refused, ends both sides and leaves the memory unchanged.
    pub(crate) async fn expect_refusal(
        mut self,
        kind: Kind,
        key: Key,
        at: u64,
        memory: &Words,
        bytes: usize,
    ) {
        let before = contents(memory);
        self.a.post(kind, key, at, &vec![7; bytes]);
        self.a.post(Kind::Read, key, 0, &[0; 8]);
        self.until(|a, b| a.ended().is_some() && b.ended().is_some()).await;
        assert_eq!(self.a.statuses(), [Status::RemoteAccess, Status::Flushed], "{kind:?} at {at}");
        assert_eq!(contents(memory), before, "PV-18: {kind:?} at {at}");
    }
}

impl OneSidedEnd {
    /// The wait loop of PV-8. Says whether to come again.
    pub(crate) fn turn(&mut self, cx: &mut Context<'_>) -> bool {
        self.one_sided.arm();
        while self.one_sided.poll(&mut self.got, 3) > 0 {}
        self.one_sided.poll_ready(cx).is_ready()
    }

    /// Returns an operation whose slot has these bytes.
    pub(crate) fn operation(&mut self, kind: Kind, key: Key, at: u64, bytes: &[u8]) -> Operation {
        let mut slot = self.slots.pop().expect("the case has enough slots");
        slot[..bytes.len()].copy_from_slice(bytes);
        Operation { slot, bytes: bytes.len() as u32, key, at, kind }
    }

    pub(crate) fn post(&mut self, kind: Kind, key: Key, at: u64, bytes: &[u8]) {
        let mut batch = vec![self.operation(kind, key, at, bytes)];
        self.one_sided.post(&mut batch).unwrap();
        assert!(batch.is_empty(), "what is accepted is taken");
    }

    pub(crate) fn done(&self) -> usize {
        self.statuses().len()
    }

    #[cfg(feature = "sim")]
    pub(crate) fn outcomes(&self) -> &[Outcome] {
        &self.got
    }

    pub(crate) fn statuses(&self) -> Vec<Status> {
        let status = |outcome: &Outcome| match outcome {
            Outcome::Done { status, .. } => Some(*status),
            _ => None,
        };
        self.got.iter().filter_map(status).collect()
    }

    pub(crate) fn notices(&self) -> Vec<u32> {
        let number = |outcome: &Outcome| match outcome {
            Outcome::Notice(number) => Some(*number),
            _ => None,
        };
        self.got.iter().filter_map(number).collect()
    }

    /// Returns how it has ended, if it has: once, and after all operations.
    pub(crate) fn ended(&self) -> Option<Status> {
        let ended = |outcome: &Outcome| match outcome {
            Outcome::Ended(status) => Some(*status),
            _ => None,
        };
        let all: Vec<_> = self.got.iter().filter_map(ended).collect();
        assert!(all.len() <= 1, "it ends once");
        all.first().copied()
    }

    /// Takes the outcome of the oldest operation.
    pub(crate) fn take_done(&mut self) -> (Status, Slot) {
        let is_done = |outcome: &Outcome| matches!(outcome, Outcome::Done { .. });
        let place = self.got.iter().position(is_done).expect("one has ended");
        match self.got.remove(place) {
            Outcome::Done { slot, status } => (status, slot),
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn numbers(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|number| number as u8).collect()
}

pub(crate) fn contents(memory: &Words) -> Vec<u8> {
    let mut all = vec![0; memory.bytes()];
    memory.read(0, &mut all).unwrap();
    all
}
