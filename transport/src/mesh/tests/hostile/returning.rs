//! A peer that fills a mailbox, loses its link and comes back.

use super::breaches::{at, open};
use super::peer::{Proven, identity, silence};
use super::*;
use crate::bootstrap::Parting;
use crate::id::Incarnation;

/// Messages of one peer that may wait in one mailbox of the scene.
const WINDOW: usize = 32;
/// Links of each kind.
const LINKS: u128 = 50;

impl Scene {
    /// Returns a new link, of this run of the peer.
    async fn linked(&mut self, run: u128) -> Linked {
        let mut wicked = identity("wicked");
        wicked.node.incarnation = Incarnation(run);
        let linked = Proven::committed(&self.address(), &wicked).await.link(&silence()).await;
        let up = self.event().await;
        assert!(matches!(up, PeerEvent::LinkUp { .. }), "{up:?}");
        linked
    }

    /// Sends `messages` messages over a new link to a mailbox that takes nothing. Returns the cause
    /// of the link's end. If the node takes them all, the peer closes it.
    async fn fill(&mut self, run: u128, messages: usize) -> LinkCause {
        let expected = self.waiting() + messages;
        let mut linked = self.linked(run).await;
        linked.frame(&open(b"stuck0")).await;
        linked.records(&vec![(at(RecordKind::Tell, 0, 1), &[1][..]); messages]).await;
        if expected <= WINDOW {
            while self.waiting() < expected {
                tokio::task::yield_now().await;
            }
            drop(linked);
        }
        let PeerEvent::LinkDown { cause, .. } = self.event().await else { panic!("another link") };
        cause
    }

    fn waiting(&self) -> usize {
        self.shared.stuck.lock().len()
    }

    /// Takes `messages` messages, as the mailbox's owner.
    fn take(&self, messages: usize) {
        self.shared.stuck.lock().truncate(WINDOW - messages);
    }
}

/// AC-1: over all links of a peer, and all its runs, a window of messages waits.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_peer_that_comes_back_has_no_more_waiting_than_its_window() {
    let overrun = LinkCause::Violation(Violation::WindowOverrun);
    let mut scene = Scene::new().await;
    assert_ne!(scene.fill(13, WINDOW).await, overrun, "it closed the link itself");
    let same = (0..LINKS).map(|_| 13);
    let fresh = (0..LINKS).map(|link| 100 + link);
    for (link, run) in same.chain(fresh).enumerate() {
        let taken = link % 3;
        scene.take(taken);
        if link.is_multiple_of(2) {
            assert_ne!(scene.fill(run, taken).await, overrun, "link {link}: it took the room");
        }
        // One more than there is room for.
        let more = WINDOW + 1 - scene.waiting();
        assert_eq!(scene.fill(run, more).await, overrun, "link {link}");
        assert_eq!(scene.waiting(), WINDOW, "link {link}");
        scene.lives_on().await;
    }
    scene.end().await;
}

/// AC-1, MS-9: nor when it leaves and the node hears more names than it remembers.
#[tokio::test]
async fn a_peer_of_which_messages_wait_is_not_forgotten() {
    let mut scene = Scene::new().await;
    let mut linked = scene.linked(13).await;
    linked.frame(&open(b"stuck0")).await;
    linked.records(&[(at(RecordKind::Tell, 0, 1), &[1][..]); WINDOW]).await;
    linked.record(head(RecordKind::Goodbye)).await;
    linked.channel.send(&Message::Bye(Parting::Left)).await.unwrap();
    let PeerEvent::LinkDown { cause, .. } = scene.event().await else { panic!("another link") };
    assert_eq!((cause, scene.waiting()), (LinkCause::Left, WINDOW));
    drop(linked);
    for number in 0..=limits::PEERS_KNOWN_MAX {
        let other = identity(&format!("x{number}"));
        drop(Proven::committed(&scene.address(), &other).await);
    }
    let cause = scene.fill(14, 1).await;
    assert_eq!(cause, LinkCause::Violation(Violation::WindowOverrun));
    assert_eq!(scene.waiting(), WINDOW);
    scene.end().await;
}
