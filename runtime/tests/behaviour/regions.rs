//! Memory of a node that actors of another one use.

use ringpost::prelude::*;
use ringpost::region::{Access, AllocateError, Region, RegionError, RemoteRegion};

use super::world::{World, end};
use crate::remote::PATIENCE;

/// Owns a region, and gives it away.
#[actor]
pub struct Keeper {
    cells: Region<u64>,
}

#[message]
#[derive(PartialEq, Eq, Debug)]
pub struct Shared {
    pub cells: RemoteRegion<u64>,
    pub letter: char,
}

#[handlers]
impl Keeper {
    #[handler]
    pub fn lend(&mut self) -> Result<Shared, String> {
        let cells = self.cells.share(Access::ALL).map_err(|error| error.to_string())?;
        Ok(Shared { cells, letter: 'k' })
    }

    #[handler]
    fn lend_to_write(&mut self) -> Result<RemoteRegion<u64>, String> {
        self.cells.share(Access::WRITE).map_err(|error| error.to_string())
    }

    #[handler]
    fn cell(&self, at: u64) -> u64 {
        self.cells.read(at as usize..at as usize + 1).map_or(0, |cells| cells[0])
    }

    #[handler]
    fn change(&self, at: u64, value: u64) {
        self.cells.write(at as usize, &[value]).unwrap();
    }
}

pub async fn keeper(node: &Node, len: usize) -> ActorRef<Keeper> {
    let cells = node.region(len).unwrap();
    node.spawn("keeper", Keeper { cells }).await.unwrap()
}

// Promised in docs/SEMANTICS.md.
pub async fn a_region_is_read_and_written_by_another_node(world: &World) {
    let [alpha, beta] = world.pair().await;
    let there = keeper(&beta, 50_000).await;
    let keeper = alpha.actor::<Keeper>("beta/keeper").await.unwrap();
    let Shared { cells, letter } = keeper.lend().await.unwrap().unwrap();
    assert_eq!((cells.len(), cells.node(), letter), (50_000, "beta", 'k'));
    let many: Vec<u64> = (0..40_000).map(|at| at * at).collect();
    cells.write(100, &many).await.unwrap();
    // A message that is sent after a write finds it.
    assert_eq!(keeper.cell(103).await, Ok(9));
    assert_eq!(cells.read(100..40_100).await.as_ref(), Ok(&many));
    keeper.change(5, 77).await.unwrap();
    assert_eq!(cells.read(4..7).await, Ok(vec![0, 77, 0]));
    assert_eq!(cells.fetch_add(5, 3).await, Ok(77));
    assert_eq!(cells.compare_exchange(5, 80, 1).await, Ok(Ok(80)));
    assert_eq!(cells.compare_exchange(5, 80, 2).await, Ok(Err(1)));
    let part = cells.slice(100..200).unwrap().slice(10..20).unwrap();
    assert_eq!(part.len(), 10);
    assert_eq!(part.read(0..2).await, Ok(vec![100, 121]));
    assert_eq!(part.fetch_add(9, 1).await, Ok(361));
    assert_eq!(
        cells.read_many(&[0..1, 5..6, 119..120]).await,
        Ok(vec![vec![0], vec![1], vec![362]])
    );
    let mut into = [0; 3];
    cells.read_into(119..=121, &mut into).await.unwrap();
    assert_eq!(into, [362, 400, 441]);
    assert_eq!(cells.get(120).await, Ok(400));
    assert_eq!(cells.read(49_998..).await, Ok(vec![0, 0]));
    let other = RegionError::LengthMismatch { wanted: 2, room: 3 };
    assert_eq!(cells.read_into(0..2, &mut into).await, Err(other));
    // The owner uses it by the same value.
    let Shared { cells, .. } = there.lend().await.unwrap().unwrap();
    assert_eq!(cells.read(119..120).await, Ok(vec![362]));
    end([alpha, beta]).await;
}

/// MR-1: elements that straddle words are copied whole, and their neighbours stay as they were.
pub async fn elements_of_any_plain_type_are_copied_whole(world: &World) {
    let [alpha, beta] = world.pair().await;
    let owned = beta.region::<[u8; 3]>(2_000).unwrap();
    let taker = alpha.spawn("taker", Taker { cells: None }).await.unwrap();
    let there = beta.actor::<Taker>("alpha/taker").await.unwrap();
    there.keep(owned.share(Access::ALL).unwrap()).await.unwrap();
    owned.write(3, &[[1; 3], [2; 3], [3; 3], [4; 3]]).unwrap();
    assert_eq!(taker.swap(4, 5).await, Ok(Ok(())));
    assert_eq!(owned.read(2..8), Ok(vec![[0; 3], [1; 3], [3; 3], [2; 3], [4; 3], [0; 3]]));
    end([alpha, beta]).await;
}

