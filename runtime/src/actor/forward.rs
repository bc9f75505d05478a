//! Answers that another actor gives.

use std::fmt::Display;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::destination::{Destination, View};
use super::pool::Pool;
use super::port::Find;
use super::{Accepts, ActorRef, Includes, Recipient, Ref, Reply, ReplyTo};
use crate::address::Address;
use crate::error::{AskError, Cause};
use crate::limits;
use crate::message::Message;
use crate::spans;

/// A reference that can be asked `M`, and answers `R`: an [`ActorRef`], a [`Recipient`], a [`Ref`]
/// or a [`Pool`]. Only this crate has any.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be asked `{M}` with the answer `{R}`",
    note = "the answer of the other actor has to be of the type that the asker waits for"
)]
pub trait Answers<M, R>: sealed::Answers<M, R> {}

impl<M, R, T: sealed::Answers<M, R>> Answers<M, R> for T {}

mod sealed {
    use super::{Address, AskError, Cause, Duration, Handle};

    pub trait Answers<M, R> {
        /// Returns where the actor is.
        fn place(&self) -> &Address;

        /// Returns the runtime of the node that asks.
        ///
        /// # Errors
        /// A reference to no actor has none.
        fn runtime(&self) -> Result<Handle, Cause>;

        /// Asks, for this long.
        fn asked(
            &self,
            message: M,
            timeout: Duration,
        ) -> impl Future<Output = Result<R, AskError>> + Send + 'static;
    }
}

impl<B, M: Message, R: Reply> sealed::Answers<M, R> for ActorRef<B>
where
    B: Accepts<M, Reply = R>,
{
    fn place(&self) -> &Address {
        self.address()
    }

    fn runtime(&self) -> Result<Handle, Cause> {
        runtime(self.destination())
    }

    fn asked(
        &self,
        message: M,
        timeout: Duration,
    ) -> impl Future<Output = Result<R, AskError>> + Send + 'static {
        self.ask(message).timeout(timeout).into_ask()
    }
}

impl<M: Message, R: Reply> sealed::Answers<M, R> for Recipient<M, R> {
    fn place(&self) -> &Address {
        self.address()
    }

    fn runtime(&self) -> Result<Handle, Cause> {
        runtime(self.destination())
    }

    fn asked(
        &self,
        message: M,
        timeout: Duration,
    ) -> impl Future<Output = Result<R, AskError>> + Send + 'static {
        self.ask(message).timeout(timeout).into_ask()
    }
}

impl<P, M: Message, R: Reply> sealed::Answers<M, R> for Ref<P>
where
    P: Includes<M, Reply = R>,
{
    fn place(&self) -> &Address {
        self.address()
    }

    fn runtime(&self) -> Result<Handle, Cause> {
        runtime(self.destination())
    }

    fn asked(
        &self,
        message: M,
        timeout: Duration,
    ) -> impl Future<Output = Result<R, AskError>> + Send + 'static {
        self.ask(message).timeout(timeout).into_ask()
    }
}

impl<A, M: Message, R: Reply> sealed::Answers<M, R> for Pool<A>
where
    A: Accepts<M, Reply = R>,
{
    fn place(&self) -> &Address {
        self.named().address()
    }

    fn runtime(&self) -> Result<Handle, Cause> {
        runtime(self.named().destination())
    }

    fn asked(
        &self,
        message: M,
        timeout: Duration,
    ) -> impl Future<Output = Result<R, AskError>> + Send + 'static {
        self.ask(message).timeout(timeout).into_ask()
    }
}

fn runtime<P: Find>(to: &Destination<P>) -> Result<Handle, Cause> {
    match (to.deadlines(), to.view()) {
        (Some(deadlines), _) => Ok(deadlines.runtime().clone()),
        (None, View::Dead(cause)) => Err(cause.clone()),
        (None, _) => Err(Cause::Stopped),
    }
}

impl<R: Reply> ReplyTo<R> {
    /// Has another actor answer, of this node or of another, or a pool: it is asked `message`, and
    /// its answer goes to the asker. It is asked until the time-out of the asker's own ask, also
    /// when that is dropped before; without an answer the asker gets
    /// [`NoReply`](crate::AskCause::NoReply), and the log says why.
    ///
    /// The way leads through this node, and goes on when the actor that called this ends.
    pub fn forward<M: Message>(self, to: &impl Answers<M, R>, message: M) {
        let runtime = match to.runtime() {
            Ok(runtime) => runtime,
            Err(cause) => return unanswered(to.place(), &cause),
        };
        let left = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
        let left = self.deadline().map_or(limits::ASK_TIMEOUT, left);
        // It is sent by the task below, in the scope of the handler that forwards it.
        let (asked, actor) = (spans::keep(to.asked(message, left)), to.place().clone());
        runtime.spawn(async move {
            match asked.await {
                Ok(answer) => self.send(answer),
                Err(error) => unanswered(&actor, &error),
            }
        });
    }
}

fn unanswered(actor: &Address, error: &dyn Display) {
    tracing::warn!(%actor, %error, "no answer to an ask that was forwarded to it");
}
