//! Ranks that die, and what the living do.

use std::time::Duration;

use futures::future::{Either, join_all, select};
use ringpost::test_kit::{self, LinkModel};
use ringpost_ranks::{Source, Sum, Tag, World, WorldError};

use super::{below, joined};

#[test]
fn a_death_fails_what_waits_for_it_on_all_ranks_at_once_and_what_came_before_is_received() {
    test_kit::check(0..4, |cluster| async move {
        let worlds = joined(&cluster, 4).await;
        let victim = below(&cluster, 4);
        let living: Vec<&World> = worlds.iter().filter(|world| world.rank() != victim).collect();
        worlds[victim].send(living[0].rank(), 1, &[1_u8]).await.unwrap();
        living[0].probe(victim, 1).await.unwrap();
        let died = WorldError::Died { rank: victim };
        let wait = async |world: &&World| {
            let (named, any) = (world.recv::<u8>(victim, 9), world.recv::<u8>(Source::Any, 9));
            let (barrier, probed) = (world.barrier(), world.probe(victim, 9));
            assert_eq!(named.await.unwrap_err(), died);
            let told = cluster.now();
            assert_eq!(any.await.unwrap_err(), died);
            assert_eq!(barrier.await.unwrap_err(), died);
            assert_eq!(probed.await.unwrap_err(), died);
            told
        };
        let waits = join_all(living.iter().map(wait));
        let kill = async {
            cluster.sleep_up_to(Duration::from_millis(10)).await;
            let at = cluster.now();
            cluster.kill(worlds[victim].node().name()).await;
            at
        };
        let (told, killed) = futures::join!(waits, kill);
        let latest = told.into_iter().max().unwrap();
        // As soon as its node is found down, which the simulated network takes `down_after` for.
        assert!(latest - killed < Duration::from_millis(8_100), "{:?}", latest - killed);
        assert_eq!(living[0].recv::<u8>(victim, 1).await.unwrap().0, [1]);
        assert_eq!(living[0].send(victim, 1, &[1_u8]).await.unwrap_err(), died);
        // Any source again, without it.
        assert_eq!(living[1].acknowledge(), [victim]);
        let got = living[1].recv::<u8>(Source::Any, Tag::Any);
        living[0].send(living[1].rank(), 2, &[2_u8]).await.unwrap();
        assert_eq!(got.await.unwrap().0, [2]);
    });
}

#[test]
fn all_agree_whoever_dies_and_a_rank_that_comes_back_is_taken_into_a_new_world() {
    test_kit::check(0..4, |cluster| async move {
        let size = 3 + below(&cluster, 4);
        let worlds = joined(&cluster, size).await;
        let victims = [below(&cluster, size), below(&cluster, 2)];
        let is_victim = |rank: usize| victims.contains(&rank);
        let flags: Vec<bool> = (0..size).map(|_| below(&cluster, 6) > 0).collect();
        let votes = worlds.iter().map(async |world| {
            cluster.sleep_up_to(Duration::from_millis(2)).await;
            world.agree(flags[world.rank()]).await
        });
        let kills = async {
            for victim in victims {
                cluster.sleep_up_to(Duration::from_millis(2)).await;
                cluster.kill(&format!("n{}", node_number(&worlds[victim]))).await;
            }
        };
        let (ends, ()) = futures::join!(join_all(votes), kills);
        let living: Vec<usize> = (0..size).filter(|rank| !is_victim(*rank)).collect();
        let first = ends[living[0]].clone().unwrap();
        assert!(living.iter().all(|rank| ends[*rank] == Ok(first)), "{ends:?} {victims:?}");
        if living.iter().any(|rank| !flags[*rank]) {
            assert!(!first, "a living rank said no");
        }
        // One revokes: waits on the other ranks end, and they go on in a smaller world.
        let waits = living[1..].iter().map(|rank| worlds[*rank].recv::<u8>(living[0], 3));
        let waits = join_all(waits.collect::<Vec<_>>());
        worlds[living[0]].revoke();
        for end in waits.await {
            assert_eq!(end.unwrap_err(), WorldError::Revoked);
        }
        let shrunk = join_all(living.iter().map(|rank| worlds[*rank].shrink())).await;
        let ranks: Vec<usize> = shrunk.iter().map(|world| world.as_ref().unwrap().rank()).collect();
        assert_eq!(ranks, (0..living.len()).collect::<Vec<_>>());
        drop((shrunk, worlds));
        let again = joined(&cluster, size).await;
        let sums = again.iter().map(async |world| {
            let mut sum = [1_u8];
            world.all_reduce(&mut sum, Sum).await.map(|()| sum[0])
        });
        assert_eq!(join_all(sums).await, vec![Ok(size as u8); size]);
    });
}

fn node_number(world: &World) -> &str {
    world.node().name().trim_start_matches('n')
}

#[test]
fn a_rank_that_leaves_and_a_call_that_is_dropped_are_named() {
    test_kit::check(0..4, |cluster| async move {
        let mut worlds = joined(&cluster, 3).await;
        let barriers = worlds.iter().map(World::barrier).collect::<Vec<_>>();
        let mut barriers = barriers.into_iter();
        drop(barriers.next());
        for end in join_all(barriers).await {
            assert_eq!(end.unwrap_err(), WorldError::Abandoned { rank: 0, sequence: 0 });
        }
        let last = worlds.pop().unwrap();
        last.send(0, 1, &[5_u8]).await.unwrap();
        let ends = join_all(worlds.iter().map(World::barrier));
        let waits = worlds[1].recv::<u8>(2, 1);
        last.leave().await;
        for end in ends.await {
            assert_eq!(end.unwrap_err(), WorldError::Left { rank: 2 });
        }
        assert_eq!(waits.await.unwrap_err(), WorldError::Left { rank: 2 });
        assert_eq!(worlds[0].recv::<u8>(2, 1).await.unwrap().0, [5], "what it sent is there");
    });
}

