//! The stream of a data connection, plain or sealed.

use std::io::{self, IoSlice, IoSliceMut};
use std::task::{Context, Poll};

use super::seal::{Seal, is_fatal};
use crate::wire::DataSocket;

/// The stream of a data connection: bytes of frames above, of the socket below.
pub(super) struct DataStream {
    socket: Box<dyn DataSocket>,
    /// `None` if the frames are not sealed.
    seal: Option<Box<Seal>>,
    /// The last read of the socket took all there was.
    drained: bool,
}

impl DataStream {
    pub(super) fn new(socket: Box<dyn DataSocket>, seal: Option<Seal>) -> Self {
        DataStream { socket, seal: seal.map(Box::new), drained: false }
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
            let read = self.socket.read(buffers, room)?;
            self.drained = read < room;
            return Ok(read);
        };
        loop {
            let forged = |forged| io::Error::new(io::ErrorKind::InvalidData, forged);
            match seal.open(buffers).map_err(forged)? {
                0 => {}
                opened => return Ok(opened),
            }
            let room = seal.room();
            let all = room.len();
            let read = self.socket.read(&mut [IoSliceMut::new(room)], all)?;
            self.drained = read < all;
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
        let Some(seal) = &mut self.seal else { return self.socket.write(pieces, all) };
        flush(&mut *self.socket, seal)?;
        let sealed = seal.seal(pieces);
        match flush(&mut *self.socket, seal) {
            Err(error) if is_fatal(&error) => Err(error),
            _ => Ok(sealed),
        }
    }

    /// Writes the sealed bytes that the socket has not taken yet. After an error that is final,
    /// none of them are left.
    ///
    /// # Errors
    /// Those of the socket.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.seal.as_mut().map_or(Ok(()), |seal| flush(&mut *self.socket, seal))
    }

    /// Returns true if something was sealed that the socket has not taken.
    pub(super) fn has_unwritten(&self) -> bool {
        self.seal.as_ref().is_some_and(|seal| !seal.unwritten().is_empty())
    }

    /// Returns true if the read before this took all there was: there is no use in another one.
    pub(super) fn is_drained(&self) -> bool {
        self.drained && !self.has_input()
    }

    /// Returns true if a read may find something.
    pub(super) fn is_readable(&self) -> bool {
        self.has_input() || self.socket.is_readable()
    }

    /// Returns true if bytes of the socket were read and not yet passed on.
    fn has_input(&self) -> bool {
        self.seal.as_ref().is_some_and(|seal| seal.has_input())
    }

    /// Returns ready if a read may find something; otherwise the task is woken when it may.
    pub(super) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.has_input() {
            return Poll::Ready(Ok(()));
        }
        self.socket.poll_read_ready(cx)
    }

    /// Returns ready if the socket may take something; otherwise the task is woken when it may.
    pub(super) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_write_ready(cx)
    }
}

fn flush(socket: &mut dyn DataSocket, seal: &mut Seal) -> io::Result<()> {
    while !seal.unwritten().is_empty() {
        let unwritten = seal.unwritten();
        match socket.write(&[IoSlice::new(unwritten)], unwritten.len()) {
            Ok(0) => {
                seal.forget_unwritten();
                return Err(io::ErrorKind::WriteZero.into());
            }
            Ok(bytes) => seal.note_written(bytes),
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
