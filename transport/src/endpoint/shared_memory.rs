//! Memory that a node shares, as tasks of other nodes use it.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::oneshot;
use tokio::task::yield_now;

use crate::cause::{NodeDown, NodeDownCause};
use crate::fabric::Status;
use crate::fabric::one_sided::{Access, Kind};
use crate::id::Incarnation;
use crate::id::ShareId;
use crate::link::LinkHandle;
use crate::memory::OutOfRange;
use crate::mesh::Peer;
use crate::reach::{Finished, NotPosted, Ready, Unready};
use crate::shares::{Holder, Piece as SharedPiece, Shares};

/// Times that a read is begun, where the link is lost meanwhile.
const READS_MAX: u32 = 4;

/// Memory that a node shares: tasks read and write it without a task of that node.
///
/// A word, 8 bytes from a multiple of 8 on, never tears. Of longer pieces a reader may find some
/// words from before a write, and others from after it.
#[derive(Clone)]
pub struct SharedMemory {
    place: Place,
    share: ShareId,
}

#[derive(Clone)]
enum Place {
    Here(Arc<Shares>),
    There(Arc<Peer>, Incarnation),
}

/// The reason for which shared memory was not read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// It is not in the share. Nothing was done.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// An atomic operation acts on the 8 bytes from a multiple of 8 on. Nothing was done.
    #[error("byte {0} is not the first one of a word: it has to be a multiple of 8")]
    Unaligned(u64),
    /// The share does not allow it. Nothing was done.
    #[error("the share does not allow to {0}")]
    NoAccess(&'static str),
    /// There is no such share on that node, or not any more. A write that was under way may have
    /// been done in part.
    #[error("the memory is not shared, or not any more")]
    NotShared,
    /// The node is down: nothing was done.
    #[error("the node is down: {0}")]
    NodeDown(NodeDown),
    /// The link was lost: the operation may have been done, or a part of it.
    #[error("the link was lost: the operation may have been done, or a part of it")]
    Unknown,
    /// The fabric gives no queue pair for it. Nothing was done.
    #[error("no queue pair for one-sided access: {0}")]
    Unable(String),
}

impl AccessError {
    /// Returns the error of an operation of which so many bytes were moved before.
    fn after(self, done: usize) -> Self {
        match self {
            AccessError::NodeDown(_) | AccessError::Unable(_) if done > 0 => AccessError::Unknown,
            error => error,
        }
    }
}

/// The operation was not, or not wholly, done on a queue pair.
enum Unfinished {
    NotBegun,
    Unknown,
    Failed(AccessError),
}

impl From<NotPosted> for Unfinished {
    fn from(why: NotPosted) -> Self {
        match why {
            NotPosted::NotBegun => Unfinished::NotBegun,
            NotPosted::Refused(why) => Unfinished::Failed(AccessError::Unable(why)),
        }
    }
}

