//! One-sided access over the queue pair of a link: operations travel as frames between the link's
//! frames, and the driver of the memory's owner executes them.
//!
//! - **EM-1 window**: at most [`WINDOW`] requests are without an answer. Before its first grant or
//!   operation each side posts as many receives for the peer's requests, and for the answers to its
//!   own. So no frame of an honest peer finds no receive (PV-5), and credits count frames of the
//!   link alone.
//! - **EM-2 order**: requests are executed and answered in their order, by one side each; so an
//!   answer needs no name.
//! - **EM-3 pieces**: a longer operation goes in pieces that are cut between words (PV-15). Where
//!   frames have tails (PV-12), the bytes of a long piece are one.
//! - **EM-4 hostile bytes** end the queue pair with [`Status::Corrupt`]; a request waits in the
//!   receive that it came in, so a peer takes no more memory than those.

mod engine;
mod frames;
mod outcomes;
mod posted;

use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use zeroize::Zeroizing;

use self::engine::Engine;
use self::frames::Frames;
use super::frame::{REQUEST_BYTES, is_one_sided};
use super::grants::Grants;
use super::{
    Access, Executor, Granting, Joined, Locked, Making, OneSided, OneSidedConfig, Operation,
    Outcome,
};
use crate::fabric::{
    Completion, Fabric, FabricError, Notify, Opening, PostError, QueuePair, QueuePairConfig,
    SendRequest, Status,
};
use crate::limits::{ONE_SIDED_WINDOW, SLOT_BYTES_MAX, SLOT_BYTES_MIN};
use crate::memory::{Buffer, Region, Slot, TailRoom, Words};

/// Requests without an answer (EM-1).
const WINDOW: usize = ONE_SIDED_WINDOW;
/// Frames of either queue: requests and answers.
const QUEUE: usize = 2 * WINDOW;
/// Bytes behind the queue pair's offer: the longest frame that this side takes.
const OFFER_BYTES: usize = 4;

/// The bounds of an engine.
#[derive(Clone, Copy)]
struct Bounds {
    operations: usize,
    notices: usize,
    /// Bytes of a piece that lies in the frame, and of any that begins at a word.
    frame: usize,
    piece: usize,
}

/// A queue pair that is not connected, and carries operations beside its frames.
pub(super) struct Unconnected {
    opening: Box<dyn Opening>,
    memory: Region,
    frame_bytes: usize,
    tail_bytes: usize,
    operations: u32,
    notices: u32,
}

impl Unconnected {
    /// Opens a queue pair of `fabric`, whose receives are `frame_bytes` long.
    pub(super) fn open<F: Fabric + ?Sized>(
        fabric: &F,
        config: QueuePairConfig,
        one_sided: &OneSidedConfig,
        frame_bytes: usize,
    ) -> Result<Self, FabricError> {
        let opening = fabric.open(QueuePairConfig {
            send_queue: config.send_queue + QUEUE as u32,
            recv_queue: config.recv_queue + QUEUE as u32,
            ..config
        })?;
        let memory = fabric.alloc(2 * QUEUE * frame_bytes)?;
        let &OneSidedConfig { operations, notices, .. } = one_sided;
        let tail_bytes = fabric.limits().tail_bytes_max as usize;
        Ok(Unconnected { opening, memory, frame_bytes, tail_bytes, operations, notices })
    }

    pub(super) fn offer(&self) -> Zeroizing<Vec<u8>> {
        let longest = (self.frame_bytes as u32).to_le_bytes();
        Zeroizing::new([&self.opening.offer()[..], &longest].concat())
    }

    pub(super) fn post_recv(&mut self, slots: &mut Vec<Slot>) -> Result<(), PostError> {
        self.opening.post_recv(slots)
    }

    pub(super) fn ways(&self, peer: &[u8]) -> Vec<u32> {
        let below = peer.len().saturating_sub(OFFER_BYTES);
        self.opening.ways(&peer[..below])
    }

