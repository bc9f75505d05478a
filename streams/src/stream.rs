//! Byte streams between two tasks, on one node or two: what a TCP connection is to tokio.
//!
//! ```
//! use ringpost::prelude::*;
//! use ringpost_streams::stream::{Stream, StreamListener};
//! use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! let server = Node::builder("server").listen("127.0.0.1:0").start().await?;
//! let client = Node::builder("client").seeds(server.addresses()).start().await?;
//! client.ready(1).await?;
//!
//! let mut listener = StreamListener::bind(&server, "echo").await?;
//! let mut stream = Stream::connect(&client, "server/echo").await?;
//! let (mut served, _peer) = listener.accept().await?;
//!
//! stream.write_all(b"hello\nworld").await?;
//! stream.shutdown().await?; // the peer reads the end, and may still write
//! let mut line = String::new();
//! served.read_line(&mut line).await?;
//! assert_eq!(line, "hello\n");
//! let rest = served.fill_buf().await?; // read where it arrived
//! assert_eq!(rest, b"world");
//! served.consume(5);
//! stream.sync().await?; // the peer's program has read it all
//!
//! served.write_all(b"bye").await?;
//! drop(served);
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer).await?;
//! assert_eq!(answer, "bye");
//! # Ok(())
//! # }
//! ```
//!
//! **End a program with [`close`](Stream::close) of its streams, or with
//! [`Node::shutdown`](ringpost::Node::shutdown)**: when `main` returns, tokio's runtime drops bytes
//! that are still on their way.
//!
//! A stream has no background task that sends: a write is on its way when it returns, and `flush`
//! has nothing to do. At most [`WINDOW`] bytes of each direction are on their way or wait to be
//! read, where each write counts as [`ITEM_COST`] more; then writes wait.
//!
//! | end | the peer reads | the peer writes |
//! |---|---|---|
//! | `shutdown` | all bytes, then the end | on |
//! | dropped, all read | all bytes, then the end | an error |
//! | dropped with bytes unread, or by a panic | the bytes that came, then an error | an error |
//! | node down, or bytes lost with a link | the bytes that came, then an error | an error |

mod place;
mod read;
mod write;

use std::io::{self, IoSlice};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ringpost::region::Region;
use ringpost::spawn::SpawnError;
use ringpost::{Node, Peer};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::connection::{Kind, Parts};
use crate::end::{ConnectError, EndCause};
use crate::frame::{ArchivedChunk, Chunk};
use crate::incoming::Limit;
use crate::listener::{self, Acceptor};

pub use crate::incoming::ITEM_COST;
pub use place::PLACED_FROM;
pub use read::ReadHalf;
pub use write::WriteHalf;

/// Bytes of one direction that are on their way or wait to be read, at most.
pub const WINDOW: u64 = 1 << 20;
/// Bytes of one write that are sent in one message, at most.
pub const CHUNK_MAX: usize = 128 << 10;
/// How long [`Stream::close`] waits for the peer, unless it is told otherwise.
pub const CLOSE_WITHIN: Duration = Duration::from_secs(5);

fn kind() -> Kind<Chunk> {
    Kind {
        limit: Limit::Bytes(WINDOW),
        weigh: |chunk| match chunk {
            ArchivedChunk::Bytes(bytes) if bytes.len() > CHUNK_MAX => Err("a chunk is too long"),
            ArchivedChunk::Bytes(bytes) if !bytes.is_empty() => Ok(bytes.len() as u64),
            ArchivedChunk::Offer(bytes) | ArchivedChunk::Placed(bytes) if *bytes > 0 => Ok(0),
            _ => Err("an empty chunk came"),
        },
        is_stream: true,
    }
}

/// Accepts streams under a name. Dropped, the name is free again; streams that were accepted live
/// on.
pub struct StreamListener(Acceptor<Chunk, Chunk>);

impl StreamListener {
    /// Binds a name of the node. Streams connect to it by `"node/name"`.
    ///
    /// # Errors
    /// [`SpawnError`]: the name is taken or is none, or the node is shutting down.
    pub async fn bind(node: &Node, name: &str) -> Result<Self, SpawnError> {
        Acceptor::bind(node, name, kind()).await.map(StreamListener)
    }

