//! `ringpost doctor`: what this machine has for RDMA, and whether links to another machine work.

mod machine;
mod peer;
mod report;

use crate::failure::Failure;
use crate::reasons::Reasons;
use crate::settings;

use report::{Line, Report};

/// Says what this machine has for RDMA, what links would use, and how to get the missing parts.
///
/// It needs neither RDMA nor the cargo feature `verbs`: without them it says how to get them, which
/// is no fault. It starts a node with the environment, which joins no other one: a variable that
/// cannot be used, or that no node knows, is a fault.
///
/// With --peer it first links to a machine on which `ringpost perf serve` runs, by each fabric that
/// such links can use and, for RDMA, by each pair of addresses of the two machines. Over each link
/// it asks for messages of four sizes, which take one inline frame, one slot, several slots, and 1
/// MiB, and prints the median times of their round trips. A link that fails is a fault.
///
/// Each fault has a remedy. The last line says whether there are any; if so, the exit status is 1.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Tries links to this address, at which `ringpost perf serve` listens on another machine.
    #[arg(long, value_name = "ADDR", value_parser = settings::address)]
    peer: Option<String>,

    /// Prints one JSON object in place of the lines.
    #[arg(long)]
    json: bool,
}

/// Runs the command. Returns true if there is no fault.
///
/// # Errors
/// [`Failure::System`] when standard output is closed.
pub(crate) async fn run(options: Options, reasons: &Reasons) -> Result<bool, Failure> {
    let mut report = Report::new(options.json)?;
    let environment = settings::check().await;
    let unknown = reasons.unknown();
    let mut ways = None;
    if let Some(address) = &options.peer {
        report.section(format!("links to {address}"))?;
        if environment.is_err() {
            report.line("not tried: the environment has a fault, see below")?;
        } else {
            ways = Some(peer::examine(address, reasons, &mut report).await?);
        }
    }
    report.section("environment")?;
    match environment {
        Ok(()) => report.line("a node starts with it")?,
        Err(failure) => report.line(Line::fault(failure, "set the variable so, or unset it"))?,
    }
    for (variable, meant) in unknown {
        let meant = meant.map_or_else(|| "unset it".into(), |meant| format!("set {meant}"));
        report.line(Line::fault(format!("{variable} is unknown: it says nothing"), &meant))?;
    }
    let verdict = machine::examine(&mut report)?;
    let well = ways.map_or(verdict, |ways| format!("{ways} ways were tried, and work"));
    Ok(report.end(&well)?)
}
