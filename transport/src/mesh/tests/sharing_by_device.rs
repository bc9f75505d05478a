//! Memory that nodes share over a device, which is not as the processor is.

use tokio::time::Instant;

use super::lazy_device::LazyDevice;
use super::sharing::{Owned, reached};
use super::simulated::sim_config;
use super::*;
use crate::cause::NotShared;
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
    let devices = devices.iter().map(|name| LazyDevice::new(name, &fabric));
    let (devices, mut fabrics): (Vec<_>, Vec<_>) = devices.unzip();
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

/// RE-8: what a writer has written is there when it was flushed, and may not be before that.
// Promised in docs/SEMANTICS.md.
#[test]
fn what_a_writer_has_written_is_there_when_it_was_flushed() {
    sim::run(5, |world| async move {
        let (alpha, _) = node(&world, "alpha", &["mlx5_0"], false).await;
        let (beta, devices) = node(&world, "beta", &["mlx5_0"], false).await;
        beta.mesh.ready(1).await;
        let owned = Owned::new(&alpha, 400_000, Access::WRITE);
        let memory = reached(&beta, &alpha, owned.share.id());
        let mut writer = memory.writer();
        writer.flush().await.unwrap();
        let found = || {
            let mut found = vec![0; 200_000];
            owned.memory.read(0, &mut found).unwrap();
            found
        };
        let mut late = 0;
        for round in 1..=10u8 {
            for part in 0..4 {
                writer.write(part * 10_000, &[round; 10_000]).await.unwrap();
            }
            let mut draft = memory.draft(160_000).await.unwrap().expect("there is room");
            draft.fill(round);
            writer.write_draft(40_000, draft).await.unwrap();
            late += u32::from(found() != [round; 200_000]);
            writer.flush().await.unwrap();
            assert!(found() == [round; 200_000], "round {round}");
        }
        assert!(late > 0, "the device takes its time");
        // A flush is one doorbell, and none where there is nothing to flush.
        let count = devices[0].doorbells.lock().len();
        writer.flush().await.unwrap();
        writer.write(0, &[77; 8]).await.unwrap();
        writer.flush().await.unwrap();
        assert_eq!(devices[0].doorbells.lock()[count..], [1, 1]);
        // A write that is refused before it begins leaves the writer unchanged.
        writer.write(8, &[78; 8]).await.unwrap();
        let refused = writer.write(400_000, &[1]).await;
        assert!(matches!(refused, Err(AccessError::OutOfRange(_))), "{refused:?}");
        let draft = memory.draft(100_000).await.unwrap().expect("there is room");
        let refused = writer.write_draft(399_000, draft).await;
        assert!(matches!(refused, Err(AccessError::OutOfRange(_))), "{refused:?}");
        writer.flush().await.unwrap();
        assert_eq!(found()[..16], [[77; 8], [78; 8]].concat());
        owned.share.end().await;
        assert_eq!(writer.write(0, &[1]).await, Err(AccessError::NotShared(NotShared::Revoked)));
        writer.flush().await.unwrap();
    });
}

