//! Byte streams that block.

use std::future::poll_fn;
use std::io::{self, BufRead, IoSlice, Read, Write};
use std::ops::Range;
use std::pin::Pin;
use std::time::Duration;

use ringpost::Peer;
use ringpost::region::Region;
use ringpost::spawn::SpawnError;
use tokio::io::{AsyncBufRead, AsyncReadExt, AsyncWriteExt};

use super::node::{Blocking, Node};
use crate::end::{ConnectError, EndCause};
use crate::stream;

/// Accepts streams: the twin of [`stream::StreamListener`].
pub struct StreamListener {
    listener: stream::StreamListener,
    blocking: Blocking,
}

impl StreamListener {
    /// Binds a name of the node; see [`stream::StreamListener::bind`].
    ///
    /// # Errors
    /// As of [`stream::StreamListener::bind`].
    pub fn bind(node: &Node, name: &str) -> Result<Self, SpawnError> {
        let blocking = node.blocking().clone();
        let listener = blocking.wait(stream::StreamListener::bind(node, name))?;
        Ok(StreamListener { listener, blocking })
    }

    /// Waits for the next stream; see [`stream::StreamListener::accept`].
    ///
    /// # Errors
    /// As of [`stream::StreamListener::accept`].
    pub fn accept(&mut self) -> Result<(Stream, Peer), EndCause> {
        let (stream, peer) = self.blocking.wait(self.listener.accept())?;
        Ok((Stream::new(stream, &self.blocking), peer))
    }
}

/// One end of a byte stream: the twin of [`stream::Stream`]. It is `Read`, `BufRead` and `Write`.
pub struct Stream {
    reader: ReadHalf,
    writer: WriteHalf,
}

impl Stream {
    fn new(stream: stream::Stream, blocking: &Blocking) -> Self {
        let (reader, writer) = stream.into_split();
        Stream {
            reader: ReadHalf { reader, blocking: blocking.clone(), timeout: None },
            writer: WriteHalf { writer, blocking: blocking.clone(), timeout: None },
        }
    }

    /// Connects to the listener at a path; see [`stream::Stream::connect`].
    ///
    /// # Errors
    /// As of [`stream::Stream::connect`].
    pub fn connect(node: &Node, path: &str) -> Result<Self, ConnectError> {
        let blocking = node.blocking();
        let stream = blocking.wait(stream::Stream::connect(node, path))?;
        Ok(Stream::new(stream, blocking))
    }

    /// Limits the time that a read waits. A read that takes longer fails with `TimedOut`. `None`
    /// means no limit.
    pub fn set_read_timeout(&mut self, time: Option<Duration>) {
        self.reader.set_timeout(time);
    }

    /// Limits the time that a write or [`sync`](Self::sync) waits. A call that takes longer fails
    /// with `TimedOut`, and nothing of it was sent. `None` means no limit.
    pub fn set_write_timeout(&mut self, time: Option<Duration>) {
        self.writer.set_timeout(time);
    }

    /// Ends the direction that writes: the peer reads the end after the last byte.
    ///
    /// # Errors
    /// None at present.
    pub fn shutdown(&mut self) -> io::Result<()> {
        self.writer.shutdown()
    }

    /// Waits until the peer's program has read all that was written; see
    /// [`stream::WriteHalf::sync`].
    ///
    /// # Errors
    /// As of [`stream::WriteHalf::sync`]; `TimedOut`.
    pub fn sync(&mut self) -> io::Result<()> {
        self.writer.sync()
    }

