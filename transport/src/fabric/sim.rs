//! Simulated queue pairs and streams, in process, on a virtual clock.
//!
//! A [`World`] holds nodes, paths between them and faults. [`run`] runs a scenario in it on a
//! tokio runtime of one thread whose time is the world's: nothing ever waits in real time, and
//! the same seed gives the same run, down to the byte of the [log](World::log_text).
//!
//! - **SI-1 one clock**: events of the world and tokio's timers happen in the order of their
//!   virtual times. The world's time is never behind tokio's.
//! - **SI-2 repeatable**: all chance is drawn from the seed, all ties are broken by order of
//!   insertion. A scenario keeps that by using no randomness, thread or clock of its own, no
//!   `select!` without `biased`, and no `tokio::time::advance`.
//! - **SI-3 unkind**: each choice that the [contract](super) leaves open is made by the seed: late
//!   send completions, completions between two looks of one turn, short polls, spurious and late
//!   notifications, flushed sends that arrived, peers whose death shows only when one sends, the
//!   order between the two queues.
//! - **SI-4 ends**: a scenario in which nothing can happen any more, or that takes more virtual
//!   time than its limit, panics with the seed and the end of the log.
//!
//! Time stands still while any task is runnable: a task that spins until time has passed spins
//! for ever here, so spinning must also be bounded by a count. Spinning on this module panics.

mod carry;
mod clock;
mod completion;
mod ending;
mod event;
mod heap;
mod link_model;
mod physics;
mod pipe;
mod queue;
mod queue_pair;
mod queue_pairs;
mod rule;
mod state;
mod stream_faults;
mod streams;
#[cfg(test)]
mod tests;
mod wire;
mod world;

use std::sync::Arc;
use std::time::Duration;

pub use link_model::LinkModel;
pub use queue::SimFabric;
pub use rule::{Counters, Met, On, Rule, Verdict};
pub use wire::SimWire;
pub use world::{World, is_of_frame};

use clock::Clock;

/// Virtual time after which a scenario is taken to run for ever, unless it asks for more.
pub const LIMIT: Duration = Duration::from_secs(3600);

/// How much of the log a failed run shows.
const TAIL_LINES: usize = 60;

/// Runs a scenario in the world of this seed, for at most [`LIMIT`] of virtual time.
///
/// ```
/// use ringpost_transport::fabric::sim;
/// use std::time::Duration;
///
/// let now = sim::run(7, |world| async move {
///     tokio::time::sleep(Duration::from_secs(60)).await;
///     world.now()
/// });
/// assert_eq!(now, 60_000_000_000);
/// ```
///
/// # Panics
/// When the scenario panics, is deadlocked or reaches the limit (SI-4).
pub fn run<F, S, T>(seed: u64, scenario: F) -> T
where
    F: FnOnce(World) -> S,
    S: Future<Output = T>,
{
    run_for(seed, LIMIT, scenario)
}

/// Like [`run`], with a limit of virtual time of its own, of less than a year.
///
/// # Panics
/// Like [`run`].
pub fn run_for<F, S, T>(seed: u64, limit: Duration, scenario: F) -> T
where
    F: FnOnce(World) -> S,
    S: Future<Output = T>,
{
    let world = World::new(seed);
    let why = match try_run(&world, limit, scenario(world.clone())) {
        Ok(value) => return value,
        Err(why) => why,
    };
    panic!("seed {seed}: {why}. The end of the log:\n{}", world.log_tail(TAIL_LINES))
}

/// Runs a scenario in a new world, for at most `limit` of virtual time, which is less than a year.
///
/// # Errors
/// [`Stall`] when the scenario is deadlocked or reaches the limit (SI-4).
///
/// # Panics
/// When the scenario panics.
pub fn try_run<T>(
    world: &World,
    limit: Duration,
    scenario: impl Future<Output = T>,
) -> Result<T, Stall> {
    let clock = Clock::new(world.0.clone(), limit);
    // The world keeps wakers, wakers keep the rest of the runtime, and the runtime keeps these two:
    // if they were not weak, no world would ever be freed.
    let (parks, unparks) = (Arc::downgrade(&clock), Arc::downgrade(&clock));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .on_thread_park(move || {
            if let Some(clock) = parks.upgrade() {
                clock.idle();
            }
        })
        .on_thread_unpark(move || {
            if let Some(clock) = unparks.upgrade() {
                clock.follow();
            }
        })
        .build()
        .expect("a runtime of one thread needs nothing from the system");
    runtime.block_on(async {
        let _reporter = Reporter(world.clone());
        let stalls = tokio::spawn(clock.clone().pump());
        tokio::select! {
            biased;
            value = scenario => Ok(value),
            why = stalls => match why {
                Ok(why) => Err(why),
                Err(lost) => std::panic::resume_unwind(lost.into_panic()),
            },
        }
    })
}

/// Why a scenario cannot end.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Stall {
    /// Nothing can happen any more.
    #[error("a deadlock: no event and no timer of the next year is left")]
    Deadlock,
    /// The scenario took more virtual time than it may.
    #[error("over its limit of {} ns of virtual time", .0.as_nanos())]
    OverLimit(Duration),
}

crate::debug_by_display!(Stall);

/// Ends the log with its scenario, before the remaining tasks end (SI-2), and prints the seed of a
/// scenario that panics.
struct Reporter(World);

impl Drop for Reporter {
    fn drop(&mut self) {
        let World(shared) = &self.0;
        shared.with(|state| state.physics.end_log());
        if std::thread::panicking() {
            // Where standard error is full, `eprintln!` panics: here that would abort.
            crate::shield::run(|| eprintln!("the scenario failed with seed {}", self.0.seed()));
        }
    }
}
