//! Many actors: tells to each of them, a token that they hand on, their start, and their memory.

use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::memory::{memory, settled};
use crate::repeat::Program;
use crate::system::{Behavior, Countdown, System, Then, spawn_all};

/// Actors that are told, and tells to each of them.
const FAN_OUT_ACTORS: u64 = 10_000;
const TELLS_EACH: u64 = 100;

/// Tells of one run of [`FanOut`].
pub(crate) const FAN_OUT_TELLS: u64 = FAN_OUT_ACTORS * TELLS_EACH;

/// Actors in the ring.
const RING_ACTORS: u64 = 1000;

/// Steps of the token in one run of [`Ring`].
pub(crate) const HOPS: u64 = 100_000;

/// Actors that one run of [`Spawning`] spawns.
pub(crate) const SPAWNED: u64 = 10_000;

/// An actor that counts the tells of a run, and says when it has had all of its own.
struct Counter {
    handled: u64,
    all: Countdown,
}

impl Behavior for Counter {
    type Tell = u64;
    type Question = ();
    type Answer = ();
    const WAITS: bool = false;

    async fn told(&mut self, number: u64) -> Result<Then, Failure> {
        self.handled += number;
        if self.handled == TELLS_EACH {
            self.all.add(std::mem::take(&mut self.handled));
        }
        Ok(Then::Continue)
    }

    async fn asked(&mut self, (): ()) -> Result<(), Failure> {
        Ok(())
    }
}

/// One task tells each of many actors, one after the other and then all again.
pub(crate) struct FanOut<S: System> {
    actors: Vec<S::Ref<Counter>>,
    all: Countdown,
}

impl<S: System> Program<S> for FanOut<S> {
    async fn set_up(system: &S) -> Result<Self, Failure> {
        let all = Countdown::from(0);
        let mut actors = Vec::new();
        for _ in 0..FAN_OUT_ACTORS {
            actors.push(system.spawn(Counter { handled: 0, all: all.clone() }).await?);
        }
        Ok(FanOut { actors, all })
    }

    async fn run(&mut self) -> Result<Duration, Failure> {
        self.all.restart(FAN_OUT_ACTORS);
        let start = Instant::now();
        for _ in 0..TELLS_EACH {
            for actor in &self.actors {
                S::tell(actor, 1).await?;
            }
        }
        self.all.reaches(FAN_OUT_TELLS).await?;
        Ok(start.elapsed())
    }
}

/// An actor that hands a token on.
struct Link<S: System> {
    next: Option<S::Ref<Link<S>>>,
    hops: u64,
    done: Countdown,
}

enum Token<S: System> {
    Next(S::Ref<Link<S>>),
    Left(u64),
}

impl<S: System> Behavior for Link<S> {
    type Tell = Token<S>;
    type Question = ();
    type Answer = u64;
    const WAITS: bool = true;

    async fn told(&mut self, token: Token<S>) -> Result<Then, Failure> {
        match token {
            Token::Next(next) => self.next = Some(next),
            Token::Left(0) => self.done.add(0),
            Token::Left(left) => {
                self.hops += 1;
                if let Some(next) = &self.next {
                    S::tell(next, Token::Left(left - 1)).await?;
                }
            }
        }
        Ok(Then::Continue)
    }

    /// Returns how often it has handed the token on.
    async fn asked(&mut self, (): ()) -> Result<u64, Failure> {
        Ok(self.hops)
    }
}

/// A token goes round a ring of actors.
pub(crate) struct Ring<S: System> {
    links: Vec<S::Ref<Link<S>>>,
    done: Countdown,
    hops: u64,
}

impl<S: System> Program<S> for Ring<S> {
    async fn set_up(system: &S) -> Result<Self, Failure> {
        let done = Countdown::from(0);
        let mut links = Vec::new();
        for _ in 0..RING_ACTORS {
            let link = Link { next: None, hops: 0, done: done.clone() };
            links.push(system.spawn(link).await?);
        }
        for (link, next) in links.iter().zip(links.iter().cycle().skip(1)) {
            S::tell(link, Token::Next(next.clone())).await?;
        }
        Ok(Ring { links, done, hops: 0 })
    }

