//! Frames with tails: PV-12. A fabric that takes none refuses them.

use std::future::poll_fn;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::task::Poll;

use rkyv::util::AlignedVec;

use super::pair::{End, Pair, Pairs, Plan};
use crate::fabric::{Notify, PostError, SendRequest, Status};
use crate::memory::{Buffer, Tail, TailRoom};

/// Returns a buffer of `bytes` bytes, each different from its neighbours.
fn buffer(bytes: usize) -> Arc<Buffer> {
    let mut buffer = AlignedVec::new();
    buffer.extend_from_slice(&(0..bytes).map(|i| (i % 251) as u8).collect::<Vec<_>>());
    Arc::new(buffer.into())
}

/// Returns a request to send `frame`, and a part of a buffer as its tail.
fn tailed(end: &mut End, frame: &[u8], buffer: &Arc<Buffer>, part: Range<usize>) -> SendRequest {
    SendRequest { tail: Some(Tail::new(buffer.clone(), part)), ..end.request(frame) }
}

/// Returns true if both ends take tails; if not, checks that they refuse one and go on.
async fn takes_tails(pairs: &impl Pairs, pair: &mut Pair) -> bool {
    if pairs.ends().iter().all(|(fabric, _)| fabric.limits().tail_bytes_max > 0) {
        return true;
    }
    let request = tailed(&mut pair.a, b"a", &buffer(1), 0..1);
    assert_eq!(pair.a.send_refused(request), PostError::Tail);
    pair.a.send_numbers(1);
    pair.until(|a, b| a.sent() == [Status::Success] && !b.got.is_empty()).await;
    false
}

/// Gives memory for a tail that waits for it, after a byte that is not the tail's.
fn put_room(end: &mut End) -> bool {
    let wanted = end.queue_pair.tail_wanted().map(|(_, tail)| tail);
    let Some(tail) = wanted else { return false };
    let mut memory = AlignedVec::new();
    memory.resize(tail + 2, 7);
    end.queue_pair.put_tail_room(TailRoom::new(memory, 1..tail + 1));
    true
}

