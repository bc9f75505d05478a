//! The bounds of queues, and memory that belongs to the fabric: PV-1, PV-9.

use std::future::poll_fn;
use std::task::Poll;

use super::pair::{Pair, Pairs, Plan, open};
use crate::fabric::{FabricError, Notify, PostError, QueuePairConfig, Status};
use crate::memory::Region;

/// PV-9: a full send queue accepts the front of a batch and leaves the rest; room comes back when a
/// completion is polled, not before.
pub(crate) async fn full_submission_queue(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 8)).await;
    pair.a.queue_pair.arm(Notify::Any);
    let mut batch = (0..6).map(|i| pair.a.request(&[i])).collect::<Vec<_>>();
    assert_eq!(pair.a.queue_pair.post_send(&mut batch), Err(PostError::Full));
    assert_eq!(batch.iter().map(|r| r.slot[0]).collect::<Vec<_>>(), [4, 5]);
    // b drives and takes; a is only waited for: completions are there, but not polled.
    std::mem::swap(&mut pair.a, &mut pair.b);
    pair.until_b_is_notified().await;
    std::mem::swap(&mut pair.a, &mut pair.b);
    assert_eq!(pair.a.queue_pair.post_send(&mut batch), Err(PostError::Full));
    assert_eq!(batch.len(), 2);
    pair.until(|a, _| a.sent().len() == 4).await;
    assert_eq!(pair.a.queue_pair.post_send(&mut batch), Ok(()));
    assert!(batch.is_empty());
    pair.until(|a, b| a.sent().len() == 6 && b.got.len() == 6).await;
    assert_eq!(pair.b.frames(), [[0], [1], [2], [3], [4], [5]]);
}

/// PV-9: the same of the receive queue.
pub(crate) async fn full_receive_queue(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    let mut more = pair.b.slots.split_off(pair.b.slots.len() - 3);
    assert_eq!(pair.b.queue_pair.post_recv(&mut more), Err(PostError::Full));
    assert_eq!(more.len(), 3);
    pair.a.send_numbers(2);
    pair.until(|_, b| b.got.len() == 2).await;
    assert_eq!(pair.b.queue_pair.post_recv(&mut more), Err(PostError::Full));
    assert_eq!(more.len(), 1, "two were polled: there is room for two");
}

/// PV-9: a frame that is too long to be sent inline is refused; the requests before it in the batch
/// are sent.
pub(crate) async fn send_exceed_max_inline_data(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    let mut batch = Vec::new();
    for bytes in [64, 65, 1] {
        batch.push(pair.a.request(&vec![1; bytes]));
    }
    batch.iter_mut().for_each(|request| request.inline = true);
    assert_eq!(pair.a.queue_pair.post_send(&mut batch), Err(PostError::InlineTooLong));
    assert_eq!(batch.iter().map(|r| r.bytes).collect::<Vec<_>>(), [65, 1]);
    pair.until(|a, b| a.got.len() == 1 && b.got.len() == 1).await;
    assert_eq!(pair.b.frames(), [[1; 64]]);
}

/// PV-9: a queue pair may allow nothing inline, or all that the fabric can; an empty frame is
/// never too long.
pub(crate) async fn inline_limits(pairs: &impl Pairs) {
    let limits = pairs.ends().map(|(fabric, _)| fabric.limits().inline_bytes_max);
    let most = limits[0].min(limits[1]) as usize;
    for allowed in [0, most] {
        let mut plan = Plan { slot_bytes: 2048, ..Plan::new(4, 4) };
        plan.config.inline_bytes = allowed as u32;
        let mut pair = Pair::new(pairs, plan).await;
        let frame = vec![3; allowed];
        for bytes in [&frame[..], b""] {
            let mut request = pair.a.request(bytes);
            request.inline = true;
            pair.a.send(request);
        }
        let mut request = pair.a.request(&vec![4; allowed + 1]);
        request.inline = true;
        assert_eq!(pair.a.send_refused(request), PostError::InlineTooLong);
        pair.until(|a, b| a.got.len() == 2 && b.got.len() == 2).await;
        assert_eq!(pair.b.frames(), [&frame[..], b""]);
    }
}

/// PV-9: a frame cannot be longer than the fabric's limit, however large its slot.
pub(crate) async fn frame_longer_than_the_fabric_sends(pairs: &impl Pairs) {
    let limit = pairs.ends()[0].0.limits().frame_bytes_max as usize;
    let plan = Plan { slot_bytes: (limit + 1).next_multiple_of(16), ..Plan::new(1, 1) };
    let mut pair = Pair::new(pairs, plan).await;
    let mut request = pair.a.request(b"");
    request.bytes = limit as u32 + 1;
    assert_eq!(pair.a.send_refused(request), PostError::TooLong);
    pair.a.send_numbers(1);
    pair.until(|a, b| a.sent() == [Status::Success] && b.got.len() == 1).await;
}

