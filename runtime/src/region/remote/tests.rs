//! Regions claimed by another node, and words in a long read.

use std::time::Duration;

use super::*;
use crate::remote::Access;

/// A message about a region comes from another node: no number in it may do harm.
#[tokio::test]
async fn a_region_that_says_it_is_enormous_is_none() {
    let node = Node::builder("alpha").listen("127.0.0.1:0").start().await.expect("it starts");
    let far = Node::builder("beta").listen("127.0.0.1:0").seeds(node.addresses());
    let far = far.start().await.expect("it starts");
    let owned = node.region::<u64>(8).expect("it is small");
    let shared = owned.share(Access::ALL).expect("it is shared");
    let region = |node, share, at, len| {
        let place = RegionAddress { share, at, len, ..(*shared.place).clone() };
        RemoteRegion::<u64>::bind(node, place)
    };
    for (at, len) in [(0, 1 << 40), (0, u64::MAX), (u64::MAX, 8), (u64::MAX, u64::MAX)] {
        let region = region(&node, 7, at, len);
        let len = region.len();
        for range in [0..len, len - 1..len, 0..1, len / 2..len / 2 + 3] {
            assert!(region.read(range.clone()).await.is_err(), "{at} {len} {range:?}");
            let part = region.slice(range.clone());
            let Ok(part) = part else { continue };
            assert!(part.read(0..1).await.is_err());
            assert!(part.write(0, &[1]).await.is_err());
        }
        assert!(region.fetch_add(len - 1, 1).await.is_err());
        assert!(region.compare_exchange(len, 1, 2).await.is_err());
        assert!(region.write(len - 1, &[1, 2]).await.is_err());
    }
    for (node, len) in [&node, &far].into_iter().zip([1 << 58, 1 << 40].repeat(2)) {
        let region = region(node, shared.place.share, 0, len);
        let len = region.len();
        // Errors name the elements that exist, and no element beyond them is found.
        let none = |range| RegionError::OutOfRange { range, len: 8 };
        assert_eq!(region.writer().draft(len).await.map(|draft| draft.len()), Err(none(0..len)));
        assert_eq!(region.view(..).await.map(|view| view.len()), Err(none(0..len)));
        assert_eq!(region.read(..).await.map(|read| read.len()), Err(none(0..len)));
        let ranges = [7..9, 1..2];
        assert_eq!(region.read_many(&ranges).await.map(|read| read.len()), Err(none(1..9)));
        let many = [0..8, 8..len];
        assert_eq!(region.read_many(&many).await.map(|read| read.len()), Err(none(8..len)));
        assert_eq!(region.read_into(6..9, &mut [0; 3]).await, Err(none(6..9)));
        assert_eq!(region.writer().write(8, &[1]).await, Err(none(8..9)));
        assert_eq!(region.slice(4..).expect("so it says").get(4).await, {
            Err(RegionError::OutOfRange { range: 4..5, len: 4 })
        });
        assert_eq!(region.read_many(&[7..8, 0..1]).await, Ok(vec![vec![0]; 2]));
    }
    far.shutdown(Duration::from_secs(60)).await;
}

