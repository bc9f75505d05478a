//! Frames: a header and records behind each other, each record padded to 16 bytes so that every
//! payload is aligned where it arrives.

use std::ops::Range;
use std::sync::Arc;

use super::header::{FRAME_HEADER, FrameHeader, RecordHeader, plain_tell};
use super::window::Count;
use crate::memory::{Buffer, Tail};
use crate::mutants::planted;
use crate::proto::error::Violation;
use crate::steps::step;

/// The writer of records into a slot.
pub(crate) struct FrameWriter<'a> {
    slot: &'a mut [u8],
    /// Bytes of the slot.
    used: usize,
    /// Longest tail that the frame may have (PV-12), and the tail. No record follows it.
    tail_max: usize,
    tail: Option<Tail>,
    records: u16,
}

impl<'a> FrameWriter<'a> {
    /// Begins an empty frame in `slot`, whose length is the most the frame may have.
    pub(crate) fn new(slot: &'a mut [u8]) -> Self {
        FrameWriter { slot, used: FRAME_HEADER, tail_max: 0, tail: None, records: 0 }
    }

    /// Allows a tail of at most `tail_max` bytes.
    pub(crate) fn with_tail(self, tail_max: usize) -> Self {
        FrameWriter { tail_max, ..self }
    }

    /// Returns true if no record may follow.
    fn is_full(&self) -> bool {
        self.records == u16::MAX || self.tail.is_some()
    }

    /// Returns how many bytes of payload still fit behind `header`.
    pub(crate) fn room(&self, header: &RecordHeader) -> usize {
        if self.is_full() {
            return 0;
        }
        self.slot.len().saturating_sub(self.used + header.len())
    }

    /// Returns true if a record with this header and this much payload fits.
    pub(crate) fn fits(&self, header: &RecordHeader, payload: usize) -> bool {
        !self.is_full() && self.used + header.len() + payload <= self.slot.len()
    }

    /// Returns true if there is no record yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Appends a record that [`fits`](Self::fits); gives its place in the frame.
    pub(crate) fn push(&mut self, mut header: RecordHeader, payload: &[u8]) -> u16 {
        header.payload = payload.len() as u32;
        let at = self.used;
        let body = at + header.len();
        let end = body + payload.len();
        self.used = end.next_multiple_of(16).min(self.slot.len());
        // The padding, with bytes before it that are written below: of a fixed size.
        self.slot[self.used - 16..self.used].copy_from_slice(&[0; 16]);
        header.encode(&mut self.slot[at..]);
        step!(written header.sent());
        self.slot[body..end].copy_from_slice(payload);
        self.records += 1;
        self.records - 1
    }

    /// Returns how many records with no header of their own still fit, and how many bytes.
    pub(crate) fn room_for_records(&self) -> (u16, usize) {
        let records = if self.is_full() { 0 } else { u16::MAX - self.records };
        (records, self.slot.len().saturating_sub(self.used))
    }

    /// Appends records that lie behind each other as in a frame, for which there is
    /// [room](Self::room_for_records); gives the place of the first one in the frame.
    pub(crate) fn push_records(&mut self, count: u16, records: &[u8]) -> u16 {
        let place = self.records;
        self.slot[self.used..self.used + records.len()].copy_from_slice(records);
        self.used += records.len();
        self.records += count;
        place
    }

    /// Returns the longest tail that the frame may have; 0 if none.
    pub(crate) fn tail_max(&self) -> usize {
        if self.is_full() { 0 } else { self.tail_max }
    }

    /// Appends a record that [`fits`](Self::fits) without its payload, which is the frame's tail,
    /// no longer than [`tail_max`](Self::tail_max). Gives its place in the frame.
    pub(crate) fn push_tail(
        &mut self,
        mut header: RecordHeader,
        buffer: &Arc<Buffer>,
        payload: Range<usize>,
    ) -> u16 {
        (header.payload, header.tail) = (payload.len() as u32, true);
        header.encode(&mut self.slot[self.used..]);
        step!(written header.sent());
        self.used += header.len();
        self.tail = Some(Tail::new(buffer.clone(), payload));
        self.records += 1;
        self.records - 1
    }

    /// Returns the tail, to be sent with the slot.
    pub(crate) fn tail(&self) -> Option<Tail> {
        self.tail.clone()
    }

    /// Writes the frame's header; gives how many bytes of the slot belong to the frame.
    pub(crate) fn finish(self, head: Head) -> usize {
        let Head { answer_now, short, consumed, clock_ms } = head;
        let tail = self.tail.as_ref().map_or(0, |tail| tail.len());
        let (records, bytes) = (self.records, (self.used + tail) as u32);
        let header = FrameHeader { answer_now, short, records, consumed, bytes, clock_ms };
        self.slot[..FRAME_HEADER].copy_from_slice(&header.encode());
        self.used
    }
}

