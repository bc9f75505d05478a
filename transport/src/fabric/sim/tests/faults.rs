//! Each fault, on the queue pairs and streams it is about.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::super::super::*;
use super::fabric::{connected, connected_by};
use super::wire::streams;
use super::*;

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_delayed_frame_holds_up_those_behind_it() {
    run(1, |world| async move {
        let (mut a, mut b) = connected(&world).await;
        let second = Duration::from_secs(1);
        world.add_rule(Rule::new(Verdict::Delay(second)).from("alpha").only(1..2));
        (0..3).for_each(|byte| a.send(byte));
        assert_eq!(b.take(1).await, [(Some(0), Status::Success)]);
        assert!(world.now() < 1_000_000);
        let rest = b.take(2).await;
        assert_eq!(rest, [(Some(1), Status::Success), (Some(2), Status::Success)]);
        assert!((1_000_000_000..1_001_000_000).contains(&world.now()));
        assert_eq!(world.counters().on_frames.delayed, 1);
    });
}

#[test]
fn a_dropped_frame_ends_the_sender_only() {
    for seed in 0..50 {
        run(seed, |world| async move {
            let (mut a, mut b) = connected(&world).await;
            world.add_rule(Rule::new(Verdict::Drop).to("beta").only(2..3).times(1));
            (0..5).for_each(|byte| a.send(byte));
            let (sends, receives) = a.statuses(21).await;
            let [ok, gone, flushed] = [Status::Success, Status::RetryExceeded, Status::Flushed];
            assert_eq!(sends, [ok, ok, gone, flushed, flushed]);
            assert_eq!(receives, [flushed; 16]);
            assert!(world.now() >= 500_000_000, "it tried for a while");
            let arrived = b.take(2).await;
            assert_eq!(arrived, [(Some(0), ok), (Some(1), ok)]);
            assert_eq!(world.counters().on_frames.dropped, 1);
        });
    }
}

#[test]
fn a_failed_frame_has_its_status_and_may_have_arrived() {
    let mut arrived = 0;
    for seed in 0..50 {
        arrived += run(seed, |world| async move {
            let (mut a, mut b) = connected(&world).await;
            let device = Status::Other(9);
            world.add_rule(Rule::new(Verdict::Fail(device)).only(0..1));
            a.send(1);
            a.send(2);
            let (sends, _) = a.statuses(18).await;
            assert_eq!(sends, [device, Status::Flushed]);
            let first = timeout(MINUTE, b.take(1)).await;
            assert_eq!(world.counters().on_frames.failed, 1);
            usize::from(first.is_ok_and(|first| first[0] == (Some(1), Status::Success)))
        });
    }
    assert!((10..40).contains(&arrived), "{arrived} of 50");
}

#[test]
fn a_killed_path_shows_at_both_ends_when_they_send() {
    run(3, |world| async move {
        let (mut a, mut b) = connected(&world).await;
        world.add_rule(Rule::new(Verdict::Kill).from("alpha").only(0..1));
        a.send(1);
        assert_eq!(a.statuses(17).await.0, [Status::RetryExceeded]);
        assert!(timeout(MINUTE, b.take(1)).await.is_err(), "an idle end notices nothing");
        b.send(2);
        assert_eq!(b.statuses(17).await.0, [Status::RetryExceeded]);
        assert_eq!(world.counters().on_frames.killed, 1);
    });
}

#[test]
fn severed_data_leaves_streams_and_later_queue_pairs_alone() {
    run(4, |world| async move {
        let (mut near, mut far) = streams(&world).await;
        let (mut a, mut b) = connected(&world).await;
        a.send(0);
        world.sever_data("beta", "alpha");
        for end in [&mut a, &mut b] {
            end.send(1);
        }
        assert_eq!(a.statuses(18).await.0[0], Status::RetryExceeded);
        assert_eq!(b.statuses(17).await.0, [Status::RetryExceeded]);
        near.write_all(b"here").await.unwrap();
        let mut read = [0; 4];
        far.read_exact(&mut read).await.unwrap();
        let (mut a, mut b) = connected(&world).await;
        a.send(5);
        assert_eq!(b.take(1).await, [(Some(5), Status::Success)]);
    });
}

