//! Ending an actor, and waiting for its end, wherever it is.

use super::ActorRef;
use crate::actor::Handlers;
use crate::actor::destination::View;
use crate::actor::wait::Wait;
use crate::error::Cause;
use crate::exit::ActorExit;
use crate::remote::{self, SendKind, Waiter, signals};
use crate::resident::{Ended, Halt, Resident};

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

    /// Waits until the actor has ended, its state is dropped and its name is free. An actor that
    /// waits for itself waits forever.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn wait_stopped(&self) -> ActorExit {
        match self.destination().now().view() {
            View::Local(near) => {
                let _wait = Wait::for_end(near.cell());
                Ended::of(near.shared()).await
            }
            View::Remote(sender, _) => remote::closed(sender).await,
            View::Dead(_) => ActorExit::NoActor,
        }
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