/// Reads longer than one step are cut between words: a pair of elements written as a word is read
/// as a unit, wherever the read begins.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn words_do_not_tear_where_a_long_read_is_cut() {
    use std::sync::atomic::{AtomicBool, Ordering};

    const PAIRS: usize = 160_000;
    /// The elements around the end of the first MiB.
    const ABOUT: Range<usize> = (1 << 18) - 8..(1 << 18) + 8;
    let node = Node::builder("alpha").start().await.expect("it starts");
    let region = Arc::new(node.region::<f32>(2 * PAIRS).expect("it is small"));
    let shared = region.share(Access::READ).expect("it is shared");
    let is_over = Arc::new(AtomicBool::new(false));
    let writes = std::thread::spawn({
        let (region, is_over) = (region.clone(), is_over.clone());
        move || {
            for round in (0..1_000).cycle() {
                for at in ABOUT.step_by(2) {
                    region.write(at, &[round as f32; 2]).expect("it has them");
                }
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
    });
    let mut changed = 0;
    let mut last = 0.0;
    for round in 0..200 {
        let begin = 1 + round % 4;
        let read = match round % 2 {
            0 => shared.read(begin..).await.expect("it is there"),
            _ => {
                let ranges = [begin..2 * PAIRS, 0..1];
                shared.read_many(&ranges).await.expect("it is there").swap_remove(0)
            }
        };
        let pairs = read[begin % 2..].chunks_exact(2);
        let torn = pairs.filter(|pair| pair[0] != pair[1]).count();
        assert_eq!(torn, 0, "words of a read from {begin} on are torn");
        let now = read[ABOUT.start - begin];
        changed += u32::from(std::mem::replace(&mut last, now) != now);
    }
    is_over.store(true, Ordering::Relaxed);
    writes.join().expect("it writes");
    println!("{changed} reads of 200 found another round");
}

/// A node without a network can use its own regions, but no others.
#[tokio::test]
async fn a_node_without_a_network_uses_its_own_regions() {
    let node = Node::builder("alone").start().await.expect("it starts");
    let owned = node.region::<u64>(4).expect("it is small");
    let shared = owned.share(Access::ALL).expect("it is shared");
    shared.write(1, &[7, 8]).await.expect("it is written");
    let totals = node.snapshot().shared;
    assert_eq!((totals.shares, totals.bytes), (1, 32));
    assert_eq!(shared.fetch_add(1, 2).await, Ok(7));
    assert_eq!(shared.compare_exchange(1, 9, 3).await, Ok(Ok(9)));
    assert_eq!(shared.read_many(&[0..1, 1..3]).await, Ok(vec![vec![0], vec![3, 8]]));
    assert!(owned.revoke(&shared).await);
    assert_eq!(node.snapshot().shared, crate::observe::SharedMemoryTotals::default());
    assert_eq!(shared.get(1).await, Err(RegionError::Revoked));
    let place = RegionAddress { node: "other".into(), ..(*shared.place).clone() };
    let other = RemoteRegion::<u64>::bind(&node, place);
    assert_eq!(other.get(1).await, Err(RegionError::NoNetwork));
}

/// Each reason for which a region is not reached is an error of its own, for each operation of the
/// region's node and of another one, whether or not they used it before.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn each_reason_why_a_region_is_gone_is_an_error_of_its_own() {
    let node = Node::builder("alpha").listen("127.0.0.1:0").start().await.expect("it starts");
    let far = Node::builder("beta").listen("127.0.0.1:0").seeds(node.addresses());
    let far = far.start().await.expect("it starts");
    let owned = node.region::<u64>(8).expect("it is small");
    let lease = |hours| owned.lease(Access::ALL).for_at_most(Duration::from_hours(hours)).share();
    let [live, revoked] = [(); 2].map(|()| owned.share(Access::ALL).expect("it is shared"));
    let [expired, early] = [0, 1].map(|hours| lease(hours).expect("it is shared"));
    let short = owned.lease(Access::ALL).for_at_most(Duration::from_millis(50)).share();
    let short = short.expect("it is shared");
    let other = node.region::<u64>(8).expect("it is small");
    let dropped = other.share(Access::ALL).expect("it is shared");
    let bound = |region: &RemoteRegion<u64>, node, bit: u128, run: u128| {
        let place = (*region.place).clone();
        let (share, incarnation) = (place.share ^ bit, place.incarnation ^ run);
        RemoteRegion::<u64>::bind(node, RegionAddress { share, incarnation, ..place })
    };
    for region in [&live, &revoked, &early, &dropped] {
        assert_eq!(bound(region, &far, 0, 0).get(0).await, Ok(0));
    }
    while bound(&short, &far, 0, 0).get(0).await.is_ok() {}
    let _ = tokio::join!(owned.revoke(&revoked), owned.revoke(&early));
    drop(other);
    let (never, other_run) =
        (RegionError::NeverShared("alpha".into()), RegionError::OtherRun("alpha".into()));
    let mut cases = vec![(&live, 0, 0, RegionError::OutOfRange { range: 7..9, len: 8 })];
    for (region, error) in [
        (&live, never.clone()),
        (&revoked, RegionError::Revoked),
        (&early, RegionError::Revoked),
        (&dropped, RegionError::Revoked),
        (&expired, RegionError::Expired),
        (&short, RegionError::Expired),
    ] {
        if *region != live {
            cases.push((region, 0, 0, error));
        }
        cases.extend([1, 2, 39, 40, 127].map(|bit| (region, 1 << bit, 0, never.clone())));
        cases.extend([0, 127].map(|bit| (region, 0, 1 << bit, other_run.clone())));
    }
    for (nth, (region, bit, run, error)) in cases.into_iter().enumerate() {
        for user in [&node, &far] {
            let region = bound(region, user, bit, run);
            let wanted = format!("{error:?}");
            let (at, range) = if nth == 0 { (7, 7..9) } else { (0, 0..2) };
            let is = |found: RegionError| assert_eq!(format!("{found:?}"), wanted, "case {nth}");
            is(region.read(range.clone()).await.unwrap_err());
            is(region.read_many(std::slice::from_ref(&range)).await.unwrap_err());
            is(region.write(at, &[1, 2]).await.unwrap_err());
            is(region.writer().write(at, &[1, 2]).await.unwrap_err());
            if nth > 0 {
                is(user.renew([&region]).await.remove(0).unwrap_err());
                is(region.fetch_add(at, 1).await.unwrap_err());
                is(region.view(..).await.map(drop).unwrap_err());
            }
        }
    }
    assert_eq!(owned.read(..), Ok(vec![0; 8]));
    far.shutdown(Duration::from_secs(60)).await;
}

