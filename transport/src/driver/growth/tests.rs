//! A pipe on a toy queue pair, whose peer is played frame by frame.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::driver::slots::Slots;
use crate::fabric::{
    Completion, FabricError, Limits, Notify, Opening, PostError, QueuePair, QueuePairConfig,
    SendRequest,
};
use crate::memory::{Pool, Region};
use crate::proto::credit::CreditSettings;
use crate::proto::frame::{FrameReader, FrameWriter, Head};
use crate::proto::header::{RecordHeader, RecordKind};
use crate::proto::link::{LinkProtocol, Sizes};
use crate::proto::send_queue::SendQueue;
use crate::proto::window::{Count, WindowSize};

const SLOT: usize = 2048;
/// Slots of every ring at the start.
const RING: u32 = 8;
/// Bytes by which a ring of [`RING`] slots grows when it is doubled.
const DOUBLED: u64 = (RING * limits::POOL_PER_RING) as u64 * SLOT as u64;

/// A fabric that has this many bytes of memory.
#[derive(Debug)]
struct Memory(AtomicUsize);

impl Fabric for Memory {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn limits(&self) -> Limits {
        unreachable!("the bound is given")
    }

    fn alloc(&self, bytes: usize) -> Result<Region, FabricError> {
        let less = |left: usize| left.checked_sub(bytes);
        let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        let (what, asked) = ("memory", bytes as u64);
        let refused = |left| FabricError::Limit { what, asked, limit: left as u64 };
        left.map(|_| Region::heap(bytes)).map_err(refused)
    }

    fn open(&self, _: QueuePairConfig) -> Result<Box<dyn Opening>, FabricError> {
        unreachable!("the queue pair is given")
    }
}

/// A queue pair that keeps the posted slots.
struct Queue {
    receives: Vec<Slot>,
    /// It can make memory ready.
    prepares: Arc<AtomicBool>,
    posted: Arc<AtomicUsize>,
}

impl QueuePair for Queue {
    fn post_send(&mut self, _: &mut Vec<SendRequest>) -> Result<(), PostError> {
        unreachable!("the test writes the frames")
    }

    fn post_recv(&mut self, slots: &mut Vec<Slot>) -> Result<(), PostError> {
        self.receives.append(slots);
        self.posted.store(self.receives.len(), Ordering::Relaxed);
        Ok(())
    }

    fn prepare(&mut self, _: &Slot) -> Result<(), PostError> {
        if self.prepares.load(Ordering::Relaxed) { Ok(()) } else { Err(PostError::Device(12)) }
    }

    fn poll(&mut self, _: &mut Vec<Completion>, _: usize) -> usize {
        0
    }

    fn arm(&mut self, _: Notify) {}

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn close(&mut self) {}
}

struct Rig {
    pipe: Pipe,
    growth: Growth,
    counters: Counters,
    out: SendQueue<()>,
    /// Receives with the queue pair beyond the ring that the link began with.
    posted: Arc<AtomicUsize>,
    prepares: Arc<AtomicBool>,
    now: Instant,
    /// Slots that the peer was granted.
    granted: u32,
}

impl Rig {
    /// A link that is confirmed, with a bound, what its node has, and what its fabric has.
    fn new(ring_max: u32, budget: &Arc<Budget>, memory: usize) -> Self {
        let credit = CreditSettings::new(RING, RING, 2).expect("they cannot stall");
        let sizes = Sizes { frame_max: SLOT, message_max: 1 << 20, tail_max: 0 };
        let now = crate::sync::some_moment();
        let proto = LinkProtocol::new(credit, sizes, Count::default(), now);
        let posted = Arc::default();
        let prepares = Arc::new(AtomicBool::new(true));
        let (posted_there, prepares_there) = (Arc::clone(&posted), Arc::clone(&prepares));
        let queue = Queue { receives: Vec::new(), prepares: prepares_there, posted: posted_there };
        let slots = |count: u32| Region::heap(count as usize * SLOT).into_slots(SLOT);
        let pool = Pool::new(slots(RING));
        let slots = Slots::new(pool, slots(RING), RING as usize, 0);
        let memory = Arc::new(Memory(AtomicUsize::new(memory)));
        let window = WindowSize { messages: 4, bytes: 5000 };
        let mut rig = Rig {
            pipe: Pipe::new(proto, Box::new(queue), slots),
            growth: Growth::new(memory, SLOT as u32, ring_max, budget.clone()),
            counters: Counters::default(),
            out: SendQueue::new(6000, window, LinkProtocol::eager_max(SLOT)),
            posted,
            prepares,
            now,
            granted: 0,
        };
        rig.transmit();
        let confirm = RecordHeader::new(RecordKind::Confirm);
        rig.receive(confirm, SLOT - 64, false);
        rig
    }

