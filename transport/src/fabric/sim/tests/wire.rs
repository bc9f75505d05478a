//! Ports, dials and streams.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::*;
use crate::wire::{Stream, Wire};

/// Returns a stream from `alpha` to a new port of `beta`: both ends.
pub(super) async fn streams(world: &World) -> (Box<dyn Stream>, Box<dyn Stream>) {
    let (alpha, beta) = (world.network("alpha").0, world.network("beta").0);
    let mut port = beta.listen("beta:7700".into()).await.unwrap();
    let (near, far) = futures::join!(alpha.dial("beta:7700".into()), port.accept());
    (near.unwrap(), far.unwrap())
}

#[test]
fn bytes_arrive_in_order_in_pieces_cut_by_the_seed() {
    let mut first_pieces = std::collections::BTreeSet::new();
    for seed in 0..20 {
        first_pieces.insert(run(seed, |world| async move {
            let (mut near, mut far) = streams(&world).await;
            assert_eq!(near.peer_address(), "beta:7700");
            assert!(far.peer_address().starts_with("alpha:"));
            let sent: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
            let expected = sent.clone();
            let writer = tokio::spawn(async move {
                near.write_all(&sent).await.unwrap();
                near.shutdown().await.unwrap();
                let mut answer = Vec::new();
                near.read_to_end(&mut answer).await.unwrap();
                assert_eq!(answer, b"got it", "the other direction is still open");
                assert!(near.write_all(b"more").await.is_err(), "this direction has ended");
            });
            let mut read = vec![0; 4096];
            let first = far.read(&mut read).await.unwrap();
            read.truncate(first);
            far.read_to_end(&mut read).await.unwrap();
            assert!(read == expected, "the bytes changed");
            far.write_all(b"got it").await.unwrap();
            drop(far);
            writer.await.unwrap();
            first
        }));
    }
    assert!(first_pieces.len() > 3, "{first_pieces:?}");
}

#[test]
fn a_writer_waits_for_a_slow_reader() {
    run(1, |world| async move {
        let (mut near, mut far) = streams(&world).await;
        let second = Duration::from_secs(1);
        assert!(timeout(second, near.write_all(&[1; 70_000])).await.is_err(), "there is no room");
        far.read_exact(&mut [0; 30_000]).await.unwrap();
        timeout(second, near.write_all(&[2; 20_000])).await.unwrap().unwrap();
    });
}

#[test]
fn a_slow_path_takes_its_time() {
    run(1, |world| async move {
        let latency = Duration::from_millis(20);
        let slow = LinkModel { latency, bytes_per_second: 1_000_000, ..LinkModel::default() };
        world.set_link("alpha", "beta", slow);
        let (mut near, mut far) = streams(&world).await;
        let begin = world.now();
        near.write_all(&[0; 50_000]).await.unwrap();
        far.read_exact(&mut [0; 50_000]).await.unwrap();
        let there = Duration::from_nanos(world.now() - begin);
        assert!(
            there >= Duration::from_millis(70) && there < Duration::from_millis(71),
            "{there:?}"
        );
        let begin = world.now();
        far.write_all(&[0; 50_000]).await.unwrap();
        near.read_exact(&mut [0; 50_000]).await.unwrap();
        assert!(world.now() - begin < 1_000_000, "the way back is another path");
    });
}

#[test]
fn a_dial_of_nobody_is_refused_after_a_latency() {
    run(1, |world| async move {
        let wire = world.network("alpha").0;
        let error = wire.dial("nobody:1".into()).await.err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!((1_500..=2_200).contains(&world.now()), "{} ns", world.now());
    });
}

#[test]
fn a_port_is_one_listeners_until_it_is_dropped() {
    run(1, |world| async move {
        let wire = world.network("beta").0;
        let port = wire.listen("beta:1".into()).await.unwrap();
        assert_eq!(port.local_address(), "beta:1");
        let taken = wire.listen("beta:1".into()).await.err().unwrap();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        let mut waiting = world.network("alpha").0.dial("beta:1".into()).await.unwrap();
        drop(port);
        assert_eq!(waiting.read(&mut [0]).await.unwrap(), 0, "nobody accepted it");
        wire.listen("beta:1".into()).await.unwrap();
    });
}

#[test]
fn a_dropped_end_is_an_end_for_the_reader_and_an_error_for_the_writer() {
    run(1, |world| async move {
        let (mut near, far) = streams(&world).await;
        drop(far);
        assert_eq!(near.read(&mut [0]).await.unwrap(), 0);
        world.sleep(Duration::from_millis(1)).await;
        let error = near.write_all(b"x").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    });
}

/// Dropping a dial gives it up; dropping an accept loses no connection.
#[test]
fn dropped_futures_lose_nothing() {
    for seed in 0..30 {
        run(seed, |world| async move {
            let (alpha, beta) = (world.network("alpha").0, world.network("beta").0);
            let mut port = beta.listen("beta:1".into()).await.unwrap();
            let some = Duration::from_nanos(world.random() % 5_000);
            tokio::select! {
                biased;
                () = world.sleep(some) => {}
                _ = alpha.dial("beta:1".into()) => {}
            }
            let dial = tokio::spawn(Wire::dial(&*Arc::clone(&alpha), "beta:1".into()));
            let mut ends = Vec::new();
            while !dial.is_finished() || ends.is_empty() {
                let some = Duration::from_nanos(1 + world.random() % 2_000);
                tokio::select! {
                    biased;
                    end = port.accept() => ends.push(end.unwrap()),
                    () = world.sleep(some) => {}
                }
            }
            let mut near = dial.await.unwrap().unwrap();
            near.write_all(b"!").await.unwrap();
            while let Ok(end) = timeout(Duration::from_secs(1), port.accept()).await {
                ends.push(end.unwrap());
            }
            let mut last = ends.pop().unwrap();
            assert_eq!(last.read_u8().await.unwrap(), b'!');
            for mut given_up in ends {
                assert_eq!(given_up.read(&mut [0]).await.unwrap(), 0);
            }
        });
    }
}
