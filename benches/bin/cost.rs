//! The counted cost of one message: instructions of a process under callgrind, allocations of its
//! one thread.
//!
//! Two runs that differ only in how many messages they send are subtracted, so that start,
//! handshake and end of the processes drop out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ringpost_benches::Failure;
use ringpost_benches::child::{Server, serve_command};
use ringpost_benches::figure::{Cost, CostOf, Measurement, Work};

use crate::process::finish;
use crate::results::Missing;

/// The numbers of messages that the two runs send.
const MESSAGES: [u64; 2] = [2_000, 22_000];

/// Counts the cost that `measurement` names, for a contestant.
pub(crate) fn measure(
    contestant: &str,
    measurement: &Measurement,
) -> Result<Result<Vec<f64>, Missing>, Failure> {
    let patience = measurement.patience(Duration::ZERO);
    let mut totals = [0; MESSAGES.len()];
    for (total, messages) in totals.iter_mut().zip(MESSAGES) {
        let counted = match measurement.work {
            Work::Instructions(cost) => instructions(contestant, cost, messages, patience),
            Work::Allocations(cost) => allocations(contestant, cost, messages, patience),
            _ => Ok(Err(Missing::Failed("this is timed, not counted".into()))),
        };
        match counted? {
            Ok(counted) => *total = counted,
            Err(missing) => return Ok(Err(missing)),
        }
    }
    let more = MESSAGES[1] - MESSAGES[0];
    Ok(Ok(vec![(totals[1] as f64 - totals[0] as f64) / more as f64]))
}

/// Returns the command that sends messages to a server.
fn drive(program: &Path, contestant: &str, message: CostOf, messages: u64, to: &str) -> Command {
    let message = if message == CostOf::Tell { "tell" } else { "ask" };
    let mut command = Command::new(program);
    command.args(["drive", contestant, message, &messages.to_string(), to]);
    command
}

/// Returns all instructions of one process while it and its peer exchange `messages` messages.
fn instructions(
    contestant: &str,
    cost: Cost,
    messages: u64,
    patience: Duration,
) -> Result<Result<u64, Missing>, Failure> {
    let program = std::env::current_exe()?;
    if Command::new("valgrind").arg("--version").output().is_err() {
        let how = "valgrind is missing; on Debian: apt-get install valgrind";
        return Ok(Err(Missing::Tool(how.into())));
    }
    let log = Log::new();
    let server = serve_command(&program, contestant, 1);
    let server = if cost.serving { log.under_callgrind(&server) } else { server };
    let server = Server::start(server)?;
    let client = drive(&program, contestant, cost.message, messages, server.address());
    let client = if cost.serving { client } else { log.under_callgrind(&client) };
    if let Err(missing) = finish(client, patience)? {
        return Ok(Err(missing));
    }
    server.end()?;
    let collected = log.collected();
    Ok(collected.ok_or_else(|| Missing::Failed("callgrind said no number".into())))
}

/// The file that valgrind writes to, which is removed when this is dropped.
struct Log(PathBuf);

impl Log {
    fn new() -> Self {
        let name = format!("ringpost-bench-{}.callgrind", std::process::id());
        Log(std::env::temp_dir().join(name))
    }

    fn under_callgrind(&self, command: &Command) -> Command {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        valgrind.arg(format!("--log-file={}", self.0.display()));
        valgrind.arg(command.get_program()).args(command.get_args());
        valgrind
    }

    /// Returns the number of instructions that callgrind has counted.
    fn collected(&self) -> Option<u64> {
        let text = fs::read_to_string(&self.0).ok()?;
        let line = text.lines().find(|line| line.contains("Collected"))?;
        line.rsplit(' ').next()?.parse().ok()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // A file that stays behind does no harm.
        drop(fs::remove_file(&self.0));
    }
}

/// Returns all allocations of the one thread of a process that sends or receives.
fn allocations(
    contestant: &str,
    cost: Cost,
    messages: u64,
    patience: Duration,
) -> Result<Result<u64, Missing>, Failure> {
    let program = std::env::current_exe()?.with_file_name("allocations");
    if !program.exists() {
        let how = "the program `allocations` is missing; build it: `benches/run` does";
        return Ok(Err(Missing::Tool(how.into())));
    }
    let mut server = Server::start(serve_command(&program, contestant, 1))?;
    let client = drive(&program, contestant, cost.message, messages, server.address());
    let output = match finish(client, patience)? {
        Ok(output) => output,
        Err(missing) => return Ok(Err(missing)),
    };
    if cost.serving {
        return Ok(Ok(server.usage()?.allocations));
    }
    let counted = output.trim_end().rsplit(' ').next().and_then(|counted| counted.parse().ok());
    Ok(counted.ok_or_else(|| Missing::Failed(format!("it printed `{}`", output.trim_end()))))
}
