//! The frames of an emulated queue pair: a request for each piece of an operation, and for each
//! request one answer, in the order of the requests.
//!
//! | bytes | request | answer |
//! |---|---|---|
//! | 0 | kind | kind |
//! | 1..4 | zero | zero |
//! | 4..8 | bytes of the operation | bytes of the piece |
//! | 8..16 | first byte of the operation | old word of an atomic operation |
//! | 16..20, 20..24 | number of the key; the notice | - |
//! | 24..32 | base of the key | - |
//! | 32..40, 40..48 | number to add, or expected word; new word | - |
//! | 48..52, 52..56 | where in the operation the piece begins; its bytes | - |
//! | then | bytes to write | bytes read |
//!
//! All numbers are little-endian. The kinds of requests: 1 read, 2 write, 3 write with a notice, 4
//! fetch and add, 5 compare and swap; of answers: 16 done, 17 forbidden, 18 no place for a notice.
//! Each piece names the whole operation, so that a forbidden operation is refused with its first
//! piece (PV-18).

use super::grants::Wanted;
use super::{Key, Kind};

/// Bytes before the piece of a request.
pub(super) const REQUEST_BYTES: usize = 56;
/// Bytes before the piece of an answer.
pub(super) const ANSWER_BYTES: usize = 16;

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    /// The whole operation.
    pub(super) wanted: Wanted,
    /// Where in it this piece begins, and its length; it ends within the operation.
    pub(super) from: u32,
    pub(super) piece: u32,
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The piece is done: the number of bytes read, and the old word of an atomic operation.
    Done { bytes: u32, word: u64 },
    /// The operation is forbidden, and the queue pair has ended (PV-18).
    Forbidden,
    /// There is no place for the notice, and the queue pair has ended (PV-17).
    NoPlace,
}

impl Request {
    /// Returns the number of bytes to write that follow it.
    pub(super) fn payload(&self) -> usize {
        if self.wanted.kind.writes() { self.piece as usize } else { 0 }
    }

    /// Returns true if it is the last piece of its operation.
    pub(super) fn is_last(&self) -> bool {
        self.from + self.piece == self.wanted.bytes
    }

    /// Returns the part of the operation that this piece asks for.
    pub(super) fn wanted_piece(&self) -> Wanted {
        let at = self.wanted.at.saturating_add(self.from.into());
        Wanted { at, bytes: self.piece, ..self.wanted }
    }

    /// Writes it to the front of `frame`.
    pub(super) fn encode(&self, frame: &mut [u8]) {
        let Wanted { kind, key, at, bytes } = self.wanted;
        let (kind, notice, words) = match kind {
            Kind::Read => (1, 0, [0; 2]),
            Kind::Write => (2, 0, [0; 2]),
            Kind::WriteAndNotify(notice) => (3, notice, [0; 2]),
            Kind::FetchAdd(more) => (4, 0, [more, 0]),
            Kind::CompareAndSwap { expected, new } => (5, 0, [expected, new]),
        };
        frame[..4].copy_from_slice(&[kind, 0, 0, 0]);
        frame[4..8].copy_from_slice(&bytes.to_le_bytes());
        frame[8..16].copy_from_slice(&at.to_le_bytes());
        frame[16..20].copy_from_slice(&key.number.to_le_bytes());
        frame[20..24].copy_from_slice(&notice.to_le_bytes());
        frame[24..32].copy_from_slice(&key.base.to_le_bytes());
        frame[32..40].copy_from_slice(&words[0].to_le_bytes());
        frame[40..48].copy_from_slice(&words[1].to_le_bytes());
        frame[48..52].copy_from_slice(&self.from.to_le_bytes());
        frame[52..56].copy_from_slice(&self.piece.to_le_bytes());
    }

