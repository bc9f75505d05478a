//! One member of a group, and the messages that wait for it.

use std::sync::Arc;

use ringpost_transport::log;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::Group;
use super::copies::{OneCopy, Packed};
use super::tally::{Miss, Slip};
use crate::actor::{Context, Recipient, ReplyTo};
use crate::error::Cause;
use crate::limits;
use crate::message::{Message, Wire};
use crate::mutants::planted;
use crate::spans::{self, Scope};

/// A member. Owned by its group; dropped, what waits for it is dropped, too.
pub(super) struct Member<M: Message + Wire> {
    to: Recipient<M>,
    /// The same member, if it is on another node, for archives.
    far: Option<Recipient<Packed<M>>>,
    /// There from the first message on that had to wait.
    lane: Option<Lane<M>>,
    /// It has joined by a name of another node, and an end that comes may be one from before that.
    is_new: bool,
    /// Its memberships, which are told when it is a member no longer.
    stays: Vec<ReplyTo<()>>,
    /// It has missed the last message that was to wait for it; the log says so once.
    is_behind: bool,
}

/// How a message for a member without room is treated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    None,
    Waits,
}

/// The messages that wait for one member, which a task of the group tells in order (GR-1).
struct Lane<M: Message + Wire> {
    queue: mpsc::Sender<Parcel<M>>,
    /// Each that waits has a clone, also the one that the task has in hand.
    waiting: Arc<()>,
    task: AbortHandle,
}

struct Parcel<M: Message + Wire> {
    copy: OneCopy<M>,
    slip: Slip<M>,
    /// The scope in which the group handled it.
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

    /// Notes that it joins now, which it may have done before. Of a name on another node an earlier
    /// end may be on its way.
    pub(super) fn join_again(&mut self) {
        self.is_new = self.is_far() && self.to.address().identity().is_none();
    }

    /// Returns true if an end that was told may be one from before it joined; once.
    pub(super) fn may_be_there(&mut self) -> bool {
        std::mem::take(&mut self.is_new)
    }

    /// Keeps the way back to a membership until this is a member no longer.
    pub(super) fn stays(&mut self, reply: ReplyTo<()>) {
        self.stays.retain(|reply| !reply.is_given_up());
        if reply.is_awaited() {
            self.stays.push(reply);
        }
    }

    /// Tells its memberships that it is a member no longer.
    pub(super) fn end(self) {
        self.stays.into_iter().for_each(|reply| reply.send(()));
    }

    pub(super) fn recipient(&self) -> &Recipient<M> {
        &self.to
    }

    pub(super) fn is_far(&self) -> bool {
        self.far.is_some()
    }

    /// Tells it a message, or has the message wait for room.
    pub(super) fn tell(
        &mut self,
        copy: OneCopy<M>,
        slip: Slip<M>,
        patience: Patience,
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
        if !can_wait || patience == Patience::None {
            return slip.missed(Miss::of(&cause));
        }
        let lane = match &mut self.lane {
            Some(lane) => lane,
            none => none.insert(Lane::new(self.to.clone(), self.far.clone(), cx)),
        };
        if let Err(slip) = lane.put(copy, slip) {
            self.falls_behind();
            slip.missed(Miss::Full);
        }
    }

    /// Returns true if a message waits for it.
    fn waits(&self) -> bool {
        let waits = |lane: &Lane<M>| Arc::strong_count(&lane.waiting) > 1;
        !planted!(PassedLane) && self.lane.as_ref().is_some_and(waits)
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

    fn has_room(&mut self, slip: Slip<M>) {
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

impl<M: Message + Wire + Clone> Lane<M> {
    fn new(
        to: Recipient<M>,
        far: Option<Recipient<Packed<M>>>,
        cx: &mut Context<Group<M>>,
    ) -> Self {
        // The task has one more in hand.
        let (queue, parcels) = mpsc::channel(limits::GROUP_WAITING_MAX - 1);
        let task = cx.spawn_task(tell_in_order(to, far, parcels));
        Lane { queue, waiting: Arc::new(()), task }
    }

    /// Has a message wait (GR-3).
    fn put(&self, copy: OneCopy<M>, slip: Slip<M>) -> Result<(), Slip<M>> {
        let (scope, waits) = (Scope::here(), self.waiting.clone());
        let parcel = Parcel { copy, slip, scope, waits };
        self.queue.try_send(parcel).map_err(|refused| refused.into_inner().slip)
    }
}

impl<M: Message + Wire> Drop for Lane<M> {
    fn drop(&mut self) {
        // What waits is dropped with the task, and says so (GR-4).
        self.task.abort();
    }
}

async fn tell_in_order<M: Message + Wire + Clone>(
    to: Recipient<M>,
    far: Option<Recipient<Packed<M>>>,
    mut parcels: mpsc::Receiver<Parcel<M>>,
) {
    while let Some(Parcel { copy, slip, scope, waits }) = parcels.recv().await {
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
