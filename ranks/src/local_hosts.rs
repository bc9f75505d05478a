//! Ports for ranks that all run on this machine.

use std::io;
use std::net::Ipv4Addr;

use tokio::net::TcpSocket;

/// Free ports of 127.0.0.1, as the `host:port` of each rank. While this lives, no program that asks
/// the system for any free port is given one of them; a rank can listen at its own.
///
/// ```
/// # use futures::future::{join_all, try_join_all};
/// use ringpost_ranks::{LocalHosts, World};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ringpost::BoxError> {
/// let hosts = LocalHosts::reserve(4)?;
/// let join = |rank| World::builder("job").rank(rank).hosts(hosts.addresses()).join();
/// let worlds = try_join_all((0..4).map(join)).await?;
/// # join_all(worlds.into_iter().map(World::leave)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LocalHosts {
    addresses: Vec<String>,
    _sockets: Vec<TcpSocket>,
}

impl LocalHosts {
    /// Takes `count` ports.
    ///
    /// # Errors
    /// Those of `socket` and `bind`, as where no port is free.
    pub fn reserve(count: usize) -> io::Result<LocalHosts> {
        let mut hosts = LocalHosts { addresses: Vec::new(), _sockets: Vec::new() };
        for _ in 0..count {
            let socket = TcpSocket::new_v4()?;
            // Bound and not listening: a listener that reuses addresses, as a node's does, may bind
            // the port, too, and `bind` to port 0 passes it over.
            socket.set_reuseaddr(true)?;
            socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
            hosts.addresses.push(socket.local_addr()?.to_string());
            hosts._sockets.push(socket);
        }
        Ok(hosts)
    }

    /// Returns the `host:port` of each rank.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }
}
