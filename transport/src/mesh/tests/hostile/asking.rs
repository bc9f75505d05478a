//! A peer that is asked where nodes are, and answers late or never (MS-15).

use tokio::time::{Instant, sleep, timeout_at};

use super::*;
use crate::mesh::peer::Search;
use peer::silence;

async fn linked(scene: &Scene) -> Linked {
    let proven = Proven::committed(&scene.address(), &identity("wicked")).await;
    proven.link(&silence()).await
}

/// Returns how many questions come within this time. Shows that the peer lives.
async fn questions(wicked: &mut Linked, within: Duration) -> usize {
    let (mut count, end) = (0, Instant::now() + within);
    while let Ok(message) = timeout_at(end, wicked.channel.recv()).await {
        count += usize::from(matches!(message.unwrap(), Message::WhoIs(_)));
    }
    wicked.channel.send(&Message::Heartbeat(Beat::Plain)).await.unwrap();
    count
}

/// A round of dials comes each few milliseconds at first, and many nodes may be lost.
#[tokio::test]
async fn a_linked_peer_is_asked_for_a_node_once_a_second_and_never_while_it_owes_the_answer() {
    let scene = Scene::new().await;
    let mut wicked = linked(&scene).await;
    let lost = NodeName::new("lost").unwrap();
    let ask = |name: &NodeName| {
        (0..100).for_each(|_| scene.victim.table.ask_linked_for(name, Search::Sender));
    };
    let a_while = Duration::from_millis(100);
    ask(&lost);
    assert_eq!(questions(&mut wicked, a_while).await, 1);
    sleep(limits::LINKED_ASKED_INTERVAL).await;
    ask(&lost);
    assert_eq!(questions(&mut wicked, a_while).await, 0, "it owes the answer");
    let known = Message::Known { name: lost.clone(), addresses: Vec::new() };
    wicked.channel.send(&known).await.unwrap();
    questions(&mut wicked, a_while).await;
    ask(&lost);
    assert_eq!(questions(&mut wicked, a_while).await, 1, "the last time is long past");
    wicked.channel.send(&known).await.unwrap();
    questions(&mut wicked, a_while).await;
    ask(&lost);
    assert_eq!(questions(&mut wicked, a_while).await, 0, "not at once");
    scene.end().await;
}

/// However many nodes are lost: what waits for its answers, or to be sent, is bounded.
#[tokio::test]
async fn a_linked_peer_that_never_answers_is_asked_for_so_many_nodes_in_a_second() {
    let scene = Scene::new().await;
    let mut wicked = linked(&scene).await;
    for round in 0..3 {
        for number in 0..1_000 {
            let lost = NodeName::new(&format!("lost{round}-{number}")).unwrap();
            scene.victim.table.ask_linked_for(&lost, Search::Sender);
        }
        let asked = questions(&mut wicked, limits::LINKED_ASKED_INTERVAL).await;
        assert_eq!(asked, limits::LINKED_QUESTIONS_MAX, "{round}");
    }
    scene.end().await;
}

/// MS-5: however much this node has to say to it.
#[tokio::test]
async fn a_peer_is_heard_while_many_commands_wait() {
    const COMMANDS: usize = 20_000;
    let scene = Scene::new().await;
    let mut wicked = linked(&scene).await;
    let peer = scene.victim.peer(&NodeName::new("wicked").unwrap());
    (0..COMMANDS).for_each(|_| peer.send(Message::Heartbeat(Beat::Plain)));
    wicked.channel.send(&Message::Heartbeat(Beat::Question)).await.unwrap();
    let mut before = 0;
    while wicked.channel.recv().await.unwrap() != Message::Heartbeat(Beat::Answer) {
        before += 1;
    }
    assert!(before < COMMANDS / 2, "{before} messages came before the answer");
    scene.end().await;
}
