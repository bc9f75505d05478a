//! `Group`: a changing set of actors that are told the same messages.
//!
//! The group waits for no member, and no member for another one. A member is told messages in the
//! order in which the group handled them. At most [`limits::GROUP_WAITING_MAX`] messages wait for
//! one member, which misses any more. The asker learns which members were told its message and
//! which missed it.

mod copies;
mod member;
mod membership;
mod tally;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::marker::PhantomData;

use tokio::task::coop;

use super::{Actor, ActorRef, Context, Down, Handler, Recipient, ReplyTo};
use crate::address::Address;
use crate::error::AskError;
use crate::exit::ActorExit;
use crate::limits;
use crate::message::{Message, Wire};
use crate::{actor, handlers, message};
use copies::Copies;
use member::{Member, OverflowPolicy};
use tally::{BroadcastTally, DeliveryAck};

pub use membership::{Membership, MembershipEnded};
pub use tally::{Miss, Missed, Told};

/// A changing set of actors, on any nodes, that are told the same messages.
///
/// A group is an actor like any other: it is spawned on a node or as the child of another actor,
/// found by its name from other nodes, and its reference may be a field of a message. A member that
/// ends, or whose node is down, is removed. A group that ends does not affect its members, and a
/// restarted group has no members. An actor that must stay a member, whatever happens to the group,
/// its node and the link, has a [`Membership`].
///
/// An actor that joins by a [name](crate::Node::named) on another node is a member by that name.
/// The first end reported after it joined may be an older one, so the name is looked up again then:
/// the actor that has the name is the member from then on until it ends, even if it never joined.
/// If no actor has the name, the member is removed.
///
/// Each member is told every message of the group, in the order in which the group handles them,
/// when the member has room. `tell` a message to the group as to a member, or `ask` it to learn who
/// was told and who missed it, and why, once that is known of all members. A slow member delays
/// neither the others nor the group: messages wait for each member separately, at most
/// [`limits::GROUP_WAITING_MAX`], and it misses messages beyond these.
/// [`try_broadcast`](Group::try_broadcast) tells only members that have room now. An ask is
/// answered when the slowest member is settled, which may take until its node is found down. An ask
/// that times out before learns nothing, although members were told.
///
/// ```
/// use ringpost::group::{Group, Told};
/// use ringpost::prelude::*;
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
/// let room: ActorRef<Group<Line>> = node.spawn("room", Group::new()).await?;
///
/// let mut ada = node.inbox::<Line>(16).await?;
/// room.join(ada.recipient()).await??;
/// let told: Told<Line> = room.ask(Line { text: "hello".into() }).await?;
/// assert_eq!((told.told, told.missed), (1, vec![]));
/// assert_eq!(ada.receive().await, Some(Line { text: "hello".into() }));
///
/// drop(ada); // leaves the group
/// room.when_size(0).await?;
/// # Ok(())
/// # }
/// ```
///
/// A member on this node gets a clone of the message. For members on other nodes it is archived
/// once, and the bytes are copied for each. A message that gained fields (`since` of
/// [`#[message]`](macro@crate::message)) is archived once for each version, and a member is told
/// the newest version that its node knows; a member whose node has another layout misses the
/// message with [`Miss::Refused`]. (A `try_broadcast` contains the message: nodes that know
/// different versions of it refuse each other's `try_broadcast`. They understand a message told to
/// the group itself.)
///
/// # Cancel safety
/// If an ask of a group is dropped before the group has begun it, no member is told. If it is
/// dropped later, the members are told, but the outcome is not reported. A message that waits for a
/// member when the group ends is dropped, and the asker learns that this member missed it.
///
/// A group that is a member of itself, even through others, tells the same message forever.
pub struct Group<M: Message + Wire + Clone> {
    /// Members by number, in the order in which they joined.
    members: BTreeMap<u64, Member<M>>,
    numbers: HashMap<Address, u64>,
    joined: u64,
    members_max: usize,
    awaited: SizeWaiters,
}

