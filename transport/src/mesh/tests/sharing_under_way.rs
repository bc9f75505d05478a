//! Memory of another node while operations on it are under way: seen by others, dropped, and not to
//! rest.

use super::sharing::{Owned, reached};
use super::sharing_at_random::node;
use super::tcp;
use super::*;
use crate::fabric::one_sided::Access;
use crate::fabric::sim;
use crate::limits::{SPARE_KEPT, VIEWED_BYTES_MAX};

const BYTES: usize = 800_000;

/// Checks that no word is torn of bytes from `at` on, of which each word was written as one.
fn judge_words(at: usize, found: &[u8]) {
    let begun = at.next_multiple_of(8) - at;
    for (nth, word) in found[begun..].chunks_exact(8).enumerate() {
        let is_whole = word.iter().all(|byte| *byte == word[0]);
        assert!(is_whole, "word {} of bytes from {at} on is torn: {word:?}", nth);
    }
}

/// No word tears where a long operation is cut, wherever in a word it begins.
// Promised in docs/SEMANTICS.md.
#[test]
fn words_do_not_tear_where_operations_are_cut() {
    const LONG: usize = 2 << 20;
    /// Bytes about each place at which something is cut.
    const ABOUT: usize = 64;
    // (A device cuts what begins within a word at each packet.)
    let cuts = (1..16u64).map(|nth| nth * (LONG as u64 / 16)).chain([256]);
    for by_device in [false, true] {
        let cuts = cuts.clone();
        sim::run(9, |world| async move {
            let alpha = node(&world, "alpha", by_device).await;
            let beta = node(&world, "beta", by_device).await;
            let gamma = node(&world, "gamma", by_device).await;
            let owned = Owned::new(&alpha, LONG, Access::ALL);
            let [memory, other] =
                [&beta, &gamma].map(|node| reached(node, &alpha, owned.share.id()));
            let places = cuts.clone().map(|cut| cut - ABOUT as u64 / 2);
            // Bytes that another node writes are read, by copies and without.
            let writes = tokio::spawn({
                let (other, places) = (other.clone(), places.clone());
                async move {
                    for round in (1..=200u8).cycle() {
                        for at in places.clone() {
                            other.write(at, &[round; ABOUT]).await.unwrap();
                        }
                    }
                }
            });
            let (mut found, mut fetched) = (vec![0; LONG - 8], 0);
            for at in (0..8).cycle().take(64) {
                memory.read(at as u64, &mut found).await.unwrap();
                judge_words(at, &found);
                if let Some(found) = memory.fetch(at as u64, LONG - 8).await.unwrap() {
                    judge_words(at, &found);
                    fetched += 1;
                }
            }
            writes.abort();
            assert_eq!(fetched, 64);
            // Meanwhile the others read the written bytes, by copies and without.
            let writes = tokio::spawn(async move {
                let mut writer = memory.writer();
                for (at, round) in (0..8).cycle().zip(1..=64u8) {
                    writer.write(at, &vec![round; LONG - 8]).await.unwrap();
                    let mut draft = memory.draft(LONG - 8).await.unwrap().expect("there is room");
                    draft.fill(100 + round);
                    writer.write_draft(at, draft).await.unwrap();
                }
                writer.flush().await.unwrap();
            });
            let mut mixed = 0;
            while !writes.is_finished() {
                for at in places.clone() {
                    let mut found = [0; ABOUT];
                    owned.memory.read(at, &mut found).unwrap();
                    judge_words(0, &found);
                    mixed += u32::from(found[..8] != found[ABOUT - 8..]);
                    tokio::time::sleep(Duration::from_micros(1)).await;
                }
            }
            writes.await.unwrap();
            println!("{mixed} reads met two writes");
        });
    }
}