/// Another queue pair cannot tell the fate of writes by the last one: a writer says so, and begins
/// again. No link rests before the writes over it are flushed.
#[test]
fn a_writer_begins_anew_with_another_queue_pair() {
    sim::run(7, |world| async move {
        let (alpha, _) = node(&world, "alpha", &["mlx5_0"], false).await;
        let (beta, _) = node(&world, "beta", &["mlx5_0"], false).await;
        beta.mesh.ready(1).await;
        let owned = Owned::new(&alpha, 200_000, Access::WRITE);
        let memory = reached(&beta, &alpha, owned.share.id());
        let mut writer = memory.writer();
        writer.write(0, &[1]).await.unwrap();
        writer.flush().await.unwrap();
        let reach = beta.link("alpha").await.unwrap().reach().clone();
        for nth in 0..4 {
            writer.write(0, &[nth; 8]).await.unwrap();
            let mut draft = memory.draft(100_000).await.unwrap().expect("there is room");
            draft.fill(100 + nth);
            assert!(reach.fail_queue_pair());
            tokio::time::sleep(Duration::from_millis(1)).await;
            let ended = match nth {
                0 => writer.flush().await,
                1 => writer.write(8, &[1; 8]).await,
                2 => writer.write_draft(8, draft).await,
                _ => {
                    // A writer that has written nothing yet writes a draft of the last queue pair.
                    let mut other = memory.writer();
                    other.write_draft(0, draft).await.unwrap();
                    other.flush().await.unwrap();
                    let mut found = vec![0; 100_000];
                    owned.memory.read(0, &mut found).unwrap();
                    assert!(found == [103; 100_000], "a draft of another queue pair");
                    writer.flush().await
                }
            };
            assert_eq!(ended, Err(AccessError::Unknown), "{nth}");
            writer.flush().await.unwrap();
        }
        // Its link does not rest before it is flushed.
        writer.write(0, &[1; 8]).await.unwrap();
        assert!(!reach.rest());
        writer.flush().await.unwrap();
        assert!(reach.rest());
        reach.end_rest();
        // Neither writes that can no longer be confirmed nor an empty write keep it from resting.
        writer.write(0, &[1; 8]).await.unwrap();
        assert!(reach.fail_queue_pair());
        tokio::time::sleep(Duration::from_millis(1)).await;
        memory.write(0, &[2; 8]).await.unwrap();
        let mut other = memory.writer();
        other.write(0, &[]).await.unwrap();
        assert!(reach.rest());
        reach.end_rest();
        assert_eq!(writer.flush().await, Err(AccessError::Unknown));
    });
}

/// A writer goes on if its node lets go of the share between two operations, for another executor
/// of atomics: nothing is lost, and nothing unknown.
#[test]
fn a_writer_goes_on_while_executors_take_turns() {
    const BYTES: usize = 3_000_000;
    sim::run(6, |world| async move {
        let (alpha, _) = node(&world, "alpha", &["mlx5_0", "mlx5_1"], true).await;
        let (beta, _) = node(&world, "beta", &["mlx5_0"], false).await;
        let (gamma, _) = node(&world, "gamma", &["mlx5_1"], false).await;
        let owned = Owned::new(&alpha, BYTES, Access::ALL);
        let memory = reached(&beta, &alpha, owned.share.id());
        let other = reached(&gamma, &alpha, owned.share.id());
        let turns = Arc::new(Mutex::new(0));
        let counts = tokio::spawn({
            let turns = turns.clone();
            async move {
                loop {
                    *turns.lock() += u32::from(other.fetch_add(0, 1).await.is_ok());
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        });
        let (mut writer, mut refused, mut drafted) = (memory.writer(), 0, 0);
        for round in 1..=200u8 {
            refused += u32::from(memory.fetch_add(8, 1).await.is_err());
            let bytes = BYTES - 16;
            if let Some(mut draft) = memory.draft(bytes).await.unwrap() {
                draft.fill(round);
                let pause = Duration::from_millis(world.entropy().below(30));
                tokio::time::sleep(pause).await;
                writer.write_draft(16, draft).await.unwrap();
                drafted += 1;
            }
            writer.write(16, &vec![round; 100_000]).await.unwrap();
            writer.flush().await.unwrap();
            let mut found = vec![0; bytes];
            owned.memory.read(16, &mut found).unwrap();
            assert!(found == vec![round; bytes], "round {round}");
        }
        counts.abort();
        let turns = *turns.lock();
        println!("{turns} turns of the other, {refused} refused, {drafted} drafts");
        assert!(turns > 3 && refused > 3 && drafted > 100);
    });
}

/// PV-16, SM-3: atomics are done by one device, or by the processor, and by others only when none
/// of its peers is granted them any more; other operations are done by all.
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
        // Once it is shared again, peers over the processor count with the owner.
        let third_share = alpha.mesh.shares().share(&owned.memory, 0, 64, Access::ATOMIC).unwrap();
        let anew = reached(&delta, &alpha, third_share.id());
        assert_eq!(anew.fetch_add(0, 1).await, Ok(6));
        assert_eq!(own.fetch_add(0, 1).await, Ok(7));
        let anew = reached(&gamma, &alpha, third_share.id());
        assert_eq!(anew.fetch_add(0, 1).await, Err(AccessError::OtherExecutor));
    });
}

