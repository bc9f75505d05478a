//! Peers that are asked where a node is (MS-15), and what that costs, over the simulator.

use tokio::time::sleep;
use tracing::Level;

use super::idle_close::{idle_config, idle_nodes, node};
use super::simulated::sim_config;
use super::*;
use crate::cause::LinkCause;
use crate::fabric::sim::{self, World};
use crate::limits;
use crate::recorder::Recorder;

fn name(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

/// Waits until `node` is linked to `other`; returns how long that took.
async fn links(world: &World, node: &Node, other: &str) -> Duration {
    let began = world.now();
    while !node.linked().iter().any(|linked| linked == other) {
        sleep(Duration::from_millis(10)).await;
        assert!(world.now() - began < 60 * 1_000_000_000, "no link to {other}");
    }
    Duration::from_nanos(world.now() - began)
}

/// Returns how many dials of `place` there were by alpha.
fn dials(world: &World, place: &str) -> usize {
    world.log_text().matches(&format!(" of {place}:7700 by alpha")).count()
}

async fn kill(world: &World, node: &Node) {
    world.kill_node(node.mesh.id().name.as_str());
    node.mesh.abort(LinkCause::Shutdown);
}

/// MS-15: after many questions that came to nothing, as in a long partition.
#[test]
fn a_question_and_a_send_are_dialled_afresh_however_many_questions_came_to_nothing() {
    for (seed, asks) in (0..20).flat_map(|seed| [(seed, true), (seed, false)]) {
        sim::run(seed, |world| async move {
            let (alpha, _others) = idle_nodes(&world, 2).await;
            world.partition("alpha", "n0");
            let peer = alpha.mesh.peer(&name("n0"));
            for _ in 0..10 {
                peer.ask_linked(&name("ghost"));
                sleep(Duration::from_secs(30)).await;
            }
            world.mend("alpha", "n0");
            if asks {
                peer.ask_linked(&name("ghost"))
            } else {
                drop(peer.want_link())
            }
            let took = links(&world, &alpha, "n0").await;
            assert!(took <= Duration::from_millis(500), "seed {seed}: {took:?}");
        });
    }
}

/// MS-15: each question has its whole time, even if it joins an older one.
#[test]
fn a_question_that_is_asked_beside_an_older_one_has_its_own_time() {
    for seed in 0..20 {
        sim::run(seed, |world| async move {
            let (alpha, _others) = idle_nodes(&world, 2).await;
            world.partition("alpha", "n0");
            let peer = alpha.mesh.peer(&name("n0"));
            peer.ask_linked(&name("ghost0"));
            sleep(Duration::from_secs(8)).await;
            peer.ask_linked(&name("ghost1"));
            sleep(Duration::from_secs(3)).await;
            world.mend("alpha", "n0");
            let took = links(&world, &alpha, "n0").await;
            // A dial that began before the mend is silent.
            let most = limits::WANTED_BACKOFF_MAX + limits::DIAL_TIMEOUT;
            assert!(took <= most + Duration::from_millis(200), "seed {seed}: {took:?}");
        });
    }
}

/// MS-15: a round of dials comes each few milliseconds at first.
#[test]
fn one_search_has_a_few_idle_nodes_linked_at_a_time() {
    for seed in 0..3 {
        sim::run(seed, |world| async move {
            let (alpha, _others) = idle_nodes(&world, 40).await;
            let before = alpha.watcher.texts().len();
            let ups = || {
                let texts = alpha.watcher.texts();
                texts[before..].iter().filter(|text| text.contains(" up over ")).count()
            };
            let (_, early) = tokio::join!(alpha.link("ghost"), async {
                sleep(Duration::from_millis(900)).await;
                ups()
            });
            assert_eq!(early, limits::IDLE_ASKED_MAX, "seed {seed}");
            assert!(ups() > early, "seed {seed}: others are asked later");
        });
    }
}

/// MS-15: others are asked each second also while a dial of a silent address lasts.
#[test]
fn others_are_asked_each_second_while_a_round_of_dials_lasts() {
    for seed in 0..3 {
        sim::run(seed, |world| async move {
            let (alpha, _others) = idle_nodes(&world, 40).await;
            world.silence_dead_addresses();
            alpha.mesh.peer(&name("ghost")).learn(&["ghost:7700".to_owned()], "n0:7700");
            let before = alpha.watcher.texts().len();
            let (_, asked) = tokio::join!(alpha.link("ghost"), async {
                sleep(limits::DIAL_TIMEOUT - Duration::from_millis(100)).await;
                let texts = alpha.watcher.texts();
                texts[before..].iter().filter(|text| text.contains(" up over ")).count()
            });
            assert!(asked > limits::IDLE_ASKED_MAX, "seed {seed}: {asked}");
        });
    }
}

/// MS-15: idle nodes that cannot be linked to be asked.
#[test]
fn one_search_dials_a_few_idle_nodes_in_vain_has_no_other_asked_and_is_one_line_of_the_log() {
    let log = Recorder::new(Level::INFO);
    let _guard = tracing::subscriber::set_default(log.clone());
    for seed in 0..5 {
        sim::run(seed, |world| {
            let log = log.clone();
            async move {
                let (alpha, _others) = idle_nodes(&world, 40).await;
                let places: Vec<String> = (0..40).map(|number| format!("n{number}")).collect();
                places.iter().for_each(|place| world.partition("alpha", place));
                log.take();
                alpha.link("ghost").await.unwrap_err();
                let dialled = places.iter().filter(|place| dials(&world, place) > 0).count();
                assert_eq!(dialled, limits::IDLE_ASKED_MAX, "seed {seed}");
                let lines = log.take();
                let lines: Vec<_> =
                    lines.iter().filter(|line| line.contains("a node is not reached")).collect();
                assert!(lines.len() <= 1, "seed {seed}: {lines:?}");
                assert!(lines.iter().all(|line| line.contains("ghost")), "seed {seed}: {lines:?}");
            }
        });
    }
}

/// MS-9, MS-15: it is not known whether a node that did not answer lives.
#[test]
fn an_idle_node_that_did_not_answer_is_left_alone_for_a_while() {
    for seed in 0..5 {
        sim::run(seed, |world| async move {
            let (alpha, others) = idle_nodes(&world, 6).await;
            for other in &others {
                kill(&world, other).await;
            }
            let dialled =
                |world: &World| (0..6).map(|number| dials(world, &format!("n{number}"))).sum();
            alpha.link("ghost0").await.unwrap_err();
            // The last questions have come to nothing then.
            sleep(Duration::from_secs(1)).await;
            let before: usize = dialled(&world);
            assert!(before >= 6, "seed {seed}");
            alpha.link("ghost1").await.unwrap_err();
            assert_eq!(dialled(&world), before, "seed {seed}: they are not asked again at once");
            assert!(alpha.mesh.table.is_alone(), "seed {seed}");
            sleep(limits::IDLE_ASKED_INTERVAL).await;
            alpha.link("ghost2").await.unwrap_err();
            assert!(dialled(&world) > before, "seed {seed}: they may be there again");
        });
    }
}

/// A seed is not content with a node of which it is not known that it lives.
#[test]
fn another_node_where_an_idle_one_died_is_met_by_the_seed() {
    for seed in 0..5 {
        sim::run(seed, |world| async move {
            let gone = node(&world, "gone", &[], Some(1)).await;
            let mut config = idle_config(&world, "alpha", &["gone"], Some(1));
            config.profile.down_after = Duration::from_secs(8);
            let alpha = Node::start(config).await.unwrap();
            alpha.mesh.ready(1).await;
            sleep(Duration::from_secs(20)).await;
            assert!(alpha.linked().is_empty());
            kill(&world, &gone).await;
            alpha.link("ghost").await.unwrap_err();
            let mut other = sim_config(&world, "gone", &[]);
            other.name = name("other");
            let _other = Node::start(other).await.unwrap();
            links(&world, &alpha, "other").await;
            assert!(alpha.mesh.peer(&name("gone")).is_forgettable(), "seed {seed}");
        });
    }
}
