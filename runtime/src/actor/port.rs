//! Where messages are sent to: what `tell` and `ask` need of a reference.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::time::Instant;

use super::Reply;
use super::running::is_running;
use crate::deadlines::{Deadlines, Expired};
use crate::error::{AskError, Cause, NotBegun};
use crate::fate::Fate;
use crate::mailbox::{Intake, NoRoom, Room};
use crate::message::Message;
use crate::node::Node;
use crate::remote::{self, Awaited, Confirmation, LinkCause, PendingReply, Waiter};
use crate::slot::Asker;

/// Somewhere an `M` can be sent: an actor's reference, or a recipient of `M`. Only this crate has
/// any.
pub trait Port<M: Message>: Sized {
    /// Sends; empties `message` if and only if it was sent. Its fate, if the sender waits for it,
    /// or what is known of it, is in `fate` then.
    #[doc(hidden)]
    fn poll_tell(
        &self,
        message: &mut Option<M>,
        fate: Option<&mut Option<PendingFate>>,
        line: &mut Line,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Cause>>;

    /// Sends if that needs no waiting.
    #[doc(hidden)]
    fn try_tell(&self, message: &mut Option<M>) -> Result<(), Cause>;

    /// Gives up a place in a line.
    #[doc(hidden)]
    fn leave(&self, line: &mut Line);

    /// Returns the deadlines of the node that sends; `None` where nothing can be sent.
    #[doc(hidden)]
    fn deadlines(&self) -> Option<&Deadlines>;
}

/// A port that answers.
pub trait AskPort<M: Message>: Port<M> {
    /// The answer.
    type Reply: Reply;

