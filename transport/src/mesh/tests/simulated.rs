//! Over the simulator: what takes seconds, or a fault.

use futures::FutureExt;
use zeroize::Zeroizing;

use super::altered::{Alteration, Altered, Connecting};
use super::*;
use crate::fabric::Opening;
use crate::fabric::sim::{self, LinkModel, Rule, Verdict, World};
use crate::fabric::tcp::Doors;
use crate::limits;

pub(super) fn sim_config(world: &World, name: &str, seeds: &[&str]) -> Config {
    let (wire, fabric) = world.network(name);
    let network = Network { wire, fabrics: vec![fabric], doors: Doors::default() };
    let seeds: Vec<String> = seeds.iter().map(|seed| format!("{seed}:7700")).collect();
    Config {
        listen: Some(format!("{name}:7700")),
        entropy: world.entropy(),
        ..config(name, network, &seeds)
    }
}

pub(super) async fn node(world: &World, name: &str, seeds: &[&str]) -> Node {
    Node::start(sim_config(world, name, seeds)).await.unwrap()
}

// Promised in docs/SEMANTICS.md.
#[test]
fn seeds_that_seed_each_other_get_one_link_each() {
    for seed in 0..50 {
        sim::run(seed, |world| async move {
            let names = ["alpha", "beta", "gamma"];
            let mut nodes = Vec::new();
            for name in names {
                nodes.push(node(&world, name, &names).await);
            }
            for node in &nodes {
                node.mesh.ready(2).await;
            }
            tokio::time::sleep(Duration::from_secs(30)).await;
            for node in &nodes {
                let texts = node.watcher.texts();
                assert_eq!(texts.len(), 2, "{texts:?}");
            }
        });
    }
}

#[test]
fn the_same_seed_gives_the_same_log() {
    let log = |seed| {
        sim::run(seed, |world| async move {
            let alpha = node(&world, "alpha", &["beta"]).await;
            let beta = node(&world, "beta", &["alpha"]).await;
            alpha.mesh.ready(1).await;
            world.sever_streams("alpha", "beta");
            tokio::time::sleep(Duration::from_secs(5)).await;
            beta.mesh.ready(1).await;
            alpha.shutdown().await;
            world.log_text()
        })
    };
    assert_eq!(log(7), log(7));
    assert_ne!(log(7), log(8));
}

// Promised in docs/SEMANTICS.md.
#[test]
fn a_link_that_is_lost_is_dialled_again() {
    type Fault = fn(&World);
    let faults: [Fault; 2] =
        [|world| world.sever_streams("alpha", "beta"), |world| world.sever_data("alpha", "beta")];
    for (seed, fault) in (0..20).flat_map(|seed| faults.map(|fault| (seed, fault))) {
        sim::run(seed, |world| async move {
            let alpha = node(&world, "alpha", &[]).await;
            let beta = node(&world, "beta", &["alpha"]).await;
            alpha.mesh.ready(1).await;
            beta.mesh.ready(1).await;
            fault(&world);
            tokio::time::sleep(Duration::from_secs(20)).await;
            for (node, other) in [(&alpha, "beta"), (&beta, "alpha")] {
                let texts = node.watcher.texts();
                assert_eq!(texts[0], format!("{other} up over sim"), "{texts:?}");
                assert!(texts[1].starts_with(&format!("{other} lost: ")), "{texts:?}");
                assert_eq!(texts[2..], [format!("{other} up over sim")], "seed {seed}");
            }
        });
    }
}

/// MS-4
// Promised in docs/SEMANTICS.md.
#[test]
fn a_node_that_is_gone_is_lost_and_then_down() {
    sim::run(1, |world| async move {
        let alpha = node(&world, "alpha", &[]).await;
        let beta = node(&world, "beta", &["alpha"]).await;
        alpha.mesh.ready(1).await;
        let began = world.now();
        world.kill_node("beta");
        let down = ["beta up over sim", "beta lost: the connection to the peer was closed"];
        alpha.watcher.until(&down).await;
        let error = alpha.link("beta").await.unwrap_err();
        let NodeDownCause::Silent { silent_ms, last } = &error.cause else { panic!("{error}") };
        assert!((3000..3500).contains(silent_ms), "{silent_ms}");
        assert_eq!(error.down_ms, 0);
        assert!(last.starts_with("beta:7700: cannot connect: "), "{last}");
        alpha.watcher.until(&[down[0], down[1], "beta down: silent"]).await;
        let took = Duration::from_nanos(world.now() - began);
        assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(4), "{took:?}");
        drop(beta);
    });
}

