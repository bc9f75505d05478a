//! Frames go through: PV-1 to PV-4, PV-11.

use std::sync::Arc;

use super::pair::{End, Pair, Pairs, Plan, open};
use crate::fabric::{PostError, SendRequest, Status, Work};

/// PV-2, PV-3: a frame arrives whole, and both slots come back.
pub(crate) async fn basic_send(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    let request = pair.a.request(b"hello");
    let place = request.slot.as_ptr();
    pair.a.send(request);
    pair.until(|a, b| !a.got.is_empty() && !b.got.is_empty()).await;
    assert_eq!(pair.b.frames(), [b"hello"]);
    assert_eq!(pair.a.sent(), [Status::Success]);
    assert_eq!(pair.a.got[0].slot.as_ptr(), place, "the slot that was posted comes back");
    assert_eq!(&pair.a.got[0].slot[..5], b"hello", "and nobody wrote to it");

    let request = pair.b.request(b"and back");
    pair.b.send(request);
    pair.until(|a, b| a.got.len() == 2 && b.got.len() == 2).await;
    assert_eq!(pair.a.frames(), [b"and back"]);
}

/// PV-3: an empty frame arrives like any other.
pub(crate) async fn zero_length_send(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    let empty = pair.a.request(b"");
    pair.a.send(empty);
    let last = pair.a.request(b"x");
    pair.a.send(last);
    pair.until(|a, b| a.got.len() == 2 && b.got.len() == 2).await;
    assert_eq!(pair.b.frames(), [&b""[..], b"x"]);
}

/// PV-3: the longest frame there can be, in a receive of exactly its size.
pub(crate) async fn full_length_send(pairs: &impl Pairs) {
    let limit = pairs.ends()[0].0.limits().frame_bytes_max as usize;
    let plan = Plan { slot_bytes: limit.next_multiple_of(16), ..Plan::new(2, 2) };
    let mut pair = Pair::new(pairs, plan).await;
    let frame = (0..limit).map(|i| (i % 251) as u8).collect::<Vec<_>>();
    let request = pair.a.request(&frame);
    pair.a.send(request);
    pair.until(|a, b| !a.got.is_empty() && !b.got.is_empty()).await;
    assert!(pair.b.frames() == [&frame[..]], "the frame arrived changed");
}

/// PV-2, PV-9: an inline send is a send; its slot comes back like any other.
pub(crate) async fn inline_send(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    let longest = [7; 64];
    let mut request = pair.a.request(&longest);
    request.inline = true;
    pair.a.send(request);
    pair.until(|a, b| !a.got.is_empty() && !b.got.is_empty()).await;
    assert_eq!(pair.b.frames(), [&longest]);
}

/// PV-4: the slots of unsignaled sends come back with the next signaled one, before it.
pub(crate) async fn unsignaled_send(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 8)).await;
    for i in 0..3 {
        let mut request = pair.a.request(&[i]);
        request.signaled = false;
        pair.a.send(request);
    }
    pair.until(|_, b| b.got.len() == 3).await;
    // An answer shows that whatever a could learn of its sends has had its way.
    pair.b.send_numbers(1);
    pair.until(|a, b| !a.got.is_empty() && b.sent().len() == 1).await;
    assert_eq!(pair.a.sent(), [], "an unsignaled send does not complete by itself");
    let signaled = pair.a.request(&[3]);
    pair.a.send(signaled);
    pair.until(|a, _| a.sent().len() == 4).await;
    let sent = pair.a.got.iter().filter(|c| c.work == Work::Send);
    assert_eq!(sent.map(|c| (c.status, c.slot[0])).collect::<Vec<_>>(), success_of(0..4));
}

