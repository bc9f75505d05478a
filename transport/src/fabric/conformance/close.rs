//! Ends: PV-7, PV-10.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use super::pair::{End, Pair, Pairs, Plan, open};
use crate::fabric::{FabricError, Notify, Status};

/// PV-10, PV-7: closing an idle queue pair flushes its receives.
pub(crate) async fn close_idle(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    pair.a.queue_pair.close();
    pair.a.until(|a| a.got.len() == 4).await;
    assert_eq!(pair.a.received(), [Status::Flushed; 4]);
}

/// PV-10: closing twice, with work outstanding, gives everything back once.
pub(crate) async fn close_twice_with_work(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4).unready()).await;
    pair.a.send_numbers(4);
    pair.a.queue_pair.close();
    pair.a.queue_pair.close();
    pair.a.until(|a| a.got.len() == 8).await;
    pair.a.queue_pair.close();
    pair.a.collect();
    assert_eq!(pair.a.got.len(), 8);
    assert_eq!(pair.a.received(), [Status::Flushed; 4]);
    let failed = pair.a.sent().iter().all(|status| *status != Status::Success);
    assert!(failed || !pairs.acknowledge());
}

/// PV-10: closing after an error changes no completion that was polled, and loses none that is
/// still to come.
pub(crate) async fn close_after_error(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4).unready()).await;
    pair.a.send_numbers(2);
    pair.until(|a, _| !a.sent().is_empty()).await;
    pair.a.queue_pair.close();
    pair.a.until(|a| a.got.len() == 6).await;
    assert_eq!(pair.a.sent(), [Status::RnrRetryExceeded, Status::Flushed]);
    assert_eq!(pair.a.received(), [Status::Flushed; 4]);
    pair.b.queue_pair.close();
    pair.b.collect();
}

/// PV-10: both sides close with frames on the way.
pub(crate) async fn both_sides_close(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    pair.a.send_numbers(4);
    pair.b.send_numbers(4);
    pair.a.queue_pair.close();
    pair.b.queue_pair.close();
    pair.until(|a, b| a.got.len() == 8 && b.got.len() == 8).await;
}

/// Sends one frame after the other until one fails; says how. Where frames are not acknowledged,
/// the peer's end shows without another one.
async fn send_until_it_fails(pairs: &impl Pairs, end: &mut End) -> Status {
    loop {
        end.send_numbers(1);
        let sent = end.sent().len();
        end.until(|end| end.sent().len() > sent).await;
        if let Some(status) = end.sent().into_iter().find(|status| *status != Status::Success) {
            return status;
        }
        if !pairs.acknowledge() {
            end.until(|end| !end.received().is_empty()).await;
            return Status::Flushed;
        }
    }
}

/// PV-10: a peer that closed is found out at the latest by sending to it.
pub(crate) async fn peer_close_fails_sends(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    pair.b.queue_pair.close();
    let status = send_until_it_fails(pairs, &mut pair.a).await;
    // Flushed, where the queue pair noticed before the send.
    assert!(matches!(status, Status::RetryExceeded | Status::Flushed), "{status}");
    assert_eq!(pair.a.sent().len(), 1, "nothing is accepted by a closed queue pair");
    pair.a.until(|a| a.received().len() == 4).await;
    assert_eq!(pair.a.received(), [Status::Flushed; 4]);
}

/// PV-10: when a peer goes away, sends to it complete, and fail at the latest with a later one.
pub(crate) async fn peer_gone_fails_sends(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    pair.a.send_numbers(2);
    let Pair { mut a, b } = pair;
    drop(b);
    a.until(|a| a.sent().len() == 2).await;
    let after = send_until_it_fails(pairs, &mut a).await;
    assert_ne!(after, Status::Success);
    a.until(|a| a.received().len() == 4).await;
    assert_eq!(a.received(), [Status::Flushed; 4]);
}