    async fn run(&mut self) -> Result<Duration, Failure> {
        self.done.restart(1);
        let start = Instant::now();
        S::tell(&self.links[0], Token::Left(HOPS)).await?;
        self.done.reaches(0).await?;
        let time = start.elapsed();
        self.hops += HOPS;
        for link in &self.links {
            // The ring is walked in whole rounds: each actor has its equal share.
            if S::ask(link, ()).await? != self.hops / RING_ACTORS {
                return Err(Failure::Failed("the token did not visit each actor alike".into()));
            }
        }
        Ok(time)
    }
}

/// An actor that does nothing, and counts when its state is dropped.
struct Idle(Countdown);

impl Behavior for Idle {
    type Tell = ();
    type Question = ();
    type Answer = ();
    const WAITS: bool = false;

    async fn told(&mut self, (): ()) -> Result<Then, Failure> {
        Ok(Then::Continue)
    }

    async fn asked(&mut self, (): ()) -> Result<(), Failure> {
        Ok(())
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.0.add(1);
    }
}

/// One task spawns many actors. The last one's answer ends the time; then all are stopped.
pub(crate) struct Spawning<S: System>(S);

impl<S: System> Program<S> for Spawning<S> {
    async fn set_up(system: &S) -> Result<Self, Failure> {
        Ok(Spawning(system.clone()))
    }

    async fn run(&mut self) -> Result<Duration, Failure> {
        let ended = Countdown::from(SPAWNED);
        let mut actors = Vec::with_capacity(SPAWNED as usize);
        let start = Instant::now();
        for _ in 0..SPAWNED {
            actors.push(self.0.spawn(Idle(ended.clone())).await?);
        }
        if let Some(last) = actors.last() {
            S::ask(last, ()).await?;
        }
        let time = start.elapsed();
        actors.into_iter().for_each(S::stop);
        ended.reaches(SPAWNED).await?;
        Ok(time)
    }
}

/// Spawns `actors` actors that wait, and stops them; then the same again. Returns for each actor
/// the bytes by which the process has grown, the nanoseconds of its start and of its end, the bytes
/// that the process keeps when all have ended, and the bytes that the second crowd adds, although
/// the first one has given memory back.
pub(crate) async fn idle<S: System>(
    system: &S,
    supervised: bool,
    actors: usize,
) -> Result<Vec<f64>, Failure> {
    let before = memory()?;
    let first = come_and_go(system, supervised, actors).await?;
    let left = settled().await?;
    let second = come_and_go(system, supervised, actors).await?;
    let each = |value: f64| value / actors as f64;
    let nanoseconds = |time: Duration| each(time.as_nanos() as f64);
    Ok(vec![
        each(first.memory - before),
        nanoseconds(first.starts),
        nanoseconds(first.ends),
        each(left - before),
        each(second.memory - first.memory),
    ])
}

/// The measurements of many idle actors together.
struct Crowd {
    /// The bytes of memory of the process while they waited.
    memory: f64,
    starts: Duration,
    ends: Duration,
}

/// Spawns `actors` actors, measures the memory, and stops them.
async fn come_and_go<S: System>(
    system: &S,
    supervised: bool,
    actors: usize,
) -> Result<Crowd, Failure> {
    let ended = Countdown::from(actors as u64);
    let make = {
        let ended = ended.clone();
        move || Idle(ended.clone())
    };
    let start = Instant::now();
    let family = if supervised {
        system.supervise(actors, make).await?
    } else {
        spawn_all(system, actors, make).await?
    };
    let starts = start.elapsed();
    let memory = settled().await?;
    let start = Instant::now();
    family.stop();
    ended.reaches(actors as u64).await?;
    Ok(Crowd { memory, starts, ends: start.elapsed() })
}
