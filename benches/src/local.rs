//! Messages within a process: the trait of a contestant, and its measurement.

use std::future::Future;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::beside::sum;
use crate::clock::{Alarm, WARM_UP};
use crate::failure::Failure;
use crate::figure::{Measurement, Work};
use crate::pair::barrier;

/// A contestant within one process: a reference to an actor that counts, on the same runtime.
pub trait Local: Clone + Send + Sync + 'static {
    /// The same as [`Client::BARRIER_EVERY`](crate::Client::BARRIER_EVERY).
    const BARRIER_EVERY: Option<u64> = None;

    /// Starts an actor.
    fn start() -> impl Future<Output = Result<Self, Failure>> + Send;

    /// Asks with a number and returns the same number as it came back.
    fn ask(&self, number: u64) -> impl Future<Output = Result<u64, Failure>> + Send;

    /// Tells a number.
    fn tell(&self, number: u64) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Returns the number of tells that have been handled since the start.
    fn handled(&self) -> impl Future<Output = Result<u64, Failure>> + Send;
}

/// Measures a contestant and returns the value of the measurement's figure. Runs in a task of the
/// runtime, as actors do.
///
/// # Errors
/// When the contestant fails or refuses.
pub async fn measure<L: Local>(
    measurement: &Measurement,
    time: Duration,
) -> Result<Vec<f64>, Failure> {
    let actor = L::start().await?;
    let nanoseconds = match measurement.work {
        Work::LocalAsk => {
            ask(&actor, time.mul_f64(WARM_UP)).await?;
            ask(&actor, time).await?
        }
        Work::LocalTell(producers) => {
            let warm = time.mul_f64(WARM_UP);
            let (before, _) = tell(&actor, producers, warm, 0).await?;
            tell(&actor, producers, time, before).await?.1
        }
        _ => {
            let what = format!("`{}` is not within a process", measurement.name);
            return Err(Failure::Failed(what));
        }
    };
    Ok(vec![nanoseconds])
}

/// Asks, one ask after the other, and returns the nanoseconds of each.
async fn ask<L: Local>(actor: &L, time: Duration) -> Result<f64, Failure> {
    let (alarm, start) = (Alarm::after(time), Instant::now());
    let mut asked = 0;
    while !alarm.is_over() {
        if actor.ask(asked).await? != asked {
            return Err(Failure::Failed("an answer is not what was asked".into()));
        }
        asked += 1;
    }
    Ok(start.elapsed().as_nanos() as f64 / asked as f64)
}

/// Tells by so many tasks, after `before` earlier tells. Returns the number of tells in all, and
/// the nanoseconds of each, from the first one sent to the last one handled.
async fn tell<L: Local>(
    actor: &L,
    producers: usize,
    time: Duration,
    before: u64,
) -> Result<(u64, f64), Failure> {
    async fn one<L: Local>(actor: L, alarm: Alarm) -> Result<u64, Failure> {
        let mut sent = 0;
        while !alarm.is_over() {
            actor.tell(sent).await?;
            sent += 1;
            if L::BARRIER_EVERY.is_some_and(|every| sent % every == 0) {
                actor.handled().await?;
            }
        }
        Ok(sent)
    }
    let (alarm, start) = (Alarm::after(time), Instant::now());
    let mut set = JoinSet::new();
    for _ in 0..producers {
        set.spawn(one(actor.clone(), alarm.clone()));
    }
    let sent = sum(&mut set).await?;
    barrier(before + sent, || actor.handled()).await?;
    Ok((before + sent, start.elapsed().as_nanos() as f64 / sent as f64))
}
