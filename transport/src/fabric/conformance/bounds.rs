//! Queues hold what was asked for, and nothing more is asked: PV-9.

use super::pair::{Pair, Pairs, Plan};
use crate::fabric::{FabricError, Notify, PostError, QueuePairConfig, Status};

/// PV-9: a full send queue takes what fits of a batch and leaves the rest; room comes back when a
/// completion is polled, not before.
pub(crate) async fn full_submission_queue(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 8)).await;
    pair.a.halves.done.arm(Notify::Any);
    let mut batch = (0..6).map(|i| pair.a.request(&[i])).collect::<Vec<_>>();
    assert_eq!(pair.a.halves.send.post(&mut batch), Err(PostError::Full));
    assert_eq!(batch.iter().map(|r| r.slot[0]).collect::<Vec<_>>(), [4, 5]);
    // b drives and takes; a is only waited for: completions are there, but not polled.
    std::mem::swap(&mut pair.a, &mut pair.b);
    pair.until_b_is_notified().await;
    std::mem::swap(&mut pair.a, &mut pair.b);
    assert_eq!(pair.a.halves.send.post(&mut batch), Err(PostError::Full));
    assert_eq!(batch.len(), 2);
    pair.until(|a, _| a.sent().len() == 4).await;
    assert_eq!(pair.a.halves.send.post(&mut batch), Ok(()));
    assert!(batch.is_empty());
    pair.until(|a, b| a.sent().len() == 6 && b.got.len() == 6).await;
    assert_eq!(pair.b.frames(), [[0], [1], [2], [3], [4], [5]]);
}

/// PV-9: the same of the receive queue.
pub(crate) async fn full_receive_queue(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    let mut more = pair.b.slots.split_off(pair.b.slots.len() - 3);
    assert_eq!(pair.b.halves.recv.post(&mut more), Err(PostError::Full));
    assert_eq!(more.len(), 3);
    pair.a.send_numbers(2);
    pair.until(|_, b| b.got.len() == 2).await;
    assert_eq!(pair.b.halves.recv.post(&mut more), Err(PostError::Full));
    assert_eq!(more.len(), 1, "two were polled: there is room for two");
}

/// PV-9: what is too long to be sent inline is refused, and what was before it in the batch is
/// sent.
pub(crate) async fn send_exceed_max_inline_data(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    let mut batch = Vec::new();
    for bytes in [64, 65, 1] {
        batch.push(pair.a.request(&vec![1; bytes]));
    }
    batch.iter_mut().for_each(|request| request.inline = true);
    assert_eq!(pair.a.halves.send.post(&mut batch), Err(PostError::InlineTooLong));
    assert_eq!(batch.iter().map(|r| r.bytes).collect::<Vec<_>>(), [65, 1]);
    pair.until(|a, b| a.got.len() == 1 && b.got.len() == 1).await;
    assert_eq!(pair.b.frames(), [[1; 64]]);
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

/// PV-9: a fabric refuses what is over its limits, and names the limit.
pub(crate) async fn more_than_the_limits(pairs: &impl Pairs) {
    for (fabric, side) in pairs.ends() {
        let limits = fabric.limits();
        let fits = QueuePairConfig { side, ..Plan::new(2, 2).config };
        let mut asked = [fits.clone(), fits.clone(), fits.clone(), fits];
        asked[0].send_queue = limits.send_queue_max + 1;
        asked[1].recv_queue = limits.recv_queue_max + 1;
        asked[2].inline_bytes = limits.inline_bytes_max + 1;
        asked[3].rnr_retry = 7;
        for config in asked {
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
    // And when nobody polls until all of it is flushed:
    pair.a.got.clear();
    pair.a.post_recvs(16);
    pair.a.halves.done.close();
    let mut batch = (0..16).map(|i| pair.a.request(&[i])).collect::<Vec<_>>();
    pair.a.halves.send.post(&mut batch).unwrap();
    pair.a.until(|a| a.got.len() == 32).await;
    assert!(pair.a.got.iter().all(|done| done.status == Status::Flushed));
}

/// A poll takes no more than it was asked to, and none is lost.
pub(crate) async fn poll_takes_at_most_max(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(8, 8)).await;
    pair.a.halves.done.close();
    let mut got = Vec::new();
    while got.len() < 8 {
        assert_eq!(pair.a.halves.done.poll(&mut got, 0), 0);
        let before = got.len();
        let taken = pair.a.halves.done.poll(&mut got, 3);
        assert!(taken <= 3 && got.len() == before + taken);
        if taken == 0 {
            pair.a.until(|a| !a.got.is_empty()).await;
            got.append(&mut pair.a.got);
        }
    }
    assert_eq!(got.len(), 8);
}
