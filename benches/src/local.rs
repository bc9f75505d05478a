//! Measurements within a process: the program of each figure; and tells and asks of one actor.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::beside::sum;
use crate::clock::{Alarm, WARM_UP};
use crate::crowd::{self, FanOut, Ring, Spawning};
use crate::failure::Failure;
use crate::figure::{Measurement, Savina, Work};
use crate::pair::barrier;
use crate::repeat::{each, whole};
use crate::savina::{Bank, Big, Create, Dictionary, Fib, LogisticMap};
use crate::system::{Behavior, System, Then};

/// Measures a contestant and returns the values of the measurement's figures. Runs in a task of the
/// runtime, as actors do.
///
/// # Errors
/// When the contestant fails or refuses.
pub async fn measure<S: System>(
    measurement: &Measurement,
    time: Duration,
) -> Result<Vec<f64>, Failure> {
    let system = S::start().await?;
    match measurement.work {
        Work::LocalAsk => ask(&system, time).await,
        Work::LocalTell(producers) => tell(&system, producers, time).await,
        Work::FanOut => each::<S, FanOut<S>>(&system, crowd::FAN_OUT_TELLS, time).await,
        Work::RingHop => each::<S, Ring<S>>(&system, crowd::HOPS, time).await,
        Work::Spawn => each::<S, Spawning<S>>(&system, crowd::SPAWNED, time).await,
        Work::Savina(program) => match program {
            Savina::Create => whole::<S, Create<S>>(&system, time).await,
            Savina::Fib => whole::<S, Fib<S>>(&system, time).await,
            Savina::LogisticMap => whole::<S, LogisticMap<S>>(&system, time).await,
            Savina::Dictionary => whole::<S, Dictionary<S>>(&system, time).await,
            Savina::Big => whole::<S, Big<S>>(&system, time).await,
            Savina::Bank => whole::<S, Bank<S>>(&system, time).await,
        },
        Work::Idle { supervised, actors } => crowd::idle(&system, supervised, actors).await,
        _ => {
            let what = format!("`{}` is not within a process", measurement.name);
            Err(Failure::Failed(what))
        }
    }
}

/// An actor that counts tells and answers asks.
#[derive(Default)]
struct Counter {
    handled: u64,
}

enum Question {
    Same(u64),
    Handled,
}

impl Behavior for Counter {
    type Tell = u64;
    type Question = Question;
    type Answer = u64;
    const WAITS: bool = false;

    async fn told(&mut self, number: u64) -> Result<Then, Failure> {
        self.handled += u64::from(number < u64::MAX);
        Ok(Then::Continue)
    }

    async fn asked(&mut self, question: Question) -> Result<u64, Failure> {
        Ok(match question {
            Question::Same(number) => number,
            Question::Handled => self.handled,
        })
    }
}

/// Asks, one ask after the other, and returns the nanoseconds of each.
async fn ask<S: System>(system: &S, time: Duration) -> Result<Vec<f64>, Failure> {
    let actor = system.spawn(Counter::default()).await?;
    let mut nanoseconds = f64::NAN;
    for time in [time.mul_f64(WARM_UP), time] {
        let (alarm, start) = (Alarm::after(time), Instant::now());
        let mut asked = 0;
        while !alarm.is_over() {
            if S::ask(&actor, Question::Same(asked)).await? != asked {
                return Err(Failure::Failed("an answer is not what was asked".into()));
            }
            asked += 1;
        }
        nanoseconds = start.elapsed().as_nanos() as f64 / asked as f64;
    }
    Ok(vec![nanoseconds])
}

/// Tells by `producers` tasks. Returns the nanoseconds of each tell, from the first one sent to the
/// last one handled.
async fn tell<S: System>(
    system: &S,
    producers: usize,
    time: Duration,
) -> Result<Vec<f64>, Failure> {
    let actor = system.spawn(Counter::default()).await?;
    let (mut before, mut nanoseconds) = (0, f64::NAN);
    for time in [time.mul_f64(WARM_UP), time] {
        let (alarm, start) = (Alarm::after(time), Instant::now());
        let mut set = JoinSet::new();
        for _ in 0..producers {
            set.spawn(produce::<S>(actor.clone(), alarm.clone()));
        }
        let sent = sum(&mut set).await?;
        before += sent;
        barrier(before, || S::ask(&actor, Question::Handled)).await?;
        nanoseconds = start.elapsed().as_nanos() as f64 / sent as f64;
    }
    Ok(vec![nanoseconds])
}

/// Tells until the time is over. Returns the number of tells.
async fn produce<S: System>(actor: S::Ref<Counter>, alarm: Alarm) -> Result<u64, Failure> {
    let mut sent = 0;
    while !alarm.is_over() {
        S::tell(&actor, sent).await?;
        sent += 1;
        if S::BARRIER_EVERY.is_some_and(|every| sent % every == 0) {
            S::ask(&actor, Question::Handled).await?;
        }
    }
    Ok(sent)
}