/// Askers that wait until the group has a certain number of members.
///
/// Askers that have given up are dropped when the number of all askers has doubled since the last
/// time, so the cost of an asker does not grow with the number of others. At most twice as many
/// askers are kept as ever waited at once, or [`SizeWaiters::KEPT_MIN`].
#[derive(Default)]
struct SizeWaiters {
    /// The askers by the number of members that they wait for.
    by_size: BTreeMap<u64, Vec<ReplyTo<()>>>,
    count: usize,
    /// The number of askers left when they were last pruned.
    left: usize,
}

impl SizeWaiters {
    /// Up to this number, askers are kept even if they have given up.
    const KEPT_MIN: usize = 64;

    fn insert(&mut self, size: u64, reply: ReplyTo<()>) {
        // A tell has no asker that waits.
        if !reply.is_awaited() {
            return;
        }
        if self.count >= Self::KEPT_MIN.max(2 * self.left) {
            self.prune();
        }
        self.by_size.entry(size).or_default().push(reply);
        self.count += 1;
    }

    /// Removes and returns the askers that wait for this number of members.
    fn remove(&mut self, size: u64) -> Vec<ReplyTo<()>> {
        let reached = self.by_size.remove(&size).unwrap_or_default();
        self.count -= reached.len();
        reached
    }

    /// Drops the askers that have given up.
    fn prune(&mut self) {
        for waiting in self.by_size.values_mut() {
            waiting.retain(|reply| !reply.is_given_up());
        }
        self.by_size.retain(|_, waiting| !waiting.is_empty());
        self.count = self.by_size.values().map(Vec::len).sum();
        self.left = self.count;
    }
}

/// The error of joining a group that already has the maximum number of members.
#[message]
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the group has {members_max} members, as many as it may have: see `Group::members_max`")]
pub struct GroupFull {
    /// The maximum number of members.
    pub members_max: u64,
}

ringpost_transport::debug_by_display!(GroupFull);

impl<M: Message + Wire + Clone> Group<M> {
    /// Creates a group without members.
    pub fn new() -> Self {
        Group {
            members: BTreeMap::new(),
            numbers: HashMap::new(),
            joined: 0,
            members_max: limits::GROUP_MEMBERS_MAX,
            awaited: SizeWaiters::default(),
        }
    }

    /// Sets the maximum number of members; the default is [`limits::GROUP_MEMBERS_MAX`].
    pub fn members_max(mut self, members: usize) -> Self {
        self.members_max = members;
        self
    }

    fn remove(&mut self, member: &Address) -> bool {
        let number = self.numbers.remove(member);
        let removed = number.and_then(|number| self.members.remove(&number));
        self.tell_size();
        let was_member = removed.is_some();
        removed.into_iter().for_each(Member::end);
        was_member
    }

    /// Answers the askers that wait for the current number of members.
    fn tell_size(&mut self) {
        let reached = self.awaited.remove(self.members.len() as u64);
        reached.into_iter().for_each(|reply| reply.send(()));
    }

    /// Tells each member the message, or queues it for the member, as `patience` says.
    async fn tell_each(
        &mut self,
        message: M,
        patience: OverflowPolicy,
        reply: ReplyTo<Told<M>>,
        cx: &mut Context<Self>,
    ) {
        // None of this waits for a member.
        let tally = BroadcastTally::new(reply);
        // All are made before the first member is told: if this future is dropped midway, the other
        // members have missed the message.
        let slips = self.members.values().map(|member| tally.slip(member.recipient()));
        let slips: Vec<DeliveryAck<M>> = slips.collect();
        drop(tally);
        let mut copies = Copies::new(message);
        for (member, slip) in self.members.values_mut().zip(slips) {
            // A large group must let other tasks run.
            coop::consume_budget().await;
            match copies.of(member.is_far()) {
                Ok(copy) => member.tell(copy, slip, patience, cx),
                Err(cause) => slip.missed(Miss::of(&cause)),
            }
        }
    }
}

impl<M: Message + Wire + Clone> Default for Group<M> {
    fn default() -> Self {
        Group::new()
    }
}

