//! A member of a group, and the queue of messages for it.

use std::sync::Arc;

use ringpost_transport::log;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::Group;
use super::copies::{MessageArchives, OneCopy};
use super::tally::{DeliveryAck, Miss};
use crate::actor::{Context, Recipient, ReplyTo};
use crate::error::Cause;
use crate::limits;
use crate::message::{Message, Wire};
use crate::spans::{self, Scope};

/// A member. Owned by its group; dropping it drops the messages in its queue.
pub(super) struct Member<M: Message + Wire> {
    to: Recipient<M>,
    /// The same member as a recipient of archives, if it is on another node.
    far: Option<Recipient<MessageArchives<M>>>,
    /// Created with the first message that had to wait.
    lane: Option<MemberQueue<M>>,
    /// Set while the next reported end may be from before the member joined by a name on another
    /// node.
    is_new: bool,
    /// The askers of [`Group::stay`], which are answered when this member is removed.
    stays: Vec<ReplyTo<()>>,
    /// Set while the last message was missed because the queue was full; logged once.
    is_behind: bool,
}

/// Says what happens to a message for a member that has no room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OverflowPolicy {
    /// The member misses the message.
    None,
    /// The message waits for the member.
    Waits,
}

/// The queue of one member: a task of the group tells the member these messages in order.
struct MemberQueue<M: Message + Wire> {
    queue: mpsc::Sender<QueuedMessage<M>>,
    /// Cloned by each waiting message, including the message that is being sent.
    waiting: Arc<()>,
    task: AbortHandle,
}

struct QueuedMessage<M: Message + Wire> {
    copy: OneCopy<M>,
    slip: DeliveryAck<M>,
    /// The scope in which the group handled the message.
    scope: Option<Box<Scope>>,
    /// Dropped last, when the message is in the mailbox or on its way there.
    waits: Arc<()>,
}

impl<M: Message + Wire + Clone> Member<M> {
    pub(super) fn new(to: Recipient<M>) -> Self {
        let far = to.as_far();
        let mut member =
            Member { far, to, lane: None, is_new: false, stays: Vec::new(), is_behind: false };
        member.join_again();
        member
    }

    /// Records that the member joins, perhaps again. If it joins by a name on another node, the
    /// report of an earlier end may still be on its way.
    pub(super) fn join_again(&mut self) {
        self.is_new = self.is_far() && self.to.address().identity().is_none();
    }

    /// Returns true, once, if a reported end may be from before the member joined.
    pub(super) fn may_be_there(&mut self) -> bool {
        std::mem::take(&mut self.is_new)
    }

    /// Keeps the reply to a membership until the member is removed.
    pub(super) fn stays(&mut self, reply: ReplyTo<()>) {
        self.stays.retain(|reply| !reply.is_given_up());
        if reply.is_awaited() {
            self.stays.push(reply);
        }
    }

    /// Tells the memberships of the member that it was removed.
    pub(super) fn end(self) {
        self.stays.into_iter().for_each(|reply| reply.send(()));
    }

    pub(super) fn recipient(&self) -> &Recipient<M> {
        &self.to
    }

    pub(super) fn is_far(&self) -> bool {
        self.far.is_some()
    }

    /// Tells the member a message, or queues it, or records that the member has missed it.
    pub(super) fn tell(
        &mut self,
        copy: OneCopy<M>,
        slip: DeliveryAck<M>,
        patience: OverflowPolicy,
        cx: &mut Context<Group<M>>,
    ) {
        let (copy, cause) = if self.waits() {
            (copy, Cause::MailboxFull)
        } else {
            match self.try_tell(copy) {
                Ok(()) => return self.has_room(slip),
                Err(refused) => refused,
            }
        };
        let can_wait = matches!(cause, Cause::MailboxFull | Cause::Opening | Cause::LinkDown);
        if !can_wait || patience == OverflowPolicy::None {
            return slip.missed(Miss::of(&cause));
        }
        let lane = match &mut self.lane {
            Some(lane) => lane,
            none => none.insert(MemberQueue::new(self.to.clone(), self.far.clone(), cx)),
        };
        if let Err(slip) = lane.put(copy, slip) {
            self.falls_behind();
            slip.missed(Miss::Full);
        }
    }

