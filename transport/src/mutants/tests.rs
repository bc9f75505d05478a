//! Planted bugs of one-sided access: each fails its test, which passes without.

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::switch::{Mutant, ONE_SIDED, PLANTED_NAME};

const SHOWN: [(Mutant, &str); 12] = [
    (
        Mutant::FenceOfAnyPair,
        "mesh::tests::sharing_in_stripes::memory_is_what_its_writers_say_however_many_wait",
    ),
    (
        Mutant::UnfencedWrite,
        "mesh::tests::sharing_by_device::a_write_is_in_the_memory_when_it_has_returned",
    ),
    (Mutant::KeyOfEarlierGrant, "reach::tests::nothing_is_posted_by_the_key_of_an_earlier_grant"),
    (Mutant::EarlyRevoked, "reach::tests::model::links_by_two_devices_do_what_a_model_says"),
    (Mutant::KeptAfterEnd, "reach::tests::patience::a_stalled_peer_does_not_keep_what_has_ended"),
    (
        Mutant::SilentTakeBack,
        "reach::tests::patience::who_asked_again_is_answered_when_the_share_is_taken_back",
    ),
    (Mutant::NoTurn, "mesh::tests::sharing_by_device::executors_take_turns_at_random"),
    (Mutant::EarlyUnknown, "reach::tests::patience::an_end_is_unknown_when_the_queue_pair_is_gone"),
    (
        Mutant::StalledCounts,
        "reach::tests::patience::a_peer_that_says_that_its_driver_does_not_run_is_waited_for",
    ),
    (Mutant::ViewsUnbounded, "reach::tests::views_have_half_of_what_lands"),
    (
        Mutant::ForgottenAsk,
        "reach::tests::slow::shares::a_turn_waits_for_a_device_that_registers_another_share",
    ),
    (Mutant::NoPlace, "reach::tests::model::links_by_two_devices_do_what_a_model_says"),
];

/// How long a test may take; a test that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs one test of this program in a process of its own, with this bug switched on. Returns true
/// if it passes.
fn passes(test: &str, bug: Option<Mutant>) -> bool {
    let mut program = Command::new(std::env::current_exe().expect("it has a path"));
    program.args(["--exact", test]).env_remove(PLANTED_NAME);
    if let Some(bug) = bug {
        program.env(PLANTED_NAME, format!("{bug:?}"));
    }
    let mut runs = program.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it runs");
    let start = Instant::now();
    let is_over = loop {
        if runs.try_wait().expect("it is a child").is_some() {
            break true;
        }
        if start.elapsed() > PATIENCE {
            runs.kill().expect("it is a child");
            break false;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let output = runs.wait_with_output().expect("it is a child");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("running 1 test"), "there is no test {test}: {said}");
    is_over && output.status.success()
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
    assert_eq!(SHOWN.map(|(bug, _)| bug), ONE_SIDED, "each has a test");
    let caught = ONE_SIDED.len() - missed.len();
    println!("mutants: {caught} of {} caught by tests of one-sided access", ONE_SIDED.len());
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