impl<M: Message + Wire + Clone> fmt::Debug for Group<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("message", &M::NAME)
            .field("members", &self.members.len())
            .finish_non_exhaustive()
    }
}

#[actor(name = "ringpost::Group")]
#[diagnostic::do_not_recommend]
impl<M: Message + Wire + Clone> Actor for Group<M> {}

#[handlers(Down, GetMembers<M>, GetSize<M>)]
impl<M: Message + Wire + Clone> Group<M> {
    /// Tells each member the message when it has room. Answers when the outcome of all members is
    /// known.
    #[handler]
    pub async fn broadcast(&mut self, msg: M, reply: ReplyTo<Told<M>>, cx: &mut Context<Self>) {
        self.tell_each(msg, OverflowPolicy::Waits, reply, cx).await;
    }

    /// Tells the members that have room now, and answers at once. A member for which earlier
    /// messages wait misses this one.
    #[handler]
    pub async fn try_broadcast(
        &mut self,
        message: M,
        reply: ReplyTo<Told<M>>,
        cx: &mut Context<Self>,
    ) {
        self.tell_each(message, OverflowPolicy::None, reply, cx).await;
    }

    /// Makes an actor a member: it is told the messages that the group handles from then on. An
    /// actor that is a member already stays a member, even if the group was about to remove it as
    /// ended. An actor that has ended is a member until the group learns of its end. After joining
    /// by a name on another node, the member is whatever actor has that name when the first end
    /// after that is reported: see [`Group`].
    #[handler]
    pub fn join(&mut self, member: Recipient<M>, cx: &mut Context<Self>) -> Result<(), GroupFull> {
        if let Some(number) = self.numbers.get(member.address()) {
            self.members.get_mut(number).into_iter().for_each(Member::join_again);
            // A `Down` that is still pending belongs to the earlier member.
            cx.unwatch(&member);
            cx.watch(&member);
            return Ok(());
        }
        if self.members.len() >= self.members_max {
            return Err(GroupFull { members_max: self.members_max as u64 });
        }
        cx.watch(&member);
        self.numbers.insert(member.address().clone(), self.joined);
        self.members.insert(self.joined, Member::new(member));
        self.joined += 1;
        self.tell_size();
        Ok(())
    }

    /// Removes a member, which misses the messages that wait for it. Answers false if the actor was
    /// not a member.
    #[handler]
    pub fn leave(&mut self, member: Recipient<M>, cx: &mut Context<Self>) -> bool {
        cx.unwatch(&member);
        self.remove(member.address())
    }

    /// Answers when the actor is not a member, or no longer a member: asked by its [`Membership`].
    #[doc(hidden)]
    #[handler]
    pub fn stay(&mut self, member: Recipient<M>, reply: ReplyTo<()>) {
        let number = self.numbers.get(member.address());
        match number.and_then(|number| self.members.get_mut(number)) {
            Some(member) => member.stays(reply),
            None => reply.send(()),
        }
    }

    /// Answers when the group has this number of members: see [`ActorRef::when_size`].
    #[doc(hidden)]
    #[handler]
    pub fn when_size_is(&mut self, msg: WhenSize<M>, reply: ReplyTo<()>) {
        self.awaited.insert(msg.0, reply);
        self.tell_size();
    }
}

