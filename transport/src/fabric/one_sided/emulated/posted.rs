//! The operations of this side that have no outcome, and the requests that were sent for them.

use std::collections::VecDeque;
use std::mem::take;

use super::{Bounds, WINDOW};
use crate::fabric::one_sided::frame::Request;
use crate::fabric::one_sided::grants::Wanted;
use crate::fabric::one_sided::{Kind, Operation};
use crate::memory::Slot;

/// Bytes of requests without an answer, of more than one: as many stand before a frame of the link.
const AHEAD_BYTES: u32 = 128 * 1024;

#[derive(Default)]
pub(super) struct Posted {
    running: VecDeque<Running>,
    /// How many of them were sent whole.
    sent: usize,
    /// Requests that were sent and not answered, and the bytes that they move.
    in_flight: usize,
    bytes_in_flight: u32,
}

struct Running {
    operation: Operation,
    /// Bytes for which a request was sent, and bytes that were answered.
    sent: u32,
    answered: u32,
}

/// An answer that answers no request.
pub(super) struct Unasked;

impl Running {
    fn wanted(&self) -> Wanted {
        let Operation { kind, key, at, bytes, .. } = self.operation;
        Wanted { kind, key, at, bytes }
    }

    /// Returns the bytes of the piece that begins `from` bytes after its beginning (EM-3).
    fn piece(&self, from: u32, bounds: Bounds) -> u32 {
        let into_word = (self.operation.at % 8 + u64::from(from)) % 8;
        (self.operation.bytes - from).min(bounds.piece as u32 - into_word as u32)
    }
}

impl Posted {
    pub(super) fn count(&self) -> usize {
        self.running.len()
    }

    pub(super) fn push(&mut self, operation: Operation) {
        self.running.push_back(Running { operation, sent: 0, answered: 0 });
    }

    /// Returns true if the window allows a request (EM-1), and there is one to be sent.
    pub(super) fn may_send(&self) -> bool {
        let is_open = self.in_flight < WINDOW && self.bytes_in_flight < AHEAD_BYTES;
        is_open && self.sent < self.running.len()
    }

    /// Returns the next request, which counts as sent from now on, with the bytes that it writes.
    pub(super) fn next_request(&mut self, bounds: Bounds) -> Option<(Request, &[u8])> {
        let running = self.running.get_mut(self.sent)?;
        let (from, piece) = (running.sent, running.piece(running.sent, bounds));
        let request = Request { wanted: running.wanted(), from, piece };
        running.sent += piece;
        self.bytes_in_flight += piece;
        self.sent += usize::from(request.is_last());
        self.in_flight += 1;
        Some((request, &running.operation.slot[from as usize..][..request.payload()]))
    }

    /// Returns true if a request has no answer.
    pub(super) fn is_awaiting(&self) -> bool {
        self.in_flight > 0
    }

    /// Takes the answer to the oldest request. Returns the slot of its operation, if that is done.
    ///
    /// # Errors
    /// [`Unasked`]: it answers another one.
    pub(super) fn take_answer(
        &mut self,
        read: &[u8],
        word: u64,
        bounds: Bounds,
    ) -> Result<Option<Slot>, Unasked> {
        let running = self.running.front_mut().ok_or(Unasked)?;
        let piece = running.piece(running.answered, bounds) as usize;
        let slot = &mut running.operation.slot;
        match running.operation.kind {
            Kind::Read if read.len() == piece => {
                slot[running.answered as usize..][..piece].copy_from_slice(read);
            }
            Kind::Write | Kind::WriteAndNotify(_) if read.is_empty() => {}
            Kind::FetchAdd(_) | Kind::CompareAndSwap { .. } if read.is_empty() => {
                slot[..8].copy_from_slice(&word.to_ne_bytes());
            }
            _ => return Err(Unasked),
        }
        running.answered += piece as u32;
        self.in_flight -= 1;
        self.bytes_in_flight -= piece as u32;
        if running.answered < running.operation.bytes {
            return Ok(None);
        }
        self.sent -= 1;
        Ok(self.running.pop_front().map(|running| running.operation.slot))
    }

    /// Forgets all of them, and returns their slots, in their order.
    pub(super) fn leave(&mut self) -> impl Iterator<Item = Slot> {
        take(self).running.into_iter().map(|running| running.operation.slot)
    }
}
