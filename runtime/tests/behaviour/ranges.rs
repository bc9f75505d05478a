//! Operations on many ranges of a region at once.

use std::ops::Range;
use std::sync::Arc;

use ringpost::limits::REGION_RANGES_MAX;
use ringpost::prelude::*;
use ringpost::region::{Access, Region, RegionError, RemoteRegion, WriteAndTellError};

use super::world::{World, end};
use crate::random::Dice;

const LEN: usize = 5_000;

/// Compares its cells with those in a message.
#[actor]
struct Auditor {
    cells: Arc<Region<u64>>,
    told: u64,
    wrong: u64,
}

#[message]
struct Wanted {
    cells: Vec<u64>,
}

#[handlers]
impl Auditor {
    #[handler]
    fn audit(&mut self, msg: Wanted) {
        self.told += 1;
        self.wrong += u64::from(self.cells.read(..) != Ok(msg.cells));
    }

    #[handler]
    fn share(&self) -> RemoteRegion<u64> {
        self.cells.share(Access::ALL).unwrap()
    }

    #[handler]
    fn verdict(&self) -> (u64, u64) {
        (self.told, self.wrong)
    }
}

/// Returns `count` disjoint ranges, in falling order.
fn ranges(count: usize, chance: &mut Dice) -> Vec<Range<usize>> {
    let mut cuts: Vec<usize> = (0..2 * count).map(|_| chance.below(LEN + 1)).collect();
    cuts.sort_unstable();
    cuts.chunks(2).rev().map(|cut| cut[0]..cut[1]).collect()
}

/// All ranges of a call are written before its one message is handled, and are read back as a model
/// has them. One range too many is an error that names the bound, and writes nothing.
// Promised in docs/SEMANTICS.md.
pub async fn many_ranges_are_written_before_one_message(world: &World) {
    let [alpha, beta] = world.pair().await;
    let cells = Arc::new(beta.region::<u64>(LEN).unwrap());
    let auditor = Auditor { cells: cells.clone(), told: 0, wrong: 0 };
    let there = beta.spawn("auditor", auditor).await.unwrap();
    let auditor = alpha.actor::<Auditor>("beta/auditor").await.unwrap();
    let shared = auditor.share().await.unwrap();
    let (mut model, mut chance) = (vec![0; LEN], Dice::new(7));
    let counts = [0, 1, 2, 17, 300, REGION_RANGES_MAX];
    for round in 0..36 {
        let ranges = ranges(counts[round % counts.len()], &mut chance);
        for range in &ranges {
            model[range.clone()].fill_with(|| chance.below(usize::MAX) as u64);
        }
        let parts: Vec<_> = ranges.iter().map(|it| (it.start, &model[it.clone()])).collect();
        let wanted = Wanted { cells: model.clone() };
        shared.write_many_and_tell(&parts, &auditor, wanted).await.unwrap();
        // Before the next round writes.
        assert_eq!(auditor.verdict().await, Ok((round as u64 + 1, 0)));
        let read = shared.read_many(&ranges).await.unwrap();
        assert!(ranges.iter().zip(&read).all(|(it, read)| model[it.clone()] == *read), "{round}");
    }
    let mut ranges = vec![0..1; REGION_RANGES_MAX];
    let parts: Vec<_> = ranges.iter().map(|_| (0, &model[1..2])).collect();
    let beyond = [&parts[..], &[(LEN, &[9])]].concat();
    let many = RegionError::TooManyRanges { ranges: REGION_RANGES_MAX + 1, max: REGION_RANGES_MAX };
    assert!(many.to_string().contains("1024"), "{many}");
    assert_eq!(shared.write_many(&beyond).await, Err(many.clone()));
    ranges.push(0..1);
    assert_eq!(shared.read_many(&ranges).await, Err(many));
    let wanted = Wanted { cells: Vec::new() };
    let told = shared.write_many_and_tell(&beyond[1..], &auditor, wanted).await.unwrap_err();
    assert!(matches!(told, WriteAndTellError::NotWritten { .. }), "{told}");
    assert!(cells.read(..).unwrap() == model, "nothing of a call that is refused is written");
    assert_eq!(auditor.verdict().await, Ok((36, 0)));
    drop(there);
    end([alpha, beta]).await;
}