/// PV-1, PV-9: every queue refuses memory of another fabric or of none; the requests before it in
/// the batch are accepted.
pub(crate) async fn foreign_memory_is_refused(pairs: &impl Pairs) {
    let other = pairs.ends()[1].0.clone();
    for foreign in [Region::heap(8192), other.alloc(8192).unwrap()] {
        let mut foreign = foreign.into_slots(4096);
        let [mut before, _] = open(pairs, &Plan::new(2, 2).idle());
        let mut slots = vec![before.slots.pop().unwrap(), foreign.pop().unwrap()];
        assert_eq!(before.opening.post_recv(&mut slots), Err(PostError::Foreign));
        foreign.append(&mut slots);
        assert_eq!(foreign.len(), 2, "only the foreign one is left");

        let mut pair = Pair::new(pairs, Plan { posted: [0, 2], ..Plan::new(4, 4) }).await;
        let mut slots = vec![pair.a.slots.pop().unwrap(), foreign.pop().unwrap()];
        assert_eq!(pair.a.queue_pair.post_recv(&mut slots), Err(PostError::Foreign));
        foreign.append(&mut slots);
        assert_eq!(foreign.len(), 2);

        let mut batch = [0, 1, 2].map(|i| pair.a.request(&[i])).into_iter().collect::<Vec<_>>();
        pair.a.slots.push(std::mem::replace(&mut batch[1].slot, foreign.pop().unwrap()));
        assert_eq!(pair.a.queue_pair.post_send(&mut batch), Err(PostError::Foreign));
        assert_eq!(batch.len(), 2);
        batch.remove(0);
        assert_eq!(pair.a.queue_pair.post_send(&mut batch), Ok(()));
        pair.until(|a, b| a.sent().len() == 2 && b.got.len() == 2).await;
        assert_eq!(pair.b.frames(), [[0], [2]]);
    }
}

/// PV-9: a frame cannot be longer than its slot.
pub(crate) async fn frame_longer_than_its_slot(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    let mut request = pair.a.request(b"");
    request.bytes = request.slot.len() as u32 + 1;
    assert_eq!(pair.a.send_refused(request), PostError::TooLong);
    pair.a.send_numbers(1);
    pair.until(|a, _| a.sent() == [Status::Success]).await;
}

/// PV-9: a fabric refuses a queue pair beyond its limits, and names the limit.
pub(crate) async fn more_than_the_limits(pairs: &impl Pairs) {
    for (fabric, side) in pairs.ends() {
        let limits = fabric.limits();
        let fits = QueuePairConfig { side, ..Plan::new(2, 2).config };
        let mut asked = [fits.clone(), fits.clone(), fits.clone(), fits];
        asked[0].send_queue = limits.send_queue_max + 1;
        asked[1].recv_queue = limits.recv_queue_max + 1;
        asked[2].inline_bytes = limits.inline_bytes_max + 1;
        asked[3].rnr_retry = 7;
        // Where frames are not acknowledged none is tried again.
        let count = if pairs.acknowledge() { 4 } else { 3 };
        for config in asked.into_iter().take(count) {
            let refused = fabric.open(config).map(|_| ()).unwrap_err();
            let FabricError::Limit { asked, limit, .. } = refused else { panic!("{refused}") };
            assert!(asked > limit);
        }
        assert!(fabric.alloc(1).is_ok());
    }
}

/// PV-9: the completion queue holds both queues, full.
pub(crate) async fn cq_counts(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(16, 16)).await;
    pair.a.send_numbers(16);
    pair.b.send_numbers(16);
    pair.until(|a, _| a.got.len() == 32).await;
    pair.until(|_, b| b.got.len() == 32).await;
    for end in [&pair.a, &pair.b] {
        assert_eq!(end.sent(), [Status::Success; 16]);
        assert_eq!(end.received(), [Status::Success; 16]);
    }
    // And when the owner does not poll until all of it is flushed:
    pair.a.got.clear();
    pair.a.post_recvs(16);
    pair.a.queue_pair.close();
    let mut batch = (0..16).map(|i| pair.a.request(&[i])).collect::<Vec<_>>();
    pair.a.queue_pair.post_send(&mut batch).unwrap();
    pair.a.until(|a| a.got.len() == 32).await;
    assert!(pair.a.got.iter().all(|done| done.status == Status::Flushed));
}

/// PV-8, PV-9: both queues of a side complete in full, and the owner does not poll meanwhile:
/// nothing is lost.
pub(crate) async fn cq_overrun(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(16, 16)).await;
    pair.b.send_numbers(16);
    pair.a.send_numbers(16);
    // That all of a's went through says that b's receives have completed.
    let Pair { a, b } = &mut pair;
    poll_fn(|cx| {
        a.queue_pair.arm(Notify::Any);
        a.collect();
        b.queue_pair.arm(Notify::Any);
        for done in [&mut a.queue_pair, &mut b.queue_pair] {
            if done.poll_ready(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
        }
        if a.got.len() == 32 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    pair.until(|_, b| b.got.len() == 32).await;
    for end in [&pair.a, &pair.b] {
        assert_eq!(end.sent(), [Status::Success; 16]);
        assert_eq!(end.received(), [Status::Success; 16]);
    }
}

/// A poll takes no more than it was asked to, and none is lost.
pub(crate) async fn poll_takes_at_most_max(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(8, 8)).await;
    pair.a.queue_pair.close();
    let mut got = Vec::new();
    while got.len() < 8 {
        assert_eq!(pair.a.queue_pair.poll(&mut got, 0), 0);
        let before = got.len();
        let taken = pair.a.queue_pair.poll(&mut got, 3);
        assert!(taken <= 3 && got.len() == before + taken);
        if taken == 0 {
            pair.a.until(|a| !a.got.is_empty()).await;
            got.append(&mut pair.a.got);
        }
    }
    assert_eq!(got.len(), 8);
}
