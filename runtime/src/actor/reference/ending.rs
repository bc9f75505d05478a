//! Ending an actor, wherever it is.

use super::ActorRef;
use crate::actor::Handlers;
use crate::actor::destination::View;
use crate::error::Cause;
use crate::remote::{self, SendKind, Waiter, signals};
use crate::resident::{Halt, Resident};

impl<A: Handlers> ActorRef<A> {
    /// Has the actor stop after the message it is handling; what waits in its mailbox becomes dead
    /// letters. Returns when the request is on its way, see
    /// [`wait_stopped`](ActorRef::wait_stopped). Stopping an actor that has stopped is no error.
    ///
    /// # Errors
    /// [`Cause`] when the actor cannot be reached, [`Cause::NoSuchActor`] when the reference leads
    /// to whatever has a name on another node, and nothing has it.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, the actor goes on.
    pub async fn stop(&self) -> Result<(), Cause> {
        self.halt(Halt::Stop).await
    }

    /// Has the actor stop as [`stop`](ActorRef::stop) does, without waiting: on another node only
    /// if there is a link.
    ///
    /// # Errors
    /// As [`stop`](ActorRef::stop); [`Cause::LinkDown`] or [`Cause::Opening`] where `stop` would
    /// wait.
    pub fn request_stop(&self) -> Result<(), Cause> {
        let asked = match self.destination().now().view() {
            View::Local(near) => {
                near.cell().halt(Halt::Stop);
                Ok(())
            }
            View::Dead(cause) => Err(cause.clone()),
            View::Remote(sender, _) => remote::try_signal(sender, signals::STOP),
        };
        self.unless_ended(asked)
    }

    /// Has the actor handle what it accepted so far, accept nothing more, and stop.
    ///
    /// # Errors
    /// As [`stop`](ActorRef::stop).
    ///
    /// # Cancel safety
    /// As [`stop`](ActorRef::stop).
    pub async fn drain(&self) -> Result<(), Cause> {
        self.halt(Halt::Drain).await
    }

    /// Ends the actor where its running handler waits next; the handler and the actor are dropped,
    /// and `on_stop` does not run.
    ///
    /// # Errors
    /// As [`stop`](ActorRef::stop).
    ///
    /// # Cancel safety
    /// As [`stop`](ActorRef::stop).
    pub async fn kill(&self) -> Result<(), Cause> {
        self.halt(Halt::Kill).await
    }

    async fn halt(&self, halt: Halt) -> Result<(), Cause> {
        let asked = self.request(halt).await;
        self.unless_ended(asked)
    }

    fn unless_ended(&self, asked: Result<(), Cause>) -> Result<(), Cause> {
        match asked {
            Err(Cause::Stopped) => Ok(()),
            // An identity was an actor's once: it has ended. A name may never have been one's.
            Err(Cause::NoSuchActor) if self.address().identity().is_some() => Ok(()),
            other => other,
        }
    }

    async fn request(&self, halt: Halt) -> Result<(), Cause> {
        match self.destination().now().view() {
            View::Local(near) => {
                near.cell().halt(halt);
                Ok(())
            }
            View::Dead(cause) => Err(cause.clone()),
            View::Remote(sender, _) => {
                let signal = match halt {
                    Halt::Stop => SendKind::UrgentSignal(signals::STOP),
                    Halt::Kill => SendKind::UrgentSignal(signals::KILL),
                    Halt::Drain => SendKind::Signal(signals::DRAIN),
                };
                remote::signal(sender, signal, Waiter::default()).await
            }
        }
    }
}