/// A write that is given up is done when its writer was flushed, or never: bytes that others write
/// then stay. Returns how often a write was given up.
async fn give_up_and_flush(alpha: &Node, beta: &Node, pause: impl Fn() -> Duration) -> u32 {
    let owned = Owned::new(alpha, BYTES, Access::ALL);
    let memory = reached(beta, alpha, owned.share.id());
    let mut writer = memory.writer();
    let mut cut = 0;
    for round in 0..80u8 {
        let work = async {
            if round % 2 == 0 {
                return writer.write(0, &vec![round; BYTES]).await;
            }
            let Some(mut draft) = memory.draft(BYTES).await? else { return Ok(()) };
            draft.fill(round);
            writer.write_draft(0, draft).await
        };
        cut += u32::from(tokio::time::timeout(pause(), work).await.is_err());
        writer.flush().await.unwrap();
        owned.memory.write(0, &vec![200; BYTES]).unwrap();
        // PV-14: nothing is on its way when this has returned.
        memory.read(0, &mut [0; 8]).await.unwrap();
        let mut found = vec![0; BYTES];
        owned.memory.read(0, &mut found).unwrap();
        assert!(found == [200; BYTES], "round {round}: written after the flush");
    }
    cut
}

// Promised in docs/SEMANTICS.md.
#[test]
fn what_a_writer_gave_up_is_done_when_it_was_flushed() {
    for by_device in [false, true] {
        sim::run(8, |world| async move {
            let alpha = node(&world, "alpha", by_device).await;
            let beta = node(&world, "beta", by_device).await;
            beta.mesh.ready(1).await;
            let pause = || Duration::from_micros(world.entropy().below(800));
            let cut = give_up_and_flush(&alpha, &beta, pause).await;
            // (A write to a device is given up at its fence alone, and a writer has none.)
            assert!(by_device || cut > 20, "{cut}");
        });
    }
}

#[tokio::test]
async fn what_a_writer_gave_up_is_done_when_it_was_flushed_over_tcp() {
    let alpha = tcp::node("alpha", &[]).await;
    let beta = tcp::node("beta", &[alpha.address()]).await;
    beta.mesh.ready(1).await;
    let pause = || Duration::from_micros(fastrand::u64(..2_000));
    let cut = give_up_and_flush(&alpha, &beta, pause).await;
    println!("{cut} given up");
    beta.shutdown().await;
    alpha.shutdown().await;
}

/// A word that is written by one node never tears for another one, nor for its owner.
// Promised in docs/SEMANTICS.md.
#[test]
fn words_do_not_tear_across_nodes() {
    for by_device in [false, true] {
        sim::run(5, |world| async move {
            let alpha = node(&world, "alpha", by_device).await;
            let beta = node(&world, "beta", by_device).await;
            let gamma = node(&world, "gamma", by_device).await;
            let owned = Owned::new(&alpha, 80_000, Access::ALL);
            let [writer, reader] =
                [&beta, &gamma].map(|node| reached(node, &alpha, owned.share.id()));
            let writes = tokio::spawn(async move {
                for round in 1..=60u8 {
                    writer.write(0, &vec![round; 80_000]).await.unwrap();
                }
            });
            let (mut found, mut mixed, mut reads) = (vec![0; 80_000], 0, 0);
            while !writes.is_finished() {
                reader.read(0, &mut found).await.unwrap();
                let whole = |word: &[u8]| word.iter().all(|byte| *byte == word[0]);
                assert!(found.chunks(8).all(whole), "no word is torn");
                mixed += u32::from(!whole(&found));
                owned.memory.read(0, &mut found).unwrap();
                assert!(found.chunks(8).all(whole), "nor for the owner");
                reads += 1;
            }
            writes.await.unwrap();
            println!("{mixed} of {reads} reads met two writes");
            assert!(mixed > 0);
        });
    }
}

