//! The wire of TCP sockets.

use std::io;
use std::net::SocketAddr;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::net::{TcpListener, TcpStream};

use super::lookup::look_up;
#[cfg(feature = "srv")]
use super::service::look_up as services;
use super::{Listener, Stream, UNKNOWN_ADDRESS, Wire, is_service};

/// TCP sockets, with `TCP_NODELAY`.
#[derive(Debug, Clone, Copy, Default)]
pub struct TcpWire;

impl Wire for TcpWire {
    fn listen(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
        async move {
            let listener = TcpListener::bind(address).await?;
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
    fn into_tcp(self: Box<Self>) -> Option<TcpStream> {
        Some(*self)
    }

    fn peer_address(&self) -> String {
        self.peer_addr().map_or_else(|_| UNKNOWN_ADDRESS.into(), |a| a.to_string())
    }
}