/// The parts of a frame's header that its records do not decide.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Head {
    pub(crate) answer_now: bool,
    pub(crate) short: bool,
    pub(crate) consumed: u32,
    pub(crate) clock_ms: u32,
}

/// The reader of the records of a frame that arrived. It checks every length against the bytes
/// there are.
pub(crate) struct FrameReader<'a> {
    frame: &'a [u8],
    /// Bytes of its tail that belong to no record yet.
    tail: usize,
    at: usize,
    left: u16,
}

/// One record: its header, its place among the frame's records, and where its payload lies, unless
/// that is the tail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) header: RecordHeader,
    pub(crate) place: u16,
    pub(crate) payload: Range<usize>,
}

impl<'a> FrameReader<'a> {
    /// Checks the header of a frame with a tail of `tail` bytes.
    pub(crate) fn new(frame: &'a [u8], tail: usize) -> Result<(FrameHeader, Self), Violation> {
        let header = FrameHeader::decode(frame, tail)?;
        Ok((header, FrameReader { frame, tail, at: FRAME_HEADER, left: header.records }))
    }

    /// Returns true if no record is left.
    #[inline]
    pub(crate) fn is_at_end(&self) -> bool {
        self.left == 0
    }

    /// Returns the next record; `None` after the last, which must end the frame.
    pub(crate) fn read(&mut self, records: u16) -> Result<Option<Record>, Violation> {
        if self.left == 0 {
            let read = self.at == self.frame.len() && self.tail == 0;
            return if read { Ok(None) } else { Err(Violation::Frame) };
        }
        let (header, len) = RecordHeader::decode(&self.frame[self.at..])?;
        let start = self.at + len;
        let mut payload = header.payload as usize;
        if header.tail {
            // No record follows it.
            if payload == 0 || payload != self.tail || self.left > 1 {
                return Err(Violation::Record);
            }
            (self.tail, payload) = (0, 0);
        }
        let end = start.checked_add(payload).ok_or(Violation::Record)?;
        if end > self.frame.len() && !planted!(UncheckedLength) {
            return Err(Violation::Record);
        }
        let place = records - self.left;
        self.left -= 1;
        self.at = end.next_multiple_of(16).min(self.frame.len());
        Ok(Some(Record { header, place, payload: start..end }))
    }
}

/// Whole tells that lie behind each other in a frame and are for one mailbox.
#[derive(Debug, Clone)]
pub(crate) struct Tells {
    /// The number of the frame, and the place of the first one's record.
    pub(crate) at: (u32, u16),
    /// Mailbox and generation.
    pub(crate) place: (u32, u32),
    /// The place in the frame at which the first one's record begins.
    pub(crate) start: usize,
    /// Their number, and the bytes of their payloads.
    pub(crate) count: Count,
    /// The largest of their ordinals.
    pub(crate) ordinal_max: u16,
}

impl Tells {
    /// Begins with none yet, at this place of a frame whose number is not known.
    pub(crate) fn new(record: u16, place: (u32, u32), start: usize) -> Self {
        Tells { at: (0, record), place, start, count: Count::default(), ordinal_max: 0 }
    }

    /// Adds the next one; returns false if it is for another mailbox.
    #[inline]
    pub(crate) fn add(&mut self, place: u64, ordinal: u16, payload: u32) -> bool {
        let same = place == u64::from(self.place.1) << 32 | u64::from(self.place.0);
        if same {
            self.count.add(1, payload.into());
            self.ordinal_max = self.ordinal_max.max(ordinal);
        }
        same
    }
}

