//! Memory that nodes share over a device, which is not as the processor is.

use super::lazy_device::LazyDevice;
use super::sharing::{Owned, reached};
use super::simulated::sim_config;
use super::*;
use crate::endpoint::{AccessError, SharedMemory};
use crate::fabric::one_sided::Access;
use crate::fabric::sim::{self, World};

/// A node with these devices, best first, and the simulated fabric if it is to have it.
async fn node(
    world: &World,
    name: &str,
    devices: &[&'static str],
    has_sim: bool,
) -> (Node, Vec<LazyDevice>) {
    let mut config = sim_config(world, name, &["alpha"]);
    let fabric = config.network.fabrics[0].clone();
    let devices: Vec<_> = devices.iter().map(|name| LazyDevice::new(name, &fabric)).collect();
    let mut fabrics: Vec<_> = devices.iter().cloned().map(|it| Arc::new(it) as _).collect();
    fabrics.extend(has_sim.then_some(fabric));
    config.network.fabrics = fabrics;
    (Node::start(config).await.unwrap(), devices)
}

/// RE-8: a write that has returned is in the memory, though the device says sooner that it is done.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_write_is_in_the_memory_when_it_has_returned() {
    sim::run(1, |world| async move {
        let (alpha, _) = node(&world, "alpha", &["mlx5_0"], false).await;
        let (beta, _) = node(&world, "beta", &["mlx5_0"], false).await;
        beta.mesh.ready(1).await;
        let owned = Owned::new(&alpha, 200_000, Access::WRITE);
        let memory = reached(&beta, &alpha, owned.share.id());
        for (round, bytes) in [8, 13, 40_000, 200_000, 1, 0].into_iter().enumerate() {
            let new = vec![round as u8 + 1; bytes];
            memory.write(0, &new).await.unwrap();
            let mut found = vec![0; bytes];
            owned.memory.read(0, &mut found).unwrap();
            assert!(found == new, "{bytes} bytes");
        }
    });
}

/// PV-16, SM-3: what is atomic is done by one device, or by the processor, and by others only when
/// none of its peers is granted it any more; what is not atomic is done by all.
// Promised in docs/SEMANTICS.md.
#[test]
fn what_is_atomic_is_done_by_one_executor_at_a_time() {
    sim::run(2, |world| async move {
        let (alpha, _) = node(&world, "alpha", &["mlx5_0", "mlx5_1"], true).await;
        let (beta, _) = node(&world, "beta", &["mlx5_0"], false).await;
        let (gamma, _) = node(&world, "gamma", &["mlx5_1"], false).await;
        let (delta, _) = node(&world, "delta", &[], true).await;
        let owned = Owned::new(&alpha, 64, Access::READ | Access::ATOMIC);
        let own = SharedMemory::here(alpha.mesh.shares().clone(), owned.share.id());
        assert_eq!(own.fetch_add(0, 1).await, Ok(0), "the processor does it: no peer is there");
        let of = |node| reached(node, &alpha, owned.share.id());
        let [first, second, third] = [&beta, &gamma, &delta].map(of);
        assert_eq!(first.fetch_add(0, 1).await, Ok(1));
        assert_eq!(first.compare_and_swap(0, 2, 5).await, Ok(2));
        let mut word = [0; 8];
        for other in [&second, &third, &own] {
            assert_eq!(other.fetch_add(0, 1).await, Err(AccessError::OtherExecutor));
            other.read(0, &mut word).await.unwrap();
            assert_eq!(u64::from_ne_bytes(word), 5);
        }
        // A second share of the same memory does not get around it.
        let again = alpha.mesh.shares().share(&owned.memory, 0, 64, Access::ATOMIC).unwrap();
        let around = reached(&delta, &alpha, again.id());
        assert_eq!(around.fetch_add(0, 1).await, Err(AccessError::OtherExecutor));
        beta.shutdown().await;
        // Not at once: the owner's side of the link ends, too.
        while own.fetch_add(0, 1).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Shared anew, peers over the processor count with the owner.
        let third_share = alpha.mesh.shares().share(&owned.memory, 0, 64, Access::ATOMIC).unwrap();
        let anew = reached(&delta, &alpha, third_share.id());
        assert_eq!(anew.fetch_add(0, 1).await, Ok(6));
        assert_eq!(own.fetch_add(0, 1).await, Ok(7));
        let anew = reached(&gamma, &alpha, third_share.id());
        assert_eq!(anew.fetch_add(0, 1).await, Err(AccessError::OtherExecutor));
    });
}

/// Reads of several places, and a write of several pieces with its fence, take one doorbell.
#[test]
fn what_is_posted_together_takes_one_doorbell() {
    sim::run(3, |world| async move {
        let (alpha, _) = node(&world, "alpha", &["mlx5_0"], false).await;
        let (beta, devices) = node(&world, "beta", &["mlx5_0"], false).await;
        beta.mesh.ready(1).await;
        let owned = Owned::new(&alpha, 200_000, Access::ALL);
        owned.memory.write(0, &(0..=255).collect::<Vec<u8>>()).unwrap();
        let memory = reached(&beta, &alpha, owned.share.id());
        let mut found = [[0; 3]; 10];
        let mut parts: Vec<(u64, &mut [u8])> = Vec::new();
        parts.extend(found.iter_mut().zip(0..).map(|(into, at)| (at * 20, &mut into[..])));
        parts.push((7, &mut []));
        memory.read_many(&mut parts).await.unwrap();
        let expected: Vec<_> = (0..10u8).map(|at| [at * 20, at * 20 + 1, at * 20 + 2]).collect();
        assert_eq!(found, expected[..]);
        memory.write(100_000, &[7; 70_000]).await.unwrap();
        assert_eq!(*devices[0].doorbells.lock(), [10, 4]);
    });
}
