//! Ending an actor, on any node.

use super::ActorRef;
use crate::actor::Handlers;
use crate::actor::send::destination::DestinationView;
use crate::error::Cause;
use crate::remote::{self, SendKind, Waiter, signals};
use crate::resident::Halt;

impl<A: Handlers> ActorRef<A> {
    /// Stops the actor after the message that it is handling; the messages in its mailbox become
    /// dead letters. Returns when the request is on its way; to wait for the end, see
    /// [`wait_stopped`](ActorRef::wait_stopped). Stopping an actor that has stopped is no error.
    ///
    /// # Errors
    /// [`Cause`] if the actor cannot be reached; [`Cause::NoSuchActor`] if the reference follows a
    /// name on another node, and no actor has the name.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, the actor goes on.
    pub async fn stop(&self) -> Result<(), Cause> {
        self.halt(Halt::Stop).await
    }

    /// Stops the actor as [`stop`](ActorRef::stop) does, without waiting: on another node only if
    /// there is a link.
    ///
    /// # Errors
    /// The errors of [`stop`](ActorRef::stop); [`Cause::LinkDown`] or [`Cause::Opening`] if `stop`
    /// would wait.
    pub fn request_stop(&self) -> Result<(), Cause> {
        let asked = match self.destination().now().view() {
            DestinationView::Local(near) => {
                near.cell().resident().halt(Halt::Stop);
                Ok(())
            }
            DestinationView::Dead(cause) => Err(cause.clone()),
            DestinationView::Remote(sender, _) => remote::try_signal(sender, signals::STOP),
        };
        self.unless_ended(asked)
    }

    /// Drains the actor: it accepts nothing more, handles the messages that it has accepted, and
    /// stops.
    ///
    /// # Errors
    /// The errors of [`stop`](ActorRef::stop).
    ///
    /// # Cancel safety
    /// See [`stop`](ActorRef::stop).
    pub async fn drain(&self) -> Result<(), Cause> {
        self.halt(Halt::Drain).await
    }

    /// Ends the actor at the next point where its running handler waits. The handler and the actor
    /// are dropped, and `on_stop` does not run.
    ///
    /// # Errors
    /// The errors of [`stop`](ActorRef::stop).
    ///
    /// # Cancel safety
    /// See [`stop`](ActorRef::stop).
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
            // An identity belonged to an actor, which has ended. A name may never have belonged to
            // one.
            Err(Cause::NoSuchActor) if self.address().identity().is_some() => Ok(()),
            other => other,
        }
    }

    async fn request(&self, halt: Halt) -> Result<(), Cause> {
        match self.destination().now().view() {
            DestinationView::Local(near) => {
                near.cell().resident().halt(halt);
                Ok(())
            }
            DestinationView::Dead(cause) => Err(cause.clone()),
            DestinationView::Remote(sender, _) => {
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
