//! Messages between ranks: their order against a model, types, room, and receives that are dropped.

use std::collections::VecDeque;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, join, join_all, select};
use ringpost::prelude::*;
use ringpost::test_kit::{self, Cluster, LinkModel};
use ringpost_ranks::{Source, Tag, World, WorldError};

use super::{below, joined};

/// The content of a message: its sender, its tag and its number among the sender's messages.
type Mark = [u32; 3];

/// Sends messages to one rank, some of them in several packets.
async fn sends(cluster: &Cluster, world: &World, to: usize, tags: &[u32]) {
    for (number, tag) in tags.iter().enumerate() {
        let marks = vec![[world.rank() as u32, *tag, number as u32]; 1 + below(cluster, 3)];
        if below(cluster, 12) == 0 {
            let long = marks.repeat(60_000);
            world.send(to, *tag, &long).await.unwrap();
        } else {
            world.send(to, *tag, &marks).await.unwrap();
        }
        cluster.sleep_up_to(Duration::from_micros(200)).await;
    }
}

/// Takes a message from the model: the first one of that source that the tag matches, as MPI says.
fn take(streams: &mut [VecDeque<Mark>], mark: Mark, source: Source, tag: Tag) {
    let stream = &mut streams[mark[0] as usize];
    let matches = |other: &Mark| tag == Tag::Any || tag == Tag::Is(other[1]);
    let first = stream.iter().position(matches).expect("it was sent");
    assert_eq!(stream.remove(first), Some(mark), "{source:?} {tag:?}");
    assert!(source == Source::Any || source == Source::Rank(mark[0] as usize));
}

async fn receives(cluster: &Cluster, world: &World, streams: &mut [VecDeque<Mark>]) {
    while streams.iter().any(|stream| !stream.is_empty()) {
        // A pattern that some message of the model matches.
        let waiting: Vec<Mark> = streams.iter().flatten().copied().collect();
        let aim = waiting[below(cluster, waiting.len())];
        let (source, tag) = match below(cluster, 4) {
            0 => (Source::Any, Tag::Any),
            1 => (Source::Any, Tag::Is(aim[1])),
            2 => (Source::Rank(aim[0] as usize), Tag::Any),
            _ => (Source::Rank(aim[0] as usize), Tag::Is(aim[1])),
        };
        // A receive that is given up takes nothing.
        drop(world.recv::<Mark>(source, tag));
        let probed = match below(cluster, 3) {
            0 => Some(world.probe(source, tag).await.unwrap()),
            _ => None,
        };
        let (got, status) = world.recv::<Mark>(source, tag).await.unwrap();
        assert!(probed.is_none_or(|probed| probed == status));
        assert_eq!((status.source, status.tag), (got[0][0] as usize, got[0][1]));
        assert!(got.iter().all(|mark| *mark == got[0]) && status.bytes == got.len() * 12);
        take(streams, got[0], source, tag);
    }
    assert_eq!(world.try_probe(Source::Any, Tag::Any), None);
}

#[test]
fn messages_are_received_in_the_order_of_mpi() {
    test_kit::check(0..4, |cluster| async move {
        let size = 2 + below(&cluster, 3);
        let worlds = joined(&cluster, size).await;
        let tags: Vec<Vec<u32>> = (0..size)
            .map(|_| (0..below(&cluster, 20)).map(|_| below(&cluster, 3) as u32).collect())
            .collect();
        let marks = |(from, tags): (usize, &Vec<u32>)| {
            let mark = |(number, tag): (usize, &u32)| [from as u32, *tag, number as u32];
            tags.iter().enumerate().map(mark).collect()
        };
        let mut streams: Vec<VecDeque<Mark>> = tags.iter().enumerate().map(marks).collect();
        let senders = worlds.iter().map(|world| sends(&cluster, world, 0, &tags[world.rank()]));
        join(join_all(senders), receives(&cluster, &worlds[0], &mut streams)).await;
    });
}

/// A message of the user, which crosses as an archive.
#[message]
#[derive(Debug, PartialEq, Clone)]
struct Order {
    account: String,
    cents: Vec<u64>,
}

