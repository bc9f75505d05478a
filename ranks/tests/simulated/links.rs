//! Links that are lost and made again amid work.

use std::time::Duration;

use futures::future::{join, join_all};
use ringpost::test_kit::{self, Cluster};
use ringpost_ranks::{Sum, World, WorldError};

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
fn a_link_that_is_lost_is_a_death_at_its_ends_and_no_message_is_missed() {
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
        // The ranks that have all their links go on.
        let living = worlds.iter().filter(|world| !ends.contains(&world.rank()));
        for smaller in join_all(living.map(World::shrink)).await {
            assert_eq!(smaller.unwrap().size(), size - 2);
        }
    });
}
