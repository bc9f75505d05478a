//! `Membership`: keeps an actor in a group, whatever happens to the group's state and its node.
//!
//! A member whose membership was dropped leaves, and does not join after that: the steps of a
//! membership run under a lock, and the drop first ends them under this lock.

use std::fmt;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use ringpost_transport::log;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{AbortHandle, coop};
use tokio::time::{Instant, sleep};

use super::{Group, GroupFull, Join, Leave, Stay};
use crate::actor::context::watch::{Watchable, has_stopped};
use crate::actor::forward::runtime;
use crate::actor::{Accepts, ActorRef, Context, Handlers, Recipient};
use crate::address::Address;
use crate::error::{AskCause, AskError, Cause};
use crate::exit::ActorExit;
use crate::limits;
use crate::message::{Message, Wire};

/// Keeps an actor in a group: it joins, joins again after the group was restarted or its link or
/// node was lost, and leaves when this is dropped. Created by [`ActorRef::membership`]; for an
/// actor that stays a member as long as it lives there is [`Context::join`].
///
/// If the reference was made by [`Node::named`](crate::Node::named), the actor is a member of
/// whatever group has the name, including a later group of that name, even after a restart of its
/// node. Any other reference leads to one group, and the membership is [over](Membership::ended)
/// when that group has ended.
///
/// The member misses messages that the group is told after its restart, or the loss of its link,
/// and before the member has joined again. Between two attempts to join there is a pause, which
/// grows from [`limits::BACKOFF_MIN`] to [`limits::LOOK_UP_AGAIN`]; while the node is out of reach
/// the membership waits, and joins when there is a link.
///
/// ```
/// use ringpost::group::Group;
/// use ringpost::prelude::*;
/// use ringpost::spawn::Child;
///
/// #[message]
/// #[derive(Debug, Clone, PartialEq)]
/// pub struct Line {
///     pub text: String,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let node = Node::builder("alpha").start().await?;
/// let room = node.supervise(Child::new(Group::<Line>::new).named("room")).await?;
///
/// let mut ada = node.inbox::<Line>(16).await?;
/// let membership = node.named::<Group<Line>>("room")?.membership(ada.recipient());
/// membership.joined().await?;
/// room.kill().await?; // as if it had panicked: it restarts without members
/// room.when_size(1).await?; // the membership has joined again
/// room.tell(Line { text: "hello".into() }).await?;
/// assert_eq!(ada.receive().await, Some(Line { text: "hello".into() }));
///
/// drop(membership); // the member leaves
/// room.when_size(0).await?;
/// # Ok(())
/// # }
/// ```
///
/// An actor may have any number of memberships of a group. If one of them is dropped, or the actor
/// [leaves](Leave) explicitly, another one makes it join again at once. Each is an ask that the
/// group does not answer as long as the actor is a member, and a link has at most 65,536 unanswered
/// asks. A membership keeps the node alive on which it was created, as a reference does. If it is
/// dropped while there is no link to the group, or the link is lost meanwhile, a task makes the
/// member leave when there is a link.
#[must_use = "the member leaves when this is dropped"]
pub struct Membership<M: Message + Wire + Clone> {
    group: ActorRef<Group<M>>,
    member: Recipient<M>,
    steps: Arc<MembershipFuture>,
    stage: Arc<watch::Sender<MembershipState>>,
    /// The task and its runtime; `None` if the reference leads to no actor.
    task: Option<(Handle, AbortHandle)>,
}

/// `None` while the actor is about to join, `Some(Ok(()))` while it is a member, and an error once
/// the membership is over.
type MembershipState = Option<Result<(), MembershipEnded>>;

/// The future of the task, until the membership is over or dropped.
struct MembershipFuture(Mutex<Option<BoxFuture<'static, ()>>>);

/// The reason why a [`Membership`] is over.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MembershipEnded {
    /// The group has ended, and the reference leads to no other group.
    #[error(
        "the group {group} has ended ({exit}), and the reference leads to no other one: one of \
        `Node::named` leads to the next group of its name"
    )]
    GroupEnded {
        /// The address of the group.
        group: Address,
        /// The exit of the group.
        exit: ActorExit,
    },
    /// The member has ended.
    #[error("the member {member} has ended ({exit})")]
    MemberEnded {
        /// The address of the member.
        member: Address,
        /// The exit of the member.
        exit: ActorExit,
    },
    /// The group cannot be joined, and trying again cannot help; or this node is shutting down.
    #[error("the group cannot be joined: {0}")]
    Refused(#[source] AskError),
}

