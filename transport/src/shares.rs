//! Memory that this node shares with its peers, and who was let in.
//!
//! - **SM-1 by its number**: memory is reached by the 128 random bits of its [`ShareId`] alone. A
//!   peer that names a share that is none, or none any more, learns only that.
//! - **SM-2 ended**: each queue pair that was granted a share is told of its end, and
//!   [`Share::end`] returns when none of them reaches the memory any more. A share ends once, when
//!   its [`Share`] is dropped at the latest.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::entropy::Entropy;
use crate::fabric::one_sided::Access;
use crate::id::ShareId;
use crate::limits::REVOKE_PATIENCE;
use crate::memory::{OutOfRange, Words};

/// Memory that this node shares until this is dropped (SM-2).
pub struct Share {
    id: ShareId,
    shares: Arc<Shares>,
    holders: watch::Receiver<usize>,
}

/// What a node shares.
pub(crate) struct Shares {
    by_id: Mutex<BTreeMap<ShareId, Shared>>,
    entropy: Entropy,
}

/// Memory that is shared.
#[derive(Clone)]
pub(crate) struct Piece {
    pub(crate) memory: Arc<Words>,
    /// Its first byte, a multiple of 8.
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    pub(crate) access: Access,
}

struct Shared {
    piece: Piece,
    /// Those that were granted it.
    granted: Vec<Weak<dyn Grantee>>,
    holders: watch::Sender<usize>,
}

/// What gives peers access to shares, and is told of their end.
pub(crate) trait Grantee: Send + Sync {
    /// This share has ended: has those let go of it that were granted it.
    fn revoke(&self, share: ShareId);

    /// Takes it back from those that have not let go of it.
    fn take_back(&self, share: ShareId);
}

/// Stands for one queue pair that reaches a share, in the share's count.
pub(crate) struct Holder(watch::Sender<usize>);

impl Holder {
    fn new(holders: &watch::Sender<usize>) -> Self {
        holders.send_modify(|count| *count += 1);
        Holder(holders.clone())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Shares {
    pub(crate) fn new(entropy: Entropy) -> Arc<Self> {
        Arc::new(Shares { by_id: Mutex::default(), entropy })
    }

    /// Shares `bytes` bytes from the byte `at` on, a multiple of 8.
    ///
    /// # Errors
    /// [`OutOfRange`].
    pub(crate) fn share(
        self: &Arc<Self>,
        memory: &Arc<Words>,
        at: u64,
        bytes: u64,
        access: Access,
    ) -> Result<Share, OutOfRange> {
        let has_place = at.checked_add(bytes).is_some_and(|end| end <= memory.bytes() as u64);
        if !has_place || !at.is_multiple_of(8) {
            let wanted = at..at.saturating_add(bytes);
            return Err(OutOfRange { wanted, bytes: memory.bytes() as u64 });
        }
        let piece = Piece { memory: memory.clone(), at, bytes, access };
        let (sender, holders) = watch::channel(0);
        let id = ShareId(self.entropy.u128());
        let shared = Shared { piece, granted: Vec::new(), holders: sender };
        self.by_id.lock().insert(id, shared);
        Ok(Share { id, shares: self.clone(), holders })
    }

    /// Returns shared memory for a use on this node, which holds the share as a peer's does.
    pub(crate) fn open(&self, id: ShareId) -> Option<(Piece, Holder)> {
        let by_id = self.by_id.lock();
        let shared = by_id.get(&id)?;
        Some((shared.piece.clone(), Holder::new(&shared.holders)))
    }

    /// Returns shared memory for a peer, by way of one that is told of the end.
    pub(crate) fn open_for(
        &self,
        id: ShareId,
        grantee: &Arc<dyn Grantee>,
    ) -> Option<(Piece, Holder)> {
        let mut by_id = self.by_id.lock();
        let shared = by_id.get_mut(&id)?;
        shared.granted.retain(|known| known.strong_count() > 0);
        let grantee = Arc::downgrade(grantee);
        if !shared.granted.iter().any(|known| known.ptr_eq(&grantee)) {
            shared.granted.push(grantee);
        }
        Some((shared.piece.clone(), Holder::new(&shared.holders)))
    }

    /// Ends a share. Returns those that were granted it, the first time.
    fn end(&self, id: ShareId) -> Vec<Weak<dyn Grantee>> {
        let ended = self.by_id.lock().remove(&id);
        let granted = ended.map(|shared| shared.granted).unwrap_or_default();
        granted.iter().filter_map(Weak::upgrade).for_each(|grantee| grantee.revoke(id));
        granted
    }
}

impl Share {
    /// Returns the number by which peers reach it.
    pub fn id(&self) -> ShareId {
        self.id
    }

    /// Ends it, and waits until no operation of any peer reaches the memory any more: that a peer
    /// says so, its link has ended, or it has not said so for a while.
    ///
    /// # Cancel safety
    /// When the future is dropped the share ends all the same.
    pub async fn end(mut self) {
        let granted = self.shares.end(self.id);
        // An error says that the last holder is gone.
        let gone = self.holders.wait_for(|count| *count == 0).map(|_| ());
        if timeout(REVOKE_PATIENCE, gone).await.is_err() {
            let late = granted.iter().filter_map(Weak::upgrade);
            late.for_each(|grantee| grantee.take_back(self.id));
            let _ = self.holders.wait_for(|count| *count == 0).await;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shares.end(self.id);
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Share")
    }
}