#[test]
fn messages_of_another_type_or_too_long_stay_and_values_cross() {
    test_kit::run(1, |cluster| async move {
        let worlds = joined(&cluster, 2).await;
        let order = Order { account: "ada".into(), cents: vec![1, 2, 3] };
        worlds[0].send_value(1, 1, &order).await.unwrap();
        worlds[0].send(1, 2, &[1_u32, 2, 3]).await.unwrap();
        let wrong = worlds[1].recv::<u64>(0, 1).await.unwrap_err();
        assert_eq!(wrong, WorldError::WrongType { rank: 0, tag: 1, bytes: 0 });
        assert_eq!(worlds[1].recv_value::<Order>(0, 1).await.unwrap().0, order);
        let mut short = [0_u32; 2];
        let error = worlds[1].recv_into(0, 2, &mut short).await.unwrap_err();
        assert_eq!(error, WorldError::Truncated { rank: 0, tag: 2, elements: 3, room: 2 });
        let mut long = [0_u32; 4];
        let status = worlds[1].recv_into(0, 2, &mut long).await.unwrap();
        assert_eq!((long, status.bytes), ([1, 2, 3, 0], 12));
        let error = worlds[0].send(2, 0, &[1_u8]).await.unwrap_err();
        assert_eq!(error, WorldError::NoSuchRank { rank: 2, size: 2 });
        assert_eq!(
            worlds[0].recv::<u8>(9, 0).await.unwrap_err(),
            WorldError::NoSuchRank { rank: 9, size: 2 }
        );
        worlds[0].send(0, 5, &[7_i64]).await.unwrap();
        assert_eq!(worlds[0].recv::<i64>(0, 5).await.unwrap().0, [7]);
    });
}

#[test]
fn more_than_a_message_may_have_is_refused_and_the_world_goes_on() {
    test_kit::run(1, |cluster| async move {
        let worlds = joined(&cluster, 2).await;
        let long = vec![0_u8; (1 << 30) + 1];
        let limit = 1 << 30;
        let error = worlds[0].send(1, 1, &long).await.unwrap_err();
        assert_eq!(error, WorldError::TooLong { bytes: limit + 1, limit });
        let blocks = vec![Vec::new(), long];
        let (root, other) =
            join(worlds[0].scatterv(0, Some(&blocks)), worlds[1].scatterv::<u8>(0, None)).await;
        assert_eq!(root.unwrap_err(), error);
        assert_eq!(other.unwrap_err(), WorldError::Abandoned { rank: 0, sequence: 0 });
        worlds[0].send(1, 1, &[1_u8]).await.unwrap();
        assert_eq!(worlds[1].recv::<u8>(0, 1).await.unwrap().0, [1]);
    });
}

/// Joins a world whose ranks keep `window` bytes for each other, or 64 KiB.
async fn narrow(cluster: &Cluster, size: usize, window: usize) -> Vec<World> {
    let nodes = cluster.nodes(size).await;
    let join = |node| World::builder("narrow").node(node).size(size).window(window).join();
    let mut worlds: Vec<World> =
        join_all(nodes.iter().map(join)).await.into_iter().map(Result::unwrap).collect();
    worlds.sort_by_key(World::rank);
    worlds
}

#[test]
fn sends_wait_for_room_and_a_circle_of_them_is_told() {
    test_kit::check(0..3, |cluster| async move {
        let size = 2 + below(&cluster, 3);
        let worlds = narrow(&cluster, size, 0).await;
        let half = vec![1_u8; 30 << 10];
        let next = |world: &World| (world.rank() + 1) % size;
        let before = |world: &World| (world.rank() + size - 1) % size;
        // Each first sends as much as there is room for, and then receives.
        let polite = worlds.iter().map(async |world| {
            world.send(next(world), 0, &half).await.unwrap();
            world.send(next(world), 0, &half).await.unwrap();
            for _ in 0..2 {
                assert_eq!(world.recv::<u8>(before(world), 0).await.unwrap().0, half);
            }
        });
        join_all(polite).await;
        // A third one would wait for ever on all of them: a circle.
        let ends = join_all(worlds.iter().map(async |world| {
            for _ in 0..2 {
                world.send(next(world), 0, &half).await.unwrap();
            }
            let third = world.send(next(world), 0, &half).await;
            // All ranks, whether told or not, receive everything that came.
            let mut got = 0;
            cluster.sleep(Duration::from_secs(2)).await;
            while world.try_probe(before(world), 0).is_some() {
                got += world.recv::<u8>(before(world), 0).await.unwrap().0.len();
                cluster.sleep(Duration::from_millis(10)).await;
            }
            (third, got)
        }));
        let ends = ends.await;
        let told = ends.iter().filter(|(third, _)| third.is_err()).count();
        assert!(told > 0, "{ends:?}");
        for (rank, (third, _)) in ends.iter().enumerate() {
            let locked = WorldError::LockedUp { rank: (rank + 1) % size };
            assert!(third.as_ref().err().is_none_or(|error| *error == locked), "{third:?}");
            let (_, got) = ends[(rank + 1) % size];
            let sent = half.len() * (2 + usize::from(third.is_ok()));
            assert_eq!(got, sent, "nothing is lost: rank {rank} of {size}");
        }
    });
}

