//! Connecting to an address and disconnecting a peer, over the simulator.

use super::simulated::sim_config;
use super::*;
use crate::cause::LinkCause;
use crate::connect_error::{ConnectCause, ConnectError};
use crate::fabric::sim::{self, World};

const WITHIN: Duration = Duration::from_secs(5);

/// Returns a node of this name at this place, which has these places as seeds.
async fn at(world: &World, place: &str, name: &str, seeds: &[&str]) -> Node {
    let mut config = sim_config(world, place, seeds);
    config.name = NodeName::new(name).unwrap();
    Node::start(config).await.unwrap()
}

async fn connect(node: &Node, place: &str) -> Result<NodeId, ConnectError> {
    node.mesh.connect(&format!("{place}:7700"), WITHIN).await
}

fn dials(world: &World) -> usize {
    world.log_text().lines().filter(|line| line.contains(" dial ")).count()
}

#[test]
fn a_node_connects_to_an_address_which_is_a_seed_from_then_on() {
    for seed in 0..20 {
        sim::run(seed, |world| async move {
            let alpha = at(&world, "alpha", "alpha", &[]).await;
            let beta = at(&world, "beta", "beta", &[]).await;
            let both = [connect(&alpha, "beta"), connect(&alpha, "beta")];
            let both = futures::future::join_all(both).await;
            assert_eq!(both, [Ok(beta.mesh.id().clone()), Ok(beta.mesh.id().clone())]);
            assert_eq!(connect(&alpha, "beta").await, Ok(beta.mesh.id().clone()), "linked already");
            beta.shutdown().await;
            drop(beta);
            let again = at(&world, "beta", "beta", &[]).await;
            while alpha.mesh.linked() != [again.mesh.id().clone()] {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }
}

#[test]
fn a_failed_or_dropped_connect_leaves_no_seed() {
    sim::run(1, |world| async move {
        let alpha = at(&world, "alpha", "alpha", &[]).await;
        let started = tokio::time::Instant::now();
        let error = connect(&alpha, "nowhere").await.unwrap_err();
        assert_eq!((error.cause, started.elapsed()), (ConnectCause::Unreachable, WITHIN));
        let text = error.to_string();
        assert!(text.starts_with("no link to nowhere:7700: cannot connect: "), "{text}");
        assert!(text.ends_with("is the node started there, and is its port open?"), "{text}");
        let dropped = tokio::time::timeout(Duration::from_secs(1), connect(&alpha, "nowhere"));
        assert!(dropped.await.is_err());
        let before = dials(&world);
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(dials(&world), before, "it is dialled no more");
        let itself = connect(&alpha, "alpha").await.unwrap_err();
        assert_eq!(itself.cause, ConnectCause::Itself);
        let none = alpha.mesh.connect("beta", WITHIN).await.unwrap_err();
        assert_eq!(none.cause, ConnectCause::InvalidAddress);
        assert_eq!(alpha.watcher.texts(), [""; 0]);
    });
}

#[test]
fn an_address_is_dialled_at_one_pace_however_often_it_was_connected_to() {
    sim::run(1, |world| async move {
        let alpha = at(&world, "alpha", "alpha", &[]).await;
        let dials_within = async |time| {
            let before = dials(&world);
            assert!(tokio::time::timeout(time, connect(&alpha, "nowhere")).await.is_err());
            dials(&world) - before
        };
        let once = dials_within(WITHIN / 2).await;
        for _ in 0..20 {
            dials_within(Duration::from_millis(1)).await;
        }
        let again = dials_within(WITHIN / 2).await;
        assert!(again <= 2 * once, "{again} dials, where it was {once}");
    });
}

/// The refusal ends waits at once, and is over when the name is free.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_taken_name_ends_waits_until_it_is_free() {
    for seed in 0..20 {
        sim::run(seed, |world| async move {
            // Lower-named and higher-named than the node that refuses.
            for name in ["aa", "zz"] {
                let hub = at(&world, "hub", "hub", &[]).await;
                let first = at(&world, "here", name, &["hub"]).await;
                first.mesh.ready(1).await;
                let second = at(&world, "there", name, &["hub"]).await;
                let started = tokio::time::Instant::now();
                let (error, sent) = tokio::join!(second.mesh.refused(), second.link("nobody"));
                assert_eq!(error.cause, ConnectCause::NameTaken);
                let down = sent.unwrap_err();
                assert_eq!(down.cause, NodeDownCause::Refused(error));
                assert_eq!(second.link("hub").await.unwrap_err().cause, down.cause);
                assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
                assert_eq!(second.watcher.texts(), ["refused: NameTaken"]);
                let third = at(&world, "elsewhere", name, &[]).await;
                let error = connect(&third, "hub").await.unwrap_err();
                assert_eq!(error.cause, ConnectCause::NameTaken);
                first.shutdown().await;
                second.mesh.ready(1).await;
                assert_eq!(second.mesh.refusal(), None);
                for node in [&hub, &second, &third] {
                    node.shutdown().await;
                }
            }
        });
    }
}

/// No seed of the node that disconnects brings the link back, and a sender does.
#[test]
fn a_peer_that_is_disconnected_is_linked_again_when_a_sender_wants_it() {
    for seed in 0..20 {
        sim::run(seed, |world| async move {
            let beta = at(&world, "beta", "beta", &[]).await;
            let alpha = at(&world, "alpha", "alpha", &["beta"]).await;
            alpha.mesh.ready(1).await;
            let name = NodeName::new("beta").unwrap();
            assert!(alpha.mesh.disconnect(&name).await);
            assert!(!alpha.mesh.disconnect(&name).await, "it is not linked any more");
            tokio::time::sleep(Duration::from_secs(200)).await;
            let lost = [
                "beta lost: this node disconnected the peer",
                "beta down: this node \
                disconnected it",
            ];
            let up = "beta up over sim";
            assert_eq!(alpha.watcher.texts(), [up, lost[0], lost[1]]);
            let left = ["alpha up over sim", "alpha lost: the peer left", "alpha down: it left"];
            assert_eq!(beta.watcher.texts(), left);
            let cause = alpha.link("beta").await.unwrap_err().cause;
            assert_eq!(cause, NodeDownCause::Disconnected);
            alpha.patient_link("beta").await.unwrap();
            assert!(alpha.mesh.disconnect(&name).await);
            assert_eq!(connect(&alpha, "beta").await, Ok(beta.mesh.id().clone()));
        });
    }
}

/// A peer that does not answer the goodbye is given up.
#[test]
fn a_peer_that_stands_still_is_disconnected_all_the_same() {
    sim::run(1, |world| async move {
        let beta = at(&world, "beta", "beta", &[]).await;
        let alpha = at(&world, "alpha", "alpha", &["beta"]).await;
        alpha.mesh.ready(1).await;
        world.kill_node("beta");
        beta.mesh.abort(LinkCause::Shutdown);
        alpha.mesh.disconnect(&NodeName::new("beta").unwrap()).await;
        assert_eq!(alpha.mesh.linked(), []);
    });
}
