//! The fabric contract on the simulator.

use std::future::poll_fn;

use super::super::super::*;
use super::*;
use crate::memory::Slot;

pub(super) struct End {
    pub(super) halves: Halves,
    pub(super) spare: Vec<Slot>,
}

pub(super) fn config() -> QueuePairConfig {
    QueuePairConfig {
        send_queue: 16,
        recv_queue: 16,
        inline_bytes: 64,
        rnr_retry: 0,
        side: Side::Acceptor,
    }
}

/// Two connected ends on two nodes, each with `posted` receives posted.
pub(super) async fn pair(
    a: &dyn Fabric,
    b: &dyn Fabric,
    config: QueuePairConfig,
    posted: usize,
) -> (End, End) {
    let open = |fabric: &dyn Fabric| {
        let mut opening = fabric.open(config.clone()).unwrap();
        let mut spare = fabric.alloc(64 * 256).unwrap().into_slots(256);
        let mut first = spare.split_off(spare.len() - posted);
        opening.post_recv(&mut first).unwrap();
        (opening, spare)
    };
    let ((a, a_spare), (b, b_spare)) = (open(a), open(b));
    let (a_offer, b_offer) = (a.offer(), b.offer());
    let (a, b) = futures::future::join(a.connect(b_offer), b.connect(a_offer)).await;
    (End { halves: a.unwrap(), spare: a_spare }, End { halves: b.unwrap(), spare: b_spare })
}

impl End {
    pub(super) fn send(&mut self, bytes: &[u8], signaled: bool) -> Result<(), PostError> {
        let mut slot = self.spare.pop().unwrap();
        slot[..bytes.len()].copy_from_slice(bytes);
        let bytes = bytes.len() as u32;
        let request = SendRequest { slot, bytes, signaled, solicited: true, inline: false };
        let mut batch = vec![request];
        let result = self.halves.send.post(&mut batch);
        self.spare.extend(batch.pop().map(|left| left.slot));
        result
    }

    pub(super) fn receive(&mut self, count: usize) -> Result<(), PostError> {
        let mut slots = self.spare.split_off(self.spare.len() - count);
        let result = self.halves.recv.post(&mut slots);
        self.spare.append(&mut slots);
        result
    }

    /// The next completions, at least one.
    pub(super) async fn next(&mut self) -> Vec<Completion> {
        let mut out = Vec::new();
        loop {
            if self.halves.done.poll(&mut out, 16) > 0 {
                return out;
            }
            self.halves.done.arm(Notify::Any);
            if self.halves.done.poll(&mut out, 16) > 0 {
                return out;
            }
            poll_fn(|cx| self.halves.done.poll_ready(cx)).await;
        }
    }

    /// The next `count` completions.
    pub(super) async fn take(&mut self, count: usize) -> Vec<Completion> {
        let mut out = Vec::new();
        while out.len() < count {
            out.append(&mut self.next().await);
        }
        out
    }
}

#[test]
fn frames_arrive_in_order() {
    for seed in 0..50 {
        run(seed, |world| async move {
            let (a, b) = (world.network("alpha").1, world.network("beta").1);
            let (mut a, mut b) = pair(&*a, &*b, config(), 16).await;
            for n in 0..10u8 {
                a.send(&[n; 9], n == 9).unwrap();
            }
            let received = b.take(10).await;
            for (n, done) in received.iter().enumerate() {
                assert_eq!((done.work, done.status), (Work::Recv { bytes: 9 }, Status::Success));
                assert_eq!(done.slot[..9], [n as u8; 9]);
            }
            let sent = a.take(10).await;
            assert!(sent.iter().all(|done| done.work == Work::Send));
            assert_eq!(world.counters().rnr, 0);
        });
    }
}