/// Futures that are dropped under way leave all slots free, and the memory usable.
// Promised in docs/SEMANTICS.md.
#[test]
fn dropped_operations_give_their_slots_back() {
    for by_device in [false, true] {
        sim::run(6, |world| async move {
            let alpha = node(&world, "alpha", by_device).await;
            let beta = node(&world, "beta", by_device).await;
            beta.mesh.ready(1).await;
            let owned = Owned::new(&alpha, BYTES, Access::ALL);
            let memory = reached(&beta, &alpha, owned.share.id());
            let mut cut = 0;
            for round in 0..200u64 {
                let pause = Duration::from_micros(world.entropy().below(400));
                let bytes = vec![round as u8; BYTES];
                let mut into = vec![0; BYTES];
                let work = async {
                    match round % 5 {
                        0 => memory.write(0, &bytes).await.map(drop),
                        4 => match memory.draft(BYTES).await? {
                            Some(draft) => memory.writer().write_draft(0, draft).await,
                            None => Ok(()),
                        },
                        1 => memory.read(0, &mut into).await,
                        2 => {
                            drop(memory.fetch(0, BYTES).await);
                            Ok(())
                        }
                        _ => memory.fetch_add(0, 1).await.map(drop),
                    }
                };
                cut += u32::from(tokio::time::timeout(pause, work).await.is_err());
            }
            assert!(cut > 20, "{cut}");
            let mut writer = memory.writer();
            for round in 0..20 {
                let draft = memory.draft(BYTES).await.unwrap().expect("there is room");
                let pause = Duration::from_micros(world.entropy().below(400));
                drop(tokio::time::timeout(pause, writer.write_draft(0, draft)).await);
                let wanted = vec![round; BYTES];
                writer.write(0, &wanted).await.unwrap();
                writer.flush().await.unwrap();
                let mut found = vec![0; BYTES];
                owned.memory.read(0, &mut found).unwrap();
                assert!(found == wanted, "what was dropped came before");
            }
            drop(writer);
            memory.write(0, &vec![7; BYTES]).await.unwrap();
            let mut found = vec![0; BYTES];
            owned.memory.read(0, &mut found).unwrap();
            assert!(found == vec![7; BYTES], "what was dropped came before");
            let link = beta.link("alpha").await.unwrap();
            assert_eq!(link.reach().queue_pairs(), 1);
            // (A fetch for nobody goes on to its end.)
            while !link.reach().rest() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            link.reach().end_rest();
            let found = memory.fetch(0, BYTES).await.unwrap().unwrap();
            assert!(found[..] == vec![7; BYTES]);
            drop(found);
            let landing = link.reach().landing_bytes();
            assert!(landing > 0 && landing <= VIEWED_BYTES_MAX as u64, "used again: {landing}");
            // Unused memory is given back: none of the dropped bytes is missing.
            for _ in 0..3 {
                tokio::time::sleep(SPARE_KEPT).await;
                link.reach().look(true);
            }
            assert_eq!(link.reach().landing_bytes(), 0);
        });
    }
}

/// RE-5: a link is not closed as idle in the midst of a transfer, however slow.
#[test]
fn a_link_does_not_rest_in_the_midst_of_a_transfer() {
    sim::run(7, |world| async move {
        let alpha = node(&world, "alpha", false).await;
        let beta = node(&world, "beta", false).await;
        beta.mesh.ready(1).await;
        let owned = Owned::new(&alpha, BYTES, Access::ALL);
        let memory = reached(&beta, &alpha, owned.share.id());
        memory.fetch_add(0, 1).await.unwrap();
        let link = beta.link("alpha").await.unwrap();
        let reach = link.reach().clone();
        let transfer = tokio::spawn(async move { memory.write(8, &vec![1; BYTES - 8]).await });
        let mut kept = 0;
        while !transfer.is_finished() {
            // As the session does when it would close an idle link, and hears that it is not.
            if reach.rest() {
                reach.end_rest();
            } else {
                kept += 1;
            }
            tokio::time::sleep(Duration::from_micros(20)).await;
        }
        transfer.await.unwrap().unwrap();
        assert!(kept > 0, "it was under way when it was to rest");
        let mut found = vec![0; BYTES - 8];
        owned.memory.read(8, &mut found).unwrap();
        assert!(found.iter().all(|byte| *byte == 1));
    });
}
