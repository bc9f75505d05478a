//! Panics in the tasks of a node: in that of a connection, and in one that the node needs.

use std::sync::atomic::{AtomicBool, Ordering};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, SharedString, Unit};
use tracing::Level;

use super::simulated::{node, sim_config};
use super::*;
use crate::fabric::sim;
use crate::recorder::Recorder;

/// A task without which the node is of no use does not end in silence.
#[test]
fn a_panic_of_the_mesh_closes_the_node() {
    sim::run(1, |world| async move {
        let alpha = node(&world, "alpha", &["beta"]).await;
        let beta = node(&world, "beta", &[]).await;
        alpha.mesh.ready(1).await;
        alpha.mesh.table.spawn_vital("test", async { panic!("planted") });
        alpha.watcher.until(&["beta up over sim", "beta lost: a task of this node panicked"]).await;
        let failed = NodeDown { cause: NodeDownCause::Failed, down_ms: 0 };
        assert_eq!(alpha.link("beta").await.unwrap_err(), failed);
        alpha.shutdown().await;
        assert_eq!(alpha.link("beta").await.unwrap_err(), failed, "the first cause counts");
        let expected = ["alpha up over sim", "alpha lost: the connection to the peer was closed"];
        beta.watcher.until(&expected).await;
    });
}

/// Panics once, at the first round trip to beta that is recorded.
#[derive(Default)]
struct Fragile(AtomicBool);

impl metrics::Recorder for Fragile {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let of_beta = key.labels().any(|label| label.value() == "beta");
        assert!(!of_beta || self.0.swap(true, Ordering::Relaxed), "planted");
        Histogram::noop()
    }
}

/// Code that the program gave the node panics in the task of a connection: the log says so at once,
/// the link has failed, and the nodes link again.
#[test]
fn a_panic_of_a_connection_is_logged_at_once_and_its_link_has_failed() {
    let log = Recorder::new(Level::ERROR);
    let _guard = tracing::subscriber::set_default(log.clone());
    let recorder = Fragile::default();
    let _recording = metrics::set_default_local_recorder(&recorder);
    sim::run(1, |world| async move {
        let mut alpha = sim_config(&world, "alpha", &["beta"]);
        alpha.metrics_by_peer = true;
        let alpha = Node::start(alpha).await.unwrap();
        let beta = node(&world, "beta", &[]).await;
        alpha.watcher.until(&["beta up over sim", "beta lost: a task of this node panicked"]).await;
        let lines = log.take();
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert!(line.contains("a task of a connection panicked"), "{line}");
        alpha.mesh.ready(1).await;
        beta.mesh.ready(1).await;
        assert_eq!(alpha.watcher.texts()[2..], ["beta up over sim"]);
        let lost = "alpha lost: the connection to the peer was closed";
        assert_eq!(beta.watcher.texts()[..2], ["alpha up over sim", lost]);
    });
}