/// MS-4: both nodes stand still, as a machine does that is suspended.
// Promised in docs/SEMANTICS.md.
#[test]
fn a_node_that_stood_still_says_so_and_finds_no_other_down() {
    for seed in 0..20 {
        sim::run(seed, |world| async move {
            let alpha = node(&world, "alpha", &[]).await;
            let beta = node(&world, "beta", &["alpha"]).await;
            alpha.mesh.ready(1).await;
            beta.mesh.ready(1).await;
            tokio::time::advance(Duration::from_secs(20)).await;
            tokio::time::sleep(Duration::from_secs(20)).await;
            for (node, other) in [(&alpha, "beta"), (&beta, "alpha")] {
                let texts = node.watcher.texts();
                let paused = texts.iter().filter(|text| text.starts_with("stood still for "));
                assert_eq!(paused.count(), 1, "seed {seed}: {texts:?}");
                assert!(!texts.iter().any(|text| text.contains(" down: ")), "{texts:?}");
                assert_eq!(node.linked(), [other]);
            }
        });
    }
}

/// MS-4
#[test]
fn a_partition_is_silence_and_its_end_a_new_link() {
    sim::run(2, |world| async move {
        let alpha = node(&world, "alpha", &[]).await;
        let beta = node(&world, "beta", &["alpha"]).await;
        alpha.mesh.ready(1).await;
        beta.mesh.ready(1).await;
        world.partition("alpha", "beta");
        let expect = ["beta up over sim", "beta lost: the peer is silent", "beta down: silent"];
        let came = tokio::time::timeout(Duration::from_secs(20), async {
            let mut count = alpha.watcher.count.subscribe();
            let _ = count.wait_for(|count| *count >= expect.len()).await;
        });
        came.await.unwrap();
        let texts = alpha.watcher.texts();
        assert_eq!((&texts[0], &texts[2]), (&expect[0].into(), &expect[2].into()));
        assert!(texts[1].starts_with("beta lost: "), "{texts:?}");
        world.mend("alpha", "beta");
        // A seed is reached for until it leaves.
        alpha.mesh.ready(1).await;
        beta.mesh.ready(1).await;
        assert_eq!(alpha.watcher.texts()[3..], ["beta up over sim"]);
    });
}

// Promised in docs/SEMANTICS.md.
#[test]
fn who_nobody_knows_is_unreachable_with_advice() {
    sim::run(3, |world| async move {
        let alpha = node(&world, "alpha", &["beta"]).await;
        let _beta = node(&world, "beta", &[]).await;
        alpha.mesh.ready(1).await;
        let error = alpha.link("nobody").await.unwrap_err().to_string();
        assert!(error.ends_with("(no address is known: add it to the seeds)"), "{error}");
        // From then on it is down.
        let began = world.now();
        let down = alpha.link("nobody").await.unwrap_err();
        assert_eq!((world.now(), down.down_ms), (began, 0), "{down}");
        assert!(!alpha.watcher.texts().iter().any(|text| text.contains("nobody")));
    });
}

/// MS-4: senders that give up early leave the node no more time than a sender that waits.
#[test]
fn a_node_is_down_when_it_was_wanted_for_so_long_whoever_gave_up_meanwhile() {
    sim::run(3, |world| async move {
        let alpha = node(&world, "alpha", &[]).await;
        let error = tokio::time::timeout(Duration::from_secs(10), async {
            loop {
                let brief = Duration::from_secs(1);
                if let Ok(linked) = tokio::time::timeout(brief, alpha.link("nobody")).await {
                    break linked.unwrap_err();
                }
            }
        });
        let error = error.await.unwrap();
        assert!(matches!(error.cause, NodeDownCause::Silent { silent_ms: 3000..3100, .. }));
        assert_eq!(world.now() / 1_000_000_000, 3, "{error}");
    });
}

