//! Queue pairs: the contract, and the freedom it leaves (SI-3).

use std::future::poll_fn;
use std::sync::Arc;

use super::super::super::*;
use super::*;
use crate::memory::Slot;

/// One end of a connection between two nodes.
pub(super) struct End {
    pub(super) queue_pair: Box<dyn QueuePair>,
    slots: Vec<Slot>,
}

fn config() -> QueuePairConfig {
    let side = Side::Acceptor;
    QueuePairConfig {
        send_queue: 16,
        recv_queue: 16,
        inline_bytes: 64,
        rnr_retry: 0,
        side,
        binding: Vec::new(),
        avoid: Vec::new(),
    }
}

/// Connects a queue pair of `alpha` with one of `beta`, all receives posted.
pub(super) async fn connected(world: &World) -> (End, End) {
    connected_by(&*world.network("alpha").1, &*world.network("beta").1).await
}

/// Connects two queue pairs, all receives posted.
pub(super) async fn connected_by(a: &dyn Fabric, b: &dyn Fabric) -> (End, End) {
    let [(a, a_slots), (b, b_slots)] = [a, b].map(opened);
    let offers = (a.offer(), b.offer());
    let (a, b) = futures::join!(a.connect(offers.1, 0), b.connect(offers.0, 0));
    (End { queue_pair: a.unwrap(), slots: a_slots }, End { queue_pair: b.unwrap(), slots: b_slots })
}

/// Returns a queue pair with all receives posted, and slots to send from.
fn opened(fabric: &dyn Fabric) -> (Box<dyn Opening>, Vec<Slot>) {
    let mut opening = fabric.open(config()).unwrap();
    let mut slots = fabric.alloc(64 * 256).unwrap().into_slots(256);
    let mut ring = slots.split_off(48);
    opening.post_recv(&mut ring).unwrap();
    (opening, slots)
}

impl End {
    /// Posts a signaled frame of one byte.
    pub(super) fn send(&mut self, byte: u8) {
        let mut slot = self.slots.pop().unwrap();
        slot[0] = byte;
        let (signaled, solicited, inline) = (true, true, false);
        let mut batch =
            vec![SendRequest { slot, bytes: 1, tail: None, signaled, solicited, inline }];
        self.queue_pair.post_send(&mut batch).unwrap();
    }

    /// Returns the next `count` completions: of receives their byte, of sends none.
    pub(super) async fn take(&mut self, count: usize) -> Vec<(Option<u8>, Status)> {
        let mut out = Vec::new();
        while out.len() < count {
            self.queue_pair.arm(Notify::Any);
            let max = count - out.len();
            if self.queue_pair.poll(&mut out, max) == 0 {
                poll_fn(|cx| self.queue_pair.poll_ready(cx)).await;
            }
        }
        out.into_iter()
            .map(|done| match done.work {
                Work::Send => (None, done.status),
                Work::Recv { .. } => (Some(done.slot[0]), done.status),
            })
            .collect()
    }

    /// Returns how everything ends once the queue pair fails: the sends, then the receives.
    pub(super) async fn statuses(&mut self, count: usize) -> (Vec<Status>, Vec<Status>) {
        let (sends, receives): (Vec<_>, Vec<_>) =
            self.take(count).await.into_iter().partition(|(byte, _)| byte.is_none());
        let statuses = |done: Vec<(_, Status)>| done.into_iter().map(|(_, status)| status);
        (statuses(sends).collect(), statuses(receives).collect())
    }
}

/// Returns how many of these seeds do this.
fn seeds_that(does: impl Fn(u64) -> bool) -> usize {
    (0..100).filter(|&seed| does(seed)).count()
}

#[test]
fn the_completion_of_a_send_may_come_after_the_answer() {
    let late = seeds_that(|seed| {
        run(seed, |world| async move {
            let (mut a, mut b) = connected(&world).await;
            a.send(1);
            b.take(1).await;
            b.send(2);
            a.take(2).await[0] == (Some(2), Status::Success)
        })
    });
    assert!((5..95).contains(&late), "{late} of 100");
}

/// A frame that comes before the peer called `connect` waits for it.
#[test]
fn a_connect_may_end_before_the_peers() {
    let eager = seeds_that(|seed| {
        run(seed, |world| async move {
            let fabrics = [world.network("alpha").1, world.network("beta").1];
            let [(a, slots), (b, b_slots)] = [&*fabrics[0], &*fabrics[1]].map(|f| opened(f));
            let (a_offer, b_offer) = (a.offer(), b.offer());
            let mut alone = a.connect(b_offer, 0);
            let early = tokio::time::timeout(Duration::from_millis(1), &mut alone).await;
            let Ok(queue_pair) = early else { return false };
            let mut a = End { queue_pair: queue_pair.unwrap(), slots };
            a.send(3);
            world.sleep(Duration::from_millis(1)).await;
            let mut b = End { queue_pair: b.connect(a_offer, 0).await.unwrap(), slots: b_slots };
            assert_eq!(b.take(1).await, [(Some(3), Status::Success)]);
            assert_eq!(a.take(1).await, [(None, Status::Success)]);
            true
        })
    });
    assert!((5..60).contains(&eager), "{eager} of 100");
}

