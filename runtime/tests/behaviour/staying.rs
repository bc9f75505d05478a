//! Members that stay members of a group over its restarts and the loss of its node.

use std::time::Duration;

use ringpost::group::{Group, MembershipEnded, Told};
use ringpost::prelude::*;
use ringpost::spawn::{Child, Restart};
use tokio::task::AbortHandle;

use super::world::{World, end, until};
use crate::actors::{Note, Notebook};
use crate::remote::PATIENCE;

type Notes = ActorRef<Group<Note>>;

/// A member for as long as it lives.
struct Listener {
    group: Notes,
    joins: Option<AbortHandle>,
    notes: Vec<u64>,
}

#[actor]
impl Actor for Listener {
    async fn on_start(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.joins = Some(cx.join(&self.group));
        Ok(())
    }
}

#[handlers]
impl Listener {
    #[handler]
    fn note(&mut self, msg: Note) {
        self.notes.push(msg.number);
    }

    /// Is a member no longer.
    #[handler]
    fn leave(&mut self) {
        self.joins.take().into_iter().for_each(|joins| joins.abort());
    }

    #[handler]
    fn heard(&self) -> Vec<u64> {
        self.notes.clone()
    }
}

fn listener(group: &Notes) -> Child<Listener> {
    let group = group.clone();
    let make = move || Listener { group: group.clone(), joins: None, notes: Vec::new() };
    Child::new(make).restart(Restart::on_failure().backoff(Duration::ZERO, Duration::ZERO))
}

