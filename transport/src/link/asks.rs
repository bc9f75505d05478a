//! The asker's end of an ask.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::Link;
use crate::cause::{LinkCause, Refusal};
use crate::memory::Payload;
use crate::proto::asks::GivenUp;

/// An ask that was committed will not be answered, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyLoss {
    /// It never left this node: its time was over before.
    #[error("it could not be sent in time")]
    Late,
    /// The link was lost before the ask had left this node.
    #[error("the link was lost before it was sent: {0}")]
    Unsent(LinkCause),
    /// The link was lost; whether the ask was handled is unknown.
    #[error("the link was lost: {0}")]
    LinkDown(LinkCause),
    /// It was not delivered.
    #[error("it was not delivered: {0:?}")]
    Refused(Refusal),
    /// The handler's side answered with a code of the layer above, or with one of
    /// [`Replier`](super::Replier)'s.
    #[error("the peer answered with code {0}")]
    Failed(u16),
}

pub(super) type Answer = Result<Payload, ReplyLoss>;

/// Where the answer to an ask goes.
pub(crate) type Asker = oneshot::Sender<Answer>;

pub(super) fn asker() -> (Asker, oneshot::Receiver<Answer>) {
    oneshot::channel()
}

/// The answer to an ask, when it comes. Dropping it gives the ask up: one that was not sent never
/// will be, of another the peer is told, which then does not begin it, or drops its answer where it
/// is made.
pub struct PendingReply {
    link: Arc<Link>,
    correlation: u64,
    /// `None` once it came, or was given up.
    answer: Option<oneshot::Receiver<Answer>>,
}

impl PendingReply {
    pub(super) fn new(
        link: Arc<Link>,
        correlation: u64,
        answer: oneshot::Receiver<Answer>,
    ) -> Self {
        PendingReply { link, correlation, answer: Some(answer) }
    }

    /// Gives the ask up, as dropping this does. Returns true if it was not sent, and so certainly
    /// is never handled.
    pub fn give_up(&mut self) -> bool {
        if self.answer.take().is_none() {
            return false;
        }
        let mut state = self.link.state.lock();
        let (given_up, asker) = state.outbound.give_up(self.correlation);
        self.link.finish(state);
        drop(asker);
        given_up == GivenUp::Unsent
    }
}

impl Future for PendingReply {
    type Output = Answer;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        // The sender is only ever dropped unused when the whole link is.
        let lost = ReplyLoss::LinkDown(LinkCause::Closed);
        let Some(answer) = &mut self.answer else { return Poll::Ready(Err(lost)) };
        let answer = std::task::ready!(Pin::new(answer).poll(cx));
        self.answer = None;
        Poll::Ready(answer.unwrap_or(Err(lost)))
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl fmt::Debug for PendingReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PendingReply({:#x})", self.correlation)
    }
}
