//! A TCP stream of frames, for hosts without RDMA: each queue pair is a second
//! connection beside the bootstrap connection, dialled by the side that dialled that one.
//!
//! - **TC-1 no tasks**: all reading and writing happens inside the calls of the queue pair's owner.
//! - **TC-2 sent**: a send completes when the stream has taken its last byte. What became of the
//!   frame at the peer, the protocol above says, not this fabric.
//! - **TC-3 overrun**: a frame that has no receive that it fits ends the receiving queue pair
//!   with [`Status::LocalLength`](super::Status::LocalLength): credits keep an honest peer from it.
//! - **TC-4 hostile bytes** end the queue pair with [`Status::Corrupt`](super::Status::Corrupt).
//!   Lengths are checked first, and nothing is allocated for what a peer says.
//! - **TC-5 no allocation** for a frame, unless more are under way than ever before on its queue
//!   pair: an idle one keeps little memory.
//!
//! The fabric `tcps` is the same over a sealed stream: see TC-7 in `seal`. Each end offers a
//! part of a fresh key, and before the first frame both ends prove by a Noise handshake
//! that they know it, and that they met on the same connection for the same link.

mod doors;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
mod input;
mod output;
mod prefix;
mod queue_pair;
mod queues;
mod seal;
mod stream;

#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::AsyncWriteExt;
use zeroize::Zeroizing;

use self::doors::Door;
use self::queue_pair::TcpQueuePair;
use self::queues::Queues;
use self::stream::DataStream;
use super::{
    Fabric, FabricError, Limits, Opening, PostError, Protection, QueuePair, QueuePairConfig, Side,
    Spins,
};
use crate::entropy::Entropy;
use crate::limits::{
    TCP_FRAME_BYTES_MAX, TCP_INLINE_BYTES_MAX, TCP_QUEUE_MAX, TCP_REGION_BYTES_MAX,
    TCP_TAIL_BYTES_MAX,
};
use crate::memory::{Owner, Region, Slot};
use crate::noise;
use crate::steps::step;
use crate::wire::{DataSocket, Preface, Wire};

pub use self::doors::Doors;

/// Bytes of a token.
const TOKEN_BYTES: usize = 16;
/// Bytes of the part of the key that each end of a sealed data connection offers.
const KEY_BYTES: usize = 32;

/// The tcp fabric, or tcps.
#[derive(Debug)]
pub struct TcpFabric {
    wire: Arc<dyn Wire>,
    doors: Doors,
    entropy: Entropy,
    owner: Owner,
    sealed: bool,
}

impl TcpFabric {
    /// A fabric that dials over `wire` and waits at `doors`.
    pub fn new(wire: Arc<dyn Wire>, doors: Doors, entropy: Entropy) -> Self {
        TcpFabric { wire, doors, entropy, owner: Owner::new(), sealed: false }
    }

    /// The same, with all that it carries encrypted and authenticated: `tcps`.
    pub fn sealed(wire: Arc<dyn Wire>, doors: Doors, entropy: Entropy) -> Self {
        TcpFabric { sealed: true, ..TcpFabric::new(wire, doors, entropy) }
    }

    /// Returns how a new data connection is sealed, if it is.
    fn sealing(&self, config: &QueuePairConfig) -> Option<Sealing> {
        if !self.sealed {
            return None;
        }
        let mut part = Zeroizing::new(vec![0; KEY_BYTES]);
        self.entropy.fill(&mut part);
        let prologue = [&config.binding[..], self.name().as_bytes()].concat();
        Some(Sealing { part, prologue, entropy: self.entropy.clone() })
    }
}

impl Fabric for TcpFabric {
    fn name(&self) -> &'static str {
        if self.sealed { "tcps" } else { "tcp" }
    }

    fn protection(&self) -> Protection {
        if self.sealed { Protection::Encrypted } else { Protection::None }
    }

    fn limits(&self) -> Limits {
        Limits {
            send_queue_max: TCP_QUEUE_MAX,
            recv_queue_max: TCP_QUEUE_MAX,
            frame_bytes_max: TCP_FRAME_BYTES_MAX,
            inline_bytes_max: TCP_INLINE_BYTES_MAX,
            tail_bytes_max: TCP_TAIL_BYTES_MAX,
            acknowledges: false,
            lends: false,
        }
    }

    /// Returns [`Spins::ByTurns`] on a real wire: only the runtime notices that data has arrived.
    fn spins(&self) -> Spins {
        if self.wire.is_simulated() { Spins::Never } else { Spins::ByTurns }
    }

    fn alloc(&self, bytes: usize) -> Result<Region, FabricError> {
        check("region", bytes as u64, TCP_REGION_BYTES_MAX as u64)?;
        Ok(self.owner.heap(bytes.max(1)))
    }

    fn open(&self, config: QueuePairConfig) -> Result<Box<dyn Opening>, FabricError> {
        check("send queue", config.send_queue.into(), TCP_QUEUE_MAX.into())?;
        check("receive queue", config.recv_queue.into(), TCP_QUEUE_MAX.into())?;
        check("inline size", config.inline_bytes.into(), TCP_INLINE_BYTES_MAX.into())?;
        let queues = Queues::new(&config, self.owner);
        let sealing = self.sealing(&config);
        let end = match config.side {
            Side::Dialer { address } => End::Dialer { wire: self.wire.clone(), address },
            Side::Acceptor => End::Acceptor(self.doors.expect(self.entropy.u128())),
        };
        Ok(Box::new(TcpOpening { queues, end, sealing }))
    }
}