/// PV-2, PV-10: completions from before the close keep their status and come first.
pub(crate) async fn close_with_unpolled_completions(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    pair.b.queue_pair.arm(Notify::Any);
    pair.a.send_numbers(2);
    let Pair { a, b } = &mut pair;
    let mut arrived = false;
    poll_fn(|cx| {
        // b moves, and takes nothing.
        b.queue_pair.arm(Notify::Any);
        let more = [a.turn(cx), b.queue_pair.poll_ready(cx).is_ready()];
        arrived |= more[1];
        if arrived && a.sent().len() == 2 {
            return Poll::Ready(());
        }
        if more != [false; 2] {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await;
    assert_eq!(pair.a.sent(), [Status::Success; 2]);
    pair.b.queue_pair.close();
    pair.b.until(|b| b.got.len() == 4).await;
    let taken = pair.b.frames().len();
    assert!(taken == 2 || !pairs.acknowledge());
    assert_eq!(pair.b.frames(), [[0], [1]][..taken]);
    assert_eq!(pair.b.received()[taken..], [Status::Flushed; 4][taken..]);
}

/// PV-10, PV-2: dropping a queue pair closes it and drops the slots it still has, with sends and
/// receives outstanding; the peer finds out.
pub(crate) async fn drop_closes(pairs: &impl Pairs) {
    let Pair { mut a, mut b } = Pair::new(pairs, Plan::new(4, 4)).await;
    b.send_numbers(1);
    poll_fn(|cx| {
        let more = [a.turn(cx), b.turn(cx)];
        if a.got.len() == 1 && b.sent().len() == 1 {
            return Poll::Ready(());
        }
        if more != [false; 2] {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await;
    assert_eq!((a.received(), b.sent()), (vec![Status::Success], vec![Status::Success]));
    a.send_numbers(2);
    let End { queue_pair, slots, got } = a;
    let region = Arc::downgrade(slots[0].region());
    drop((slots, got));
    assert!(region.upgrade().is_some(), "three receives and two sends are left");
    drop(queue_pair);
    assert!(region.upgrade().is_none());
    assert_ne!(send_until_it_fails(pairs, &mut b).await, Status::Success);
}

/// PV-2, PV-11: a queue pair that is never connected drops its slots.
pub(crate) async fn drop_unconnected(pairs: &impl Pairs) {
    for end in open(pairs, &Plan::new(2, 2)) {
        let region = Arc::downgrade(end.slots[0].region());
        drop(end.slots);
        assert!(region.upgrade().is_some(), "the receives are posted");
        drop(end.opening);
        assert!(region.upgrade().is_none());
    }
}

/// PV-10: a peer that was dropped before anybody connected is found out when connecting, or else by
/// sending.
pub(crate) async fn connect_to_dropped_peer(pairs: &impl Pairs) {
    let [a, b] = open(pairs, &Plan::new(2, 2));
    let offer = b.opening.offer();
    drop(b);
    if let Ok(queue_pair) = a.opening.connect(offer, 0).await {
        let mut a = End { queue_pair, slots: a.slots, got: Vec::new() };
        let status = send_until_it_fails(pairs, &mut a).await;
        assert!(matches!(status, Status::RetryExceeded | Status::Flushed), "{status}");
        assert_eq!(a.sent().len(), 1);
    }
}

/// An offer that is not one of the fabric is refused, by both sides.
pub(crate) async fn unusable_offer(pairs: &impl Pairs) {
    for end in open(pairs, &Plan::new(2, 2)) {
        let refused = end.opening.connect(vec![7; 3].into(), 0).await.map(|_| ()).unwrap_err();
        assert!(matches!(refused, FabricError::Offer(_)), "{refused}");
    }
}

/// PV-2: a connection that is given up drops the queue pair and its slots.
pub(crate) async fn connect_dropped(pairs: &impl Pairs) {
    let [a, b] = open(pairs, &Plan::new(2, 2));
    let offers = [a.opening.offer(), b.opening.offer()];
    for (end, offer) in [(a, &offers[1]), (b, &offers[0])] {
        let region = Arc::downgrade(end.slots[0].region());
        drop(end.slots);
        let mut connecting = end.opening.connect(offer.clone(), 0);
        let begun = futures::poll!(&mut connecting);
        assert!(region.upgrade().is_some(), "the receives are posted");
        drop((begun, connecting));
        // A device may first have to answer; `bounded` ends the wait if it never does.
        while region.upgrade().is_some() {
            tokio::task::yield_now().await;
        }
    }
}
