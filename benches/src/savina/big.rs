//! Big: each actor pings one actor after the other at random, the next one when the pong is there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Random;
use crate::failure::Failure;
use crate::repeat::Program;
use crate::system::{Behavior, Countdown, System, Then};

const ACTORS: usize = 120;
const PINGS: u64 = 2_000;

struct Player<S: System> {
    number: usize,
    all: Arc<[S::Ref<Player<S>>]>,
    pongs: u64,
    random: Random,
    done: Countdown,
}

enum Message<S: System> {
    Meet(Arc<[S::Ref<Player<S>>]>),
    Start,
    /// From the player of this number.
    Ping(usize),
    Pong,
    Exit,
}

impl<S: System> Player<S> {
    async fn ping(&mut self) -> Result<(), Failure> {
        let other = self.random.below(self.all.len());
        S::tell(&self.all[other], Message::Ping(self.number)).await
    }
}

impl<S: System> Behavior for Player<S> {
    type Tell = Message<S>;
    type Question = ();
    type Answer = ();
    const WAITS: bool = true;

    async fn told(&mut self, message: Message<S>) -> Result<Then, Failure> {
        match message {
            Message::Meet(all) => self.all = all,
            Message::Start => self.ping().await?,
            Message::Ping(from) => S::tell(&self.all[from], Message::Pong).await?,
            Message::Pong => {
                self.pongs += 1;
                if self.pongs < PINGS {
                    self.ping().await?;
                } else {
                    self.done.add(self.pongs);
                }
            }
            Message::Exit => return Ok(Then::End),
        }
        Ok(Then::Continue)
    }

    async fn asked(&mut self, (): ()) -> Result<(), Failure> {
        Ok(())
    }
}

pub(crate) struct Big<S: System>(S);

impl<S: System> Program<S> for Big<S> {
    async fn set_up(system: &S) -> Result<Self, Failure> {
        Ok(Big(system.clone()))
    }

    async fn run(&mut self) -> Result<Duration, Failure> {
        let (done, start) = (Countdown::from(ACTORS as u64), Instant::now());
        let mut all = Vec::new();
        for number in 0..ACTORS {
            let (random, done) = (Random(number as u64), done.clone());
            let player = Player { number, all: Arc::new([]), pongs: 0, random, done };
            all.push(self.0.spawn(player).await?);
        }
        let all: Arc<[S::Ref<Player<S>>]> = all.into();
        for player in &*all {
            S::tell(player, Message::Meet(all.clone())).await?;
        }
        // Each knows all others before the first ping.
        for player in &*all {
            S::tell(player, Message::Start).await?;
        }
        done.reaches(ACTORS as u64 * PINGS).await?;
        for player in &*all {
            S::tell(player, Message::Exit).await?;
        }
        Ok(start.elapsed())
    }
}