/// Drives both sides, which give memory for each tail, until each has received its count of frames.
/// Returns the frames with their tails.
async fn frames_of(pair: &mut Pair, counts: [usize; 2]) -> [Vec<(Vec<u8>, Vec<u8>)>; 2] {
    let mut frames = [Vec::new(), Vec::new()];
    poll_fn(|cx| {
        let mut more = false;
        for (end, frames) in [&mut pair.a, &mut pair.b].into_iter().zip(&mut frames) {
            end.queue_pair.arm(Notify::Any);
            take_frames(end, frames);
            more |= end.queue_pair.poll_ready(cx).is_ready();
        }
        if frames[0].len() == counts[0] && frames[1].len() == counts[1] {
            return Poll::Ready(());
        }
        if more {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await;
    frames
}

/// Takes the frames that are there, and gives memory for a tail when all before it were taken.
fn take_frames(end: &mut End, frames: &mut Vec<(Vec<u8>, Vec<u8>)>) {
    loop {
        let before = end.frames().len();
        let polled = end.queue_pair.poll(&mut end.got, 7);
        let came: Vec<_> = end.frames()[before..].iter().map(|came| came.to_vec()).collect();
        for frame in came {
            let room = end.queue_pair.take_tail().map(TailRoom::into_buffer).unwrap_or_default();
            let tail = room.get(1..room.len().saturating_sub(1)).unwrap_or_default();
            assert!(room.is_empty() || (room[0], room[room.len() - 1]) == (7, 7));
            frames.push((frame, tail.to_vec()));
        }
        if polled == 0 && !put_room(end) {
            return;
        }
    }
}

/// PV-12, PV-3: a tail arrives in the memory given for it, between frames that have none.
pub(crate) async fn tailed_send(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(16, 16)).await;
    if !takes_tails(pairs, &mut pair).await {
        return;
    }
    let whole = buffer(1000);
    let mut expected = Vec::new();
    for frame in [&b"frame"[..], b""] {
        for part in [0..200, 999..1000, 0..1000] {
            let request = tailed(&mut pair.a, frame, &whole, part.clone());
            pair.a.send(request);
            expected.push((frame.to_vec(), whole[part].to_vec()));
        }
        let plain = pair.a.request(b"plain");
        pair.a.send(plain);
        expected.push((b"plain".to_vec(), Vec::new()));
    }
    let [_, frames] = frames_of(&mut pair, [0, 8]).await;
    assert_eq!(frames, expected);
    pair.a.until(|a| a.sent().len() == 8).await;
    assert_eq!(pair.a.sent(), [Status::Success; 8]);
}

/// PV-12, PV-3: tails of a buffer far longer than two queue pairs hold between them, back to back
/// and in both directions.
pub(crate) async fn tailed_both_ways(pairs: &impl Pairs) {
    const PART: usize = 60_000;
    let mut pair = Pair::new(pairs, Plan::new(64, 64)).await;
    if !takes_tails(pairs, &mut pair).await {
        return;
    }
    let whole = buffer(64 * PART);
    let part = |i: u8| usize::from(i) * PART..(usize::from(i) + 1) * PART;
    for i in 0..64 {
        for end in [&mut pair.a, &mut pair.b] {
            let request = tailed(end, &[i; 48], &whole, part(i));
            end.send(request);
        }
    }
    for frames in frames_of(&mut pair, [64, 64]).await {
        for (i, (frame, tail)) in (0..).zip(frames) {
            assert!(frame == [i; 48] && tail == whole[part(i)], "frame {i}");
        }
    }
    pair.until(|a, b| a.sent().len() == 64 && b.sent().len() == 64).await;
}

/// PV-12, PV-9: the limits of a tail, and of an inline send that has one.
pub(crate) async fn tailed_limits(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    if !takes_tails(pairs, &mut pair).await {
        return;
    }
    let limit = pairs.ends()[0].0.limits().tail_bytes_max as usize;
    let whole = buffer(limit + 1);
    let request = tailed(&mut pair.a, b"a", &whole, 0..limit + 1);
    assert_eq!(pair.a.send_refused(request), PostError::TooLong);
    let mut request = tailed(&mut pair.a, b"ab", &whole, 0..63);
    request.inline = true;
    assert_eq!(pair.a.send_refused(request), PostError::InlineTooLong);
    let fits = tailed(&mut pair.a, b"a", &whole, 0..limit);
    pair.a.send(fits);
    let [_, frames] = frames_of(&mut pair, [0, 1]).await;
    assert!(frames[0].1 == whole[..limit]);
}

/// PV-12, PV-7, PV-10: the buffer is let go of when the slots have come back, however the sends
/// ended, and when the queue pair is dropped with sends outstanding; and so is the memory that was
/// given for a tail that does not come.
pub(crate) async fn tailed_memory_is_let_go(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    if !takes_tails(pairs, &mut pair).await {
        return;
    }
    send_all(&mut pair.a, true);
    let through = send_all(&mut pair.a, false);
    frames_of(&mut pair, [0, 4]).await;
    pair.a.until(|a| a.sent().len() == 4).await;
    assert_eq!(pair.a.sent(), [Status::Success; 4]);
    assert!(through.upgrade().is_none(), "its sends went through");

    let closed = send_all(&mut pair.a, false);
    pair.a.queue_pair.close();
    let late = send_all(&mut pair.a, false);
    pair.a.until(|a| a.sent().len() == 8).await;
    assert!(closed.upgrade().is_none(), "its sends were flushed");
    assert!(late.upgrade().is_none(), "they were posted in the error state");

    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    let dropped = send_all(&mut pair.a, true);
    pair.b.until(|b| b.queue_pair.tail_wanted().is_some()).await;
    assert!(put_room(&mut pair.b));
    drop(pair);
    assert!(dropped.upgrade().is_none(), "a dropped queue pair drops what it has");
}

/// PV-12, PV-7: a tail that waits for memory does not outlive its queue pair.
pub(crate) async fn tail_without_room(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    if !takes_tails(pairs, &mut pair).await {
        return;
    }
    send_all(&mut pair.a, true);
    let waits = |b: &End| b.queue_pair.tail_wanted().is_some_and(|(frame, _)| frame == b"x");
    pair.until(|_, b| waits(b)).await;
    assert_eq!(pair.b.frames().len(), 0, "nothing arrives before it");
    pair.b.queue_pair.close();
    assert!(pair.b.queue_pair.tail_wanted().is_none());
    pair.b.until(|b| b.received().len() == 4).await;
    assert_eq!(pair.b.received(), [Status::Flushed; 4]);
}

/// Sends the two halves of a buffer, the last one signaled; nothing but the sends keeps it.
fn send_all(end: &mut End, unsignaled: bool) -> Weak<Buffer> {
    let whole = buffer(200);
    for part in [0..100, 100..200] {
        let mut request = tailed(end, b"x", &whole, part.clone());
        request.signaled = part.end == 200 || !unsignaled;
        end.send(request);
    }
    Arc::downgrade(&whole)
}