fn check(what: &'static str, asked: u64, limit: u64) -> Result<(), FabricError> {
    if asked > limit { Err(FabricError::Limit { what, asked, limit }) } else { Ok(()) }
}

/// A queue pair without a stream.
struct TcpOpening {
    queues: Queues,
    end: End,
    sealing: Option<Sealing>,
}

/// How a queue pair gets its stream.
enum End {
    Dialer { wire: Arc<dyn Wire>, address: String },
    Acceptor(Door),
}

/// How a data connection is sealed.
struct Sealing {
    /// This end's part of the key, which the other one is offered. Each end has one, so that
    /// knowing the random bytes of one node is not knowing the key. On the heap: an array would
    /// leave a copy wherever it is moved from.
    part: Zeroizing<Vec<u8>>,
    /// The bytes that both ends know of the link, and no other link has.
    prologue: Vec<u8>,
    entropy: Entropy,
}

impl Opening for TcpOpening {
    /// Returns the acceptor's token, and the end's part of the key if the connection is to be
    /// sealed.
    fn offer(&self) -> Zeroizing<Vec<u8>> {
        let part = self.sealing.as_ref().map_or(&[][..], |sealing| &sealing.part[..]);
        // Both are allocated at their full length: a buffer that grew would leave a copy.
        Zeroizing::new(match &self.end {
            End::Dialer { .. } => part.to_vec(),
            End::Acceptor(door) => [&door.token().to_le_bytes(), part].concat(),
        })
    }

    fn post_recv(&mut self, slots: &mut Vec<Slot>) -> Result<(), PostError> {
        self.queues.post_recv(slots)
    }

    fn connect(
        self: Box<Self>,
        peer: Zeroizing<Vec<u8>>,
        _way: usize,
    ) -> BoxFuture<'static, Result<Box<dyn QueuePair>, FabricError>> {
        let TcpOpening { queues, end, sealing } = *self;
        async move {
            let stream = match sealing {
                None => DataStream::new(end.connect(&peer).await?, None),
                Some(sealing) => sealing.connect(end, &peer).await?,
            };
            let queue_pair = TcpQueuePair::new(queues, stream);
            Ok(Box::new(queue_pair) as Box<dyn QueuePair>)
        }
        .boxed()
    }
}

impl Sealing {
    /// Makes the connection and proves both ends to each other.
    async fn connect(self, end: End, peer: &[u8]) -> Result<DataStream, FabricError> {
        let Sealing { part, prologue, entropy } = self;
        let dials = matches!(end, End::Dialer { .. });
        let offered = "each end offers 32 bytes of a key, an acceptor a token of 16 before them";
        let (token, theirs) = peer
            .split_at_checked(if dials { TOKEN_BYTES } else { 0 })
            .filter(|(_, theirs)| theirs.len() == KEY_BYTES)
            .ok_or(FabricError::Offer(offered))?;
        let parts = if dials { [theirs, &part[..]] } else { [&part[..], theirs] };
        let mut stream = end.connect(token).await?;
        let noise = {
            let key = Zeroizing::new(noise::hash(&[b"ringpost tcps", parts[0], parts[1]]));
            noise::data_connection(dials, &key, &prologue, &entropy)
        };
        let seal = seal::agree(&mut *stream, noise, dials).await.map_err(FabricError::Connect)?;
        Ok(DataStream::new(stream, Some(seal)))
    }
}

impl End {
    async fn connect(self, peer: &[u8]) -> Result<Box<dyn DataSocket>, FabricError> {
        match self {
            End::Dialer { wire, address } => {
                let token = <[u8; TOKEN_BYTES]>::try_from(peer)
                    .map_err(|_| FabricError::Offer("an acceptor offers a token of 16 bytes"))?;
                dial(wire, address, token).await.map_err(FabricError::Connect)
            }
            End::Acceptor(_) if !peer.is_empty() => {
                Err(FabricError::Offer("a dialler offers nothing: do both sides accept?"))
            }
            End::Acceptor(door) => {
                let same = || io::Error::other("another queue pair has the same token");
                let admitted = door.admitted().await.ok_or_else(same);
                admitted.and_then(|stream| stream()).map_err(FabricError::Connect)
            }
        }
    }
}

/// Makes the data connection and says whose it is.
async fn dial(
    wire: Arc<dyn Wire>,
    address: String,
    token: [u8; TOKEN_BYTES],
) -> io::Result<Box<dyn DataSocket>> {
    let mut stream = wire.dial(address).await?;
    step!(DataDialled);
    let preface = [&Preface::Data.encode()[..], &token].concat();
    stream.write_all(&preface).await?;
    step!(TokenSent);
    stream.into_data()?()
}
