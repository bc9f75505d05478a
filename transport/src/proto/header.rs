//! The fixed headers, byte by byte; `docs/WIRE.md` has the same tables for people.
//!
//! A frame header is 16 bytes, a record header 32 (asserted below); all numbers are little-endian;
//! reserved bytes are zero when sent and ignored when received. A record says how long its header
//! is, so that a reader skips optional fields it does not know.

use std::ops::Range;

use crate::note::NOTE_BYTES;
use crate::proto::error::Violation;

/// Bytes of a frame header.
pub(crate) const FRAME_HEADER: usize = 16;
/// Bytes of a record header without optional fields.
pub(crate) const RECORD_HEADER: usize = 32;
/// Bytes of a record header with a deadline.
pub(crate) const RECORD_HEADER_TIMED: usize = 48;
/// Bytes of a record header with a note, and perhaps a deadline.
pub(crate) const RECORD_HEADER_MAX: usize = 64;

/// The first byte of every frame.
const MARK: u8 = 2;
/// Frame flag: answer with a frame at once, so that the sender learns how much was consumed.
const ANSWER_NOW: u8 = 1;
/// Frame flag: the sender has messages and, after this frame, no credits for them.
const SHORT: u8 = 2;

/// The header that every frame begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    /// The receiver is to report its count at once.
    pub(crate) answer_now: bool,
    /// The sender has messages and, after this frame, no credits for them.
    pub(crate) short: bool,
    /// Records in the frame.
    pub(crate) records: u16,
    /// The sender's count of frames consumed: credit and acknowledgement.
    pub(crate) consumed: u32,
    /// Bytes of the whole frame, with its tail.
    pub(crate) bytes: u32,
    /// The sender's clock in milliseconds when it wrote the frame; wraps. Only differences mean
    /// anything: they show how long a frame was on its way (see `age`).
    pub(crate) clock_ms: u32,
}

impl FrameHeader {
    pub(crate) fn encode(&self) -> [u8; FRAME_HEADER] {
        let mut out = [0; FRAME_HEADER];
        out[0] = MARK;
        out[1] = if self.answer_now { ANSWER_NOW } else { 0 } | if self.short { SHORT } else { 0 };
        out[2..4].copy_from_slice(&self.records.to_le_bytes());
        out[4..8].copy_from_slice(&self.consumed.to_le_bytes());
        out[8..12].copy_from_slice(&self.bytes.to_le_bytes());
        out[12..16].copy_from_slice(&self.clock_ms.to_le_bytes());
        out
    }

