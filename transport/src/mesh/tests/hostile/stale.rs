//! Frames of a link that ended, kept and sent again by a peer that knows the secret.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::breaches::{at, open};
use super::peer::{Proven, frame_of, framed, identity, silence};
use super::*;
use crate::proto::credit::FIRST_COUNT;

/// Returns a message to the first mailbox of a link.
fn tell() -> Vec<u8> {
    frame_of(&[(at(RecordKind::Tell, 0, 1), &[1])], FIRST_COUNT)
}

impl Scene {
    /// Returns a new link of the peer.
    async fn link(&mut self) -> Linked {
        let proven = Proven::committed(&self.address(), &identity("wicked")).await;
        let link = proven.link(&silence()).await;
        let up = self.event().await;
        assert!(matches!(up, PeerEvent::LinkUp { .. }), "{up:?}");
        link
    }

    /// The link ends, for the peer's part on the bootstrap connection only.
    async fn unlink(&mut self, link: Linked) -> tokio::net::TcpStream {
        drop(link.channel);
        let down = self.event().await;
        assert!(matches!(down, PeerEvent::LinkDown { .. }), "{down:?}");
        link.data
    }

    fn handled(&self) -> usize {
        self.shared.stuck.lock().len()
    }
}

/// PA-2: frames of an older link are not taken in, wherever they come.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn frames_of_an_older_link_are_never_handled() {
    let mut scene = Scene::new().await;
    let mut first = scene.link().await;
    first.frame(&open(b"stuck0")).await;
    first.frame(&tell()).await;
    while scene.handled() < 1 {
        tokio::task::yield_now().await;
    }
    let mut old = scene.unlink(first).await;
    let mut second = scene.link().await;
    // On the old data connection, which the node reads no more.
    let _ = old.write_all(&framed(&tell())).await;
    let mut rest = Vec::new();
    let _ = old.read_to_end(&mut rest).await;
    assert_eq!(scene.handled(), 1, "the old data connection has ended");
    // On the new one: it knows no mailbox of the old.
    second.frame(&tell()).await;
    let PeerEvent::LinkDown { cause, .. } = scene.event().await else { panic!("another link") };
    assert_eq!(cause, LinkCause::Violation(Violation::Unknown));
    assert_eq!(scene.handled(), 1);
    scene.lives_on().await;
    scene.end().await;
}

/// A token is good for one attempt: no peer comes back by it to an older link.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn the_token_of_an_older_link_leads_nowhere() {
    let mut scene = Scene::new().await;
    let mut proven = Proven::committed(&scene.address(), &identity("wicked")).await;
    proven.say(&silence()).await;
    let token = proven.offered().await;
    let address = scene.address();
    drop(proven);
    let mut second = scene.link().await;
    let again = Proven::meet(&address, &identity("other")).await.unwrap();
    let mut data = again.connect(&token).await;
    let _ = data.write_all(&framed(&tell())).await;
    let mut rest = Vec::new();
    let _ = data.read_to_end(&mut rest).await;
    second.frame(&open(b"stuck0")).await;
    second.frame(&tell()).await;
    while scene.handled() < 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(scene.handled(), 1);
    scene.end().await;
}
