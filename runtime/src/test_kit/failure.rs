//! Failures of runs, for people and for tests that look for a failing seed.

use std::fmt;
use std::time::Duration;

use ringpost_transport::fabric::sim::is_of_frame;

/// The environment variable with the only seed to run.
pub(super) const SEED_VARIABLE: &str = "RINGPOST_TEST_SEED";
/// The environment variable with the number of seeds for each check.
pub(super) const CASES_VARIABLE: &str = "RINGPOST_TEST_CASES";
/// Number of log lines, without frames, that a failure shows.
const TAIL_LINES: usize = 40;
/// Number of last log lines, including frames, that a failure shows after that.
const LAST_LINES: usize = 8;

/// A run that failed. `Display` and `Debug` write its seed, its cause, the waits of actors, the end
/// of the log (links, faults and the test's own lines, and a few of the last frames), and the
/// command that replays it. Two runs of one body with one seed fail in the same way.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure {
    seed: u64,
    cause: FailureCause,
    log: String,
    waits: Vec<String>,
}

/// The reason why a run failed.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FailureCause {
    /// The body panicked, for example in an assertion.
    #[error("the body panicked: {0}")]
    Panicked(String),
    /// The body waits, and nothing can happen any more. (While a node lives, something can happen:
    /// then the body exceeds its limit instead.)
    #[error("the body waits, and nothing can happen any more")]
    Deadlock,
    /// The body exceeded its limit of virtual time.
    #[error("the body has not ended within its limit of {0:?} of virtual time")]
    OverLimit(Duration),
}

ringpost_transport::debug_by_display!(Failure, FailureCause);

impl Failure {
    pub(super) fn new(seed: u64, cause: FailureCause, log: String, waits: Vec<String>) -> Self {
        Failure { seed, cause, log, waits }
    }

    /// Returns the seed of the run.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the reason why it failed.
    pub fn cause(&self) -> &FailureCause {
        &self.cause
    }

    /// Returns the whole log of the run: a line per event, after its virtual time in nanoseconds.
    pub fn log(&self) -> &str {
        &self.log
    }

    /// Returns a line for each actor that waited or had messages in its mailbox.
    pub fn waits(&self) -> &[String] {
        &self.waits
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}", self.seed, self.cause)?;
        if !self.waits.is_empty() {
            writeln!(f, "Actors with work when it failed:")?;
            self.waits.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        }
        let (frames, others): (Vec<&str>, Vec<&str>) =
            self.log.lines().partition(|line| is_of_frame(line));
        writeln!(f, "The end of the log without frames, in nanoseconds of virtual time:")?;
        write_last(f, &others, TAIL_LINES)?;
        if !frames.is_empty() {
            let all: Vec<&str> = self.log.lines().collect();
            writeln!(f, "Its last lines, frames included:")?;
            write_last(f, &all, LAST_LINES)?;
        }
        // The test harness names each thread after its test.
        let test = std::thread::current().name().filter(|name| *name != "main").map(str::to_owned);
        let test = test.unwrap_or_else(|| "NAME_OF_THE_TEST".into());
        write!(f, "To replay it with the whole log:\n  {SEED_VARIABLE}={} cargo test ", self.seed)?;
        write!(f, "{test} -- --exact --nocapture")
    }
}

/// Writes the last lines, at most `most` of them.
fn write_last(f: &mut fmt::Formatter<'_>, lines: &[&str], most: usize) -> fmt::Result {
    let last = &lines[lines.len().saturating_sub(most)..];
    last.iter().try_for_each(|line| writeln!(f, "  {line}"))
}

impl std::error::Error for Failure {}
