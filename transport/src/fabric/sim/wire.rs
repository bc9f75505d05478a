//! The simulated wire: a node's ports, dials and streams.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::event::PipeId;
use super::state::{Life, Shared, State};
use super::streams::Ends;
use crate::entropy::Entropy;
use crate::limits;
use crate::wire::lookup;
use crate::wire::{DataSocket, Detached, Listener, Stream, Wire};

/// Bytes that a data connection reads or writes at once: as many as a stream holds.
const DATA_BYTES_MAX: usize = 64 * 1024;

/// A node's end of the simulated network. Addresses are any strings, such as `alpha:7700`.
#[derive(Debug)]
pub struct SimWire {
    shared: Arc<Shared>,
    life: Life,
}

impl SimWire {
    pub(super) fn new(shared: Arc<Shared>, life: Life) -> Self {
        SimWire { shared, life }
    }
}

impl Wire for SimWire {
    fn is_simulated(&self) -> bool {
        true
    }

    fn heartbeat_interval(&self) -> Option<Duration> {
        self.shared.with(|state| state.physics.heartbeat_interval)
    }

    fn listen(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
        let (shared, life) = (self.shared.clone(), self.life);
        async move {
            let id = shared.with(|state| {
                if !state.lives(life) {
                    return Err(io::ErrorKind::NetworkDown.into());
                }
                state.streams.listen(life.node, &address)
            })?;
            Ok(Box::new(SimListener { shared, address, id }) as Box<dyn Listener>)
        }
        .boxed()
    }

    fn resolve(
        &self,
        address: &str,
        _: bool,
    ) -> Option<BoxFuture<'static, io::Result<Vec<String>>>> {
        let mut found = self.shared.with(|state| state.streams.resolve(address))?;
        if found.len() > limits::DIAL_ADDRESSES_MAX {
            // As from a real resolver, near addresses come first, and some of them are drawn.
            let near = self.life.node;
            let mut ranked: Vec<_> = found.into_iter().enumerate().collect();
            ranked.sort_by_key(|(place, _)| place ^ near);
            found = ranked.into_iter().map(|(_, address)| address).collect();
            let seed = self.shared.with(|state| state.physics.chance.u64(..));
            lookup::draw(&mut found, &Entropy::seeded(seed));
        }
        let found = if found.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(found) };
        Some(futures::future::ready(found).boxed())
    }

    fn dial(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let (shared, life) = (self.shared.clone(), self.life);
        async move {
            let id = shared.with(|state| {
                let alive = state.lives(life);
                alive.then(|| state.streams.dial(&mut state.physics, life.node, address))
            });
            let id = id.ok_or(io::ErrorKind::ConnectionRefused)?;
            let dial = Dialing { shared, id };
            let polled =
                |s: &mut State, cx: &mut Context<'_>| s.streams.poll_dial(&s.physics, dial.id, cx);
            let ends = poll_fn(|cx| dial.shared.with(|s| polled(s, cx))).await?;
            Ok(Box::new(SimStream::new(dial.shared.clone(), ends)) as Box<dyn Stream>)
        }
        .boxed()
    }
}

/// A dial that is given up when it is dropped before it ended.
struct Dialing {
    shared: Arc<Shared>,
    id: u64,
}

impl Drop for Dialing {
    fn drop(&mut self) {
        self.shared.with(|state| state.streams.drop_dial(&mut state.physics, self.id));
    }
}

struct SimListener {
    shared: Arc<Shared>,
    address: String,
    id: u64,
}

impl Listener for SimListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn Stream>>> {
        poll_fn(|cx| {
            let accepted =
                self.shared.with(|s| s.streams.accept(&s.physics, &self.address, self.id, cx));
            accepted.map_ok(|ends| {
                Box::new(SimStream::new(self.shared.clone(), ends)) as Box<dyn Stream>
            })
        })
        .boxed()
    }

    fn local_address(&self) -> String {
        self.address.clone()
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        self.shared.with(|s| s.streams.close_port(&mut s.physics, &self.address, self.id));
    }
}

struct SimStream {
    shared: Arc<Shared>,
    reads: PipeId,
    writes: PipeId,
    peer_address: String,
}

impl SimStream {
    fn new(shared: Arc<Shared>, ends: Ends) -> Self {
        let Ends { reads, writes, peer_address } = ends;
        SimStream { shared, reads, writes, peer_address }
    }
}

impl AsyncRead for SimStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.shared.with(|state| match state.streams.pipe(self.reads) {
            Some(pipe) => pipe.read(&mut state.physics, cx.waker(), out),
            None => Poll::Ready(Ok(())),
        })
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.shared.with(|state| {
            state.streams.write(&mut state.physics, (self.reads, self.writes), cx.waker(), bytes)
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.with(|state| {
            if let Some(pipe) = state.streams.pipe(self.writes) {
                pipe.finish(&mut state.physics, self.writes);
            }
        });
        Poll::Ready(Ok(()))
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        self.shared.with(|s| s.streams.drop_ends(&mut s.physics, self.reads, self.writes));
    }
}

impl Stream for SimStream {
    fn into_data(self: Box<Self>) -> io::Result<Detached> {
        Ok(Box::new(move || Ok(self as Box<dyn DataSocket>)))
    }

    fn peer_address(&self) -> String {
        self.peer_address.clone()
    }
}

impl DataSocket for SimStream {
    fn read(&mut self, buffers: &mut [IoSliceMut<'_>], room: usize) -> io::Result<usize> {
        if !self.is_readable() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut bytes = vec![0; room.min(DATA_BYTES_MAX)];
        let mut out = ReadBuf::new(&mut bytes);
        let read = self.shared.with(|state| match state.streams.pipe(self.reads) {
            Some(pipe) => pipe.read(&mut state.physics, Waker::noop(), &mut out),
            None => Poll::Ready(Ok(())),
        });
        at_once(read)?;
        let mut rest = out.filled();
        for buffer in buffers {
            let (now, later) = rest.split_at(rest.len().min(buffer.len()));
            buffer[..now.len()].copy_from_slice(now);
            rest = later;
        }
        Ok(out.filled().len())
    }

    fn write(&mut self, pieces: &[IoSlice<'_>], _: usize) -> io::Result<usize> {
        at_once(DataSocket::poll_write_ready(self, &mut Context::from_waker(Waker::noop())))?;
        let mut bytes = Vec::new();
        for piece in pieces {
            let most = piece.len().min(DATA_BYTES_MAX - bytes.len());
            bytes.extend_from_slice(&piece[..most]);
        }
        at_once(self.shared.with(|state| {
            let ends = (self.reads, self.writes);
            state.streams.write(&mut state.physics, ends, Waker::noop(), &bytes)
        }))
    }

    fn is_readable(&self) -> bool {
        DataSocket::poll_read_ready(self, &mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.with(|state| match state.streams.pipe(self.reads) {
            Some(pipe) => pipe.poll_readable(&state.physics, cx).map(Ok),
            None => Poll::Ready(Ok(())),
        })
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.with(|state| match state.streams.pipe(self.writes) {
            Some(pipe) => pipe.poll_writable(&state.physics, cx).map(Ok),
            None => Poll::Ready(Ok(())),
        })
    }
}

fn at_once<T>(outcome: Poll<io::Result<T>>) -> io::Result<T> {
    match outcome {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

impl fmt::Debug for SimStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimStream to {}", self.peer_address)
    }
}
