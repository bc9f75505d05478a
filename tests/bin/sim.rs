//! Runs scenarios on the simulated fabric: `sim`, `sim --seeds 0..1000`, `sim --storms --seed 7`,
//! `sim --clusters`, `sim --dialogues`, `sim --monitors`, `sim --mutants`.

use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

use ringpost_tests::sim::{
    Plan, Scenario, cluster, dialogue, isolation, monitors, run, run_all, storm,
};

const HELP: &str = "\
Scenarios on the simulated fabric.

usage: sim [--storms | --clusters | --dialogues | --monitors] [--seeds A..B | --seed S]
       sim --isolation
       sim --mutants [NAME...]

Without any option: 10,000 random scenarios, 1,000 dial storms, 1,000 clusters, 1,000 dialogues,
1,000 worlds of monitors, and the isolation of mailboxes.

  --seeds A..B   random scenarios: the seeds from A to B, B excluded
  --seed S       one seed: print its plan, its event log and its nodes' logs
  --storms       dial storms in place of random scenarios
  --clusters     nodes that find each other and move, in place of random scenarios
  --dialogues    asks between actors, many given up, in place of random scenarios
  --monitors     actors that watch each other, in place of random scenarios
  --isolation    a hundred live mailboxes beside a stuck one
  --mutants      switch on each planted bug in turn, or those of these names; each must be caught
                 (needs a build with the feature `mutants`)

exit status: 0 all well, 1 a seed failed or a bug was not caught, 2 usage";

const RANDOM: (&str, Scenario) = ("scenarios", run);
const STORMS: (&str, Scenario) = ("storms", storm);
const CLUSTERS: (&str, Scenario) = ("clusters", cluster);
const DIALOGUES: (&str, Scenario) = ("dialogues", dialogue);
const MONITORS: (&str, Scenario) = ("monitors", monitors);

const RANDOM_SEEDS: Range<u64> = 0..10_000;
const STORM_SEEDS: Range<u64> = 0..1_000;
const CLUSTER_SEEDS: Range<u64> = 0..1_000;
const DIALOGUE_SEEDS: Range<u64> = 0..1_000;
const MONITOR_SEEDS: Range<u64> = 0..1_000;
const ISOLATION_SEEDS: Range<u64> = 0..20;

