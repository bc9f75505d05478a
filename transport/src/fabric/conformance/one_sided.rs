//! One-sided access: PV-13 to PV-19.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use super::one_sided_pair::{BYTES, OneSidedPair, contents, numbers};
use super::pair::Pairs;
use crate::fabric::one_sided::{Access, Key, Kind};
use crate::fabric::{FabricError, PostError, Status};
use crate::limits::{ONE_SIDED_FRAME_BYTES, ONE_SIDED_WINDOW};
use crate::memory::Words;

/// PV-14: a read returns the bytes of the memory and leaves them unchanged.
pub(crate) async fn basic_read(pairs: &impl Pairs) {
    let (mut pair, memory, grant) = OneSidedPair::granted(pairs, Access::READ).await;
    for (at, bytes) in [(0, 8), (3, 1), (5, 100), (0, BYTES), (BYTES - 1, 1)] {
        let (status, slot) = pair.run(Kind::Read, grant.key(), at as u64, &vec![0; bytes]).await;
        assert_eq!(status, Status::Success);
        assert_eq!(slot[..bytes], numbers(BYTES)[at..at + bytes], "{bytes} at {at}");
        pair.a.slots.push(slot);
    }
    assert_eq!(contents(&memory), numbers(BYTES));
}

/// PV-14: a write is in the memory when it has its outcome, and touches no other byte.
pub(crate) async fn basic_write(pairs: &impl Pairs) {
    let (mut pair, memory, grant) = OneSidedPair::granted(pairs, Access::WRITE).await;
    let mut model = numbers(BYTES);
    for (at, bytes) in [(8, 8), (3, 1), (61, 70), (0, 7), (BYTES - 1, 1)] {
        let new = vec![0xa0 ^ at as u8; bytes];
        let (status, slot) = pair.run(Kind::Write, grant.key(), at as u64, &new).await;
        assert_eq!(status, Status::Success);
        model[at..at + bytes].copy_from_slice(&new);
        assert_eq!(contents(&memory), model, "{bytes} at {at}");
        pair.a.slots.push(slot);
    }
}

/// A grant of a part counts from its own first byte, and ends with it.
pub(crate) async fn grant_of_a_part(pairs: &impl Pairs) {
    let (mut pair, memory, _all) = OneSidedPair::granted(pairs, Access::ALL).await;
    let part = pair.b.one_sided.grant(&memory, 64, 32, Access::ALL).finish().unwrap();
    let (status, slot) = pair.run(Kind::Read, part.key(), 8, &[0; 24]).await;
    assert_eq!((status, &slot[..24]), (Status::Success, &numbers(BYTES)[72..96]));
    let beyond = pair.b.one_sided.grant(&memory, 250, 7, Access::ALL).finish();
    assert!(matches!(beyond, Err(FabricError::Limit { asked: 257, limit: 256, .. })));
    for at in [1, 4, 63] {
        let unaligned = pair.b.one_sided.grant(&memory, at, 8, Access::ALL).finish();
        assert!(matches!(unaligned, Err(FabricError::Unaligned { .. })), "PV-15, PV-16");
    }
    pair.expect_refusal(Kind::Write, part.key(), 24, &memory, 9).await;
}

/// Operations of no bytes end well, and change nothing.
pub(crate) async fn zero_length_read_and_write(pairs: &impl Pairs) {
    let (mut pair, memory, grant) = OneSidedPair::granted(pairs, Access::ALL).await;
    for kind in [Kind::Read, Kind::Write] {
        let (status, _) = pair.run(kind, grant.key(), 5, &[]).await;
        assert_eq!(status, Status::Success);
    }
    assert_eq!(contents(&memory), numbers(BYTES));
}

