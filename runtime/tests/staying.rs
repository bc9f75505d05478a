//! Members of a group on simulated nodes: its node is killed, and cut off.

use std::time::Duration;

use ringpost::group::{Group, Membership, Told};
use ringpost::prelude::*;
use ringpost::spawn::Child;
use ringpost::test_kit::{self, Cluster};

use crate::actors::{Note, Notebook};

const SEEDS: u64 = 32;
const SECOND: Duration = Duration::from_secs(1);

type Notes = ActorRef<Group<Note>>;

async fn group(node: &Node) -> Notes {
    let group = Child::new(Group::<Note>::new).named("group");
    node.supervise(group).await.unwrap()
}

/// The members of the group of a seed: a notebook on each of two nodes.
struct Members {
    notebooks: Vec<ActorRef<Notebook>>,
    memberships: Vec<Membership<Note>>,
}

async fn members(cluster: &Cluster) -> Members {
    let mut members = Members { notebooks: Vec::new(), memberships: Vec::new() };
    for name in ["ada", "bob"] {
        let node = cluster.node(name).await;
        let notebook = node.spawn("notebook", Notebook::new()).await.unwrap();
        let group: Notes = node.named("group/group").unwrap();
        members.memberships.push(group.membership(notebook.recipient()));
        members.notebooks.push(notebook);
    }
    members
}

impl Members {
    /// Tells a note to all of them, once they are members.
    async fn are_told(&self, group: &Notes, number: u64) {
        group.when_size(2).await.unwrap();
        assert_eq!(group.ask(Note { number }).await, Ok(Told { told: 2, missed: vec![] }));
        for notebook in &self.notebooks {
            while notebook.notes().await.unwrap().last() != Some(&number) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

/// At a moment of the seed's, also while they join.
// Promised in docs/SEMANTICS.md.
#[test]
fn members_join_again_when_the_node_of_their_group_was_killed() {
    test_kit::check(0..SEEDS, |cluster| async move {
        let mut node = cluster.node("group").await;
        let members = members(&cluster).await;
        for number in 0..3 {
            let group = group(&node).await;
            if number != 1 {
                members.are_told(&group, number).await;
            }
            cluster.sleep_up_to(SECOND / 20).await;
            cluster.kill("group").await;
            cluster.sleep_up_to(20 * SECOND).await;
            node = cluster.node("group").await;
        }
        let group = group(&node).await;
        members.are_told(&group, 3).await;
        drop(members.memberships);
        group.when_size(0).await.unwrap();
    });
}

/// The link is lost before they leave, in the midst of it, or after it.
#[test]
fn members_leave_a_group_whose_link_is_lost_under_that() {
    test_kit::check(0..4 * SEEDS, |cluster| async move {
        let node = cluster.node("group").await;
        let group = group(&node).await;
        let members = members(&cluster).await;
        members.are_told(&group, 0).await;
        let is_before = cluster.random().is_multiple_of(4);
        if is_before {
            cluster.isolate("group");
            cluster.sleep_up_to(10 * SECOND).await;
        }
        drop(members.memberships);
        cluster.sleep_up_to(SECOND / 2_000).await;
        cluster.isolate("group");
        // Long enough for the links to end, and mostly for no node to be down.
        cluster.sleep_up_to(8 * SECOND).await;
        cluster.mend_all();
        group.when_size(0).await.unwrap();
        for notebook in &members.notebooks {
            assert_eq!(notebook.notes().await, Ok(vec![0]));
        }
    });
}

/// The group takes their node for down, or they take its node, or both, or neither.
#[test]
fn members_join_again_when_they_were_cut_off_from_their_group() {
    test_kit::check(0..SEEDS, |cluster| async move {
        let node = cluster.node("group").await;
        let group = group(&node).await;
        let members = members(&cluster).await;
        members.are_told(&group, 0).await;
        for number in 1..4 {
            match number {
                1 => cluster.cut("group", "ada"),
                2 => cluster.cut_one_way("group", "ada"),
                _ => cluster.cut_one_way("ada", "group"),
            }
            cluster.sleep_up_to(20 * SECOND).await;
            cluster.mend_all();
            // The size may still be the old one: time for the end of a link.
            cluster.sleep(10 * SECOND).await;
            members.are_told(&group, number).await;
        }
        drop(members.memberships);
        group.when_size(0).await.unwrap();
    });
}
