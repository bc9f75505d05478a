//! Fork-join create: many actors are spawned, each handles one message and ends.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::repeat::Program;
use crate::system::{Behavior, Countdown, System, Then};

const ACTORS: u64 = 40_000;

/// An actor that counts the messages that it has handled when its state is dropped.
struct Worker {
    handled: u64,
    ended: Countdown,
}

impl Behavior for Worker {
    type Tell = f64;
    type Question = ();
    type Answer = ();
    const WAITS: bool = false;

    async fn told(&mut self, angle: f64) -> Result<Then, Failure> {
        let sine = black_box(angle).sin();
        black_box(sine * sine);
        self.handled += 1;
        Ok(Then::End)
    }

    async fn asked(&mut self, (): ()) -> Result<(), Failure> {
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.ended.add(self.handled);
    }
}

pub(crate) struct Create<S: System> {
    system: S,
}

impl<S: System> Program<S> for Create<S> {
    async fn set_up(system: &S) -> Result<Self, Failure> {
        Ok(Create { system: system.clone() })
    }

    async fn run(&mut self) -> Result<Duration, Failure> {
        let (ended, start) = (Countdown::from(ACTORS), Instant::now());
        for _ in 0..ACTORS {
            let worker = Worker { handled: 0, ended: ended.clone() };
            S::tell(&self.system.spawn(worker).await?, 37.2).await?;
        }
        ended.reaches(ACTORS).await?;
        Ok(start.elapsed())
    }
}
