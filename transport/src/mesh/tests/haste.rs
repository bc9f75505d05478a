//! Dials that senders wait for, beside many that no sender wants, over the simulator (MS-4).

use futures::FutureExt;
use tokio::task::coop::unconstrained;
use tokio::time::sleep;

use super::simulated::{node, sim_config};
use super::*;
use crate::cause::LinkCause;
use crate::fabric::sim::{self, World};
use crate::limits;
use crate::mesh::table::Urgency;

/// Returns a node that asks for more time than others give, and to be dialled at these places
/// besides its own.
async fn asking(world: &World, name: &str, seeds: &[&str], besides: &[String]) -> Node {
    let mut config = sim_config(world, name, seeds);
    config.profile.down_after = limits::DOWN_AFTER_TOLD_MAX;
    config.advertise = besides.iter().cloned().chain([format!("{name}:7700")]).collect();
    Node::start(config).await.unwrap()
}

async fn links(world: &World, node: &Node, name: &str, within: Duration) -> Duration {
    let began = world.now();
    while !node.linked().iter().any(|linked| linked == name) {
        sleep(Duration::from_millis(10)).await;
        let took = Duration::from_nanos(world.now() - began);
        assert!(took <= within, "{name} is not linked after {took:?}");
    }
    Duration::from_nanos(world.now() - began)
}

/// Breaks the link of `node` to `name`, and waits until there is another.
async fn again(world: &World, node: &Node, name: &str, within: Duration) {
    world.sever_streams(node.mesh.id().name.as_str(), name);
    while node.linked().iter().any(|linked| linked == name) {
        sleep(Duration::from_millis(1)).await;
    }
    links(world, node, name, within).await;
}

/// The pauses have grown to 30 s when the node comes back.
#[test]
fn a_send_to_a_node_that_is_down_has_it_dialled_within_seconds() {
    for seed in 0..20 {
        sim::run(seed, |world| async move {
            let alpha = node(&world, "alpha", &[]).await;
            let beta = node(&world, "beta", &["alpha"]).await;
            alpha.mesh.ready(1).await;
            // Alpha is not alone, which would be haste, too.
            let _gamma = node(&world, "gamma", &["alpha"]).await;
            alpha.mesh.ready(2).await;
            beta.shutdown().await;
            let peer = alpha.mesh.peer(&NodeName::new("beta").unwrap());
            for _ in 0..10 {
                sleep(Duration::from_secs(60)).await;
                assert!(peer.want_link().is_some());
            }
            sleep(Duration::from_secs(60)).await;
            let _beta = node(&world, "beta", &[]).await;
            assert!(peer.want_link().is_some());
            let most = limits::WANTED_BACKOFF_MAX + Duration::from_millis(200);
            links(&world, &alpha, "beta", most).await;
        });
    }
}

/// The pause was drawn when no sender was there.
#[test]
fn a_sender_cuts_a_long_pause_short() {
    for seed in 0..20 {
        sim::run(seed, |world| async move {
            let alpha = node(&world, "alpha", &[]).await;
            let _gamma = node(&world, "gamma", &["alpha"]).await;
            let beta = asking(&world, "beta", &["gamma"], &[]).await;
            beta.mesh.ready(1).await;
            alpha.link("beta").await.unwrap();
            world.partition("alpha", "beta");
            sleep(Duration::from_secs(300 + seed)).await;
            world.mend("alpha", "beta");
            let began = world.now();
            alpha.link("beta").await.unwrap();
            let took = Duration::from_nanos(world.now() - began);
            // A dial that began before the mend is silent.
            let most = limits::WANTED_BACKOFF_MAX + limits::DIAL_TIMEOUT;
            assert!(took <= most + Duration::from_millis(200), "{took:?}");
        });
    }
}

/// Alpha and beta are cut off from each other for long, and their next link is cut at once.
#[test]
fn failed_dials_count_on_after_a_brief_link() {
    let took: Duration = (0..10)
        .map(|seed| {
            sim::run(seed, |world| async move {
                let alpha = node(&world, "alpha", &[]).await;
                let _gamma = node(&world, "gamma", &["alpha"]).await;
                let beta = asking(&world, "beta", &["gamma"], &[]).await;
                beta.mesh.ready(1).await;
                alpha.link("beta").await.unwrap();
                world.partition("alpha", "beta");
                sleep(Duration::from_secs(300 + seed)).await;
                world.mend("alpha", "beta");
                let most = limits::REDIAL_BACKOFF_MAX + limits::DIAL_TIMEOUT;
                links(&world, &alpha, "beta", most).await;
                let began = world.now();
                again(&world, &alpha, "beta", most).await;
                Duration::from_nanos(world.now() - began)
            })
        })
        .sum();
    // The shorter of two pauses up to 30 s is 10 s in the mean.
    assert!(took > Duration::from_secs(30), "{took:?} in all");
}

