//! The direction of a stream that writes.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use ringpost::send::RecipientPermit;
use ringpost::{Cause, limits};
use tokio::io::AsyncWrite;
use tokio::task::coop;

use super::{CHUNK_MAX, ITEM_COST, WINDOW};
use crate::connection::Parts;
use crate::end::{EndCause, StreamError};
use crate::frame::{Chunk, Frame};
use crate::outgoing::can_wait;

/// Bytes that fit into room that was reserved.
const RESERVED_MAX: usize = limits::PERMIT_BYTES as usize - 256;

/// Room for one message of the peer's mailbox.
type Room = RecipientPermit<Frame<Chunk>>;

/// The direction of a stream that writes, made by
/// [`Stream::into_split`](super::Stream::into_split). Dropped, the peer reads the end after the
/// last byte.
pub struct WriteHalf {
    pub(super) parts: Arc<Parts<Chunk, Chunk>>,
    /// Room that is waited for where a message could not be sent at once. (Never locked: the lock
    /// makes this `Sync`.)
    room: Mutex<Option<BoxFuture<'static, Result<Room, Cause>>>>,
    is_finished: bool,
}

/// Why a chunk was not sent.
enum Unsent {
    /// The window is full.
    Window,
    /// There is no room in the mailbox, or no link.
    Room,
    Failed(io::Error),
}

impl WriteHalf {
    pub(super) fn new(parts: Arc<Parts<Chunk, Chunk>>) -> Self {
        WriteHalf { parts, room: Mutex::new(None), is_finished: false }
    }