ringpost_transport::debug_by_display!(MembershipEnded);

impl<M: Message + Wire + Clone> ActorRef<Group<M>> {
    /// Makes an actor a member of this group, as [`Join`] does, and keeps it a member until the
    /// returned [`Membership`] is dropped.
    pub fn membership(&self, member: Recipient<M>) -> Membership<M> {
        let (group, stage) = (self.clone(), Arc::new(watch::Sender::new(None)));
        let steps = Arc::new(MembershipFuture(Mutex::new(None)));
        let task = match runtime(group.destination()) {
            Ok(runtime) => {
                let staying = stay(group.clone(), member.clone(), stage.clone()).boxed();
                *steps.0.lock() = Some(staying);
                let steps = steps.clone();
                let task = runtime.spawn(poll_fn(move |cx| steps.poll(cx))).abort_handle();
                Some((runtime, task))
            }
            Err(cause) => {
                let group = group.address().clone();
                let error = AskError::new(AskCause::NotSent(cause), group, Join::<M>::NAME);
                stage.send_replace(Some(Err(MembershipEnded::Refused(error))));
                None
            }
        };
        Membership { group, member, steps, stage, task }
    }
}

impl<A: Handlers> Context<A> {
    /// Makes the actor a member of a group, as a [`Membership`] does, until the actor ends or is
    /// restarted, or the returned handle is used to abort. Then the actor leaves. A task of the
    /// actor does this.
    pub fn join<M>(&mut self, group: &ActorRef<Group<M>>) -> AbortHandle
    where
        A: Accepts<M>,
        M: Message + Wire + Clone,
    {
        let membership = group.membership(self.actor().recipient());
        self.spawn_task(async move { drop(membership.ended().await) })
    }
}

impl<M: Message + Wire + Clone> Membership<M> {
    /// Waits until the actor is a member. Ready at once if it is; the group may have lost the
    /// member a moment before this is known here.
    ///
    /// # Errors
    /// [`MembershipEnded`] if the membership is over.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn joined(&self) -> Result<(), MembershipEnded> {
        self.when(MembershipState::clone).await
    }

    /// Waits until the membership is over, because trying again cannot help. Returns the reason.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn ended(&self) -> MembershipEnded {
        self.when(|stage| stage.clone()?.err()).await
    }

    /// Waits until `look` returns a value.
    async fn when<T>(&self, look: impl Fn(&MembershipState) -> Option<T>) -> T {
        let mut stages = self.stage.subscribe();
        loop {
            let seen = look(&stages.borrow_and_update());
            if let Some(seen) = seen {
                return seen;
            }
            stages.changed().await.expect("its sender lives as long as this");
        }
    }

    /// Returns true if the actor is a member, as far as this node knows.
    pub fn is_member(&self) -> bool {
        matches!(*self.stage.borrow(), Some(Ok(())))
    }
}

impl<M: Message + Wire + Clone> Drop for Membership<M> {
    fn drop(&mut self) {
        let steps = self.steps.0.lock().take();
        let (Some(steps), Some((runtime, task))) = (steps, &self.task) else { return };
        drop(steps);
        // The task has nothing left to wait for, so nothing would wake it.
        task.abort();
        let mut leave = Box::pin(leave(self.group.clone(), self.member.clone()));
        let _here = runtime.enter();
        // If there is room, the actor leaves now, before anything that the caller makes it join
        // next.
        let now = pin!(coop::unconstrained(&mut leave));
        let mut cx = TaskContext::from_waker(Waker::noop());
        if now.poll(&mut cx).is_pending() {
            runtime.spawn(leave);
        }
    }
}

impl<M: Message + Wire + Clone> fmt::Debug for Membership<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Membership")
            .field("group", self.group.address())
            .field("member", self.member.address())
            .field("is_member", &self.is_member())
            .finish_non_exhaustive()
    }
}

impl MembershipFuture {
    fn poll(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        let mut steps = self.0.lock();
        let polled = steps.as_mut().map_or(Poll::Ready(()), |steps| steps.poll_unpin(cx));
        let done = if polled.is_ready() { steps.take() } else { None };
        drop(steps);
        drop(done);
        polled
    }
}

