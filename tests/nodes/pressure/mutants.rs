//! The planted bugs that no random scenario shows: each fails its test here, which passes without.

use std::process::{Command, Output};

use ringpost_tests::planted::{PLANTED, SHOWN_BY_NODES};
use ringpost_transport::mutants::ALL;

/// Runs one test of this program in a process of its own, with this bug switched on.
fn run(test: &str, bug: Option<&str>) -> Output {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", test, "--nocapture"]).env_remove(PLANTED);
    if let Some(bug) = bug {
        program.env(PLANTED, bug);
    }
    program.output().unwrap()
}

#[test]
fn each_planted_bug_fails_its_test() {
    let mut missed = Vec::new();
    for (bug, test) in SHOWN_BY_NODES {
        let without = run(test, None);
        let said = String::from_utf8_lossy(&without.stdout);
        // Of another name no test would run, and that passes.
        let passes = without.status.success() && said.contains("1 passed");
        let with = run(test, Some(bug));
        let said = String::from_utf8_lossy(&with.stderr);
        let lines: Vec<&str> = said.lines().collect();
        let at = lines.iter().position(|line| line.contains("panicked at"));
        let why = at.and_then(|at| lines.get(at + 1)).copied().unwrap_or("it passed");
        let problem = match ALL.iter().any(|known| format!("{known:?}") == bug) {
            false => "THERE IS NO SUCH BUG; ",
            true if !passes => "FAILS WITHOUT IT, TOO; ",
            true => "",
        };
        println!("{bug}: {test}: {problem}{why}");
        if !problem.is_empty() || with.status.success() {
            missed.push(bug);
        }
    }
    let (all, caught) = (SHOWN_BY_NODES.len(), SHOWN_BY_NODES.len() - missed.len());
    println!("mutants: {caught} of {all} caught by tests of nodes");
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
