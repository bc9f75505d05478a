//! Names with several addresses, nodes that move, addresses that are dead, partitions that heal and
//! links that fail at once, over the simulator.

use tracing::Level;

use super::simulated::{node, sim_config};
use super::*;
use crate::cause::LinkCause;
use crate::fabric::sim::{self, World};
use crate::limits;
use crate::recorder::Recorder;

/// Returns a node at a place that is not its name, with these seeds.
async fn at(world: &World, place: &str, name: &str, seeds: &[&str]) -> Node {
    let mut config = sim_config(world, place, seeds);
    config.name = NodeName::new(name).unwrap();
    Node::start(config).await.unwrap()
}

/// Waits until `node` is linked to exactly these runs; returns how long that took.
async fn links_to(world: &World, node: &Node, others: &[&Node]) -> Duration {
    let began = world.now();
    let mut expected: Vec<NodeId> = others.iter().map(|other| other.mesh.id().clone()).collect();
    expected.sort_by(|one, other| one.name.cmp(&other.name));
    while node.mesh.linked() != expected {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(
            world.now() - began < 600 * 1_000_000_000,
            "{:?} of {expected:?}",
            node.mesh.linked()
        );
    }
    Duration::from_nanos(world.now() - began)
}

/// A name that leads to all nodes, each node itself first, as for a service whose nodes are all
/// started with the same configuration.
#[test]
fn nodes_behind_one_name_link_also_when_they_start_again_elsewhere() {
    for (seed, left) in (0..10).flat_map(|seed| [(seed, true), (seed, false)]) {
        sim::run(seed, |world| async move {
            let mut places = ["a0", "b0", "c0"].map(String::from);
            let name_them = |world: &World, places: &[String; 3]| {
                let listed: Vec<String> =
                    places.iter().map(|place| format!("{place}:7700")).collect();
                let listed: Vec<&str> = listed.iter().map(String::as_str).collect();
                world.set_name("cluster:7700", &listed);
            };
            name_them(&world, &places);
            let mut nodes = Vec::new();
            for (place, name) in places.iter().zip(["a", "b", "c"]) {
                nodes.push(at(&world, place, name, &["cluster"]).await);
            }
            for round in 0..3 {
                for at in 0..3 {
                    let others: Vec<&Node> =
                        (0..3).filter(|&other| other != at).map(|o| &nodes[o]).collect();
                    links_to(&world, &nodes[at], &others).await;
                }
                let (place, name) =
                    (format!("{}{}", ["a", "b", "c"][round], 1), ["a", "b", "c"][round]);
                if left {
                    nodes[round].shutdown().await;
                } else {
                    world.kill_node(&places[round]);
                    nodes[round].mesh.abort(LinkCause::Shutdown);
                }
                places[round] = place.clone();
                name_them(&world, &places);
                nodes[round] = at(&world, &place, name, &["cluster"]).await;
            }
            for at in 0..3 {
                let others: Vec<&Node> =
                    (0..3).filter(|&other| other != at).map(|o| &nodes[o]).collect();
                links_to(&world, &nodes[at], &others).await;
            }
        });
    }
}

/// A name that leads to more nodes than one answer holds, of which each node is given the nearest.
// Promised in docs/SEMANTICS.md.
#[test]
fn many_nodes_behind_one_name_form_one_cluster_though_each_is_told_of_its_neighbours() {
    sim::run(1, |world| async move {
        let names: Vec<String> = (0..40).map(|number| format!("n{number}")).collect();
        let places: Vec<String> = names.iter().map(|name| format!("{name}:7700")).collect();
        world.set_name("cluster:7700", &places.iter().map(String::as_str).collect::<Vec<_>>());
        let mut nodes = Vec::new();
        for name in &names {
            nodes.push(node(&world, name, &["cluster"]).await);
        }
        let began = world.now();
        for node in &nodes {
            node.mesh.ready(nodes.len() - 1).await;
        }
        let took = Duration::from_nanos(world.now() - began);
        assert!(took < Duration::from_secs(1800), "{took:?}");
    });
}

