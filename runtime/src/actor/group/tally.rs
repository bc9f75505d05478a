//! The outcome of a message to a group: how many were told it, and who missed it.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use ringpost_transport::shield;

use crate::actor::{Recipient, ReplyTo};
use crate::error::Cause;
use crate::message;
use crate::message::{Message, Wire};

/// The outcome of a message to a [`Group`](super::Group).
#[message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told<M: Message> {
    /// The number of members told: the message is in their mailboxes or on its way, as after a
    /// `tell`.
    pub told: u64,
    /// The members that missed the message.
    pub missed: Vec<Missed<M>>,
}

/// A member of a [`Group`](super::Group) that missed a message.
#[message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missed<M: Message> {
    /// The member.
    pub member: Recipient<M>,
    /// The reason why it was not told.
    pub why: Miss,
}

/// Why a member of a [`Group`](super::Group) missed a message. Can cross nodes.
#[message]
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Miss {
    /// The member has no room: for a `try_broadcast`, none now; otherwise the maximum number of
    /// messages waits for it.
    #[error("it has no room, and as many messages wait for it as may")]
    Full,
    /// The member has ended.
    #[error("it has ended")]
    Ended,
    /// The member left the group, or the group ended, while the message waited for it.
    #[error("it left the group, or the group ended, while the message waited for it")]
    Left,
    /// The member's node could not be reached; the text says why.
    #[error("its node could not be reached: {0}")]
    Unreachable(String),
    /// The member cannot take this message; the text says why.
    #[error("it cannot take this message: {0}")]
    Refused(String),
}

ringpost_transport::debug_by_display!(Miss);

impl Miss {
    /// Returns true if the member may be told such a message later, while it is a member.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Miss::Full | Miss::Unreachable(_))
    }

    /// Counts a missed message by its reason.
    fn count(&self) {
        let cause = match self {
            Miss::Full => "full",
            Miss::Ended => "ended",
            Miss::Left => "left",
            Miss::Unreachable(_) => "unreachable",
            Miss::Refused(_) => "refused",
        };
        shield::run(|| {
            metrics::counter!("ringpost_group_missed_total", "cause" => cause).increment(1)
        });
    }

    pub(super) fn of(cause: &Cause) -> Self {
        match cause {
            Cause::MailboxFull => Miss::Full,
            Cause::Stopped | Cause::NoSuchActor => Miss::Ended,
            cause if cause.is_retryable() => Miss::Unreachable(cause.to_string()),
            Cause::NoNetwork | Cause::Shutdown => Miss::Unreachable(cause.to_string()),
            cause => Miss::Refused(cause.to_string()),
        }
    }
}

/// The outcome of one message, as it becomes known. Shared by the [`DeliveryAck`]s of the members;
/// dropping the last of them answers the asker.
pub(super) struct BroadcastTally<M: Message + Wire>(Mutex<TallyState<M>>);

struct TallyState<M: Message> {
    outcome: Told<M>,
    /// `Some` if there is an asker.
    reply: Option<ReplyTo<Told<M>>>,
}

/// Reports whether one member was told the message. If it is dropped unused, the member has missed
/// the message with [`Miss::Left`].
pub(super) struct DeliveryAck<M: Message + Wire> {
    /// `None` once the outcome for the member is recorded.
    open: Option<(Arc<BroadcastTally<M>>, Recipient<M>)>,
}

impl<M: Message + Wire> BroadcastTally<M> {
    pub(super) fn new(reply: ReplyTo<Told<M>>) -> Arc<Self> {
        let outcome = Told { told: 0, missed: Vec::new() };
        let reply = Some(reply).filter(ReplyTo::is_awaited);
        Arc::new(BroadcastTally(Mutex::new(TallyState { outcome, reply })))
    }

    pub(super) fn slip(self: &Arc<Self>, member: &Recipient<M>) -> DeliveryAck<M> {
        DeliveryAck { open: Some((self.clone(), member.clone())) }
    }
}

impl<M: Message + Wire> Drop for BroadcastTally<M> {
    fn drop(&mut self) {
        let TallyState { outcome, reply } = self.0.get_mut();
        if let Some(reply) = reply.take() {
            reply.send(Told { told: outcome.told, missed: std::mem::take(&mut outcome.missed) });
        }
    }
}

impl<M: Message + Wire> DeliveryAck<M> {
    /// Records that the member was told.
    pub(super) fn told(mut self) {
        if let Some((tally, _)) = self.open.take() {
            tally.0.lock().outcome.told += 1;
        }
    }

    /// Records that the member was not told.
    pub(super) fn missed(mut self, why: Miss) {
        self.miss(why);
    }

    fn miss(&mut self, why: Miss) {
        let Some((tally, member)) = self.open.take() else { return };
        why.count();
        let mut sheet = tally.0.lock();
        if sheet.reply.is_some() {
            sheet.outcome.missed.push(Missed { member, why });
        }
        drop(sheet);
    }
}

impl<M: Message + Wire> Drop for DeliveryAck<M> {
    fn drop(&mut self) {
        self.miss(Miss::Left);
    }
}

impl<M: Message + Wire> fmt::Debug for DeliveryAck<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slip").finish_non_exhaustive()
    }
}
