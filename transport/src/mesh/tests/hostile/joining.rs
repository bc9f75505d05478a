//! Lies before there is a link: the connection is refused by name, or its fabric given up with the
//! reason, and the node lives on.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::peer::{FRAME_MAX, Proven, confirm, frame_of, framed, head, identity, next_frame};
use super::peer::{offer, ready_to_go, silence};
use super::{Node, Scene, config};
use crate::bootstrap::{Failure, Message, OfferMade, Rejection, Resync};
use crate::cause::Refusal;
use crate::config::Network;
use crate::id::NodeName;
use crate::limits;
use crate::proto::credit::FIRST_COUNT;
use crate::proto::fate::Refused;
use crate::proto::header::RecordKind;

/// Reads until the node refuses the connection; says why, and why it gave up a fabric before.
async fn refused(peer: &mut Proven) -> (Rejection, Option<String>) {
    let mut passed = None;
    loop {
        match peer.channel.recv().await {
            Ok(Message::Pass { reason, .. }) => {
                passed = Some(reason);
                // It is answered with a lie, and there is no other fabric.
                let reason = "as you like".into();
                peer.say(&Message::Pass { fabric: "tcp".into(), again: true, reason }).await;
            }
            Ok(_) => {}
            Err(Failure::RejectedByPeer(rejection)) => return (rejection, passed),
            Err(other) => panic!("{other}"),
        }
    }
}

async fn peer(scene: &Scene, name: &str) -> Proven {
    Proven::meet(&scene.address(), &identity(name)).await.unwrap()
}

/// Returns a peer whose connection the node chose.
async fn chosen(scene: &Scene, name: &str) -> Proven {
    Proven::committed(&scene.address(), &identity(name)).await
}

/// Returns a report of one part without refusals, after which another follows.
fn endless() -> Message {
    Message::Resync(Resync { epoch: 1, consumed: 0, refusals: Vec::new(), more: true })
}

fn offer_with(change: impl FnOnce(&mut OfferMade)) -> Message {
    let Message::Offer(mut made) = offer() else { unreachable!("it is one") };
    change(&mut made);
    Message::Offer(made)
}

/// MS-1: messages out of turn.
#[tokio::test]
async fn a_message_out_of_turn_is_garbage() {
    let scene = Scene::new().await;
    let pass = || Message::Pass { fabric: "none".into(), again: true, reason: String::new() };
    let connected = || Message::Connected { fabric: "tcp".into() };
    // The lower-named peer has to choose this connection first.
    for said in
        [Message::Commit { epoch: 0 }, silence(), offer(), connected(), ready_to_go(), pass()]
    {
        let mut aa = peer(&scene, "aa").await;
        aa.say(&said).await;
        assert_eq!(refused(&mut aa).await, (Rejection::Garbage, None), "{said:?}");
    }
    for said in [Message::Commit { epoch: 1 }, offer(), connected(), ready_to_go(), pass()] {
        let mut wicked = chosen(&scene, "wicked").await;
        wicked.say(&said).await;
        assert_eq!(refused(&mut wicked).await, (Rejection::Garbage, None), "{said:?}");
    }
    let other = offer_with(|made| made.fabric = "verbs".into());
    for said in [Message::Commit { epoch: 1 }, silence(), connected(), ready_to_go(), pass(), other]
    {
        let mut wicked = chosen(&scene, "wicked").await;
        wicked.say(&silence()).await;
        wicked.say(&said).await;
        assert_eq!(refused(&mut wicked).await, (Rejection::Garbage, None), "{said:?}");
    }
    scene.lives_on().await;
    scene.end().await;
}

/// A report about another link, or about messages never sent, changes nothing.
#[tokio::test]
async fn a_lie_about_the_last_link_changes_nothing() {
    let mut scene = Scene::new().await;
    let refused = Refused { frame: 7, place: 7, refusal: Refusal::Closed };
    for epoch in [0, 1, u64::MAX] {
        for consumed in [0, 1, u32::MAX] {
            let mut wicked = chosen(&scene, "wicked").await;
            let part = |more| {
                let refusals = vec![refused; limits::RESYNC_REFUSALS_MAX];
                Message::Resync(Resync { epoch, consumed, refusals, more })
            };
            wicked.say(&part(true)).await;
            let linked = wicked.link(&part(false)).await;
            scene.event().await;
            scene.lives_on().await;
            drop(linked);
            scene.event().await;
        }
    }
    scene.end().await;
}

/// LK-1, TC-4: the link does not come up, and the peer is told why.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_data_connection_that_lies_is_given_up_with_the_reason() {
    let scene = Scene::new().await;
    let mut later = confirm(FRAME_MAX);
    later[0] = 3;
    let probe = frame_of(&[(head(RecordKind::Probe), &[])], FIRST_COUNT);
    let mut two = frame_of(&[(head(RecordKind::Confirm), &[][..]); 2], FIRST_COUNT);
    two.resize(FRAME_MAX, 0);
    let length = (FRAME_MAX as u32).to_le_bytes();
    two[8..12].copy_from_slice(&length);
    for (what, bytes, reason) in [
        ("another record", framed(&probe), "unexpected confirmation"),
        ("a short one", framed(&confirm(FRAME_MAX - 16)), "unexpected confirmation"),
        ("two", framed(&two), "unexpected confirmation"),
        ("another version", framed(&later), "malformed frame"),
        ("a frame longer than its slot", framed(&vec![1; FRAME_MAX + 16]), "the fabric failed"),
        ("a frame longer than any", vec![0xff; 8], "the fabric failed"),
    ] {
        let mut wicked = chosen(&scene, "wicked").await;
        wicked.say(&silence()).await;
        let mut data = wicked.connected().await;
        // The node's own frame is there, and stays without an answer.
        next_frame(&mut data).await;
        data.write_all(&bytes).await.unwrap();
        let (rejection, passed) = refused(&mut wicked).await;
        assert_eq!(rejection, Rejection::NoCommonFabric, "{what}");
        let passed = passed.unwrap();
        assert!(passed.contains(reason), "{what}: {passed}");
    }
    let mut wicked = chosen(&scene, "wicked").await;
    wicked.say(&silence()).await;
    wicked.say(&offer_with(|made| made.queue_pair.push(1))).await;
    let (rejection, passed) = refused(&mut wicked).await;
    assert_eq!(rejection, Rejection::NoCommonFabric);
    assert!(passed.unwrap().contains("a dialler offers nothing"));
    scene.lives_on().await;
    scene.end().await;
}

