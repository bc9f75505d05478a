//! Memory that nodes share: opened over their links when it is first used, and again on the next.

use super::idle_close;
use super::simulated::{node, sim_config};
use super::tcp;
use super::*;
use crate::cause::NotShared;
use crate::endpoint::{AccessError, Share, ShareId, SharedMemory};
use crate::fabric::one_sided::Access;
use crate::fabric::sim;
use crate::id::Incarnation;
use crate::memory::Words;

const BYTES: usize = 700_000;
/// More than all operations that one queue pair has room for.
const LONG_BYTES: usize = 3_000_000;

/// Memory of a node, shared whole.
pub(super) struct Owned {
    pub(super) memory: Arc<Words>,
    pub(super) share: Share,
}

impl Owned {
    pub(super) fn new(node: &Node, bytes: usize, access: Access) -> Self {
        let memory = Arc::new(Words::zeroed(bytes).unwrap());
        let share = node.mesh.shares().share(&memory, 0, bytes as u64, access).unwrap();
        Owned { memory, share }
    }

    pub(super) fn word(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        self.memory.read(at, &mut word).unwrap();
        u64::from_ne_bytes(word)
    }
}

/// Memory of `of`, as `node` reaches it.
pub(super) fn reached(node: &Node, of: &Node, share: ShareId) -> SharedMemory {
    let NodeId { name, incarnation } = of.mesh.id();
    SharedMemory::there(node.mesh.peer(name), *incarnation, share)
}

fn pattern(bytes: usize, salt: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at.wrapping_mul(31) + salt) as u8).collect()
}

/// Both nodes operate on memory of the other, whichever of them dialled.
async fn use_memory(alpha: &Node, beta: &Node) {
    for (user, owner) in [(alpha, beta), (beta, alpha)] {
        let owned = Owned::new(owner, BYTES, Access::ALL);
        let memory = reached(user, owner, owned.share.id());
        let new = pattern(BYTES - 5, 1);
        memory.write(5, &new).await.unwrap();
        let mut found = vec![0; BYTES - 5];
        owned.memory.read(5, &mut found).unwrap();
        assert!(found == new, "what was written is there");
        found.fill(0);
        memory.read(5, &mut found).await.unwrap();
        assert!(found == new, "what was written is read");
        memory.write(8, &7u64.to_ne_bytes()).await.unwrap();
        assert_eq!(memory.fetch_add(8, 5).await, Ok(7));
        assert_eq!(memory.compare_and_swap(8, 12, 90).await, Ok(12));
        assert_eq!(memory.compare_and_swap(8, 12, 91).await, Ok(90));
        assert_eq!(owned.word(8), 90);
        memory.read(3, &mut []).await.unwrap();
        // A draft for the memory of one node may be written to the memory of another.
        let own = Owned::new(user, 100_000, Access::ALL);
        let mut draft = memory.draft(100_000).await.unwrap().expect("there is room");
        draft.copy_from_slice(&new[..100_000]);
        let here = SharedMemory::here(user.mesh.shares().clone(), own.share.id());
        here.writer().write_draft(0, draft).await.unwrap();
        let mut drafted = vec![0; 100_000];
        own.memory.read(0, &mut drafted).unwrap();
        assert!(drafted == new[..100_000]);
        let fetched = memory.fetch(16, BYTES - 16).await.unwrap().unwrap();
        assert!(fetched[..] == new[11..], "what was written is fetched");
        assert!(memory.fetch(16, 100).await.unwrap().is_none(), "it is sooner read");
        let beyond = memory.fetch(16, BYTES).await.err();
        assert!(matches!(beyond, Some(AccessError::OutOfRange(_))), "{beyond:?}");
        owned.share.end().await;
        assert_eq!(
            memory.fetch(16, BYTES - 16).await.err(),
            Some(AccessError::NotShared(NotShared::Revoked))
        );
        assert_eq!(fetched.len(), BYTES - 16);
    }
}

#[test]
fn memory_of_either_node_is_used_by_the_other() {
    for seed in 0..10 {
        sim::run(seed, |world| async move {
            let alpha = node(&world, "alpha", &[]).await;
            let beta = node(&world, "beta", &["alpha"]).await;
            beta.mesh.ready(1).await;
            use_memory(&alpha, &beta).await;
        });
    }
}

