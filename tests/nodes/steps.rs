//! `kill -9` at every step of the protocol: the surviving nodes go on, calls that wait for the dead
//! process end, and its name works again.

mod plan;
mod stage;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::time::Instant;

use futures::future::join_all;
use ringpost_transport::steps::{ALL, Step};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::correspondent::{Archive, Correspondent, SECRET, Start, end_both};
use crate::process::{log, within};
use plan::{Run, Side, runs};
use stage::Stage;

/// Runs at once. Most of a run is waiting, three seconds of it for a node to be given up.
const AT_ONCE: usize = 48;

// Promised in docs/SEMANTICS.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed_at_any_step_of_the_protocol_hurts_nobody_else() {
    log();
    let started = Instant::now();
    // Only steps whose names begin with this, if it is set.
    let only = std::env::var("RINGPOST_STEPS").unwrap_or_default();
    let wanted = |run: &Run| format!("{:?}", run.step).starts_with(&only);
    let runs: Vec<Run> = runs().into_iter().filter(wanted).collect();
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = JoinSet::new();
    for (number, run) in runs.iter().copied().enumerate() {
        let turns = turns.clone();
        tasks.spawn(async move {
            let _turn = turns.acquire().await.unwrap();
            (number, one(run, format!("127.0.1.{}", number + 1)).await)
        });
    }
    // A run that fails says why, and the other runs are still reported.
    let mut lines = BTreeMap::new();
    while let Some(ended) = tasks.join_next().await {
        lines.extend(ended.ok());
    }
    lines.values().for_each(|line| println!("{line}"));
    let steps: BTreeSet<Step> = runs.iter().map(|run| run.step).collect();
    let (count, seconds) = (runs.len(), started.elapsed().as_secs());
    println!("{count} processes were killed at {} steps, in {seconds} s", steps.len());
    assert_eq!(lines.len(), count, "of so many processes none came to harm but the one killed");
    assert!(!only.is_empty() || steps.len() == ALL.len(), "a step has no run");
}

/// Kills one process at a step, and reports the outcome for the others.
async fn one(run: Run, host: String) -> String {
    let Run { step, nth, side, rank, work } = run;
    let role = format!("{side:?} {rank:?} {work:?}").to_lowercase();
    let what = format!("step {step:?} {role}");
    let mut stage = Stage::open(run, host).await;
    let status = tokio::time::timeout(crate::process::PATIENCE, stage.mortal.child.wait()).await;
    let status = status.unwrap_or_else(|_| panic!("{what}: it does not come there")).unwrap();
    assert_eq!(status.signal(), Some(9), "{what}: it did not come there, time {nth}: {status}");
    // Its name has not been taken again yet: all asks end with an error.
    let asks = stage.asks_end(&what).await;
    let answers = stage.go_on().await;
    let mortal = stage.restart().await;
    stage.works_again(&what).await;
    let fates = within(stage.fates()).await;
    mortal.end().await;
    stage.close().await;
    format!(
        "{what}: survivors went on ({answers} answers), {asks} asks and {fates} tells ended, \
        restarted"
    )
}

/// The steps of a message that is lent, from the LEND to the FETCHED, on either side.
const LENDING: [Step; 7] = [
    Step::LendSent,
    Step::LendReceived,
    Step::FetchPosted,
    Step::ReadExecuted,
    Step::Fetched,
    Step::FetchedSent,
    Step::FetchedReceived,
];
/// Which occurrence of the step kills a node: others were lent and handled before.
const TIME: u32 = 12;
/// Messages that each node handles after a death, more than were on their way.
const SOME: u64 = 600;

/// Lent tells and asks have the same order and the same fates as all others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_of_nodes_that_are_killed_at_steps_of_lending_break_no_rule() {
    join_all(LENDING.map(killed_while_it_lends)).await;
}

/// Two nodes lend each other their large tells and asks, until one dies at a step.
async fn killed_while_it_lends(step: Step) {
    let archive = Archive::new(&format!("lending-{step:?}"));
    let stop = format!("RINGPOST_STOP_AT={step:?}:{TIME}");
    // From this size on, messages that are larger than a frame are lent.
    let lend = ["--lend", "10000", "--to"];
    let start = async |name, run, options: &[&str], through: &[&str]| {
        let (options, secrets) = ([&lend, options].concat(), (SECRET, None));
        let listen = "127.0.0.1:0";
        let start = Start { name, run, listen, options: &options, through, secrets };
        Correspondent::start(&archive, start).await
    };
    let mut beta = start("beta", 1, &["alpha"], &[]).await;
    let address = beta.address.clone();
    let options = ["beta", "--seed", &address];
    start("alpha", 1, &options, &["env", &stop]).await.dies().await;
    let mut again = start("alpha", 2, &options, &[]).await;
    again.handles(SOME).await;
    let handled = beta.handled();
    beta.handles(handled + SOME).await;
    end_both(again, beta).await;
    let verdict = archive.judge();
    assert_eq!((verdict.logs, verdict.killed), (3, 1), "{step:?}");
}

impl Run {
    fn dials(&self) -> bool {
        self.side == Side::Dialler
    }
}
