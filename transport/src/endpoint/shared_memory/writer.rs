//! Writes to shared memory that are not each made sure of, but all together at the end.

use std::fmt;
use std::ops::{Deref, DerefMut};

use super::transfer::{Transfer, follow};
use super::{AccessError, SharedMemory, check, check_place};
use crate::fabric::one_sided::Kind;
use crate::limits::FETCH_FROM;
use crate::reach::{Drafted, NotStored, Unfenced};

/// A writer to shared memory, of one write after the other. Its writes are visible to all once
/// [`flush`](Self::flush) has returned; operations that this node begins on the memory later see
/// them at once (PV-14).
///
/// After [`AccessError::Unknown`], any write since the last flush may be missing, and the writer
/// starts afresh.
pub struct SharedWriter {
    memory: SharedMemory,
    /// Those since the last flush that are not made sure of (RE-8).
    unfenced: Option<Unfenced>,
}

/// Bytes that are to be written to another node's memory, where a device takes them from: at a
/// multiple of 16. The memory is kept for the next ones when this is dropped.
pub struct Draft(Drafted);

impl SharedMemory {
    /// Returns memory in which to prepare a write of `bytes` bytes: no task copies them. It has
    /// zeros in it, or earlier bytes. Returns `None` where there is no room for it, or where it
    /// would take longer than [`write`](Self::write) does.
    ///
    /// # Errors
    /// [`AccessError`], where a write would fail, too; [`OutOfRange`](AccessError::OutOfRange)
    /// where the share has fewer bytes.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn draft(&self, bytes: usize) -> Result<Option<Draft>, AccessError> {
        if let Some((piece, _holder)) = self.open_here()? {
            check_place(piece.bytes, Kind::Write, 0, bytes)?;
            return Ok(None);
        }
        if bytes < FETCH_FROM {
            return Ok(None);
        }
        let ready = self.ready(false).await?;
        check_place(ready.terms.bytes, Kind::Write, 0, bytes)?;
        Ok(ready.draft(bytes).await.map(Draft))
    }
}

impl SharedWriter {
    pub(super) fn new(memory: SharedMemory) -> Self {
        SharedWriter { memory, unfenced: None }
    }

    /// Returns the memory that it writes to.
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    /// Writes the bytes from `at` on.
    ///
    /// # Errors
    /// [`AccessError`].
    ///
    /// # Cancel safety
    /// When the future is dropped some of it may be written: before the next flush has returned.
    pub async fn write(&mut self, at: u64, from: &[u8]) -> Result<(), AccessError> {
        if self.memory.is_here() {
            return self.memory.write_here(&[(at, from)]);
        }
        let transfer = Transfer::write(&[(at, from)], false);
        let written = self.memory.transfer(transfer, &mut self.unfenced);
        written.await.inspect_err(|error| self.note(error))
    }

    /// Writes a draft to the bytes from `at` on.
    ///
    /// # Errors
    /// [`AccessError`].
    ///
    /// # Cancel safety
    /// The same as for [`write`](Self::write).
    pub async fn write_draft(&mut self, at: u64, draft: Draft) -> Result<(), AccessError> {
        if self.memory.is_here() {
            return self.memory.write_here(&[(at, &draft)]);
        }
        let ready = self.memory.ready(false).await?;
        check(&ready.terms, Kind::Write, at, draft.len())?;
        let follows = follow(&mut self.unfenced, &ready)?;
        let has_fence = ready.fence().is_some();
        match ready.store(at, draft.0).await {
            Ok(()) => {
                self.unfenced.take_if(|_| !has_fence);
                Ok(())
            }
            Err(NotStored::Rest(draft, done)) => {
                self.unfenced.take_if(|_| if done == 0 { !follows } else { !has_fence });
                let rest = self.write(at + done as u64, &draft[done..]).await;
                let ended = rest.map_err(|error| error.after(done > 0));
                ended.inspect_err(|error| self.note(error))
            }
            Err(NotStored::Unknown) => {
                self.unfenced = None;
                Err(AccessError::Unknown)
            }
        }
    }

    /// Waits until all is there that it has written.
    ///
    /// # Errors
    /// [`AccessError::Unknown`].
    ///
    /// # Cancel safety
    /// May be dropped: the next call makes sure of the remaining writes.
    pub async fn flush(&mut self) -> Result<(), AccessError> {
        if self.unfenced.is_none() {
            return Ok(());
        }
        let flushed =
            self.memory.transfer(Transfer::write(&[(0, &[])], true), &mut self.unfenced).await;
        flushed.map_err(|_| {
            self.unfenced = None;
            AccessError::Unknown
        })
    }

    fn note(&mut self, error: &AccessError) {
        self.unfenced.take_if(|_| *error == AccessError::Unknown);
    }
}

impl Deref for Draft {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Draft {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Draft({} bytes)", self.len())
    }
}