    /// Reads the header of a frame that arrived with these bytes, and a tail of `tail` bytes.
    pub(crate) fn decode(frame: &[u8], tail: usize) -> Result<Self, Violation> {
        let (head, _) = frame.split_first_chunk::<FRAME_HEADER>().ok_or(Violation::Frame)?;
        let header = FrameHeader {
            answer_now: head[1] & ANSWER_NOW != 0,
            short: head[1] & SHORT != 0,
            records: u16_at(head, 2),
            consumed: u32_at(head, 4),
            bytes: u32_at(head, 8),
            clock_ms: u32_at(head, 12),
        };
        if head[0] != MARK || header.bytes as usize != frame.len() + tail {
            return Err(Violation::Frame);
        }
        Ok(header)
    }
}

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum RecordKind {
    /// A message without an answer. `mailbox`, `generation`, `ordinal`.
    Tell = 1,
    /// A message with an answer: also `correlation`.
    Ask = 2,
    /// An answer: `correlation`; `ordinal` is 0, or a code instead of an answer.
    Reply = 3,
    /// The next part of the message or answer whose first record had a `total`: `ordinal` says of
    /// which [`Stream`].
    Fragment = 4,
    /// A signal to a mailbox: `mailbox`, `generation`, `ordinal` is the signal; `correlation` is 1
    /// when it takes its turn, and room, as a message does.
    Signal = 5,
    /// Asks for a mailbox: `correlation`; the payload is the request.
    Open = 6,
    /// It is open: `correlation`, `mailbox`, `generation`; the payload is a part of its
    /// description.
    Opened = 7,
    /// It is not: `correlation`; `ordinal` is the cause.
    OpenRefused = 8,
    /// A mailbox closed: `mailbox`, `generation`.
    Closed = 9,
    /// A report of messages taken from a mailbox: `mailbox`, `generation`; `total` messages and
    /// `correlation` bytes in all. With [`ALL_MAILBOXES`]: taken messages that earlier links left
    /// in mailboxes which this one has not opened.
    Window = 10,
    /// The sender waits for a window: `mailbox`, `generation`, or [`ALL_MAILBOXES`].
    Blocked = 11,
    /// A message was refused: `mailbox` is the frame's number, `generation` the record's place,
    /// `ordinal` the cause.
    Refusal = 12,
    /// Padding to the full size of a slot: the first frame of each side. `total` messages and
    /// `correlation` bytes of the peer's still wait here from earlier links.
    Confirm = 13,
    /// Nothing; its frame asks for an answer.
    Probe = 14,
    /// The last record of this side.
    Goodbye = 15,
    /// The asker does not wait any more: `correlation`. It is answered like any other ask.
    Cancel = 16,
    /// The sender of this record posted `total` more receive slots, and so grants as many credits.
    Grant = 17,
    /// A message or an answer of `total` bytes waits here, to be fetched: `ordinal` is the number
    /// of the loan, `mailbox` the number of the queue pair for one-sided access, `generation` and
    /// `correlation` are the key.
    Lend = 18,
    /// A loan was fetched, or will not be: `ordinal` is its number, `total` the cause.
    Fetched = 19,
    /// A message that was fetched is not sent: `ordinal` is the number of its loan.
    Unlent = 20,
}

/// The one of the two fragmented messages that a link carries at a time to which a part belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub(crate) enum Stream {
    /// Tells and asks.
    Messages = 0,
    /// Answers.
    Replies = 1,
}

impl Stream {
    /// Returns the stream of a part, by its record's `ordinal`.
    pub(crate) fn of(ordinal: u16) -> Result<Self, Violation> {
        match ordinal {
            0 => Ok(Stream::Messages),
            1 => Ok(Stream::Replies),
            _ => Err(Violation::Fragment),
        }
    }
}

/// `mailbox` of a [`RecordKind::Blocked`] that waits for the link's window, and of a
/// [`RecordKind::Window`] that is of the link alone.
pub(crate) const ALL_MAILBOXES: u32 = u32::MAX;

impl RecordKind {
    fn of(byte: u8) -> Result<Self, Violation> {
        use RecordKind::*;
        const ALL: [RecordKind; 20] = [
            Tell,
            Ask,
            Reply,
            Fragment,
            Signal,
            Open,
            Opened,
            OpenRefused,
            Closed,
            Window,
            Blocked,
            Refusal,
            Confirm,
            Probe,
            Goodbye,
            Cancel,
            Grant,
            Lend,
            Fetched,
            Unlent,
        ];
        ALL.get((byte as usize).wrapping_sub(1)).copied().ok_or(Violation::Record)
    }
}

/// Record flag: a deadline follows the fixed header.
const DEADLINE: u8 = 1;
/// Record flag: more records of the same kind and correlation follow (a long list).
const MORE: u8 = 2;
/// Record flag: a note follows the deadline, or the place of one.
const NOTE: u8 = 4;
/// Record flag: the bytes of the message were fetched; `total` is the number of their loan.
const LENT: u8 = 8;
/// Record flag: the payload is the tail of the frame, behind all records.
const TAIL: u8 = 16;
/// The place of the note in a header.
const NOTE_AT: usize = RECORD_HEADER_MAX - NOTE_BYTES;

