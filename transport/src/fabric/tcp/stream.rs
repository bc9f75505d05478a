//! The stream of a data connection, plain or sealed. Its reads and writes end with the first short
//! one: no call is made to be told that there is no more.
//!
//! The runtime waits by edge-triggered events. A read that fills less than its buffers, as a write
//! that is taken in part, has met the end of what the socket has, so readiness is cleared; whatever
//! comes later is a new event. tokio forgets no event that came since the call began: it clears
//! only the readiness that the call was made with, and never that the stream has ended or failed.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::task::{Context, Poll};

use socket2::{SockRef, Socket};
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::seal::Seal;

/// The stream of a data connection: bytes of records above, of the socket below.
pub(super) struct DataStream {
    socket: TcpStream,
    /// `None`: the bytes of the socket are those of the records.
    seal: Option<Box<Seal>>,
}

impl DataStream {
    pub(super) fn new(socket: TcpStream, seal: Option<Seal>) -> Self {
        DataStream { socket, seal: seal.map(Box::new) }
    }

    /// Reads what there is into `buffers`, which have room for `room` bytes; `Ok(0)` at the end of
    /// the stream.
    ///
    /// # Errors
    /// Those of the socket, and [`InvalidData`](io::ErrorKind::InvalidData) for a chunk that the
    /// peer did not seal (TC-7).
    pub(super) fn read(
        &mut self,
        buffers: &mut [IoSliceMut<'_>],
        room: usize,
    ) -> io::Result<usize> {
        let Some(seal) = &mut self.seal else {
            return once(&self.socket, Interest::READABLE, room, |mut socket| {
                socket.read_vectored(buffers)
            });
        };
        loop {
            let forged = |forged| io::Error::new(io::ErrorKind::InvalidData, forged);
            match seal.open(buffers).map_err(forged)? {
                0 => {}
                opened => return Ok(opened),
            }
            let room = seal.room();
            let all = room.len();
            let read = once(&self.socket, Interest::READABLE, all, |mut socket| socket.read(room))?;
            if read == 0 {
                return Ok(0);
            }
            seal.add(read);
        }
    }

    /// Writes of `pieces`, which hold `all` bytes, as many as are taken.
    ///
    /// # Errors
    /// Those of the socket.
    pub(super) fn write(&mut self, pieces: &[IoSlice<'_>], all: usize) -> io::Result<usize> {
        let Some(seal) = &mut self.seal else {
            return once(&self.socket, Interest::WRITABLE, all, |mut socket| {
                socket.write_vectored(pieces)
            });
        };
        flush(&self.socket, seal)?;
        let sealed = seal.seal(pieces);
        match flush(&self.socket, seal) {
            Err(error) if is_fatal(&error) => Err(error),
            _ => Ok(sealed),
        }
    }

    /// Writes what was sealed and the socket has not taken yet. After an error that is final,
    /// nothing of it is left.
    ///
    /// # Errors
    /// Those of the socket.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.seal.as_mut().map_or(Ok(()), |seal| flush(&self.socket, seal))
    }

    /// Returns true if something was sealed that the socket has not taken.
    pub(super) fn has_unwritten(&self) -> bool {
        self.seal.as_ref().is_some_and(|seal| !seal.unwritten().is_empty())
    }

    /// Returns ready if a read may find something; otherwise the task is woken when it may.
    pub(super) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.seal.as_ref().is_some_and(|seal| seal.has_input()) {
            return Poll::Ready(Ok(()));
        }
        self.socket.poll_read_ready(cx)
    }

    /// Returns ready if the socket may take something; otherwise the task is woken when it may.
    pub(super) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_write_ready(cx)
    }
}

/// Returns true if the stream is of no use after this error.
pub(super) fn is_fatal(error: &io::Error) -> bool {
    !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn flush(socket: &TcpStream, seal: &mut Seal) -> io::Result<()> {
    while !seal.unwritten().is_empty() {
        let unwritten = seal.unwritten();
        let written =
            once(socket, Interest::WRITABLE, unwritten.len(), |mut socket| socket.write(unwritten));
        match written {
            Ok(0) => {
                seal.forget_unwritten();
                return Err(io::ErrorKind::WriteZero.into());
            }
            Ok(bytes) => seal.wrote(bytes),
            Err(error) => {
                if is_fatal(&error) {
                    seal.forget_unwritten();
                }
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Reads or writes, once, if the runtime knows of no reason against it; clears that readiness when
/// fewer than `all` bytes were moved.
fn once(
    stream: &TcpStream,
    interest: Interest,
    all: usize,
    call: impl FnOnce(&Socket) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut short = None;
    let moved = stream.try_io(interest, || {
        let moved = call(&SockRef::from(stream))?;
        if 0 < moved && moved < all {
            short = Some(moved);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(moved)
    });
    short.map_or(moved, Ok)
}