/// Swaps elements of a region that it was given.
#[actor]
struct Taker {
    cells: Option<RemoteRegion<[u8; 3]>>,
}

#[handlers]
impl Taker {
    #[handler]
    fn keep(&mut self, cells: RemoteRegion<[u8; 3]>) {
        self.cells = Some(cells);
    }

    #[handler]
    async fn swap(&self, a: u64, b: u64) -> Result<(), String> {
        let cells = self.cells.as_ref().ok_or("it was given none")?;
        let (a, b) = (a as usize, b as usize);
        let found = cells.read_many(&[a..a + 1, b..b + 1]).await.map_err(|e| e.to_string())?;
        cells.write(a, &found[1]).await.map_err(|e| e.to_string())?;
        cells.write(b, &found[0]).await.map_err(|e| e.to_string())
    }
}

/// Checks the element that it is told about.
#[actor]
struct Watchman {
    cells: Region<u64>,
}

#[handlers]
impl Watchman {
    #[handler]
    fn written(&mut self, at: u64, value: u64) {
        let found = self.cells.read(at as usize..at as usize + 1).unwrap();
        assert!(found[0] >= value, "it is there when the message is handled: {found:?}");
    }
}

// Promised in docs/SEMANTICS.md.
pub async fn an_actor_is_told_after_the_write(world: &World) {
    let [alpha, beta] = world.pair().await;
    let cells = beta.region(8).unwrap();
    let shared = cells.share(Access::WRITE).unwrap();
    let there = beta.spawn("watchman", Watchman { cells }).await.unwrap();
    alpha.spawn("teller", Teller).await.unwrap();
    let from_beta = beta.actor::<Teller>("alpha/teller").await.unwrap();
    let watchman = there.clone();
    assert_eq!(from_beta.run(shared.clone(), watchman.clone(), 200).await.unwrap(), Ok(()));
    there.drain().await.unwrap();
    there.wait_stopped().await;
    let late = from_beta.run(shared, watchman, 1).await.unwrap().unwrap_err();
    assert!(late.contains("not written") || late.contains("not sent"), "{late}");
    end([alpha, beta]).await;
}

/// Writes to the cells of another node, and tells its actor.
#[actor]
struct Teller;