#[test]
fn a_slow_receiver_is_no_circle_and_one_that_sends_is_slowed_down() {
    test_kit::run(3, |cluster| async move {
        let worlds = narrow(&cluster, 3, 0).await;
        let chunk = vec![2_u8; 20 << 10];
        let feed = async {
            for _ in 0..12 {
                worlds[0].send(1, 0, &chunk).await.unwrap();
            }
        };
        let pass = async {
            for _ in 0..12 {
                let (got, _) = worlds[1].recv::<u8>(0, 0).await.unwrap();
                worlds[1].send(2, 0, &got).await.unwrap();
            }
        };
        let slow = async {
            for _ in 0..12 {
                cluster.sleep(Duration::from_secs(20)).await;
                assert_eq!(worlds[2].recv::<u8>(1, 0).await.unwrap().0, chunk);
            }
        };
        futures::join!(feed, pass, slow);
        // More than the room at once is one message, where no other one waits.
        let large = vec![3_u8; 300 << 10];
        let (sent, got) = join(worlds[0].send(1, 0, &large), worlds[1].recv::<u8>(0, 0)).await;
        assert_eq!((sent, got.unwrap().0), (Ok(()), large));
    });
}

#[test]
fn receives_are_in_line_from_the_call_on() {
    test_kit::run(4, |cluster| async move {
        let worlds = joined(&cluster, 2).await;
        let first = worlds[1].recv::<u8>(0, Tag::Any);
        let mut given_up = worlds[1].recv::<u8>(0, Tag::Any);
        let third = worlds[1].recv::<u8>(0, Tag::Any);
        for number in 1..=3 {
            worlds[0].send(1, number, &[number as u8]).await.unwrap();
        }
        cluster.sleep(Duration::from_secs(1)).await;
        assert!((&mut given_up).now_or_never().is_some(), "it had the second one");
        assert_eq!(first.await.unwrap().0, [1]);
        assert_eq!(third.await.unwrap().0, [3]);
        let dropped = worlds[1].recv::<u8>(0, Tag::Any);
        worlds[0].send(1, 4, &[4_u8]).await.unwrap();
        cluster.sleep(Duration::from_secs(1)).await;
        drop(dropped);
        assert_eq!(worlds[1].recv::<u8>(0, 4).await.unwrap().0, [4], "it went back");
    });
}

#[test]
fn a_probe_finds_a_message_that_goes_back() {
    test_kit::run(5, |cluster| async move {
        let worlds = joined(&cluster, 2).await;
        for is_dropped in [true, false] {
            let first = worlds[1].recv::<u16>(0, 5);
            worlds[0].send(1, 5, &[5_u8]).await.unwrap();
            cluster.sleep(Duration::from_secs(1)).await;
            let back = async {
                cluster.sleep(Duration::from_secs(1)).await;
                if is_dropped {
                    drop(first);
                } else {
                    first.await.unwrap_err();
                }
            };
            let (probed, ()) = join(worlds[1].probe(0, 5), back).await;
            assert_eq!(probed.unwrap().bytes, 1);
            assert_eq!(worlds[1].recv::<u8>(0, 5).await.unwrap().0, [5]);
        }
    });
}

/// Bytes of a message of many packets, for which there is room once.
const MOST: usize = 12 << 20;

#[test]
fn a_send_that_is_given_up_in_the_middle_gives_its_room_back() {
    test_kit::check(0..4, |cluster| async move {
        cluster.set_links(LinkModel { bytes_per_second: 1 << 30, ..LinkModel::default() });
        let worlds = narrow(&cluster, 2, 16 << 20).await;
        let data = vec![1_u8; MOST];
        for round in 0..4 {
            let send = Box::pin(worlds[0].send(1, 1, &data));
            let pause = Box::pin(cluster.sleep_up_to(Duration::from_millis(12)));
            let is_sent = matches!(select(send, pause).await, Either::Left(_));
            if is_sent {
                assert!(worlds[1].recv::<u8>(0, 1).await.unwrap().0 == data);
            }
            cluster.log(&format!("sent: {is_sent}"));
            let next = vec![round; MOST];
            let (sent, got) = join(worlds[0].send(1, 2, &next), worlds[1].recv::<u8>(0, 2)).await;
            assert!(sent == Ok(()) && got.unwrap().0 == next);
        }
    });
}
