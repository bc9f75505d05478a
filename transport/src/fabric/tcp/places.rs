//! Where the next frames will probably lie. A large message comes in frames of one length, so after
//! a long frame the reading side reads on as if more of the same length followed: each prefix into
//! a place for prefixes, each frame into its slot, all in one call and with no copy. Where the
//! stream brings something else, that is moved into the read-ahead, as if it had been read there.

use std::io::IoSliceMut;

use arrayvec::ArrayVec;

use super::prefix::PREFIX_BYTES;
use super::queues::Queues;
use crate::memory::Slot;

/// Most frames that one read may expect.
pub(super) const PLACES_MAX: usize = 31;

/// Places for frames of one length. They take turns with the read-ahead: while bytes lie here, none
/// lie there.
pub(super) struct Places {
    /// Length of the expected frames.
    frame: usize,
    prefixes: [[u8; PREFIX_BYTES]; PLACES_MAX],
    /// The next place of a prefix. The frame behind it belongs into the oldest receive.
    next: usize,
    /// Bytes that were read into the places and are not used yet.
    read: usize,
}

impl Places {
    pub(super) fn new() -> Self {
        Places { frame: 0, prefixes: [[0; PREFIX_BYTES]; PLACES_MAX], next: 0, read: 0 }
    }

    /// Returns true if nothing lies here.
    pub(super) fn is_empty(&self) -> bool {
        self.read == 0
    }

    /// Adds the places for frames of the length `frame` to `buffers`: for as many as there are
    /// `slots`, but for no more bytes than `room`, which is what may have to be moved. `begun` are
    /// the bytes of the first prefix that were read already. Returns false if there is no place, as
    /// for frames of length 0.
    pub(super) fn push<'a>(
        &'a mut self,
        begun: &[u8],
        frame: usize,
        slots: impl Iterator<Item = &'a mut Slot>,
        room: usize,
        buffers: &mut Buffers<'a>,
    ) -> bool {
        (self.frame, self.next) = (frame, 0);
        self.prefixes[0][..begun.len()].copy_from_slice(begun);
        let most = if frame == 0 { 0 } else { PLACES_MAX.min(room / (PREFIX_BYTES + frame)) };
        let slots = slots.take(most).map_while(|slot| slot.get_mut(..frame));
        let (mut begun, mut any) = (begun.len(), false);
        for (slot, prefix) in slots.zip(&mut self.prefixes) {
            buffers.push(&mut prefix[std::mem::take(&mut begun)..]);
            buffers.push(slot);
            any = true;
        }
        any
    }

    /// Notes that `bytes` more bytes lie in the places.
    pub(super) fn add(&mut self, bytes: usize) {
        self.read += bytes;
    }

    /// Takes the next prefix, if all of it is there.
    pub(super) fn take_prefix(&mut self) -> Option<[u8; PREFIX_BYTES]> {
        self.read = self.read.checked_sub(PREFIX_BYTES)?;
        self.next += 1;
        Some(self.prefixes[self.next - 1])
    }

    /// Moves the bytes of an incomplete prefix to the front of `ahead`, and returns their number.
    pub(super) fn move_prefix(&mut self, ahead: &mut [u8]) -> usize {
        let begun = std::mem::take(&mut self.read);
        ahead[..begun].copy_from_slice(&self.prefixes[self.next][..begun]);
        begun
    }

    /// Takes the bytes of a frame of this length that lie where they belong, in the oldest receive,
    /// and returns their number.
    pub(super) fn take_frame(&mut self, bytes: usize) -> usize {
        let taken = bytes.min(self.frame).min(self.read);
        self.read -= taken;
        taken
    }

    /// Returns true if frames of this length are expected: what follows one lies where it belongs.
    pub(super) fn expected(&self, bytes: usize) -> bool {
        bytes == self.frame
    }

    /// Moves all that is left to the front of `ahead`, and says how much that is. Behind the prefix
    /// that was taken last, `taken` bytes of its frame lie where they belong.
    pub(super) fn move_rest(&mut self, taken: usize, queues: &Queues, ahead: &mut [u8]) -> usize {
        let mut left = std::mem::take(&mut self.read);
        let mut moved = 0;
        let mut put = |bytes: &[u8]| {
            let piece = &bytes[..left.min(bytes.len())];
            ahead[moved..moved + piece.len()].copy_from_slice(piece);
            moved += piece.len();
            left -= piece.len();
            left > 0
        };
        let mut slots = queues.recvs().map(|slot| &slot[..self.frame]);
        let mut more = slots.next().is_some_and(|slot| put(&slot[taken..]));
        for prefix in &self.prefixes[self.next..] {
            more = more && put(prefix) && slots.next().is_some_and(&mut put);
        }
        moved
    }
}

/// The buffers of one read, in order.
pub(super) struct Buffers<'a> {
    slices: ArrayVec<IoSliceMut<'a>, BUFFERS_MAX>,
}

/// The rest of a frame, and the places.
const BUFFERS_MAX: usize = 2 * PLACES_MAX + 1;

impl<'a> Buffers<'a> {
    pub(super) fn new() -> Self {
        Buffers { slices: ArrayVec::new() }
    }

    pub(super) fn push(&mut self, bytes: &'a mut [u8]) {
        self.slices.push(IoSliceMut::new(bytes));
    }

    pub(super) fn get(&mut self) -> &mut [IoSliceMut<'a>] {
        &mut self.slices
    }
}
