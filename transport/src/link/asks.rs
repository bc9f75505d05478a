//! Asks that were committed and not yet answered.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::Link;
use crate::cause::{LinkCause, Refusal};
use crate::limits;
use crate::memory::Payload;

/// An ask that was committed will not be answered, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyLoss {
    /// The link was lost; whether the ask was handled is unknown.
    #[error("the link was lost: {0}")]
    LinkDown(LinkCause),
    /// The peer refused it.
    #[error("the peer refused it: {0:?}")]
    Refused(Refusal),
    /// The handler's side answered with a code of the layer above, or with one of
    /// [`Replier`](super::Replier)'s.
    #[error("the peer answered with code {0}")]
    Failed(u16),
}

pub(super) type Answer = Result<Payload, ReplyLoss>;

/// The table of pending asks. A correlation names place and generation, so that a late answer never
/// meets another ask.
#[derive(Default)]
pub(super) struct Asks {
    pending: slab::Slab<(u32, oneshot::Sender<Answer>)>,
    generation: u32,
}

impl Asks {
    /// A new ask; `None` when there are too many.
    pub(super) fn insert(&mut self) -> Option<(u64, oneshot::Receiver<Answer>)> {
        if self.pending.len() >= limits::PENDING_ASKS_MAX {
            return None;
        }
        let (sender, answer) = oneshot::channel();
        self.generation = self.generation.wrapping_add(1).max(1);
        let key = self.pending.insert((self.generation, sender));
        Some((u64::from(self.generation) << 32 | key as u64, answer))
    }

    /// Takes an ask out; `None` when it was answered or forgotten.
    pub(super) fn take(&mut self, correlation: u64) -> Option<oneshot::Sender<Answer>> {
        let key = correlation as u32 as usize;
        if self.pending.get(key)?.0 != (correlation >> 32) as u32 {
            return None;
        }
        self.pending.try_remove(key).map(|(_, sender)| sender)
    }

    /// Takes all out: the link has ended.
    pub(super) fn end(&mut self) -> Vec<oneshot::Sender<Answer>> {
        let mut all = std::mem::take(&mut self.pending);
        all.drain().map(|(_, sender)| sender).collect()
    }
}

/// The answer to an ask, when it comes. Dropping it forgets the ask: a late answer is dropped.
pub struct PendingReply {
    link: Arc<Link>,
    correlation: u64,
    answer: oneshot::Receiver<Answer>,
}

impl PendingReply {
    pub(super) fn new(
        link: Arc<Link>,
        correlation: u64,
        answer: oneshot::Receiver<Answer>,
    ) -> Self {
        PendingReply { link, correlation, answer }
    }
}

impl Future for PendingReply {
    type Output = Answer;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        // The sender is only ever dropped unused when the whole link is.
        let lost = ReplyLoss::LinkDown(LinkCause::Closed);
        Pin::new(&mut self.answer).poll(cx).map(|answer| answer.unwrap_or(Err(lost)))
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        let forgotten = self.link.state.lock().asks.take(self.correlation);
        drop(forgotten);
    }
}

impl fmt::Debug for PendingReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PendingReply({:#x})", self.correlation)
    }
}