    /// The peer sends a frame with one record.
    fn receive(&mut self, header: RecordHeader, payload: usize, short: bool) {
        let mut slot = [0; SLOT];
        let mut writer = FrameWriter::new(&mut slot);
        let payload = if payload > 0 { writer.room(&header) } else { 0 };
        writer.push(header, &vec![0; payload]);
        let consumed = self.pipe.proto.frames_sent();
        let bytes = writer.finish(Head { short, consumed, ..Head::default() });
        let proto = &mut self.pipe.proto;
        let read =
            proto.handle_frame((&slot[..bytes], None), &mut self.out, &mut Vec::new(), self.now);
        read.expect("an honest peer");
        proto.handle_dispatched();
    }

    /// The peer sends a frame that says whether it is short of credits, and asks for an answer, so
    /// that its credits come back.
    fn hear(&mut self, short: bool) {
        self.receive(RecordHeader::new(RecordKind::Probe), 0, short);
        self.transmit();
    }

    /// Sends the frames of this side. CR-6: slots that it grants are posted.
    fn transmit(&mut self) {
        let mut slot = [0; SLOT];
        let proto = &mut self.pipe.proto;
        while let Some(transmit) =
            proto.poll_transmit(&mut self.out, &mut slot, &mut Vec::new(), self.now)
        {
            let frame = &slot[..transmit.bytes];
            let (head, mut reader) = FrameReader::new(frame, 0).expect("a frame");
            while let Some(record) = reader.read(head.records).expect("a record") {
                if record.header.kind == RecordKind::Grant {
                    self.granted += record.header.total;
                }
            }
        }
        assert!(self.posted.load(Ordering::Relaxed) >= self.granted as usize);
    }

    fn grow(&mut self) -> bool {
        let grew = self.growth.grow(&mut self.pipe, &self.counters);
        self.transmit();
        grew
    }

    fn ring(&self) -> u32 {
        self.pipe.proto.ring()
    }

    /// Times that it grew, could not grow, and came to its bound.
    fn counted(&self) -> [u64; 3] {
        let Counters { ring_growths, ring_growths_refused, rings_at_bound, .. } = &self.counters;
        [ring_growths, ring_growths_refused, rings_at_bound].map(|c| c.load(Ordering::Relaxed))
    }
}

#[test]
fn a_ring_doubles_once_for_each_shortage_up_to_its_bound() {
    let budget = Arc::new(Budget::new(u64::MAX));
    let mut rig = Rig::new(40, &budget, usize::MAX);
    assert!(!rig.grow(), "the peer has enough");
    for (grown, ring) in [(true, 16), (true, 32), (true, 40), (false, 40)] {
        rig.hear(true);
        assert_eq!((rig.grow(), rig.ring()), (grown, ring));
        assert!(!rig.grow(), "a shortage counts once");
        assert_eq!(
            (rig.granted, rig.posted.load(Ordering::Relaxed)),
            (ring - RING, (ring - RING) as usize)
        );
        assert_eq!(rig.pipe.slots.posted, ring as usize);
    }
    rig.hear(true);
    rig.hear(false);
    assert!(!rig.grow(), "the peer's last word counts");
    assert_eq!(rig.counted(), [3, 0, 1]);
}

/// A side that has said goodbye cannot say that its ring grew; with a threshold of the larger ring
/// the peer, which still has messages, would wait for credits for ever.
#[test]
fn a_ring_does_not_grow_after_its_sides_goodbye() {
    let budget = Arc::new(Budget::new(u64::MAX));
    let mut rig = Rig::new(64, &budget, usize::MAX);
    rig.hear(true);
    rig.pipe.proto.leave();
    rig.transmit();
    assert!(!rig.grow());
    rig.hear(true);
    assert!(!rig.grow());
    assert_eq!((rig.ring(), rig.granted, rig.counted()), (RING, 0, [0; 3]));
}

/// Two links of a node share its budget; what a link took comes back when it ends.
#[test]
fn what_the_budget_refuses_stays_as_it_is() {
    let budget = Arc::new(Budget::new(2 * DOUBLED));
    let [mut first, mut second] = [0, 1].map(|_| Rig::new(64, &budget, usize::MAX));
    for (rig, grown) in [(&mut first, true), (&mut second, false)] {
        rig.hear(true);
        assert_eq!(rig.grow(), grown);
    }
    assert_eq!((second.ring(), second.granted, second.counted()), (RING, 0, [0, 1, 0]));
    assert_eq!(budget.taken(), DOUBLED);
    drop(first);
    second.hear(true);
    assert!(second.grow(), "another link gave some back");
    drop(second);
    assert_eq!(budget.taken(), 0);
}

