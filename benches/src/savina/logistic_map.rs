//! Logistic map: ten series; for each term of its series, an actor asks another one to compute it.

use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::repeat::Program;
use crate::system::{Behavior, System, Then};

const SERIES: u32 = 10;
const TERMS: u64 = 25_000;
const FIRST_RATE: f64 = 3.46;
const RATE_STEP: f64 = 0.0025;
/// The first term of the first series, and the difference of the first terms of two series.
const TERM_STEP: f64 = 0.0025;

/// An actor that computes terms at its rate.
struct Computer {
    rate: f64,
}

fn next(rate: f64, term: f64) -> f64 {
    rate * term * (1.0 - term)
}

impl Behavior for Computer {
    type Tell = ();
    type Question = f64;
    type Answer = f64;
    const WAITS: bool = false;

    async fn told(&mut self, (): ()) -> Result<Then, Failure> {
        Ok(Then::Continue)
    }

    async fn asked(&mut self, term: f64) -> Result<f64, Failure> {
        Ok(next(self.rate, term))
    }
}

/// An actor that has a series.
struct Worker<S: System> {
    computer: S::Ref<Computer>,
    term: f64,
    steps: u64,
}

impl<S: System> Behavior for Worker<S> {
    type Tell = ();
    type Question = ();
    type Answer = (u64, f64);
    const WAITS: bool = true;

    /// Goes on to the next term.
    async fn told(&mut self, (): ()) -> Result<Then, Failure> {
        self.term = S::ask(&self.computer, self.term).await?;
        self.steps += 1;
        Ok(Then::Continue)
    }

    /// Returns the term, and how many steps led to it.
    async fn asked(&mut self, (): ()) -> Result<(u64, f64), Failure> {
        Ok((self.steps, self.term))
    }
}

pub(crate) struct LogisticMap<S: System> {
    system: S,
    answer: f64,
}

/// Returns the rate and the first term of a series.
fn series(number: u32) -> (f64, f64) {
    (FIRST_RATE + f64::from(number) * RATE_STEP, f64::from(number + 1) * TERM_STEP)
}

impl<S: System> Program<S> for LogisticMap<S> {
    async fn set_up(system: &S) -> Result<Self, Failure> {
        let last = |number| {
            let (rate, first) = series(number);
            (0..TERMS).fold(first, |term, _| next(rate, term))
        };
        Ok(LogisticMap { system: system.clone(), answer: (0..SERIES).map(last).sum() })
    }

    async fn run(&mut self) -> Result<Duration, Failure> {
        let start = Instant::now();
        let (mut workers, mut computers) = (Vec::new(), Vec::new());
        for (rate, term) in (0..SERIES).map(series) {
            let computer = self.system.spawn(Computer { rate }).await?;
            computers.push(computer.clone());
            workers.push(self.system.spawn(Worker::<S> { computer, term, steps: 0 }).await?);
        }
        for _ in 0..TERMS {
            for worker in &workers {
                S::tell(worker, ()).await?;
            }
        }
        let mut answer = 0.0;
        for worker in &workers {
            // Again, where an ask overtook tells.
            answer += loop {
                if let (TERMS, term) = S::ask(worker, ()).await? {
                    break term;
                }
            };
        }
        let time = start.elapsed();
        workers.into_iter().for_each(S::stop);
        computers.into_iter().for_each(S::stop);
        // The same additions in the same order.
        if answer == self.answer {
            return Ok(time);
        }
        Err(Failure::Failed(format!("the answer is {answer}, and should be {}", self.answer)))
    }
}