/// A name of which this node is one address, and that leads to others later.
#[test]
fn a_name_that_leads_only_here_is_looked_up_again() {
    sim::run(1, |world| async move {
        world.set_name("cluster:7700", &["alpha:7700"]);
        let alpha = node(&world, "alpha", &["cluster"]).await;
        let beta = node(&world, "beta", &[]).await;
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert!(alpha.linked().is_empty());
        world.set_name("cluster:7700", &["alpha:7700", "beta:7700"]);
        let took = links_to(&world, &alpha, &[&beta]).await;
        // It has no link at all.
        let most = 2 * limits::WANTED_BACKOFF_MAX + limits::SEED_LOOK_INTERVAL;
        assert!(took <= most, "{took:?}");
    });
}

/// The old address is silent, or another node is there: neither hides what a peer knows.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_node_that_moved_is_reached_where_a_peer_knows_it_to_be() {
    for (seed, taken) in (0..10).flat_map(|seed| [(seed, true), (seed, false)]) {
        sim::run(seed, |world| async move {
            let alpha = node(&world, "alpha", &[]).await;
            let gamma = node(&world, "gamma", &["alpha"]).await;
            let beta = node(&world, "beta", &["alpha"]).await;
            alpha.mesh.ready(2).await;
            beta.mesh.ready(1).await;
            world.kill_node("beta");
            beta.mesh.abort(LinkCause::Shutdown);
            world.silence_dead_addresses();
            let _other = match taken {
                true => Some(at(&world, "beta", "delta", &[]).await),
                false => None,
            };
            // It dials gamma only, and alpha knows its old address only.
            let moved = at(&world, "elsewhere", "beta", &["gamma"]).await;
            gamma.mesh.ready(2).await;
            let began = world.now();
            let link = tokio::time::timeout(Duration::from_secs(20), alpha.patient_link("beta"));
            link.await.expect("the moved node is reached").unwrap();
            let took = Duration::from_nanos(world.now() - began);
            assert!(took < Duration::from_secs(6), "{took:?}");
            assert!(alpha.mesh.linked().contains(moved.mesh.id()));
        });
    }
}

