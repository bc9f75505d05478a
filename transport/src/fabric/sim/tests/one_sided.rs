//! One-sided access by chance, with faults, judged by a model memory.

use std::sync::Arc;

use super::super::super::Status;
use super::super::super::conformance::OneSidedPair;
use super::super::super::one_sided::{Access, Kind, Outcome};
use super::*;
use crate::memory::Words;

/// Seeds, unless `RINGPOST_TEST_CASES` says how many.
const SEEDS: u64 = 300;
const BYTES: usize = 64;
/// Operations of each side.
const OPERATIONS: usize = 40;

/// How often the cases were met that the seeds are to bring.
#[derive(Debug, Default)]
struct Met {
    whole_runs: u32,
    cut_runs: u32,
    /// Operations without a known end that were executed, and that were not.
    executed: u32,
    not_executed: u32,
    notices: u32,
    refusals: u32,
}

/// An operation as the model does it.
#[derive(Debug, Clone)]
struct Planned {
    kind: Kind,
    at: u64,
    bytes: Vec<u8>,
}

impl Planned {
    fn by_chance(chance: &mut fastrand::Rng) -> Self {
        let word = 8 * chance.u64(..BYTES as u64 / 8);
        let (at, length) = (chance.u64(..BYTES as u64), chance.usize(..24));
        let length = length.min(BYTES - at as usize);
        let bytes = (0..length).map(|_| chance.u8(..)).collect();
        let some = chance.u64(..3);
        match chance.u8(..6) {
            0 | 1 => Planned { kind: Kind::Read, at, bytes },
            2 => Planned { kind: Kind::Write, at, bytes },
            3 => Planned { kind: Kind::WriteAndNotify(chance.u32(..)), at, bytes },
            4 => Planned { kind: Kind::FetchAdd(some), at: word, bytes: vec![0; 8] },
            _ => {
                let kind = Kind::CompareAndSwap { expected: some, new: chance.u64(..3) };
                Planned { kind, at: word, bytes: vec![0; 8] }
            }
        }
    }

    /// Does it to the model, and returns what its slot has then.
    fn apply(&self, model: &mut [u8]) -> Vec<u8> {
        let place = &mut model[self.at as usize..][..self.bytes.len()];
        let old = place.to_vec();
        let word = || u64::from_ne_bytes(old[..].try_into().unwrap());
        match self.kind {
            Kind::Read => return old,
            Kind::Write | Kind::WriteAndNotify(_) => {
                place.copy_from_slice(&self.bytes);
                return self.bytes.clone();
            }
            Kind::FetchAdd(more) => place.copy_from_slice(&word().wrapping_add(more).to_ne_bytes()),
            Kind::CompareAndSwap { expected, new } if word() == expected => {
                place.copy_from_slice(&new.to_ne_bytes());
            }
            Kind::CompareAndSwap { .. } => {}
        }
        old
    }
}

/// Each side has memory of its own, on which the other one operates: so there is one order.
#[test]
fn operations_do_what_a_model_does_whatever_fails() {
    let seeds = crate::cases(SEEDS);
    let mut met = Met::default();
    for seed in 0..seeds {
        run(seed, |world| by_chance(world, seed, &mut met));
    }
    println!("{met:?} in {seeds} seeds");
    if seeds < SEEDS {
        return;
    }
    let Met { whole_runs, cut_runs, executed, not_executed, notices, refusals } = met;
    for count in [whole_runs, cut_runs, executed, not_executed, notices, refusals] {
        assert!(count > 10, "{met:?}");
    }
}

async fn by_chance(world: World, seed: u64, met: &mut Met) {
    let chance = &mut fastrand::Rng::with_seed(seed);
    let mut pair = OneSidedPair::new(&world).await;
    let memories = [0, 1].map(|_| Arc::new(Words::zeroed(BYTES).unwrap()));
    let grants = [
        pair.b.one_sided.grant(&memories[0], 0, BYTES as u64, Access::ALL).finish().unwrap(),
        pair.a.one_sided.grant(&memories[1], 0, BYTES as u64, Access::ALL).finish().unwrap(),
    ];
    if chance.bool() {
        let verdicts = [
            Verdict::Kill,
            Verdict::Drop,
            Verdict::Unanswered,
            Verdict::Fail(Status::RetryExceeded),
        ];
        let (verdict, at) = (verdicts[chance.usize(..4)], chance.u64(1..60));
        world.add_rule(Rule::new(verdict).only(at..at + 1));
    }
    let plans = [0, 1].map(|_| -> Vec<_> {
        let mut plan: Vec<_> = (0..OPERATIONS).map(|_| Planned::by_chance(chance)).collect();
        if chance.u8(..8) == 0 {
            let beyond = Planned { kind: Kind::Write, at: BYTES as u64, bytes: vec![1] };
            plan.insert(chance.usize(..OPERATIONS), beyond);
        }
        plan
    });
    let mut posted = [0; 2];
    loop {
        for (side, end) in [&mut pair.a, &mut pair.b].into_iter().enumerate() {
            // As many as the queue holds, and the slots.
            while posted[side] < plans[side].len() && posted[side] - end.done() < 12 {
                let Planned { kind, at, bytes } = &plans[side][posted[side]];
                end.post(*kind, grants[side].key(), *at, bytes);
                posted[side] += 1;
            }
        }
        let before = [pair.a.done(), pair.b.done()];
        if before == [plans[0].len(), plans[1].len()] {
            break;
        }
        let progress = pair.until(|a, b| [a.done(), b.done()] != before);
        if tokio::time::timeout(Duration::from_secs(60), progress).await.is_err() {
            // As the owner of both does when the link that they stand beside has ended.
            pair.a.one_sided.close();
            pair.b.one_sided.close();
        }
    }
    for (side, end) in [&pair.a, &pair.b].into_iter().enumerate() {
        let found = {
            let mut found = vec![0; BYTES];
            memories[side].read(0, &mut found).unwrap();
            found
        };
        judge(&plans[side], end.outcomes(), &found, met);
    }
    met.notices += (pair.a.notices().len() + pair.b.notices().len()) as u32;
}

/// PV-14, PV-18, PV-19: successful operations did the same as in the model. Of the others, the
/// first few were executed, each once and in order, and the memory shows that.
fn judge(plan: &[Planned], outcomes: &[Outcome], found: &[u8], met: &mut Met) {
    let mut model = vec![0; BYTES];
    let mut done = outcomes.iter().filter_map(|outcome| match outcome {
        Outcome::Done { slot, status } => Some((slot, *status)),
        _ => None,
    });
    let mut unknown = plan.iter();
    for planned in plan {
        match done.next().expect("each has an outcome") {
            (slot, Status::Success) => {
                let bytes = planned.bytes.len();
                let expected = planned.apply(&mut model);
                assert_eq!(slot[..bytes], expected[..], "{planned:?}");
                unknown.next();
            }
            (_, Status::RemoteAccess) => {
                met.refusals += 1;
                // None of those after it was executed.
                unknown = [].iter();
                break;
            }
            _ => break,
        }
    }
    assert!(done.all(|(_, status)| status != Status::Success), "an error is the end");
    match unknown.len() {
        0 => met.whole_runs += 1,
        _ => met.cut_runs += 1,
    }
    let mut unknown = unknown.take_while(|planned| (planned.at as usize) < BYTES);
    while model != found {
        let next =
            unknown.next().unwrap_or_else(|| panic!("no order of operations gives {found:?}"));
        next.apply(&mut model);
        met.executed += 1;
    }
    met.not_executed += unknown.count() as u32;
}
