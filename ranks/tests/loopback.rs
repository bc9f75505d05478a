//! Worlds over tcp on loopback, with all nodes in one process.

use std::net::TcpListener;

use futures::future::join_all;
use ringpost_ranks::{Max, Source, Sum, Tag, World, WorldError};

/// Returns addresses that are free.
fn hosts(count: usize) -> Vec<String> {
    let bound: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    bound.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect()
}

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
    let worlds = world("numbers", &hosts(4)).await;
    for (rank, world) in worlds.iter().enumerate() {
        assert_eq!((world.rank(), world.size()), (rank, 4));
    }
    join_all(worlds.iter().map(work)).await.into_iter().for_each(Result::unwrap);
    join_all(worlds.into_iter().map(World::leave)).await;
}