#[test]
fn a_rank_that_leaves_amid_its_own_call_is_named_and_so_is_the_last_one_of_any_source() {
    test_kit::check(0..4, |cluster| async move {
        let mut worlds = joined(&cluster, 3).await;
        let last = worlds.pop().unwrap();
        let firsts = join_all(worlds.iter().chain([&last]).map(World::barrier));
        let (pending, begun) = (last.barrier(), worlds[0].barrier());
        assert_eq!(firsts.await, vec![Ok(()); 3]);
        let leave = async {
            cluster.sleep_up_to(Duration::from_millis(2)).await;
            last.leave().await;
            // Its call is not over: rank 1 cannot end its own.
            worlds[1].barrier().await
        };
        let (pending, begun, called) = futures::join!(pending, begun, leave);
        let left = Err(WorldError::Left { rank: 2 });
        assert_eq!((pending, &called), (Err(WorldError::Closed), &left));
        assert!(begun.is_ok() || begun == left, "it may have met both before: {begun:?}");
        // The next one leaves, and no one is left to receive from.
        let next = worlds.pop().unwrap();
        let waits = worlds[0].recv::<u8>(Source::Any, 1);
        let (probe, leave) = (worlds[0].probe(Source::Any, 1), next.leave());
        let (got, probed, ()) = futures::join!(waits, probe, leave);
        assert!(matches!(got.unwrap_err(), WorldError::Left { .. }));
        assert!(matches!(probed.unwrap_err(), WorldError::Left { .. }));
    });
}

#[test]
fn a_split_that_is_dropped_fails_on_all_ranks_and_the_next_call_works() {
    test_kit::check(0..40, |cluster| async move {
        let latency = Duration::from_millis(1);
        cluster.set_links(LinkModel { latency, ..LinkModel::default() });
        let worlds = joined(&cluster, 3).await;
        let dropped = async {
            let split = Box::pin(worlds[0].split(Some(1), 0));
            let pause = cluster.sleep_up_to(Duration::from_millis(12));
            match select(split, Box::pin(pause)).await {
                Either::Left((split, _)) => split.map(drop),
                Either::Right(_) => Err(WorldError::Abandoned { rank: 0, sequence: 0 }),
            }
        };
        let others = join_all(worlds[1..].iter().map(|world| world.split(Some(1), 0)));
        let (dropped, others) = futures::join!(dropped, others);
        for end in others.into_iter().map(|end| end.map(drop)) {
            assert!(end.is_ok() || end == dropped, "{end:?}, and of rank 0 {dropped:?}");
        }
        let twins = join_all(worlds.iter().map(World::dup)).await;
        assert!(twins.iter().all(Result::is_ok), "{twins:?}");
    });
}

#[test]
fn worlds_that_are_split_have_messages_and_operations_of_their_own() {
    test_kit::check(0..4, |cluster| async move {
        let size = 2 + below(&cluster, 5);
        let worlds = joined(&cluster, size).await;
        let colors: Vec<Option<u32>> =
            (0..size).map(|_| Some(below(&cluster, 3) as u32).filter(|color| *color < 2)).collect();
        let split = |world: &World| {
            let (world, color) = (world.clone(), colors[world.rank()]);
            async move { world.split(color, -(world.rank() as i64)).await }
        };
        let parts = join_all(worlds.iter().map(split)).await;
        for (rank, part) in parts.iter().enumerate() {
            let part = part.as_ref().unwrap();
            let mut same: Vec<usize> = (0..size).filter(|of| colors[*of] == colors[rank]).collect();
            same.reverse();
            let expected =
                colors[rank].map(|_| (same.iter().position(|of| *of == rank), same.len()));
            assert_eq!(part.as_ref().map(|part| (Some(part.rank()), part.size())), expected);
        }
        let sums = parts.iter().enumerate().map(async |(rank, part)| {
            let Some(part) = part.as_ref().unwrap() else { return };
            let mut sum = [rank as u64];
            part.all_reduce(&mut sum, Sum).await.unwrap();
            let same = (0..size).filter(|of| colors[*of] == colors[rank]);
            assert_eq!(sum[0] as usize, same.sum::<usize>());
        });
        join_all(sums).await;
        let twins = join_all(worlds.iter().map(World::dup)).await;
        let twin = |rank: usize| twins[rank].as_ref().unwrap();
        twin(0).send(1, 1, &[2_u8]).await.unwrap();
        worlds[0].send(1, 1, &[1_u8]).await.unwrap();
        assert_eq!(worlds[1].recv::<u8>(0, 1).await.unwrap().0, [1]);
        assert_eq!(twin(1).recv::<u8>(0, 1).await.unwrap().0, [2]);
        let never = Box::pin(twin(1).recv::<u8>(0, 1));
        select(never, Box::pin(cluster.sleep(Duration::from_secs(1)))).await;
    });
}
