//! Where nodes meet: a listener and byte streams. TCP here; the simulated fabric brings its own.

pub(crate) mod lookup;
mod preface;
#[cfg(feature = "srv")]
pub(crate) mod service;
mod tcp;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

pub use preface::{PREFACE_BYTES, Preface, PrefaceError};
pub use tcp::TcpWire;

/// Longest name of a service: the longest that any name has.
const SERVICE_BYTES_MAX: usize = 254;

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

    /// Returns a look-up of the addresses that `address` leads to now, best first: `None` if it is
    /// no name, and so leads only to itself. It may be a [service](is_service). Look-ups of names
    /// that peers have `told` leave room for others.
    ///
    /// # Errors
    /// Of the look-up: the name has no address, or none was found in time.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped: the next look-up of a name joins this one; a
    /// look-up of a service starts over.
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

/// Returns true if a text is the name of a service, `_service._tcp.name`: where it is, and at which
/// ports, is in the SRV records of that name.
pub fn is_service(text: &str) -> bool {
    let mut labels = text.trim_end_matches('.').split('.');
    let service = labels.next().is_some_and(|label| label.len() > 1 && label.starts_with('_'));
    let is_label = |label: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        (1..=63).contains(&label.len()) && label.chars().all(is_plain)
    };
    let transport = labels.next() == Some("_tcp");
    let domain: Vec<&str> = labels.collect();
    let is_domain = !domain.is_empty() && domain.into_iter().all(is_label);
    text.len() <= SERVICE_BYTES_MAX && service && transport && is_domain
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
    /// Makes it a stream of frames of the tcp fabric; it belongs to no runtime until attached.
    ///
    /// # Errors
    /// [`Unsupported`](io::ErrorKind::Unsupported) where it cannot carry any.
    fn into_data(self: Box<Self>) -> io::Result<Detached> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns where the other end is. A data connection goes there, too, and a link that leaves
    /// this machine is encrypted.
    fn peer_address(&self) -> String;
}

/// A byte stream between two runtimes: called on the runtime that it is to belong to, it returns
/// the stream.
pub type Detached = Box<dyn FnOnce() -> io::Result<Box<dyn DataSocket>> + Send>;

/// A byte stream that is read and written inside the calls of its owner. No call of it waits: where
/// there is nothing, the error is [`WouldBlock`](io::ErrorKind::WouldBlock).
pub trait DataSocket: Send + Sync {
    /// Reads available bytes into `buffers`, which have room for `room` bytes; `Ok(0)` at the end
    /// of the stream. A read that fills less than that room has read all there is.
    ///
    /// # Errors
    /// Those of the stream.
    fn read(&mut self, buffers: &mut [IoSliceMut<'_>], room: usize) -> io::Result<usize>;

    /// Writes some of `pieces`, which hold `all` bytes.
    ///
    /// # Errors
    /// Those of the stream.
    fn write(&mut self, pieces: &[IoSlice<'_>], all: usize) -> io::Result<usize>;

    /// Returns true if a read may find something.
    fn is_readable(&self) -> bool;

    /// Returns ready if a read may find something; otherwise the task is woken when it may.
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Returns ready if something may be written; otherwise the task is woken when it may.
    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}
