//! The direction of a stream that reads.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};

use super::{ITEM_COST, WINDOW};
use crate::connection::Parts;
use crate::end::{EndCause, StreamError};
use crate::frame::{Chunk, Received};
use crate::notices::Notice;

/// The peer gets a report each time that the read bytes and messages cost this much of the window.
const REPORT_COST: u64 = WINDOW / 4;

/// The direction of a stream that reads, made by [`Stream::into_split`](super::Stream::into_split).
/// Dropped, what the peer writes fails.
pub struct ReadHalf {
    parts: Arc<Parts<Chunk, Chunk>>,
    chunk: Option<Received<Chunk>>,
    /// The number of bytes of the chunk that are read.
    at: usize,
    /// The cost of the bytes and messages that were read since the last report.
    unreported: u64,
}

impl ReadHalf {
    pub(super) fn new(parts: Arc<Parts<Chunk, Chunk>>) -> Self {
        ReadHalf { parts, chunk: None, at: 0, unreported: 0 }
    }

    /// Returns the bytes that can be read without waiting.
    pub(crate) fn buffer(&self) -> &[u8] {
        self.chunk.as_ref().map_or(&[], |chunk| &chunk.0[self.at..])
    }

    /// Reports to the peer how much is read: now, or when there is room or a link.
    fn report(&mut self) {
        self.unreported = 0;
        let Ok(peer) = self.parts.outgoing.peer() else { return };
        let told = self.parts.frame_of(Notice::Read).map(|report| peer.try_tell(report));
        if let Some(Err(_)) = told {
            self.parts.notices.post_read();
        }
    }
}

impl AsyncBufRead for ReadHalf {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        if this.chunk.is_none() {
            match ready!(this.parts.incoming.poll_take(cx)) {
                Ok(chunk) => (this.chunk, this.at) = (Some(chunk), 0),
                Err(EndCause::Closed) => {}
                Err(cause) => {
                    let (read_by_peer, _) = this.parts.outgoing.read();
                    return Poll::Ready(Err(StreamError { cause, read_by_peer }.into()));
                }
            }
        }
        Poll::Ready(Ok(this.buffer()))
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
        let wants_report = this.parts.incoming.note_read(count as u64, u64::from(is_done));
        this.unreported += count as u64 + if is_done { ITEM_COST } else { 0 };
        if wants_report || this.unreported >= REPORT_COST {
            this.report();
        }
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