/// Operations longer than any frame are done whole, at an odd offset, in both directions at once.
pub(crate) async fn long_read_and_write(pairs: &impl Pairs) {
    let bytes = ONE_SIDED_FRAME_BYTES * (ONE_SIDED_WINDOW + 2) + 3;
    let mut pair = OneSidedPair::of(pairs, 4, 1, (bytes + 16) & !15).await;
    let memory = Arc::new(Words::zeroed(bytes + 16).unwrap());
    let mut long: Vec<_> = (0..bytes).map(|place| (place % 251) as u8).collect();
    let ours = pair.b.one_sided.grant(&memory, 0, bytes as u64 + 16, Access::ALL).finish().unwrap();
    let theirs =
        pair.a.one_sided.grant(&memory, 0, bytes as u64 + 16, Access::READ).finish().unwrap();
    pair.a.post(Kind::Write, ours.key(), 5, &long);
    pair.a.post(Kind::Read, ours.key(), 5, &vec![0; bytes]);
    pair.until(|a, _| a.done() == 2).await;
    pair.b.post(Kind::Read, theirs.key(), 5, &vec![0; bytes]);
    pair.a.post(Kind::Write, ours.key(), 5, &[9; 3]);
    pair.until(|a, b| a.done() == 3 && b.done() == 1).await;
    assert_eq!(pair.a.statuses(), [Status::Success; 3]);
    pair.a.take_done();
    assert!(pair.a.take_done().1[..bytes] == long, "what was read is what was written");
    let (status, slot) = pair.b.take_done();
    assert_eq!(status, Status::Success);
    assert!(slot[3..bytes] == long[3..], "the other side reads the same");
    long[..3].fill(9);
    assert!(contents(&memory)[5..bytes + 5] == long);
}

/// PV-14: an operation sees the effect of earlier ones, and outcomes come in posting order.
pub(crate) async fn operations_in_order(pairs: &impl Pairs) {
    let (mut pair, memory, grant) = OneSidedPair::granted(pairs, Access::ALL).await;
    let key = grant.key();
    let mut batch = Vec::new();
    for round in 1..=4u8 {
        batch.push(pair.a.operation(Kind::Write, key, 16, &[round; 8]));
        batch.push(pair.a.operation(Kind::FetchAdd(1), key, 16, &[0; 8]));
        batch.push(pair.a.operation(Kind::Read, key, 16, &[0; 8]));
    }
    pair.a.one_sided.post(&mut batch).unwrap();
    pair.until(|a, _| a.done() == 12).await;
    let written = |round| u64::from_ne_bytes([round; 8]);
    for round in 1..=4u8 {
        assert_eq!(pair.a.take_done().0, Status::Success);
        let (status, slot) = pair.a.take_done();
        assert_eq!((status, &slot[..8]), (Status::Success, &[round; 8][..]));
        let (status, slot) = pair.a.take_done();
        let found = u64::from_ne_bytes(slot[..8].try_into().unwrap());
        // An operation that was posted after a read may overtake it.
        let later =
            (round + 1..=4).any(|later| found == written(later) || found == written(later) + 1);
        assert!(status == Status::Success && (found == written(round) + 1 || later), "{found:#x}");
    }
    assert_eq!(contents(&memory)[16..24], (written(4) + 1).to_ne_bytes());
    assert_eq!(contents(&memory)[..16], numbers(16));
}