/// MS-4: a peer that comes under ever new names leaves no more of them behind than this.
#[test]
fn only_so_many_lost_nodes_are_waited_for_as_long_as_they_ask() {
    sim::run(3, |world| async move {
        let alpha = node(&world, "alpha", &[]).await;
        let names: Vec<String> = (0..300).map(|number| format!("lost{number}")).collect();
        for name in &names {
            let lost = asking(&world, name, &["alpha"], &[]).await;
            links(&world, &alpha, name, Duration::from_secs(5)).await;
            world.kill_node(name);
            lost.mesh.abort(LinkCause::Shutdown);
        }
        sleep(Duration::from_secs(60)).await;
        let alive = alpha.mesh.table.each(|peer| peer.is_alive().then_some(()));
        assert_eq!(alive.len(), limits::PATIENCE_MAX);
        sleep(limits::DOWN_AFTER_TOLD_MAX).await;
        assert!(alpha.mesh.table.each(|peer| peer.is_alive().then_some(())).is_empty());
    });
}

/// A rack loses its power, and one more link is cut for a moment: the dials of the many, which
/// answer nothing, do not keep the one from being made again before its node is down.
#[test]
fn three_hundred_lost_nodes_do_not_keep_a_healthy_one_from_being_linked_again() {
    for seed in 0..3 {
        sim::run(seed, |world| async move {
            let _gamma = node(&world, "gamma", &[]).await;
            let start = |name| {
                let mut config = sim_config(&world, name, &["gamma"]);
                config.profile.down_after = limits::DOWN_AFTER;
                Node::start(config)
            };
            let (alpha, beta) = (start("alpha").await.unwrap(), start("beta").await.unwrap());
            beta.mesh.ready(1).await;
            alpha.link("beta").await.unwrap();
            let mut lost = Vec::new();
            for number in 0..300 {
                let besides = ["x", "y"].map(|place| format!("{place}{number}:7700"));
                let name = format!("lost{number}");
                lost.push(asking(&world, &name, &["alpha", "beta"], &besides).await);
            }
            alpha.mesh.ready(302).await;
            beta.mesh.ready(302).await;
            world.silence_dead_addresses();
            for number in 0..300 {
                world.kill_node(&format!("lost{number}"));
            }
            for node in lost {
                node.mesh.abort(LinkCause::Shutdown);
            }
            sleep(Duration::from_secs(seed)).await;
            again(&world, &alpha, "beta", limits::DOWN_AFTER).await;
            // The lost ones are down, and are dialled on.
            sleep(Duration::from_secs(60)).await;
            again(&world, &alpha, "beta", limits::DOWN_AFTER).await;
            for (node, other) in [(&alpha, "beta"), (&beta, "alpha")] {
                let down = format!("{other} down");
                assert!(!node.watcher.texts().iter().any(|text| text.starts_with(&down)));
            }
        });
    }
}

/// Dials of nodes that are missed, or down, leave a quarter, or half, to others.
// Promised in SECURITY.md.
#[test]
fn lost_nodes_leave_dials_for_those_that_senders_want() {
    sim::run(1, |world| async move {
        let alpha = node(&world, "alpha", &[]).await;
        let mut held = Vec::new();
        let mut take = |urgency| {
            let permit = unconstrained(alpha.mesh.table.dial_permit(urgency)).now_or_never();
            let is_taken = permit.is_some();
            held.extend(permit);
            is_taken
        };
        let quarter = limits::TOLD_DIALS_MAX / 4;
        assert_eq!((0..1000).filter(|_| take(Urgency::Low)).count(), 2 * quarter);
        assert_eq!((0..1000).filter(|_| take(Urgency::Missed)).count(), quarter);
        assert_eq!((0..1000).filter(|_| take(Urgency::Wanted)).count(), quarter);
        drop(held);
        let waits = alpha.mesh.table.dial_permit(Urgency::Low);
        assert!(waits.now_or_never().is_some(), "all were given back");
    });
}

/// The dials of what peers told wait for each other; a seed's waits for none of them.
#[test]
fn a_seed_is_dialled_while_addresses_that_peers_told_wait() {
    for seed in 0..crate::cases(1) {
        sim::run(seed, |world| async move {
            let _gamma = node(&world, "gamma", &[]).await;
            let mut config = sim_config(&world, "beta", &["gamma"]);
            config.advertise = ["x", "y", "z"].map(|place| format!("{place}:7700")).into();
            config.profile.down_after = limits::DOWN_AFTER;
            let beta = Node::start(config).await.unwrap();
            let mut config = sim_config(&world, "alpha", &["gamma", "beta"]);
            // Only alpha can dial beta, and only at the seed.
            config.advertise = vec!["w:7700".into()];
            config.profile.down_after = limits::DOWN_AFTER;
            let alpha = Node::start(config).await.unwrap();
            links(&world, &alpha, "beta", Duration::from_secs(5)).await;
            world.silence_dead_addresses();
            let mut lost = Vec::new();
            for number in 0..400 {
                lost.push(asking(&world, &format!("lost{number}"), &["alpha", "beta"], &[]).await);
            }
            alpha.mesh.ready(402).await;
            beta.mesh.ready(402).await;
            for (number, node) in lost.into_iter().enumerate() {
                world.kill_node(&format!("lost{number}"));
                node.mesh.abort(LinkCause::Shutdown);
            }
            sleep(Duration::from_secs(1)).await;
            again(&world, &alpha, "beta", Duration::from_secs(3)).await;
        });
    }
}