    /// Sends an ask.
    #[doc(hidden)]
    fn poll_ask(
        &self,
        message: &mut Option<M>,
        deadline: Instant,
        line: &mut Line,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Pending<Self::Reply>, Cause>>;

    /// Sends an ask if that needs no waiting.
    #[doc(hidden)]
    fn try_ask(
        &self,
        message: &mut Option<M>,
        deadline: Instant,
    ) -> Result<Pending<Self::Reply>, Cause>;
}

/// The fate of a message that was sent, when it is known.
pub enum PendingFate {
    /// The fate is known.
    #[doc(hidden)]
    Known(Fate),
    /// The other node will report the fate.
    #[doc(hidden)]
    Remote(Confirmation),
}

impl PendingFate {
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Fate> {
        match self {
            PendingFate::Known(fate) => Poll::Ready(*fate),
            PendingFate::Remote(confirmation) => Pin::new(confirmation).poll(cx).map(remote::fate),
        }
    }
}

/// Where a send waits: for room in a mailbox of this node, or on the way to another one.
#[derive(Default)]
pub struct Line {
    turn: Option<u64>,
    pub(super) remote: Waiter,
}

impl Line {
    /// Waits for room in a mailbox of this node. An actor that would wait for room in its own
    /// mailbox would wait forever: for it the mailbox is full.
    pub(super) fn poll_room<'a>(
        &mut self,
        intake: &'a dyn Intake,
        token: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Room<'a>, Cause>> {
        match intake.poll_room(&mut self.turn, cx) {
            Poll::Ready(room) => Poll::Ready(room.map_err(|_closed| Cause::Stopped)),
            Poll::Pending if is_running(token) => Poll::Ready(Err(Cause::MailboxFull)),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Gives up the turn in a mailbox of this node.
    pub(super) fn leave(&mut self, intake: &dyn Intake) {
        if let Some(turn) = self.turn.take() {
            intake.leave(turn);
        }
    }
}

/// Room in a mailbox of this node, if there is any now.
pub(super) fn try_room(intake: &dyn Intake) -> Result<Room<'_>, Cause> {
    intake.try_room().map_err(|no| match no {
        NoRoom::Full => Cause::MailboxFull,
        NoRoom::Closed => Cause::Stopped,
    })
}

/// An answer that is on its way.
pub enum Pending<R> {
    /// From an actor of this node.
    #[doc(hidden)]
    Local(LocalAnswer<R>),
    /// From an actor of another node.
    #[doc(hidden)]
    Remote(RemoteAnswer),
}

/// An answer from this node.
pub struct LocalAnswer<R>(pub(super) Asker<R>);

/// An answer from another node, and the node it comes to.
pub struct RemoteAnswer {
    answer: PendingReply,
    node: Node,
}

impl<R: Reply> Pending<R> {
    /// Makes the pending answer of an ask to another node.
    pub(super) fn remote(awaited: Awaited, node: &Node) -> Result<Self, Cause> {
        match awaited {
            Awaited::Reply(answer) => {
                Ok(Pending::Remote(RemoteAnswer { answer, node: node.clone() }))
            }
            Awaited::Nothing | Awaited::Fate(_) => Err(Cause::LinkDown),
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<R, AskError>> {
        match self {
            Pending::Local(LocalAnswer(asker)) => asker.poll(cx),
            Pending::Remote(RemoteAnswer { answer, node }) => {
                let payload = ready!(Pin::new(answer).poll(cx)).map_err(remote::lost)?;
                let codec = R::CODEC.ok_or(AskError::InvalidReply)?;
                Poll::Ready((codec.decode)(payload, node).map_err(|error| {
                    let advice = "build both nodes alike";
                    tracing::warn!(%error, advice, "a reply could not be read");
                    AskError::InvalidReply
                }))
            }
        }
    }

    /// Gives up. Of an actor of this node it is known whether it began the ask, or even answered.
    pub(super) fn give_up(self, expired: Expired) -> Result<R, AskError> {
        match (self, expired) {
            (Pending::Local(LocalAnswer(asker)), Expired::Deadline) => {
                asker.give_up(NotBegun::Timeout, AskError::Timeout)
            }
            (Pending::Local(LocalAnswer(asker)), Expired::RuntimeGone) => {
                asker.give_up(NotBegun::Stopped, AskError::NoReply)
            }
            (Pending::Remote(mut remote), Expired::Deadline) => {
                let unsent = remote.answer.give_up();
                Err(if unsent { AskError::NotSent(Cause::Timeout) } else { AskError::Timeout })
            }
            (Pending::Remote(_), Expired::RuntimeGone) => {
                Err(AskError::LinkDown(LinkCause::Shutdown))
            }
        }
    }
}

/// A message on its way into a port; gives up its place when dropped.
pub(super) struct Sending<'a, P: Port<M>, M: Message> {
    pub(super) to: &'a P,
    pub(super) message: Option<M>,
    pub(super) line: Line,
}

impl<'a, P: Port<M>, M: Message> Sending<'a, P, M> {
    pub(super) fn new(to: &'a P, message: M) -> Self {
        Sending { to, message: Some(message), line: Line::default() }
    }

    /// Takes the message back, and gives up its place now rather than when the whole send is
    /// dropped.
    pub(super) fn give_up(&mut self) -> Option<M> {
        self.leave();
        self.message.take()
    }

    /// Gives up its place in a line.
    pub(super) fn leave(&mut self) {
        self.to.leave(&mut self.line);
        self.line = Line::default();
    }

    /// Runs this send to its end on a thread that is none of an async runtime's.
    pub(super) fn block_on<F: Future>(deadlines: Option<&Deadlines>, send: F) -> F::Output {
        match deadlines {
            Some(deadlines) => deadlines.runtime().block_on(send),
            // A send to nobody has ended at its first poll; nothing else is to run first.
            None => futures::executor::block_on(tokio::task::unconstrained(send)),
        }
    }
}

/// A port leaves the message exactly when it was not sent.
pub(super) const UNSENT: &str = "a message that was not sent is still there";

/// Returns why a send ended that was not sent in time.
pub(super) fn unsent(expired: Expired) -> Cause {
    match expired {
        Expired::Deadline => Cause::Timeout,
        Expired::RuntimeGone => Cause::Leaving,
    }
}

impl<P: Port<M>, M: Message> Drop for Sending<'_, P, M> {
    fn drop(&mut self) {
        self.to.leave(&mut self.line);
    }
}
