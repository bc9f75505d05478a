//! Memory that this node shares, as its own tasks use it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{AccessError, Place, SharedMemory, check_access, check_place};
use crate::entropy::Entropy;
use crate::fabric::one_sided::{Access, Kind};
use crate::id::ShareId;
use crate::memory::{OutOfRange, Words};
use crate::shares::{Holder, Piece, Share, Shares, Term};

/// The shares of a node.
pub struct LocalShares(pub(in crate::endpoint) Arc<Shares>);

impl LocalShares {
    /// Returns the set of a node without a network, which shares with its own tasks.
    pub fn new(entropy: Entropy) -> Self {
        LocalShares(Shares::new(entropy))
    }

    /// Shares `bytes` bytes of `memory` from `at` on, a multiple of 8, with all tasks that learn
    /// the number of the share, until that is dropped. A `term` makes it a lease, which
    /// [`Share::expire`] ends.
    ///
    /// # Errors
    /// [`OutOfRange`]: that does not lie in the memory.
    pub fn share(
        &self,
        memory: &Arc<Words>,
        (at, bytes): (u64, u64),
        access: Access,
        term: Option<Term>,
    ) -> Result<Share, OutOfRange> {
        self.0.lease(memory, (at, bytes), access, term)
    }

    /// Returns memory that this node shares, in this run or in an earlier one, of which nothing is
    /// left.
    pub fn memory(&self, is_of_this_run: bool, share: ShareId) -> SharedMemory {
        let here = || SharedMemory::here(self.0.clone(), share);
        if is_of_this_run { here() } else { SharedMemory { place: Place::Gone, share } }
    }
}

impl SharedMemory {
    /// Begins the time of a lease of this node again.
    ///
    /// # Errors
    /// [`AccessError::NotShared`], and [`AccessError::NoAccess`] if it cannot be renewed.
    pub fn renew(&self) -> Result<(), AccessError> {
        let Place::Here(shares) = &self.place else { return Err(AccessError::OtherRun) };
        if shares.renew(self.share)? { Ok(()) } else { Err(AccessError::NoAccess("renew")) }
    }

    pub(super) fn write_here(&self, parts: &[(u64, &[u8])]) -> Result<(), AccessError> {
        let (piece, _holder) = self.open_here()?.ok_or(AccessError::OtherRun)?;
        for (at, from) in parts {
            check_here(&piece, Kind::Write, *at, from.len())?;
        }
        let mut written = parts.iter().map(|(at, from)| piece.memory.write(piece.at + at, from));
        Ok(written.try_for_each(|written| written)?)
    }

    /// Returns the memory, if it is of this node.
    pub(super) fn open_here(&self) -> Result<Option<(Piece, Holder)>, AccessError> {
        let Place::Here(shares) = &self.place else { return Ok(None) };
        Ok(Some(shares.open(self.share)?))
    }
}

/// Does an atomic operation on memory of this node.
pub(super) fn act_here(piece: &Piece, kind: Kind, at: u64) -> Result<u64, AccessError> {
    check_here(piece, kind, at, 8)?;
    let word = piece.memory.word(piece.at + at)?;
    let (done, failed) = (Ordering::AcqRel, Ordering::Acquire);
    Ok(match kind {
        Kind::FetchAdd(n) => word.fetch_add(n, done),
        Kind::CompareAndSwap { expected, new } => {
            let (Ok(old) | Err(old)) = word.compare_exchange(expected, new, done, failed);
            old
        }
        Kind::Read | Kind::Write | Kind::WriteAndNotify(_) => word.load(failed),
    })
}

/// Checks an operation of this node against the access and the bytes of the share.
pub(super) fn check_here(
    piece: &Piece,
    kind: Kind,
    at: u64,
    bytes: usize,
) -> Result<(), AccessError> {
    check_access(piece.access, kind)?;
    check_place(piece.bytes, kind, at, bytes)
}