/// Waits until a group has this many members, even while it is restarted.
async fn until_size(group: &Notes, members: u64) {
    while let Err(error) = group.when_size(members).await {
        assert_ne!(error.cause, AskCause::NotSent(Cause::NoSuchActor), "{error}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Tells the members of a group, and asserts that `members` of them were told.
async fn tell(group: &Notes, number: u64, members: u64) {
    assert_eq!(group.ask(Note { number }).await, Ok(Told { told: members, missed: vec![] }));
}

/// Bound and by its name, near and far, of an actor and outside of one.
// Promised in docs/SEMANTICS.md.
pub async fn members_stay_members_of_a_group_that_is_restarted(world: &World) {
    let [alpha, beta] = world.pair().await;
    let restart = Restart::always().backoff(Duration::ZERO, Duration::from_millis(20));
    let group = Child::new(Group::<Note>::new).named("group").restart(restart);
    let group: Notes = alpha.supervise(group).await.unwrap();
    let near = alpha.spawn("near", Notebook::new()).await.unwrap();
    let far = beta.spawn("far", Notebook::new()).await.unwrap();
    let by_name: Notes = alpha.named("group").unwrap();
    let bound: Notes = beta.actor("alpha/group").await.unwrap();
    let memberships = [by_name.membership(near.recipient()), bound.membership(far.recipient())];
    let actor = beta.supervise(listener(&bound)).await.unwrap();
    for membership in &memberships {
        assert_eq!(membership.joined().await, Ok(()));
        assert!(membership.is_member());
    }
    until_size(&group, 3).await;
    tell(&group, 0, 3).await;
    for number in 1..4 {
        match number {
            1 => group.kill().await.unwrap(),
            // Its mailbox is closed for a moment.
            2 => group.stop().await.unwrap(),
            _ => group.drain().await.unwrap(),
        }
        until_size(&group, 3).await;
        tell(&group, number, 3).await;
    }
    for member in [&near, &far] {
        until_last(member, 3).await;
        assert_eq!(member.notes().await, Ok(vec![0, 1, 2, 3]));
    }
    // A restarted member joins again; a member that ends, or loses its membership, leaves.
    actor.kill().await.unwrap();
    while actor.heard().await.unwrap_or_default().is_empty() {
        group.tell(Note { number: 4 }).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    until_size(&group, 3).await;
    actor.leave().await.unwrap();
    until_size(&group, 2).await;
    let actor = alpha.supervise(listener(&by_name)).await.unwrap();
    until_size(&group, 3).await;
    actor.stop().await.unwrap();
    until_size(&group, 2).await;
    drop(memberships);
    until_size(&group, 0).await;
    end([alpha, beta]).await;
}

async fn until_last(member: &ActorRef<Notebook>, number: u64) {
    while member.notes().await.unwrap().last() != Some(&number) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// By its name; a bound reference leads only to the group that it was bound to.
// Promised in docs/SEMANTICS.md.
pub async fn members_join_the_next_group_of_its_name_when_its_node_is_back(world: &World) {
    let [alpha, beta] = world.pair().await;
    let notebook = alpha.spawn("notebook", Notebook::new()).await.unwrap();
    let by_name: Notes = alpha.named("beta/group").unwrap();
    // Also before there is a group.
    let early = by_name.membership(notebook.recipient());
    let group: Notes = beta.spawn("group", Group::new()).await.unwrap();
    assert_eq!(early.joined().await, Ok(()));
    alpha.supervise(listener(&by_name)).await.unwrap();
    let bound: Notes = alpha.actor("beta/group").await.unwrap();
    let other = alpha.spawn("other", Notebook::new()).await.unwrap();
    let until_its_end = bound.membership(other.recipient());
    until_size(&group, 3).await;
    tell(&group, 1, 3).await;
    // Another group has the name, and then one of the next run of the node.
    group.stop().await.unwrap();
    group.wait_stopped().await;
    let group: Notes = beta.spawn("group", Group::new()).await.unwrap();
    until_size(&group, 2).await;
    let ended = until_its_end.ended().await;
    assert!(
        matches!(&ended, MembershipEnded::GroupEnded { group, .. } if group == bound.address())
    );
    assert_eq!(until_its_end.joined().await, Err(ended));
    tell(&group, 2, 2).await;
    beta.shutdown(PATIENCE).await;
    let beta = world.node("beta", &[&alpha]).await;
    let group: Notes = beta.spawn("group", Group::new()).await.unwrap();
    until_size(&group, 2).await;
    tell(&group, 3, 2).await;
    until_last(&notebook, 3).await;
    assert_eq!(notebook.notes().await, Ok(vec![1, 2, 3]));
    assert_eq!(other.notes().await, Ok(vec![1]));
    end([alpha, beta]).await;
}

/// In the order in which memberships are dropped and made, however soon.
pub async fn a_membership_that_is_dropped_leaves_before_the_next_one_joins(world: &World) {
    let [alpha, beta] = world.pair().await;
    let group: Notes = alpha.spawn("group", Group::new()).await.unwrap();
    let there: Notes = beta.actor("alpha/group").await.unwrap();
    for (node, group) in [(&alpha, &group), (&beta, &there)] {
        let notebook = node.spawn("notebook", Notebook::new()).await.unwrap();
        let mut membership = group.membership(notebook.recipient());
        for number in 0..20 {
            if number % 3 > 0 {
                assert_eq!(membership.joined().await, Ok(()));
            }
            drop(membership);
            membership = group.membership(notebook.recipient());
            assert_eq!(membership.joined().await, Ok(()));
            tell(group, number, 1).await;
        }
        // Also a member that joins by hand.
        drop(membership);
        group.join(notebook.recipient()).await.unwrap().unwrap();
        tell(group, 20, 1).await;
        until_last(&notebook, 20).await;
        assert_eq!(notebook.notes().await, Ok((0..=20).collect()));
        membership = group.membership(notebook.recipient());
        assert_eq!(membership.joined().await, Ok(()));
        // A member that gets another membership, or leaves by hand, is back at once.
        drop(group.membership(notebook.recipient()));
        until_size(group, 1).await;
        assert_eq!(group.leave(notebook.recipient()).await.err(), None);
        until_size(group, 1).await;
        until(|| membership.is_member()).await;
        drop(membership);
        until_size(group, 0).await;
    }
    end([alpha, beta]).await;
}

pub async fn a_membership_that_cannot_be_says_why_and_one_without_a_place_waits(world: &World) {
    let [alpha, beta] = world.pair().await;
    let group: Notes = alpha.spawn("group", Group::new().members_max(1)).await.unwrap();
    let there: Notes = beta.named("alpha/group").unwrap();
    let notebook = beta.spawn("notebook", Notebook::new()).await.unwrap();
    let other = alpha.spawn("other", Notebook::new()).await.unwrap();
    // A name that another actor has.
    let none: Notes = beta.named("alpha/other").unwrap();
    let refused = none.membership(notebook.recipient()).ended().await;
    let MembershipEnded::Refused(error) = &refused else { panic!("{refused}") };
    let is_type = matches!(error.cause, AskCause::NotSent(Cause::WrongActorType { .. }));
    assert!(is_type && error.actor() == none.address(), "{error}");
    // A place that another member has.
    let first = group.membership(other.recipient());
    assert_eq!(first.joined().await, Ok(()));
    let second = there.membership(notebook.recipient());
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(!second.is_member());
    }
    drop(first);
    assert_eq!(second.joined().await, Ok(()));
    // A member that ends.
    notebook.kill().await.unwrap();
    let member = notebook.address().clone();
    let ended = MembershipEnded::MemberEnded { member, exit: ActorExit::Killed };
    assert_eq!(second.ended().await, ended);
    // A node that shuts down.
    let last = there.membership(beta.inbox::<Note>(1).await.unwrap().recipient());
    beta.shutdown(PATIENCE).await;
    let ended = last.ended().await;
    let is_over = match &ended {
        MembershipEnded::Refused(error) => error.cause == AskCause::NotSent(Cause::Shutdown),
        MembershipEnded::MemberEnded { .. } => true,
        _ => false,
    };
    assert!(is_over, "{ended}");
    end([alpha, beta]).await;
}
