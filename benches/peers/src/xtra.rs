//! xtra, within a process: an address of an actor with a bounded mailbox.

use ringpost_benches::system::{Then, or_exit};
use ringpost_benches::{Behavior, Failure, System};
use xtra::{Actor, Address, Context, Handler, Mailbox};

/// Most messages that may wait, as many as in a mailbox of Ringpost.
const CAPACITY: usize = 1024;

/// An actor with a behavior.
pub(crate) struct Behaving<B>(B);

struct Told<B: Behavior>(B::Tell);
struct Asked<B: Behavior>(B::Question);

impl<B: Behavior> Actor for Behaving<B> {
    type Stop = ();

    async fn stopped(self) {}
}

impl<B: Behavior> Handler<Told<B>> for Behaving<B> {
    type Return = ();

    async fn handle(&mut self, message: Told<B>, cx: &mut Context<Self>) {
        if or_exit(self.0.told(message.0).await) == Then::End {
            cx.stop_self();
        }
    }
}

impl<B: Behavior> Handler<Asked<B>> for Behaving<B> {
    type Return = B::Answer;

    async fn handle(&mut self, message: Asked<B>, _: &mut Context<Self>) -> B::Answer {
        or_exit(self.0.asked(message.0).await)
    }
}

/// The contestant.
#[derive(Clone)]
pub(crate) struct Xtra;

impl System for Xtra {
    type Ref<B: Behavior> = Address<Behaving<B>>;

    async fn start() -> Result<Self, Failure> {
        Ok(Xtra)
    }

    async fn spawn<B: Behavior>(&self, behavior: B) -> Result<Self::Ref<B>, Failure> {
        Ok(xtra::spawn_tokio(Behaving(behavior), Mailbox::bounded(CAPACITY)))
    }

    async fn tell<B: Behavior>(to: &Self::Ref<B>, message: B::Tell) -> Result<(), Failure> {
        // This waits until there is room, not until the message is handled.
        to.send(Told::<B>(message)).detach().await.map(drop).map_err(Failure::of)
    }

    async fn ask<B: Behavior>(
        to: &Self::Ref<B>,
        question: B::Question,
    ) -> Result<B::Answer, Failure> {
        to.send(Asked::<B>(question)).await.map_err(Failure::of)
    }

    fn stop<B: Behavior>(actor: Self::Ref<B>) {
        drop(actor);
    }
}
