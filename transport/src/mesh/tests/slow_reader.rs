//! A peer that reads slowly what a node writes to their bootstrap connection.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::sharing::{Owned, reached};
use super::simulated::{node, sim_config};
use super::*;
use crate::fabric::one_sided::Access;
use crate::fabric::sim;
use crate::limits;
use crate::wire::{Listener, Stream, Wire};

/// Time that each message takes that is written to the slow reader.
const PAUSE: Duration = Duration::from_millis(900);

/// A network by whose streams each write takes its time, once this is set.
#[derive(Debug)]
struct Slow(Arc<dyn Wire>, Arc<AtomicBool>);

struct SlowListener(Box<dyn Listener>, Arc<AtomicBool>);

struct SlowStream {
    below: Box<dyn Stream>,
    is_slow: Arc<AtomicBool>,
    pause: Option<Pin<Box<Sleep>>>,
    /// A part of a message was written, and not all of it.
    is_within: bool,
}

impl Wire for Slow {
    fn listen(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
        let (listening, is_slow) = (self.0.listen(address), self.1.clone());
        async move { Ok(Box::new(SlowListener(listening.await?, is_slow)) as Box<dyn Listener>) }
            .boxed()
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
        self.0.dial(address)
    }
}

impl Listener for SlowListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn Stream>>> {
        async {
            let (below, is_slow) = (self.0.accept().await?, self.1.clone());
            let (pause, is_within) = (None, false);
            Ok(Box::new(SlowStream { below, is_slow, pause, is_within }) as Box<dyn Stream>)
        }
        .boxed()
    }

    fn local_address(&self) -> String {
        self.0.local_address()
    }
}

impl AsyncRead for SlowStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.below).poll_read(cx, buf)
    }
}

impl AsyncWrite for SlowStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // The simulation takes a message in parts.
        if self.is_slow.load(Ordering::Relaxed) && !self.is_within {
            ready!(self.pause.get_or_insert_with(|| Box::pin(sleep(PAUSE))).as_mut().poll(cx));
            self.pause = None;
        }
        let written = ready!(Pin::new(&mut self.below).poll_write(cx, bytes))?;
        self.is_within = written < bytes.len();
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.below).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.below).poll_shutdown(cx)
    }
}

impl Stream for SlowStream {
    fn peer_address(&self) -> String {
        self.below.peer_address()
    }
}

/// RE-6: while a session writes two hundred answers to a slow reader, which takes minutes, it looks
/// after one-sided access once a second, and hears at once that the link has ended. Before, it did
/// neither until it had written them all.
#[test]
fn a_slow_reader_keeps_no_session_from_its_looks() {
    sim::run(1, |world| async move {
        let mut config = sim_config(&world, "alpha", &[]);
        let is_slow = Arc::new(AtomicBool::new(false));
        config.network.wire = Arc::new(Slow(config.network.wire, is_slow.clone()));
        let alpha = Node::start(config).await.unwrap();
        let beta = node(&world, "beta", &["alpha"]).await;
        beta.mesh.ready(1).await;
        alpha.mesh.ready(1).await;
        let all: Vec<_> = (0..200).map(|_| Owned::new(&alpha, 64, Access::ALL)).collect();
        reached(&beta, &alpha, all[0].share.id()).read(0, &mut [0; 8]).await.unwrap();
        let reach = alpha.link("beta").await.unwrap().reach().clone();
        is_slow.store(true, Ordering::Relaxed);
        let reads: Vec<_> = all
            .iter()
            .map(|owned| reached(&beta, &alpha, owned.share.id()))
            .map(|memory| tokio::spawn(async move { memory.read(0, &mut [0; 8]).await }))
            .collect();
        let begun = Instant::now();
        while !reads[100].is_finished() {
            tokio::time::sleep(limits::HEARTBEAT_INTERVAL / 4).await;
            let late = reach.looked().map_or(begun.elapsed(), |looked| looked.elapsed());
            assert!(late < 2 * limits::HEARTBEAT_INTERVAL, "{late:?}");
        }
        let took = begun.elapsed();
        assert!(took > 60 * PAUSE && !reads[199].is_finished(), "{took:?}");
        assert_eq!(alpha.watcher.texts(), ["beta up over sim"]);
        world.sever_data("alpha", "beta");
        let down = alpha.watcher.until_count(2);
        assert!(tokio::time::timeout(Duration::from_secs(5), down).await.is_ok());
        is_slow.store(false, Ordering::Relaxed);
        for read in reads {
            read.await.unwrap().unwrap();
        }
    });
}
