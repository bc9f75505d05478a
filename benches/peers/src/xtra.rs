//! xtra, within a process: an address of an actor with a bounded mailbox.

use ringpost_benches::{Failure, Local};
use xtra::{Address, Context, Handler, Mailbox};

/// Most messages that may wait, as many as in a mailbox of Ringpost.
const CAPACITY: usize = 1024;

#[derive(Default, xtra::Actor)]
pub(crate) struct Actor {
    handled: u64,
}

struct Count(u64);
struct Same(u64);
struct Counted;

impl Handler<Count> for Actor {
    type Return = ();

    async fn handle(&mut self, message: Count, _: &mut Context<Self>) {
        self.handled += u64::from(message.0 < u64::MAX);
    }
}

impl Handler<Same> for Actor {
    type Return = u64;

    async fn handle(&mut self, message: Same, _: &mut Context<Self>) -> u64 {
        message.0
    }
}

impl Handler<Counted> for Actor {
    type Return = u64;

    async fn handle(&mut self, _: Counted, _: &mut Context<Self>) -> u64 {
        self.handled
    }
}

/// The sending end.
#[derive(Clone)]
pub(crate) struct Counter(Address<Actor>);

impl Local for Counter {
    async fn start() -> Result<Self, Failure> {
        Ok(Counter(xtra::spawn_tokio(Actor::default(), Mailbox::bounded(CAPACITY))))
    }

    async fn ask(&self, number: u64) -> Result<u64, Failure> {
        self.0.send(Same(number)).await.map_err(Failure::of)
    }

    async fn tell(&self, number: u64) -> Result<(), Failure> {
        // This waits until there is room, not until the message is handled.
        self.0.send(Count(number)).detach().await.map(drop).map_err(Failure::of)
    }

    async fn handled(&self) -> Result<u64, Failure> {
        self.0.send(Counted).await.map_err(Failure::of)
    }
}
