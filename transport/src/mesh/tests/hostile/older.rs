//! A peer of a version that knows no SHARING.

use super::Scene;
use super::peer::{Proven, identity, silence};
use crate::endpoint::{AccessError, ShareId, SharedMemory};

/// A peer is not sent what its version does not know, and the error says so.
#[tokio::test]
async fn a_peer_that_knows_no_sharing_is_not_sent_it() {
    let mut scene = Scene::new().await;
    let identity = identity("wicked");
    assert_eq!(identity.features, 0);
    let proven = Proven::committed(&scene.address(), &identity).await;
    let mut older = proven.link(&silence()).await;
    scene.event().await;
    let it = scene.victim.peer(&identity.node.name);
    let memory = SharedMemory::there(it, identity.node.incarnation, ShareId(1));
    for _ in 0..3 {
        assert_eq!(memory.fetch_add(0, 1).await, Err(AccessError::Unsupported));
    }
    // It hears heartbeats, and nothing else.
    for _ in 0..2 {
        let heard = older.channel.recv().await.unwrap();
        assert_eq!(heard.name(), "HEARTBEAT");
    }
}