/// The header that every record begins with. Fields that its kind does not use are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RecordHeader {
    pub(crate) kind: RecordKind,
    /// The list goes on in the next record of this kind.
    pub(crate) more: bool,
    /// The bytes of the message were fetched, and `total` is the number of their loan.
    pub(crate) lent: bool,
    /// The payload is the tail of the frame.
    pub(crate) tail: bool,
    /// Bytes of payload in this record.
    pub(crate) payload: u32,
    pub(crate) mailbox: u32,
    pub(crate) generation: u32,
    pub(crate) correlation: u64,
    pub(crate) ordinal: u16,
    /// Bytes of the whole message where this record is only its first part; else 0 (but see
    /// [`RecordKind::Window`]).
    pub(crate) total: u32,
    /// Microseconds the asker still waits.
    pub(crate) deadline_us: Option<u64>,
    /// Bytes of the layer above that travel with a message.
    pub(crate) note: Option<[u8; NOTE_BYTES]>,
}

impl RecordHeader {
    /// Returns a header with nothing but its kind.
    pub(crate) fn new(kind: RecordKind) -> Self {
        RecordHeader {
            kind,
            more: false,
            lent: false,
            tail: false,
            payload: 0,
            mailbox: 0,
            generation: 0,
            correlation: 0,
            ordinal: 0,
            total: 0,
            deadline_us: None,
            note: None,
        }
    }

    /// Returns how many bytes the encoded header has.
    pub(crate) fn len(&self) -> usize {
        match (self.deadline_us, self.note) {
            (_, Some(_)) => RECORD_HEADER_MAX,
            (Some(_), None) => RECORD_HEADER_TIMED,
            (None, None) => RECORD_HEADER,
        }
    }

    /// Writes the header to the front of `out`, which has room for it.
    pub(crate) fn encode(&self, out: &mut [u8]) {
        out[..RECORD_HEADER].copy_from_slice(&self.encoded());
        let len = self.len();
        if len > RECORD_HEADER {
            let us = self.deadline_us.unwrap_or_default();
            out[RECORD_HEADER..len].fill(0);
            out[RECORD_HEADER..RECORD_HEADER + 8].copy_from_slice(&us.to_le_bytes());
        }
        if let Some(note) = self.note {
            out[NOTE_AT..len].copy_from_slice(&note);
        }
    }

    /// Returns the bytes of the header without the optional fields.
    #[inline(always)]
    pub(crate) fn encoded(&self) -> [u8; RECORD_HEADER] {
        let mut head = [0; RECORD_HEADER];
        head[0] = self.kind as u8;
        head[1] = if self.deadline_us.is_some() { DEADLINE } else { 0 }
            | if self.more { MORE } else { 0 }
            | if self.lent { LENT } else { 0 }
            | if self.tail { TAIL } else { 0 }
            | if self.note.is_some() { NOTE } else { 0 };
        head[2..4].copy_from_slice(&(self.len() as u16).to_le_bytes());
        head[4..8].copy_from_slice(&self.payload.to_le_bytes());
        head[8..12].copy_from_slice(&self.mailbox.to_le_bytes());
        head[12..16].copy_from_slice(&self.generation.to_le_bytes());
        head[16..24].copy_from_slice(&self.correlation.to_le_bytes());
        head[24..26].copy_from_slice(&self.ordinal.to_le_bytes());
        head[28..32].copy_from_slice(&self.total.to_le_bytes());
        head
    }