/// MS-15 holds even if the round of dials of a silent address lasts longer than a sender waits.
#[test]
fn a_node_that_moved_is_found_by_senders_that_wait_no_longer_than_a_round_lasts() {
    for (seed, left) in (0..5).flat_map(|seed| [(seed, true), (seed, false)]) {
        sim::run(seed, |world| async move {
            let mut config = sim_config(&world, "alpha", &[]);
            config.profile.down_after = limits::DIAL_TIMEOUT;
            let alpha = Node::start(config).await.unwrap();
            let gamma = node(&world, "gamma", &["alpha"]).await;
            let beta = node(&world, "beta", &["alpha"]).await;
            alpha.mesh.ready(2).await;
            if left {
                beta.shutdown().await;
            } else {
                beta.mesh.abort(LinkCause::Shutdown);
            }
            world.kill_node("beta");
            world.silence_dead_addresses();
            let _moved = at(&world, "elsewhere", "beta", &["gamma"]).await;
            gamma.mesh.ready(2).await;
            let began = world.now();
            while alpha.link("beta").await.is_err() {
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
            let took = Duration::from_nanos(world.now() - began);
            assert!(took < Duration::from_secs(12), "seed {seed}: {took:?}");
        });
    }
}

/// A node that cannot be dialled takes no place of nodes that can be.
#[test]
fn a_lost_node_without_an_address_is_not_dialled_again() {
    sim::run(1, |world| async move {
        let alpha = node(&world, "alpha", &[]).await;
        let mut config = sim_config(&world, "worker", &["alpha"]);
        config.listen = None;
        let worker = Node::start(config).await.unwrap();
        let beta = node(&world, "beta", &["alpha"]).await;
        alpha.mesh.ready(2).await;
        for (place, lost) in [("worker", worker), ("beta", beta)] {
            world.kill_node(place);
            lost.mesh.abort(LinkCause::Shutdown);
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        let is_dialled = |name: &str| {
            let peer = alpha.mesh.peer(&NodeName::new(name).unwrap());
            let state = peer.state.lock();
            state.reach.relink.is_some()
        };
        assert_eq!((is_dialled("worker"), is_dialled("beta")), (false, true));
    });
}

/// The last outcome told of a peer is not the outcome of another node with its name.
#[test]
fn a_namesake_that_was_refused_is_not_what_the_last_dial_met() {
    sim::run(1, |world| async move {
        let alpha = node(&world, "alpha", &[]).await;
        let beta = node(&world, "beta", &["alpha"]).await;
        alpha.mesh.ready(1).await;
        let _namesake = at(&world, "other", "beta", &["alpha"]).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let peer = alpha.mesh.peer(&NodeName::new("beta").unwrap());
        assert!(world.log_text().contains(" of alpha:7700 by other"), "{}", world.log_text());
        assert_eq!(peer.state.lock().reach.last, "not dialled yet");
        // The same holds for a namesake at a seed.
        let gamma = node(&world, "gamma", &["beta", "other"]).await;
        gamma.mesh.ready(1).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let peer = gamma.mesh.peer(&NodeName::new("beta").unwrap());
        let dialled = peer.addresses();
        let linked = gamma.mesh.linked();
        let is_first = linked.contains(beta.mesh.id());
        let own = if is_first { "beta:7700" } else { "other:7700" };
        assert_eq!(dialled[0], own);
        assert_eq!(peer.state.lock().reach.last, "not dialled yet");
    });
}

/// A node whose only address is another node's by now is asked for.
#[test]
fn a_lost_node_whose_address_is_taken_is_found_where_it_moved_to() {
    for seed in 0..3 {
        sim::run(seed, |world| async move {
            let gamma = node(&world, "gamma", &[]).await;
            let alpha = node(&world, "alpha", &["gamma"]).await;
            let beta = node(&world, "beta", &["alpha", "gamma"]).await;
            alpha.mesh.ready(2).await;
            world.kill_node("beta");
            beta.mesh.abort(LinkCause::Shutdown);
            let _delta = at(&world, "beta", "delta", &[]).await;
            tokio::time::sleep(Duration::from_secs(60)).await;
            let beta = at(&world, "elsewhere", "beta", &["gamma"]).await;
            gamma.mesh.ready(2).await;
            let began = world.now();
            while !alpha.mesh.linked().contains(beta.mesh.id()) {
                tokio::time::sleep(Duration::from_millis(100)).await;
                assert!(world.now() - began < 120 * 1_000_000_000, "seed {seed}");
            }
        });
    }
}

/// An address learned during a link does not cut short the pause after the link is lost.
#[test]
fn an_address_that_is_learned_while_there_is_a_link_is_no_news_after_it() {
    sim::run(1, |world| async move {
        let alpha = node(&world, "alpha", &[]).await;
        let _beta = node(&world, "beta", &["alpha"]).await;
        alpha.mesh.ready(1).await;
        let peer = alpha.mesh.peer(&NodeName::new("beta").unwrap());
        peer.learn(&["elsewhere:7700".to_owned()], "gamma:7700");
        assert!(!peer.state.lock().reach.news);
    });
}

/// Addresses that answer nothing take a quarter of a second each, not three seconds.
// Promised in docs/SEMANTICS.md.
#[test]
fn dead_addresses_do_not_hide_a_live_one() {
    for seed in 0..10 {
        sim::run(seed, |world| async move {
            let gamma = node(&world, "gamma", &[]).await;
            let mut beta = sim_config(&world, "beta", &["gamma"]);
            beta.advertise = ["dead:1", "dead:2", "dead:3", "beta:7700"].map(String::from).into();
            let _beta = Node::start(beta).await.unwrap();
            let alpha = node(&world, "alpha", &["gamma"]).await;
            alpha.mesh.ready(1).await;
            gamma.mesh.ready(2).await;
            world.silence_dead_addresses();
            let began = world.now();
            alpha.link("beta").await.unwrap();
            let took = Duration::from_nanos(world.now() - began);
            assert!(took < Duration::from_millis(1_000), "{took:?}");
            // The next time where it was reached is dialled first.
            world.sever_streams("alpha", "beta");
            tokio::time::sleep(Duration::from_millis(100)).await;
            let began = world.now();
            alpha.link("beta").await.unwrap();
            let took = Duration::from_nanos(world.now() - began);
            assert!(took < Duration::from_millis(200), "{took:?}");
        });
    }
}

/// No seed, no traffic.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_partition_that_heals_has_its_links_again_without_traffic() {
    for seed in 0..10 {
        sim::run(seed, |world| async move {
            let gamma = node(&world, "gamma", &[]).await;
            let alpha = node(&world, "alpha", &["gamma"]).await;
            let beta = node(&world, "beta", &["gamma"]).await;
            gamma.mesh.ready(2).await;
            alpha.link("beta").await.unwrap();
            beta.mesh.ready(2).await;
            world.partition("alpha", "beta");
            tokio::time::sleep(Duration::from_secs(600)).await;
            assert_eq!((alpha.linked().len(), beta.linked().len()), (1, 1));
            world.mend("alpha", "beta");
            let took = links_to(&world, &alpha, &[&beta, &gamma]).await;
            let bound = limits::REDIAL_BACKOFF_MAX + limits::DIAL_TIMEOUT + Duration::from_secs(4);
            assert!(took <= bound, "{took:?}");
        });
    }
}

/// A node that left, or that stays away, is not dialled for ever.
#[test]
fn what_is_gone_is_not_dialled_for_ever() {
    for left in [true, false] {
        sim::run_for(1, limits::RELINK_FOR * 4, |world| async move {
            let alpha = node(&world, "alpha", &[]).await;
            let beta = node(&world, "beta", &["alpha"]).await;
            let gamma = node(&world, "gamma", &["alpha"]).await;
            alpha.mesh.ready(2).await;
            beta.mesh.ready(1).await;
            if left {
                beta.shutdown().await;
            } else {
                world.kill_node("beta");
                beta.mesh.abort(LinkCause::Shutdown);
            }
            let dials = |world: &World| world.log_text().matches(" of beta:7700 by alpha").count();
            tokio::time::sleep(limits::RELINK_FOR / 2).await;
            let midway = dials(&world);
            // A pause is fifteen seconds on average.
            assert!(if left { midway == 0 } else { (60..=300).contains(&midway) }, "{midway}");
            tokio::time::sleep(limits::RELINK_FOR).await;
            let end = dials(&world);
            assert!(end >= midway && end <= 2 * midway + 60, "{midway}, {end}");
            tokio::time::sleep(limits::RELINK_FOR).await;
            assert_eq!(dials(&world), end);
            links_to(&world, &alpha, &[&gamma]).await;
        });
    }
}

/// A node whose links fail at once is linked ever more rarely, and again at once after a link that
/// lived.
#[test]
fn links_that_fail_at_once_make_no_storm() {
    for seed in 0..10 {
        sim::run(seed, |world| async move {
            let alpha = node(&world, "alpha", &["beta"]).await;
            let beta = node(&world, "beta", &["alpha"]).await;
            let ups = |node: &Node| {
                node.watcher.texts().iter().filter(|text| text.contains(" up over ")).count()
            };
            // Both ends lose each link within 5 ms.
            let fails = async {
                loop {
                    if !alpha.linked().is_empty() {
                        world.sever_streams("alpha", "beta");
                    }
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let _ = tokio::time::timeout(Duration::from_secs(20), fails).await;
            let storm = ups(&alpha);
            assert!((5..=60).contains(&storm), "{storm} links in 20 s");
            links_to(&world, &alpha, &[&beta]).await;
            tokio::time::sleep(limits::LINK_SETTLED * 2).await;
            world.sever_streams("alpha", "beta");
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert!(!alpha.linked().is_empty(), "a link that lived is made again at once");
        });
    }
}

/// One line for each change: none for a link that came about at the first dial, one for each cause
/// of a node that is away, and more when it is lost again after it was back.
#[test]
fn only_what_is_not_reached_is_logged_so_once() {
    let log = Recorder::new(Level::INFO);
    let _guard = tracing::subscriber::set_default(log.clone());
    let not_reached = log.clone();
    sim::run(1, |world| async move {
        let lines =
            || not_reached.take().iter().filter(|line| line.contains("not reached")).count();
        let beta = node(&world, "beta", &[]).await;
        let alpha = node(&world, "alpha", &["beta"]).await;
        alpha.mesh.ready(1).await;
        assert_eq!(lines(), 0);
        let mut beta = beta;
        for _ in 0..2 {
            world.kill_node("beta");
            beta.mesh.abort(LinkCause::Shutdown);
            tokio::time::sleep(Duration::from_secs(60)).await;
            // The first dial may be cut off, and the others be refused.
            assert!((1..=2).contains(&lines()));
            beta = node(&world, "beta", &[]).await;
            links_to(&world, &alpha, &[&beta]).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(lines(), 0);
        }
    });
}
