//! Worlds on the simulated network of the test kit.

mod collectives;
mod joins;
mod links;
mod messages;
mod recovery;

use futures::future::join_all;
use ringpost::test_kit::Cluster;
use ringpost_ranks::World;

/// Joins a world by arrival, of nodes that are called `n1`, `n2` and so on. Returns the ranks in
/// their order.
async fn joined(cluster: &Cluster, size: usize) -> Vec<World> {
    let nodes = cluster.nodes(size).await;
    let joined = join_all(nodes.iter().map(|node| World::join(node, "job", size))).await;
    let mut worlds: Vec<World> = joined.into_iter().map(Result::unwrap).collect();
    worlds.sort_by_key(World::rank);
    worlds
}

/// Draws a number below `end`.
fn below(cluster: &Cluster, end: usize) -> usize {
    (cluster.random() % end as u64) as usize
}
