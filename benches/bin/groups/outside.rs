//! Programs in C that measure: collective operations of MPI, and the all-to-all of `rdma_lib.h`.
//! `benches/run` builds them beside this program. Each prints a time in microseconds.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ringpost_benches::Failure;
use ringpost_benches::contestant::Contestant;
use ringpost_benches::figure::{Collective, Measurement, Work};
use ringpost_benches::program::LocalEntry;

/// Ranks of a world.
pub(crate) const RANKS: usize = 4;

/// The programs, in the folder of this one.
const MPICH: &str = "ranks-mpich";
const OPEN_MPI: &str = "ranks-openmpi";
const C_LIBRARY: &str = "c-all-to-all";

/// Returns the entries of the libraries for ranks.
pub(crate) fn mpi() -> [LocalEntry; 2] {
    [
        LocalEntry { name: "mpich", measure: mpich },
        LocalEntry { name: "openmpi", measure: open_mpi },
    ]
}

/// Returns how to get the program that measures a contestant, if it is missing.
pub(crate) fn missing(
    contestant: &Contestant,
    measurement: &Measurement,
) -> Result<Option<String>, Failure> {
    let (name, package) = match (contestant.name, measurement.work) {
        ("mpich", _) => (MPICH, "apt-get install mpich libmpich-dev, and then "),
        ("openmpi", _) => (OPEN_MPI, "apt-get install openmpi-bin libopenmpi-dev, and then "),
        (_, Work::CAllToAll) => (C_LIBRARY, ""),
        _ => return Ok(None),
    };
    let is_missing = !program(name)?.exists();
    Ok(is_missing.then(|| format!("the program `{name}` is missing: {package}benches/run")))
}

/// MPICH without its shared memory, over the sockets of libfabric.
fn mpich(measurement: &Measurement, time: Duration) -> Result<Vec<f64>, Failure> {
    let mut command = timed(Path::new("mpiexec.mpich"), measurement.patience(time));
    command.env("MPIR_CVAR_NOLOCAL", "1").env("FI_PROVIDER", "tcp");
    command.args(["-n", &RANKS.to_string()]);
    command.arg(program(MPICH)?);
    ranks(command, measurement, time)
}

/// Open MPI without its shared memory, over sockets.
fn open_mpi(measurement: &Measurement, time: Duration) -> Result<Vec<f64>, Failure> {
    let mut command = timed(Path::new("mpirun.openmpi"), measurement.patience(time));
    command.args(["-n", &RANKS.to_string(), "--oversubscribe", "--allow-run-as-root"]);
    command.args(["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]);
    command.arg(program(OPEN_MPI)?);
    ranks(command, measurement, time)
}

/// Runs a collective operation of MPI.
fn ranks(
    mut command: Command,
    measurement: &Measurement,
    time: Duration,
) -> Result<Vec<f64>, Failure> {
    let (operation, count) = match measurement.work {
        Work::Ranks(Collective::Barrier) => ("barrier", 0),
        Work::Ranks(Collective::AllReduce(numbers)) => ("all_reduce", numbers),
        Work::Ranks(Collective::Broadcast(bytes)) => ("broadcast", bytes),
        Work::Ranks(Collective::AllToAll(bytes)) => ("all_to_all", bytes),
        _ => return Err(Failure::Failed(format!("`{}` is not of ranks", measurement.name))),
    };
    command.args([operation, &count.to_string(), &time.as_secs_f64().to_string()]);
    run(command)
}

/// Measures the all-to-all of three processes by `rdma_lib.h`.
pub(crate) fn c_library(measurement: &Measurement, time: Duration) -> Result<Vec<f64>, Failure> {
    let mut command = timed(&program(C_LIBRARY)?, measurement.patience(time));
    command.arg(time.as_secs_f64().to_string());
    run(command)
}

fn run(mut command: Command) -> Result<Vec<f64>, Failure> {
    let output = command.output()?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let what = format!("{:?} has failed: {}: {errors}", command.get_args(), output.status);
        return Err(Failure::Failed(what.trim_end().replace('\n', "; ")));
    }
    Ok(vec![number(&output.stdout)?])
}

/// Returns the command that runs a program under `timeout`, which ends it even when this process
/// was killed before.
pub(crate) fn timed(program: &Path, patience: Duration) -> Command {
    let mut command = Command::new("timeout");
    command.arg(patience.as_secs().to_string()).arg(program);
    command
}

/// Reads the number that a program has printed.
pub(crate) fn number(output: &[u8]) -> Result<f64, Failure> {
    let text = String::from_utf8_lossy(output);
    text.trim().parse().map_err(|_| Failure::Failed(format!("a program printed `{text}`")))
}

fn program(name: &str) -> Result<PathBuf, Failure> {
    Ok(std::env::current_exe()?.with_file_name(name))
}
