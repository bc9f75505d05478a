//! `bench`: measures Ringpost beside floors and peers. `benches/run` builds and starts it.
//!
//! The modules in reading order: `floors` and `ringpost` (the contestants, listed in
//! `contestants`), `select` (the selection of `--only`), `results`, `process`, `cost` and `rounds`
//! (measuring, `groups` in several processes), `report`, `svg` and `picture`.
#![deny(warnings)]

mod contestants;
mod cost;
mod floors;
mod groups;
mod picture;
mod process;
mod report;
mod results;
mod ringpost;
mod rounds;
mod select;
mod svg;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use ringpost_benches::Failure;
use ringpost_benches::contestant::Role;
use ringpost_benches::figure::{ACTORS, Work};
use ringpost_benches::program::{Program, Task};

use crate::results::Results;
use crate::rounds::Plan;

/// Exit status when something that should have worked did not.
const FAILED: u8 = 1;

/// Exit status when the command line is wrong; clap uses the same.
const USAGE: u8 = 2;

#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Measures, prints the results, and writes the files that were asked for
    Run(Run),
    /// Prints the programs that the selection of `--only` needs, one a line: roles of contestants,
    /// `cost` for figures that are counted and not timed, `c` for the figure of the C library
    Needs {
        #[arg(long, value_delimiter = ',')]
        only: Vec<String>,
    },
    /// Is one rank of a world that the environment describes
    Rank {
        /// The measurement
        measurement: String,
        /// Seconds for which it calls the operation
        #[arg(long)]
        seconds: f64,
    },
    /// Is COUNT nodes linked to the one at ADDRESS, until standard input ends
    Peers {
        /// The address of that node
        address: String,
        /// The number of the first node
        first: usize,
        /// Number of nodes
        count: usize,
    },
    #[command(flatten)]
    Task(Task),
}

#[derive(Debug, Args)]
struct Run {
    /// Contestants and figures, or groups of them
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Number of times that each is measured
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Number of actors of the figures of idle actors
    #[arg(long, default_value_t = ACTORS)]
    actors: usize,
    /// Writes the results to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Draws the results to this file
    #[arg(long)]
    svg: Option<PathBuf>,
    /// Measures nothing: takes the results that an earlier run wrote to this file
    #[arg(long)]
    from: Option<PathBuf>,
    /// Prints the rows of the README's table instead of the report
    #[arg(long)]
    readme: bool,
    /// The program that holds the peers
    #[arg(long)]
    peers: Option<PathBuf>,
}

fn main() -> ExitCode {
    let verb = Arguments::parse().verb;
    let done = match verb {
        Verb::Run(run) => start(run),
        Verb::Needs { only } => needs(&only),
        Verb::Rank { measurement, seconds } => {
            groups::be_rank(&measurement, seconds).map(|()| ExitCode::SUCCESS)
        }
        Verb::Peers { address, first, count } => {
            groups::be_peers(&address, first, count).map(|()| ExitCode::SUCCESS)
        }
        Verb::Task(task) => {
            let program = contestants::program(|run| {
                run();
                0
            });
            let program = Program { groups: groups::entries(), ..program };
            program.run(task).map(|()| ExitCode::SUCCESS)
        }
    };
    done.unwrap_or_else(|failure| {
        eprintln!("bench: {failure}");
        ExitCode::from(FAILED)
    })
}

/// Prints the programs that have to be built.
fn needs(only: &[String]) -> Result<ExitCode, Failure> {
    match select::select(only) {
        Ok(selection) => {
            for role in
                [Role::Floor, Role::Ours, Role::Sealed, Role::Spinning, Role::Peer, Role::Mpi]
            {
                if selection.contestants.iter().any(|contestant| {
                    let mut measurements = selection.measurements.iter();
                    contestant.role == role && measurements.any(|of| contestant.takes_part(of))
                }) {
                    println!("{}", format!("{role:?}").to_lowercase());
                }
            }
            if selection.measurements.iter().any(|measurement| !measurement.is_timed()) {
                println!("cost");
            }
            if selection.measurements.iter().any(|of| of.work == Work::CAllToAll) {
                println!("c");
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(failure) => Ok(misused(&failure.to_string())),
    }
}

fn misused(what: &str) -> ExitCode {
    eprintln!("bench: {what}");
    ExitCode::from(USAGE)
}

fn start(run: Run) -> Result<ExitCode, Failure> {
    let readme = run.readme;
    let results = match run.from {
        Some(path) => Results::read(&path)?,
        None => {
            let selection = match select::select(&run.only) {
                Ok(selection) if selection.measurements.is_empty() => {
                    return Ok(misused("--only: these contestants have no such figure"));
                }
                Ok(selection) => selection,
                Err(failure) => return Ok(misused(&failure.to_string())),
            };
            if !(run.seconds > 0.0 && run.seconds <= 3600.0) {
                return Ok(misused("--seconds is more than 0 and at most 3600"));
            }
            if run.rounds == 0 {
                return Ok(misused("--rounds is at least 1"));
            }
            if run.actors == 0 {
                return Ok(misused("--actors is at least 1"));
            }
            let Run { seconds, rounds, actors, peers, .. } = run;
            rounds::run(&Plan { selection, seconds, rounds, actors, peers })?
        }
    };
    if let Some(path) = run.json {
        results.write(&path)?;
    }
    if let Some(path) = run.svg {
        picture::draw(&results, &path)?;
    }
    // Last: it panics where nobody reads it, and then the files are written.
    print!("{}", if readme { report::readme(&results) } else { report::text(&results) });
    let failures = results.failures();
    failures.iter().for_each(|failure| eprintln!("bench: FAILED: {failure}"));
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}
