//! Memory that a node shares, as tasks of other nodes use it.

mod local;
mod transfer;
mod writer;

use std::fmt;
use std::future::poll_fn;
use std::mem::replace;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::sleep;

use crate::cause::{NodeDown, NotShared};
use crate::fabric::one_sided::{Access, Kind};
use crate::id::Incarnation;
use crate::id::ShareId;
use crate::limits::FETCH_FROM;
use crate::link::LinkHandle;
use crate::memory::{OutOfRange, Words};
use crate::mesh::Peer;
use crate::reach::{Act, Ready, Terms, Unfenced, Unready, Viewed, Wanted};
use crate::shares::{NotDone, Shares};

pub use local::LocalShares;
use local::{act_here, check_here};
#[cfg(test)]
pub(crate) use transfer::take_left;
use transfer::{Transfer, Unfinished, completed, follow};
pub use writer::{Draft, SharedWriter};

/// Pause until a link is looked at again that leads to another run of the node and is about to end.
const RUN_PAUSE: Duration = Duration::from_millis(10);
/// Times that a read is begun, where the link is lost meanwhile.
const READS_MAX: u32 = 4;
/// The error of an atomic operation that its node has granted and refused twice.
const REFUSED: &str = "it refuses what it grants";

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
    /// It was of an earlier run of this node.
    Gone,
}

/// Bytes of another node's memory that a device has copied here. They begin as far behind a
/// multiple of 16 as they begin behind the start of a word there. The memory is kept for later
/// fetches when this is dropped.
pub struct Fetched(Viewed);

impl Deref for Fetched {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// The reason for which shared memory was not read or written.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
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
    /// There is no such share on that node, or not any more. Nothing was done.
    #[error(transparent)]
    NotShared(#[from] NotShared),
    /// The memory was of another run of its node. Nothing was done.
    #[error("the memory was of another run of its node")]
    OtherRun,
    /// The node is down. Nothing was done.
    #[error("the node is down: {0}")]
    NodeDown(NodeDown),
    /// The link was lost, or the share ended, while a write or an atomic operation was under way:
    /// it may have been done, or a part of a write. Never of a read.
    #[error(
        "the link was lost, or the share ended, while the operation was under way: it may have \
        been done, or a part of it"
    )]
    Unknown,
    /// Another device, or the processor of the memory's node, does the atomic operations on this
    /// memory, and this one would not be atomic with them. Nothing was done. The node asks those
    /// executors to let go; a retry has its turn if it comes within half a second.
    #[error(
        "what is atomic on this memory is done by another device or processor of its node, with \
         which this would not be atomic: try again when the others have ended; or have all that \
         count reach it over one device, or all over TCP; or leave it to its node"
    )]
    OtherExecutor,
    /// The node runs a version that shares no memory. Nothing was done.
    #[error("the peer cannot share memory: its version does not know how, so update it")]
    Unsupported,
    /// The link has no means of access to the memory, or a read lost its queue pair repeatedly.
    /// Nothing was done.
    #[error("the link gives no access to the memory: {0}")]
    Unable(String),
}

crate::debug_by_display!(AccessError);

impl AccessError {
    /// Returns the error of an operation of which a part `may_be_done`: all others say that nothing
    /// was.
    fn after(self, may_be_done: bool) -> Self {
        if may_be_done { AccessError::Unknown } else { self }
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
    /// [`AccessError`], never [`Unknown`](AccessError::Unknown); the bytes in `into` then mean
    /// nothing.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn read(&self, at: u64, into: &mut [u8]) -> Result<(), AccessError> {
        self.read_many(&mut [(at, into)]).await
    }

    /// Reads bytes of several places, each from its number on: as many as there is room for are
    /// asked for at once.
    ///
    /// # Errors
    /// The same as for [`read`](Self::read).
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn read_many(&self, parts: &mut [(u64, &mut [u8])]) -> Result<(), AccessError> {
        let Some((piece, _holder)) = self.open_here()? else {
            for _ in 0..READS_MAX {
                let parts = parts.iter_mut().map(|(at, into)| (*at, Bytes::Into(into)));
                match self.transfer(Transfer::read(parts.collect()), &mut None).await {
                    Err(AccessError::Unknown) => {}
                    ended => return ended,
                }
            }
            // A read does nothing: it may be begun again.
            let why = format!("it was lost {READS_MAX} times in a row while it read");
            return Err(AccessError::Unable(why));
        };
        for (at, into) in parts {
            check_here(&piece, Kind::Read, *at, into.len())?;
            piece.memory.read(piece.at + *at, into)?;
        }
        Ok(())
    }

