//! A peer that is asked where nodes are, and answers late or never (MS-15).

use tokio::time::{Instant, sleep};

use super::*;
use crate::mesh::peer::Search;
use peer::silence;

async fn linked(scene: &Scene) -> Linked {
    let proven = Proven::committed(&scene.address(), &identity("wicked")).await;
    let wicked = proven.link(&silence()).await;
    // With the honest one.
    scene.victim.ready(2).await;
    wicked
}

/// Receives `expected` questions, and all further ones that this node has for the peer by now.
/// Returns their number, at most `ORDERED`.
async fn questions(wicked: &mut Linked, expected: usize) -> usize {
    let mut count = 0;
    while count < expected {
        count += usize::from(matches!(wicked.channel.recv().await.unwrap(), Message::WhoIs(_)));
    }
    // This node sends at most one question between two messages that it reads.
    for _ in expected..ORDERED {
        wicked.channel.send(&Message::Heartbeat(Beat::Question)).await.unwrap();
        loop {
            match wicked.channel.recv().await.unwrap() {
                Message::Heartbeat(Beat::Answer) => break,
                message => count += usize::from(matches!(message, Message::WhoIs(_))),
            }
        }
    }
    count
}

/// Questions that are asked for at once.
const ORDERED: usize = 1_000;

/// A round of dials comes each few milliseconds at first, and many nodes may be lost.
#[tokio::test]
async fn a_linked_peer_is_asked_for_a_node_once_a_second_and_never_while_it_owes_the_answer() {
    let scene = Scene::new().await;
    let mut wicked = linked(&scene).await;
    let lost = NodeName::new("lost").unwrap();
    let ask = |name: &NodeName| {
        (0..ORDERED).for_each(|_| scene.victim.table.ask_linked_for(name, Search::Sender));
    };
    ask(&lost);
    assert_eq!(questions(&mut wicked, 1).await, 1);
    // Time passes, and does not matter: the answer is owed.
    sleep(limits::LINKED_ASKED_INTERVAL).await;
    ask(&lost);
    assert_eq!(questions(&mut wicked, 0).await, 0, "it owes the answer");
    let known = Message::Known { name: lost.clone(), addresses: Vec::new() };
    wicked.channel.send(&known).await.unwrap();
    questions(&mut wicked, 0).await;
    let last = Instant::now();
    ask(&lost);
    assert_eq!(questions(&mut wicked, 1).await, 1, "the last time is long past");
    wicked.channel.send(&known).await.unwrap();
    questions(&mut wicked, 0).await;
    ask(&lost);
    let is_soon = last.elapsed() < limits::LINKED_ASKED_INTERVAL;
    let asked = questions(&mut wicked, 0).await;
    assert!(asked == 0 || !is_soon, "not at once");
    scene.end().await;
}

/// However many nodes are lost: the questions that wait for answers, or to be sent, are bounded.
#[tokio::test]
async fn a_linked_peer_that_never_answers_is_asked_for_so_many_nodes_in_a_second() {
    let scene = Scene::new().await;
    let mut wicked = linked(&scene).await;
    for round in 0..3 {
        for number in 0..ORDERED {
            let lost = NodeName::new(&format!("lost{round}-{number}")).unwrap();
            scene.victim.table.ask_linked_for(&lost, Search::Sender);
        }
        let asked = questions(&mut wicked, limits::LINKED_QUESTIONS_MAX).await;
        assert_eq!(asked, limits::LINKED_QUESTIONS_MAX, "{round}");
        sleep(limits::LINKED_ASKED_INTERVAL).await;
    }
    scene.end().await;
}

/// The session answers its peer, however much it has to send.
#[tokio::test]
async fn a_peer_is_heard_while_commands_never_cease() {
    /// Bounds the messages that the peer hears meanwhile.
    const HEARD: usize = 200_000;
    let scene = Scene::new().await;
    let mut wicked = linked(&scene).await;
    let peer = scene.victim.peer(&NodeName::new("wicked").unwrap());
    let say = || peer.send(Message::Heartbeat(Beat::Plain));
    (0..1_000).for_each(|_| say());
    wicked.channel.send(&Message::Heartbeat(Beat::Question)).await.unwrap();
    let mut heard = 0;
    while wicked.channel.recv().await.unwrap() != Message::Heartbeat(Beat::Answer) {
        heard += 1;
        assert!(heard < HEARD, "it is not answered");
        // As many wait as before.
        say();
    }
    scene.end().await;
}