/// MS-16 holds for its own addresses and for addresses that it gives for another node.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_peer_has_no_address_dialled_at_which_no_node_can_be() {
    let mut scene = Scene::new().await;
    let lies = ["0.0.0.0:7", "[::]:7", "224.0.0.1:7", "255.255.255.255:7", "127.0.0.1:0", "x"];
    let with = |honest: &str| lies.into_iter().chain([honest]).map(String::from).collect();
    let known = |name: &str| scene.victim.peer(&NodeName::new(name).unwrap()).addresses();
    let mut wicked = identity("wicked");
    wicked.addresses = with("127.0.0.1:7");
    let proven = Proven::committed(&scene.address(), &wicked).await;
    assert_eq!(known("wicked"), ["127.0.0.1:7"]);
    let mut wicked = proven.link(&silence()).await;
    let name = NodeName::new("x").unwrap();
    scene.victim.peer(&name).want_link();
    while wicked.channel.recv().await.unwrap() != Message::WhoIs(name.clone()) {}
    let addresses = with("127.0.0.1:8");
    wicked.channel.send(&Message::Known { name, addresses }).await.unwrap();
    while known("x").is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(known("x"), ["127.0.0.1:8"]);
    scene.lives_on().await;
    drop(wicked);
    scene.event().await;
    scene.end().await;
}

/// MS-15: a round of dials that led to a link asks no one.
#[tokio::test]
async fn nobody_is_asked_for_a_node_that_is_linked() {
    let mut scene = Scene::new().await;
    let mut wicked = chosen(&scene, "wicked").await.link(&silence()).await;
    let network = Network::tcp();
    let sought = Node::start(config("sought", network, &[])).await.unwrap();
    let peer = scene.victim.peer(&sought.mesh.id().name);
    peer.learn(&[sought.address()], "127.0.0.1:1");
    for name in ["sought", "lost"] {
        if name == "lost" {
            while peer.linked().is_none() {
                tokio::task::yield_now().await;
            }
        }
        scene.victim.peer(&NodeName::new(name).unwrap()).want_link();
    }
    let lost = NodeName::new("lost").unwrap();
    let asked = loop {
        if let Message::WhoIs(name) = wicked.channel.recv().await.unwrap() {
            break name;
        }
    };
    assert_eq!(asked, lost, "that is the first one it is asked for");
    drop(wicked);
    scene.event().await;
    sought.shutdown().await;
    scene.end().await;
}

/// Other ways are tried as often as the limit allows, whatever the peer says.
#[tokio::test]
async fn a_peer_that_always_knows_another_way_is_left_at_last() {
    let scene = Scene::new().await;
    let mut wicked = chosen(&scene, "wicked").await;
    wicked.say(&silence()).await;
    let mut offers = 0;
    let rejection = loop {
        match wicked.channel.recv().await {
            Ok(Message::Offer(_)) => {
                offers += 1;
                let (fabric, reason) = ("tcp".into(), "try again".into());
                wicked.say(&Message::Pass { fabric, again: true, reason }).await;
            }
            Ok(_) => {}
            Err(Failure::RejectedByPeer(rejection)) => break rejection,
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!((rejection, offers), (Rejection::NoCommonFabric, limits::WAYS_MAX));
    scene.lives_on().await;
    scene.end().await;
}

/// Each waits for nothing but a bound of the node; all at once.
#[tokio::test]
async fn a_peer_that_never_comes_to_an_end_is_too_slow() {
    let scene = Scene::new().await;
    let endless_word = async {
        let mut wicked = chosen(&scene, "wicked1").await;
        // Until the node has had enough and reads no more.
        while wicked.channel.send(&endless()).await.is_ok() {}
        wicked
    };
    let no_word = async {
        let mut wicked = chosen(&scene, "wicked2").await;
        refused(&mut wicked).await
    };
    let no_choice = async { refused(&mut peer(&scene, "aa").await).await };
    let no_data = async {
        let mut wicked = chosen(&scene, "wicked3").await;
        wicked.say(&silence()).await;
        let mut token = wicked.offered().await;
        token[0] ^= 1;
        let mut data = wicked.connect(&token).await;
        // A token that no queue pair waits for is closed at once.
        assert_eq!(data.read(&mut [0]).await.unwrap_or(0), 0);
        refused(&mut wicked).await
    };
    let (_, no_word, no_choice, no_data) = tokio::join!(endless_word, no_word, no_choice, no_data);
    assert_eq!(no_word, (Rejection::TooSlow, None));
    assert_eq!(no_choice, (Rejection::TooSlow, None));
    assert_eq!(no_data.0, Rejection::NoCommonFabric);
    assert!(no_data.1.unwrap().contains("not connected within 3s"));
    scene.lives_on().await;
    scene.end().await;
}