    /// Fetches bytes, beginning at `at`, by a device: no task copies them. They are put into memory
    /// of this node that is kept for the peer's bytes. Returns `None` where there is no room, where
    /// it would take longer than [`read`](Self::read), or where the queue pair ends meanwhile: a
    /// read uses the next one.
    ///
    /// # Errors
    /// [`AccessError`], where a read would fail, too.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn fetch(&self, at: u64, bytes: usize) -> Result<Option<Fetched>, AccessError> {
        if bytes < FETCH_FROM || self.is_here() {
            return Ok(None);
        }
        let ready = self.ready(false).await?;
        check(&ready.terms, Kind::Read, at, bytes)?;
        Ok(ready.fetch(at, bytes).await.map(Fetched))
    }

    /// Writes the bytes from `at` on. They are there when this returns.
    ///
    /// # Errors
    /// [`AccessError`].
    ///
    /// # Cancel safety
    /// When the future is dropped some of it may be written, now or later; nothing else is.
    pub async fn write(&self, at: u64, from: &[u8]) -> Result<(), AccessError> {
        self.write_many(&[(at, from)]).await
    }

    /// Writes bytes to several places, each from its number on. They are there when this returns,
    /// which one fence makes sure of.
    ///
    /// # Errors
    /// The same as for [`write`](Self::write).
    ///
    /// # Cancel safety
    /// The same as for `write`.
    pub async fn write_many(&self, parts: &[(u64, &[u8])]) -> Result<(), AccessError> {
        if self.is_here() {
            return self.write_here(parts);
        }
        let is_empty = parts.iter().all(|(_, from)| from.is_empty());
        self.transfer(Transfer::write(parts, !is_empty), &mut None).await
    }

    /// Returns a writer. Its [`flush`](SharedWriter::flush) waits until its writes are in place.
    pub fn writer(&self) -> SharedWriter {
        SharedWriter::new(self.clone())
    }

    /// Adds `n` to the word that begins at `at`, wrapping around. Returns the old value.
    ///
    /// # Errors
    /// [`AccessError`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the operation may be done, now or later.
    pub async fn fetch_add(&self, at: u64, n: u64) -> Result<u64, AccessError> {
        self.atomic(at, Kind::FetchAdd(n)).await
    }

    /// Writes `new` to the word that begins at `at` if it is `expected`. Returns the old value.
    ///
    /// # Errors
    /// [`AccessError`].
    ///
    /// # Cancel safety
    /// The same as for [`fetch_add`](Self::fetch_add).
    pub async fn compare_and_swap(
        &self,
        at: u64,
        expected: u64,
        new: u64,
    ) -> Result<u64, AccessError> {
        self.atomic(at, Kind::CompareAndSwap { expected, new }).await
    }

    /// Returns the memory itself, if it is of this node and shared from its beginning.
    pub fn words(&self) -> Option<Arc<Words>> {
        let (piece, _holder) = self.open_here().ok()??;
        (piece.at == 0).then_some(piece.memory)
    }

    fn is_here(&self) -> bool {
        matches!(self.place, Place::Here(_))
    }

    async fn atomic(&self, at: u64, kind: Kind) -> Result<u64, AccessError> {
        if let Place::Here(shares) = &self.place {
            return match shares.act(self.share, |piece| act_here(piece, kind, at)) {
                Ok(done) => done,
                Err(NotDone::NotShared(why)) => Err(why.into()),
                Err(NotDone::Elsewhere) => Err(AccessError::OtherExecutor),
            };
        }
        let (mut again, mut was_refused) = (false, false);
        loop {
            let ready = self.ready(again).await?;
            if ready.terms.is_elsewhere && !replace(&mut again, true) {
                continue;
            }
            check(&ready.terms, kind, at, 8)?;
            let act = async {
                let piece = ready.piece(8).await?;
                let act = Act::On { kind, at, bytes: 8 };
                let finished = ready.post(vec![Wanted { act, piece }])?.pop();
                let came = completed(finished.ok_or(Unfinished::Unknown)?).await?;
                let word = came[..].try_into().map_err(|_| Unfinished::Unknown)?;
                Ok(u64::from_ne_bytes(word))
            };
            match act.await {
                Ok(old) => return Ok(old),
                Err(Unfinished::NotBegun) => {}
                // The next question tells why.
                Err(Unfinished::Refused) if !replace(&mut was_refused, true) => {}
                Err(Unfinished::Unknown) => return Err(AccessError::Unknown),
                Err(Unfinished::Refused) => return Err(AccessError::Unable(REFUSED.into())),
                Err(Unfinished::Failed(error)) => return Err(error),
            }
        }
    }

    /// Moves bytes in as many operations as it takes, over one queue pair after the other.
    /// `unfenced` is the queue pair that executed writes of this task that are not made sure of
    /// (RE-8); if it has ended or was replaced, the outcome of these writes is unknown.
    async fn transfer(
        &self,
        mut transfer: Transfer<'_>,
        unfenced: &mut Option<Unfenced>,
    ) -> Result<(), AccessError> {
        loop {
            let may_be_done = transfer.may_be_done();
            let ready = self.ready(false).await.map_err(|error| error.after(may_be_done))?;
            for (at, bytes) in transfer.parts() {
                let checked = check(&ready.terms, bytes.kind(), *at, bytes.len());
                checked.map_err(|error| error.after(may_be_done))?;
            }
            let follows = transfer.writes() && follow(unfenced, &ready)?;
            let (before, has_fence) = (transfer.done(), ready.fence().is_some());
            let ended = transfer.run(&ready).await;
            // Without a fence, an outcome means that all posted before is done (PV-14).
            let is_sure = match &ended {
                Ok(()) => transfer.is_fenced() || !has_fence,
                Err(Unfinished::NotBegun) if !has_fence => transfer.done() > before || !follows,
                Err(_) => !transfer.may_be_done() && !follows,
            };
            unfenced.take_if(|_| is_sure && transfer.writes());
            match ended {
                Ok(()) => return Ok(()),
                Err(Unfinished::NotBegun) => {}
                Err(Unfinished::Unknown | Unfinished::Refused) => return Err(AccessError::Unknown),
                Err(Unfinished::Failed(error)) => return Err(error.after(transfer.may_be_done())),
            }
        }
    }

    /// Returns the current access to the share, over a link that is made if there is none. With
    /// `again`, asks the node for new access, because another executor did the atomic operations.
    async fn ready(&self, again: bool) -> Result<Ready, AccessError> {
        let Place::There(peer, incarnation) = &self.place else {
            return Err(AccessError::OtherRun);
        };
        loop {
            let link = link(peer).await.map_err(AccessError::NodeDown)?;
            if link.peer().incarnation != *incarnation {
                // Of two runs of a node one lives: the linked one if it answers, and else the
                // other one is linked soon, or the node is down.
                if !peer.answers(&link).await {
                    sleep(RUN_PAUSE).await;
                    continue;
                }
                return Err(AccessError::OtherRun);
            }
            match link.reach().access(self.share, again).await {
                Ok(ready) => return Ok(ready),
                // The session is about to give the link up.
                Err(Unready::Ended) => yield_now().await,
                Err(Unready::Barred) => return Err(AccessError::Unsupported),
                Err(Unready::NotShared(why)) => return Err(why.into()),
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
    if let Some(link) = peer.link().as_ref().filter(|link| !link.has_ended()) {
        return Ok(link.clone());
    }
    let mut ticket = Ticket(peer, None);
    poll_fn(|cx| peer.poll_link(&mut ticket.1, false, cx)).await
}

/// Checks an operation against what a peer shares.
fn check(terms: &Terms, kind: Kind, at: u64, bytes: usize) -> Result<(), AccessError> {
    if kind.is_atomic() && terms.is_elsewhere {
        return Err(AccessError::OtherExecutor);
    }
    check_access(terms.access, kind)?;
    check_place(terms.bytes, kind, at, bytes)
}

fn check_access(access: Access, kind: Kind) -> Result<(), AccessError> {
    if access.allows(kind) {
        return Ok(());
    }
    Err(AccessError::NoAccess(match kind {
        Kind::Read => "read",
        Kind::Write | Kind::WriteAndNotify(_) => "write",
        Kind::FetchAdd(_) | Kind::CompareAndSwap { .. } => "do what is atomic",
    }))
}

fn check_place(shared: u64, kind: Kind, at: u64, bytes: usize) -> Result<(), AccessError> {
    let end = at.saturating_add(bytes as u64);
    if end > shared || at.checked_add(bytes as u64).is_none() {
        return Err(AccessError::OutOfRange(OutOfRange { wanted: at..end, bytes: shared }));
    }
    if kind.is_atomic() && !at.is_multiple_of(8) {
        return Err(AccessError::Unaligned(at));
    }
    Ok(())
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
}

impl fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Here(_) | Place::Gone => f.write_str("SharedMemory(of this node)"),
            Place::There(peer, _) => write!(f, "SharedMemory(of {})", peer.name()),
        }
    }
}
