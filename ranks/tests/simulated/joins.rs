//! Joining: any start order, and everything that can be wrong with it.

use std::time::Duration;

use futures::future::join_all;
use ringpost::prelude::*;
use ringpost::test_kit::{self, Cluster};
use ringpost_ranks::{JoinError, Missing, Sum, World};

use super::{below, joined};

/// Joins with a number after a time that the seed draws.
async fn numbered(
    cluster: &Cluster,
    node: &Node,
    rank: usize,
    size: usize,
) -> Result<World, JoinError> {
    cluster.sleep_up_to(Duration::from_millis(30)).await;
    let builder = World::builder("job").node(node).size(size).timeout(Duration::from_secs(20));
    builder.rank(rank).join().await
}

async fn adds_up(worlds: &[World]) {
    let size = worlds.len() as u64;
    let sums = worlds.iter().map(async |world| {
        let mut sum = [world.rank() as u64];
        world.all_reduce(&mut sum, Sum).await.map(|()| sum[0])
    });
    assert_eq!(join_all(sums).await, vec![Ok(size * (size - 1) / 2); worlds.len()]);
}

#[test]
fn ranks_join_in_any_order_by_number_and_one_that_claims_anothers_is_refused() {
    test_kit::check(0..4, |cluster| async move {
        let size = 2 + below(&cluster, 4);
        let nodes = cluster.nodes(size + 1).await;
        let claimed = below(&cluster, size);
        let number = |index: usize| if index == size { claimed } else { (index + claimed) % size };
        let joins = nodes.iter().enumerate();
        let joins = joins.map(|(index, node)| numbered(&cluster, node, number(index), size));
        let (mut worlds, mut refused) = (Vec::new(), Vec::new());
        for joined in join_all(joins).await {
            match joined {
                Ok(world) => worlds.push(world),
                Err(error) => refused.push(error),
            }
        }
        let [JoinError::NumberTaken { rank, node, .. }] = &refused[..] else {
            panic!("one of {size} is refused: {refused:?}");
        };
        worlds.sort_by_key(World::rank);
        assert_eq!((worlds.len(), *rank), (size, claimed));
        assert_eq!(worlds[claimed].node().name(), node);
        adds_up(&worlds).await;
    });
}

#[test]
fn of_more_arrivals_than_ranks_all_that_are_in_agree_and_the_others_are_told() {
    test_kit::check(0..4, |cluster| async move {
        let size = 1 + below(&cluster, 4);
        let nodes = cluster.nodes(size + 2).await;
        let joins = nodes.iter().map(async |node| {
            cluster.sleep_up_to(Duration::from_millis(20)).await;
            World::join(node, "job", size).await
        });
        let (mut worlds, mut full) = (Vec::new(), 0);
        for joined in join_all(joins).await {
            match joined {
                Ok(world) => worlds.push(world),
                Err(JoinError::Full { size: of, .. }) if of == size => full += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!((worlds.len(), full), (size, 2));
        adds_up(&worlds).await;
        // The world ends, and its name is free.
        join_all(worlds.into_iter().map(World::leave)).await;
        adds_up(&joined(&cluster, size).await).await;
    });
}

#[test]
fn a_time_out_names_the_missing_and_the_name_is_free_again() {
    test_kit::run(1, |cluster| async move {
        let nodes = cluster.nodes(2).await;
        let join = |rank: usize| {
            let world = World::builder("job").node(&nodes[rank]).size(4).rank(2 * rank);
            world.timeout(Duration::from_secs(3)).join()
        };
        for end in join_all([join(0), join(1)]).await {
            let error = end.expect_err("two are missing");
            let JoinError::TimedOut { missing, .. } = &error else { panic!("{error}") };
            assert_eq!(*missing, Missing::Ranks(vec![1, 3]));
            assert!(error.to_string().contains("still misses the ranks 1, 3"), "{error}");
        }
        let late = World::builder("job").node(&nodes[0]).size(3).timeout(Duration::from_secs(1));
        let error = late.join().await.expect_err("two are missing");
        let JoinError::TimedOut { missing, .. } = &error else { panic!("{error}") };
        assert_eq!(*missing, Missing::Count(2));
        adds_up(&joined(&cluster, 2).await).await;
    });
}

#[test]
fn worlds_of_one_name_disturb_none_that_is_there() {
    test_kit::run(2, |cluster| async move {
        let worlds = joined(&cluster, 2).await;
        let here = World::join(worlds[0].node(), "job", 2).await.expect_err("it has a rank");
        assert!(matches!(here, JoinError::AlreadyHere { .. }), "{here}");
        let third = cluster.node("n3").await;
        let error = World::join(&third, "job", 5).await.expect_err("another size");
        assert!(matches!(error, JoinError::OtherSize { theirs: 2, ours: 5, .. }), "{error}");
        let error = World::join(&third, "job", 2).await.expect_err("it is full");
        assert!(matches!(error, JoinError::Full { size: 2, .. }), "{error}");
        let other = World::join(&third, "other", 1).await.expect("another name");
        assert_eq!((other.rank(), other.size()), (0, 1));
        adds_up(&worlds).await;
    });
}

#[test]
fn two_worlds_of_one_name_that_begin_at_a_time_are_told_of_each_other() {
    test_kit::check(0..4, |cluster| async move {
        let nodes = cluster.nodes(4).await;
        let joins = nodes.iter().enumerate().map(async |(index, node)| {
            cluster.sleep_up_to(Duration::from_millis(20)).await;
            // Three nodes are too few for either world.
            let size = if index == 0 { 3 } else { 4 };
            World::builder("job").node(node).size(size).timeout(Duration::from_secs(9)).join().await
        });
        let mut ends = join_all(joins).await.into_iter();
        let first = ends.next().unwrap().expect_err("the others join another world");
        assert!(matches!(first, JoinError::OtherSize { theirs: 4, ours: 3, .. }), "{first}");
        let told = ends.filter(|end| match end {
            Ok(_) => panic!("there are three of four"),
            Err(JoinError::OtherSize { theirs: 3, ours: 4, .. }) => true,
            // It came when the other one had gone.
            Err(JoinError::TimedOut { .. }) => false,
            Err(error) => panic!("{error}"),
        });
        assert!(told.count() > 0);
        // The name is free.
        adds_up(&joined(&cluster, 4).await).await;
    });
}

#[test]
fn a_description_that_cannot_be_is_refused_at_once() {
    test_kit::run(3, |cluster| async move {
        let node = cluster.node("n1").await;
        let error = |error: Result<World, JoinError>| error.expect_err("refused").to_string();
        let long = "a".repeat(100_000);
        for job in ["", "two words", "a/b", &*long] {
            let told = error(World::join(&node, job, 1).await);
            assert!(told.contains("1 to 40") && told.len() < 200, "{told}");
        }
        for size in [0, 4097, usize::MAX] {
            assert!(error(World::join(&node, "job", size).await).contains("1 to 4096"));
        }
        let told = error(World::builder("job").node(&node).size(2).rank(2).join().await);
        assert!(told.contains("0 to 1"), "{told}");
        assert!(error(World::builder("job").rank(0).join().await).contains("`size`"));
        assert!(error(World::builder("job").hosts(["a:1"]).join().await).contains("`rank`"));
        assert!(error(World::builder("job").size(1).rank(0).join().await).contains("`hosts`"));
        let differ = World::builder("job").size(3).rank(0).hosts(["a:1"]).join().await;
        assert!(error(differ).contains("differ"));
    });
}
