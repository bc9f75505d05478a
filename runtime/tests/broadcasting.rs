//! Groups: actors that are told the same messages.

mod archives;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::poll;
use ringpost::group::{Group, GroupFull, Miss, Told};
use ringpost::limits;
use ringpost::prelude::*;
use ringpost::spawn::Child;
use ringpost::test_kit;
use tokio::task::block_in_place;

use crate::actors::{Note, Notebook, held, node};

async fn group(node: &Node) -> ActorRef<Group<Note>> {
    node.spawn("group", Group::new()).await.unwrap()
}

async fn notebook(node: &Node, group: &ActorRef<Group<Note>>) -> ActorRef<Notebook> {
    let notebook = node.spawn_anonymous(Notebook::new()).await.unwrap();
    group.join(notebook.recipient()).await.unwrap().unwrap();
    notebook
}

fn all<M: Message>(told: u64) -> Told<M> {
    Told { told, missed: Vec::new() }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn members_are_told_in_order_and_the_asker_learns_how_many() {
    let node = node().await;
    let group = group(&node).await;
    assert_eq!(group.ask(Note { number: 0 }).await, Ok(all(0)));
    let (ada, bob) = (notebook(&node, &group).await, notebook(&node, &group).await);
    // Joining again changes nothing.
    group.join(ada.recipient()).await.unwrap().unwrap();
    assert_eq!(group.size().await, Ok(2));
    assert_eq!(group.members().await, Ok(vec![ada.recipient(), bob.recipient()]));
    for number in 1..500 {
        group.tell(Note { number }).await.unwrap();
    }
    // In order with what finds room at once.
    while !group.try_broadcast(Note { number: 500 }).await.unwrap().missed.is_empty() {}
    assert_eq!(group.ask(Note { number: 501 }).await, Ok(all(2)));
    for member in [ada, bob] {
        let mut notes = member.notes().await.unwrap();
        notes.dedup();
        assert_eq!(notes, (1..=501).collect::<Vec<_>>());
    }
}

/// More members than a group tells in one turn.
const CROWD: usize = 400;

/// A group that is killed in the middle of a message, or whose message cannot be cloned any more,
/// answers for every member: it says that the remaining members missed it.
#[tokio::test]
async fn a_group_that_ends_in_the_midst_of_a_message_says_who_missed_it() {
    let node = node().await;
    let group = group(&node).await;
    let mut members = Vec::new();
    for _ in 0..CROWD {
        members.push(notebook(&node, &group).await);
    }
    let mut asked = Box::pin(group.ask(Note { number: 1 }).into_future());
    assert!(poll!(&mut asked).is_pending());
    // It has told the first ones, and lets others run.
    tokio::task::yield_now().await;
    group.kill().await.unwrap();
    let Told { told, missed } = asked.await.unwrap();
    println!("{told} of {CROWD} were told");
    assert!(0 < told && told < CROWD as u64, "{told}");
    assert_eq!(told as usize + missed.len(), CROWD);
    assert!(missed.iter().all(|missed| missed.why == Miss::Left));
    for (place, member) in members.iter().enumerate() {
        let expected = if (place as u64) < told { vec![1] } else { vec![] };
        assert_eq!(member.notes().await, Ok(expected), "member {place}");
    }
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_member_that_leaves_or_ends_is_one_no_longer() {
    let node = node().await;
    let group = group(&node).await;
    let (ada, bob) = (notebook(&node, &group).await, notebook(&node, &group).await);
    let eve = notebook(&node, &group).await;
    assert_eq!(group.leave(ada.recipient()).await, Ok(true));
    assert_eq!(group.leave(ada.recipient()).await, Ok(false));
    bob.stop().await.unwrap();
    group.when_size(1).await.unwrap();
    assert_eq!(group.members().await, Ok(vec![eve.recipient()]));
    assert_eq!(group.ask(Note { number: 1 }).await, Ok(all(1)));
    // An actor that has ended already, and an actor that never was.
    group.join(bob.recipient()).await.unwrap().unwrap();
    let nobody: Recipient<Note> = node.named::<Notebook>("nobody").unwrap().recipient();
    group.join(nobody).await.unwrap().unwrap();
    group.when_size(1).await.unwrap();
    // The members do not end with it.
    group.stop().await.unwrap();
    assert_eq!(group.wait_stopped().await, ActorExit::Stopped);
    assert_eq!(eve.notes().await, Ok(vec![1]));
    assert_eq!(ada.notes().await, Ok(vec![]));
}

#[tokio::test]
async fn a_program_can_wait_until_a_group_has_so_many_members() {
    let node = node().await;
    let group = group(&node).await;
    group.when_size(0).await.unwrap();
    let sizes = [2, 1, 2, 0];
    let mut waiting: Vec<_> = sizes.iter().map(|size| Box::pin(group.when_size(*size))).collect();
    let mut given_up = Box::pin(group.when_size(1));
    assert!(poll!(&mut given_up).is_pending());
    for wait in &mut waiting[..3] {
        assert!(poll!(wait).is_pending());
    }
    drop(given_up);
    let ada = notebook(&node, &group).await;
    waiting.remove(1).await.unwrap();
    let bob = notebook(&node, &group).await;
    waiting.remove(0).await.unwrap();
    waiting.remove(0).await.unwrap();
    // Also when members leave or end; not while there are more, or fewer.
    assert!(poll!(&mut waiting[0]).is_pending());
    group.leave(ada.recipient()).await.unwrap();
    assert!(poll!(&mut waiting[0]).is_pending());
    bob.kill().await.unwrap();
    waiting.remove(0).await.unwrap();
    let never = group.when_size(9);
    let (never, stopped) = tokio::join!(never, group.stop());
    stopped.unwrap();
    assert!(never.is_err(), "the group has ended");
}

/// Holds up who clones the first one, until the test goes on.
#[message]
#[derive(Debug, PartialEq)]
pub struct Brake {}

static BRAKE: Barrier = Barrier::new(2);
static IS_HELD: AtomicBool = AtomicBool::new(false);

impl Clone for Brake {
    fn clone(&self) -> Self {
        if !IS_HELD.swap(true, Ordering::Relaxed) {
            // It has begun, and then may go on.
            block_in_place(|| (BRAKE.wait(), BRAKE.wait()));
        }
        Brake {}
    }
}

#[actor]
struct Driver;

#[handlers]
impl Driver {
    #[handler]
    fn brake(&self, msg: Brake) {
        let Brake {} = msg;
    }
}

/// There are more ends than the group is told of between two messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_join_again_before_their_end_is_told_stay() {
    let node = node().await;
    let group: ActorRef<Group<Brake>> = node.spawn("group", Group::new()).await.unwrap();
    let name = |number: u64| format!("driver-{number}");
    let member = |number| node.named::<Driver>(&name(number)).unwrap().recipient();
    for number in 0..40 {
        node.spawn(name(number), Driver).await.unwrap();
        group.join(member(number)).await.unwrap().unwrap();
    }
    group.tell(Brake {}).await.unwrap();
    block_in_place(|| BRAKE.wait());
    for number in 0..40 {
        let driver = node.actor::<Driver>(&name(number)).await.unwrap();
        driver.kill().await.unwrap();
        driver.wait_stopped().await;
        node.spawn(name(number), Driver).await.unwrap();
    }
    let mut joins: Vec<_> = (0..40).map(|number| Box::pin(group.join(member(number)))).collect();
    for join in &mut joins {
        assert!(poll!(join).is_pending());
    }
    block_in_place(|| BRAKE.wait());
    for join in joins {
        join.await.unwrap().unwrap();
    }
    assert_eq!(group.size().await, Ok(40));
    assert_eq!(group.ask(Brake {}).await, Ok(all(40)));
}

/// The news of its end is on its way to the group's node when that watches its name again, also
/// where it had left.
#[test]
fn a_member_of_another_node_that_joins_again_before_its_end_is_told_stays() {
    test_kit::check(0..20, |cluster| async move {
        let (alpha, beta) = (cluster.node("alpha").await, cluster.node("beta").await);
        let group = group(&alpha).await;
        let first = beta.spawn("member", Notebook::new()).await.unwrap();
        let member = alpha.named::<Notebook>("beta/member").unwrap();
        group.join(member.recipient()).await.unwrap().unwrap();
        assert_eq!(group.ask(Note { number: 1 }).await, Ok(all(1)));
        if cluster.random() % 2 == 0 {
            assert_eq!(group.leave(member.recipient()).await, Ok(true));
        }
        first.stop().await.unwrap();
        first.wait_stopped().await;
        let second = beta.spawn("member", Notebook::new()).await.unwrap();
        group.join(member.recipient()).await.unwrap().unwrap();
        cluster.sleep_up_to(Duration::from_millis(1)).await;
        assert_eq!(group.size().await, Ok(1));
        cluster.sleep(Duration::from_secs(1)).await;
        assert_eq!(group.size().await, Ok(1));
        assert_eq!(group.ask(Note { number: 2 }).await, Ok(all(1)));
        // It was on its way.
        cluster.sleep(Duration::from_secs(1)).await;
        assert_eq!(second.notes().await, Ok(vec![2]));
        second.stop().await.unwrap();
        cluster.sleep(Duration::from_secs(1)).await;
        assert_eq!(group.size().await, Ok(0));
    });
}

/// The group looks the name up once, as an end may be one from before the member joined.
#[test]
fn a_member_by_a_name_of_another_node_is_what_has_the_name_when_its_first_end_is_told() {
    test_kit::check(0..10, |cluster| async move {
        let (alpha, beta) = (cluster.node("alpha").await, cluster.node("beta").await);
        let group = group(&alpha).await;
        for (number, members) in [(1, 1), (2, 1), (3, 0)] {
            let actor = beta.spawn("member", Notebook::new()).await.unwrap();
            if number == 1 {
                let named = alpha.named::<Notebook>("beta/member").unwrap();
                group.join(named.recipient()).await.unwrap().unwrap();
            }
            cluster.sleep(Duration::from_secs(1)).await;
            assert_eq!(group.size().await, Ok(members), "with actor {number} of the name");
            assert_eq!(group.ask(Note { number }).await, Ok(all(members)));
            cluster.sleep(Duration::from_secs(1)).await;
            actor.stop().await.unwrap();
            actor.wait_stopped().await;
        }
    });
}

/// Room becomes free at the member, and the group gets another message before a waiting one takes
/// the room.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn what_waits_for_a_member_is_not_passed_by_a_later_message() {
    const ROOM: u64 = 64;
    let node = node().await;
    let group = group(&node).await;
    let member = held(&node, ROOM as usize).await;
    group.join(member.actor.recipient()).await.unwrap().unwrap();
    for number in 0..ROOM + 2 {
        group.tell(Note { number }).await.unwrap();
    }
    assert_eq!(group.size().await, Ok(1), "it has handled them");
    member.gate.add_permits(1);
    group.try_tell(Note { number: ROOM + 2 }).unwrap();
    let all: Vec<u64> = (0..ROOM + 3).collect();
    while member.actor.notes().await.unwrap().len() < all.len() {}
    assert_eq!(member.actor.notes().await, Ok(all));
}