/// With fewer seeds than this some states are not expected to be reached.
const SEEDS_FOR_ALL_STATES: u64 = 1_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (kind, rest) = match words.split_first() {
        Some((&"--storms", rest)) => (STORMS, rest),
        Some((&"--clusters", rest)) => (CLUSTERS, rest),
        Some((&"--dialogues", rest)) => (DIALOGUES, rest),
        Some((&"--monitors", rest)) => (MONITORS, rest),
        _ => (RANDOM, &words[..]),
    };
    let well = match rest {
        [] if kind == STORMS => run_seeds(STORMS, STORM_SEEDS),
        [] if kind == CLUSTERS => run_seeds(CLUSTERS, CLUSTER_SEEDS),
        [] if kind == DIALOGUES => run_seeds(DIALOGUES, DIALOGUE_SEEDS),
        [] if kind == MONITORS => run_seeds(MONITORS, MONITOR_SEEDS),
        [] => {
            let random = run_seeds(RANDOM, RANDOM_SEEDS);
            let storms = run_seeds(STORMS, STORM_SEEDS);
            let clusters = run_seeds(CLUSTERS, CLUSTER_SEEDS);
            let dialogues = run_seeds(DIALOGUES, DIALOGUE_SEEDS);
            let monitors = run_seeds(MONITORS, MONITOR_SEEDS);
            run_isolation() && monitors && dialogues && clusters && storms && random
        }
        ["--seed", seed] if let Ok(seed) = seed.parse() => run_one(kind, seed),
        ["--seeds", seeds] if let Some(seeds) = range(seeds) => run_seeds(kind, seeds),
        ["--isolation"] if kind == RANDOM => run_isolation(),
        ["--mutants", names @ ..] if kind == RANDOM => return mutants(names),
        ["--help" | "-h"] => {
            println!("{HELP}");
            true
        }
        _ => {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    };
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn range(text: &str) -> Option<Range<u64>> {
    let (from, to) = text.split_once("..")?;
    let range = from.parse().ok()?..to.parse().ok()?;
    (!range.is_empty()).then_some(range)
}

fn run_seeds((kind, scenario): (&str, Scenario), seeds: Range<u64>) -> bool {
    let (started, total) = (Instant::now(), seeds.end - seeds.start);
    let step = (total / 10).clamp(100, 10_000);
    let sum = run_all(scenario, seeds, |done, failed| {
        if done.is_multiple_of(step) {
            let seconds = started.elapsed().as_secs();
            eprintln!("{kind}: {done} of {total} seeds, {failed} failed, {seconds} s");
        }
    });
    let option = if kind == RANDOM.0 { String::new() } else { format!("--{kind} ") };
    for (seed, why) in &sum.failed {
        println!("seed {seed} failed: {why}\n  replay: tests/run sim {option}--seed {seed}");
    }
    let mut missing = 0;
    for (state, count) in sum.reached.rows() {
        println!("reached {state}: {count}");
        missing += u64::from(count == 0);
    }
    println!("run twice with the same log: {}", sum.twice);
    let lacking = missing > 0 && total >= SEEDS_FOR_ALL_STATES;
    if lacking {
        println!("{missing} interesting states were never reached");
    }
    let passed = total - sum.failed.len() as u64;
    let seconds = started.elapsed().as_secs_f64();
    println!("sim: {kind}: {passed} of {total} seeds passed in {seconds:.1} s");
    sum.failed.is_empty() && !lacking
}

fn run_isolation() -> bool {
    let outcome = isolation(ISOLATION_SEEDS);
    print!("{}", outcome.log);
    outcome.faults.is_empty()
}

fn run_one((kind, scenario): (&str, Scenario), seed: u64) -> bool {
    if kind == RANDOM.0 {
        println!("{:#?}", Plan::of(seed));
    }
    let outcome = scenario(seed);
    print!("{}{}", outcome.log, outcome.history);
    for (state, count) in outcome.reached.rows() {
        println!("reached {state}: {count}");
    }
    for fault in &outcome.faults {
        println!("{fault}");
    }
    println!("seed {seed}: {} faults", outcome.faults.len());
    outcome.faults.is_empty()
}

#[cfg(not(feature = "mutants"))]
fn mutants(_: &[&str]) -> ExitCode {
    eprintln!("this build has no planted bugs: use `tests/run sim --mutants`");
    ExitCode::from(2)
}

#[cfg(feature = "mutants")]
fn mutants(names: &[&str]) -> ExitCode {
    use ringpost_tests::planted::SHOWN_BY_NODES;
    use ringpost_tests::sim::first_failure;
    use ringpost_transport::mutants::{ALL, Mutant, plant};

    // The planted bugs cause panics on purpose; each bug is reported in one line instead.
    std::panic::set_hook(Box::new(|_| {}));
    // Seeds tried for each planted bug before it counts as not caught.
    let rounds: [(&str, Scenario, Range<u64>); 6] = [
        (RANDOM.0, RANDOM.1, 0..4_000),
        (STORMS.0, STORMS.1, 0..100),
        (CLUSTERS.0, CLUSTERS.1, 0..200),
        (DIALOGUES.0, DIALOGUES.1, 0..100),
        (MONITORS.0, MONITORS.1, 0..100),
        ("isolation", |_| isolation(ISOLATION_SEEDS), 0..1),
    ];
    let elsewhere =
        |bug: &Mutant| SHOWN_BY_NODES.into_iter().any(|(name, _)| name == format!("{bug:?}"));
    let is_meant = |bug: &Mutant| names.is_empty() || names.contains(&&*format!("{bug:?}"));
    let (others, here): (Vec<_>, Vec<_>) = ALL.into_iter().filter(is_meant).partition(elsewhere);
    let mut caught = 0;
    for bug in here.iter().copied() {
        plant(Some(bug));
        // A few seeds of each kind first: most bugs show in one kind only, and there soon.
        let first =
            rounds.iter().map(|(kind, scenario, seeds)| (kind, scenario, 0..seeds.end / 20));
        let all = rounds.iter().map(|(kind, scenario, seeds)| (kind, scenario, seeds.clone()));
        let found = first
            .chain(all)
            .find_map(|(kind, scenario, seeds)| Some((kind, first_failure(*scenario, seeds)?)));
        plant(None);
        match found {
            Some((kind, (seed, why))) => {
                caught += 1;
                let first = why.lines().next().unwrap_or_default();
                println!("{bug:?}: caught by seed {seed} of the {kind}: {first}");
            }
            None => println!("{bug:?}: not caught"),
        }
    }
    println!("mutants: {caught} of {} caught; {} are for tests of nodes", here.len(), others.len());
    if caught == here.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