/// Asks for the members. Generic, to differ from every message of a group.
#[message]
struct GetMembers<M>(#[message(opaque)] PhantomData<fn(M)>);

/// Asks how many members there are. Generic like [`GetMembers`].
#[message]
struct GetSize<M>(#[message(opaque)] PhantomData<fn(M)>);

/// The message of [`ActorRef::when_size`]: answered when the group has this many members. Generic
/// like [`GetMembers`].
#[doc(hidden)]
#[message]
pub struct WhenSize<M>(u64, #[message(opaque)] PhantomData<fn(M)>);

impl<M: Message + Wire + Clone> ActorRef<Group<M>> {
    /// Returns the members, in the order in which they joined.
    ///
    /// # Errors
    /// [`AskError`].
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn members(&self) -> Result<Vec<Recipient<M>>, AskError> {
        self.ask(GetMembers(PhantomData)).await
    }

    /// Returns the number of members.
    ///
    /// # Errors
    /// [`AskError`].
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn size(&self) -> Result<u64, AskError> {
        self.ask(GetSize(PhantomData)).await
    }

    /// Waits until the group has exactly this many members, for at most a year
    /// ([`limits::ASK_TIMEOUT_MAX`]). Ready at once if it has. The number may have changed again
    /// when the group's answer arrives.
    ///
    /// # Errors
    /// [`AskError`] if the group ends first, its node is or becomes unreachable, or the year is
    /// over.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn when_size(&self, members: u64) -> Result<(), AskError> {
        let asked = self.ask(WhenSize(members, PhantomData)).timeout(limits::ASK_TIMEOUT_MAX);
        asked.await
    }
}

#[diagnostic::do_not_recommend]
impl<M: Message + Wire + Clone> Handler<GetMembers<M>> for Group<M> {
    type Reply = Vec<Recipient<M>>;

    async fn handle(&mut self, _: GetMembers<M>, _cx: &mut Context<Self>) -> Vec<Recipient<M>> {
        self.members.values().map(|member| member.recipient().clone()).collect()
    }
}

#[diagnostic::do_not_recommend]
impl<M: Message + Wire + Clone> Handler<GetSize<M>> for Group<M> {
    type Reply = u64;

    async fn handle(&mut self, _: GetSize<M>, _cx: &mut Context<Self>) -> u64 {
        self.members.len() as u64
    }
}

#[diagnostic::do_not_recommend]
impl<M: Message + Wire + Clone> Handler<Down> for Group<M> {
    type Reply = ();

    async fn handle(&mut self, msg: Down, cx: &mut Context<Self>) {
        let Down { actor, exit } = msg;
        let member = self.numbers.get(&actor).and_then(|number| self.members.get_mut(number));
        if let Some(member) = member
            && exit != ActorExit::NodeDown
            && member.may_be_there()
        {
            // The new watch looks the name up again; if no actor has it, its `Down` removes the
            // member.
            return cx.watch(member.recipient());
        }
        self.remove(&actor);
    }
}

#[cfg(test)]
mod tests {
    use futures::poll;

    use super::*;
    use crate::node::Node;

    /// Keeps waiting askers as a group does.
    #[actor]
    #[derive(Default)]
    struct Keeper {
        awaited: SizeWaiters,
    }

    #[handlers]
    impl Keeper {
        #[handler]
        fn wait(&mut self, size: u64, reply: ReplyTo<()>) {
            self.awaited.insert(size, reply);
        }

        #[handler]
        fn reach(&mut self, size: u64) {
            self.awaited.remove(size).into_iter().for_each(|reply| reply.send(()));
        }

        #[handler]
        fn kept(&self) -> u64 {
            let kept = self.awaited.by_size.values().map(Vec::len).sum::<usize>();
            assert_eq!(self.awaited.count, kept);
            kept as u64
        }
    }

    #[tokio::test]
    async fn those_that_gave_up_or_never_waited_for_a_size_are_not_kept() {
        let node = Node::builder("alpha").start().await.unwrap();
        let keeper = node.spawn("keeper", Keeper::default()).await.unwrap();
        for _ in 0..1_000 {
            keeper.tell(Wait { size: 9 }).await.unwrap();
        }
        assert_eq!(keeper.kept().await, Ok(0));
        let mut waiting: Vec<_> = (0..100).map(|_| Box::pin(keeper.wait(9))).collect();
        for wait in &mut waiting {
            assert!(poll!(wait).is_pending());
        }
        for size in 10..1_000 {
            let mut given_up = Box::pin(keeper.wait(size));
            assert!(poll!(&mut given_up).is_pending());
            let kept = keeper.kept().await.unwrap();
            assert!(kept > 100 && kept <= 200, "{kept}");
        }
        keeper.reach(9).await.unwrap();
        for wait in waiting {
            assert_eq!(wait.await, Ok(()));
        }
        assert!(keeper.kept().await.unwrap() <= 100);
    }
}
