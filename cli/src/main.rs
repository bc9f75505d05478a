//! The command `ringpost`: says what links a machine can have, tries them, measures them, and
//! starts the ranks of a world.
//!
//! In reading order: `settings` and `networks` (the nodes of this program), `reasons` and `dial`
//! (a link to the other side, or why there is none), `service` (what the serving side does), then
//! the subcommands: `doctor`, `perf` with `counters`, and `run`.

#![deny(clippy::print_stderr, clippy::print_stdout, reason = "they panic when nobody reads")]

mod counters;
mod dial;
mod doctor;
mod failure;
mod networks;
mod perf;
mod reasons;
mod run;
mod service;
mod settings;

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::failure::Failure;
use crate::reasons::Reasons;

/// Says what links Ringpost can have between machines, tries them, measures them, and starts ranks.
///
/// Start `ringpost perf serve` on one machine, and on another one `ringpost doctor --peer ADDR`, to
/// see that links work, and `ringpost perf ADDR`, to see how fast they are.
#[derive(Debug, Parser)]
#[command(name = "ringpost", version, after_help = AFTER_HELP)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
The nodes of this program read RINGPOST_SECRET, RINGPOST_ENCRYPTION and the other variables as \
those of any program do, but for their names, addresses and seeds. RUST_LOG=info writes their log \
to standard error.

Exit status: 0 if all is well, 1 if something failed, 2 if the command line is wrong; that of the \
first rank that failed for `ringpost run`.";

#[derive(Debug, Subcommand)]
enum Command {
    Doctor(doctor::Options),
    Perf(perf::Options),
    Run(run::Options),
}

fn main() -> ExitCode {
    let arguments = CommandLine::parse();
    let reasons = Reasons::default();
    let links = Targets::new()
        .with_target("ringpost_transport", LevelFilter::INFO)
        .with_target("ringpost::node", LevelFilter::WARN);
    // Told to write colours, it would not heed NO_COLOR any more. Where standard error cannot be
    // written there is no place to say so, and to try would panic.
    let log = tracing_subscriber::fmt::layer().with_writer(io::stderr).log_internal_errors(false);
    let log = if io::stderr().is_terminal() { log } else { log.with_ansi(false) };
    tracing_subscriber::registry()
        .with(reasons.clone().with_filter(links))
        .with(log.with_filter(EnvFilter::from_default_env()))
        .init();
    match run(arguments.command, reasons) {
        Ok(status) => ExitCode::from(status),
        // A reader such as `head` has seen enough.
        Err(Failure::System(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            note(format_args!("ringpost: {failure}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints a line on standard error, if that can be written.
fn note(line: std::fmt::Arguments<'_>) {
    drop(writeln!(io::stderr(), "{line}"));
}

/// Runs a command. Returns the exit status.
fn run(command: Command, reasons: Reasons) -> Result<u8, Failure> {
    let mut threads = tokio::runtime::Builder::new_multi_thread();
    if let Command::Perf(options) = &command
        && let Some(count) = options.threads()
    {
        threads.worker_threads(count);
    }
    let runtime = threads.enable_all().build()?;
    // In a task, as actors are, and not in the future that blocks the main thread.
    let task = runtime.spawn(async move {
        match command {
            Command::Doctor(options) => doctor::run(options, &reasons).await.map(status),
            Command::Perf(options) => perf::run(options, &reasons).await.map(status),
            Command::Run(options) => run::run(options).await,
        }
    });
    let outcome = runtime.block_on(task).map_err(std::io::Error::other)?;
    runtime.shutdown_background();
    outcome
}

/// Returns the exit status of a command that says whether all is well.
fn status(is_well: bool) -> u8 {
    u8::from(!is_well)
}
