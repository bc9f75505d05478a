//! Memory of another node that is used by chance, over links that are lost, judged by a model.

use std::sync::atomic::{AtomicU32, Ordering};

use super::lazy_device::LazyDevice;
use super::sharing::reached;
use super::simulated::sim_config;
use super::*;
use crate::cause::NotShared;
use crate::endpoint::{AccessError, Share, ShareId, SharedMemory};
use crate::entropy::Entropy;
use crate::fabric::one_sided::Access;
use crate::fabric::sim::{self, World};
use crate::limits::{FETCH_FROM, ONE_SIDED_BYTES_MAX};
use crate::memory::Words;
use crate::reach::Reach;
use crate::shares::Shares;

/// With fewer seeds than this some states are not expected to be reached.
const SEEDS: u64 = 100;
const BYTES: usize = 800_000;
/// Operations of a seed.
const OPERATIONS: u32 = 40;

/// The states that the seeds are to bring.
#[derive(Debug, Default)]
struct Met {
    done: u32,
    /// Operations whose end is unknown, that were done and that were not, or in part.
    unknown_done: u32,
    unknown_undone: u32,
    reads_over_loss: u32,
    /// Fetches that brought the bytes, and fetches that did not, so that they had to be read.
    fetched: u32,
    not_fetched: u32,
    /// Pieces that were written by drafts, and pieces that were refused.
    drafted: u32,
    refused: u32,
    /// Operations that found the share revoked.
    revoked: u32,
    /// Queue pairs that were lost while their link lived, and writes that were begun on one of them
    /// and would have gone on over the next.
    queue_pairs_lost: u32,
    writes_over_two: u32,
    /// Times the link wanted to rest: it did, and it did not since an operation was under way.
    rested: u32,
    kept: u32,
    /// Operations that were not begun, as the next queue pair was lost before it was connected.
    unable: u32,
}

/// PV-14, PV-15, PV-19: a completed operation was done as asked, and an operation of unknown end at
/// most once: each word is as before, or as wanted. No read ends as unknown.
// Promised in docs/SEMANTICS.md.
#[test]
fn memory_is_what_a_model_is_whatever_is_lost() {
    let seeds = crate::cases(25);
    let mut met = Met::default();
    for seed in 0..seeds {
        sim::run(seed, |world| by_chance(world, seed % 2 == 1, &mut met));
    }
    println!("{met:?} in {seeds} seeds");
    let Met { done, unknown_done, unknown_undone, reads_over_loss, .. } = met;
    let Met { queue_pairs_lost, writes_over_two, rested, kept, fetched, .. } = met;
    let Met { not_fetched, drafted, refused, revoked, .. } = met;
    let operations = [done, unknown_done, unknown_undone, reads_over_loss, fetched, not_fetched];
    let others = [queue_pairs_lost, writes_over_two, rested, kept, drafted, refused, revoked];
    let mut counts = operations.into_iter().chain(others);
    assert!(seeds < SEEDS || counts.all(|count| count > 5), "{met:?}");
}

pub(super) async fn node(world: &World, name: &str, by_device: bool) -> Node {
    let mut config = sim_config(world, name, &["alpha"]);
    if by_device {
        let (_, fabric) = LazyDevice::new("mlx5_0", &config.network.fabrics[0]);
        config.network.fabrics = vec![fabric];
    }
    Node::start(config).await.unwrap()
}

/// Counts of the disturbances by the tasks of [`disturb_soon`].
#[derive(Default)]
pub(super) struct Disturbed {
    queue_pairs_lost: AtomicU32,
    rested: AtomicU32,
    kept: AtomicU32,
}

impl Disturbed {
    fn add_to(&self, met: &mut Met) {
        let count = |counter: &AtomicU32| counter.load(Ordering::Relaxed);
        met.queue_pairs_lost += count(&self.queue_pairs_lost);
        met.rested += count(&self.rested);
        met.kept += count(&self.kept);
    }
}