#[tokio::test]
async fn memory_is_used_over_tcp() {
    let alpha = tcp::node("alpha", &[]).await;
    let beta = tcp::node("beta", &[alpha.address()]).await;
    beta.mesh.ready(1).await;
    use_memory(&alpha, &beta).await;
    beta.shutdown().await;
    alpha.shutdown().await;
}

/// RE-2: what the owner would refuse is not begun, and costs nothing else.
#[test]
fn what_a_share_does_not_allow_is_an_error_and_no_more() {
    sim::run(1, |world| async move {
        let alpha = node(&world, "alpha", &[]).await;
        let beta = node(&world, "beta", &["alpha"]).await;
        let read = Owned::new(&alpha, 64, Access::READ);
        let write = Owned::new(&alpha, 64, Access::WRITE);
        let all = Owned::new(&alpha, 64, Access::ALL);
        let [read, write, all] =
            [&read, &write, &all].map(|it| reached(&beta, &alpha, it.share.id()));
        let mut bytes = [0; 8];
        read.read(0, &mut bytes).await.unwrap();
        assert_eq!(read.write(0, &bytes).await, Err(AccessError::NoAccess("write")));
        assert_eq!(read.fetch_add(0, 1).await, Err(AccessError::NoAccess("do what is atomic")));
        assert_eq!(write.read(0, &mut bytes).await, Err(AccessError::NoAccess("read")));
        write.write(56, &bytes).await.unwrap();
        for at in [57, 64, u64::MAX - 3, u64::MAX] {
            let error = all.read(at, &mut bytes).await.unwrap_err();
            assert!(matches!(error, AccessError::OutOfRange(_)), "{at}: {error}");
        }
        assert_eq!(all.fetch_add(4, 1).await, Err(AccessError::Unaligned(4)));
        // SM-1.
        let unknown = reached(&beta, &alpha, ShareId(7));
        assert_eq!(unknown.read(0, &mut bytes).await, Err(NotShared::Unknown.into()));
        assert_eq!(all.fetch_add(8, 3).await, Ok(0));
        let link = beta.link("alpha").await.unwrap();
        assert_eq!(link.reach().queue_pairs(), 1, "all over one queue pair");
    });
}

/// A node uses its own shares as others do.
#[test]
fn memory_of_its_own_is_used_in_place() {
    sim::run(1, |world| async move {
        let alpha = node(&world, "alpha", &[]).await;
        let owned = Owned::new(&alpha, 64, Access::ALL);
        let own = SharedMemory::here(alpha.mesh.shares().clone(), owned.share.id());
        own.write(0, &5u64.to_ne_bytes()).await.unwrap();
        assert_eq!(own.fetch_add(0, 2).await, Ok(5));
        assert_eq!(own.compare_and_swap(0, 7, 1).await, Ok(7));
        let mut word = [0; 8];
        own.read(0, &mut word).await.unwrap();
        assert_eq!(u64::from_ne_bytes(word), 1);
        assert!(matches!(own.fetch_add(60, 2).await, Err(AccessError::OutOfRange(_))));
        owned.share.end().await;
        assert_eq!(own.read(0, &mut word).await, Err(AccessError::NotShared(NotShared::Revoked)));
    });
}

