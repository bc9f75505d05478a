//! Frames: a header and records behind each other, each record padded to 16 bytes so that every
//! payload is aligned where it arrives.

use std::ops::Range;
use std::sync::Arc;

use super::header::{FRAME_HEADER, FrameHeader, RecordHeader, plain_tell};
use super::window::Count;
use crate::memory::{Buffer, Splice};
use crate::mutants::planted;
use crate::proto::error::Violation;
use crate::steps::step;

/// The writer of records into a slot.
pub(crate) struct FrameWriter<'a> {
    slot: &'a mut [u8],
    /// Bytes of the slot.
    used: usize,
    /// Bytes of the frame that lie elsewhere.
    spliced: usize,
    /// True if a payload may be spliced instead of copied (PV-12); and the splice, if there is one.
    splices: bool,
    splice: Option<Splice>,
    records: u16,
}

impl<'a> FrameWriter<'a> {
    /// Begins an empty frame in `slot`, whose length is the most the frame may have.
    pub(crate) fn new(slot: &'a mut [u8]) -> Self {
        let (used, spliced) = (FRAME_HEADER, 0);
        FrameWriter { slot, used, spliced, splices: false, splice: None, records: 0 }
    }

    /// Allows one payload to be spliced instead of copied, if `splices`.
    pub(crate) fn with_splices(self, splices: bool) -> Self {
        FrameWriter { splices, ..self }
    }

    /// Returns how many bytes the frame has so far.
    fn frame_bytes(&self) -> usize {
        self.used + self.spliced
    }

    /// Returns how many bytes of payload still fit behind `header`.
    pub(crate) fn room(&self, header: &RecordHeader) -> usize {
        if self.records == u16::MAX {
            return 0;
        }
        self.slot.len().saturating_sub(self.frame_bytes() + header.len())
    }

    /// Returns true if a record with this header and this much payload fits.
    pub(crate) fn fits(&self, header: &RecordHeader, payload: usize) -> bool {
        self.records < u16::MAX && self.frame_bytes() + header.len() + payload <= self.slot.len()
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
        self.used = self.padded(end);
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
        (u16::MAX - self.records, self.slot.len().saturating_sub(self.frame_bytes()))
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

    /// Returns where the next record begins in the slot when this one ends at `end`.
    fn padded(&self, end: usize) -> usize {
        (end + self.spliced).next_multiple_of(16).min(self.slot.len()) - self.spliced
    }

    /// Returns true if a payload may stay where it is.
    pub(crate) fn takes_splice(&self) -> bool {
        self.splices && self.splice.is_none()
    }

    /// Returns true if a payload stays where it is.
    pub(crate) fn is_spliced(&self) -> bool {
        self.splice.is_some()
    }

    /// Appends a record that [`fits`](Self::fits), whose payload stays where it is; to be called
    /// only while the frame [takes one](Self::takes_splice). Gives its place in the frame.
    pub(crate) fn push_splice(
        &mut self,
        mut header: RecordHeader,
        buffer: &Arc<Buffer>,
        payload: Range<usize>,
    ) -> u16 {
        header.payload = payload.len() as u32;
        header.encode(&mut self.slot[self.used..]);
        step!(written header.sent());
        let body = self.used + header.len();
        self.spliced = payload.len();
        self.splice = Some(Splice::new(buffer.clone(), payload, body));
        self.used = self.padded(body);
        self.slot[body..self.used].fill(0);
        self.records += 1;
        self.records - 1
    }

    /// Returns the payload that stays where it is, to be sent with the slot.
    pub(crate) fn take_splice(&mut self) -> Option<Splice> {
        self.splice.take()
    }

    /// Writes the frame's header; gives how many bytes of the slot belong to the frame.
    pub(crate) fn finish(self, head: Head) -> usize {
        let Head { answer_now, short, consumed, clock_ms } = head;
        let (records, bytes) = (self.records, self.frame_bytes() as u32);
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
    at: usize,
    left: u16,
}

/// One record: its header, its place among the frame's records, and where its payload lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) header: RecordHeader,
    pub(crate) place: u16,
    pub(crate) payload: Range<usize>,
}

impl<'a> FrameReader<'a> {
    /// Checks the frame's header.
    pub(crate) fn new(frame: &'a [u8]) -> Result<(FrameHeader, Self), Violation> {
        let header = FrameHeader::decode(frame)?;
        Ok((header, FrameReader { frame, at: FRAME_HEADER, left: header.records }))
    }

    /// Returns true if no record is left.
    #[inline]
    pub(crate) fn is_at_end(&self) -> bool {
        self.left == 0
    }

    /// Returns the next record; `None` after the last, which must end the frame.
    pub(crate) fn read(&mut self, records: u16) -> Result<Option<Record>, Violation> {
        if self.left == 0 {
            return if self.at == self.frame.len() { Ok(None) } else { Err(Violation::Frame) };
        }
        let (header, len) = RecordHeader::decode(&self.frame[self.at..])?;
        let start = self.at + len;
        let end = start.checked_add(header.payload as usize).ok_or(Violation::Record)?;
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
        let (header, mut reader) = FrameReader::new(frame)?;
        let mut all = Vec::new();
        while let Some(record) = reader.read(header.records)? {
            all.push(record);
        }
        Ok(all)
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

        /// PV-12: a frame has the same bytes whether a payload of it stays where it is or not.
        #[test]
        fn a_payload_that_stays_where_it_is_changes_no_byte(
            payloads in proptest::collection::vec(0usize..900, 1..8),
            which in 0..8_usize,
            slot_bytes in (60..130_usize).prop_map(|words| words * 16),
        ) {
            let (mut copied, mut spliced) = (vec![0xaa; slot_bytes], vec![0xbb; slot_bytes]);
            let mut plain = FrameWriter::new(&mut copied);
            let mut splicing = FrameWriter::new(&mut spliced).with_splices(true);
            for (i, bytes) in payloads.iter().enumerate() {
                let header = RecordHeader::new(RecordKind::Tell);
                prop_assert_eq!(plain.room(&header), splicing.room(&header));
                let bytes = *bytes.min(&plain.room(&header));
                if !plain.fits(&header, bytes) {
                    break;
                }
                let whole: Vec<_> = (0..bytes + 7).map(|n| (n + i) as u8).collect();
                let payload = 3..bytes + 3;
                let mut buffer = AlignedVec::new();
                buffer.extend_from_slice(&whole);
                let place = plain.push(header, &whole[payload.clone()]);
                let same = if i == which {
                    prop_assert!(splicing.takes_splice());
                    splicing.push_splice(header, &Arc::new(buffer.into()), payload)
                } else {
                    splicing.push(header, &whole[payload])
                };
                prop_assert_eq!(place, same);
            }
            let bytes = plain.finish(Head::default());
            let splice = splicing.take_splice();
            let around = splicing.finish(Head::default());
            spliced.truncate(around);
            if let Some(splice) = splice {
                spliced.splice(splice.at()..splice.at(), splice.iter().copied());
            }
            prop_assert_eq!(&copied[..bytes], &spliced[..]);
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
