//! Faults of dials and bytes, of one direction, of a node's software and of its device.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::super::super::*;
use super::fabric::{connected, connected_by};
use super::wire::streams;
use super::*;
use crate::wire::{Stream, Wire};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn frames_without_an_answer_arrived_and_are_an_error() {
    for seed in 0..50 {
        run(seed, |world| async move {
            let (mut a, mut b) = connected(&world).await;
            a.send(0);
            assert_eq!(a.take(1).await, [(None, Status::Success)]);
            b.take(1).await;
            world.add_rule(Rule::new(Verdict::Unanswered).from("alpha").only(1..2));
            (1..4).for_each(|byte| a.send(byte));
            let [ok, gone, flushed] = [Status::Success, Status::RetryExceeded, Status::Flushed];
            assert_eq!(b.take(3).await, [1, 2, 3].map(|byte| (Some(byte), ok)));
            assert_eq!(a.statuses(19).await.0, [gone, flushed, flushed]);
            assert_eq!(world.counters().on_frames.unanswered, 1);
        });
    }
}

#[test]
fn frames_fail_with_any_status() {
    for status in [Status::Fatal, Status::PortDown, Status::RemoteInvalidRequest] {
        run(1, |world| async move {
            let (mut a, _b) = connected(&world).await;
            world.add_rule(Rule::new(Verdict::Fail(status)));
            a.send(0);
            assert_eq!(a.statuses(17).await.0, [status]);
        });
    }
}

/// Traffic that passes one way only: frames arrive and no answer comes back, bytes pass and are not
/// answered.
#[test]
fn a_partition_of_one_direction_lets_the_other_pass() {
    for seed in 0..20 {
        run(seed, |world| async move {
            let (mut near, mut far) = streams(&world).await;
            let (mut a, mut b) = connected(&world).await;
            world.partition_one_way("beta", "alpha");
            near.write_all(b"there").await.unwrap();
            let mut read = [0; 5];
            far.read_exact(&mut read).await.unwrap();
            far.write_all(b"back").await.unwrap();
            a.send(1);
            b.send(2);
            assert_eq!(a.statuses(17).await.0, [Status::RetryExceeded]);
            assert_eq!(b.take(1).await[0], (Some(1), Status::Success));
            assert!(timeout(MINUTE, near.read_u8()).await.is_err(), "nothing comes back");
            world.mend("alpha", "beta");
            assert_eq!(near.read_u8().await.unwrap(), b'b');
        });
    }
}

#[test]
fn a_paused_node_takes_frames_and_bytes_and_sees_them_when_it_goes_on() {
    for seed in 0..20 {
        run(seed, |world| async move {
            let (mut near, mut far) = streams(&world).await;
            let (mut a, mut b) = connected(&world).await;
            world.pause("beta");
            a.send(1);
            near.write_all(b"1").await.unwrap();
            assert_eq!(a.take(1).await, [(None, Status::Success)], "its device answers");
            let alpha = world.network("alpha").0;
            let mut port = world.network("beta").0.listen("beta:9".into()).await.unwrap();
            let dialled = alpha.dial("beta:9".into()).await;
            assert!(dialled.is_ok(), "its kernel answers");
            b.send(2);
            let (write, read) = (far.write_all(b"2"), async { timeout(MINUTE, b.take(1)).await });
            let seen = timeout(MINUTE, async { futures::join!(write, read, port.accept()) }).await;
            assert!(seen.is_err(), "it sees nothing");
            assert!(timeout(MINUTE, a.take(1)).await.is_err(), "nothing of it leaves");
            world.resume("beta");
            assert!(b.take(2).await.contains(&(Some(1), Status::Success)));
            assert_eq!(a.take(1).await, [(Some(2), Status::Success)]);
            assert_eq!(far.read_u8().await.unwrap(), b'1');
            far.write_all(b"2").await.unwrap();
            assert_eq!(near.read_u8().await.unwrap(), b'2');
            port.accept().await.unwrap();
        });
    }
}

#[test]
fn a_lost_device_ends_its_queue_pairs_and_leaves_streams_alone() {
    run(1, |world| async move {
        let (mut near, mut far) = streams(&world).await;
        let (mut a, mut b) = connected(&world).await;
        world.lose_device("beta");
        assert_eq!(b.statuses(16).await.1, [Status::Flushed; 16]);
        a.send(1);
        assert_eq!(a.statuses(17).await.0, [Status::RetryExceeded]);
        near.write_all(b"x").await.unwrap();
        assert_eq!(far.read_u8().await.unwrap(), b'x');
        let (alpha, beta) = (world.network("alpha").1, world.network("beta").1);
        let config = QueuePairConfig {
            send_queue: 1,
            recv_queue: 1,
            inline_bytes: 0,
            rnr_retry: 0,
            side: Side::Acceptor,
            binding: Vec::new(),
            avoid: Vec::new(),
        };
        assert!(matches!(beta.open(config), Err(FabricError::Connect(_))));
        world.return_device("beta");
        let (mut a, mut b) = connected_by(&*alpha, &*beta).await;
        a.send(5);
        assert_eq!(b.take(1).await, [(Some(5), Status::Success)]);
        assert_eq!(
            (world.connections("alpha", "beta"), world.connections("beta", "alpha")),
            (1, 1)
        );
    });
}