    /// Waits until the peer's program has read all that was written before: that it called
    /// `consume`, or that a `read` returned it.
    ///
    /// # Errors
    /// A [`StreamError`] where the connection ended before, with the number of bytes that the peer
    /// has certainly read.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn sync(&mut self) -> io::Result<()> {
        let outgoing = &self.parts.outgoing;
        let at = outgoing.sent().bytes;
        if self.read_by_peer() < at {
            outgoing.report_at.store(at, Ordering::SeqCst);
            self.parts.notices.post_check();
        }
        poll_fn(|cx| {
            // First the waker, then the look: no report goes unseen.
            let broken = match outgoing.poll_broken(cx) {
                _ if self.read_by_peer() >= at => return Poll::Ready(Ok(())),
                Poll::Pending => return Poll::Pending,
                Poll::Ready(cause) => cause,
            };
            Poll::Ready(Err(self.error(broken)))
        })
        .await
    }

    /// Returns how many of the bytes that were written the peer's program has certainly read.
    pub fn read_by_peer(&self) -> u64 {
        self.parts.outgoing.read().0
    }

    pub(super) fn error(&self, cause: EndCause) -> io::Error {
        StreamError { cause, read_by_peer: self.read_by_peer() }.into()
    }

    /// Returns the error of a send that failed for this cause, and notes the end.
    fn failure(&self, cause: &Cause) -> io::Error {
        match EndCause::of_unsent(cause) {
            Some(end) => {
                self.parts.outgoing.break_off(end);
                self.error(self.parts.outgoing.broken().unwrap_or(EndCause::Shutdown))
            }
            None => io::Error::other(cause.clone()),
        }
    }

    /// Writes of all slices as much as one message takes.
    pub(super) fn poll_send(
        &mut self,
        bufs: &[IoSlice<'_>],
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let len = bufs.iter().map(|buf| buf.len()).sum::<usize>().min(CHUNK_MAX);
        if len == 0 {
            return Poll::Ready(self.check_open().map(|()| 0));
        }
        self.poll_chunk(len, &|len| Chunk::Bytes(gather(bufs, len)), cx)
    }

    /// Returns the error of a write where nothing can be written any more.
    fn check_open(&self) -> io::Result<()> {
        if self.is_finished {
            let why = "this side of the stream was shut down";
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, why));
        }
        self.parts.outgoing.broken().map_or(Ok(()), |cause| Err(self.error(cause)))
    }

    /// Sends the chunk that `make` makes of `len` bytes, or of fewer where there is room for fewer.
    /// Returns how many.
    pub(super) fn poll_chunk(
        &mut self,
        len: usize,
        make: &dyn Fn(usize) -> Chunk,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.check_open()?;
        // A task that only writes lets others run now and then.
        let turn = ready!(coop::poll_proceed(cx));
        loop {
            let waiting = self.room.get_mut();
            let room = match waiting {
                Some(room) => Some(ready!(room.poll_unpin(cx))),
                None => None,
            };
            *waiting = None;
            let room = match room.transpose() {
                Ok(room) => room,
                Err(cause) => return Poll::Ready(Err(self.failure(&cause))),
            };
            match self.send(len, make, room) {
                Ok(count) => {
                    turn.made_progress();
                    return Poll::Ready(Ok(count));
                }
                Err(Unsent::Failed(error)) => return Poll::Ready(Err(error)),
                Err(Unsent::Room) => self.reserve()?,
                Err(Unsent::Window) => {
                    // First the waker, then the look: no report goes unseen.
                    let broken = self.parts.outgoing.poll_broken(cx);
                    if !self.has_window(len) {
                        let cause = ready!(broken);
                        return Poll::Ready(Err(self.error(cause)));
                    }
                }
            }
        }
    }

    /// Waits for room in the peer's mailbox from now on.
    fn reserve(&mut self) -> io::Result<()> {
        let peer = self.parts.outgoing.peer().map_err(|cause| self.error(cause))?.clone();
        *self.room.get_mut() = Some(Box::pin(async move { peer.reserve().await }));
        Ok(())
    }

    /// Returns true if the window has room for a chunk of `len` bytes. (The peer reports each
    /// quarter of a window, so there is room for the longest chunk when it has read everything.)
    fn has_window(&self, len: usize) -> bool {
        let sent = self.parts.outgoing.sent();
        let (bytes, items) = self.parts.outgoing.read();
        let under_way = (sent.bytes - bytes) + ITEM_COST * (sent.items - items);
        under_way + ITEM_COST + len as u64 <= WINDOW
    }

    /// Sends one chunk of `len` bytes at most, to room that was reserved or if that needs no
    /// waiting. Returns how many it took.
    fn send(
        &self,
        len: usize,
        make: &dyn Fn(usize) -> Chunk,
        room: Option<Room>,
    ) -> Result<usize, Unsent> {
        let len = if room.is_some() { len.min(RESERVED_MAX) } else { len };
        if !self.has_window(len) {
            return Err(Unsent::Window);
        }
        let outgoing = &self.parts.outgoing;
        let peer = outgoing.peer().map_err(|cause| Unsent::Failed(self.error(cause)))?;
        let item = make(len);
        let mut sent = outgoing.sent();
        if let Chunk::Offer(_) = item {
            outgoing.note_offer(sent.items);
        }
        let bytes = if let Chunk::Placed(bytes) = item { bytes } else { len as u64 };
        let frame = Frame::Item { number: sent.items, item };
        let told = match room {
            Some(room) => room.tell(frame),
            None => peer.try_tell(frame),
        };
        match told {
            Ok(()) => {
                sent.items += 1;
                sent.bytes += bytes;
                Ok(len)
            }
            Err(error) if can_wait(&error.cause) => Err(Unsent::Room),
            Err(error) => {
                drop(sent);
                Err(Unsent::Failed(self.failure(&error.cause)))
            }
        }
    }
}

/// Copies the first `len` bytes of the slices.
fn gather(bufs: &[IoSlice<'_>], len: usize) -> Vec<u8> {
    let mut chunk = Vec::with_capacity(len);
    for buf in bufs {
        let count = buf.len().min(len - chunk.len());
        chunk.extend_from_slice(&buf[..count]);
    }
    chunk
}

impl AsyncWrite for WriteHalf {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_send(&[IoSlice::new(buf)], cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_send(bufs, cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends this direction, and does not wait: the peer reads the end after the last byte.
    fn poll_shutdown(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.is_finished = true;
        self.parts.notices.post_fin(true);
        Poll::Ready(Ok(()))
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        self.parts.notices.leave_writer();
    }
}
