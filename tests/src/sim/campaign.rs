//! Many seeds of one kind of scenario, on all cores.

use std::ops::Range;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use super::reached::Reached;
use super::scenario::Outcome;

/// One seed in this many is run twice, and must give the same log.
const TWICE_ONE_IN: u64 = 8;

/// A kind of scenario.
pub type Scenario = fn(u64) -> Outcome;

/// The results of many seeds.
#[derive(Debug, Default)]
pub struct Sum {
    /// The seeds that failed, and why; as they came.
    pub failed: Vec<(u64, String)>,
    /// The states that the other seeds reached.
    pub reached: Reached,
    /// Seeds that were run twice, and gave the same log.
    pub twice: u64,
}

/// Runs one seed. A scenario that panicked has failed, too: that is how a stall shows.
///
/// # Errors
/// The first broken rule and how many were broken in all, or the message of a panic.
pub fn attempt(scenario: Scenario, seed: u64) -> Result<Outcome, String> {
    let outcome = catch_unwind(|| scenario(seed)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
            .unwrap_or_else(|| "panicked".into())
    })?;
    match outcome.faults.first() {
        None => Ok(outcome),
        Some(first) => Err(format!("{first} ({} in all)", outcome.faults.len())),
    }
}

/// Runs these seeds; `progress` is told after each how many are done and how many failed.
pub fn run_all(scenario: Scenario, seeds: Range<u64>, progress: impl Fn(u64, u64)) -> Sum {
    let (mut sum, mut done) = (Sum::default(), 0);
    each(
        seeds,
        |seed| (seed, judge(scenario, seed)),
        |(seed, result)| {
            done += 1;
            match result {
                Ok((reached, twice)) => {
                    sum.reached.add(&reached);
                    sum.twice += u64::from(twice);
                }
                Err(why) => sum.failed.push((seed, why)),
            }
            progress(done, sum.failed.len() as u64);
            true
        },
    );
    sum
}

/// Returns a seed that fails, and why; tries the seeds until one does.
pub fn first_failure(scenario: Scenario, seeds: Range<u64>) -> Option<(u64, String)> {
    let mut found = None;
    each(
        seeds,
        |seed| (seed, attempt(scenario, seed).err()),
        |(seed, why)| {
            found = found.take().or(why.map(|why| (seed, why)));
            found.is_none()
        },
    );
    found
}

/// Runs a seed; returns the states that it reached, and whether it was run twice.
fn judge(scenario: Scenario, seed: u64) -> Result<(Reached, bool), String> {
    let outcome = attempt(scenario, seed)?;
    let twice = seed.is_multiple_of(TWICE_ONE_IN);
    if twice && attempt(scenario, seed)?.log != outcome.log {
        return Err("it is not repeatable: two runs, two logs".into());
    }
    Ok((outcome.reached, twice))
}

/// Runs `work` on the seeds on all cores; `take` gets each result, and ends the run with false.
fn each<T: Send>(
    seeds: Range<u64>,
    work: impl Fn(u64) -> T + Sync,
    mut take: impl FnMut(T) -> bool,
) {
    let (next, stop) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let (results, came) = mpsc::channel();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            let (results, next, stop, work) = (results.clone(), &next, &stop, &work);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || results.send(work(seed)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(results);
        for result in came {
            if !take(result) {
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
}