#[test]
fn a_stream_is_cut_at_every_byte() {
    let mut ends = std::collections::BTreeSet::new();
    for (seed, cut) in (0..4).flat_map(|seed| (0..40).map(move |cut| (seed, cut))) {
        ends.insert(run(seed, |world| async move {
            let (mut near, mut far) = streams(&world).await;
            world.add_rule(Rule::new(Verdict::Kill).on(On::Bytes).from("alpha").only(cut..cut + 1));
            let sent: Vec<u8> = (0..40).collect();
            let error = near.write_all(&sent).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
            assert!(near.read_u8().await.is_err(), "the other direction is cut, too");
            let mut read = Vec::new();
            let end = far.read_to_end(&mut read).await.map(|_| ());
            assert!(sent.starts_with(&read), "{read:?}");
            assert!(end.is_err() || read.len() == cut as usize, "an end behind the last byte");
            // The news of it takes its time.
            world.sleep(Duration::from_millis(1)).await;
            assert!(far.write_all(b"more").await.is_err());
            assert_eq!(world.counters().on_bytes.killed, 1);
            end.is_err()
        }));
    }
    assert_eq!(ends.len(), 2, "some see an end and some a reset");
}

#[test]
fn lost_late_and_failing_bytes() {
    run(1, |world| async move {
        let rule = |verdict| Rule::new(verdict).on(On::Bytes).from("alpha");
        let second = Duration::from_secs(1);
        let (mut near, mut far) = streams(&world).await;
        world.add_rule(rule(Verdict::Delay(second)).only(2..3));
        near.write_all(b"abc").await.unwrap();
        far.read_exact(&mut [0; 2]).await.unwrap();
        assert!(world.now() < 100_000_000);
        assert_eq!(far.read_u8().await.unwrap(), b'c');
        assert!(world.now() >= 1_000_000_000);
        world.clear_rules();
        world.add_rule(rule(Verdict::Drop).times(1));
        near.write_all(b"lost, and all after it").await.unwrap();
        assert!(timeout(MINUTE, far.read_u8()).await.is_err());
        far.write_all(b"y").await.unwrap();
        assert_eq!(near.read_u8().await.unwrap(), b'y', "the other direction runs");
    });
}

/// The writer's end is reset and its reader's is not.
#[test]
fn a_writer_that_hears_no_more_may_have_written() {
    let mut arrived = 0;
    for (seed, verdict) in (0..20).flat_map(|seed| {
        [Verdict::Unanswered, Verdict::Fail(Status::PortDown)].map(|verdict| (seed, verdict))
    }) {
        let came = run(seed, |world| async move {
            let (mut near, mut far) = streams(&world).await;
            world.add_rule(Rule::new(verdict).on(On::Bytes).from("alpha"));
            assert!(near.write_all(b"x").await.is_err());
            timeout(MINUTE, far.read_u8()).await.is_ok()
        });
        assert!(came || verdict != Verdict::Unanswered, "seed {seed}");
        arrived += u32::from(came && verdict != Verdict::Unanswered);
    }
    assert!((4..16).contains(&arrived), "{arrived} of 20");
}

/// A dial may be overtaken, refused, lost, or arrive without an answer.
#[test]
fn dials_meet_verdicts() {
    run(1, |world| async move {
        let (alpha, beta) = (world.network("alpha").0, world.network("beta").0);
        let mut port = beta.listen("beta:1".into()).await.unwrap();
        let rule = |verdict| Rule::new(verdict).on(On::Dials).from("alpha").times(1);
        let dial = || tokio::spawn(Wire::dial(&*alpha, "beta:1".into()));
        world.add_rule(rule(Verdict::Delay(Duration::from_secs(1))).to("beta").only(0..1));
        let (first, second) = (dial(), dial());
        let mut ends = [first.await.unwrap().unwrap(), second.await.unwrap().unwrap()];
        ends[0].write_all(b"1").await.unwrap();
        ends[1].write_all(b"2").await.unwrap();
        for byte in [b'2', b'1'] {
            let mut far: Box<dyn Stream> = port.accept().await.unwrap();
            assert_eq!(far.read_u8().await.unwrap(), byte, "the second overtook the first");
        }
        assert_eq!(world.counters().crossed_dials, 1);
        for verdict in [Verdict::Kill, Verdict::Fail(Status::PortDown)] {
            world.add_rule(rule(verdict));
            let refused = dial().await.unwrap().err().map(|error| error.kind());
            assert_eq!(refused, Some(io::ErrorKind::ConnectionRefused));
        }
        world.add_rule(rule(Verdict::Drop));
        assert!(timeout(MINUTE, alpha.dial("beta:1".into())).await.is_err());
        assert!(timeout(MINUTE, port.accept()).await.is_err());
        world.add_rule(rule(Verdict::Unanswered));
        assert!(timeout(MINUTE, alpha.dial("beta:1".into())).await.is_err());
        let mut far = port.accept().await.unwrap();
        assert_eq!(far.read(&mut [0]).await.unwrap(), 0, "who dialled gave it up");
        let met = world.counters().on_dials;
        assert_eq!((met.delayed, met.killed, met.failed), (1, 1, 1));
        assert_eq!((met.dropped, met.unanswered), (1, 1));
    });
}