/// Keeps `member` in `group` until trying again cannot help.
async fn stay<M: Message + Wire + Clone>(
    group: ActorRef<Group<M>>,
    member: Recipient<M>,
    stage: Arc<watch::Sender<MembershipState>>,
) {
    let why = tokio::select! {
        biased;
        exit = end_of(&member) => {
            MembershipEnded::MemberEnded { member: member.address().clone(), exit }
        }
        exit = end_of(&group) => {
            MembershipEnded::GroupEnded { group: group.address().clone(), exit }
        }
        error = join_again(&group, &member, &stage) => {
            if error.cause != AskCause::NotSent(Cause::Shutdown) {
                let member = member.address();
                log::warn!(%member, %error, "an actor cannot stay a member of a group");
            }
            MembershipEnded::Refused(error)
        }
    };
    stage.send_replace(Some(Err(why)));
}

/// Waits for the end of an actor; the loss of its node does not count. Never ready for a name.
async fn end_of(actor: &impl Watchable) -> ActorExit {
    if actor.place().identity().is_none() {
        return pending().await;
    }
    loop {
        match has_stopped(actor).await {
            ActorExit::NodeDown => sleep(limits::LOOK_UP_AGAIN).await,
            exit => return exit,
        }
    }
}

/// Joins, and joins again whenever the group has lost the member. Returns the first error after
/// which trying again cannot help.
async fn join_again<M: Message + Wire + Clone>(
    group: &ActorRef<Group<M>>,
    member: &Recipient<M>,
    stage: &watch::Sender<MembershipState>,
) -> AskError {
    let mut pause = limits::BACKOFF_MIN;
    let mut is_refused = false;
    loop {
        let began = Instant::now();
        let attempt = attend(group, member, stage).await;
        stage.send_replace(None);
        match attempt {
            Ok(()) => is_refused = false,
            Err(MembershipError::Full(full)) => {
                if !std::mem::replace(&mut is_refused, true) {
                    let (group, member) = (group.address(), member.address());
                    log::warn!(%group, %member, %full, "a group has no place for a member");
                }
            }
            Err(MembershipError::Unasked(error)) if is_final(&error.cause) => return error,
            Err(MembershipError::Unasked(error)) => {
                let member = member.address();
                log::debug!(%member, %error, "no member of a group, for now");
            }
        }
        if began.elapsed() >= limits::LOOK_UP_AGAIN {
            pause = limits::BACKOFF_MIN;
        }
        sleep(pause).await;
        pause = (2 * pause).min(limits::LOOK_UP_AGAIN);
    }
}

/// The reason why an actor is not a member.
enum MembershipError {
    Full(GroupFull),
    Unasked(AskError),
}

/// Joins, and waits until the group has lost the member.
async fn attend<M: Message + Wire + Clone>(
    group: &ActorRef<Group<M>>,
    member: &Recipient<M>,
    stage: &watch::Sender<MembershipState>,
) -> Result<(), MembershipError> {
    const TIMEOUT: Duration = limits::ASK_TIMEOUT_MAX;
    let join = group.ask(Join { member: member.clone() }).timeout(TIMEOUT).wait_for_link();
    join.await.map_err(MembershipError::Unasked)?.map_err(MembershipError::Full)?;
    stage.send_replace(Some(Ok(())));
    let stay = group.ask(Stay { member: member.clone() }).timeout(TIMEOUT).wait_for_link();
    stay.await.map_err(MembershipError::Unasked)
}

/// Makes the member leave. If the link is lost meanwhile, this is sent again, because the group may
/// still have the member.
async fn leave<M: Message + Wire + Clone>(group: ActorRef<Group<M>>, member: Recipient<M>) {
    let mut pause = limits::BACKOFF_MIN;
    loop {
        let leave = group.ask(Leave { member: member.clone() }).timeout(limits::ASK_TIMEOUT_MAX);
        match leave.wait_for_link().await {
            Err(error) if !is_final(&error.cause) => {
                sleep(pause).await;
                pause = (2 * pause).min(limits::LOOK_UP_AGAIN);
            }
            Ok(_) | Err(_) => return,
        }
    }
}

/// Returns true if another attempt would fail, too. (Joining twice does no harm.)
fn is_final(cause: &AskCause) -> bool {
    match cause {
        AskCause::NotSent(unsent) => !unsent.is_retryable(),
        AskCause::NotBegun(why) => !why.is_retryable(),
        AskCause::ReplyTooLarge | AskCause::InvalidReply => true,
        AskCause::Timeout | AskCause::Panicked | AskCause::NoReply | AskCause::LinkDown(_) => false,
    }
}
