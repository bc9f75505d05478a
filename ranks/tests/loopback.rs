//! Worlds over tcp on loopback, with all nodes in one process.

use futures::future::join_all;
use ringpost_ranks::{LocalHosts, Max, Source, Sum, Tag, World, WorldError};

/// Starts ranks, the last one first.
async fn world(job: &str, hosts: &[String]) -> Vec<World> {
    let join = |rank| World::builder(job).rank(rank).hosts(hosts).join();
    let joined = join_all((0..hosts.len()).rev().map(join)).await;
    let mut worlds: Vec<World> = joined.into_iter().map(Result::unwrap).collect();
    worlds.reverse();
    worlds
}

async fn work(world: &World) -> Result<(), WorldError> {
    let (rank, size) = (world.rank(), world.size());
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    world.send(next, 7, &[rank as u64; 3]).await?;
    let (got, status) = world.recv::<u64>(Source::Any, Tag::Any).await?;
    assert_eq!((got, status.source, status.tag), (vec![before as u64; 3], before, 7));
    world.barrier().await?;
    let mut sums = vec![rank as f64; 5];
    world.all_reduce(&mut sums, Sum).await?;
    assert_eq!(sums, [(size * (size - 1) / 2) as f64; 5]);
    let mut large = vec![rank as u32; 1 << 20];
    world.all_reduce(&mut large, Max).await?;
    assert!(large.iter().all(|most| *most == size as u32 - 1));
    Ok(())
}

#[tokio::test]
async fn four_ranks_by_number_work_over_tcp() {
    let worlds = world("numbers", LocalHosts::reserve(4).unwrap().addresses()).await;
    for (rank, world) in worlds.iter().enumerate() {
        assert_eq!((world.rank(), world.size()), (rank, 4));
    }
    join_all(worlds.iter().map(work)).await.into_iter().for_each(Result::unwrap);
    join_all(worlds.into_iter().map(World::leave)).await;
}

/// Bytes that the ranks send each other before they receive.
const FIRST: usize = 64 << 20;

#[tokio::test]
async fn two_ranks_send_each_other_64_mib_first_and_then_receive() {
    for parts in [1, 64] {
        let worlds = world("first", LocalHosts::reserve(2).unwrap().addresses()).await;
        let part = |rank: usize| vec![rank as u8 + 1; FIRST / parts];
        let exchanges = worlds.iter().map(async |world| {
            let other = 1 - world.rank();
            for _ in 0..parts {
                world.send(other, 1, &part(world.rank())).await.unwrap();
            }
            // Both have sent all before one receives.
            world.barrier().await.unwrap();
            for _ in 0..parts {
                assert!(world.recv::<u8>(other, 1).await.unwrap().0 == part(other));
            }
        });
        join_all(exchanges).await;
        join_all(worlds.into_iter().map(World::leave)).await;
    }
}

#[tokio::test]
async fn ranks_that_send_more_first_than_there_is_room_for_are_told_and_lose_nothing() {
    let worlds = world("more", LocalHosts::reserve(2).unwrap().addresses()).await;
    let exchanges = worlds.iter().map(async |world| {
        let (rank, other) = (world.rank(), 1 - world.rank());
        let data = vec![rank as u8 + 1; FIRST];
        world.send(other, 1, &data).await.unwrap();
        let second = world.send(other, 2, &data).await;
        assert!(world.recv::<u8>(other, 1).await.unwrap().0 == vec![other as u8 + 1; FIRST]);
        world.send(other, 3, &[u8::from(second.is_ok())]).await.unwrap();
        if world.recv::<u8>(other, 3).await.unwrap().0 == [1] {
            assert!(world.recv::<u8>(other, 2).await.unwrap().0 == vec![other as u8 + 1; FIRST]);
        }
        second
    });
    let ends = join_all(exchanges).await;
    let locked = |rank| Err(WorldError::LockedUp { rank });
    assert!(ends[0] == locked(1) || ends[1] == locked(0), "{ends:?}");
    assert!(ends.iter().zip([1, 0]).all(|(end, other)| *end == Ok(()) || *end == locked(other)));
    join_all(worlds.into_iter().map(World::leave)).await;
}
