//! `ringpost doctor`: what this machine has for RDMA, and whether links to another machine work.

mod machine;
mod peer;

use crate::failure::Failure;
use crate::reasons::Reasons;
use crate::settings;

/// Says what this machine has for RDMA, what links would use, and how to get what is missing.
///
/// It needs neither RDMA nor the cargo feature `verbs`: without them it says how to get them. What
/// it finds on this machine alone never fails the command.
///
/// With --peer it then links to a machine on which `ringpost perf serve` runs, by each fabric that
/// such links can use and, for RDMA, by each pair of addresses of the two machines. Over each link
/// it asks for messages of four sizes, which take one inline frame, one slot, several slots, and 1
/// MiB, and prints the median times of their round trips. Each failure has a remedy, and is the
/// exit status 1.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Tries links to this address, at which `ringpost perf serve` listens on another machine.
    #[arg(long, value_name = "ADDR", value_parser = settings::address)]
    peer: Option<String>,
}

/// Runs the command. Returns true if all that was tried works.
///
/// # Errors
/// [`Failure`] when nothing could be tried.
pub(crate) async fn run(options: Options, reasons: &Reasons) -> Result<bool, Failure> {
    machine::report()?;
    match options.peer {
        Some(address) => peer::examine(&address, reasons).await,
        None => Ok(true),
    }
}