#[test]
fn severed_streams_leave_data_alone() {
    run(5, |world| async move {
        let (mut near, mut far) = streams(&world).await;
        let (mut a, mut b) = connected(&world).await;
        world.sever_streams("alpha", "beta");
        for end in [&mut near, &mut far] {
            let error = end.read_u8().await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
        a.send(5);
        assert_eq!(b.take(1).await, [(Some(5), Status::Success)]);
        let (mut near, _far) = streams(&world).await;
        near.write_all(b"new").await.unwrap();
    });
}

#[test]
fn a_partition_loses_frames_and_holds_bytes_until_it_is_mended() {
    for seed in 0..20 {
        run(seed, |world| async move {
            let (mut near, mut far) = streams(&world).await;
            let (mut a, mut b) = connected(&world).await;
            world.partition("alpha", "beta");
            near.write_all(b"late").await.unwrap();
            a.send(1);
            assert_eq!(a.statuses(17).await.0, [Status::RetryExceeded]);
            assert!(timeout(MINUTE, far.read_u8()).await.is_err(), "nothing passes");
            let dial = world.network("alpha").0;
            let dial = tokio::spawn(crate::wire::Wire::dial(&*dial, "beta:9".into()));
            assert!(timeout(MINUTE, b.take(1)).await.is_err());
            world.mend("beta", "alpha");
            let mut read = [0; 4];
            far.read_exact(&mut read).await.unwrap();
            assert_eq!(&read, b"late");
            let refused = dial.await.unwrap().err().map(|error| error.kind());
            assert_eq!(refused, Some(io::ErrorKind::ConnectionRefused));
            let (mut a, mut b) = connected(&world).await;
            a.send(5);
            assert_eq!(b.take(1).await, [(Some(5), Status::Success)]);
        });
    }
}

#[test]
fn a_killed_node_is_gone_for_itself_and_for_its_peers() {
    let mut resets = 0;
    for seed in 0..50 {
        resets += run(seed, |world| async move {
            let (mut near, mut far) = streams(&world).await;
            let (mut a, mut b) = connected(&world).await;
            let (wire, fabric) = world.network("beta");
            far.write_all(b"x").await.unwrap();
            near.read_u8().await.unwrap();
            world.kill_node("beta");
            assert_eq!(far.read_u8().await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
            assert!(far.write_all(b"y").await.is_err());
            assert_eq!(b.statuses(16).await.1, [Status::Flushed; 16]);
            let config = QueuePairConfig {
                send_queue: 1,
                recv_queue: 1,
                inline_bytes: 0,
                rnr_retry: 0,
                side: Side::Acceptor,
                binding: Vec::new(),
                avoid: Vec::new(),
            };
            assert!(matches!(fabric.open(config), Err(FabricError::Connect(_))));
            use crate::wire::Wire as _;
            assert!(wire.listen("beta:8".into()).await.is_err());
            let refused = wire.dial("alpha:7700".into()).await.err().map(|error| error.kind());
            assert_eq!(refused, Some(io::ErrorKind::ConnectionRefused));

            let end = near.read_u8().await.unwrap_err().kind();
            assert!([io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset].contains(&end));
            a.send(1);
            assert_eq!(a.statuses(17).await.0, [Status::RetryExceeded]);

            let (mut near, mut far) = streams(&world).await;
            near.write_all(b"again").await.unwrap();
            far.read_u8().await.unwrap();
            let (alpha, beta) = (world.network("alpha").1, world.network("beta").1);
            let (mut a, mut b) = connected_by(&*alpha, &*beta).await;
            a.send(5);
            assert_eq!(b.take(1).await, [(Some(5), Status::Success)]);
            usize::from(end == io::ErrorKind::ConnectionReset)
        });
    }
    assert!((10..40).contains(&resets), "{resets} of 50");
}

#[test]
fn one_frame_in_some_is_chosen_by_the_seed() {
    run(6, |world| async move {
        let (mut a, mut b) = connected(&world).await;
        world.add_rule(Rule::new(Verdict::Delay(Duration::from_nanos(1))).one_in(4));
        for byte in 0..40 {
            a.send(byte);
            b.take(1).await;
            a.take(1).await;
            if byte == 10 {
                break;
            }
        }
        let some = world.counters().on_frames.delayed;
        assert!((1..10).contains(&some), "{some} of 11");
        world.clear_rules();
        a.send(1);
        b.take(1).await;
        assert_eq!(world.counters().on_frames.delayed, some);
    });
}