/// RE-3, SM-2: after the end nothing is written any more, and other shares go on. The write that
/// met the end was done in part at most and is unknown, or none of it was done and it says so.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_share_that_has_ended_is_reached_by_nobody() {
    let mut met = [0; 3];
    for seed in 0..60 {
        let bytes = if seed % 2 == 0 { BYTES } else { LONG_BYTES };
        let ended = sim::run(seed, |world| async move {
            let alpha = node(&world, "alpha", &[]).await;
            let beta = node(&world, "beta", &["alpha"]).await;
            let (ending, kept) =
                (Owned::new(&alpha, bytes, Access::ALL), Owned::new(&alpha, 64, Access::ALL));
            let [memory, other] = [&ending, &kept].map(|it| reached(&beta, &alpha, it.share.id()));
            let writes = tokio::spawn(async move {
                let mut written = 0;
                loop {
                    match memory.write(0, &pattern(bytes, written + 1)).await {
                        Ok(()) => written += 1,
                        Err(error) => return (error, written, memory),
                    }
                }
            });
            let pause = world.entropy().below(40_000);
            tokio::time::sleep(Duration::from_micros(pause)).await;
            let Owned { memory, share } = ending;
            share.end().await;
            let mut at_the_end = vec![0; bytes];
            memory.read(0, &mut at_the_end).unwrap();
            let (error, written, ended) = writes.await.unwrap();
            let before = if written == 0 { vec![0; bytes] } else { pattern(bytes, written) };
            match error {
                AccessError::NotShared(NotShared::Revoked) => {
                    assert!(at_the_end == before, "nothing of it was done")
                }
                AccessError::Unknown => {
                    let wanted = pattern(bytes, written + 1);
                    let mut words = at_the_end.iter().zip(&before).zip(&wanted);
                    let is_either = |((now, before), wanted)| now == before || now == wanted;
                    assert!(words.all(is_either), "neither old nor new");
                }
                error => panic!("{error}"),
            }
            assert_eq!(ended.write(0, &[1]).await, Err(AccessError::NotShared(NotShared::Revoked)));
            assert_eq!(
                ended.fetch_add(0, 1).await,
                Err(AccessError::NotShared(NotShared::Revoked))
            );
            assert_eq!(other.fetch_add(0, 1).await, Ok(0));
            tokio::time::sleep(Duration::from_secs(5)).await;
            let mut later = vec![0; bytes];
            memory.read(0, &mut later).unwrap();
            assert!(later == at_the_end, "nothing was written after the end");
            let link = beta.link("alpha").await.unwrap();
            assert_eq!(link.reach().queue_pairs(), 1, "RE-2: no queue pair was lost for it");
            let is_unknown = error == AccessError::Unknown;
            [written > 0, is_unknown, is_unknown && at_the_end != before].map(usize::from)
        });
        met.iter_mut().zip(ended).for_each(|(sum, count)| *sum += count);
    }
    let [begun, unknown, in_part] = met;
    println!("{begun} ended after a write, {unknown} in a write, {in_part} with a part of it");
    assert!(begun > 5 && in_part > 5 && unknown < 60, "{met:?}");
}

/// A read changes nothing, so it is never unknown: it is begun again, and where it is lost each
/// time it says that it can be tried again.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_read_is_never_unknown() {
    let mut gave_up = 0;
    for seed in 0..10 {
        gave_up += sim::run(seed, |world| async move {
            let alpha = node(&world, "alpha", &[]).await;
            let beta = node(&world, "beta", &["alpha"]).await;
            let owned = Owned::new(&alpha, BYTES, Access::ALL);
            let memory = reached(&beta, &alpha, owned.share.id());
            let read = tokio::spawn(async move { memory.read(0, &mut vec![0; BYTES]).await });
            while !read.is_finished() {
                tokio::time::sleep(Duration::from_micros(world.entropy().below(1_000))).await;
                world.sever_data("alpha", "beta");
            }
            match read.await.unwrap() {
                Ok(()) => 0,
                Err(AccessError::Unable(why)) if why.contains("4 times in a row") => 1,
                Err(error) => panic!("{error:?}"),
            }
        });
    }
    println!("{gave_up} of 10 gave up");
    assert!(gave_up > 2);
}

/// A peer that does not answer keeps the end of a share for a while only.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_silent_peer_does_not_keep_a_share_from_its_end() {
    sim::run(3, |world| async move {
        let alpha = node(&world, "alpha", &[]).await;
        let beta = node(&world, "beta", &["alpha"]).await;
        let owned = Owned::new(&alpha, 64, Access::ALL);
        let memory = reached(&beta, &alpha, owned.share.id());
        memory.fetch_add(0, 1).await.unwrap();
        world.partition("alpha", "beta");
        let began = tokio::time::Instant::now();
        owned.share.end().await;
        assert!(began.elapsed() <= crate::limits::REVOKE_PATIENCE, "{:?}", began.elapsed());
    });
}

