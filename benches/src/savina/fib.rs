//! Fibonacci: each actor spawns two others for the two smaller numbers, and ends when both have
//! answered it.

use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::repeat::Program;
use crate::system::{Behavior, Countdown, System, Then};

const NUMBER: u64 = 23;
const ANSWER: u64 = 28_657;

/// The actor for one number.
struct Summand<S: System> {
    system: S,
    parent: Parent<S>,
    sum: u64,
    answers: u32,
}

/// The place of an answer.
enum Parent<S: System> {
    Actor(S::Ref<Summand<S>>),
    Root(Countdown),
}

enum Message<S: System> {
    /// To an actor, with its own reference.
    Compute(u64, S::Ref<Summand<S>>),
    Answer(u64),
}

async fn compute<S: System>(system: &S, number: u64, parent: Parent<S>) -> Result<(), Failure> {
    let summand = Summand { system: system.clone(), parent, sum: 0, answers: 0 };
    let actor = system.spawn(summand).await?;
    S::tell(&actor, Message::Compute(number, actor.clone())).await
}

impl<S: System> Summand<S> {
    async fn answer(&self, number: u64) -> Result<Then, Failure> {
        match &self.parent {
            Parent::Actor(parent) => S::tell(parent, Message::Answer(number)).await?,
            Parent::Root(done) => done.add(number),
        }
        Ok(Then::End)
    }
}

impl<S: System> Behavior for Summand<S> {
    type Tell = Message<S>;
    type Question = ();
    type Answer = ();
    const WAITS: bool = true;

    async fn told(&mut self, message: Message<S>) -> Result<Then, Failure> {
        match message {
            Message::Compute(number @ 0..=2, _) => self.answer(number.min(1)).await,
            Message::Compute(number, me) => {
                compute(&self.system, number - 1, Parent::Actor(me.clone())).await?;
                compute(&self.system, number - 2, Parent::Actor(me)).await?;
                Ok(Then::Continue)
            }
            Message::Answer(number) => {
                self.sum += number;
                self.answers += 1;
                if self.answers == 2 { self.answer(self.sum).await } else { Ok(Then::Continue) }
            }
        }
    }

    async fn asked(&mut self, (): ()) -> Result<(), Failure> {
        Ok(())
    }
}

pub(crate) struct Fib<S: System>(S);

impl<S: System> Program<S> for Fib<S> {
    async fn set_up(system: &S) -> Result<Self, Failure> {
        Ok(Fib(system.clone()))
    }

    async fn run(&mut self) -> Result<Duration, Failure> {
        let (done, start) = (Countdown::from(1), Instant::now());
        compute(&self.0, NUMBER, Parent::Root(done.clone())).await?;
        done.reaches(ANSWER).await?;
        Ok(start.elapsed())
    }
}
