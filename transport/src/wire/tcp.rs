//! The wire of TCP sockets.
//!
//! The reads and writes of a data connection end with the first short one: no call is made to be
//! told that there is no more. The runtime waits by edge-triggered events. A read that fills less
//! than its buffers, as a write that is taken in part, has met the end of what the socket has, so
//! readiness is cleared; bytes that come later are a new event. tokio forgets no event that came
//! since the call began: it clears only the readiness that the call was made with, and never that
//! the stream has ended or failed.

use std::io::{self, IoSlice, IoSliceMut, Read};
use std::net::SocketAddr;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use socket2::{SockRef, Socket};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};

use super::lookup::{look_up, parts};
#[cfg(feature = "srv")]
use super::service::look_up as services;
use super::{DataSocket, Detached, Listener, Stream, UNKNOWN_ADDRESS, Wire, is_service};

/// A write to a peer that is gone is an error, and no signal: that ends a program in C that has
/// this as its library. (Apple's sockets have it as an option, set where they are made.)
#[cfg(not(target_vendor = "apple"))]
const NO_SIGNAL: i32 = rustix::net::SendFlags::NOSIGNAL.bits() as i32;
#[cfg(target_vendor = "apple")]
const NO_SIGNAL: i32 = 0;

/// TCP sockets, with `TCP_NODELAY`.
#[derive(Debug, Clone, Copy, Default)]
pub struct TcpWire;

impl Wire for TcpWire {
    fn listen(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
        async move {
            let listener = TcpListener::bind(parts(&address)?).await?;
            let address = listener.local_addr()?.to_string();
            Ok(Box::new(TcpPort { listener, address }) as Box<dyn Listener>)
        }
        .boxed()
    }

    fn resolve(
        &self,
        address: &str,
        told: bool,
    ) -> Option<BoxFuture<'static, io::Result<Vec<String>>>> {
        if address.parse::<SocketAddr>().is_ok() {
            return None;
        }
        let name = address.to_owned();
        let found = async move {
            let found = if !told && is_service(&name) {
                services(&name).await?
            } else {
                look_up(&name, told).await?
            };
            Ok(found.iter().map(SocketAddr::to_string).collect())
        };
        Some(found.boxed())
    }

    fn dial(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        async move {
            let literal = |_| io::Error::new(io::ErrorKind::InvalidInput, "it is no IP address");
            let address: SocketAddr = address.parse().map_err(literal)?;
            ready(TcpStream::connect(address).await?)
        }
        .boxed()
    }
}

/// Fails: a node does not start with such a seed where it cannot be looked up.
#[cfg(not(feature = "srv"))]
async fn services(_: &str) -> io::Result<Vec<SocketAddr>> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "services need the cargo feature `srv`"))
}

/// Makes a connection fit for what nodes say.
fn ready(stream: TcpStream) -> io::Result<Box<dyn Stream>> {
    stream.set_nodelay(true)?;
    Ok(Box::new(stream))
}

struct TcpPort {
    listener: TcpListener,
    address: String,
}

impl Listener for TcpPort {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn Stream>>> {
        async move {
            let (stream, _) = self.listener.accept().await?;
            ready(stream)
        }
        .boxed()
    }

    fn local_address(&self) -> String {
        self.address.clone()
    }
}

impl Stream for TcpStream {
    fn into_data(self: Box<Self>) -> io::Result<Detached> {
        let stream = self.into_std()?;
        let attach = move || Ok(Box::new(TcpStream::from_std(stream)?) as Box<dyn DataSocket>);
        Ok(Box::new(attach))
    }

    fn peer_address(&self) -> String {
        self.peer_addr().map_or_else(|_| UNKNOWN_ADDRESS.into(), |a| a.to_string())
    }
}

impl DataSocket for TcpStream {
    fn read(&mut self, buffers: &mut [IoSliceMut<'_>], room: usize) -> io::Result<usize> {
        once(self, Interest::READABLE, room, |mut socket| match buffers {
            [buffer] => socket.read(buffer),
            buffers => socket.read_vectored(buffers),
        })
    }

    fn write(&mut self, pieces: &[IoSlice<'_>], all: usize) -> io::Result<usize> {
        once(self, Interest::WRITABLE, all, |socket| match pieces {
            [piece] => socket.send_with_flags(piece, NO_SIGNAL),
            pieces => socket.send_vectored_with_flags(pieces, NO_SIGNAL),
        })
    }

    fn is_readable(&self) -> bool {
        self.try_io(Interest::READABLE, || Ok(())).is_ok()
    }

    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        TcpStream::poll_read_ready(self, cx)
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        TcpStream::poll_write_ready(self, cx)
    }
}

/// Reads or writes, once, if the runtime knows of no reason against it; clears that readiness when
/// fewer than `all` bytes were moved.
fn once(
    stream: &TcpStream,
    interest: Interest,
    all: usize,
    call: impl FnOnce(&Socket) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut short = None;
    let moved = stream.try_io(interest, || {
        let moved = call(&SockRef::from(stream))?;
        if 0 < moved && moved < all {
            short = Some(moved);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(moved)
    });
    short.map_or(moved, Ok)
}
