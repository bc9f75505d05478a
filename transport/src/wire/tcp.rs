//! The wire of TCP sockets.

use std::io;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::net::{TcpListener, TcpStream};

use super::{Listener, Stream, Wire};

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

    fn dial(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        }
        .boxed()
    }
}

struct TcpPort {
    listener: TcpListener,
    address: String,
}

impl Listener for TcpPort {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn Stream>>> {
        async move {
            let (stream, _) = self.listener.accept().await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Stream>)
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
        self.peer_addr().map_or_else(|_| "unknown".into(), |a| a.to_string())
    }
}
