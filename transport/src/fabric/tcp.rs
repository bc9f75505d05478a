//! Verbs semantics framed on a TCP stream, for hosts without RDMA: each queue pair is a second
//! connection beside the bootstrap connection, dialled by the side that dialled that one.
//!
//! - **TC-1 no tasks**: all reading and writing happens inside the calls of the queue pair's owner.
//! - **TC-2 acceptance**: a frame is accepted when it met a receive that it fits and lies there
//!   whole; only then is it acknowledged, and only then does its send complete.
//! - **TC-3 again**: a sender keeps the slots of all frames that are not accepted. A frame that
//!   found no receive is refused and all after it are skipped, until the sender starts again with
//!   it: so order holds (PV-3) and nothing waits at the receiver (PV-5).
//! - **TC-4 hostile bytes** end the queue pair, as if the peer were gone. Lengths are checked
//!   first, and nothing is allocated for what a peer says.
//! - **TC-5 no allocation** for a frame once the queue pair stands.
//! - **TC-6 acknowledgement**: acceptance travels with the next frame. By itself it is written when
//!   64 frames are unacknowledged, at the close, before a refusal, and when the sender asks for it:
//!   for every half of its send queue, and when its owner armed for any completion while a signaled
//!   send is out. So a connection without traffic may stay unacknowledged for less than half of its
//!   send queue, and no completion that is waited for is held back.

mod doors;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
mod input;
mod output;
mod places;
mod queue_pair;
mod queues;
mod record;
mod stream;

#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use self::doors::Door;
use self::queue_pair::TcpQueuePair;
use self::queues::Queues;
use super::{Fabric, FabricError, Limits, Opening, PostError, QueuePair, QueuePairConfig, Side};
use crate::entropy::Entropy;
use crate::limits::{
    RNR_RETRY_MAX, TCP_FRAME_BYTES_MAX, TCP_INLINE_BYTES_MAX, TCP_QUEUE_MAX, TCP_REGION_BYTES_MAX,
};
use crate::memory::{Owner, Region, Slot};
use crate::steps::step;
use crate::wire::{Preface, Wire};

pub use self::doors::Doors;

/// The tcp fabric.
#[derive(Debug)]
pub struct TcpFabric {
    wire: Arc<dyn Wire>,
    doors: Doors,
    entropy: Entropy,
    owner: Owner,
}

impl TcpFabric {
    /// A fabric that dials over `wire` and waits at `doors`.
    pub fn new(wire: Arc<dyn Wire>, doors: Doors, entropy: Entropy) -> Self {
        TcpFabric { wire, doors, entropy, owner: Owner::new() }
    }
}

impl Fabric for TcpFabric {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn limits(&self) -> Limits {
        Limits {
            send_queue_max: TCP_QUEUE_MAX,
            recv_queue_max: TCP_QUEUE_MAX,
            frame_bytes_max: TCP_FRAME_BYTES_MAX,
            inline_bytes_max: TCP_INLINE_BYTES_MAX,
            splices: true,
        }
    }

    fn alloc(&self, bytes: usize) -> Result<Region, FabricError> {
        check("region", bytes as u64, TCP_REGION_BYTES_MAX as u64)?;
        Ok(self.owner.heap(bytes.max(1)))
    }

    fn open(&self, config: QueuePairConfig) -> Result<Box<dyn Opening>, FabricError> {
        check("send queue", config.send_queue.into(), TCP_QUEUE_MAX.into())?;
        check("receive queue", config.recv_queue.into(), TCP_QUEUE_MAX.into())?;
        check("inline size", config.inline_bytes.into(), TCP_INLINE_BYTES_MAX.into())?;
        check("rnr_retry", config.rnr_retry.into(), RNR_RETRY_MAX.into())?;
        let queues = Queues::new(&config, self.owner);
        let end = match config.side {
            Side::Dialer { address } => End::Dialer { wire: self.wire.clone(), address },
            Side::Acceptor => End::Acceptor(self.doors.expect(self.entropy.u128())),
        };
        Ok(Box::new(TcpOpening { queues, rnr_retry: config.rnr_retry, end }))
    }
}

fn check(what: &'static str, asked: u64, limit: u64) -> Result<(), FabricError> {
    if asked > limit { Err(FabricError::Limit { what, asked, limit }) } else { Ok(()) }
}

/// A queue pair without a stream.
struct TcpOpening {
    queues: Queues,
    rnr_retry: u8,
    end: End,
}

/// How a queue pair gets its stream.
enum End {
    Dialer { wire: Arc<dyn Wire>, address: String },
    Acceptor(Door),
}

impl Opening for TcpOpening {
    /// Returns the acceptor's token; nothing from a dialler.
    fn offer(&self) -> Vec<u8> {
        match &self.end {
            End::Dialer { .. } => Vec::new(),
            End::Acceptor(door) => door.token().to_le_bytes().to_vec(),
        }
    }

    fn post_recv(&mut self, slots: &mut Vec<Slot>) -> Result<(), PostError> {
        self.queues.post_recv(slots)
    }

    fn connect(
        self: Box<Self>,
        peer: Vec<u8>,
        _way: usize,
    ) -> BoxFuture<'static, Result<Box<dyn QueuePair>, FabricError>> {
        async move {
            let stream = self.end.connect(peer).await?;
            let queue_pair = TcpQueuePair::new(self.queues, stream, self.rnr_retry);
            Ok(Box::new(queue_pair) as Box<dyn QueuePair>)
        }
        .boxed()
    }
}

impl End {
    async fn connect(self, peer: Vec<u8>) -> Result<TcpStream, FabricError> {
        match self {
            End::Dialer { wire, address } => {
                let token = <[u8; 16]>::try_from(peer)
                    .map_err(|_| FabricError::Offer("an acceptor offers a token of 16 bytes"))?;
                dial(wire, address, token).await.map_err(FabricError::Connect)
            }
            End::Acceptor(_) if !peer.is_empty() => {
                Err(FabricError::Offer("a dialler offers nothing: do both sides accept?"))
            }
            End::Acceptor(door) => {
                let same = || io::Error::other("another queue pair has the same token");
                let admitted = door.admitted().await.ok_or_else(same);
                admitted.and_then(TcpStream::from_std).map_err(FabricError::Connect)
            }
        }
    }
}

/// Makes the data connection and says whose it is.
async fn dial(wire: Arc<dyn Wire>, address: String, token: [u8; 16]) -> io::Result<TcpStream> {
    let stream = wire.dial(address).await?;
    let mut stream = stream.into_tcp().ok_or_else(|| {
        io::Error::new(io::ErrorKind::Unsupported, "the wire makes no TCP connections")
    })?;
    step!(DataDialled);
    let preface = [&Preface::Data.encode()[..], &token].concat();
    stream.write_all(&preface).await?;
    step!(TokenSent);
    Ok(stream)
}