    /// Returns true if a message waits for the member.
    fn waits(&self) -> bool {
        let waits = |lane: &MemberQueue<M>| Arc::strong_count(&lane.waiting) > 1;
        self.lane.as_ref().is_some_and(waits)
    }

    fn try_tell(&self, copy: OneCopy<M>) -> Result<(), (OneCopy<M>, Cause)> {
        match (copy, &self.far) {
            (OneCopy::Far(packed), Some(far)) => {
                far.try_tell(packed).map_err(|unsent| (OneCopy::Far(unsent.message), unsent.cause))
            }
            (OneCopy::Near(message), _) => self
                .to
                .try_tell(message)
                .map_err(|unsent| (OneCopy::Near(unsent.message), unsent.cause)),
            (copy @ OneCopy::Far(_), None) => Err((copy, Cause::NotAccepted)),
        }
    }

    fn has_room(&mut self, slip: DeliveryAck<M>) {
        slip.told();
        if std::mem::take(&mut self.is_behind) {
            let member = self.to.address();
            log::info!(%member, message = M::NAME, "a member of a group has caught up");
        }
    }

    fn falls_behind(&mut self) {
        if !std::mem::replace(&mut self.is_behind, true) {
            let (member, waiting) = (self.to.address(), limits::GROUP_WAITING_MAX);
            log::warn!(
                %member, message = M::NAME, waiting,
                "a member of a group misses messages: it is too slow"
            );
        }
    }
}

impl<M: Message + Wire + Clone> MemberQueue<M> {
    fn new(
        to: Recipient<M>,
        far: Option<Recipient<MessageArchives<M>>>,
        cx: &mut Context<Group<M>>,
    ) -> Self {
        // The task holds one more message.
        let (queue, parcels) = mpsc::channel(limits::GROUP_WAITING_MAX - 1);
        let task = cx.spawn_task(tell_in_order(to, far, parcels));
        MemberQueue { queue, waiting: Arc::new(()), task }
    }

    /// Queues a message. Returns the [`DeliveryAck`] if the queue is full.
    fn put(&self, copy: OneCopy<M>, slip: DeliveryAck<M>) -> Result<(), DeliveryAck<M>> {
        let (scope, waits) = (Scope::here(), self.waiting.clone());
        let parcel = QueuedMessage { copy, slip, scope, waits };
        self.queue.try_send(parcel).map_err(|refused| refused.into_inner().slip)
    }
}

impl<M: Message + Wire> Drop for MemberQueue<M> {
    fn drop(&mut self) {
        // The waiting messages are dropped with the task, and count as missed.
        self.task.abort();
    }
}

async fn tell_in_order<M: Message + Wire + Clone>(
    to: Recipient<M>,
    far: Option<Recipient<MessageArchives<M>>>,
    mut parcels: mpsc::Receiver<QueuedMessage<M>>,
) {
    while let Some(QueuedMessage { copy, slip, scope, waits }) = parcels.recv().await {
        let send = async {
            match (copy, &far) {
                (OneCopy::Near(message), _) => {
                    to.tell(message).await.map_err(|unsent| unsent.cause)
                }
                (OneCopy::Far(packed), Some(far)) => {
                    far.tell(packed).await.map_err(|unsent| unsent.cause)
                }
                (OneCopy::Far(_), None) => Err(Cause::NotAccepted),
            }
        };
        match spans::keep_in(scope, send).await {
            Ok(()) => slip.told(),
            Err(cause) => slip.missed(Miss::of(&cause)),
        }
        drop(waits);
    }
}