/// A part of the memory of one node that another one uses, and its share, which is revoked now and
/// then.
pub(super) struct Lot {
    words: Arc<Words>,
    place: (u64, u64),
    shares: Arc<Shares>,
    reach: Box<dyn Fn(ShareId) -> SharedMemory + Send>,
    share: Arc<Mutex<Option<Share>>>,
    pub(super) memory: SharedMemory,
}

impl Lot {
    /// So many bytes of the memory of alpha, the first of which is `from`, as beta uses them.
    pub(super) fn new(
        [alpha, beta]: [&Node; 2],
        words: &Arc<Words>,
        (from, bytes): (usize, usize),
    ) -> Self {
        let (shares, place) = (alpha.mesh.shares().clone(), (from as u64, bytes as u64));
        let share = shares.share(words, place.0, place.1, Access::ALL).unwrap();
        let memory = reached(beta, alpha, share.id());
        let NodeId { name, incarnation } = alpha.mesh.id();
        let (peer, incarnation) = (beta.mesh.peer(name), *incarnation);
        let reach = Box::new(move |id| SharedMemory::there(peer.clone(), incarnation, id));
        let share = Arc::new(Mutex::new(Some(share)));
        Lot { words: words.clone(), place, shares, reach, share, memory }
    }

    /// Shares it again, if it is not shared. Returns true if it was not.
    pub(super) fn share_again(&mut self) -> bool {
        let mut share = self.share.lock();
        let ended = share.is_none();
        if ended {
            let (from, bytes) = self.place;
            let new = self.shares.share(&self.words, from, bytes, Access::ALL).unwrap();
            self.memory = (self.reach)(new.id());
            *share = Some(new);
        }
        ended
    }

    /// Revokes it.
    pub(super) fn end(&self) {
        drop(self.share.lock().take());
    }

    /// Revokes it a little later.
    pub(super) fn revoke_soon(&self, world: &World) {
        let (share, pause) = (self.share.clone(), world.entropy().below(3_000));
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_micros(pause)).await;
            drop(share.lock().take());
        });
    }

    /// Reads, again where there was no queue pair, or no share any more.
    pub(super) async fn read(&mut self, at: u64, into: &mut [u8], unable: &mut u32) {
        loop {
            match self.memory.read(at, into).await {
                Ok(()) => return,
                Err(AccessError::Unable(_)) => *unable += 1,
                Err(AccessError::NotShared(NotShared::Revoked)) => {
                    assert!(self.share_again(), "it is shared")
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Returns what its owner finds there.
    pub(super) fn found(&self) -> Vec<u8> {
        let mut found = vec![0; self.place.1 as usize];
        self.words.read(self.place.0, &mut found).unwrap();
        found
    }

    /// Returns the bytes that an operation of unknown end has left: each is old, or as wanted.
    pub(super) async fn end_of_unknown(
        &mut self,
        (before, wanted): (&[u8], &[u8]),
        unable: &mut u32,
    ) -> Vec<u8> {
        // Over another link, or queue pair: what the last one brought has been done by now.
        let mut now = vec![0; before.len()];
        self.read(0, &mut now, unable).await;
        for ((now, before), wanted) in now.iter().zip(before).zip(wanted) {
            assert!(now == before || now == wanted, "neither old nor new");
        }
        now
    }
}

/// Loses the link, its session or the queue pair of one side, or has the link want to rest, a
/// little later.
pub(super) fn disturb_soon(world: &World, reach: Option<Arc<Reach>>, met: &Arc<Disturbed>) {
    let (world, met) = (world.clone(), met.clone());
    let (pause, what) = (world.entropy().below(3_000), world.entropy().below(6));
    let count = |counter: &AtomicU32| {
        counter.fetch_add(1, Ordering::Relaxed);
    };
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_micros(pause)).await;
        match (what, reach) {
            (0, _) => world.sever_data("alpha", "beta"),
            (1, _) => world.sever_streams("alpha", "beta"),
            (2 | 3, Some(reach)) => {
                if reach.fail_queue_pair() {
                    count(&met.queue_pairs_lost);
                }
            }
            // As the session does when it would close an idle link, and hears that it is not.
            (_, Some(reach)) if reach.rest() => {
                count(&met.rested);
                tokio::time::sleep(Duration::from_micros(pause / 4)).await;
                reach.end_rest();
            }
            (_, Some(_)) => count(&met.kept),
            (_, None) => {}
        }
    });
}

