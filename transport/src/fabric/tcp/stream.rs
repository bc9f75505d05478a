//! Reads and writes of a stream that end with the first short one: no call is made to be told that
//! there is no more.
//!
//! The runtime waits by edge-triggered events. A read that fills less than its buffers, as a write
//! that is taken in part, has met the end of what the socket has, so readiness is cleared; whatever
//! comes later is a new event. tokio forgets no event that came since the call began: it clears
//! only the readiness that the call was made with, and never that the stream has ended or failed.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};

use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Reads what is there; 0 at the end of the stream.
pub(super) fn read(stream: &TcpStream, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    let room = buffers.iter().map(|buffer| buffer.len()).sum();
    once(stream, Interest::READABLE, room, || {
        let socket = SockRef::from(stream);
        (&*socket).read_vectored(buffers)
    })
}

/// Writes what is taken.
pub(super) fn write(stream: &TcpStream, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
    let offered = buffers.iter().map(|buffer| buffer.len()).sum();
    once(stream, Interest::WRITABLE, offered, || {
        let socket = SockRef::from(stream);
        (&*socket).write_vectored(buffers)
    })
}

/// Makes one call if the runtime knows of no reason against it; clears that readiness when fewer
/// than `all` bytes were moved.
fn once(
    stream: &TcpStream,
    interest: Interest,
    all: usize,
    call: impl FnOnce() -> io::Result<usize>,
) -> io::Result<usize> {
    let mut short = None;
    let moved = stream.try_io(interest, || {
        let moved = call()?;
        if 0 < moved && moved < all {
            short = Some(moved);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(moved)
    });
    short.map_or(moved, Ok)
}
