//! actix, within a process: addresses of actors on an arbiter, which is a thread.
//!
//! With one worker the sender runs on the same arbiter. With two the actors have a thread of their
//! own, as an actor of actix never moves, and the sender has another.

use std::future::pending;
use std::thread;
use std::time::Duration;

use actix::{
    Actor, Addr, Arbiter, ArbiterHandle, Context, Handler, Message, MessageResult, Supervised,
    Supervisor, System as ActixSystem,
};
use futures::FutureExt;
use ringpost_benches::figure::Measurement;
use ringpost_benches::program::LocalEntry;
use ringpost_benches::system::{Family, Then, or_exit};
use ringpost_benches::{Behavior, Failure, System, local};
use tokio::sync::oneshot;

/// Returns the entry of the contestant.
pub(crate) fn entry() -> LocalEntry {
    LocalEntry {
        name: "actix",
        measure: |measurement: &Measurement, time: Duration| {
            if measurement.workers == 1 {
                return ActixSystem::new()
                    .block_on(local::measure::<OnArbiter>(measurement, time));
            }
            (LocalEntry::of::<OnArbiter>("actix").measure)(measurement, time)
        },
    }
}

/// An actor with a behavior.
pub(crate) struct Behaving<B>(B);

impl<B> Unpin for Behaving<B> {}

impl<B: Behavior> Actor for Behaving<B> {
    type Context = Context<Self>;
}

impl<B: Behavior> Supervised for Behaving<B> {}

struct Told<B: Behavior>(B::Tell);
struct Asked<B: Behavior>(B::Question);

impl<B: Behavior> Message for Told<B> {
    type Result = ();
}

impl<B: Behavior> Message for Asked<B> {
    type Result = B::Answer;
}

/// Returns the output of a handler that does not wait. In actix a waiting one is written otherwise.
fn at_once<T>(handling: impl Future<Output = Result<T, Failure>>) -> T {
    let waits = || Err(Failure::Failed("a handler of actix waits".into()));
    or_exit(handling.now_or_never().unwrap_or_else(waits))
}

impl<B: Behavior> Handler<Told<B>> for Behaving<B> {
    type Result = ();

    fn handle(&mut self, message: Told<B>, cx: &mut Context<Self>) {
        if at_once(self.0.told(message.0)) == Then::End {
            actix::ActorContext::stop(cx);
        }
    }
}

impl<B: Behavior> Handler<Asked<B>> for Behaving<B> {
    type Result = MessageResult<Asked<B>>;

    fn handle(&mut self, message: Asked<B>, _: &mut Context<Self>) -> Self::Result {
        MessageResult(at_once(self.0.asked(message.0)))
    }
}

/// The contestant: the arbiter of its actors.
#[derive(Clone)]
pub(crate) struct OnArbiter(ArbiterHandle);

impl System for OnArbiter {
    /// `do_send` ignores the bound of the mailbox.
    const BARRIER_EVERY: Option<u64> = Some(1024);
    type Ref<B: Behavior> = Addr<Behaving<B>>;

    async fn start() -> Result<Self, Failure> {
        if let Some(arbiter) = Arbiter::try_current() {
            return Ok(OnArbiter(arbiter));
        }
        let (sender, receiver) = oneshot::channel();
        thread::spawn(move || {
            ActixSystem::new().block_on(async move {
                // If the receiver is gone, the measurement has been given up.
                drop(sender.send(Arbiter::current()));
                pending::<()>().await;
            });
        });
        receiver.await.map(OnArbiter).map_err(Failure::of)
    }

    async fn spawn<B: Behavior>(&self, behavior: B) -> Result<Self::Ref<B>, Failure> {
        Ok(match Arbiter::try_current() {
            Some(_) => Behaving(behavior).start(),
            None => Behaving::start_in_arbiter(&self.0, |_| Behaving(behavior)),
        })
    }

    async fn supervise<B: Behavior>(
        &self,
        count: usize,
        make: impl Fn() -> B + Send + Sync + 'static,
    ) -> Result<Family, Failure> {
        let mut actors = Vec::with_capacity(count);
        for _ in 0..count {
            let actor = Behaving(make());
            actors.push(Supervisor::start_in_arbiter(&self.0, |_| actor));
        }
        Ok(Family::new(move || drop(actors)))
    }

    async fn tell<B: Behavior>(to: &Self::Ref<B>, message: B::Tell) -> Result<(), Failure> {
        to.do_send(Told(message));
        Ok(())
    }

    async fn ask<B: Behavior>(
        to: &Self::Ref<B>,
        question: B::Question,
    ) -> Result<B::Answer, Failure> {
        to.send(Asked(question)).await.map_err(Failure::of)
    }

    fn stop<B: Behavior>(actor: Self::Ref<B>) {
        drop(actor);
    }
}