pub(super) fn reach_to(node: &Node, name: &str) -> Option<Arc<Reach>> {
    let link = node.mesh.peer(&NodeName::new(name).unwrap()).link();
    link.as_ref().map(|link| link.reach().clone())
}

/// Fetches the bytes at `at` if there are enough of them, and checks them.
async fn fetch(memory: &SharedMemory, at: usize, expected: &[u8], met: &mut Met) {
    if expected.len() < FETCH_FROM {
        return;
    }
    match memory.fetch(at as u64, expected.len()).await {
        Ok(Some(fetched)) => {
            met.fetched += 1;
            assert!(fetched[..] == *expected, "{} from {at}", expected.len());
        }
        Ok(None) | Err(_) => met.not_fetched += 1,
    }
}

/// Writes the `wanted` bytes, the first of which is `from`, in pieces, some of them by drafts, and
/// flushes them. A refused piece is not wanted any more: it becomes as `before`. Counts the drafted
/// and the refused pieces. Returns an error if some bytes may be written.
pub(super) async fn write_together(
    memory: &SharedMemory,
    from: usize,
    (before, wanted): (&[u8], &mut [u8]),
    entropy: &Entropy,
    [drafted, refused]: [&mut u32; 2],
) -> Result<(), AccessError> {
    let (mut writer, mut ended) = (memory.writer(), Ok(()));
    let mut done = 0;
    while done < wanted.len() {
        let bytes = entropy.below((wanted.len() - done) as u64) as usize + 1;
        let (piece, at) = (&mut wanted[done..done + bytes], from + done);
        let draft = if entropy.below(2) == 0 { memory.draft(piece.len()).await } else { Ok(None) };
        let written = match draft {
            Ok(Some(mut draft)) => {
                *drafted += 1;
                draft.copy_from_slice(piece);
                // (Another queue pair may have come until it is written.)
                tokio::time::sleep(Duration::from_micros(entropy.below(4_000))).await;
                writer.write_draft(at as u64, draft).await
            }
            _ => writer.write(at as u64, piece).await,
        };
        match written {
            Ok(()) => {}
            Err(AccessError::Unknown) => ended = Err(AccessError::Unknown),
            Err(AccessError::NotShared(NotShared::Revoked) | AccessError::Unable(_)) => {
                *refused += 1;
                piece.copy_from_slice(&before[done..done + bytes]);
            }
            Err(error) => panic!("{error}"),
        }
        done += bytes;
    }
    let flushed = writer.flush().await;
    ended.and(flushed)
}

/// Fetches and reads the bytes from `at` on, and checks them.
async fn look(lot: &mut Lot, beta: &Node, (at, expected): (usize, &[u8]), met: &mut Met) {
    let mut found = vec![0; expected.len()];
    let before = beta.watcher.texts().len();
    fetch(&lot.memory, at, expected, met).await;
    lot.read(at as u64, &mut found, &mut met.unable).await;
    met.reads_over_loss += u32::from(beta.watcher.texts().len() > before);
    assert!(found == expected, "read of {} from {at}", expected.len());
}

/// The end of an operation that may have changed the memory, and the bytes that were wanted.
struct Operated {
    ended: Result<(), AccessError>,
    wanted: Vec<u8>,
    /// It was more than one operation of a queue pair.
    is_long: bool,
}