    /// Reads a header and says how long it is.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, usize), Violation> {
        let (head, rest) = bytes.split_first_chunk::<RECORD_HEADER>().ok_or(Violation::Record)?;
        let len = u16_at(head, 2) as usize;
        if len < RECORD_HEADER || !len.is_multiple_of(16) || len > bytes.len() {
            return Err(Violation::Record);
        }
        let has = |flag: u8, bytes: usize| match head[1] & flag != 0 {
            true if len < bytes => Err(Violation::Record),
            has => Ok(has),
        };
        let deadline_us = has(DEADLINE, RECORD_HEADER_TIMED)?.then(|| u64_at(rest, 0));
        let note = has(NOTE, RECORD_HEADER_MAX)?.then(|| array_at(rest, NOTE_AT - RECORD_HEADER));
        let header = RecordHeader {
            kind: RecordKind::of(head[0])?,
            more: head[1] & MORE != 0,
            lent: head[1] & LENT != 0,
            tail: head[1] & TAIL != 0,
            payload: u32_at(head, 4),
            mailbox: u32_at(head, 8),
            generation: u32_at(head, 12),
            correlation: u64_at(head, 16),
            ordinal: u16_at(head, 24),
            total: u32_at(head, 28),
            deadline_us,
            note,
        };
        Ok((header, len))
    }
}

/// Returns how long the first of `records` is, padding included, and where in it its payload lies;
/// it has no optional fields.
#[inline]
pub(crate) fn record_bytes(records: &[u8]) -> (usize, Range<usize>) {
    let end = RECORD_HEADER + u32_at(records, 4) as usize;
    (end.next_multiple_of(16), RECORD_HEADER..end)
}

/// Returns the ordinal of the first of `records`.
#[inline]
pub(crate) fn record_ordinal(records: &[u8]) -> u16 {
    u16_at(records, 24)
}

/// Returns what `header` of a whole tell says that has nothing optional and no answer: the bytes of
/// its payload, its mailbox and generation in one number, and its ordinal.
#[inline(always)]
pub(crate) fn plain_tell(header: &[u8; RECORD_HEADER]) -> Option<(u32, u64, u16)> {
    const FRONT: u32 = (RECORD_HEADER as u32) << 16 | RecordKind::Tell as u32;
    let (front, place) = (u64_at(header, 0), u64_at(header, 8));
    let (correlation, back) = (u64_at(header, 16), u64_at(header, 24));
    let is_plain = front as u32 == FRONT && correlation == 0 && back >> 32 == 0;
    is_plain.then_some(((front >> 32) as u32, place, back as u16))
}

/// Returns the number at `at`; the caller has checked that it is there.
#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

/// Returns the number at `at`; the caller has checked that it is there.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

/// Returns the number at `at`; the caller has checked that it is there.
#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

/// Returns the number at `at`; the caller has checked that it is there.
#[inline]
pub(crate) fn u128_at(bytes: &[u8], at: usize) -> u128 {
    u128::from_le_bytes(array_at(bytes, at))
}

#[inline]
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

