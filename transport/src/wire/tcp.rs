//! The wire of TCP sockets.
//!
//! - **WR-1 every address**: a name is looked up at each dial, so that a change is followed, and
//!   each of its addresses is tried: the next one when one has failed, or is silent for
//!   `DIAL_STAGGER`, while those before may still answer.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::time::timeout;

use super::{Listener, Stream, Wire};
use crate::limits;

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
        async move { ready(connect_first(resolve(&address).await?).await?) }.boxed()
    }

    fn dial_loopback(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        async move {
            let mut found = resolve(&address).await?;
            found.retain(|address| address.ip().to_canonical().is_loopback());
            if found.is_empty() {
                return Err(io::ErrorKind::AddrNotAvailable.into());
            }
            ready(connect_first(found).await?)
        }
        .boxed()
    }
}

/// Makes a connection fit for what nodes say.
fn ready(stream: TcpStream) -> io::Result<Box<dyn Stream>> {
    stream.set_nodelay(true)?;
    Ok(Box::new(stream))
}

/// Where an address leads now.
async fn resolve(address: &str) -> io::Result<VecDeque<SocketAddr>> {
    if let Ok(address) = address.parse() {
        return Ok(VecDeque::from([address]));
    }
    let name = address.rsplit_once(':').map_or(address, |(name, _)| name);
    let failed = |kind, why: String| io::Error::new(kind, format!("the name `{name}` {why}"));
    let found = timeout(limits::RESOLVE_TIMEOUT, lookup_host(address)).await.map_err(|_| {
        let why = format!("was not resolved within {:?}", limits::RESOLVE_TIMEOUT);
        failed(io::ErrorKind::TimedOut, why)
    })?;
    let found =
        found.map_err(|error| failed(error.kind(), format!("does not resolve: {error}")))?;
    Ok(found.take(limits::DIAL_ADDRESSES_MAX).collect())
}

/// Connects to the first that answers (WR-1).
async fn connect_first(mut rest: VecDeque<SocketAddr>) -> io::Result<TcpStream> {
    let mut attempts = FuturesUnordered::new();
    let mut failures = Vec::new();
    loop {
        if let Some(address) = rest.pop_front() {
            attempts.push(async move { (address, TcpStream::connect(address).await) });
        }
        let outcome = if rest.is_empty() {
            attempts.next().await
        } else {
            match timeout(limits::DIAL_STAGGER, attempts.next()).await {
                Ok(outcome) => outcome,
                Err(_) => continue,
            }
        };
        match outcome {
            Some((_, Ok(stream))) => return Ok(stream),
            Some((address, Err(error))) => failures.push((address, error)),
            None => return Err(all_failed(failures)),
        }
    }
}

/// Why none of the addresses of a name answered.
fn all_failed(mut failures: Vec<(SocketAddr, io::Error)>) -> io::Error {
    match failures.len() {
        0 => io::Error::new(io::ErrorKind::NotFound, "the name has no address"),
        1 => failures.remove(0).1,
        _ => {
            let kind = failures[0].1.kind();
            let each = failures.iter().map(|(address, error)| format!("{address}: {error}"));
            io::Error::new(kind, each.collect::<Vec<_>>().join(", "))
        }
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
        self.peer_addr().map_or_else(|_| "unknown".into(), |a| a.to_string())
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpSocket;

    use super::*;
    use crate::wire::leads_elsewhere;

    async fn listener(address: &str) -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    /// Returns an address at which nobody listens.
    async fn dead() -> SocketAddr {
        listener("127.0.0.1:0").await.1
    }

    /// WR-1
    #[tokio::test]
    async fn a_dead_address_is_passed_over() {
        let (_live, address) = listener("127.0.0.1:0").await;
        for rest in [vec![address], vec![dead().await, address], vec![address, dead().await]] {
            let stream = connect_first(rest.into()).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), address);
        }
    }

    /// WR-1: a full backlog answers nothing, as a host that is switched off.
    // Promised in docs/SEMANTICS.md.
    #[tokio::test]
    async fn a_silent_address_is_not_waited_for() {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let full = socket.listen(1).unwrap();
        let silent = full.local_addr().unwrap();
        let mut queued = Vec::new();
        while let Ok(stream) = timeout(limits::DIAL_STAGGER, TcpStream::connect(silent)).await {
            queued.push(stream.unwrap());
        }
        let (_live, address) = listener("127.0.0.1:0").await;
        let stream = connect_first([silent, silent, address].into()).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), address);
    }

    #[tokio::test]
    async fn what_every_address_met_is_told() {
        let (one, other) = (dead().await, dead().await);
        let error = connect_first([one, other].into()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let text = error.to_string();
        assert!(
            text.contains(&format!("{one}: ")) && text.contains(&format!("{other}: ")),
            "{text}"
        );
        let error = connect_first([one].into()).await.unwrap_err();
        assert!(!error.to_string().contains("127.0.0.1"), "who dialled knows the address");
        assert_eq!(connect_first([].into()).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// The oracle is the error: a host that is not there would answer with another one, or not.
    // Promised in docs/SEMANTICS.md.
    #[tokio::test]
    async fn only_addresses_of_this_machine_are_dialled_where_no_other_is_meant() {
        for elsewhere in ["192.0.2.1:7", "[2001:db8::1]:7", "[::ffff:192.0.2.1]:7"] {
            let error = TcpWire.dial_loopback(elsewhere.into()).await.err().unwrap();
            assert!(leads_elsewhere(&error), "{elsewhere}: {error}");
        }
        const EADDRNOTAVAIL: i32 = 99;
        let no_port_left = io::Error::from_raw_os_error(EADDRNOTAVAIL);
        assert_eq!(no_port_left.kind(), io::ErrorKind::AddrNotAvailable);
        let of_several = io::Error::new(no_port_left.kind(), "192.0.2.1:7: no port is left");
        assert!(![no_port_left, of_several].iter().any(leads_elsewhere), "the system's own");
        let (_live, address) = listener("127.0.0.1:0").await;
        let name = format!("localhost:{}", address.port());
        for here in [address.to_string(), name] {
            let stream = TcpWire.dial_loopback(here).await.unwrap();
            assert_eq!(stream.peer_address(), address.to_string());
        }
    }

    #[tokio::test]
    async fn literals_are_taken_as_they_are_and_names_are_looked_up() {
        for literal in ["127.0.0.1:7", "[::1]:7"] {
            assert_eq!(resolve(literal).await.unwrap(), [literal.parse::<SocketAddr>().unwrap()]);
        }
        let found = resolve("localhost:7").await.unwrap();
        assert!(!found.is_empty() && found.iter().all(|a| a.ip().is_loopback() && a.port() == 7));
        let error = resolve("no-such-node.invalid:7").await.unwrap_err().to_string();
        assert!(error.starts_with("the name `no-such-node.invalid` "), "{error}");
    }
}