/// A node that shuts down reports this, and not that the other node is down.
#[tokio::test]
async fn a_node_that_shuts_down_reaches_no_other_region() {
    let node = Node::builder("alpha").listen("127.0.0.1:0").start().await.expect("it starts");
    let place = RegionAddress { node: "beta".into(), incarnation: 1, share: 7, at: 0, len: 8 };
    let region = RemoteRegion::<u64>::bind(&node, place);
    let operation = tokio::spawn({
        let region = region.clone();
        async move { region.fetch_add(1, 1).await }
    });
    node.shutdown(Duration::from_secs(60)).await;
    assert_eq!(operation.await.expect("it ends"), Err(RegionError::Shutdown));
    assert_eq!(region.read(..).await, Err(RegionError::Shutdown));
    assert_eq!(region.set(1, 1).await, Err(RegionError::Shutdown));
}

/// A share ends when `revoke` is called, even if the returned future is dropped.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_share_ends_when_revoke_is_called() {
    let node = Node::builder("alone").start().await.expect("it starts");
    let owned = node.region_of(&[4u64]).expect("it is small");
    let [first, second] = [(); 2].map(|()| owned.share(Access::ALL).expect("it is shared"));
    let kept = owned.revoke(&first);
    assert_eq!(node.snapshot().shared.shares, 1);
    assert_eq!(first.get(0).await, Err(RegionError::Revoked), "it waits for a poll of none");
    assert!(!owned.revoke(&first).await, "it was shared until the first call");
    assert_eq!(second.get(0).await, Ok(4));
    let all = owned.revoke_all();
    drop(owned);
    assert_eq!(node.snapshot().shared.shares, 0);
    assert_eq!(second.get(0).await, Err(RegionError::Revoked));
    assert!(kept.await);
    all.await;
}

/// Bytes and words of the same memory, also for a slice that begins inside of it.
#[tokio::test]
async fn a_region_of_bytes_is_one_of_words() {
    let node = Node::builder("alpha").start().await.expect("it has no network");
    let owned = node.region::<u8>(29).expect("it is small");
    let bytes = owned.share(Access::ALL).expect("it is shared");
    let words = bytes.cast::<u64>().expect("it begins with a word");
    assert_eq!((words.len(), words.cast::<u8>().map(|bytes| bytes.len())), (3, Ok(24)));
    assert_eq!(words.fetch_add(2, 0x0102).await, Ok(0));
    assert_eq!(owned.read(16..19).ok(), Some(0x0102_u32.to_ne_bytes()[..3].to_vec()));
    let part = bytes.slice(16..).and_then(|part| part.cast::<u64>()).expect("so does this");
    assert_eq!((part.len(), part.get(0).await), (1, Ok(0x0102)));
    let askew = bytes.slice(4..).expect("it is in the region").cast::<u64>();
    assert_eq!(askew.err(), Some(RegionError::Unaligned { element: 0 }));
}
