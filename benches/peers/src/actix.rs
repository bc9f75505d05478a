//! actix, within a process: an address of an actor on an arbiter, which is a thread.
//!
//! With one worker the sender runs on the same arbiter. With two the actor has a thread of its own,
//! as an actor of actix never moves, and the sender has another.

use std::thread;
use std::time::Duration;

use actix::{Actor, Addr, Arbiter, Context, Handler, Message, System};
use ringpost_benches::figure::Measurement;
use ringpost_benches::program::LocalEntry;
use ringpost_benches::{Failure, Local, local};
use tokio::sync::oneshot;

/// Returns the entry of the contestant.
pub(crate) fn entry() -> LocalEntry {
    LocalEntry {
        name: "actix",
        measure: |measurement: &Measurement, time: Duration| {
            if measurement.workers == 1 {
                return System::new().block_on(local::measure::<Counter>(measurement, time));
            }
            (LocalEntry::of::<Counter>("actix").measure)(measurement, time)
        },
    }
}

#[derive(Default)]
pub(crate) struct CountingActor {
    handled: u64,
}

impl Actor for CountingActor {
    type Context = Context<Self>;
}

#[derive(Message)]
#[rtype(result = "()")]
struct Count(u64);

#[derive(Message)]
#[rtype(result = "u64")]
struct Same(u64);

#[derive(Message)]
#[rtype(result = "u64")]
struct Counted;

impl Handler<Count> for CountingActor {
    type Result = ();

    fn handle(&mut self, message: Count, _: &mut Context<Self>) {
        self.handled += u64::from(message.0 < u64::MAX);
    }
}

impl Handler<Same> for CountingActor {
    type Result = u64;

    fn handle(&mut self, message: Same, _: &mut Context<Self>) -> u64 {
        message.0
    }
}

impl Handler<Counted> for CountingActor {
    type Result = u64;

    fn handle(&mut self, _: Counted, _: &mut Context<Self>) -> u64 {
        self.handled
    }
}

/// The sending end.
#[derive(Clone)]
pub(crate) struct Counter(Addr<CountingActor>);

impl Local for Counter {
    /// `do_send` ignores the bound of the mailbox.
    const BARRIER_EVERY: Option<u64> = Some(1024);

    async fn start() -> Result<Self, Failure> {
        if Arbiter::try_current().is_some() {
            return Ok(Counter(CountingActor::default().start()));
        }
        let (sender, receiver) = oneshot::channel();
        thread::spawn(move || {
            System::new().block_on(async move {
                // If the receiver is gone, the measurement has been given up.
                drop(sender.send(CountingActor::default().start()));
                std::future::pending::<()>().await;
            });
        });
        Ok(Counter(receiver.await.map_err(Failure::of)?))
    }

    async fn ask(&self, number: u64) -> Result<u64, Failure> {
        self.0.send(Same(number)).await.map_err(Failure::of)
    }

    async fn tell(&self, number: u64) -> Result<(), Failure> {
        self.0.do_send(Count(number));
        Ok(())
    }

    async fn handled(&self) -> Result<u64, Failure> {
        self.0.send(Counted).await.map_err(Failure::of)
    }
}
