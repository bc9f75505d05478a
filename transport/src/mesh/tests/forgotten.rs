//! The names that a node remembers of others, and those it forgets.

use super::hostile::peer::{Proven, identity};
use super::*;
use crate::limits::PEERS_KNOWN_MAX;

fn name(number: usize) -> NodeName {
    NodeName::new(&format!("x{number}")).unwrap()
}

/// MS-9
#[tokio::test]
async fn names_that_nobody_uses_are_forgotten_and_no_others() {
    let mut settings = config("alpha", Network::tcp(), &[]);
    // Longer than all this takes on a busy machine: then nobody waits for a link any more.
    settings.profile.down_after = Duration::from_secs(60);
    let alpha = Node::start(settings).await.unwrap();
    let beta = config("beta", Network::tcp(), &[alpha.address()]);
    let beta = Node::start(beta).await.unwrap();
    alpha.mesh.ready(1).await;
    let held = alpha.mesh.peer(&name(0));
    let wanted = alpha.mesh.peer(&name(1));
    wanted.want_link();
    drop(wanted);
    let known = || alpha.mesh.table.each(|_| Some(())).len();
    for number in 2..3 * PEERS_KNOWN_MAX {
        drop(alpha.mesh.peer(&name(number)));
        assert!(known() <= PEERS_KNOWN_MAX);
        if number % 8 == 0 {
            // The link to beta is found alive, however long all this takes.
            tokio::time::sleep(Duration::ZERO).await;
        }
    }
    assert_eq!(known(), PEERS_KNOWN_MAX);
    assert!(Arc::ptr_eq(&held, &alpha.mesh.peer(&name(0))), "it is held");
    let names = alpha.mesh.table.each(|peer| Some(peer.name().clone()));
    assert!(names.contains(&name(1)), "somebody waits for it");
    assert!(names.contains(&name(3 * PEERS_KNOWN_MAX - 1)), "it was used last");
    assert!(!names.contains(&name(2)), "it was used first");
    assert_eq!(alpha.linked(), ["beta"]);
    beta.shutdown().await;
    alpha.shutdown().await;
}

/// MS-9: a message may bring any number of references to nodes, all held until it is read.
#[tokio::test]
async fn many_names_that_are_held_cost_a_few_looks_each() {
    let names = crate::cases(4).min(20) as usize * PEERS_KNOWN_MAX;
    let alpha = Node::start(config("alpha", Network::tcp(), &[])).await.unwrap();
    let held: Vec<_> = (0..names).map(|number| alpha.mesh.peer(&name(number))).collect();
    let looks = alpha.mesh.table.peers.lock().looks;
    assert!(looks <= 10 * names, "{looks} looks for {names} names");
    drop(held);
    let known = || alpha.mesh.table.each(|_| Some(())).len();
    for number in names..2 * names {
        drop(alpha.mesh.peer(&name(number)));
    }
    assert_eq!(known(), PEERS_KNOWN_MAX);
    alpha.shutdown().await;
}

/// MS-9: a peer that knows the secret and comes under a new name each time.
// Promised in docs/SEMANTICS.md.
#[tokio::test]
async fn a_peer_with_a_thousand_names_is_not_remembered_under_all() {
    let alpha = Node::start(config("alpha", Network::tcp(), &[])).await.unwrap();
    for number in 0..PEERS_KNOWN_MAX + 100 {
        let proven = Proven::committed(&alpha.address(), &identity(name(number).as_str())).await;
        drop(proven);
        assert!(alpha.mesh.table.each(|_| Some(())).len() <= PEERS_KNOWN_MAX);
    }
    alpha.shutdown().await;
}