/// A side that waits for a queue pair that is dropped learns that it never connects.
#[test]
fn a_connect_to_a_dropped_queue_pair_fails_or_is_of_no_use() {
    for seed in 0..30 {
        run(seed, |world| async move {
            let fabrics = [world.network("alpha").1, world.network("beta").1];
            let [(a, slots), (b, _)] = [&*fabrics[0], &*fabrics[1]].map(|f| opened(f));
            let connecting = tokio::spawn(a.connect(b.offer(), 0));
            world.sleep(Duration::from_nanos(world.random() % 10_000)).await;
            drop(b);
            if let Ok(queue_pair) = connecting.await.unwrap() {
                let mut a = End { queue_pair, slots };
                a.send(1);
                assert_eq!(a.statuses(17).await.0, [Status::RetryExceeded]);
            }
        });
    }
}

#[test]
fn a_poll_may_be_short_but_is_not_empty() {
    let short = seeds_that(|seed| {
        run(seed, |world| async move {
            let (mut a, mut b) = connected(&world).await;
            (0..8).for_each(|byte| a.send(byte));
            a.take(8).await;
            let mut out = Vec::new();
            let first = b.queue_pair.poll(&mut out, 16);
            assert!(first > 0);
            while b.queue_pair.poll(&mut out, 16) > 0 {}
            assert_eq!(out.len(), 8);
            first < 8
        })
    });
    assert!((5..95).contains(&short), "{short} of 100");
}

#[test]
fn a_notification_may_come_for_nothing() {
    let spurious = seeds_that(|seed| {
        run(seed, |world| async move {
            let (mut a, _b) = connected(&world).await;
            a.queue_pair.arm(Notify::Any);
            let wait = poll_fn(|cx| a.queue_pair.poll_ready(cx));
            tokio::time::timeout(Duration::from_secs(1), wait).await.is_ok()
        })
    });
    assert!((1..50).contains(&spurious), "{spurious} of 100");
}

/// PV-10: the other end learns of a close late, or only when it sends.
#[test]
fn a_closed_peer_may_go_unnoticed_until_one_sends() {
    let noticed = seeds_that(|seed| {
        run(seed, |world| async move {
            let (mut a, mut b) = connected(&world).await;
            a.queue_pair.close();
            let wait = tokio::time::timeout(Duration::from_secs(60), b.take(16)).await;
            if let Ok(flushed) = wait {
                assert!(flushed.iter().all(|done| done.1 == Status::Flushed));
                return true;
            }
            b.send(1);
            let (sends, receives) = b.statuses(17).await;
            assert_eq!(sends, [Status::RetryExceeded]);
            assert_eq!(receives, [Status::Flushed; 16]);
            false
        })
    });
    assert!((20..80).contains(&noticed), "{noticed} of 100");
}

/// A flushed send may have arrived: a frame that left before the close does.
#[test]
fn what_left_before_a_close_arrives() {
    let arrived = seeds_that(|seed| {
        run(seed, |world| async move {
            let (mut a, mut b) = connected(&world).await;
            a.send(7);
            let leaves = world.random() % 300;
            world.sleep(Duration::from_nanos(leaves)).await;
            a.queue_pair.close();
            assert_eq!(a.statuses(17).await.0, [Status::Flushed]);
            let mut out = Vec::new();
            world.sleep(Duration::from_millis(1)).await;
            b.queue_pair.poll(&mut out, 1);
            out.first().is_some_and(|done| done.status == Status::Success)
        })
    });
    assert!((5..95).contains(&arrived), "{arrived} of 100");
}

/// PV-2: slots go with the queue pair, and frames that were on their way do no harm.
#[test]
fn a_queue_pair_may_be_dropped_at_any_moment() {
    for seed in 0..50 {
        run(seed, |world| async move {
            let (mut a, mut b) = connected(&world).await;
            let region = Arc::downgrade(a.slots[0].region());
            (0..10).for_each(|byte| a.send(byte));
            world.sleep(Duration::from_nanos(world.random() % 5_000)).await;
            drop(a);
            assert!(region.upgrade().is_none(), "slots outlived their queue pair");
            b.send(1);
            let (sends, _) = b.statuses(17).await;
            assert!([Status::RetryExceeded, Status::Flushed].contains(&sends[0]), "{sends:?}");
        });
    }
}
