//! Planted bugs of the runtime: each fails its test, which passes without.

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringpost::Mutant;

/// The environment variable that names the bug which a process switches on.
const PLANTED: &str = "RINGPOST_PLANTED";

const TREES: &str = "trees::trees_of_supervisors_do_what_otp_does";
const GROUPS: &str = "models::groups::members_of_a_group_are_told_what_the_model_says";
const POOLS: &str = "models::pools::workers_of_a_pool_are_sent_what_the_model_says";
const GRAPHS: &str = "chains::graphs::asks_of_random_graphs_close_the_cycles_that_the_script_says";
const SPAWNS: &str = "models::spawns::spawns_on_other_nodes_give_one_actor_or_say_why_not";

/// How many trees reach all that a tree is to reach.
const SEEDS: &str = "3000";

/// How long a test may take; a test that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

const SHOWN: [(Mutant, &str); 20] = [
    (Mutant::NoRest, TREES),
    (Mutant::UncountedRestarts, TREES),
    (Mutant::SilentChild, TREES),
    (Mutant::RevivedAfterStop, TREES),
    (Mutant::SurvivingState, TREES),
    (Mutant::OldestFirst, TREES),
    (Mutant::RestBeforeOne, TREES),
    (Mutant::EarlyDown, "watching::a_watcher_is_told_of_each_end_once_after_the_last_message"),
    (
        Mutant::OldTimer,
        "registered::timers_tell_once_or_again_and_nothing_when_they_are_taken_back",
    ),
    (Mutant::SurvivingLink, "linking::a_link_ends_with_the_incarnation_of_either_actor"),
    (Mutant::PassedLane, "broadcasting::what_waits_for_a_member_is_not_passed_by_a_later_message"),
    (Mutant::KeptMember, GROUPS),
    (Mutant::ArchivedEach, GROUPS),
    (Mutant::StrayKey, POOLS),
    (Mutant::ForgottenAsker, GRAPHS),
    (Mutant::ChainLeftBehind, GRAPHS),
    (Mutant::StoppedWorkers, POOLS),
    (Mutant::HeldForEver, SPAWNS),
    (Mutant::UncountedSpawns, SPAWNS),
    (Mutant::KeptWatch, SPAWNS),
];

/// Runs one test of this program in a process of its own, with this bug switched on. Returns true
/// if it passes.
fn passes(test: &str, bug: Option<Mutant>) -> bool {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", test]).env("RINGPOST_TREES", SEEDS).env_remove(PLANTED);
    if let Some(bug) = bug {
        program.env(PLANTED, format!("{bug:?}"));
    }
    let mut runs = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    loop {
        if let Some(status) = runs.try_wait().unwrap() {
            return status.success();
        }
        if start.elapsed() > PATIENCE {
            runs.kill().unwrap();
            runs.wait().unwrap();
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn each_planted_bug_fails_its_test() {
    let (mut without, mut missed) = (HashMap::new(), Vec::new());
    for (bug, test) in SHOWN {
        let passes_without = *without.entry(test).or_insert_with(|| passes(test, None));
        let is_caught = passes_without && !passes(test, Some(bug));
        println!("{bug:?}: {test}: {}", if is_caught { "caught" } else { "NOT CAUGHT" });
        if !is_caught {
            missed.push(bug);
        }
    }
    let all: Vec<Mutant> = SHOWN.iter().map(|(bug, _)| *bug).collect();
    assert_eq!(all, Mutant::ALL, "each has a test");
    println!(
        "mutants: {} of {} caught by tests of the runtime",
        all.len() - missed.len(),
        all.len()
    );
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