/// MS-4
// Promised in docs/SEMANTICS.md.
#[test]
fn who_sends_to_a_node_that_is_down_fails_at_once_until_it_is_linked_again() {
    sim::run(4, |world| async move {
        let alpha = node(&world, "alpha", &[]).await;
        let beta = node(&world, "beta", &["alpha"]).await;
        alpha.mesh.ready(1).await;
        beta.mesh.ready(1).await;
        world.kill_node("beta");
        let lost = ["beta up over sim", "beta lost: the connection to the peer was closed"];
        alpha.watcher.until(&lost).await;
        let waited = alpha.link("beta").await.unwrap_err();
        assert_eq!(waited.down_ms, 0, "{waited}");
        // Much longer than the node is dialled for the earlier sends.
        world.sleep(Duration::from_secs(60)).await;
        let began = world.now();
        for _ in 0..1000 {
            let down = alpha.link("beta").await.unwrap_err();
            assert_eq!(down, NodeDown { down_ms: 60_000, ..waited.clone() });
        }
        let peer = alpha.mesh.peer(&NodeName::new("beta").unwrap());
        assert_eq!(peer.want_link().unwrap().down_ms, 60_000);
        assert_eq!(world.now(), began);
        // It is dialled for these sends, though no sender waits, and then sends go there.
        let mut again = sim_config(&world, "again", &[]);
        again.name = NodeName::new("beta").unwrap();
        peer.learn(&["again:7700".into()], "test");
        let again = Node::start(again).await.unwrap();
        alpha.mesh.ready(1).await;
        alpha.link("beta").await.unwrap();
        // The next loss is waited out again.
        again.mesh.ready(1).await;
        world.kill_node("again");
        let began = world.now();
        world.sleep(Duration::from_millis(10)).await;
        assert_eq!(alpha.link("beta").await.unwrap_err().down_ms, 0);
        let waited = Duration::from_nanos(world.now() - began);
        assert!((2000..3500).contains(&waited.as_millis()), "{waited:?}");
    });
}

/// MS-4
#[test]
fn who_asks_to_waits_for_a_node_that_is_down() {
    sim::run(5, |world| async move {
        let alpha = node(&world, "alpha", &[]).await;
        let beta = node(&world, "beta", &["alpha"]).await;
        alpha.mesh.ready(1).await;
        beta.mesh.ready(1).await;
        beta.shutdown().await;
        let expected = ["beta up over sim", "beta lost: the peer left", "beta down: it left"];
        alpha.watcher.until(&expected).await;
        let left = alpha.link("beta").await.unwrap_err();
        assert_eq!(left.cause, NodeDownCause::Left);
        let patient = [alpha.patient_link("beta"), alpha.patient_link("beta")];
        let patient = futures::future::join_all(patient);
        let (links, _beta) = tokio::join!(patient, async {
            world.sleep(Duration::from_secs(600)).await;
            let down = alpha.link("beta").await.unwrap_err();
            assert_eq!(down, NodeDown { down_ms: 600_000, ..left });
            let mut again = sim_config(&world, "beta", &[]);
            again.listen = Some("beta:7701".into());
            let again = Node::start(again).await.unwrap();
            alpha.mesh.peer(&NodeName::new("beta").unwrap()).learn(&["beta:7701".into()], "test");
            again
        });
        assert!(links.iter().all(Result::is_ok));
        // Not for ever: this node's own end ends it.
        let patient = alpha.patient_link("nobody");
        let (ended, ()) = tokio::join!(patient, alpha.shutdown());
        assert_eq!(ended.unwrap_err().cause, NodeDownCause::Shutdown);
    });
}

#[test]
fn a_seed_that_fails_is_named_to_who_waits_for_an_unknown_node() {
    sim::run(3, |world| async move {
        let alpha = node(&world, "alpha", &["alpha", "beta", "nowhere"]).await;
        let _beta = node(&world, "beta", &[]).await;
        let error = alpha.link("nobody").await.unwrap_err().to_string();
        let named = "(no address is known; seeds not reached: nowhere:7700: cannot connect: ";
        assert!(error.contains(named), "{error}");
    });
}

// Promised in docs/SEMANTICS.md.
#[test]
fn an_advertised_address_where_nobody_is_is_named() {
    sim::run(4, |world| async move {
        let alpha = node(&world, "alpha", &[]).await;
        let mut beta = sim_config(&world, "beta", &["alpha"]);
        beta.advertise = vec!["elsewhere:1".into()];
        let _beta = Node::start(beta).await.unwrap();
        let gamma = node(&world, "gamma", &["alpha"]).await;
        alpha.mesh.ready(2).await;
        let error = gamma.link("beta").await.unwrap_err().to_string();
        assert!(error.contains("elsewhere:1: cannot connect: "), "{error}");
    });
}

// Promised in docs/SEMANTICS.md.
#[test]
fn one_who_only_dials_is_reached_over_its_own_link_and_dials_again() {
    sim::run(5, |world| async move {
        let alpha = node(&world, "alpha", &[]).await;
        let mut beta = sim_config(&world, "beta", &["alpha"]);
        beta.listen = None;
        let beta = Node::start(beta).await.unwrap();
        assert_eq!(beta.mesh.addresses(), Vec::<String>::new());
        alpha.link("beta").await.unwrap();
        world.sever_streams("alpha", "beta");
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(alpha.linked(), ["beta"]);
    });
}