#[handlers]
impl Teller {
    #[handler]
    async fn run(
        &self,
        cells: RemoteRegion<u64>,
        watchman: ActorRef<Watchman>,
        times: u64,
    ) -> Result<(), String> {
        for value in 1..=times {
            let (at, written) = (value % 8, [value]);
            let told =
                cells.write_and_tell(at as usize, &written, &watchman, Written { at, value });
            told.await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// Two nodes count up, at one time, in cells of a third.
// Promised in docs/SEMANTICS.md.
pub async fn counters_of_a_region_are_shared_by_two_nodes(world: &World) {
    let [alpha, beta] = world.pair().await;
    let gamma = world.node("gamma", &[&alpha]).await;
    let owned = alpha.region::<u64>(4).unwrap();
    let shared = owned.share(Access::ATOMIC).unwrap();
    let counts = [&beta, &gamma].map(|node| {
        let inbox = node.clone();
        let shared = shared.clone();
        async move {
            let there = inbox.spawn("counter", Counter { cells: None }).await.unwrap();
            there.take(shared).await.unwrap();
            there.count(100).await.unwrap()
        }
    });
    assert_eq!(futures::future::join_all(counts).await, [Ok(()), Ok(())]);
    assert_eq!(owned.read(0..4), Ok(vec![50, 50, 50, 50]));
    for node in [&alpha, &beta, &gamma] {
        node.shutdown(PATIENCE).await;
    }
}

/// Counts in cells that it was given.
#[actor]
struct Counter {
    cells: Option<RemoteRegion<u64>>,
}

#[handlers]
impl Counter {
    #[handler]
    fn take(&mut self, cells: RemoteRegion<u64>) {
        self.cells = Some(cells);
    }

    #[handler]
    async fn count(&mut self, times: u64) -> Result<(), String> {
        let cells = self.cells.as_ref().ok_or("it was given none")?;
        for at in 0..times {
            cells.fetch_add(at as usize % 4, 1).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

// Promised in docs/SEMANTICS.md.
pub async fn a_region_that_is_revoked_is_reached_no_more(world: &World) {
    let [alpha, beta] = world.pair().await;
    let owned = beta.region_of(&[1u64, 2, 3]).unwrap();
    let [first, second] = [owned.share(Access::ALL).unwrap(), owned.share(Access::READ).unwrap()];
    let counter = alpha.spawn("counter", Counter { cells: None }).await.unwrap();
    let there = beta.actor::<Counter>("alpha/counter").await.unwrap();
    there.take(first.clone()).await.unwrap();
    assert_eq!(counter.count(3).await, Ok(Ok(())));
    owned.revoke(&first).await;
    assert_eq!(counter.count(1).await, Ok(Err(RegionError::Revoked.to_string())));
    assert_eq!(second.read(0..3).await, Ok(vec![2, 3, 4]));
    owned.revoke_all().await;
    assert_eq!(second.read(0..3).await, Err(RegionError::Revoked));
    let third = owned.share(Access::ALL).unwrap();
    there.take(third).await.unwrap();
    assert_eq!(counter.count(3).await, Ok(Ok(())));
    assert_eq!(owned.read(0..3), Ok(vec![3, 4, 5]));
    drop(owned);
    // Nothing is waited for then.
    while counter.count(1).await == Ok(Ok(())) {}
    assert_eq!(counter.count(1).await, Ok(Err(RegionError::Revoked.to_string())));
    end([alpha, beta]).await;
}

/// Says what an element of a region of another node is, or why it does not know.
#[actor]
struct Reader;

#[handlers]
impl Reader {
    #[handler]
    async fn look(&self, cells: RemoteRegion<u64>, at: u64) -> Result<u64, String> {
        let read = cells.read(at as usize..at as usize + 1).await;
        read.map(|cells| cells[0]).map_err(|error| error.to_string())
    }

    #[handler]
    async fn put(&self, cells: RemoteRegion<u64>) -> Result<(), String> {
        cells.write(0, &[1]).await.map_err(|error| error.to_string())
    }

    #[handler]
    async fn add(&self, cells: RemoteRegion<u64>) -> Result<u64, String> {
        cells.fetch_add(0, 1).await.map_err(|error| error.to_string())
    }
}

// Promised in docs/SEMANTICS.md.
pub async fn what_a_region_does_not_allow_is_an_error_that_says_so(world: &World) {
    let [alpha, beta] = world.pair().await;
    let owned = beta.region_of(&[7u64; 10]).unwrap();
    let reader = alpha.spawn("reader", Reader).await.unwrap();
    let there = beta.actor::<Reader>("alpha/reader").await.unwrap();
    let read = owned.share(Access::READ).unwrap();
    assert_eq!(there.look(read.clone(), 9).await.unwrap(), Ok(7));
    let beyond = there.look(read.clone(), 10).await.unwrap();
    assert_eq!(beyond, Err("elements 10..11 are not in a region of 10 elements".into()));
    let put = there.put(read.clone()).await.unwrap();
    assert_eq!(put, Err("the region was not shared to write: share it with more `Access`".into()));
    let add = there.add(read.clone()).await.unwrap();
    assert!(add.unwrap_err().contains("to do what is atomic"));
    assert!(matches!(read.slice(3..11), Err(RegionError::OutOfRange { len: 10, .. })));
    assert!(matches!(owned.write(9, &[1, 2]), Err(RegionError::OutOfRange { .. })));
    assert!(matches!(alpha.region::<u64>(usize::MAX), Err(AllocateError::TooLarge { .. })));
    keeper(&beta, 1).await;
    let keeper = alpha.actor::<Keeper>("beta/keeper").await.unwrap();
    let Shared { cells, .. } = keeper.lend().await.unwrap().unwrap();
    assert_eq!(reader.look(cells.clone(), 0).await.unwrap(), Ok(0));
    beta.shutdown(PATIENCE).await;
    let down = reader.look(cells, 0).await.unwrap().unwrap_err();
    assert!(down.starts_with("the node beta is down: "), "{down}");
    alpha.shutdown(PATIENCE).await;
}

/// A part that is shared is all that its holders reach; the owner has parts of its own.
// Promised in docs/SEMANTICS.md.
pub async fn a_part_of_a_region_is_shared_alone(world: &World) {
    let [alpha, beta] = world.pair().await;
    let owned = beta.region_of(&[10u64, 11, 12, 13, 14]).unwrap();
    let part = owned.share_range(1..=2, Access::READ | Access::WRITE).unwrap();
    assert_eq!(part.len(), 2);
    let reader = alpha.spawn("reader", Reader).await.unwrap();
    let there = beta.actor::<Reader>("alpha/reader").await.unwrap();
    assert_eq!(there.look(part.clone(), 1).await.unwrap(), Ok(12));
    let beyond = there.look(part.clone(), 2).await.unwrap();
    assert_eq!(beyond, Err("elements 2..3 are not in a region of 2 elements".into()));
    assert_eq!(there.put(part.clone()).await.unwrap(), Ok(()));
    let slice = owned.slice(1..4).unwrap();
    assert_eq!((slice.len(), slice.get(0), slice.read(1..)), (3, Ok(1), Ok(vec![12, 13])));
    slice.slice(2..).unwrap().write(0, &[7]).unwrap();
    assert_eq!(owned.read(..), Ok(vec![10, 1, 12, 7, 14]));
    assert!(matches!(slice.write(2, &[1, 2]), Err(RegionError::OutOfRange { .. })));
    let bytes = beta.region::<u8>(20).unwrap();
    let unaligned = bytes.share_range(4..12, Access::READ).unwrap_err();
    assert_eq!(unaligned, RegionError::Unaligned { element: 4 });
    assert_eq!(bytes.share_range(8..12, Access::READ).map(|it| it.len()), Ok(4));
    assert!(owned.revoke(&part).await);
    assert!(!owned.revoke(&part).await, "it was not shared any more");
    drop(reader);
    end([alpha, beta]).await;
}

/// Hands a region on to another reader, and returns the reader's answer.
#[actor]
struct Courier;

#[handlers]
impl Courier {
    #[handler]
    async fn hand(&self, cells: RemoteRegion<u64>, to: ActorRef<Reader>) -> Result<u64, String> {
        to.look(cells, 0).await.map_err(|error| error.to_string())?
    }
}

/// A node that was given a region by another one than its owner reaches the owner's memory, also
/// when the node between has gone.
// Promised in docs/SEMANTICS.md.
pub async fn a_region_goes_on_from_node_to_node(world: &World) {
    let [alpha, beta] = world.pair().await;
    let gamma = world.node("gamma", &[&alpha, &beta]).await;
    gamma.ready(2).await.unwrap();
    let owned = alpha.region_of(&[5u64]).unwrap();
    let shared = owned.share(Access::ALL).unwrap();
    beta.spawn("courier", Courier).await.unwrap();
    let reader = gamma.spawn("reader", Reader).await.unwrap();
    let courier = alpha.actor::<Courier>("beta/courier").await.unwrap();
    let there = alpha.actor::<Reader>("gamma/reader").await.unwrap();
    assert_eq!(courier.hand(shared.clone(), there.clone()).await.unwrap(), Ok(5));
    beta.shutdown(PATIENCE).await;
    owned.write(0, &[6]).unwrap();
    assert_eq!(there.look(shared.clone(), 0).await.unwrap(), Ok(6));
    owned.revoke_all().await;
    let revoked = there.look(shared, 0).await.unwrap();
    assert_eq!(revoked, Err(RegionError::Revoked.to_string()));
    drop(reader);
    for node in [&alpha, &gamma] {
        node.shutdown(PATIENCE).await;
    }
}

/// A region is of one run of its node: the next one has others.
pub async fn a_region_of_a_run_that_is_over_is_gone(world: &World) {
    let [alpha, beta] = world.pair().await;
    keeper(&beta, 4).await;
    let keeper_there = alpha.actor::<Keeper>("beta/keeper").await.unwrap();
    let Shared { cells, .. } = keeper_there.lend().await.unwrap().unwrap();
    cells.write(0, &[3]).await.unwrap();
    beta.shutdown(PATIENCE).await;
    let again = world.node("beta", &[&alpha]).await;
    again.ready(1).await.unwrap();
    keeper(&again, 4).await;
    let found: ActorRef<Keeper> = alpha.when_named("beta/keeper").await.unwrap();
    let Shared { cells: new, .. } = found.lend().await.unwrap().unwrap();
    assert_eq!(new.get(0).await, Ok(0));
    let error = cells.get(0).await.unwrap_err();
    assert_eq!(error, RegionError::OtherRun("beta".into()));
    assert!(!error.is_retryable() && !error.may_be_done(), "it never comes back");
    assert_ne!(cells, new);
    end([alpha, again]).await;
}

/// Elements that land without a copy are what a read would have brought, of every kind and length,
/// and stay when their region has changed, or is gone.
pub async fn elements_are_viewed_where_they_have_landed(world: &World) {
    let [alpha, beta] = world.pair().await;
    let there = keeper(&beta, 200_000).await;
    let keeper = alpha.actor::<Keeper>("beta/keeper").await.unwrap();
    let Shared { cells, .. } = keeper.lend().await.unwrap().unwrap();
    let many: Vec<u64> = (0..200_000).map(|at| at * 3).collect();
    cells.write(0, &many).await.unwrap();
    let mut views = Vec::new();
    for range in [0..0, 7..8, 3..8_195, 1..40_000, 17..200_000] {
        views.push((cells.view(range.clone()).await.unwrap(), range));
    }
    there.change(7, 1).await.unwrap();
    assert_eq!(cells.view(7..=7).await.unwrap()[..], [1]);
    let beyond = cells.view(100_000..200_001).await.unwrap_err();
    assert!(matches!(beyond, RegionError::OutOfRange { .. }), "{beyond}");
    let owned = beta.region::<[u8; 3]>(100_000).unwrap();
    owned.write(77_777, &[[1, 2, 3]]).unwrap();
    let triples = owned.share(Access::READ).unwrap();
    let looker = alpha.spawn("looker", Looker).await.unwrap();
    let looks = beta.actor::<Looker>("alpha/looker").await.unwrap();
    assert_eq!(looks.triple(triples.clone(), 77_777).await.unwrap(), Ok([1, 2, 3]));
    assert_eq!(triples.view(77_777..77_778).await.unwrap()[0], [1, 2, 3], "of this node");
    owned.revoke_all().await;
    assert_eq!(looks.triple(triples, 77_777).await.unwrap(), Err(RegionError::Revoked.to_string()));
    drop((there, looker));
    end([alpha, beta]).await;
    for (view, range) in views {
        assert_eq!(view[..], many[range]);
    }
}

/// A writer drafts elements in memory that a device reads, writes them, and flushes at the end.
pub async fn elements_are_drafted_and_written(world: &World) {
    let [alpha, beta] = world.pair().await;
    let there = keeper(&beta, 200_000).await;
    let keeper = alpha.actor::<Keeper>("beta/keeper").await.unwrap();
    let Shared { cells, .. } = keeper.lend().await.unwrap().unwrap();
    let mut writer = cells.writer();
    writer.flush().await.unwrap();
    for (at, len) in [(0, 200_000), (7, 1), (3, 8_192), (100_000, 40_000), (0, 0)] {
        let mut draft = writer.draft(len).await.unwrap();
        assert_eq!(draft.len(), len);
        assert_eq!(draft.is_copied(), len < 8_192, "{len}");
        draft.fill((at + len) as u64);
        writer.write_draft(at, draft).await.unwrap();
    }
    writer.write(199_998, &[1, 2]).await.unwrap();
    writer.flush().await.unwrap();
    let all = cells.read(..).await.unwrap();
    let mut expected = vec![200_000; 199_998];
    expected.extend([1, 2]);
    expected[7] = 8;
    expected[3..8_195].fill(8_195);
    expected[100_000..140_000].fill(140_000);
    assert!(all == expected);
    // It needs no access to read, several may be there, and another share's writer may have it.
    let unread = keeper.lend_to_write().await.unwrap().unwrap();
    assert_eq!(unread.get(0).await, Err(RegionError::NoAccess("read")));
    let mut other = unread.writer();
    let mut first = other.draft(8_192).await.unwrap();
    let mut second = writer.draft(8_192).await.unwrap();
    assert!(!first.is_copied() && !second.is_copied());
    first.fill(1);
    second.fill(2);
    other.write_draft(0, second).await.unwrap();
    other.flush().await.unwrap();
    writer.write_draft(8_192, first).await.unwrap();
    writer.flush().await.unwrap();
    assert_eq!((keeper.cell(8_191).await, keeper.cell(8_192).await), (Ok(2), Ok(1)));
    // A write that does not fit is refused before it is begun.
    let beyond = writer.draft(200_001).await.unwrap_err();
    assert!(matches!(beyond, RegionError::OutOfRange { .. }), "{beyond}");
    let draft = writer.draft(100_000).await.unwrap();
    let beyond = writer.write_draft(100_001, draft).await.unwrap_err();
    assert!(matches!(beyond, RegionError::OutOfRange { .. }), "{beyond}");
    // A region of this node is written at once.
    let owned = alpha.region::<[u8; 3]>(100_000).unwrap();
    let triples = owned.share(Access::READ | Access::WRITE).unwrap();
    let mut writer = triples.writer();
    let mut draft = writer.draft(50_000).await.unwrap();
    assert!(draft.is_copied());
    draft.fill([1, 2, 3]);
    writer.write_draft(50_000, draft).await.unwrap();
    assert_eq!(owned.read(49_999..50_001).unwrap(), [[0; 3], [1, 2, 3]]);
    owned.revoke_all().await;
    assert_eq!(writer.write(0, &[[1; 3]]).await, Err(RegionError::Revoked));
    writer.flush().await.unwrap();
    drop(there);
    end([alpha, beta]).await;
}

/// Views a region that it is given.
#[actor]
struct Looker;

#[handlers]
impl Looker {
    #[handler]
    async fn triple(&self, of: RemoteRegion<[u8; 3]>, at: u64) -> Result<[u8; 3], String> {
        let view = of.view(..).await.map_err(|error| error.to_string())?;
        Ok(view[at as usize])
    }
}

/// Elements, and a word of another region that is odd while they are written.
#[message]
#[derive(Clone)]
struct Versioned {
    weights: RemoteRegion<f32>,
    version: RemoteRegion<u64>,
}

/// Gives away copies of its references.
#[actor]
struct Librarian {
    has: Versioned,
}

#[handlers]
impl Librarian {
    #[handler]
    fn lend_versioned(&self) -> Versioned {
        self.has.clone()
    }
}

impl Versioned {
    /// Reads until it finds this version, and each time no elements from before the version that
    /// it found, nor others than of that where it did not change meanwhile.
    async fn read_until(&self, last: u64) {
        loop {
            let before = self.version.get(0).await.unwrap();
            let weights = self.weights.read(..).await.unwrap();
            let round = (before / 2) as f32;
            assert!(weights.iter().all(|it| *it >= round), "from before the version {before}");
            if before.is_multiple_of(2) && self.version.get(0).await == Ok(before) {
                assert!(weights.iter().all(|it| *it == round), "not of the version {before}");
                if before == last {
                    return;
                }
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }
}

// Promised in docs/SEMANTICS.md.
pub async fn what_has_returned_is_found_by_all_that_find_what_comes_after_it(world: &World) {
    const LEN: usize = 40_000;
    const ROUNDS: u64 = 24;
    let [alpha, beta] = world.pair().await;
    let (weights, version) = (beta.region::<f32>(LEN).unwrap(), beta.region::<u64>(1).unwrap());
    let access = Access::READ | Access::WRITE;
    let has = Versioned {
        weights: weights.share(access).unwrap(),
        version: version.share(Access::ALL).unwrap(),
    };
    let librarian = beta.spawn("librarian", Librarian { has: has.clone() }).await.unwrap();
    let far = alpha.actor::<Librarian>("beta/librarian").await.unwrap();
    let far = far.lend_versioned().await.unwrap();
    let write = async {
        let mut writer = far.weights.writer();
        for round in 1..=ROUNDS {
            // Each third turn is the owner's own.
            let elements = vec![round as f32; LEN];
            if round % 3 == 0 {
                version.set(0, 2 * round - 1).unwrap();
                weights.write(0, &elements).unwrap();
                version.set(0, 2 * round).unwrap();
                continue;
            }
            far.version.set(0, 2 * round - 1).await.unwrap();
            if round % 3 == 1 {
                far.weights.write(0, &elements).await.unwrap();
            } else {
                let mut draft = writer.draft(LEN / 2).await.unwrap();
                draft.copy_from_slice(&elements[..LEN / 2]);
                writer.write_draft(0, draft).await.unwrap();
                writer.write(LEN / 2, &elements[LEN / 2..]).await.unwrap();
                writer.flush().await.unwrap();
                assert_eq!(far.version.fetch_add(0, 1).await, Ok(2 * round - 1));
                continue;
            }
            far.version.set(0, 2 * round).await.unwrap();
        }
    };
    let last = 2 * ROUNDS;
    tokio::join!(write, far.read_until(last), has.read_until(last));
    drop((librarian, far, has));
    end([alpha, beta]).await;
}
