//! Programs within a process that run again and again on a contestant.

use std::future::Future;
use std::time::{Duration, Instant};

use crate::clock::WARM_UP;
use crate::failure::Failure;
use crate::system::System;

/// A program that runs again and again.
pub(crate) trait Program<S: System>: Sized + Send {
    /// Spawns the actors that live longer than one run.
    fn set_up(system: &S) -> impl Future<Output = Result<Self, Failure>> + Send;

    /// Runs once, and checks the answer. Returns the time that counts.
    fn run(&mut self) -> impl Future<Output = Result<Duration, Failure>> + Send;
}

/// Returns the median time of a run in nanoseconds, divided by the `things` that are done in it.
pub(crate) async fn each<S: System, P: Program<S>>(
    system: &S,
    things: u64,
    time: Duration,
) -> Result<Vec<f64>, Failure> {
    let median = repeat::<S, P>(system, time).await?;
    Ok(vec![median.as_nanos() as f64 / things as f64])
}

/// Returns the median time of a run in milliseconds.
pub(crate) async fn whole<S: System, P: Program<S>>(
    system: &S,
    time: Duration,
) -> Result<Vec<f64>, Failure> {
    let median = repeat::<S, P>(system, time).await?;
    Ok(vec![median.as_secs_f64() * 1e3])
}

/// Runs a program for a while, at least once before it counts and once after. Returns the median
/// time of the runs that count.
async fn repeat<S: System, P: Program<S>>(system: &S, time: Duration) -> Result<Duration, Failure> {
    let mut program = P::set_up(system).await?;
    let mut times = Vec::new();
    for time in [time.mul_f64(WARM_UP), time] {
        times.clear();
        let start = Instant::now();
        while times.is_empty() || start.elapsed() < time {
            times.push(program.run().await?);
        }
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}
