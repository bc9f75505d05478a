//! Two connected queue pairs and what the cases do with them.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::fabric::{
    Completion, Fabric, Notify, Opening, PostError, QueuePair, QueuePairConfig, SendRequest, Side,
    Status, Work,
};
use crate::limits::OFFER_BYTES_MAX;
use crate::memory::Slot;

/// Two places between which a fabric connects queue pairs.
pub(crate) trait Pairs {
    /// Both fabrics, with the side that each is of.
    fn ends(&self) -> [(Arc<dyn Fabric>, Side); 2];

    /// Returns true if a send succeeds only when the peer has accepted its frame (PV-5).
    fn acknowledge(&self) -> bool {
        self.ends()[0].0.limits().acknowledges
    }
}

/// The demands of a case on its queue pairs.
#[derive(Clone)]
pub(crate) struct Plan {
    /// Of both; the side is set by the fabric.
    pub(crate) config: QueuePairConfig,
    /// Receives that are posted before the connection, at a and at b.
    pub(crate) posted: [usize; 2],
    pub(crate) slot_bytes: usize,
}

impl Plan {
    /// Queues of these sizes, all receives posted, slots of 256 bytes.
    pub(crate) fn new(send_queue: u32, recv_queue: u32) -> Self {
        let config = QueuePairConfig {
            send_queue,
            recv_queue,
            inline_bytes: 64,
            rnr_retry: 0,
            side: Side::Acceptor,
            binding: Vec::new(),
            avoid: Vec::new(),
        };
        Plan { config, posted: [recv_queue as usize; 2], slot_bytes: 256 }
    }

    /// No receives posted at all.
    pub(crate) fn idle(self) -> Self {
        Plan { posted: [0; 2], ..self }
    }

    /// No receives posted at b.
    pub(crate) fn unready(mut self) -> Self {
        self.posted[1] = 0;
        self
    }
}

/// One side: its queue pair, its slots, and the completions it has polled.
pub(crate) struct End {
    pub(crate) queue_pair: Box<dyn QueuePair>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) got: Vec<Completion>,
}

/// Both sides. The frames sent from a are received at b unless a case says otherwise.
pub(crate) struct Pair {
    pub(crate) a: End,
    pub(crate) b: End,
}

/// A side before the connection.
pub(crate) struct Unconnected {
    pub(crate) opening: Box<dyn Opening>,
    pub(crate) slots: Vec<Slot>,
}

/// Opens both sides and posts the receives that `plan` asks for.
pub(crate) fn open(pairs: &impl Pairs, plan: &Plan) -> [Unconnected; 2] {
    let mut posted = plan.posted.into_iter();
    pairs.ends().map(|(fabric, side)| {
        let config = QueuePairConfig { side, ..plan.config.clone() };
        let count = 2 * (config.send_queue + config.recv_queue) as usize + 8;
        let mut slots = fabric.alloc(count * plan.slot_bytes).unwrap().into_slots(plan.slot_bytes);
        let mut opening = fabric.open(config).unwrap();
        let mut ring = slots.split_off(slots.len() - posted.next().unwrap());
        opening.post_recv(&mut ring).unwrap();
        assert!(ring.is_empty());
        Unconnected { opening, slots }
    })
}

impl Pair {
    pub(crate) async fn new(pairs: &impl Pairs, plan: Plan) -> Self {
        let [a, b] = open(pairs, &plan);
        let offers = [a.opening.offer(), b.opening.offer()];
        assert!(offers.iter().all(|offer| offer.len() <= OFFER_BYTES_MAX));
        let [for_b, for_a] = offers;
        let (to_b, to_a) = futures::join!(a.opening.connect(for_a, 0), b.opening.connect(for_b, 0));
        Pair {
            a: End { queue_pair: to_b.unwrap(), slots: a.slots, got: Vec::new() },
            b: End { queue_pair: to_a.unwrap(), slots: b.slots, got: Vec::new() },
        }
    }

    /// Drives both sides until `met`.
    pub(crate) async fn until(&mut self, mut met: impl FnMut(&End, &End) -> bool) {
        let Pair { a, b } = self;
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

    /// Drives both sides, taking completions of a only, until b is notified.
    pub(crate) async fn until_b_is_notified(&mut self) {
        let Pair { a, b } = self;
        poll_fn(|cx| {
            if a.turn(cx) {
                cx.waker().wake_by_ref();
            }
            b.queue_pair.poll_ready(cx)
        })
        .await;
    }
}

impl End {
    /// Drives this side alone until `met`.
    pub(crate) async fn until(&mut self, mut met: impl FnMut(&End) -> bool) {
        poll_fn(|cx| {
            let more = self.turn(cx);
            if met(self) {
                return Poll::Ready(());
            }
            if more {
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        })
        .await;
    }

    /// The wait loop of PV-8: arm, poll until nothing comes, wait. Says whether to come again.
    pub(crate) fn turn(&mut self, cx: &mut Context<'_>) -> bool {
        self.queue_pair.arm(Notify::Any);
        self.collect();
        self.queue_pair.poll_ready(cx).is_ready()
    }

    /// Polls until nothing comes.
    pub(crate) fn collect(&mut self) {
        while self.queue_pair.poll(&mut self.got, 7) > 0 {}
    }

    /// Returns a request to send `frame`, signaled and solicited.
    pub(crate) fn request(&mut self, frame: &[u8]) -> SendRequest {
        let mut slot = self.slots.pop().expect("the case has enough slots");
        slot[..frame.len()].copy_from_slice(frame);
        SendRequest {
            slot,
            bytes: frame.len() as u32,
            tail: None,
            signaled: true,
            solicited: true,
            inline: false,
        }
    }

    /// Posts `count` signaled frames of one byte: 0, 1, 2 ...
    pub(crate) fn send_numbers(&mut self, count: u8) {
        let mut batch = (0..count).map(|i| self.request(&[i])).collect::<Vec<_>>();
        self.queue_pair.post_send(&mut batch).unwrap();
        assert!(batch.is_empty());
    }

    /// Posts one request.
    pub(crate) fn send(&mut self, request: SendRequest) {
        let mut batch = vec![request];
        self.queue_pair.post_send(&mut batch).unwrap();
        assert!(batch.is_empty(), "an accepted request is taken");
    }

    /// Posts one request that is to be refused; it is dropped.
    pub(crate) fn send_refused(&mut self, request: SendRequest) -> PostError {
        let mut batch = vec![request];
        let error = self.queue_pair.post_send(&mut batch).unwrap_err();
        assert_eq!(batch.len(), 1, "a refused request is left");
        error
    }

    /// Posts `count` receives.
    pub(crate) fn post_recvs(&mut self, count: usize) {
        let mut slots = self.slots.split_off(self.slots.len() - count);
        self.queue_pair.post_recv(&mut slots).unwrap();
        assert!(slots.is_empty(), "an accepted slot is taken");
    }

    /// How the sends that completed ended, in order.
    pub(crate) fn sent(&self) -> Vec<Status> {
        self.got.iter().filter(|c| c.work == Work::Send).map(|c| c.status).collect()
    }

    /// How the receives that completed ended, in order.
    pub(crate) fn received(&self) -> Vec<Status> {
        self.got.iter().filter(|c| c.work != Work::Send).map(|c| c.status).collect()
    }

    /// Returns the frames that arrived, in order.
    pub(crate) fn frames(&self) -> Vec<&[u8]> {
        self.got
            .iter()
            .filter_map(|c| match (c.work, c.status) {
                (Work::Recv { bytes }, Status::Success) => Some(&c.slot[..bytes as usize]),
                _ => None,
            })
            .collect()
    }
}