const _: () = assert!(RECORD_HEADER.is_multiple_of(16) && RECORD_HEADER_MAX.is_multiple_of(16));
const _: () = assert!(RECORD_HEADER_TIMED.is_multiple_of(16) && NOTE_AT >= RECORD_HEADER + 8);
const _: () = assert!(FRAME_HEADER.is_multiple_of(16));

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_header() -> impl Strategy<Value = RecordHeader> {
        let numbers = (any::<u32>(), any::<u32>(), any::<u64>(), any::<u16>(), any::<u32>());
        let optional = (any::<Option<u64>>(), any::<Option<[u8; NOTE_BYTES]>>());
        let all = (1u8..=20, any::<[bool; 3]>(), any::<u32>(), numbers, optional);
        all.prop_map(|(kind, [more, lent, tail], payload, numbers, (deadline_us, note))| {
            let kind = RecordKind::of(kind).unwrap();
            let (mailbox, generation, correlation, ordinal, total) = numbers;
            RecordHeader {
                kind,
                more,
                lent,
                tail,
                payload,
                mailbox,
                generation,
                correlation,
                ordinal,
                total,
                deadline_us,
                note,
            }
        })
    }

    proptest! {
        #[test]
        fn a_record_header_survives_the_wire(header in any_header()) {
            let mut bytes = [0xff; RECORD_HEADER_MAX];
            header.encode(&mut bytes);
            prop_assert_eq!(RecordHeader::decode(&bytes), Ok((header, header.len())));
            for cut in 0..header.len() {
                prop_assert!(RecordHeader::decode(&bytes[..cut]).is_err());
            }
        }

        #[test]
        fn no_bytes_make_the_decoders_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let _ = FrameHeader::decode(&bytes, 0);
            let _ = RecordHeader::decode(&bytes);
        }
    }

    #[test]
    fn a_plain_tell_is_one_with_nothing_but_place_and_ordinal() {
        let tell = RecordHeader::new(RecordKind::Tell);
        let plain = RecordHeader { payload: 9, mailbox: 7, generation: 3, ordinal: 5, ..tell };
        assert_eq!(plain_tell(&plain.encoded()), Some((9, 3 << 32 | 7, 5)));
        let others = [
            RecordHeader { kind: RecordKind::Signal, ..plain },
            RecordHeader { more: true, ..plain },
            RecordHeader { lent: true, ..plain },
            RecordHeader { correlation: 1, ..plain },
            RecordHeader { total: 1, ..plain },
            RecordHeader { deadline_us: Some(0), ..plain },
            RecordHeader { note: Some([0; NOTE_BYTES]), ..plain },
        ];
        assert!(others.iter().all(|header| plain_tell(&header.encoded()).is_none()));
    }

    #[test]
    fn a_longer_header_of_a_later_version_is_skipped() {
        let mut bytes = [0; 64];
        RecordHeader::new(RecordKind::Probe).encode(&mut bytes);
        bytes[2] = 64;
        assert_eq!(RecordHeader::decode(&bytes).unwrap().1, 64);
        bytes[2] = 40;
        assert_eq!(RecordHeader::decode(&bytes), Err(Violation::Record), "not 16-byte aligned");
    }

    /// A flag that promises more than the header has.
    #[test]
    fn a_header_that_is_too_short_for_its_deadline_or_note_is_a_violation() {
        let header = RecordHeader::new(RecordKind::Tell);
        let noted = RecordHeader { note: Some([7; NOTE_BYTES]), ..header };
        let both = RecordHeader { deadline_us: Some(9), ..noted };
        let cases = [
            (RecordHeader { deadline_us: Some(9), ..header }, &[32][..]),
            (noted, &[32, 48]),
            (both, &[32, 48]),
        ];
        for (header, short) in cases {
            let mut bytes = [0; 80];
            header.encode(&mut bytes);
            assert_eq!(RecordHeader::decode(&bytes), Ok((header, header.len())));
            for len in short {
                bytes[2] = *len;
                assert_eq!(RecordHeader::decode(&bytes), Err(Violation::Record), "{len}");
            }
            bytes[2] = 80;
            assert_eq!(RecordHeader::decode(&bytes), Ok((header, 80)), "of a later version");
        }
    }

    /// A message without a note has the same bytes as before there were notes.
    // Promised in docs/SEMANTICS.md.
    #[test]
    fn a_header_without_a_note_says_nothing_of_one() {
        let tell = RecordHeader { payload: 3, mailbox: 5, ..RecordHeader::new(RecordKind::Tell) };
        let ask = RecordHeader {
            correlation: 7,
            deadline_us: Some(9),
            ..RecordHeader::new(RecordKind::Ask)
        };
        let (mut tell_bytes, mut ask_bytes) = ([0xaa; 64], [0xaa; 64]);
        tell.encode(&mut tell_bytes);
        ask.encode(&mut ask_bytes);
        let mut expected = [0; 32];
        (expected[0], expected[2], expected[4], expected[8]) = (1, 32, 3, 5);
        assert_eq!((&tell_bytes[..32], &tell_bytes[32..]), (&expected[..], &[0xaa; 32][..]));
        let mut expected = [0; 48];
        (expected[0], expected[1], expected[2], expected[16], expected[32]) = (2, 1, 48, 7, 9);
        assert_eq!((&ask_bytes[..48], &ask_bytes[48..]), (&expected[..], &[0xaa; 16][..]));
    }
}
