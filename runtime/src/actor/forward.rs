//! Answers by another actor: [`ReplyTo::forward`].

use std::time::Duration;

use futures::future::BoxFuture;
use ringpost_transport::log;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::pool::Pool;
use super::send::destination::{Destination, DestinationView};
use super::send::port::{AskPort, LocalHandle};
use super::{Accepts, ActorRef, Ask, Includes, Recipient, Ref, Reply, ReplyTo};
use crate::address::Address;
use crate::error::{AskCause, AskError, Cause};
use crate::limits;
use crate::message::Message;
use crate::spans;
use crate::waits::hand_on;

/// A reference that can be asked `M` and answers `R`: an [`ActorRef`], a [`Recipient`], a [`Ref`]
/// or a [`Pool`]. Implemented by this crate only.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be asked `{M}` with the answer `{R}`",
    note = "the answer of the other actor has to be of the type that the asker waits for"
)]
pub trait Answers<M, R>: sealed::Answers<M, R> {}

impl<M, R, T: sealed::Answers<M, R>> Answers<M, R> for T {}

mod sealed {
    use super::{AskError, Duration, ForwardedAsk};

    pub trait Answers<M, R> {
        /// Prepares an ask with this timeout.
        ///
        /// # Errors
        /// If the reference leads to no actor: then there is no runtime for the ask.
        fn begin(&self, message: M, timeout: Duration) -> Result<ForwardedAsk<R>, AskError>;
    }
}

/// An ask to be sent, and the runtime of the node that sends it.
pub struct ForwardedAsk<R> {
    runtime: Handle,
    asked: BoxFuture<'static, Result<R, AskError>>,
}

impl<B, M: Message, R: Reply> sealed::Answers<M, R> for ActorRef<B>
where
    B: Accepts<M, Reply = R>,
{
    fn begin(&self, message: M, timeout: Duration) -> Result<ForwardedAsk<R>, AskError> {
        begin(self.destination(), self.address(), message, timeout)
    }
}

impl<M: Message, R: Reply> sealed::Answers<M, R> for Recipient<M, R> {
    fn begin(&self, message: M, timeout: Duration) -> Result<ForwardedAsk<R>, AskError> {
        begin(self.destination(), self.address(), message, timeout)
    }
}

impl<P, M: Message, R: Reply> sealed::Answers<M, R> for Ref<P>
where
    P: Includes<M, Reply = R>,
{
    fn begin(&self, message: M, timeout: Duration) -> Result<ForwardedAsk<R>, AskError> {
        begin(self.destination(), self.address(), message, timeout)
    }
}

impl<A, M: Message, R: Reply> sealed::Answers<M, R> for Pool<A>
where
    A: Accepts<M, Reply = R>,
{
    fn begin(&self, message: M, timeout: Duration) -> Result<ForwardedAsk<R>, AskError> {
        let asked = Box::pin(self.ask(message).timeout(timeout).into_ask());
        Ok(ForwardedAsk { runtime: self.runtime().clone(), asked })
    }
}

fn begin<P, M: Message>(
    to: &Destination<P>,
    address: &Address,
    message: M,
    timeout: Duration,
) -> Result<ForwardedAsk<P::Reply>, AskError>
where
    P: AskPort<M> + Clone + Send + Sync + 'static,
    P::Reply: Reply,
{
    let runtime = runtime(to)
        .map_err(|cause| AskError::new(AskCause::NotSent(cause), address.clone(), M::NAME))?;
    let asked = Box::pin(Ask::new(to, message, Some(timeout)).into_ask());
    Ok(ForwardedAsk { runtime, asked })
}

/// Returns the runtime of the node that sends to an actor.
///
/// # Errors
/// If the reference leads to no actor: then there is no runtime.
pub(super) fn runtime<P: LocalHandle>(to: &Destination<P>) -> Result<Handle, Cause> {
    match (to.deadlines(), to.view()) {
        (Some(deadlines), _) => Ok(deadlines.runtime().clone()),
        (None, DestinationView::Dead(cause)) => Err(cause.clone()),
        (None, _) => Err(Cause::Stopped),
    }
}

impl<R: Reply> ReplyTo<R> {
    /// Forwards the ask to another actor, on any node, or to a pool: it is asked `message`, and its
    /// answer goes to the asker. The forwarded ask ends at the timeout of the asker's own ask, even
    /// if that was dropped before. If there is no answer, the asker gets the same error as from a
    /// [`Router`](crate::pool::Router), for example [`NotBegun`](crate::AskCause::NotBegun) if the
    /// other actor certainly never begins the message; the log says more.
    ///
    /// The answer comes through this node, even after the actor that forwarded the ask has ended.
    ///
    /// # Bounds
    /// A task waits for each forwarded message until it is answered or its time is over. For asks
    /// their number is bounded by the asks that are in flight. A tell has no asker that waits for
    /// it: forwarded, it waits for room for up to [`limits::ASK_TIMEOUT`], and the number of such
    /// tells is not bounded. If there are many tells, `tell` the other actor in the handler
    /// instead, which waits for room.
    pub fn forward<M: Message>(self, to: &impl Answers<M, R>, message: M) {
        let left = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
        let left = self.deadline().map_or(limits::ASK_TIMEOUT, left);
        let ForwardedAsk { runtime, asked } = match to.begin(message, left) {
            Ok(begun) => begun,
            Err(error) => return self.unanswered(error),
        };
        // The task below sends the message, in the scope of the handler that forwards it.
        let asker = self.asked().and_then(|asked| asked.asker());
        let asked = spans::keep(hand_on(asker, asked));
        runtime.spawn(async move {
            match asked.await {
                Ok(answer) => self.send(answer),
                Err(error) => self.unanswered(error),
            }
        });
    }

    fn unanswered(self, error: AskError) {
        let actor = error.actor();
        log::warn!(%actor, %error, "no answer to an ask that was forwarded to it");
        self.unanswered_by(error.cause);
    }
}