/// A peer that is always short, under however many names, leaves others something.
#[test]
fn greedy_links_leave_a_later_one_half_of_what_is_left() {
    // The largest ring is 64 slots, for which it grows by 7 times what the first doubling takes.
    let mut left = 30 * DOUBLED;
    let budget = Arc::new(Budget::new(left));
    let mut links = Vec::new();
    for rings in [64, 64, 64, 32, 32, 16, 16] {
        let mut link = Rig::new(64, &budget, usize::MAX);
        for _ in 0..10 {
            link.hear(true);
            link.grow();
        }
        assert_eq!(
            (link.ring(), link.growth.taken),
            (rings, u64::from(rings / RING - 1) * DOUBLED)
        );
        left -= link.growth.taken;
        links.push(link);
    }
    assert_eq!(budget.taken(), 30 * DOUBLED - left);
}

/// The memory of a message is in the budget until the message is gone, not only until its link is.
#[test]
fn a_lease_that_outlives_its_link_keeps_what_was_taken_for_it() {
    let budget = Arc::new(Budget::new(u64::MAX));
    let mut rig = Rig::new(64, &budget, usize::MAX);
    let mut leases = Vec::new();
    for _ in 0..2 {
        rig.hear(true);
        assert!(rig.grow());
        let grown = rig.pipe.slots.pool.take().expect("half of what it grew by is spare");
        leases.push(rig.pipe.slots.pool.lease(grown, 1));
    }
    assert_eq!(budget.taken(), 3 * DOUBLED);
    drop(rig);
    assert_eq!(budget.taken(), 3 * DOUBLED);
    for left in [2 * DOUBLED, 0] {
        drop(leases.remove(0));
        assert_eq!(budget.taken(), left);
    }
}

/// Memory that a fabric refuses stays in the budget for others of the node.
#[test]
fn what_the_fabric_refuses_is_not_taken_from_the_budget() {
    let budget = Arc::new(Budget::new(2 * DOUBLED));
    let mut rig = Rig::new(64, &budget, 0);
    rig.hear(true);
    assert!(!rig.grow());
    assert_eq!((rig.ring(), rig.granted, rig.counted()), (RING, 0, [0, 1, 0]));
    assert_eq!(budget.taken(), 0);
}

/// A device may refuse memory of its fabric. The link goes on with the slots it has.
#[test]
fn what_the_queue_pair_refuses_is_neither_posted_nor_spare() {
    let budget = Arc::new(Budget::new(2 * DOUBLED));
    let mut rig = Rig::new(64, &budget, usize::MAX);
    rig.prepares.store(false, Ordering::Relaxed);
    rig.hear(true);
    assert!(!rig.grow());
    rig.growth.grow_sends(&mut rig.pipe, &rig.counters, 4);
    let slots = &rig.pipe.slots;
    assert_eq!((slots.pool.spare(), slots.sends()), (RING as usize, RING as usize));
    assert_eq!((rig.ring(), rig.granted, rig.counted()), (RING, 0, [0, 1, 0]));
    assert_eq!(budget.taken(), 0);
}

#[test]
fn send_slots_follow_the_grants_of_the_peer_up_to_the_bound() {
    let budget = Arc::new(Budget::new(u64::MAX));
    let mut rig = Rig::new(20, &budget, usize::MAX);
    for (granted, sends) in [(4, 12), (100, 20), (100, 20)] {
        rig.growth.grow_sends(&mut rig.pipe, &rig.counters, granted);
        assert_eq!((rig.pipe.slots.sends(), rig.pipe.slots.free.len()), (sends, sends));
    }
}

proptest! {
    /// In any order of shortages, growth, frames and a goodbye: the peer is granted exactly the
    /// slots that were posted beyond the first ring, within the bound, the budget and the memory.
    #[test]
    fn the_peer_is_granted_exactly_what_was_posted(
        steps in proptest::collection::vec(0u8..6, 0..60),
        ring_max in RING..100,
        budget in 0..16 * DOUBLED,
        memory in 0..16 * DOUBLED as usize,
    ) {
        let left = Arc::new(Budget::new(budget));
        let mut rig = Rig::new(ring_max, &left, memory);
        for step in steps {
            match step {
                0 | 1 => rig.hear(step == 0),
                2 | 3 => {
                    rig.growth.grow(&mut rig.pipe, &rig.counters);
                }
                4 => rig.growth.grow_sends(&mut rig.pipe, &rig.counters, 5),
                _ => rig.pipe.proto.leave(),
            }
        }
        rig.hear(false);
        let (ring, posted) = (rig.ring(), rig.posted.load(Ordering::Relaxed));
        prop_assert_eq!(rig.granted, ring - RING);
        prop_assert_eq!(posted as u32, ring - RING);
        prop_assert!(ring <= ring_max && rig.pipe.slots.sends() <= ring_max as usize);
        let taken = left.taken();
        prop_assert_eq!(taken, rig.growth.taken);
        prop_assert!(taken <= (budget / 2).min(memory as u64));
        drop(rig);
        prop_assert_eq!(left.taken(), 0);
    }
}
