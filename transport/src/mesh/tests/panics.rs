//! Panics in the tasks of a node: in a connection's task, and in a task that the node needs.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tracing::Level;

use super::simulated::{node, sim_config};
use super::*;
use crate::fabric::sim;
use crate::recorder::Recorder;
use crate::wire::{Listener, Stream, Wire};

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

/// A network whose dialled streams panic at the next read, once, when this is set.
#[derive(Debug)]
struct Fragile(Arc<dyn Wire>, Arc<AtomicBool>);

struct FragileStream(Box<dyn Stream>, Arc<AtomicBool>);

impl Wire for Fragile {
    fn listen(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
        self.0.listen(address)
    }

    fn is_simulated(&self) -> bool {
        true
    }

    fn heartbeat_interval(&self) -> Option<Duration> {
        self.0.heartbeat_interval()
    }

    fn resolve(
        &self,
        address: &str,
        told: bool,
    ) -> Option<BoxFuture<'static, io::Result<Vec<String>>>> {
        self.0.resolve(address, told)
    }

    fn dial(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let (dialled, panics) = (self.0.dial(address), self.1.clone());
        async move { Ok(Box::new(FragileStream(dialled.await?, panics)) as Box<dyn Stream>) }
            .boxed()
    }
}

impl AsyncRead for FragileStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        assert!(!self.1.swap(false, Ordering::Relaxed), "planted");
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for FragileStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl Stream for FragileStream {
    fn peer_address(&self) -> String {
        self.0.peer_address()
    }
}

/// A network that the program gave the node panics in the task of a connection: the log says so at
/// once, the link has failed, and the nodes link again.
#[test]
fn a_panic_of_a_connection_is_logged_at_once_and_its_link_has_failed() {
    let log = Recorder::new(Level::ERROR);
    let _guard = tracing::subscriber::set_default(log.clone());
    sim::run(1, |world| async move {
        let mut alpha = sim_config(&world, "alpha", &["beta"]);
        let panics = Arc::new(AtomicBool::new(false));
        alpha.network.wire = Arc::new(Fragile(alpha.network.wire.clone(), panics.clone()));
        let alpha = Node::start(alpha).await.unwrap();
        let beta = node(&world, "beta", &[]).await;
        alpha.mesh.ready(1).await;
        panics.store(true, Ordering::Relaxed);
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