impl FrameReader<'_> {
    /// Reads the next records while they are [plain](plain_tell) tells to one mailbox, of at
    /// most `payload_max` bytes each; `None` when the next one is not, or is not whole.
    pub(crate) fn read_tells(&mut self, records: u16, payload_max: u32) -> Option<Tells> {
        let mut tells = None::<Tells>;
        let mut left = self.left;
        while left > 0
            && let rest = &self.frame[self.at..]
            && let Some(header) = rest.first_chunk()
            && let Some((payload, place, ordinal)) = plain_tell(header)
            && payload <= payload_max
            && let end = header.len() + payload as usize
            && end <= rest.len()
        {
            let all = tells.get_or_insert_with(|| {
                let (mailbox, generation) = (place as u32, (place >> 32) as u32);
                Tells::new(records - left, (mailbox, generation), self.at)
            });
            if !all.add(place, ordinal, payload) {
                break;
            }
            left -= 1;
            self.at = (self.at + end).next_multiple_of(16).min(self.frame.len());
        }
        self.left = left;
        tells
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::header::RecordKind;
    use proptest::prelude::*;
    use rkyv::util::AlignedVec;

    fn read_all(frame: &[u8]) -> Result<Vec<Record>, Violation> {
        read_all_of(frame, 0)
    }

    fn read_all_of(frame: &[u8], tail: usize) -> Result<Vec<Record>, Violation> {
        let (header, mut reader) = FrameReader::new(frame, tail)?;
        let mut all = Vec::new();
        while let Some(record) = reader.read(header.records)? {
            all.push(record);
        }
        Ok(all)
    }

    /// PV-12: no writer puts a record behind a tail, and no reader takes one.
    #[test]
    fn a_record_behind_a_tail_is_a_violation() {
        for behind in [false, true] {
            let mut slot = vec![0; 1024];
            let mut writer = FrameWriter::new(&mut slot);
            writer
                .push(RecordHeader { tail: true, ..RecordHeader::new(RecordKind::Fragment) }, &[]);
            if behind {
                writer.push(RecordHeader::new(RecordKind::Probe), &[]);
            }
            let bytes = writer.finish(Head::default());
            slot[8..12].copy_from_slice(&(bytes as u32 + 5).to_le_bytes());
            slot[FRAME_HEADER + 4] = 5;
            let read = read_all_of(&slot[..bytes], 5).map(|records| records.len());
            assert_eq!(read, if behind { Err(Violation::Record) } else { Ok(1) });
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(payloads in proptest::collection::vec(0usize..200, 0..20)) {
            let mut slot = vec![0xaa; 4096];
            let mut writer = FrameWriter::new(&mut slot);
            let mut written = Vec::new();
            for (i, bytes) in payloads.iter().enumerate() {
                let tell = RecordHeader::new(RecordKind::Tell);
                let header = RecordHeader { mailbox: i as u32, ..tell };
                if writer.fits(&header, *bytes) {
                    writer.push(header, &vec![i as u8; *bytes]);
                    written.push((i, *bytes));
                }
            }
            let bytes = writer.finish(Head { consumed: 7, ..Head::default() });
            let records = read_all(&slot[..bytes]).unwrap();
            prop_assert_eq!(records.len(), written.len());
            for (record, (i, bytes)) in records.iter().zip(written) {
                prop_assert_eq!(record.payload.start % 16, 0);
                prop_assert_eq!(&slot[record.payload.clone()], vec![i as u8; bytes]);
            }
            for cut in 0..bytes {
                prop_assert!(read_all(&slot[..cut]).is_err());
            }
        }

        /// PV-12: a tail is the payload of the last record, and belongs to it alone.
        #[test]
        fn a_tail_is_read_as_it_was_written(
            payloads in proptest::collection::vec(0usize..200, 0..4),
            tail in 1..3000_usize,
            other in 0..3000_usize,
        ) {
            let mut slot = vec![0xaa; 1024];
            let mut writer = FrameWriter::new(&mut slot).with_tail(3000);
            let header = RecordHeader::new(RecordKind::Tell);
            for bytes in &payloads {
                writer.push(header, &vec![1; *bytes]);
            }
            let whole: Vec<u8> = (0..tail + 7).map(|n| n as u8).collect();
            let mut buffer = AlignedVec::new();
            buffer.extend_from_slice(&whole);
            prop_assert_eq!(writer.tail_max(), 3000);
            let place = writer.push_tail(header, &Arc::new(buffer.into()), 3..tail + 3);
            prop_assert_eq!(usize::from(place), payloads.len());
            prop_assert_eq!((writer.tail_max(), writer.room(&header)), (0, 0));
            prop_assert!(!writer.fits(&header, 0));
            prop_assert_eq!(writer.room_for_records().0, 0);
            prop_assert_eq!(&writer.tail().unwrap()[..], &whole[3..tail + 3]);
            let bytes = writer.finish(Head::default());
            let records = read_all_of(&slot[..bytes], tail).unwrap();
            prop_assert_eq!(records.len(), payloads.len() + 1);
            let last = records.last().unwrap();
            prop_assert_eq!((last.header.payload as usize, last.payload.len()), (tail, 0));
            prop_assert!(last.header.tail);
            prop_assert_eq!(read_all_of(&slot[..bytes], other).is_ok(), other == tail);
        }

        #[test]
        fn hostile_frames_are_errors_not_panics(
            mut frame in proptest::collection::vec(any::<u8>(), 16..300),
            honest_length in any::<bool>(),
        ) {
            frame[0] = 2;
            if honest_length {
                let bytes = frame.len() as u32;
                frame[8..12].copy_from_slice(&bytes.to_le_bytes());
            }
            if let Ok(records) = read_all(&frame) {
                for record in records {
                    prop_assert!(record.payload.end <= frame.len());
                }
            }
        }
    }
}
