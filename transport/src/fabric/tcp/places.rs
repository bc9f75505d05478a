//! Where the next frames will probably lie. A large message comes in frames of one length, so after
//! a long frame the reading side reads on as if more of the same length followed: each record into
//! a place for records, each frame into its slot, all in one call and with no copy. Where the
//! stream brings something else, that is moved into the read-ahead, as if it had been read there.

use std::io::IoSliceMut;

use arrayvec::ArrayVec;

use super::queues::Queues;
use super::record::RECORD_BYTES;
use crate::memory::Slot;

/// Most frames that one read may expect.
pub(super) const PLACES_MAX: usize = 31;

/// Places for frames of one length. They take turns with the read-ahead: while bytes lie here, none
/// lie there.
pub(super) struct Places {
    /// Length of the expected frames.
    frame: usize,
    /// Before the first frame one more record is expected, of an acceptance.
    lead: bool,
    records: [[u8; RECORD_BYTES]; PLACES_MAX + 1],
    /// The next place of a record. The frame behind it belongs into the oldest receive.
    next: usize,
    /// Bytes that were read into the places and are not used yet.
    read: usize,
}

impl Places {
    pub(super) fn new() -> Self {
        let records = [[0; RECORD_BYTES]; PLACES_MAX + 1];
        Places { frame: 0, lead: false, records, next: 0, read: 0 }
    }

    /// Returns true if nothing lies here.
    pub(super) fn is_empty(&self) -> bool {
        self.read == 0
    }

    /// Adds the places for frames of this length to `buffers`: for as many as there are `slots`,
    /// but for no more bytes than `room`, which is what may have to be moved. The first bytes of
    /// the first record are there already. Returns false if there is no place, as for frames of
    /// length 0.
    pub(super) fn push<'a>(
        &'a mut self,
        (lead, begun, frame): (bool, &[u8], usize),
        slots: impl Iterator<Item = &'a mut Slot>,
        room: usize,
        buffers: &mut Buffers<'a>,
    ) -> bool {
        (self.lead, self.frame, self.next) = (lead, frame, 0);
        self.records[0][..begun.len()].copy_from_slice(begun);
        let most = if frame == 0 { 0 } else { PLACES_MAX.min(room / (RECORD_BYTES + frame)) };
        let mut slots = slots.take(most).map_while(|slot| slot.get_mut(..frame)).peekable();
        let (mut records, mut begun) = (self.records.iter_mut(), begun.len());
        if slots.peek().is_some()
            && lead
            && let Some(record) = records.next()
        {
            buffers.push(&mut record[std::mem::take(&mut begun)..]);
        }
        let mut any = false;
        for (slot, record) in slots.zip(records) {
            buffers.push(&mut record[std::mem::take(&mut begun)..]);
            buffers.push(slot);
            any = true;
        }
        any
    }

    /// Notes that `bytes` more bytes lie in the places.
    pub(super) fn add(&mut self, bytes: usize) {
        self.read += bytes;
    }

    /// Takes the next record, if all of it is there.
    pub(super) fn take_record(&mut self) -> Option<[u8; RECORD_BYTES]> {
        self.read = self.read.checked_sub(RECORD_BYTES)?;
        self.next += 1;
        Some(self.records[self.next - 1])
    }

    /// Moves the bytes of an incomplete record to the front of `ahead`, and returns their number.
    pub(super) fn move_record(&mut self, ahead: &mut [u8]) -> usize {
        let begun = std::mem::take(&mut self.read);
        ahead[..begun].copy_from_slice(&self.records[self.next][..begun]);
        begun
    }

    /// Returns true if the record that was taken last has no place of a frame behind it.
    pub(super) fn is_lead(&self) -> bool {
        self.lead && self.next == 1
    }

    /// Takes the bytes of a frame of this length that lie where they belong, in the oldest receive;
    /// says how many those are, and whether what follows lies where it belongs, too.
    pub(super) fn take_frame(&mut self, bytes: usize) -> (usize, bool) {
        if self.is_lead() {
            return (0, false);
        }
        let taken = bytes.min(self.frame).min(self.read);
        self.read -= taken;
        (taken, bytes == self.frame)
    }

    /// Moves all that is left to the front of `ahead`, and says how much that is. Behind the record
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
        let mut more = self.is_lead() || slots.next().is_some_and(|slot| put(&slot[taken..]));
        for record in &self.records[self.next..] {
            more = more && put(record) && slots.next().is_some_and(&mut put);
        }
        moved
    }
}

/// The buffers of one read, in order.
pub(super) struct Buffers<'a> {
    slices: ArrayVec<IoSliceMut<'a>, BUFFERS_MAX>,
}

/// The rest of a frame or the first record, and the places.
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
