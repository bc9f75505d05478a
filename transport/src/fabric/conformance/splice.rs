//! Frames with bytes from outside of their slots: PV-12. A fabric that takes none refuses them.

use std::ops::Range;
use std::sync::{Arc, Weak};

use rkyv::util::AlignedVec;

use super::pair::{End, Pair, Pairs, Plan};
use crate::fabric::{PostError, SendRequest, Status};
use crate::memory::{Buffer, Splice};

/// Returns a buffer of `bytes` bytes, each different from its neighbours.
fn buffer(bytes: usize) -> Arc<Buffer> {
    let mut buffer = AlignedVec::new();
    buffer.extend_from_slice(&(0..bytes).map(|i| (i % 251) as u8).collect::<Vec<_>>());
    Arc::new(buffer.into())
}

/// Returns a request to send `before`, a part of a buffer, and `after`.
fn spliced(
    end: &mut End,
    (before, after): (&[u8], &[u8]),
    buffer: &Arc<Buffer>,
    part: Range<usize>,
) -> SendRequest {
    let splice = Splice::new(buffer.clone(), part, before.len());
    SendRequest { splice: Some(splice), ..end.request(&[before, after].concat()) }
}

/// Returns true if both ends take splices; if not, checks that they refuse one and go on.
async fn takes_splices(pairs: &impl Pairs, pair: &mut Pair) -> bool {
    if pairs.ends().iter().all(|(fabric, _)| fabric.limits().splices) {
        return true;
    }
    let request = spliced(&mut pair.a, (b"a", b"b"), &buffer(1), 0..1);
    assert_eq!(pair.a.send_refused(request), PostError::Splice);
    pair.a.send_numbers(1);
    pair.until(|a, b| a.sent() == [Status::Success] && !b.got.is_empty()).await;
    false
}

/// PV-12, PV-3: spliced bytes arrive in their place, with and without bytes of the slot around
/// them, between frames that have no splice, and the slots come back unchanged.
pub(crate) async fn spliced_send(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(16, 16)).await;
    if !takes_splices(pairs, &mut pair).await {
        return;
    }
    let whole = buffer(1000);
    let around: [(&[u8], &[u8]); 4] =
        [(b"before", b"after"), (b"before", b""), (b"", b"after"), (b"", b"")];
    let parts = [0..200, 800..1000, 500..500];
    let (mut expected, mut slots) = (Vec::new(), Vec::new());
    for (before, after) in around {
        for part in parts.clone() {
            let request = spliced(&mut pair.a, (before, after), &whole, part.clone());
            pair.a.send(request);
            expected.push([before, &whole[part], after].concat());
            slots.push([before, after].concat());
        }
        let plain = pair.a.request(b"plain");
        pair.a.send(plain);
        expected.push(b"plain".to_vec());
        slots.push(b"plain".to_vec());
    }
    pair.until(|a, b| a.got.len() == 16 && b.got.len() == 16).await;
    assert_eq!(pair.b.frames(), expected);
    assert_eq!(pair.a.sent(), [Status::Success; 16]);
    for (done, slot) in pair.a.got.iter().zip(slots) {
        assert_eq!(done.slot[..slot.len()], slot, "nobody wrote to it");
    }
}

/// PV-12, PV-3: splices of a buffer far longer than two queue pairs hold between them, in frames
/// with a few bytes of their own, back to back and in both directions.
pub(crate) async fn spliced_both_ways(pairs: &impl Pairs) {
    const PART: usize = 60_000;
    let plan = Plan { slot_bytes: 65_536, ..Plan::new(64, 64) };
    let mut pair = Pair::new(pairs, plan).await;
    if !takes_splices(pairs, &mut pair).await {
        return;
    }
    let whole = buffer(64 * PART);
    for i in 0..64 {
        for end in [&mut pair.a, &mut pair.b] {
            let request = spliced(end, (&[i; 48], &[i; 8]), &whole, part(i));
            end.send(request);
        }
    }
    pair.until(|a, b| a.got.len() == 128 && b.got.len() == 128).await;
    for end in [&pair.a, &pair.b] {
        assert_eq!(end.sent(), [Status::Success; 64]);
        for (i, frame) in (0..).zip(end.frames()) {
            assert!(frame == [&[i; 48], &whole[part(i)], &[i; 8]].concat(), "frame {i}");
        }
    }
    fn part(i: u8) -> Range<usize> {
        usize::from(i) * PART..(usize::from(i) + 1) * PART
    }
}