/// The bytes of an operation.
enum Bytes<'a> {
    Into(&'a mut [u8]),
    From(&'a [u8]),
}

impl SharedMemory {
    pub(crate) fn here(shares: Arc<Shares>, share: ShareId) -> Self {
        SharedMemory { place: Place::Here(shares), share }
    }

    pub(crate) fn there(peer: Arc<Peer>, incarnation: Incarnation, share: ShareId) -> Self {
        SharedMemory { place: Place::There(peer, incarnation), share }
    }

    /// Reads the bytes from `at` on.
    ///
    /// # Errors
    /// [`AccessError`]; what is in `into` then means nothing.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn read(&self, at: u64, into: &mut [u8]) -> Result<(), AccessError> {
        let Some(here) = self.open_here()? else {
            for _ in 1..READS_MAX {
                match self.transfer(at, Bytes::Into(into)).await {
                    Err(AccessError::Unknown) => {}
                    ended => return ended,
                }
            }
            return self.transfer(at, Bytes::Into(into)).await;
        };
        let (piece, _holder) = here;
        check(piece.bytes, piece.access, Kind::Read, at, into.len())?;
        Ok(piece.memory.read(piece.at + at, into)?)
    }

    /// Writes the bytes from `at` on. They are there when this returns.
    ///
    /// # Errors
    /// [`AccessError`].
    ///
    /// # Cancel safety
    /// When the future is dropped some of it may be written, now or later; nothing else is.
    pub async fn write(&self, at: u64, from: &[u8]) -> Result<(), AccessError> {
        let Some((piece, _holder)) = self.open_here()? else {
            return self.transfer(at, Bytes::From(from)).await;
        };
        check(piece.bytes, piece.access, Kind::Write, at, from.len())?;
        Ok(piece.memory.write(piece.at + at, from)?)
    }

    /// Adds `n` to the word that begins at `at`, which wraps around. Returns what it was.
    ///
    /// # Errors
    /// [`AccessError`].
    ///
    /// # Cancel safety
    /// When the future is dropped it may be done, now or later.
    pub async fn fetch_add(&self, at: u64, n: u64) -> Result<u64, AccessError> {
        self.atomic(at, Kind::FetchAdd(n)).await
    }

    /// Writes `new` to the word that begins at `at` if it is `expected`. Returns what it was.
    ///
    /// # Errors
    /// [`AccessError`].
    ///
    /// # Cancel safety
    /// As of [`fetch_add`](Self::fetch_add).
    pub async fn compare_and_swap(
        &self,
        at: u64,
        expected: u64,
        new: u64,
    ) -> Result<u64, AccessError> {
        self.atomic(at, Kind::CompareAndSwap { expected, new }).await
    }

    /// Returns the memory, if it is of this node.
    fn open_here(&self) -> Result<Option<(SharedPiece, Holder)>, AccessError> {
        let Place::Here(shares) = &self.place else { return Ok(None) };
        shares.open(self.share).map(Some).ok_or(AccessError::NotShared)
    }

    async fn atomic(&self, at: u64, kind: Kind) -> Result<u64, AccessError> {
        if let Some((piece, _holder)) = self.open_here()? {
            check(piece.bytes, piece.access, kind, at, 8)?;
            let word = piece.memory.word(piece.at + at)?;
            return Ok(match kind {
                Kind::FetchAdd(n) => word.fetch_add(n, Ordering::AcqRel),
                Kind::CompareAndSwap { expected, new } => {
                    let order = (Ordering::AcqRel, Ordering::Acquire);
                    word.compare_exchange(expected, new, order.0, order.1).unwrap_or_else(|old| old)
                }
                Kind::Read | Kind::Write | Kind::WriteAndNotify(_) => word.load(Ordering::Acquire),
            });
        }
        loop {
            let ready = self.ready().await?;
            check(ready.bytes, ready.access, kind, at, 8)?;
            let act = async {
                let finished = ready.post(kind, at, 8, ready.piece().await?)?;
                let brought = completed(finished).await?;
                let word = brought.try_into().map_err(|_| Unfinished::Unknown)?;
                Ok(u64::from_ne_bytes(word))
            };
            match act.await {
                Ok(old) => return Ok(old),
                Err(Unfinished::NotBegun) => {}
                Err(Unfinished::Unknown) => return Err(AccessError::Unknown),
                Err(Unfinished::Failed(error)) => return Err(error),
            }
        }
    }

    /// Moves bytes in as many operations as it takes, over one queue pair after the other.
    async fn transfer(&self, at: u64, mut bytes: Bytes<'_>) -> Result<(), AccessError> {
        let mut done = 0;
        loop {
            let ready = self.ready().await.map_err(|error| error.after(done))?;
            check(ready.bytes, ready.access, bytes.kind(), at, bytes.len())?;
            match bytes.transfer(&ready, at, &mut done).await {
                Ok(()) => return Ok(()),
                Err(Unfinished::NotBegun) => {}
                Err(Unfinished::Unknown) => return Err(AccessError::Unknown),
                Err(Unfinished::Failed(error)) => return Err(error.after(done)),
            }
        }
    }

    /// Returns the share as it is reached now, over a link that is made if there is none.
    async fn ready(&self) -> Result<Ready, AccessError> {
        let Place::There(peer, incarnation) = &self.place else {
            return Err(AccessError::NotShared);
        };
        loop {
            let link = link(peer).await.map_err(AccessError::NodeDown)?;
            if link.peer().incarnation != *incarnation {
                let down = NodeDown { cause: NodeDownCause::Restarted, down_ms: 0 };
                return Err(AccessError::NodeDown(down));
            }
            match link.reach().access(self.share).await {
                Ok(ready) => return Ok(ready),
                // The session is about to give the link up.
                Err(Unready::Ended) => yield_now().await,
                Err(Unready::Denied) => return Err(AccessError::NotShared),
                Err(Unready::Unable(why)) => return Err(AccessError::Unable(why)),
            }
        }
    }
}