    /// Waits for the next stream, and returns it with the node at its other end. At most
    /// [`BACKLOG`](crate::BACKLOG) streams wait to be accepted.
    ///
    /// # Errors
    /// [`EndCause::Shutdown`] when the node is shutting down.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn accept(&mut self) -> Result<(Stream, Peer), EndCause> {
        let (parts, peer) = self.0.accept().await.ok_or(EndCause::Shutdown)?;
        Ok((Stream::new(parts), peer))
    }
}

/// One end of a byte stream. See the [module](self) for how it ends.
///
/// It is read without a copy by `fill_buf` and `consume` (`AsyncBufRead`): the buffer is the
/// message that was received. Errors hold a [`StreamError`](crate::StreamError).
pub struct Stream {
    reader: ReadHalf,
    writer: WriteHalf,
}

impl Stream {
    fn new(parts: Parts<Chunk, Chunk>) -> Self {
        let parts = Arc::new(parts);
        Stream { reader: ReadHalf::new(parts.clone()), writer: WriteHalf::new(parts) }
    }

    /// Connects to the [`StreamListener`] at a path: `"server/echo"` on another node, or `"echo"`
    /// on this one. Waits for a link to that node as a look-up does, and for the answer as an ask.
    ///
    /// # Errors
    /// [`ConnectError`].
    ///
    /// # Cancel safety
    /// When the future is dropped there is no stream; the listener may accept a stream that has
    /// ended.
    pub async fn connect(node: &Node, path: &str) -> Result<Self, ConnectError> {
        listener::connect(node, path, kind()).await.map(Stream::new)
    }

    /// Waits until the peer's program has read all that was written; see [`WriteHalf::sync`].
    ///
    /// # Errors
    /// As of [`WriteHalf::sync`].
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn sync(&mut self) -> io::Result<()> {
        self.writer.sync().await
    }

    /// Returns how many of the bytes that were written the peer's program has certainly read.
    pub fn read_by_peer(&self) -> u64 {
        self.writer.read_by_peer()
    }

    /// Ends the stream and waits until the peer's program has read all that was written, for
    /// [`CLOSE_WITHIN`] at most.
    ///
    /// # Errors
    /// As of [`close_within`](Self::close_within).
    ///
    /// # Cancel safety
    /// When the future is dropped the stream ends as a stream that was dropped.
    pub async fn close(self) -> io::Result<()> {
        self.close_within(CLOSE_WITHIN).await
    }

    /// Ends the stream as [`close`](Self::close) does, and waits at most `time`.
    ///
    /// # Errors
    /// `TimedOut` after `time`: the written bytes are still on their way. And the errors of
    /// [`WriteHalf::sync`].
    ///
    /// # Cancel safety
    /// As of [`close`](Self::close).
    pub async fn close_within(mut self, time: Duration) -> io::Result<()> {
        self.shutdown().await?;
        match tokio::time::timeout(time, self.sync()).await {
            Ok(synced) => synced,
            Err(_) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!(
                    "the peer has certainly read {} bytes and no more within {time:?}",
                    self.read_by_peer()
                ),
            )),
        }
    }

    /// Reads bytes into a region; see [`ReadHalf::read_into`].
    ///
    /// # Errors
    /// As of [`ReadHalf::read_into`].
    ///
    /// # Cancel safety
    /// As of [`ReadHalf::read_into`].
    pub async fn read_into(
        &mut self,
        region: &Region<u8>,
        range: Range<usize>,
    ) -> io::Result<usize> {
        self.reader.read_into(region, range).await
    }

    /// Writes bytes of a region; see [`WriteHalf::write_from`].
    ///
    /// # Errors
    /// As of [`WriteHalf::write_from`].
    ///
    /// # Cancel safety
    /// As of [`WriteHalf::write_from`].
    pub async fn write_from(&mut self, region: &Region<u8>, range: Range<usize>) -> io::Result<()> {
        self.writer.write_from(region, range).await
    }

    /// Returns the two directions, for two tasks. The connection is over when both are dropped.
    pub fn into_split(self) -> (ReadHalf, WriteHalf) {
        (self.reader, self.writer)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.reader).poll_read(cx, buf)
    }
}

impl AsyncBufRead for Stream {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        Pin::new(&mut self.get_mut().reader).poll_fill_buf(cx)
    }

    fn consume(mut self: Pin<&mut Self>, count: usize) {
        Pin::new(&mut self.reader).consume(count);
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.writer.poll_send(&[IoSlice::new(buf)], cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.writer.poll_send(bufs, cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(cx)
    }
}