    /// Reads a frame; `None` if it is no request, or not as long as that says.
    pub(super) fn decode(frame: &[u8]) -> Option<Self> {
        let (head, piece) = frame.split_first_chunk::<REQUEST_BYTES>()?;
        let half = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
        let word = |at: usize| Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?));
        let kind = match head[0] {
            _ if head[1..4] != [0; 3] => return None,
            1 => Kind::Read,
            2 => Kind::Write,
            3 => Kind::WriteAndNotify(half(20)?),
            4 => Kind::FetchAdd(word(32)?),
            5 => Kind::CompareAndSwap { expected: word(32)?, new: word(40)? },
            _ => return None,
        };
        let key = Key { number: half(16)?, base: word(24)? };
        let wanted = Wanted { kind, key, at: word(8)?, bytes: half(4)? };
        let request = Request { wanted, from: half(48)?, piece: half(52)? };
        let is_within = request.from.checked_add(request.piece)? <= wanted.bytes;
        let is_whole = request.payload() == piece.len();
        let is_one_word = wanted.bytes == 8 && request.piece == 8;
        (is_within && is_whole && (!kind.is_atomic() || is_one_word)).then_some(request)
    }
}

impl Answer {
    /// Returns the number of bytes read that follow it.
    pub(super) fn payload(&self) -> usize {
        if let Answer::Done { bytes, .. } = self { *bytes as usize } else { 0 }
    }

    /// Writes it to the front of `frame`.
    pub(super) fn encode(&self, frame: &mut [u8]) {
        let (kind, bytes, word) = match *self {
            Answer::Done { bytes, word } => (16, bytes, word),
            Answer::Forbidden => (17, 0, 0),
            Answer::NoPlace => (18, 0, 0),
        };
        frame[..4].copy_from_slice(&[kind, 0, 0, 0]);
        frame[4..8].copy_from_slice(&bytes.to_le_bytes());
        frame[8..16].copy_from_slice(&word.to_le_bytes());
    }

    /// Reads a frame; `None` if it is no answer, or not as long as that says.
    pub(super) fn decode(frame: &[u8]) -> Option<Self> {
        let (head, piece) = frame.split_first_chunk::<ANSWER_BYTES>()?;
        let (head, word) = head.split_first_chunk::<8>()?;
        let (kind, bytes) = head.split_first_chunk::<4>()?;
        let bytes = u32::from_le_bytes(bytes.try_into().ok()?);
        let word = u64::from_le_bytes(word.try_into().ok()?);
        let answer = match (kind, bytes, word) {
            ([16, 0, 0, 0], ..) => Answer::Done { bytes, word },
            ([17, 0, 0, 0], 0, 0) => Answer::Forbidden,
            ([18, 0, 0, 0], 0, 0) => Answer::NoPlace,
            _ => return None,
        };
        (answer.payload() == piece.len()).then_some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_as_they_were() {
        let kinds = [
            Kind::Read,
            Kind::Write,
            Kind::WriteAndNotify(0x0403_0201),
            Kind::FetchAdd(u64::MAX - 1),
            Kind::CompareAndSwap { expected: 1 << 60, new: 3 },
        ];
        for kind in kinds {
            let key = Key { number: 77, base: 1 << 47 };
            let wanted = Wanted { kind, key, at: 0x0102_0304_0506, bytes: 8 };
            for (from, piece) in [(0, 8), (0, 3), (3, 5), (8, 0)] {
                let request = Request { wanted, from, piece };
                if kind.is_atomic() && piece != 8 {
                    continue;
                }
                assert_eq!(request.is_last(), from + piece == 8);
                let mut frame = vec![9; REQUEST_BYTES + request.payload()];
                request.encode(&mut frame);
                assert_eq!(Request::decode(&frame), Some(request));
                assert_eq!(Answer::decode(&frame), None);
                frame.push(0);
                assert_eq!(Request::decode(&frame), None, "a byte too long");
                assert_eq!(Request::decode(&frame[..REQUEST_BYTES - 1]), None);
                let beyond = Request { from: from + 1, ..request };
                beyond.encode(&mut frame);
                frame.truncate(REQUEST_BYTES + request.payload());
                assert_eq!(Request::decode(&frame).is_some(), from + piece < 8, "beyond its end");
            }
        }
        for answer in [Answer::Done { bytes: 5, word: 1 << 63 }, Answer::Forbidden, Answer::NoPlace]
        {
            let mut frame = vec![9; ANSWER_BYTES + answer.payload()];
            answer.encode(&mut frame);
            assert_eq!(Answer::decode(&frame), Some(answer));
            assert_eq!(Request::decode(&frame), None);
            assert_eq!(Answer::decode(&frame[..frame.len() - 1]), None);
        }
    }
}
