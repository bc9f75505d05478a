//! Counts the words of text files on several nodes, each a process of its own.
//!
//! `cargo run --release --example wordcount -- --verify` starts three node processes, sends them
//! the sources that cargo keeps on this machine, and ends with
//! `verified: 11370126 words, 98479946 bytes` (the numbers depend on the machine).
//!
//! Where to read on: `driver` runs a count, `role` is a node, `mapper` and `reducer` are its
//! actors.
#![deny(warnings)]

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::Runtime;
use tokio::task::{self, JoinError};
use tracing_subscriber::EnvFilter;

use crate::cli::Args;
use crate::driver::DriveError;
use crate::files::{Listing, PathError};
use crate::role::RoleError;
use crate::secret::{Secret, SecretError};
use crate::signals::Signals;
use crate::verify::verify;

mod cli;
mod count;
mod crew;
mod desk;
mod driver;
mod feed;
mod files;
mod mapper;
mod print;
mod progress;
mod reducer;
mod report;
mod role;
mod secret;
mod signals;
mod steward;
mod tally;
mod text;
mod verify;

/// Exit status: the second count differs.
const DIFFERENT: u8 = 1;

/// Exit status: the command line, a path or the secret is wrong. Also what clap uses.
const USAGE: u8 = 2;

/// Exit status: something of the input is not in the result.
const INCOMPLETE: u8 = 3;

/// The log filter unless RUST_LOG is set; a node then logs why it does not reach a seed.
const LOG: &str = "warn,ringpost_transport::mesh::dial=info";

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
enum MainError {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("cargo keeps no sources on this machine: name a file or a directory to count")]
    NoPaths,
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("there are no nodes: give --nodes or --join at least 1")]
    NoNodes,
    #[error(transparent)]
    Drive(#[from] DriveError),
    #[error("node {name}: {error}")]
    Role { name: String, error: RoleError },
    #[error("signals cannot be listened for: {0}")]
    Signals(io::Error),
    #[error("input or output failed: {0}")]
    Io(#[from] io::Error),
    #[error("the verification ended early: {0}")]
    Verifier(#[from] JoinError),
}

impl MainError {
    fn status(&self) -> u8 {
        match self {
            MainError::Path(_) | MainError::NoPaths | MainError::NoNodes | MainError::Secret(_) => {
                USAGE
            }
            _ => INCOMPLETE,
        }
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOG));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let subscriber = subscriber.log_internal_errors(false);
    subscriber.with_ansi(io::stderr().is_terminal()).init();
    start(&args).unwrap_or_else(|error| {
        print::note(&format!("wordcount: {error}"));
        ExitCode::from(error.status())
    })
}

fn start(args: &Args) -> Result<ExitCode, MainError> {
    let given = Secret::given(args.secret_file.as_deref())?;
    let runtime = Runtime::new()?;
    let result = if let Some(name) = &args.node {
        let secret = given.ok_or(SecretError::Missing)?;
        let failed = |error| MainError::Role { name: name.clone(), error };
        let served = runtime.block_on(role::serve(args, name, &secret));
        served.map(|()| ExitCode::SUCCESS).map_err(failed)
    } else {
        let secret = given.map_or_else(Secret::random, Ok)?;
        let listing = list(args)?;
        runtime.block_on(run(args, listing, &secret))
    };
    // Not waiting for threads that still read or verify.
    runtime.shutdown_background();
    result
}

fn list(args: &Args) -> Result<Listing, MainError> {
    if args.nodes + args.join == 0 {
        return Err(MainError::NoNodes);
    }
    if !args.paths.is_empty() {
        return Ok(Listing::below(&args.paths, args.max_bytes)?);
    }
    let sources = cli::cargo_sources().filter(|path| path.is_dir()).ok_or(MainError::NoPaths)?;
    Ok(Listing::below(&[sources], args.max_bytes)?)
}

async fn run(args: &Args, listing: Listing, secret: &Secret) -> Result<ExitCode, MainError> {
    let mut signals = Signals::listen().map_err(MainError::Signals)?;
    let run = driver::drive(args, listing, secret, &mut signals).await?;
    print::result(&run.to_string())?;
    run.gaps().iter().for_each(|gap| print::note(gap));
    let complete = run.is_complete();
    if args.verify && !run.is_whole() {
        print::note("not verified: text was lost");
    } else if args.verify && !run.is_empty() {
        let (words, bytes) = (run.tally.words, run.tally.bytes);
        let verified = task::spawn_blocking(move || verify(&run.tally, &run.fed.sources));
        let verified = tokio::select! {
            biased;
            () = signals.next() => return Err(DriveError::Interrupted.into()),
            verified = verified => verified?,
        };
        if let Err(difference) = verified {
            print::note(&format!("verification failed: {difference}"));
            return Ok(ExitCode::from(DIFFERENT));
        }
        print::result(&format!("verified: {words} words, {bytes} bytes\n"))?;
    }
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE) })
}