/// PV-12, PV-9, PV-6: limits of length count the spliced bytes.
pub(crate) async fn spliced_limits(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    if !takes_splices(pairs, &mut pair).await {
        return;
    }
    let limit = pairs.ends()[0].0.limits().frame_bytes_max as usize;
    let whole = buffer(limit);
    let request = spliced(&mut pair.a, (b"a", b""), &whole, 0..limit);
    assert_eq!(pair.a.send_refused(request), PostError::TooLong);
    let mut request = spliced(&mut pair.a, (b"ab", b""), &whole, 0..1);
    request.bytes = 1;
    assert_eq!(pair.a.send_refused(request), PostError::TooLong, "it lies behind the frame");
    let mut request = spliced(&mut pair.a, (b"ab", b""), &whole, 0..63);
    request.inline = true;
    assert_eq!(pair.a.send_refused(request), PostError::InlineTooLong);

    let fits = spliced(&mut pair.a, (b"a", b"b"), &whole, 0..254);
    pair.a.send(fits);
    let too_long = spliced(&mut pair.a, (b"a", b"b"), &whole, 0..255);
    pair.a.send(too_long);
    pair.until(|a, b| a.sent().len() == 2 && b.received().len() == 4).await;
    let second = if pairs.acknowledge() { Status::RemoteInvalidRequest } else { Status::Success };
    assert_eq!(pair.a.sent(), [Status::Success, second]);
    assert_eq!(pair.b.received()[..2], [Status::Success, Status::LocalLength]);
}

/// PV-12, PV-7, PV-10: the buffer is let go of when the slots have come back, however the sends
/// ended, and when the queue pair is dropped with sends outstanding.
pub(crate) async fn spliced_memory_is_let_go(pairs: &impl Pairs) {
    let mut pair = Pair::new(pairs, Plan::new(4, 4)).await;
    if !takes_splices(pairs, &mut pair).await {
        return;
    }
    send_all(&mut pair.a, true);
    let through = send_all(&mut pair.a, false);
    pair.until(|a, b| a.sent().len() == 4 && b.got.len() == 4).await;
    assert_eq!(pair.a.sent(), [Status::Success; 4]);
    assert!(through.upgrade().is_none(), "its sends went through");

    let closed = send_all(&mut pair.a, false);
    pair.a.queue_pair.close();
    let late = send_all(&mut pair.a, false);
    pair.until(|a, _| a.sent().len() == 8).await;
    assert!(closed.upgrade().is_none(), "its sends were flushed");
    assert!(late.upgrade().is_none(), "they were posted in the error state");

    let mut pair = Pair::new(pairs, Plan::new(4, 4).unready()).await;
    let dropped = send_all(&mut pair.a, true);
    drop(pair);
    assert!(dropped.upgrade().is_none(), "a dropped queue pair drops what it has");
}

/// Sends the two halves of a buffer, the last one signaled; nothing but the sends keeps it.
fn send_all(end: &mut End, unsignaled: bool) -> Weak<Buffer> {
    let whole = buffer(200);
    for part in [0..100, 100..200] {
        let mut request = spliced(end, (b"x", b""), &whole, part.clone());
        request.signaled = part.end == 200 || !unsignaled;
        end.send(request);
    }
    Arc::downgrade(&whole)
}
