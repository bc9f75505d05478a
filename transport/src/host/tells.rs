//! Tells that arrived behind each other in one frame, for one mailbox: carried upward as one.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::Delivery;
use crate::driver_signals::Taken;
use crate::link::Receipt;
use crate::memory::{Lease, Payload};
use crate::proto::header::{record_bytes, record_ordinal};

/// Tells that arrived behind each other for one mailbox, the first one first. Created by the
/// driver, which has checked their records; taken apart where they leave the mailbox. Dropping it
/// gives back the room of the tells that are left.
pub struct Tells {
    lease: Lease,
    /// The place in the lease at which the next one's record begins.
    at: u32,
    count: u32,
    taken: Arc<Taken>,
}

impl Tells {
    /// Creates the row of `count` tells whose records, without optional fields, begin `at` bytes
    /// into the frame in `lease`.
    pub(crate) fn new(lease: Lease, at: usize, count: u16, taken: Arc<Taken>) -> Self {
        Tells { lease, at: at as u32, count: count.into(), taken }
    }

    /// Returns how many are left.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns true if none is left.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns a number that is the same for all messages of one peer, and of no other.
    pub fn peer_number(&self) -> usize {
        self.taken.peer_number()
    }

    /// Takes out the next one, and gives its room back. Returns its place in the list of accepted
    /// messages, and its bytes.
    #[inline]
    pub fn take_first(&mut self) -> Option<(u16, Payload)> {
        let (ordinal, payload) = self.pass()?;
        self.taken.take(payload.len() as u32);
        Some((ordinal, Payload::leased(self.lease.clone(), payload)))
    }

    #[inline]
    fn pass(&mut self) -> Option<(u16, Range<usize>)> {
        self.count = self.count.checked_sub(1)?;
        let at = self.at as usize;
        let record = &self.lease[at..];
        let (bytes, payload) = record_bytes(record);
        self.at += bytes as u32;
        Some((record_ordinal(record), payload.start + at..payload.end + at))
    }
}

/// Yields the tells in order, each with the receipt that gives its room back.
impl Iterator for Tells {
    type Item = Delivery;

    fn next(&mut self) -> Option<Delivery> {
        let (ordinal, range) = self.pass()?;
        let receipt = Receipt::new(self.taken.clone(), range.len() as u32);
        let payload = Payload::leased(self.lease.clone(), range);
        Some(Delivery { ordinal, payload, replier: None, deadline: None, note: None, receipt })
    }
}

impl Drop for Tells {
    fn drop(&mut self) {
        while let Some((_, range)) = self.pass() {
            self.taken.take(range.len() as u32);
        }
    }
}

impl fmt::Debug for Tells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tells({} left)", self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver_signals::{DriverSignals, Packed};
    use crate::memory::{Pool, Region};
    use crate::proto::frame::{FrameWriter, Head};
    use crate::proto::header::{FRAME_HEADER, RecordHeader, RecordKind};
    use crate::proto::window::{Count, WindowSize};

    #[test]
    fn each_gives_its_room_back_once_and_the_slot_comes_back_with_the_last() {
        let size = WindowSize { messages: 100, bytes: 10_000 };
        let taken = Taken::new(&Arc::new(DriverSignals::new()), 0, size);
        let mut slot = Region::heap(4096).into_slots(4096).pop().unwrap();
        let mut writer = FrameWriter::new(&mut slot);
        for ordinal in 0..5 {
            let header = RecordHeader { ordinal, ..RecordHeader::new(RecordKind::Tell) };
            writer.push(header, &[ordinal as u8; 21]);
        }
        let bytes = writer.finish(Head::default());
        let pool = Pool::new(Vec::new());
        let mut tells = Tells::new(pool.lease(slot, bytes), FRAME_HEADER, 5, taken.clone());
        let mut seen = Packed::default();
        let mut news = || taken.harvest(&mut seen);

        let (ordinal, payload) = tells.take_first().unwrap();
        assert_eq!((ordinal, &*payload, tells.len()), (0, &[0; 21][..], 4));
        assert_eq!(news(), Count { messages: 1, bytes: 21 }, "it is taken");
        let second = tells.next().unwrap();
        assert_eq!((second.ordinal, &*second.payload), (1, &[1; 21][..]));
        assert_eq!(news(), Count::default(), "its receipt is there");
        drop(second);
        assert_eq!(news(), Count { messages: 1, bytes: 21 });
        drop(tells);
        assert_eq!(news(), Count { messages: 3, bytes: 63 });
        assert_eq!((pool.spare(), payload.len()), (0, 21), "one is still read");
        drop(payload);
        assert_eq!(pool.spare(), 1);
    }
}
