//! The writing side of a data connection: the frames of the send queue, in order.

use std::io::{self, IoSlice};

use arrayvec::ArrayVec;

use super::queues::{FRAME_PIECES, Queues};
use super::seal::is_fatal;
use super::stream::DataStream;
use crate::limits::TCP_WRITE_SLICES;

/// How far a queue pair has written.
#[derive(Default)]
pub(super) struct Output {
    /// The send that is written next, or is being written when `begun` is not zero.
    position: u64,
    /// Bytes of it that are written.
    begun: usize,
    /// The stream takes nothing any more; what the peer still says is read.
    broken: bool,
}

impl Output {
    /// Returns true if a frame waits for the stream to take it.
    pub(super) fn pending(&self, queues: &Queues) -> bool {
        !self.broken && self.position < queues.posted()
    }

    /// Writes what the stream takes, and completes the sends of which it took every byte (TC-2).
    pub(super) fn write(&mut self, stream: &mut DataStream, queues: &mut Queues) {
        loop {
            match stream.flush() {
                // The socket has all sealed bytes now.
                Ok(()) if !self.broken => queues.sent(self.position),
                Ok(()) => {}
                Err(error) if is_fatal(&error) => self.broken = true,
                Err(_) => return,
            }
            if !self.pending(queues) {
                return;
            }
            let mut slices = ArrayVec::new();
            self.gather(queues, &mut slices);
            let offered = slices.iter().map(|slice| slice.len()).sum();
            let written = stream.write(&slices, offered);
            // The slices borrow `queues`, which `advance` reads.
            drop(slices);
            match written {
                Ok(0) => self.broken = true,
                Ok(bytes) => self.advance(bytes, queues),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.broken = true,
            }
        }
    }

    fn gather<'a>(&self, queues: &'a Queues, slices: &mut ArrayVec<IoSlice<'a>, TCP_WRITE_SLICES>) {
        let mut skipped = self.begun;
        let mut position = self.position;
        while position < queues.posted() && slices.remaining_capacity() >= FRAME_PIECES {
            for piece in queues.frame(position) {
                let (written, rest) = piece.split_at(skipped.min(piece.len()));
                skipped -= written.len();
                if !rest.is_empty() {
                    slices.push(IoSlice::new(rest));
                }
            }
            position += 1;
        }
    }

    fn advance(&mut self, mut bytes: usize, queues: &Queues) {
        while bytes > 0 {
            let pieces = queues.frame(self.position);
            let left = pieces.iter().map(|piece| piece.len()).sum::<usize>() - self.begun;
            if bytes < left {
                self.begun += bytes;
                return;
            }
            self.position += 1;
            self.begun = 0;
            bytes -= left;
        }
    }
}
