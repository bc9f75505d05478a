//! Reads and writes of a stream that end with the first short one: no call is made to be told that
//! there is no more.
//!
//! The runtime waits by edge-triggered events. A read that fills less than its buffers, as a write
//! that is taken in part, has met the end of what the socket has, so readiness is cleared; whatever
//! comes later is a new event. tokio forgets no event that came since the call began: it clears
//! only the readiness that the call was made with, and never that the stream has ended or failed.

use std::io;

use socket2::{SockRef, Socket};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Reads or writes, once, if the runtime knows of no reason against it; clears that readiness when
/// fewer than `all` bytes were moved.
pub(super) fn once(
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
