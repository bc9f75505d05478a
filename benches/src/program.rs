//! The command line of a program that holds contestants.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::awake::{Burner, burn};
use crate::child::{Server, serve_command};
use crate::failure::Failure;
use crate::figure::{ACTORS, CostOf, Face, Measurement, find};
use crate::local;
use crate::pair::{self, Messages, Pair};
use crate::serve::{Meter, runtime, serve};
use crate::stream::{self, Streams};
use crate::system::System;

/// A subcommand of such a program; `benches/run` and its children pass these, not users.
#[derive(Debug, Subcommand)]
pub enum Task {
    /// Measures one contestant once, and prints `value NAME NUMBER` for each figure
    Measure {
        /// The contestant
        contestant: String,
        /// The measurement
        measurement: String,
        /// Seconds for which it sends
        #[arg(long)]
        seconds: f64,
        /// Number of actors whose memory is measured
        #[arg(long, default_value_t = ACTORS)]
        actors: usize,
    },
    /// Serves a contestant until standard input ends
    Serve {
        /// The contestant
        contestant: String,
        /// Number of worker threads
        #[arg(long)]
        workers: usize,
    },
    /// Sends messages on one thread to a contestant that is served at ADDRESS, and prints the
    /// allocations of that thread
    Drive {
        /// The contestant
        contestant: String,
        /// The message that is sent
        message: CostOf,
        /// Number of messages
        count: u64,
        /// Number of tasks that send them, so that many wait for room
        #[arg(long, default_value_t = 1)]
        tasks: u64,
        /// The address of the server
        address: String,
    },
    /// Keeps the cores busy until standard input ends
    Burn,
}

/// The command line of a program that does nothing else.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

/// The functions that run one contestant between two processes.
#[derive(Debug, Clone, Copy)]
pub struct PairEntry {
    /// The name of the contestant.
    pub name: &'static str,
    /// Measures it, beside a server that listens.
    pub measure: fn(Server, &Measurement, Duration) -> Result<Vec<f64>, Failure>,
    /// Serves it until standard input ends.
    pub serve: fn(usize, Meter) -> Result<(), Failure>,
    /// Sends the messages.
    pub drive: fn(String, Messages, Meter) -> Result<(), Failure>,
}

/// The function that runs one contestant within a process, or that starts its processes.
#[derive(Debug, Clone, Copy)]
pub struct LocalEntry {
    /// The name of the contestant.
    pub name: &'static str,
    /// Measures it.
    pub measure: fn(&Measurement, Duration) -> Result<Vec<f64>, Failure>,
}

/// The contestants that a program holds.
#[derive(Debug, Clone)]
pub struct Program {
    /// The contestants between two processes.
    pub pairs: Vec<PairEntry>,
    /// The contestants within a process.
    pub locals: Vec<LocalEntry>,
    /// The contestants that start their processes themselves.
    pub groups: Vec<LocalEntry>,
    /// The function that counts allocations.
    pub meter: Meter,
}

impl PairEntry {
    /// Returns the entry of a contestant.
    pub fn of<P: Pair>(name: &'static str) -> Self {
        PairEntry { name, measure: measure_pair::<P>, serve: serve::<P>, drive: drive::<P> }
    }

    /// Returns the entry of a contestant that has byte streams, too.
    pub fn with_streams<P: Pair + Streams>(name: &'static str) -> Self {
        PairEntry { measure: measure_pair_or_stream::<P>, ..PairEntry::of::<P>(name) }
    }
}

impl LocalEntry {
    /// Returns the entry of a contestant.
    pub fn of<S: System>(name: &'static str) -> Self {
        LocalEntry { name, measure: measure_local::<S> }
    }
}