/// Adds one to a word as often as it takes until it is done.
async fn add_at_last(memory: &SharedMemory) -> (u64, u32) {
    // For longer than what two others may have left unused is kept for them.
    for refused in 0..300 {
        match memory.fetch_add(0, 1).await {
            Ok(old) => return (old, refused),
            Err(AccessError::OtherExecutor) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("another executor keeps it");
}

/// SM-3: a node that was refused because another executor did the atomics goes on when that
/// executor has no more operations, even if its link lives, and when its link has ended. Nothing is
/// shared again, and no queue pair is lost for it. (Before, one refusal lasted until the region was
/// shared again.)
// Promised in docs/SEMANTICS.md.
#[test]
fn an_executor_lets_go_of_what_it_does_not_use() {
    sim::run(4, |world| async move {
        let (alpha, _) = node(&world, "alpha", &["mlx5_0", "mlx5_1"], true).await;
        let (beta, _) = node(&world, "beta", &["mlx5_0"], false).await;
        let (gamma, _) = node(&world, "gamma", &["mlx5_1"], false).await;
        let (delta, _) = node(&world, "delta", &[], true).await;
        let owned = Owned::new(&alpha, 64, Access::READ | Access::ATOMIC);
        let own = SharedMemory::here(alpha.mesh.shares().clone(), owned.share.id());
        let of = |node| reached(node, &alpha, owned.share.id());
        let users = [of(&beta), of(&gamma), of(&delta), own];
        for round in 0..12 {
            let (old, refused) = add_at_last(&users[round % 4]).await;
            assert_eq!(old, round as u64);
            // The owner counts by the processor, as the node before it does.
            let is_same = round == 0 || round % 4 == 3;
            assert_eq!(refused == 0, is_same, "round {round}: another one had it");
        }
        for node in [&beta, &gamma, &delta] {
            let link = node.link("alpha").await.unwrap();
            assert_eq!(link.reach().queue_pairs(), 1);
        }
        assert_eq!(add_at_last(&users[0]).await.0, 12);
        assert_eq!(users[1].fetch_add(0, 1).await, Err(AccessError::OtherExecutor));
        beta.shutdown().await;
        assert_eq!(add_at_last(&users[1]).await.0, 13);
    });
}

/// Counts for some seconds: a busy task goes on at once, and another task reads, too, and pauses.
/// Returns how many counts were done, had an unknown end, and were refused, and for how many ms at
/// most a busy task was refused in a row.
async fn count_at_random(memory: SharedMemory, world: World, is_owner: bool) -> [u64; 4] {
    let (mut ended, mut into) = ([0; 4], vec![0; 39_000]);
    let (begun, is_busy) = (Instant::now(), world.entropy().below(2) == 0);
    let mut refused: Option<Instant> = None;
    while begun.elapsed() < Duration::from_secs(8) {
        if !is_busy || is_owner {
            match world.entropy().below(4) {
                0 => memory.read(8, &mut into).await.unwrap(),
                1 if !is_busy => {
                    let pause = world.entropy().below(400);
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
                _ => tokio::time::sleep(Duration::from_millis(world.entropy().below(20))).await,
            }
        }
        match memory.fetch_add(0, 1).await {
            Ok(_) => (ended[0], refused) = (ended[0] + 1, None),
            Err(AccessError::Unknown) => ended[1] += 1,
            Err(AccessError::OtherExecutor) => {
                ended[2] += 1;
                let since = refused.get_or_insert_with(Instant::now);
                if is_busy {
                    ended[3] = ended[3].max(since.elapsed().as_millis() as u64);
                    let pause = 1 + world.entropy().below(20);
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
    ended
}

/// SM-3, of nodes that count at one time over two devices and by the processor, while they read,
/// and links are lost: whatever is recalled and granted, all that is atomic is of one executor at
/// each moment, each count is there once, and who goes on asking has it within seconds, the node
/// that shares it among them, unless links are lost. (Before, two nodes by one device kept it from
/// the others.)
#[test]
fn executors_take_turns_at_random() {
    let (mut met, seeds) = ([0; 5], crate::cases(10));
    for seed in 0..seeds {
        let is_severed = seed % 2 == 1;
        let counts = sim::run(seed, |world| async move {
            let (alpha, _) = node(&world, "alpha", &["mlx5_0", "mlx5_1"], true).await;
            let (beta, _) = node(&world, "beta", &["mlx5_0"], false).await;
            let (gamma, _) = node(&world, "gamma", &["mlx5_1"], false).await;
            let (delta, _) = node(&world, "delta", &[], true).await;
            let (epsilon, _) = node(&world, "epsilon", &["mlx5_0"], false).await;
            let owned = Owned::new(&alpha, 40_000, Access::ALL);
            let nodes = [&beta, &gamma, &delta, &epsilon];
            let own = SharedMemory::here(alpha.mesh.shares().clone(), owned.share.id());
            let mut users: Vec<_> =
                nodes.iter().map(|node| reached(node, &alpha, owned.share.id())).collect();
            users.push(own);
            let tasks = users.into_iter().enumerate().map(|(user, memory)| {
                tokio::spawn(count_at_random(memory, world.clone(), user == nodes.len()))
            });
            let tasks: Vec<_> = tasks.collect();
            let (mut last, mut turns) = (None, 0);
            while !tasks.iter().all(tokio::task::JoinHandle::is_finished) {
                let pause = 200 + world.entropy().below(2_000);
                tokio::time::sleep(Duration::from_micros(pause)).await;
                let mut executors = Vec::new();
                for name in ["beta", "gamma", "delta", "epsilon"] {
                    let link = alpha.mesh.peer(&NodeName::new(name).unwrap()).link();
                    executors.extend(link.as_ref().and_then(|link| link.reach().atomic_executor()));
                }
                executors.dedup();
                assert!(executors.len() <= 1, "{executors:?}");
                turns += u64::from(!executors.is_empty() && executors.first() != last.as_ref());
                last = executors.pop().or(last);
                if is_severed && world.entropy().below(300) == 0 {
                    let name = ["beta", "gamma", "delta"][world.entropy().below(3) as usize];
                    world.sever_data("alpha", name);
                }
            }
            let (mut ended, mut longest) = ([0; 5], 0);
            for task in tasks {
                let [done, unknown, refused, ms] = task.await.unwrap();
                for (sum, count) in ended.iter_mut().zip([done, unknown, refused]) {
                    *sum += count;
                }
                longest = longest.max(ms);
            }
            // A lost link keeps its grants until the loss is found out.
            assert!(is_severed || longest <= 3_500, "refused for {longest} ms, seed {seed}");
            let count = owned.word(0);
            assert!(count >= ended[0] && count <= ended[0] + ended[1], "{count} of {ended:?}");
            // A link that was lost shows it when it is used.
            let memory = reached(&delta, &alpha, owned.share.id());
            memory.read(0, &mut [0; 8]).await.unwrap();
            assert_eq!(add_at_last(&memory).await.0, count);
            (ended[3], ended[4]) = (turns, longest);
            ended
        });
        met.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    let [done, unknown, refused, turns, longest] = met;
    println!("{done} added, {unknown} unknown, {refused} refused, {turns} turns");
    println!("refused for {} ms in a row, the mean of the longest", longest / seeds);
    assert!(done > 100 && unknown > 1 && refused > 30 && turns > 30);
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
        assert_eq!(*devices[0].doorbells.lock(), [10, 2]);
        // Many writes have one fence.
        let parts: Vec<(u64, &[u8])> = (0..1024).map(|nth| (nth * 64, &[9; 24][..])).collect();
        memory.write_many(&parts).await.unwrap();
        assert_eq!(devices[0].doorbells.lock()[2..].iter().sum::<usize>(), 1024 + 1);
        let mut found = vec![0; 64 * 1024];
        owned.memory.read(0, &mut found).unwrap();
        assert!(found.chunks(64).all(|chunk| chunk[..24] == [9; 24]));
    });
}