/// Counters of one node, to which two others add over links that are lost: each addition was done
/// once, or not at all, and every addition whose end is known was done.
// Promised in docs/SEMANTICS.md.
#[test]
fn counters_are_exact_over_links_that_are_lost() {
    let mut met = [0; 3];
    for seed in 0..60 {
        let reached = sim::run(seed, |world| async move {
            let alpha = node(&world, "alpha", &[]).await;
            let users =
                [node(&world, "beta", &["alpha"]).await, node(&world, "gamma", &["alpha"]).await];
            let owned = Owned::new(&alpha, 64, Access::ALL);
            let adders = users.each_ref().map(|user| {
                let memory = reached(user, &alpha, owned.share.id());
                let tasks = (0..3).map(|_| {
                    let memory = memory.clone();
                    tokio::spawn(async move {
                        let mut ended = [0; 3];
                        for _ in 0..40 {
                            ended[match memory.fetch_add(8, 1).await {
                                Ok(_) => 0,
                                Err(AccessError::Unknown) => 1,
                                Err(_) => 2,
                            }] += 1;
                            tokio::time::sleep(Duration::from_millis(2)).await;
                        }
                        ended
                    })
                });
                tasks.collect::<Vec<_>>()
            });
            for _ in 0..4 {
                let pause = world.entropy().below(60_000);
                tokio::time::sleep(Duration::from_micros(pause)).await;
                let user = ["beta", "gamma"][world.entropy().below(2) as usize];
                match world.entropy().below(2) {
                    0 => world.sever_data("alpha", user),
                    _ => world.sever_streams("alpha", user),
                }
            }
            let mut ended = [0; 3];
            for task in adders.into_iter().flatten() {
                let counts = task.await.unwrap();
                ended.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
            let count = owned.word(8);
            assert!(count >= ended[0] && count <= ended[0] + ended[1], "{count} of {ended:?}");
            ended
        });
        met.iter_mut().zip(reached).for_each(|(sum, count)| *sum += count);
    }
    println!("added {}, unknown {}, not begun {}", met[0], met[1], met[2]);
    assert!(met[0] > 1_000 && met[1] > 20);
}

/// RE-5, MS-18: a link over which memory is used is not idle, and an idle one is made again for it.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_link_is_kept_for_the_use_of_memory() {
    sim::run(4, |world| async move {
        let alpha = idle_close::node(&world, "alpha", &[], Some(5)).await;
        let beta = idle_close::node(&world, "beta", &["alpha"], Some(5)).await;
        let owned = Owned::new(&alpha, 64, Access::ALL);
        let memory = reached(&beta, &alpha, owned.share.id());
        for round in 0..20 {
            assert_eq!(memory.fetch_add(0, 1).await, Ok(round));
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        assert_eq!(beta.watcher.texts(), ["alpha up over sim"]);
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(beta.watcher.texts(), ["alpha up over sim", "alpha lost: it was idle"]);
        assert_eq!(memory.fetch_add(0, 1).await, Ok(20));
    });
}

/// A region of a new run of a node is waited for while the link leads to the run before it; a
/// region of an earlier run is gone when the linked run answers.
#[test]
fn memory_of_a_new_run_is_waited_for() {
    for seed in 0..10 {
        sim::run(seed, |world| async move {
            let alpha = node(&world, "alpha", &[]).await;
            let first = node(&world, "beta", &["alpha"]).await;
            alpha.mesh.ready(1).await;
            let old = Owned::new(&first, 64, Access::ALL);
            let of_old = reached(&alpha, &first, old.share.id());
            assert_eq!(of_old.fetch_add(0, 3).await, Ok(0));
            // The host vanishes without a word, and its node comes up elsewhere.
            world.partition("alpha", "beta");
            let mut again = sim_config(&world, "beta-again", &["alpha"]);
            again.name = NodeName::new("beta").unwrap();
            let again = Node::start(again).await.unwrap();
            let new = Owned::new(&again, 64, Access::ALL);
            let of_new = reached(&alpha, &again, new.share.id());
            assert_eq!(of_new.fetch_add(0, 4).await, Ok(0), "seed {seed}");
            assert_eq!(of_old.fetch_add(0, 1).await, Err(AccessError::OtherRun));
            let never = NodeId { incarnation: Incarnation(9), ..again.mesh.id().clone() };
            let of_never = SharedMemory::there(
                alpha.mesh.peer(&never.name),
                never.incarnation,
                new.share.id(),
            );
            assert_eq!(of_never.fetch_add(0, 1).await, Err(AccessError::OtherRun));
            drop(first);
        });
    }
}