/// A fabric over which no frame passes is given up by both, and the next dial tries it again.
// Promised in docs/SEMANTICS.md.
#[test]
fn frames_that_do_not_pass_are_no_link() {
    sim::run(6, |world| async move {
        world.add_rule(Rule::new(Verdict::Drop));
        let alpha = node(&world, "alpha", &[]).await;
        let beta = node(&world, "beta", &["alpha"]).await;
        // A node that answers and cannot be linked does not let senders wait for ever.
        let error = alpha.link("beta").await.unwrap_err().to_string();
        assert!(error.contains("no fabric that both nodes have could be connected"), "{error}");
        assert!(alpha.watcher.texts().is_empty());
        world.clear_rules();
        alpha.mesh.ready(1).await;
        beta.mesh.ready(1).await;
        assert_eq!(beta.watcher.texts(), ["alpha up over sim"]);
    });
}

/// Nothing is sent to a queue pair that takes longer to connect than its peer would try.
#[test]
fn a_side_that_connects_late_is_waited_for() {
    for late in ["alpha", "beta"] {
        sim::run(9, |world| async move {
            let delay = Duration::from_secs(2);
            let links = LinkModel { retry: delay / 10, ..LinkModel::default() };
            world.set_links(links);
            let mut configs = ["alpha", "beta"].map(|name| sim_config(&world, name, &["alpha"]));
            for config in configs.iter_mut().filter(|config| config.name.as_str() == late) {
                let fabric = config.network.fabrics[0].clone();
                config.network.fabrics = vec![Arc::new(Altered { fabric, by: Late(delay) })];
            }
            let [alpha, beta] = configs;
            let alpha = Node::start(alpha).await.unwrap();
            let _beta = Node::start(beta).await.unwrap();
            alpha.mesh.ready(1).await;
            let took = Duration::from_nanos(world.now());
            assert!(took >= delay && took < delay + links.retry, "{took:?}: more than one attempt");
        });
    }
}

/// A fabric that takes so long to connect.
#[derive(Debug, Clone)]
struct Late(Duration);

impl Alteration for Late {
    fn connect(
        self,
        opening: Box<dyn Opening>,
        peer: Zeroizing<Vec<u8>>,
        way: usize,
    ) -> Connecting {
        async move {
            tokio::time::sleep(self.0).await;
            opening.connect(peer, way).await
        }
        .boxed()
    }
}

#[test]
fn a_restarted_node_replaces_what_does_not_answer() {
    for name in ["aa", "zz"] {
        sim::run(7, |world| async move {
            // The old link's own frames are tried for longer than its replacement takes.
            world.set_links(LinkModel { retry: limits::DOWN_AFTER, ..LinkModel::default() });
            let mesh = node(&world, "mm", &[]).await;
            let first = node(&world, name, &["mm"]).await;
            mesh.mesh.ready(1).await;
            // The host vanishes without a word, and comes back: no stream ends.
            world.partition("mm", name);
            tokio::time::sleep(limits::HEARTBEAT_INTERVAL / 10).await;
            let moved = format!("{name}-again");
            let mut again = sim_config(&world, &moved, &["mm"]);
            again.name = NodeName::new(name).unwrap();
            let again = Node::start(again).await.unwrap();
            again.mesh.ready(1).await;
            mesh.mesh.ready(1).await;
            let texts = mesh.watcher.texts();
            let expect = [
                format!("{name} up over sim"),
                format!("{name} lost: the peer was restarted"),
                format!("{name} down: it was restarted"),
                format!("{name} up over sim"),
            ];
            assert_eq!(texts, expect);
            assert_eq!(mesh.mesh.linked(), [again.mesh.id().clone()]);
            drop(first);
        });
    }
}

// Promised in docs/SEMANTICS.md.
#[test]
fn a_link_is_given_to_all_who_wait_and_a_place_can_be_given_up() {
    sim::run(8, |world| async move {
        let alpha = node(&world, "alpha", &[]).await;
        let beta = NodeName::new("beta").unwrap();
        let peer = alpha.mesh.peer(&beta);
        peer.want_link();
        assert!(peer.link().is_none());
        let (mut left, mut kept) = (None, None);
        let waker = futures::task::noop_waker();
        let mut cx = std::task::Context::from_waker(&waker);
        assert!(peer.poll_link(&mut left, false, &mut cx).is_pending());
        assert!(peer.poll_link(&mut kept, false, &mut cx).is_pending());
        assert_ne!(left, kept);
        peer.forget(left.unwrap());
        let waits = [alpha.link("beta"), alpha.link("beta"), alpha.link("beta")];
        let waits = futures::future::join_all(waits);
        let (links, _beta) = tokio::join!(waits, node(&world, "beta", &["alpha"]));
        assert!(links.iter().all(Result::is_ok));
        assert!(peer.poll_link(&mut kept, false, &mut cx).is_ready());
        assert_eq!(kept, None);
        assert_eq!(peer.name(), &beta);
    });
}