impl Program {
    /// Runs what the command line of this process says. Prints an error as one of the program
    /// `name`.
    pub fn main(&self, name: &str) -> ExitCode {
        match self.run(Arguments::parse().task) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                eprintln!("{name}: {failure}");
                ExitCode::FAILURE
            }
        }
    }

    /// Runs what the command line says.
    ///
    /// # Errors
    /// When it names a contestant or measurement that this program does not have, and when the
    /// contestant fails.
    pub fn run(&self, task: Task) -> Result<(), Failure> {
        match task {
            Task::Measure { contestant, measurement, seconds, actors } => {
                let time = Duration::try_from_secs_f64(seconds).map_err(Failure::of)?;
                let Some(measurement) = find(&measurement) else {
                    let what = format!("there is no measurement `{measurement}`");
                    return Err(Failure::Failed(what));
                };
                self.measure(&contestant, &measurement.with_actors(actors), time)
            }
            Task::Serve { contestant, workers } => {
                (self.pair(&contestant)?.serve)(workers, self.meter)
            }
            Task::Drive { contestant, message, count, tasks, address } => {
                let messages = Messages { message, count, tasks };
                (self.pair(&contestant)?.drive)(address, messages, self.meter)
            }
            Task::Burn => burn(),
        }
    }

    fn measure(
        &self,
        contestant: &str,
        measurement: &Measurement,
        time: Duration,
    ) -> Result<(), Failure> {
        let values = if measurement.is_local() || measurement.is_of_a_group() {
            let entries = if measurement.is_local() { &self.locals } else { &self.groups };
            let entry = entries.iter().find(|entry| entry.name == contestant);
            (entry.ok_or_else(|| not_here(contestant))?.measure)(measurement, time)
        } else {
            let entry = self.pair(contestant)?;
            let program = std::env::current_exe()?;
            let command = serve_command(&program, contestant, measurement.workers);
            let server = Server::start(command)?;
            let _burner = measurement.awake.then(Burner::start).transpose()?;
            (entry.measure)(server, measurement, time)
        };
        match values {
            Ok(values) => {
                for (figure, value) in measurement.figures().iter().zip(values) {
                    println!("value {} {value}", figure.name);
                }
                Ok(())
            }
            Err(Failure::Refused(why)) => {
                println!("refused {why}");
                Ok(())
            }
            Err(failure) => Err(failure),
        }
    }

    fn pair(&self, contestant: &str) -> Result<&PairEntry, Failure> {
        let entry = self.pairs.iter().find(|entry| entry.name == contestant);
        entry.ok_or_else(|| not_here(contestant))
    }
}

fn not_here(contestant: &str) -> Failure {
    Failure::Failed(format!("this program has no contestant `{contestant}` for that"))
}

fn measure_pair<P: Pair>(
    server: Server,
    measurement: &Measurement,
    time: Duration,
) -> Result<Vec<f64>, Failure> {
    let (measurement, workers) = (measurement.clone(), measurement.workers);
    in_a_task(workers, async move { pair::measure::<P>(server, &measurement, time).await })
}

fn measure_pair_or_stream<P: Pair + Streams>(
    server: Server,
    measurement: &Measurement,
    time: Duration,
) -> Result<Vec<f64>, Failure> {
    if measurement.face() != Face::Stream {
        return measure_pair::<P>(server, measurement, time);
    }
    let (measurement, workers) = (measurement.clone(), measurement.workers);
    in_a_task(workers, async move { stream::measure::<P>(server, &measurement, time).await })
}

fn measure_local<S: System>(
    measurement: &Measurement,
    time: Duration,
) -> Result<Vec<f64>, Failure> {
    let (measurement, workers) = (measurement.clone(), measurement.workers);
    in_a_task(workers, async move { local::measure::<S>(&measurement, time).await })
}

/// Runs a measurement in a task of a runtime, as actors run, and not in the future that blocks the
/// main thread.
///
/// # Errors
/// When the measurement fails or panics.
pub fn in_a_task<F>(workers: usize, measuring: F) -> Result<Vec<f64>, Failure>
where
    F: Future<Output = Result<Vec<f64>, Failure>> + Send + 'static,
{
    let runtime = runtime(workers)?;
    let values = runtime.block_on(runtime.spawn(measuring)).map_err(Failure::of)?;
    runtime.shutdown_background();
    values
}

fn drive<P: Pair>(address: String, messages: Messages, meter: Meter) -> Result<(), Failure> {
    let runtime = runtime(1)?;
    let client = runtime.block_on(pair::connect_to_drive::<P>(address))?;
    let mut driven = Ok(());
    let allocations = meter(&mut || {
        driven = runtime.block_on(pair::drive(&client, messages));
    });
    driven?;
    println!("allocations {allocations}");
    runtime.shutdown_background();
    Ok(())
}
