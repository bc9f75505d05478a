//! Links that are lost and made again amid work.

use std::time::Duration;

use futures::future::{join, join_all};
use ringpost::observe::NodeEvent;
use ringpost::test_kit::{self, Cluster};
use ringpost_ranks::{Source, Sum, World, WorldError};
use tokio::sync::broadcast::Receiver;

use super::{below, joined};

/// The last number of a stream.
const LAST: u64 = u64::MAX;

/// Sends numbers to a rank, one after the other, for a time.
async fn counts(
    cluster: &Cluster,
    world: &World,
    to: usize,
    until: Duration,
) -> Result<(), WorldError> {
    let mut number = 0_u64;
    while cluster.now() < until {
        world.send(to, 1, &[number]).await?;
        number += 1;
        cluster.sleep_up_to(Duration::from_millis(200)).await;
    }
    world.send(to, 1, &[LAST]).await
}

/// Receives the numbers of a rank, none of which is missing.
async fn follows(world: &World, from: usize) -> Result<(), WorldError> {
    let mut number = 0_u64;
    loop {
        let (got, _) = world.recv::<u64>(from, 1).await?;
        if got == [LAST] {
            return Ok(());
        }
        assert_eq!(got, [number], "of rank {from} at rank {}", world.rank());
        number += 1;
    }
}

/// Adds up until the time of all ranks is over.
async fn adds_up(cluster: &Cluster, world: &World, until: Duration) -> Result<(), WorldError> {
    loop {
        let mut sum = [1_u64, u64::from(cluster.now() >= until)];
        world.all_reduce(&mut sum, Sum).await?;
        assert_eq!(sum[0] as usize, world.size());
        if sum[1] == sum[0] {
            return Ok(());
        }
        cluster.sleep_up_to(Duration::from_millis(200)).await;
    }
}

#[test]
fn after_a_link_is_lost_amid_work_no_message_is_missed_but_of_a_rank_that_is_dead() {
    test_kit::check(0..16, |cluster| async move {
        let size = 2 + below(&cluster, 3);
        let mut worlds = joined(&cluster, size).await;
        if below(&cluster, 2) == 0 {
            let twins = join_all(worlds.iter().map(World::dup)).await;
            worlds = twins.into_iter().map(Result::unwrap).collect();
        }
        let until = cluster.now() + Duration::from_secs(30);
        let (cluster, worlds) = (&cluster, &worlds);
        let work = worlds.iter().map(async |world| {
            let others = || (0..size).filter(|rank| *rank != world.rank());
            let sent = join_all(others().map(|to| counts(cluster, world, to, until)));
            let got = join_all(others().map(|from| follows(world, from)));
            futures::join!(sent, got, adds_up(cluster, world, until))
        });
        let ends = [0, 1 + below(cluster, size - 1)];
        let cut = async {
            cluster.sleep_up_to(Duration::from_secs(5)).await;
            cluster.cut(worlds[ends[0]].node().name(), worlds[ends[1]].node().name());
            cluster.sleep_up_to(Duration::from_secs(15)).await;
            cluster.mend_all();
        };
        let (work, ()) = join(join_all(work), cut).await;
        let is_told = |end: &Result<(), WorldError>| {
            end.is_ok() || ends.iter().any(|rank| *end == Err(WorldError::Died { rank: *rank }))
        };
        for (sent, got, added) in &work {
            assert!(sent.iter().chain(got).chain([added]).all(is_told), "{ends:?}: {work:?}");
        }
        let barriers = join_all(worlds.iter().map(World::barrier)).await;
        assert!(barriers.iter().all(is_told), "{ends:?}: {barriers:?}");
        let failed = barriers.iter().filter(|end| end.is_err()).count();
        assert!(failed == 0 || failed == size, "{ends:?}: {barriers:?}");
        cluster.log(&format!("{failed} of {size} ranks were told"));
        if failed == 0 {
            assert!(work.iter().all(|(_, _, added)| added.is_ok()), "{work:?}");
            return;
        }
        // All agree on who is dead: one end, or both. Of two ranks, each may be dead to the other.
        let shrunk = join_all(worlds.iter().map(World::shrink)).await;
        let living = shrunk.iter().filter(|smaller| smaller.is_ok()).count();
        assert!(size == 2 || (size - 2..size).contains(&living), "{living} of {size} live");
        for (rank, smaller) in shrunk.into_iter().enumerate() {
            match smaller {
                Ok(smaller) => assert!(size == 2 || smaller.size() == living),
                Err(error) => assert_eq!(error, WorldError::Died { rank }),
            }
        }
    });
}