/// A place among the senders that wait for a link to a peer.
struct Ticket<'a>(&'a Peer, Option<u64>);

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.1 {
            self.0.forget(ticket);
        }
    }
}

/// Returns the link to a peer, which is made if there is none.
async fn link(peer: &Peer) -> Result<Arc<LinkHandle>, NodeDown> {
    let mut ticket = Ticket(peer, None);
    poll_fn(|cx| peer.poll_link(&mut ticket.1, false, cx)).await
}

/// Checks an operation against what is shared.
fn check(
    shared: u64,
    access: Access,
    kind: Kind,
    at: u64,
    bytes: usize,
) -> Result<(), AccessError> {
    if !access.allows(kind) {
        return Err(AccessError::NoAccess(match kind {
            Kind::Read => "read",
            Kind::Write | Kind::WriteAndNotify(_) => "write",
            Kind::FetchAdd(_) | Kind::CompareAndSwap { .. } => "do what is atomic",
        }));
    }
    let end = at.saturating_add(bytes as u64);
    if end > shared || at.checked_add(bytes as u64).is_none() {
        return Err(AccessError::OutOfRange(OutOfRange { wanted: at..end, bytes: shared }));
    }
    if kind.is_atomic() && !at.is_multiple_of(8) {
        return Err(AccessError::Unaligned(at));
    }
    Ok(())
}

/// Waits for the outcome of an operation.
async fn completed(finished: oneshot::Receiver<Finished>) -> Result<Vec<u8>, Unfinished> {
    let (status, brought) = finished.await.map_err(|_| Unfinished::Unknown)?;
    match status {
        Status::Success => Ok(brought),
        // The share ended without waiting for this node.
        Status::RemoteAccess => Err(Unfinished::Failed(AccessError::NotShared)),
        _ => Err(Unfinished::Unknown),
    }
}

impl Bytes<'_> {
    fn kind(&self) -> Kind {
        match self {
            Bytes::Into(_) => Kind::Read,
            Bytes::From(_) => Kind::Write,
        }
    }

    fn len(&self) -> usize {
        match self {
            Bytes::Into(into) => into.len(),
            Bytes::From(from) => from.len(),
        }
    }

    /// Moves what follows the first `done` bytes, and counts on. Where not all of it was begun the
    /// rest is for the next queue pair. A task that has operations under way waits for those, and
    /// not for slots.
    async fn transfer(
        &mut self,
        ready: &Ready,
        at: u64,
        done: &mut usize,
    ) -> Result<(), Unfinished> {
        let (kind, bytes) = (self.kind(), self.len());
        let mut running: VecDeque<(Range<usize>, _)> = VecDeque::new();
        let (mut begun, mut refused) = (*done, None);
        loop {
            while refused.is_none() && begun < bytes {
                let piece = match ready.try_piece() {
                    Some(piece) => Ok(piece),
                    None if running.is_empty() => ready.piece().await,
                    None => break,
                };
                let posted = piece.and_then(|mut piece| {
                    // Cut between words.
                    let into_word = ((at + begun as u64) % 8) as usize;
                    let length = (bytes - begun).min(piece.bytes().len() - into_word);
                    if let Bytes::From(from) = self {
                        piece.bytes()[..length].copy_from_slice(&from[begun..begun + length]);
                    }
                    let finished = ready.post(kind, at + begun as u64, length, piece)?;
                    Ok((begun..begun + length, finished))
                });
                match posted {
                    Ok((range, finished)) => {
                        begun = range.end;
                        running.push_back((range, finished));
                    }
                    Err(why) => refused = Some(why),
                }
            }
            let Some((range, finished)) = running.pop_front() else { break };
            let brought = completed(finished).await?;
            *done = range.end;
            if let Bytes::Into(into) = self {
                into[range].copy_from_slice(&brought);
            }
        }
        refused.map_or(Ok(()), |why| Err(why.into()))
    }
}

impl fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Here(_) => f.write_str("SharedMemory(of this node)"),
            Place::There(peer, _) => write!(f, "SharedMemory(of {})", peer.name()),
        }
    }
}
