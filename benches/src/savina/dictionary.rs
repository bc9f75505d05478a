//! Concurrent dictionary: twenty actors ask an actor that has a map; one ask in ten writes.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::Random;
use crate::failure::Failure;
use crate::repeat::Program;
use crate::system::{Behavior, Countdown, System, Then};

const WORKERS: u64 = 20;
const ASKS: u64 = 10_000;
const WRITES_PERCENT: usize = 10;
const KEYS: usize = 1 << 16;

/// The actor that has the map.
struct Map(HashMap<usize, usize>);

enum Access {
    Read(usize),
    Write(usize, usize),
}

impl Behavior for Map {
    type Tell = ();
    type Question = Access;
    type Answer = usize;
    const WAITS: bool = false;

    async fn told(&mut self, (): ()) -> Result<Then, Failure> {
        Ok(Then::Continue)
    }

    async fn asked(&mut self, access: Access) -> Result<usize, Failure> {
        let value = match access {
            Access::Read(key) => self.0.get(&key).copied(),
            Access::Write(key, value) => self.0.insert(key, value),
        };
        Ok(value.unwrap_or(usize::MAX))
    }
}

/// An actor that reads and writes. Each value is its key, so that each answer is known.
struct Worker<S: System> {
    dictionary: S::Ref<Map>,
    random: Random,
    done: Countdown,
}

impl<S: System> Behavior for Worker<S> {
    type Tell = ();
    type Question = ();
    type Answer = ();
    const WAITS: bool = true;

    async fn told(&mut self, (): ()) -> Result<Then, Failure> {
        let mut right = 0;
        for _ in 0..ASKS {
            let key = self.random.below(KEYS);
            let writes = self.random.below(100) < WRITES_PERCENT;
            let access = if writes { Access::Write(key, key) } else { Access::Read(key) };
            right += u64::from(S::ask(&self.dictionary, access).await? == key);
        }
        self.done.add(right);
        Ok(Then::End)
    }

    async fn asked(&mut self, (): ()) -> Result<(), Failure> {
        Ok(())
    }
}

pub(crate) struct Dictionary<S: System> {
    system: S,
    map: S::Ref<Map>,
}

impl<S: System> Program<S> for Dictionary<S> {
    async fn set_up(system: &S) -> Result<Self, Failure> {
        let map = system.spawn(Map((0..KEYS).map(|key| (key, key)).collect())).await?;
        Ok(Dictionary { system: system.clone(), map })
    }

    async fn run(&mut self) -> Result<Duration, Failure> {
        let (done, start) = (Countdown::from(WORKERS), Instant::now());
        for seed in 0..WORKERS {
            let (dictionary, random) = (self.map.clone(), Random(seed));
            let worker = Worker::<S> { dictionary, random, done: done.clone() };
            S::tell(&self.system.spawn(worker).await?, ()).await?;
        }
        done.reaches(WORKERS * ASKS).await?;
        Ok(start.elapsed())
    }
}