    pub(super) async fn connect(self, peer: &[u8], way: usize) -> Result<Joined, FabricError> {
        let wrong = FabricError::Offer("it does not say how long a frame may be");
        let (below, longest) = peer.split_last_chunk::<OFFER_BYTES>().ok_or(wrong)?;
        let theirs = u32::from_le_bytes(*longest);
        if !(SLOT_BYTES_MIN..=SLOT_BYTES_MAX).contains(&theirs) {
            return Err(FabricError::Offer("its longest frame is out of range"));
        }
        let below = self.opening.connect(Zeroizing::new(below.to_vec()), way).await?;
        let frame = self.frame_bytes.min(theirs as usize) - REQUEST_BYTES;
        let bounds = Bounds {
            operations: self.operations.max(1) as usize,
            notices: self.notices as usize,
            frame,
            piece: frame.max(self.tail_bytes) & !7,
        };
        let frames = Frames::new(self.memory, self.frame_bytes);
        let engine = Engine::new(below, bounds, frames);
        let grants = engine.grants();
        let engine = Arc::new(Mutex::new(engine));
        let one_sided = Emulated { engine: engine.clone(), grants };
        Ok(Joined { queue_pair: Box::new(Link(engine)), one_sided: Box::new(one_sided) })
    }
}

/// The queue pair of the link: its owner drives the operations, too.
struct Link(Arc<Mutex<Engine>>);

impl QueuePair for Link {
    fn post_send(&mut self, batch: &mut Vec<SendRequest>) -> Result<(), PostError> {
        self.0.lock().below.post_send(batch)
    }

    fn post_recv(&mut self, slots: &mut Vec<Slot>) -> Result<(), PostError> {
        self.0.lock().below.post_recv(slots)
    }

    fn prepare(&mut self, slot: &Slot) -> Result<(), PostError> {
        self.0.lock().below.prepare(slot)
    }

    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> usize {
        self.0.lock().poll(out, max)
    }

    fn give_tail_room(&mut self, give: &mut dyn FnMut(&[u8], usize) -> Option<TailRoom>) -> bool {
        let give =
            &mut |frame: &[u8], tail| if is_one_sided(frame) { None } else { give(frame, tail) };
        self.0.lock().below.give_tail_room(give)
    }

    fn take_tail(&mut self) -> Option<TailRoom> {
        self.0.lock().below.take_tail()
    }

    fn unsent_bytes(&self) -> usize {
        self.0.lock().below.unsent_bytes()
    }

    fn arm(&mut self, on: Notify) {
        self.0.lock().arm(on);
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.lock().poll_ready(cx)
    }

    fn close(&mut self) {
        self.0.lock().fail(Status::Flushed);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
    }
}

/// The operations of this side.
struct Emulated {
    engine: Arc<Mutex<Engine>>,
    grants: Grants,
}

impl OneSided for Emulated {
    fn grant(&mut self, memory: &Arc<Words>, at: u64, bytes: u64, access: Access) -> Granting {
        self.engine.lock().equip();
        Granting::Done(self.grants.add(memory, at, bytes, access))
    }

    fn executor(&self) -> Executor {
        Executor::Processor
    }

    fn lend(&mut self, bytes: &Arc<Buffer>) -> Granting {
        self.engine.lock().equip();
        Granting::Done(Ok(self.grants.lend(bytes)))
    }

    fn alloc(&self, bytes: usize) -> Making<Locked> {
        let memory = Locked::plain(Region::heap(bytes), bytes);
        Making::Done(memory.ok_or(FabricError::Offer("no memory was asked for")))
    }

    fn post(&mut self, batch: &mut Vec<Operation>) -> Result<(), PostError> {
        self.engine.lock().post(batch)
    }

    fn poll(&mut self, out: &mut Vec<Outcome>, max: usize) -> usize {
        self.engine.lock().outcomes.take(out, max)
    }

    fn arm(&mut self) {
        self.engine.lock().outcomes.arm();
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.engine.lock().outcomes.poll_ready(cx)
    }

    fn is_driven_by_link(&self) -> bool {
        true
    }

    fn close(&mut self) {
        self.engine.lock().fail(Status::Flushed);
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        self.close();
    }
}