/// PV-3, PV-9: far more frames than any queue holds, posted in batches; all arrive in order, and
/// every slot is used again and again.
pub(crate) async fn order_and_batches_larger_than_queue(pairs: &impl Pairs) {
    const FRAMES: u32 = 2000;
    let mut pair = Pair::new(pairs, Plan::new(8, 16)).await;
    let slots = [pair.a.slots.len(), pair.b.slots.len()];
    let (mut batch, mut posted, mut completed, mut arrived) = (Vec::new(), 0u32, 0u32, 0u32);
    while arrived < FRAMES || completed < FRAMES {
        // Never more on the way than b has receives: a receive is posted again at once.
        while batch.len() < 12 && posted < FRAMES && posted - arrived < 16 {
            let mut request = pair.a.request(&posted.to_le_bytes());
            request.signaled = posted % 4 == 3;
            batch.push(request);
            posted += 1;
        }
        if !batch.is_empty() {
            let left = pair.a.queue_pair.post_send(&mut batch);
            assert_eq!(left, if batch.is_empty() { Ok(()) } else { Err(PostError::Full) });
        }
        pair.until(|a, b| !a.got.is_empty() || !b.got.is_empty()).await;
        for done in pair.a.got.drain(..) {
            assert_eq!((done.work, done.status), (Work::Send, Status::Success));
            assert_eq!(done.slot[..4], completed.to_le_bytes());
            completed += 1;
            pair.a.slots.push(done.slot);
        }
        let again = pair.b.got.len();
        for done in pair.b.got.drain(..) {
            assert_eq!((done.work, done.status), (Work::Recv { bytes: 4 }, Status::Success));
            assert_eq!(done.slot[..4], arrived.to_le_bytes());
            arrived += 1;
            pair.b.slots.push(done.slot);
        }
        pair.b.post_recvs(again);
    }
    assert_eq!([pair.a.slots.len(), pair.b.slots.len()], slots, "no slot is lost");
}

/// PV-3: both sides send long frames at once, more than lies between them; neither blocks the
/// other.
pub(crate) async fn both_directions_at_once(pairs: &impl Pairs) {
    const BYTES: usize = 256 * 1024;
    let plan = Plan { slot_bytes: BYTES, ..Plan::new(64, 64) };
    let mut pair = Pair::new(pairs, plan).await;
    let numbered = |end: &mut End, i: u8| {
        let mut slot = end.slots.pop().unwrap();
        slot.fill(i);
        let request = SendRequest {
            slot,
            bytes: BYTES as u32,
            tail: None,
            signaled: true,
            solicited: true,
            inline: false,
        };
        end.send(request);
    };
    for i in 0..64 {
        numbered(&mut pair.a, i);
        numbered(&mut pair.b, i);
    }
    pair.until(|a, b| a.got.len() == 128 && b.got.len() == 128).await;
    for end in [&pair.a, &pair.b] {
        assert_eq!(end.sent(), [Status::Success; 64]);
        for (i, frame) in end.frames().into_iter().enumerate() {
            assert!(*frame == vec![i as u8; BYTES], "frame {i}");
        }
    }
}

/// PV-11, PV-9: the whole receive queue can be posted before the connection, and not more.
pub(crate) async fn recv_posted_before_connect(pairs: &impl Pairs) {
    let [mut a, _] = open(pairs, &Plan::new(4, 4));
    let mut more = a.slots.split_off(a.slots.len() - 2);
    assert_eq!(a.opening.post_recv(&mut more), Err(PostError::Full));
    assert_eq!(more.len(), 2, "what is refused stays with the caller");

    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    pair.a.send_numbers(4);
    pair.until(|a, b| a.got.len() == 4 && b.got.len() == 4).await;
    assert_eq!(pair.b.frames(), [[0], [1], [2], [3]]);
}

/// PV-1: outstanding slots keep their region alive, and only as long as the queue pair lives.
pub(crate) async fn memory_kept_alive(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    let region = Arc::downgrade(pair.b.slots[0].region());
    pair.b.slots.clear();
    assert!(region.upgrade().is_some(), "the posted receives are left");
    pair.a.send_numbers(1);
    pair.until(|a, b| !a.got.is_empty() && !b.got.is_empty()).await;
    assert_eq!(pair.b.frames(), [[0]]);
    drop(pair);
    assert!(region.upgrade().is_none(), "a dropped queue pair drops its slots");
}

/// Numbered sends that all went through.
pub(super) fn success_of(numbers: std::ops::Range<u8>) -> Vec<(Status, u8)> {
    numbers.map(|i| (Status::Success, i)).collect()
}
