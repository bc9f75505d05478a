//! The direction of a stream that reads.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::FutureExt;
use futures::future::BoxFuture;
use ringpost::region::RemoteRegion;
use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};

use super::{ITEM_COST, WINDOW};
use crate::connection::Parts;
use crate::end::{EndCause, StreamError};
use crate::frame::{ArchivedChunk, Chunk, Frame, Received};
use crate::notices::Notice;

/// The peer gets a report each time that the read bytes and messages cost this much of the window.
const REPORT_COST: u64 = WINDOW / 4;
/// Bytes lie in memory that this end gave for none, or for fewer.
pub(super) const UNASKED: &str = "more bytes were placed than there was memory for";

/// The direction of a stream that reads, made by [`Stream::into_split`](super::Stream::into_split).
/// Dropped, what the peer writes fails.
pub struct ReadHalf {
    pub(super) parts: Arc<Parts<Chunk, Chunk>>,
    chunk: Option<Received<Chunk>>,
    /// The number of bytes of the chunk that are read.
    at: usize,
    /// The cost of the bytes and messages that were read since the last report.
    unreported: u64,
    /// The answer to an offer, on its way to the peer.
    answering: Option<BoxFuture<'static, ()>>,
}

/// The next part of the stream.
pub(super) enum Part {
    /// Bytes, in the [buffer](ReadHalf::buffer).
    Bytes,
    /// An offer of `bytes` bytes. Its item has this number.
    Offer {
        number: u64,
        bytes: u64,
    },
    /// So many bytes were written to memory that the peer was given.
    Placed(u64),
    End,
}

impl ReadHalf {
    pub(super) fn new(parts: Arc<Parts<Chunk, Chunk>>) -> Self {
        ReadHalf { parts, chunk: None, at: 0, unreported: 0, answering: None }
    }

    /// Returns the bytes that can be read without waiting.
    pub(crate) fn buffer(&self) -> &[u8] {
        match self.chunk.as_deref() {
            Some(ArchivedChunk::Bytes(bytes)) => &bytes[self.at..],
            _ => &[],
        }
    }

    /// Waits for the next part.
    pub(super) fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Part>> {
        self.answering.take_if(|answering| answering.poll_unpin(cx).is_ready());
        if self.chunk.is_some() {
            return Poll::Ready(Ok(Part::Bytes));
        }
        let chunk = match ready!(self.parts.incoming.poll_take(cx)) {
            Ok(chunk) => chunk,
            Err(EndCause::Closed) => return Poll::Ready(Ok(Part::End)),
            Err(cause) => return Poll::Ready(Err(self.error(cause))),
        };
        Poll::Ready(Ok(match &*chunk {
            ArchivedChunk::Bytes(_) => {
                (self.chunk, self.at) = (Some(chunk), 0);
                Part::Bytes
            }
            ArchivedChunk::Offer(bytes) => {
                let (number, bytes) = (chunk.number(), bytes.to_native());
                self.note_read(0, true);
                Part::Offer { number, bytes }
            }
            ArchivedChunk::Placed(bytes) => Part::Placed(bytes.to_native()),
        }))
    }

    /// Begins to answer an offer: when the peer is told is up to the next poll.
    pub(super) fn answer(&mut self, number: u64, memory: Option<RemoteRegion<u8>>) {
        let Ok(peer) = self.parts.outgoing.peer() else { return };
        let peer = peer.clone();
        // Where it cannot be sent the connection ends, or the writer does not wait for it.
        let told = async move { drop(peer.tell(Frame::Answer { number, memory }).await) };
        self.answering = Some(told.boxed());
    }

    /// Ends the stream, since its peer broke the protocol.
    pub(super) fn violation(&mut self, why: &'static str) -> io::Error {
        let cause = EndCause::Violation(why);
        self.parts.discard(cause.clone());
        self.error(cause)
    }

    fn error(&self, cause: EndCause) -> io::Error {
        let (read_by_peer, _) = self.parts.outgoing.read();
        StreamError { cause, read_by_peer }.into()
    }

    /// Counts bytes that the program has read, and their message if it has read all of that.
    pub(super) fn note_read(&mut self, bytes: u64, is_done: bool) {
        let wants_report = self.parts.incoming.note_read(bytes, u64::from(is_done));
        self.unreported += bytes + if is_done { ITEM_COST } else { 0 };
        if wants_report || self.unreported >= REPORT_COST {
            self.report();
        }
    }

    /// Reports to the peer how much is read: now, or when there is room or a link.
    fn report(&mut self) {
        self.unreported = 0;
        let Ok(peer) = self.parts.outgoing.peer() else { return };
        if let Some(report) = self.parts.frame_of(Notice::Read)
            && peer.try_tell(report).is_err()
        {
            self.parts.notices.post_read();
        }
    }
}

impl AsyncBufRead for ReadHalf {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        loop {
            match ready!(this.poll_part(cx))? {
                Part::Bytes | Part::End => return Poll::Ready(Ok(this.buffer())),
                Part::Offer { number, .. } => this.answer(number, None),
                Part::Placed(_) => return Poll::Ready(Err(this.violation(UNASKED))),
            }
        }
    }

    fn consume(self: Pin<&mut Self>, count: usize) {
        let this = self.get_mut();
        let rest = this.buffer().len();
        assert!(count <= rest, "{count} bytes are consumed of {rest}");
        if count == 0 {
            return;
        }
        this.at += count;
        let is_done = count == rest;
        if is_done {
            this.chunk = None;
        }
        this.note_read(count as u64, is_done);
    }
}

impl AsyncRead for ReadHalf {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let ready = ready!(self.as_mut().poll_fill_buf(cx))?;
        let count = ready.len().min(buf.remaining());
        buf.put_slice(&ready[..count]);
        self.consume(count);
        Poll::Ready(Ok(()))
    }
}

impl Drop for ReadHalf {
    fn drop(&mut self) {
        let (is_open, is_unread) = self.parts.incoming.close();
        if self.unreported > 0 {
            self.parts.notices.post_read();
        }
        self.parts.notices.leave_reader(is_open, is_unread || self.chunk.is_some());
    }
}
