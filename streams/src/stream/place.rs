//! Bytes that the writer puts into memory of the reader.
//!
//! The writer offers bytes, by an item of the stream. The reader answers with memory, or that they
//! are to be sent. In memory, the next item says how many lie there. Whatever else comes next, the
//! reader has taken its memory back before it looks at it: so the writer may give up at any time.

use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use ringpost::region::{Access, Region, RegionError, RemoteRegion};
use tokio::io::{AsyncBufRead, AsyncWriteExt};

use super::read::{Part, ReadHalf, UNASKED};
use super::write::WriteHalf;
use super::{CHUNK_MAX, WINDOW};
use crate::connection::Parts;
use crate::end::EndCause;
use crate::frame::Chunk;

/// Bytes from which [`WriteHalf::write_from`] offers to write them to the reader's memory: fewer
/// are sent sooner than a peer answers.
pub const PLACED_FROM: usize = 64 << 10;
/// Bytes that are read from the writer's region at a time.
const PIECE: usize = 1 << 20;

/// Memory that the peer may write to. Dropped, a stream ends whose bytes it may have.
struct Lent<'a> {
    region: &'a Region<u8>,
    shared: RemoteRegion<u8>,
    len: usize,
    parts: Arc<Parts<Chunk, Chunk>>,
    is_back: bool,
}

impl Lent<'_> {
    async fn take_back(mut self) {
        self.region.revoke(&self.shared).await;
        self.is_back = true;
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if !self.is_back {
            drop(self.region.revoke(&self.shared));
            self.parts.discard(EndCause::Abandoned);
        }
    }
}

impl ReadHalf {
    /// Reads bytes into these elements of a region: one at least, and as many as come at a time.
    /// Returns how many; 0 at the end of the stream, and where the range is empty.
    ///
    /// Where the peer writes them by [`write_from`](WriteHalf::write_from), it writes them to this
    /// memory itself, over RDMA without a copy on this side. The peer has access to the range until
    /// this returns, and to nothing else. The range has to begin at a multiple of 8 bytes for that.
    ///
    /// # Errors
    /// `InvalidInput` with a [`RegionError`] where the range does not lie in the region. And those
    /// of a read.
    ///
    /// # Cancel safety
    /// When the future is dropped while the peer writes to the region, the stream ends with an
    /// error on both sides. The peer may write to the range until [`Region::revoke_all`] returns.
    pub async fn read_into(
        &mut self,
        region: &Region<u8>,
        range: Range<usize>,
    ) -> io::Result<usize> {
        region.slice(range.clone()).map_err(invalid)?;
        if range.is_empty() {
            return Ok(0);
        }
        let mut lent: Option<Lent<'_>> = None;
        loop {
            let part = poll_fn(|cx| self.poll_part(cx)).await;
            let room = lent.as_ref().map_or(0, |lent| lent.len);
            if let Some(lent) = lent.take() {
                lent.take_back().await;
            }
            match part? {
                Part::End => return Ok(0),
                Part::Placed(bytes) if bytes <= room as u64 => {
                    self.note_read(bytes, true);
                    return Ok(bytes as usize);
                }
                Part::Placed(_) => return Err(self.violation(UNASKED)),
                Part::Bytes => {
                    let bytes = self.buffer();
                    let count = bytes.len().min(range.len());
                    region.write(range.start, &bytes[..count]).map_err(invalid)?;
                    std::pin::Pin::new(self).consume(count);
                    return Ok(count);
                }
                Part::Offer { number, bytes } => {
                    let len = range.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
                    let shared = region.share_range(range.start..range.start + len, Access::WRITE);
                    self.answer(number, shared.as_ref().ok().cloned());
                    let parts = self.parts.clone();
                    lent = shared.ok().map(|shared| Lent {
                        region,
                        shared,
                        len,
                        parts,
                        is_back: false,
                    });
                }
            }
        }
    }
}

impl WriteHalf {
    /// Writes these elements of a region, all of them. From [`PLACED_FROM`] bytes on the peer is
    /// asked where its program wants them, and this waits until its program reads: if it reads by
    /// [`read_into`](ReadHalf::read_into), they are written to its memory, over RDMA without a copy
    /// on its side, and otherwise sent as by `write_all`. So two programs that both write in this
    /// way before they read wait forever.
    ///
    /// # Errors
    /// `InvalidInput` with a [`RegionError`] where the range does not lie in the region. And those
    /// of a write.
    ///
    /// # Cancel safety
    /// When the future is dropped a part of the bytes may be written, as with `write_all`.
    pub async fn write_from(&mut self, region: &Region<u8>, range: Range<usize>) -> io::Result<()> {
        region.slice(range.clone()).map_err(invalid)?;
        let mut rest = range;
        while !rest.is_empty() {
            rest.start += match rest.len() < PLACED_FROM {
                true => self.copy(region, rest.clone()).await?,
                false => self.place(region, rest.clone()).await?,
            };
        }
        Ok(())
    }

    /// Offers bytes, and writes as many as the peer has memory for, or sends some. Returns how
    /// many.
    async fn place(&mut self, region: &Region<u8>, range: Range<usize>) -> io::Result<usize> {
        let bytes = range.len() as u64;
        poll_fn(|cx| self.poll_chunk(0, &|_| Chunk::Offer(bytes), cx)).await?;
        let answer = poll_fn(|cx| self.parts.outgoing.poll_answer(cx)).await;
        let Some(memory) = answer.map_err(|cause| self.error(cause))? else {
            let end = range.end.min(range.start + WINDOW as usize);
            return self.copy(region, range.start..end).await;
        };
        let len = memory.len().min(range.len());
        let range = range.start..range.start + len;
        if write(&memory, region, range.clone()).await.is_err() {
            // Nothing of it counts: the reader takes its memory back when it gets bytes.
            return self.copy(region, range).await;
        }
        poll_fn(|cx| self.poll_chunk(0, &|_| Chunk::Placed(len as u64), cx)).await?;
        Ok(len)
    }

    /// Sends bytes.
    async fn copy(&mut self, region: &Region<u8>, range: Range<usize>) -> io::Result<usize> {
        let mut piece = Vec::new();
        for start in range.clone().step_by(CHUNK_MAX) {
            piece.resize(CHUNK_MAX.min(range.end - start), 0);
            region.read_into(start..start + piece.len(), &mut piece).map_err(invalid)?;
            self.write_all(&piece).await?;
        }
        Ok(range.len())
    }
}

/// Writes these elements to the first ones of the memory. They are there when this returns.
async fn write(
    memory: &RemoteRegion<u8>,
    region: &Region<u8>,
    range: Range<usize>,
) -> Result<(), RegionError> {
    let mut writer = memory.writer();
    for start in range.clone().step_by(PIECE) {
        let mut draft = writer.draft(PIECE.min(range.end - start)).await?;
        region.read_into(start..start + draft.len(), &mut draft)?;
        writer.write_draft(start - range.start, draft).await?;
    }
    writer.flush().await
}

fn invalid(error: RegionError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}
