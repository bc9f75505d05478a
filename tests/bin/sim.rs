//! Runs random scenarios on the simulated fabric: `sim --seeds 0..1000`, `sim --seed 7`, `sim
//! --mutants`.

use std::ops::Range;
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::Instant;

use ringpost_tests::sim::{Outcome, Plan, Reached, run};

const HELP: &str = "\
Random scenarios on the simulated fabric.

usage: sim [--seeds A..B | --seed S | --mutants]

  --seeds A..B   run the seeds from A to B, B excluded (default 0..1000)
  --seed S       run one seed and print its plan, its event log and its nodes' logs
  --mutants      switch on each planted bug in turn; each must be caught
                 (needs a build with the feature `mutants`)

exit status: 0 all well, 1 a seed failed or a bug was not caught, 2 usage";

/// One seed in this many is run twice, and must give the same log.
const TWICE_ONE_IN: u64 = 8;

enum Command {
    Seeds(Range<u64>),
    Seed(u64),
    Mutants,
    Help,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match parse(&arguments) {
        Some(Command::Seeds(seeds)) => run_seeds(seeds),
        Some(Command::Seed(seed)) => run_one(seed),
        Some(Command::Mutants) => mutants(),
        Some(Command::Help) => {
            println!("{HELP}");
            ExitCode::SUCCESS
        }
        None => {
            eprintln!("{HELP}");
            ExitCode::from(2)
        }
    }
}

fn parse(arguments: &[String]) -> Option<Command> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] => Some(Command::Seeds(0..1000)),
        ["--help" | "-h"] => Some(Command::Help),
        ["--mutants"] => Some(Command::Mutants),
        ["--seed", seed] => Some(Command::Seed(seed.parse().ok()?)),
        ["--seeds", seeds] => {
            let (from, to) = seeds.split_once("..")?;
            let range = from.parse().ok()?..to.parse().ok()?;
            (!range.is_empty()).then_some(Command::Seeds(range))
        }
        _ => None,
    }
}

/// A scenario that panicked has failed too: that is how a stall shows.
fn attempt(seed: u64) -> Result<Outcome, String> {
    let outcome = catch_unwind(|| run(seed)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
            .unwrap_or_else(|| "panicked".into())
    })?;
    match outcome.faults.first() {
        None => Ok(outcome),
        Some(first) => Err(format!("{first} ({} in all)", outcome.faults.len())),
    }
}

fn run_seeds(seeds: Range<u64>) -> ExitCode {
    let started = Instant::now();
    let (mut reached, mut failed, mut twice) = (Reached::default(), 0u64, 0u64);
    let total = seeds.end - seeds.start;
    for (done, seed) in seeds.enumerate() {
        match attempt(seed) {
            Ok(outcome) => {
                reached.add(&outcome.reached);
                if seed.is_multiple_of(TWICE_ONE_IN) {
                    twice += 1;
                    if run(seed).log != outcome.log {
                        failed += 1;
                        println!("seed {seed} is not repeatable: two runs, two logs");
                    }
                }
            }
            Err(why) => {
                failed += 1;
                println!("seed {seed} failed: {why}\n  replay: tests/run sim --seed {seed}");
            }
        }
        if (done + 1).is_multiple_of(100) {
            eprintln!("{} of {total} seeds, {failed} failed", done + 1);
        }
    }
    let mut missing = 0;
    for (what, count) in reached.rows() {
        println!("reached {what}: {count}");
        missing += u64::from(count == 0);
    }
    println!("rnr: {}", reached.rnr);
    println!("run twice with the same log: {twice}");
    if missing > 0 && total >= 100 {
        println!("{missing} interesting states were never reached");
        failed += missing;
    }
    println!(
        "sim: {} of {total} seeds passed in {:.1} s",
        total.saturating_sub(failed),
        started.elapsed().as_secs_f64()
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_one(seed: u64) -> ExitCode {
    println!("{:#?}", Plan::of(seed));
    let outcome = run(seed);
    print!("{}{}", outcome.log, outcome.history);
    for (what, count) in outcome.reached.rows() {
        println!("reached {what}: {count}");
    }
    for fault in &outcome.faults {
        println!("{fault}");
    }
    println!("seed {seed}: {} faults", outcome.faults.len());
    if outcome.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(not(feature = "mutants"))]
fn mutants() -> ExitCode {
    eprintln!("this build has no planted bugs: use `tests/run sim --mutants`");
    ExitCode::from(2)
}

/// Seeds tried for each planted bug before it counts as not caught.
#[cfg(feature = "mutants")]
const SEEDS_PER_MUTANT: u64 = 400;

#[cfg(feature = "mutants")]
fn mutants() -> ExitCode {
    use ringpost_transport::mutants::{ALL, plant};

    // What the bugs make panic is expected, and told in one line.
    std::panic::set_hook(Box::new(|_| {}));
    let mut caught = 0;
    for bug in ALL {
        plant(Some(bug));
        let found = (0..SEEDS_PER_MUTANT).find_map(|seed| Some((seed, attempt(seed).err()?)));
        plant(None);
        match found {
            Some((seed, why)) => {
                caught += 1;
                let first = why.lines().next().unwrap_or_default();
                println!("{bug:?}: caught by seed {seed}, after {} seeds: {first}", seed + 1);
            }
            None => println!("{bug:?}: not caught in {SEEDS_PER_MUTANT} seeds"),
        }
    }
    println!("mutants: {caught} of {} caught", ALL.len());
    if caught == ALL.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