    /// Ends the stream and waits until the peer's program has read all that was written, for
    /// at most `time`; see [`stream::Stream::close_within`].
    ///
    /// # Errors
    /// As of [`stream::Stream::close_within`].
    pub fn close_within(mut self, time: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(time));
        self.shutdown()?;
        self.sync()
    }

    /// Reads bytes into a region; see [`ReadHalf::read_into`].
    ///
    /// # Errors
    /// As of [`ReadHalf::read_into`].
    pub fn read_into(&mut self, region: &Region<u8>, range: Range<usize>) -> io::Result<usize> {
        self.reader.read_into(region, range)
    }

    /// Writes bytes of a region; see [`WriteHalf::write_from`].
    ///
    /// # Errors
    /// As of [`WriteHalf::write_from`].
    pub fn write_from(&mut self, region: &Region<u8>, range: Range<usize>) -> io::Result<()> {
        self.writer.write_from(region, range)
    }

    /// Returns the two directions, for two threads.
    pub fn into_split(self) -> (ReadHalf, WriteHalf) {
        (self.reader, self.writer)
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buf)
    }
}

impl BufRead for Stream {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.reader.consume(count);
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.writer.write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.writer.write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The direction of a stream that reads.
pub struct ReadHalf {
    reader: stream::ReadHalf,
    blocking: Blocking,
    timeout: Option<Duration>,
}

impl ReadHalf {
    /// Limits the time that a read waits. A read that takes longer fails with `TimedOut`. `None`
    /// means no limit.
    pub fn set_timeout(&mut self, time: Option<Duration>) {
        self.timeout = time;
    }
}

impl ReadHalf {
    /// Reads bytes into a region; see [`stream::ReadHalf::read_into`].
    ///
    /// # Errors
    /// As of [`stream::ReadHalf::read_into`]; `TimedOut`, after which the stream may have ended.
    pub fn read_into(&mut self, region: &Region<u8>, range: Range<usize>) -> io::Result<usize> {
        self.blocking.wait_for(self.timeout, self.reader.read_into(region, range))?
    }
}

impl Read for ReadHalf {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.blocking.wait_for(self.timeout, self.reader.read(buf))?
    }
}

impl BufRead for ReadHalf {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let reader = &mut self.reader;
        let filled = poll_fn(|cx| Pin::new(&mut *reader).poll_fill_buf(cx).map_ok(|_| ()));
        self.blocking.wait_for(self.timeout, filled)??;
        Ok(self.reader.buffer())
    }

    fn consume(&mut self, count: usize) {
        Pin::new(&mut self.reader).consume(count);
    }
}

/// The direction of a stream that writes.
pub struct WriteHalf {
    writer: stream::WriteHalf,
    blocking: Blocking,
    timeout: Option<Duration>,
}

impl WriteHalf {
    /// Limits the time that a write or [`sync`](Self::sync) waits. A call that takes longer fails
    /// with `TimedOut`, and nothing of it was sent. `None` means no limit.
    pub fn set_timeout(&mut self, time: Option<Duration>) {
        self.timeout = time;
    }

    /// Ends this direction: the peer reads the end after the last byte.
    ///
    /// # Errors
    /// None at present.
    pub fn shutdown(&mut self) -> io::Result<()> {
        self.blocking.wait(self.writer.shutdown())
    }

    /// Waits until the peer's program has read all that was written; see
    /// [`stream::WriteHalf::sync`].
    ///
    /// # Errors
    /// As of [`stream::WriteHalf::sync`]; `TimedOut`.
    pub fn sync(&mut self) -> io::Result<()> {
        self.blocking.wait_for(self.timeout, self.writer.sync())?
    }
}

impl WriteHalf {
    /// Writes bytes of a region; see [`stream::WriteHalf::write_from`].
    ///
    /// # Errors
    /// As of [`stream::WriteHalf::write_from`]; `TimedOut`, when some of them may be written.
    pub fn write_from(&mut self, region: &Region<u8>, range: Range<usize>) -> io::Result<()> {
        self.blocking.wait_for(self.timeout, self.writer.write_from(region, range))?
    }
}

impl Write for WriteHalf {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.blocking.wait_for(self.timeout, self.writer.write(buf))?
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.blocking.wait_for(self.timeout, self.writer.write_vectored(bufs))?
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