#[tokio::test]
async fn a_group_ends_with_its_parent_and_may_be_a_member() {
    #[actor]
    struct Owner;
    #[handlers]
    impl Owner {
        #[handler]
        async fn open(&mut self, cx: &mut Context<Self>) -> ActorRef<Group<Note>> {
            cx.spawn(Child::new(Group::new)).await.unwrap()
        }
    }
    let node = node().await;
    let owner = node.spawn("owner", Owner).await.unwrap();
    let inner = owner.open().await.unwrap();
    let outer = group(&node).await;
    outer.join(inner.recipient()).await.unwrap().unwrap();
    let ada = notebook(&node, &inner).await;
    assert_eq!(outer.ask(Note { number: 7 }).await, Ok(all(1)));
    while ada.notes().await != Ok(vec![7]) {}
    owner.stop().await.unwrap();
    inner.wait_stopped().await;
    while outer.size().await != Ok(0) {}
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_slow_member_holds_up_no_other_and_misses_what_is_too_much() {
    let node = node().await;
    let group = group(&node).await;
    let slow = held(&node, 1).await;
    group.join(slow.actor.recipient()).await.unwrap().unwrap();
    let quick = notebook(&node, &group).await;
    let waiting = limits::GROUP_WAITING_MAX as u64;
    // One is in its mailbox, and as many wait as may.
    for number in 0..=waiting {
        group.tell(Note { number }).await.unwrap();
        let all_so_far: Vec<u64> = (0..=number).collect();
        while quick.notes().await.as_ref() != Ok(&all_so_far) {}
    }
    let told = group.ask(Note { number: waiting + 1 }).await.unwrap();
    let missed: Vec<_> = told.missed.iter().map(|missed| (&missed.member, &missed.why)).collect();
    assert_eq!((told.told, missed), (1, vec![(&slow.actor.recipient(), &Miss::Full)]));
    assert!(Miss::Full.is_retryable() && !Miss::Ended.is_retryable());
    // A `try_broadcast` misses it while others wait.
    let told = group.try_broadcast(Note { number: waiting + 2 }).await.unwrap();
    assert_eq!((told.told, told.missed[0].why.clone()), (1, Miss::Full));
    slow.gate.add_permits(1);
    let mut notes = Vec::new();
    while notes.len() as u64 <= waiting {
        notes = slow.actor.notes().await.unwrap();
    }
    assert_eq!(notes, (0..=waiting).collect::<Vec<_>>());
    // Then it is told again.
    while group.try_broadcast(Note { number: 1_000 }).await != Ok(all(2)) {}
    assert_eq!(slow.actor.notes().await.unwrap().last(), Some(&1_000));
}

// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn what_waits_for_a_member_that_leaves_ends_or_loses_its_group_is_missed() {
    let node = node().await;
    let group = group(&node).await;
    let why = async |told: Result<Told<Note>, AskError>| told.unwrap().missed[0].why.clone();
    for way in ["leave", "kill", "stop the group"] {
        let slow = held(&node, 1).await;
        group.join(slow.actor.recipient()).await.unwrap().unwrap();
        group.tell(Note { number: 1 }).await.unwrap();
        let asked = group.ask(Note { number: 2 }).into_ask();
        let (told, ()) = tokio::join!(asked, async {
            // Behind the ask.
            while group.try_broadcast(Note { number: 3 }).await.unwrap().missed.is_empty() {}
            match way {
                "leave" => assert_eq!(group.leave(slow.actor.recipient()).await, Ok(true)),
                "kill" => slow.actor.kill().await.unwrap(),
                _ => group.stop().await.unwrap(),
            }
        });
        let missed = why(told).await;
        match way {
            // It learns of the end by the watch or by the send that waits.
            "kill" => assert!(matches!(missed, Miss::Ended | Miss::Left), "{missed}"),
            _ => assert_eq!(missed, Miss::Left, "{way}"),
        }
        slow.actor.kill().await.unwrap();
        slow.actor.wait_stopped().await;
    }
}

#[tokio::test]
async fn an_ask_of_a_group_that_is_dropped_first_tells_nobody() {
    let node = node().await;
    let group = group(&node).await;
    let ada = notebook(&node, &group).await;
    let asked = group.ask(Note { number: 1 }).try_send().unwrap();
    drop(asked);
    assert_eq!(group.ask(Note { number: 2 }).await, Ok(all(1)));
    assert_eq!(ada.notes().await, Ok(vec![2]));
}

#[tokio::test]
async fn a_group_has_no_more_members_than_it_may() {
    let node = node().await;
    let group = node.spawn("group", Group::<Note>::new().members_max(1)).await.unwrap();
    let ada = notebook(&node, &group).await;
    let bob = node.spawn("bob", Notebook::new()).await.unwrap();
    let full = Err(GroupFull { members_max: 1 });
    assert_eq!(group.join(bob.recipient()).await, Ok(full));
    assert_eq!(group.join(ada.recipient()).await, Ok(Ok(())));
    ada.stop().await.unwrap();
    while group.join(bob.recipient()).await != Ok(Ok(())) {}
}