/// PV-16: adding nothing reads the word; adding wraps around.
pub(crate) async fn fetch_add(pairs: &impl Pairs) {
    let (mut pair, memory, grant) = OneSidedPair::granted(pairs, Access::ATOMIC).await;
    memory.write(8, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    for (more, old) in [(0, u64::MAX - 1), (1, u64::MAX - 1), (3, u64::MAX), (0, 2)] {
        let (status, slot) = pair.run(Kind::FetchAdd(more), grant.key(), 8, &[0; 8]).await;
        assert_eq!((status, &slot[..8]), (Status::Success, &old.to_ne_bytes()[..]), "add {more}");
        pair.a.slots.push(slot);
    }
    assert_eq!(contents(&memory)[..8], numbers(8));
}

/// PV-16: a word is exchanged where it is as expected, and only there; its old value comes back.
pub(crate) async fn compare_and_swap(pairs: &impl Pairs) {
    let (mut pair, memory, grant) = OneSidedPair::granted(pairs, Access::ATOMIC).await;
    memory.write(24, &5u64.to_ne_bytes()).unwrap();
    for (expected, new, old) in [(4, 9, 5), (5, 6, 5), (5, 7, 6), (6, 6, 6)] {
        let kind = Kind::CompareAndSwap { expected, new };
        let (status, slot) = pair.run(kind, grant.key(), 24, &[0; 8]).await;
        let old = u64::to_ne_bytes(old);
        assert_eq!((status, &slot[..8]), (Status::Success, &old[..]), "{kind:?}");
        pair.a.slots.push(slot);
    }
    assert_eq!(memory.word(24).unwrap().load(Ordering::Relaxed), 6);
}

/// PV-16: an atomic operation that is not on one aligned word is refused before anything is sent.
pub(crate) async fn unaligned_atomic(pairs: &impl Pairs) {
    let (mut pair, memory, grant) = OneSidedPair::granted(pairs, Access::ALL).await;
    for (at, bytes) in [(4, 8), (8, 4), (8, 16), (1, 8)] {
        let mut batch = vec![
            pair.a.operation(Kind::FetchAdd(0), grant.key(), 0, &[0; 8]),
            pair.a.operation(Kind::FetchAdd(1), grant.key(), at, &vec![0; bytes]),
        ];
        assert_eq!(pair.a.one_sided.post(&mut batch), Err(PostError::Unaligned));
        assert_eq!(batch.len(), 1, "the one before it is taken");
        let before = pair.a.done();
        pair.until(|a, _| a.done() > before).await;
    }
    assert_eq!(pair.a.statuses(), [Status::Success; 4]);
    assert_eq!(contents(&memory), numbers(BYTES));
}

/// PV-17: the owner is told once the data is there, of each write once and in their order.
pub(crate) async fn write_imm_data(pairs: &impl Pairs) {
    let (mut pair, memory, grant) = OneSidedPair::granted(pairs, Access::WRITE).await;
    for number in [0, 1, u32::MAX, 3, 4, 5] {
        let bytes = number.to_ne_bytes();
        pair.a.post(Kind::Write, grant.key(), 100, &bytes);
        pair.a.post(Kind::WriteAndNotify(number), grant.key(), 8, &bytes);
        let before = pair.b.notices().len();
        pair.until(|_, b| b.notices().len() > before).await;
        assert_eq!(pair.b.notices().last(), Some(&number));
        let found = contents(&memory);
        assert_eq!((&found[8..12], &found[100..104]), (&bytes[..], &bytes[..]));
    }
    pair.until(|a, _| a.done() == 12).await;
    assert_eq!(pair.a.statuses(), [Status::Success; 12]);
    assert_eq!(pair.b.notices().len(), 6);
}

/// PV-17: a notice that finds no place is an error of its writer, and none was lost before it.
pub(crate) async fn write_imm_data_rnr(pairs: &impl Pairs) {
    let (mut pair, _memory, grant) = OneSidedPair::granted(pairs, Access::WRITE).await;
    (0..6).for_each(|number| pair.a.post(Kind::WriteAndNotify(number), grant.key(), 0, &[1]));
    // b moves on without taking a notice.
    let OneSidedPair { a, b } = &mut pair;
    poll_fn(|cx| {
        b.one_sided.arm();
        b.one_sided.poll(&mut b.got, 0);
        let more = [a.turn(cx), b.one_sided.poll_ready(cx).is_ready()];
        if a.ended().is_some() {
            return Poll::Ready(());
        }
        if more != [false; 2] {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await;
    let [Status::Success, Status::Success, Status::Success, Status::Success, failed, last] =
        pair.a.statuses()[..]
    else {
        panic!("{:?}", pair.a.statuses())
    };
    assert_eq!((failed, last), (Status::RnrRetryExceeded, Status::Flushed));
    pair.until(|_, b| b.notices().len() == 4).await;
    assert_eq!(pair.b.notices(), [0, 1, 2, 3]);
    // PV-10: b may not know before it uses the queue pair.
    pair.b.post(Kind::Read, Key { number: 0, base: 0 }, 0, &[0; 8]);
    pair.until(|_, b| b.ended().is_some()).await;
    assert_eq!(pair.b.notices().len(), 4);
}

/// PV-18: an operation that ends beyond the grant, however far, is refused.
pub(crate) async fn beyond_the_grant(pairs: &impl Pairs) {
    let end = BYTES as u64;
    for (at, bytes) in [(end - 7, 8), (end, 1), (u64::MAX - 7, 8), (u64::MAX, 1), (1 << 40, 4)] {
        for kind in [Kind::Read, Kind::Write, Kind::WriteAndNotify(1)] {
            let (pair, memory, grant) = OneSidedPair::granted(pairs, Access::ALL).await;
            pair.expect_refusal(kind, grant.key(), at, &memory, bytes).await;
        }
    }
    let (pair, memory, grant) = OneSidedPair::granted(pairs, Access::ALL).await;
    pair.expect_refusal(Kind::FetchAdd(1), grant.key(), end, &memory, 8).await;
}

/// PV-18: a key that was made up is refused, and so is one of another queue pair.
pub(crate) async fn invalid_key(pairs: &impl Pairs) {
    let swap = Kind::CompareAndSwap { expected: 0x0706_0504_0302_0100, new: 1 };
    for kind in [Kind::Read, Kind::Write, Kind::WriteAndNotify(1), Kind::FetchAdd(1), swap] {
        let (pair, memory, grant) = OneSidedPair::granted(pairs, Access::ALL).await;
        let Key { number, base } = grant.key();
        pair.expect_refusal(kind, Key { number: number ^ 0x5a5a, base }, 0, &memory, 8).await;
        let (pair, memory, _grant) = OneSidedPair::granted(pairs, Access::ALL).await;
        let (mut other, _, _other) = OneSidedPair::granted(pairs, Access::ALL).await;
        let more: Vec<_> = (0..4)
            .map(|_| {
                other.b.one_sided.grant(&memory, 0, BYTES as u64, Access::ALL).finish().unwrap()
            })
            .collect();
        pair.expect_refusal(kind, more[3].key(), 0, &memory, 8).await;
    }
}

/// PV-18: each kind is refused where the grant does not give it.
pub(crate) async fn access_that_was_not_granted(pairs: &impl Pairs) {
    let swap = Kind::CompareAndSwap { expected: 0x0706_0504_0302_0100, new: 1 };
    let kinds = [Kind::Read, Kind::Write, Kind::WriteAndNotify(1), Kind::FetchAdd(1), swap];
    for access in [Access::READ, Access::WRITE, Access::ATOMIC, Access::default()] {
        for kind in kinds.into_iter().filter(|kind| !access.allows(*kind)) {
            let (pair, memory, grant) = OneSidedPair::granted(pairs, access).await;
            pair.expect_refusal(kind, grant.key(), 0, &memory, 8).await;
        }
    }
}

/// PV-13: after the drop of a grant its memory is reached no more, and is let go of; another grant
/// of the same memory holds on.
pub(crate) async fn revoked_grant(pairs: &impl Pairs) {
    let (mut pair, memory, grant) = OneSidedPair::granted(pairs, Access::ALL).await;
    let other = pair.b.one_sided.grant(&memory, 0, BYTES as u64, Access::ALL).finish().unwrap();
    let (status, slot) = pair.run(Kind::Write, grant.key(), 0, &[1; 8]).await;
    assert_eq!(status, Status::Success);
    pair.a.slots.push(slot);
    let key = grant.key();
    drop(grant);
    let (status, slot) = pair.run(Kind::Read, other.key(), 0, &[0; 8]).await;
    assert_eq!((status, &slot[..8]), (Status::Success, &[1; 8][..]));
    drop(other);
    assert_eq!(Arc::strong_count(&memory), 1, "the memory is let go of");
    pair.expect_refusal(Kind::Write, key, 0, &memory, 8).await;
}

/// PV-18: the side that has refused may go once it knows of its end; the other one is told why.
pub(crate) async fn refusal_by_one_that_goes(pairs: &impl Pairs) {
    let (pair, memory, grant) = OneSidedPair::granted(pairs, Access::READ).await;
    let OneSidedPair { mut a, b } = pair;
    a.post(Kind::Read, grant.key(), 0, &[0; 8]);
    a.post(Kind::Write, grant.key(), 0, &[1; 8]);
    let mut b = Some(b);
    poll_fn(|cx| {
        let mut more = a.turn(cx);
        if let Some(end) = &mut b {
            more |= end.turn(cx);
            if end.ended().is_some() {
                b = None;
            }
        }
        if a.ended().is_some() {
            return Poll::Ready(());
        }
        if more {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await;
    assert_eq!(a.statuses(), [Status::Success, Status::RemoteAccess]);
    assert_eq!(contents(&memory), numbers(BYTES));
}

/// PV-9: as many operations as were asked for are without an outcome that was polled, no more.
pub(crate) async fn full_operation_queue(pairs: &impl Pairs) {
    let (mut pair, _memory, grant) = OneSidedPair::granted(pairs, Access::ALL).await;
    let mut batch: Vec<_> =
        (0..18).map(|_| pair.a.operation(Kind::FetchAdd(1), grant.key(), 0, &[0; 8])).collect();
    assert_eq!(pair.a.one_sided.post(&mut batch), Err(PostError::Full));
    assert_eq!(batch.len(), 2);
    pair.until(|a, _| a.done() == 16).await;
    assert_eq!(pair.a.one_sided.post(&mut batch), Ok(()));
    pair.until(|a, _| a.done() == 18).await;
    assert_eq!(pair.a.statuses(), [Status::Success; 18]);
}

/// An operation is not longer than its slot.
pub(crate) async fn operation_longer_than_its_slot(pairs: &impl Pairs) {
    let (mut pair, _memory, grant) = OneSidedPair::granted(pairs, Access::ALL).await;
    let mut batch = vec![pair.a.operation(Kind::Read, grant.key(), 0, &[])];
    batch[0].bytes = batch[0].slot.len() as u32 + 1;
    assert_eq!(pair.a.one_sided.post(&mut batch), Err(PostError::TooLong));
    assert_eq!(batch.len(), 1);
}

/// Both sides reach the other's memory at once, each with more than a window.
pub(crate) async fn both_sides_operate_at_once(pairs: &impl Pairs) {
    let (mut pair, memory, grant) = OneSidedPair::granted(pairs, Access::ALL).await;
    let back = pair.a.one_sided.grant(&memory, 0, BYTES as u64, Access::ALL).finish().unwrap();
    memory.write(0, &0u64.to_ne_bytes()).unwrap();
    for _ in 0..16 {
        pair.a.post(Kind::FetchAdd(1), grant.key(), 0, &[0; 8]);
        pair.b.post(Kind::FetchAdd(1 << 32), back.key(), 0, &[0; 8]);
    }
    pair.until(|a, b| a.done() == 16 && b.done() == 16).await;
    for end in [&pair.a, &pair.b] {
        assert_eq!(end.statuses(), [Status::Success; 16]);
    }
    assert_eq!(contents(&memory)[..8], ((16u64 << 32) + 16).to_ne_bytes());
}

/// PV-7, PV-10: a close ends the outstanding operations; operations posted after it are flushed.
pub(crate) async fn close_flushes_operations(pairs: &impl Pairs) {
    let (mut pair, memory, grant) = OneSidedPair::granted(pairs, Access::ALL).await;
    (0..12).for_each(|_| pair.a.post(Kind::FetchAdd(1), grant.key(), 0, &[0; 8]));
    pair.a.one_sided.close();
    pair.a.one_sided.close();
    pair.until(|a, _| a.ended().is_some()).await;
    let statuses = pair.a.statuses();
    assert_eq!(statuses.len(), 12);
    assert!(statuses.iter().all(|status| matches!(status, Status::Flushed | Status::Success)));
    pair.a.post(Kind::Read, grant.key(), 0, &[0; 8]);
    pair.until(|a, _| a.done() == 13).await;
    assert_eq!(pair.a.statuses()[12], Status::Flushed);
    // PV-19: each was executed at most once.
    let first = u64::from_ne_bytes(numbers(8).try_into().unwrap());
    let found = u64::from_ne_bytes(contents(&memory)[..8].try_into().unwrap());
    assert!(found - first <= 12);
}

/// PV-13: operations on a peer that was dropped fail, the memory that it had granted stays as it
/// was, and is let go of.
pub(crate) async fn peer_gone_fails_operations(pairs: &impl Pairs) {
    let (pair, memory, grant) = OneSidedPair::granted(pairs, Access::ALL).await;
    let OneSidedPair { mut a, b } = pair;
    (0..8).for_each(|_| a.post(Kind::FetchAdd(1), grant.key(), 0, &[0; 8]));
    drop(b);
    let left = contents(&memory);
    a.post(Kind::Write, grant.key(), 0, &[1; 8]);
    poll_fn(|cx| {
        if a.turn(cx) {
            cx.waker().wake_by_ref();
        }
        if a.ended().is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    assert!(a.statuses().last().is_some_and(|status| *status != Status::Success));
    assert_eq!(contents(&memory), left);
    drop(grant);
    assert_eq!(Arc::strong_count(&memory), 1);
}