/// Waits until a link was lost and one was made.
async fn linked_again(mut events: Receiver<NodeEvent>) {
    while !matches!(events.recv().await, Ok(NodeEvent::LinkDown { .. })) {}
    while !matches!(events.recv().await, Ok(NodeEvent::LinkUp { .. })) {}
}

/// Loses the link between the nodes of ranks 0 and 1, for so short that no node is down.
async fn lose_link(cluster: &Cluster, worlds: &[World]) {
    let (one, other) = (worlds[0].node().name(), worlds[1].node().name());
    if below(cluster, 2) == 0 {
        cluster.world().sever_data(one, other);
    } else {
        cluster.cut(one, other);
        cluster.sleep(Duration::from_secs(5)).await;
        cluster.mend(one, other);
    }
}

#[test]
fn a_link_that_is_lost_while_nothing_is_under_way_is_no_death() {
    test_kit::check(0..8, |cluster| async move {
        let size = 2 + below(&cluster, 2);
        let worlds = joined(&cluster, size).await;
        for _ in 0..3 {
            let sums = worlds.iter().map(async |world| {
                let (to, from) = ((world.rank() + 1) % size, (world.rank() + size - 1) % size);
                world.send(to, 1, &[world.rank()]).await.unwrap();
                assert_eq!(world.recv::<usize>(from, 1).await.unwrap().0, [from]);
                let mut sum = [1_u64];
                world.all_reduce(&mut sum, Sum).await.unwrap();
                assert_eq!(sum, [size as u64]);
            });
            join_all(sums).await;
            // Also receipts are there by then.
            cluster.sleep(Duration::from_secs(1)).await;
            let waits = worlds[1].recv::<u8>(0, 2);
            let again = linked_again(worlds[0].node().events());
            join(again, lose_link(&cluster, &worlds)).await;
            cluster.settle().await;
            worlds[0].send(1, 2, &[2_u8]).await.unwrap();
            assert_eq!(waits.await.unwrap().0, [2]);
        }
        assert!(worlds.iter().all(|world| world.acknowledge().is_empty()));
    });
}

#[test]
fn a_message_that_is_lost_with_a_link_fails_all_waits_as_soon_as_there_is_a_link_again() {
    test_kit::check(0..8, |cluster| async move {
        let size = 2 + below(&cluster, 2);
        let worlds = joined(&cluster, size).await;
        let (one, other) = (worlds[0].node().name(), worlds[1].node().name());
        cluster.cut_one_way(one, other);
        let again = linked_again(worlds[0].node().events());
        worlds[0].send(1, 1, &[1_u8]).await.unwrap();
        let died = WorldError::Died { rank: 0 };
        let waits = join_all(worlds.iter().map(async |world| {
            let (named, any) = (world.recv::<u8>(0, 1), world.recv::<u8>(Source::Any, 9));
            let (named, any) = join(named, any).await;
            assert_eq!((named.unwrap_err(), any.unwrap_err()), (died.clone(), died.clone()));
            assert_eq!(world.barrier().await.unwrap_err(), died);
            cluster.now()
        }));
        let mend = async {
            cluster.sleep(Duration::from_secs(5)).await;
            cluster.mend(one, other);
            again.await;
            cluster.now()
        };
        let (told, linked) = join(waits, mend).await;
        let latest = told.into_iter().max().unwrap();
        assert!(latest < linked + Duration::from_secs(1), "{latest:?}, linked {linked:?}");
        for world in &worlds {
            assert_eq!(world.acknowledge(), [0]);
        }
    });
}
