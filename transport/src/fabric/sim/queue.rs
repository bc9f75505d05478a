//! The simulated fabric: the ends of its queue pairs that a node holds.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use zeroize::Zeroizing;

use super::super::{
    Completion, Fabric, FabricError, Limits, Notify, Opening, PostError, Protection, QueuePair,
    QueuePairConfig, SendRequest,
};
use super::event::{Event, Number};
use super::queue_pair::Cause;
use super::queue_pairs::FRAME_BYTES_MAX;
use super::state::{Life, Shared};
use crate::memory::{Owner, Region, Slot};

/// Most work requests in one queue.
const QUEUE_MAX: u32 = 16 * 1024;
/// Longest inline send, in bytes.
const INLINE_BYTES_MAX: u32 = 400;
/// Most times that a frame which found no receive is tried again.
const RNR_RETRY_MAX: u8 = 6;
/// Most memory at once, in bytes.
const REGION_BYTES_MAX: usize = 1 << 30;
/// The bytes that an offer begins with.
const OFFER_MAGIC: &[u8; 4] = b"simq";
/// Within which time a notification for nothing comes, if it comes.
const SPURIOUS_WITHIN: Duration = Duration::from_micros(50);

/// A node's simulated fabric, named `sim`.
#[derive(Debug)]
pub struct SimFabric {
    shared: Arc<Shared>,
    life: Life,
    owner: Owner,
}

impl SimFabric {
    pub(super) fn new(shared: Arc<Shared>, life: Life) -> Self {
        let owner = shared.with(|state| state.owner(life));
        SimFabric { shared, life, owner }
    }
}

impl Fabric for SimFabric {
    fn name(&self) -> &'static str {
        "sim"
    }

    /// It stands in for RDMA.
    fn protection(&self) -> Protection {
        Protection::Network
    }

    fn limits(&self) -> Limits {
        Limits {
            send_queue_max: QUEUE_MAX,
            recv_queue_max: QUEUE_MAX,
            frame_bytes_max: FRAME_BYTES_MAX,
            inline_bytes_max: INLINE_BYTES_MAX,
            tail_bytes_max: 0,
            acknowledges: true,
            lends: false,
        }
    }

    fn alloc(&self, bytes: usize) -> Result<Region, FabricError> {
        within("memory", bytes as u64, REGION_BYTES_MAX as u64)?;
        Ok(self.owner.heap(bytes.max(1)))
    }

    fn open(&self, config: QueuePairConfig) -> Result<Box<dyn Opening>, FabricError> {
        within("a send queue", config.send_queue.into(), QUEUE_MAX.into())?;
        within("a receive queue", config.recv_queue.into(), QUEUE_MAX.into())?;
        within("an inline length", config.inline_bytes.into(), INLINE_BYTES_MAX.into())?;
        within("an rnr_retry", config.rnr_retry.into(), RNR_RETRY_MAX.into())?;
        let number = self.shared.with(|state| {
            let alive = state.lives(self.life) && !state.no_device.contains(&self.life.node);
            alive.then(|| state.queue_pairs.open(self.life.node, self.owner, config))
        });
        let number =
            number.ok_or_else(|| FabricError::Connect(io::ErrorKind::NotConnected.into()))?;
        Ok(Box::new(SimOpening(End { shared: self.shared.clone(), number })))
    }
}

fn within(what: &'static str, asked: u64, limit: u64) -> Result<(), FabricError> {
    if asked > limit { Err(FabricError::Limit { what, asked, limit }) } else { Ok(()) }
}

/// One end of a connection. Dropping it closes it.
struct End {
    shared: Arc<Shared>,
    number: Number,
}

impl Drop for End {
    fn drop(&mut self) {
        self.shared.with(|state| state.queue_pairs.close(&mut state.physics, self.number));
    }
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "qp {}", self.number)
    }
}

struct SimOpening(End);

impl Opening for SimOpening {
    fn offer(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new([&OFFER_MAGIC[..], &(self.0.number as u64).to_le_bytes()].concat())
    }

    fn post_recv(&mut self, slots: &mut Vec<Slot>) -> Result<(), PostError> {
        self.0.post_recv(slots)
    }

    fn connect(
        self: Box<Self>,
        peer: Zeroizing<Vec<u8>>,
        _way: usize,
    ) -> BoxFuture<'static, Result<Box<dyn QueuePair>, FabricError>> {
        let end = self.0;
        async move {
            let number = peer
                .strip_prefix(OFFER_MAGIC)
                .and_then(|number| Some(u64::from_le_bytes(number.try_into().ok()?)))
                .ok_or(FabricError::Offer("it does not name a simulated queue pair"))?;
            end.shared.with(|state| {
                let peer = state.queue_pairs.peer(number as Number);
                let peer = peer
                    .filter(|peer| peer.number != end.number)
                    .ok_or(FabricError::Offer("there is no such queue pair"))?;
                state.queue_pairs.connect(&mut state.physics, end.number, peer);
                Ok::<_, FabricError>(())
            })?;
            poll_fn(|cx| end.shared.with(|s| s.queue_pairs.poll_connected(end.number, cx)))
                .await
                .map_err(|kind| FabricError::Connect(kind.into()))?;
            Ok(Box::new(end) as Box<dyn QueuePair>)
        }
        .boxed()
    }
}

impl QueuePair for End {
    fn post_send(&mut self, batch: &mut Vec<SendRequest>) -> Result<(), PostError> {
        let End { shared, number } = self;
        shared.with(|s| s.queue_pairs.post_send(&mut s.physics, *number, batch))
    }

    fn post_recv(&mut self, slots: &mut Vec<Slot>) -> Result<(), PostError> {
        self.shared.with(|s| s.queue_pairs.post_recv(&mut s.physics, self.number, slots))
    }

    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> usize {
        self.shared.with(|state| {
            let qp = state.queue_pairs.get(self.number);
            let qp = qp.filter(|qp| !state.physics.paused.contains(&qp.node));
            qp.map_or(0, |qp| qp.poll(&mut state.physics, out, max))
        })
    }

    fn arm(&mut self, on: Notify) {
        let number = self.number;
        self.shared.with(|state| {
            let Some(qp) = state.queue_pairs.get(number) else { return };
            qp.done.arm(on);
            if state.physics.one_in(16) {
                let at = state.physics.within(SPURIOUS_WITHIN);
                state.physics.at(at, Event::Spurious { number });
            }
        });
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.shared.with(|state| match state.queue_pairs.get(self.number) {
            Some(qp) => {
                let paused = state.physics.paused.contains(&qp.node);
                qp.done.poll_ready(paused, cx)
            }
            None => Poll::Ready(()),
        })
    }

    fn close(&mut self) {
        self.shared.with(|state| {
            state.queue_pairs.fail(&mut state.physics, self.number, Cause::Outside);
        });
    }
}
