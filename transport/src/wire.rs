//! Where nodes meet: a listener and byte streams. TCP here; the simulated fabric brings its own.

mod lookup;
mod preface;
mod tcp;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

pub use preface::{PREFACE_BYTES, PREFACE_VERSION, Preface, PrefaceError};
pub use tcp::TcpWire;

/// The address of a peer whose connection is gone.
pub(crate) const UNKNOWN_ADDRESS: &str = "unknown";

/// A network that nodes listen on and dial.
pub trait Wire: Send + Sync + fmt::Debug + 'static {
    /// Listens on `address` (`host:port`; a DNS name, IPv4 or IPv6; port 0 lets the system choose).
    fn listen(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn Listener>>>;

    /// Returns true if time is virtual, and a run can be repeated: then all of a node stays on the
    /// runtime that it was started on, in the order that this gives to tasks.
    fn is_simulated(&self) -> bool {
        false
    }

    /// Returns how often the nodes on it send each other heartbeats and probe their links, whatever
    /// their profiles say: for simulation.
    fn heartbeat_interval(&self) -> Option<Duration> {
        None
    }

    /// Returns a look-up of where `address` leads now, best first: `None` for one that is no name,
    /// and leads nowhere but there. Look-ups of names that peers have `told` leave room for others.
    ///
    /// # Errors
    /// Of the look-up: the name has no address, or none was found in time.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped: the next look-up of the name joins this one.
    fn resolve(
        &self,
        address: &str,
        told: bool,
    ) -> Option<BoxFuture<'static, io::Result<Vec<String>>>>;

    /// Connects to `address`, which is no name.
    ///
    /// # Cancel safety
    /// Dropping the future gives the connection up.
    fn dial(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn Stream>>>;
}

/// An open port.
pub trait Listener: Send + 'static {
    /// Returns the next connection.
    ///
    /// # Cancel safety
    /// No connection is lost when the future is dropped.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn Stream>>>;

    /// Returns the address it really listens on, with its port.
    fn local_address(&self) -> String;
}

/// A byte stream to another node.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// Returns the TCP stream it is, where it is one: the tcp fabric carries frames on it.
    fn into_tcp(self: Box<Self>) -> Option<TcpStream>;

    /// Returns where the other end is. A data connection goes there, too, and a link that leaves
    /// this machine is encrypted.
    fn peer_address(&self) -> String;
}