/// Does something with the memory that is as the model. Returns nothing where that only looked.
async fn operate(
    (world, beta): (&World, &Node),
    lot: &mut Lot,
    (number, model): (u32, &[u8]),
    met: &mut Met,
) -> Option<Operated> {
    let below = |most: usize| world.entropy().below(most as u64) as usize;
    let long = if below(4) == 0 { BYTES } else { 40 };
    let at = below(BYTES);
    let (length, word) = (below(long.min(BYTES - at) + 1), at / 8 * 8);
    let (mut wanted, mut is_long, memory) = (model.to_vec(), false, lot.memory.clone());
    let ended = match below(5) {
        0 => {
            look(lot, beta, (at, &model[at..at + length]), met).await;
            return None;
        }
        1 => {
            wanted[at..at + length].fill(number as u8 + 1);
            is_long = length > ONE_SIDED_BYTES_MAX;
            memory.write(at as u64, &wanted[at..at + length]).await
        }
        2 => {
            wanted[at..at + length].fill(number as u8 + 1);
            let bytes = (&model[at..at + length], &mut wanted[at..at + length]);
            let counts = [&mut met.drafted, &mut met.refused];
            write_together(&memory, at, bytes, &world.entropy(), counts).await
        }
        kind => {
            let place = word..word + 8;
            let old = u64::from_ne_bytes(model[place.clone()].try_into().unwrap());
            let is_add = kind == 3;
            let new = if is_add { old.wrapping_add(3) } else { number.into() };
            wanted[place].copy_from_slice(&new.to_ne_bytes());
            let done = match is_add {
                true => memory.fetch_add(word as u64, 3).await,
                false => memory.compare_and_swap(word as u64, old, new).await,
            };
            done.map(|found| assert_eq!(found, old))
        }
    };
    Some(Operated { ended, wanted, is_long })
}

async fn by_chance(world: World, by_device: bool, met: &mut Met) {
    let alpha = node(&world, "alpha", by_device).await;
    let beta = node(&world, "beta", by_device).await;
    beta.mesh.ready(1).await;
    let words = Arc::new(Words::zeroed(BYTES).unwrap());
    let mut lot = Lot::new([&alpha, &beta], &words, (0, BYTES));
    let below = |most: usize| world.entropy().below(most as u64) as usize;
    let mut model = vec![0u8; BYTES];
    let disturbed = Arc::new(Disturbed::default());
    for number in 0..OPERATIONS {
        if below(2) == 0 {
            lot.share_again();
        }
        if below(8) == 0 {
            lot.revoke_soon(&world);
        }
        if below(3) == 0 {
            let (node, name) = [(&alpha, "beta"), (&beta, "alpha")][below(2)];
            disturb_soon(&world, reach_to(node, name), &disturbed);
        }
        let links = beta.watcher.texts().len();
        let operated = operate((&world, &beta), &mut lot, (number, &model), met).await;
        let Some(Operated { ended, mut wanted, is_long }) = operated else { continue };
        match ended {
            Ok(()) => met.done += 1,
            Err(error @ (AccessError::Unable(_) | AccessError::NotShared(NotShared::Revoked))) => {
                let count = match error {
                    AccessError::NotShared(NotShared::Revoked) => &mut met.revoked,
                    _ => &mut met.unable,
                };
                *count += 1;
                wanted = model.clone();
            }
            Err(AccessError::Unknown) => {
                let is_linked = links == beta.watcher.texts().len();
                met.writes_over_two += u32::from(is_long && is_linked);
                let now = lot.end_of_unknown((&model, &wanted), &mut met.unable).await;
                let is_done = now == wanted;
                met.unknown_done += u32::from(is_done && wanted != model);
                met.unknown_undone += u32::from(!is_done);
                wanted = now;
            }
            Err(error) => panic!("{error}"),
        }
        model = wanted;
        assert!(lot.found() == model, "operation {number}");
    }
    disturbed.add_to(met);
}
