//! The failures, and the words of the queue pair for them: PV-4 to PV-7.

use super::pair::{Pair, Pairs, Plan};
use crate::fabric::{PostError, Status, Work};

/// PV-5, PV-7: with `rnr_retry` 0 a frame without a receive fails at once; those after it are
/// flushed and did not arrive.
pub(crate) async fn send_rnr(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4).unready()).await;
    pair.a.send_numbers(3);
    pair.until(|a, _| a.sent().len() == 3).await;
    assert_eq!(pair.a.sent(), [Status::RnrRetryExceeded, Status::Flushed, Status::Flushed]);
    assert_eq!(pair.b.frames().len(), 0);
    pair.until(|a, _| a.got.len() == 7).await;
    assert_eq!(pair.a.received(), [Status::Flushed; 4]);
}

/// PV-3, PV-5: the frames that found a receive arrive and complete, the next one fails.
pub(crate) async fn send_rnr_after_some(pairs: &impl Pairs) {
    let mut plan = Plan::new(8, 4);
    plan.posted[1] = 2;
    let mut pair = Pair::new(pairs, plan).await;
    pair.a.send_numbers(5);
    pair.until(|a, b| a.sent().len() == 5 && b.got.len() >= 2).await;
    assert_eq!(pair.b.frames(), [[0], [1]]);
    let [first, second, third, ..] = pair.a.sent()[..] else { unreachable!() };
    assert_eq!([first, second], [Status::Success; 2]);
    assert_eq!(third, Status::RnrRetryExceeded);
    assert_eq!(pair.a.sent()[3..], [Status::Flushed; 2]);
}

/// PV-5: tries end.
pub(crate) async fn send_rnr_retry_failure(pairs: &impl Pairs) {
    let mut plan = Plan::new(4, 4).unready();
    plan.config.rnr_retry = 2;
    let mut pair = Pair::new(pairs, plan).await;
    pair.a.send_numbers(2);
    pair.until(|a, _| a.sent().len() == 2).await;
    assert_eq!(pair.a.sent(), [Status::RnrRetryExceeded, Status::Flushed]);
}

/// PV-3, PV-5: a receive that is posted between two tries is found, and frames keep their order.
pub(crate) async fn send_rnr_retry_success(pairs: &impl Pairs) {
    let mut plan = Plan::new(4, 4).unready();
    plan.config.rnr_retry = 6;
    let mut pair = Pair::new(pairs, plan).await;
    pair.a.send_numbers(3);
    // Both sides had a turn: the frames may have been refused once by now.
    pair.until(|_, _| true).await;
    pair.b.post_recvs(3);
    pair.until(|a, b| a.sent().len() == 3 && b.got.len() == 3).await;
    assert_eq!(pair.a.sent(), [Status::Success; 3]);
    assert_eq!(pair.b.frames(), [[0], [1], [2]]);
}

/// PV-6: a frame longer than its receive ends both queue pairs; the frames before it arrive.
pub(crate) async fn send_with_too_small_recv(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4).unready()).await;
    // A receive of 256 bytes, then two of 16.
    let mut recvs = pair.b.slots.split_off(pair.b.slots.len() - 1);
    recvs.extend(pairs.ends()[1].0.alloc(64).unwrap().into_slots(16).into_iter().take(2));
    pair.b.queue_pair.post_recv(&mut recvs).unwrap();
    for bytes in [16, 17, 1] {
        let request = pair.a.request(&vec![9; bytes]);
        pair.a.send(request);
    }
    pair.until(|a, b| a.got.len() == 7 && b.got.len() == 3).await;
    let status = [Status::Success, Status::RemoteInvalidRequest, Status::Flushed];
    assert_eq!(pair.a.sent(), status);
    assert_eq!(pair.a.received(), [Status::Flushed; 4]);
    assert_eq!(pair.b.received(), [Status::Success, Status::LocalLength, Status::Flushed]);
    assert_eq!(pair.b.frames(), [[9; 16]]);
}

/// PV-4, PV-7: an unsignaled send that fails completes; the successful unsignaled sends before it
/// complete first.
pub(crate) async fn unsignaled_send_error(pairs: &impl Pairs) {
    let mut plan = Plan::new(8, 4);
    plan.posted[1] = 2;
    let mut pair = Pair::new(pairs, plan).await;
    for i in 0..4 {
        let mut request = pair.a.request(&[i]);
        request.signaled = false;
        pair.a.send(request);
    }
    pair.until(|a, _| a.sent().len() == 4).await;
    let sent = pair.a.got.iter().filter(|c| c.work == Work::Send);
    assert_eq!(
        sent.map(|c| (c.status, c.slot[0])).collect::<Vec<_>>(),
        [
            (Status::Success, 0),
            (Status::Success, 1),
            (Status::RnrRetryExceeded, 2),
            (Status::Flushed, 3)
        ]
    );
}

/// PV-2, PV-4, PV-7: closing flushes both queues; each slot comes back once, in the order of its
/// queue. Successful requests, unsignaled sends too, come first.
pub(crate) async fn flush_error_poll_together(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(8, 4)).await;
    let mut request = pair.a.request(&[0]);
    request.signaled = false;
    pair.a.send(request);
    // It arrived, which its sender may or may not know yet.
    pair.until(|_, b| b.got.len() == 1).await;
    pair.b.send_numbers(1);
    pair.until(|a, b| a.got.len() == 1 && b.sent().len() == 1).await;
    let mut posted = (0..3).map(|i| pair.a.request(&[10 + i])).collect::<Vec<_>>();
    pair.a.queue_pair.post_send(&mut posted).unwrap();
    pair.a.queue_pair.close();
    pair.a.until(|a| a.got.len() == 1 + 4 + 3).await;
    assert_eq!(pair.a.received(), [&[Status::Success][..], &[Status::Flushed; 3]].concat());
    let sent = pair.a.got.iter().filter(|c| c.work == Work::Send);
    let sent = sent.map(|c| (c.status, c.slot[0])).collect::<Vec<_>>();
    assert_eq!(sent.iter().map(|(_, number)| *number).collect::<Vec<_>>(), [0, 10, 11, 12]);
    let through = sent.iter().take_while(|(status, _)| *status == Status::Success).count();
    assert!(sent[through..].iter().all(|(status, _)| *status == Status::Flushed), "{sent:?}");
}

/// PV-7, PV-9: posting in the error state is accepted up to the size of the queue, and flushed.
pub(crate) async fn post_in_error_state(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(2, 2)).await;
    pair.a.queue_pair.close();
    pair.a.until(|a| a.got.len() == 2).await;
    for _ in 0..3 {
        pair.a.got.clear();
        pair.a.send_numbers(2);
        pair.a.post_recvs(2);
        let request = pair.a.request(b"one too many");
        assert_eq!(pair.a.send_refused(request), PostError::Full);
        pair.a.until(|a| a.got.len() == 4).await;
        assert_eq!(pair.a.sent(), [Status::Flushed; 2]);
        assert_eq!(pair.a.received(), [Status::Flushed; 2]);
        while let Some(done) = pair.a.got.pop() {
            pair.a.slots.push(done.slot);
        }
    }
}
