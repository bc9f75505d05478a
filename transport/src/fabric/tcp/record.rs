//! The content of the stream of a data connection: records of eight bytes, a frame's bytes after
//! its record.
//!
//! | bytes | what |
//! |---|---|
//! | 0 | kind: 1 frame, 2 accepted, 3 refused, 4 again, 5 acknowledge |
//! | 1 | frame: 1 when solicited, plus 2 when to be acknowledged; refused: the reason; else 0 |
//! | 2..4 | zero |
//! | 4..8 | little-endian; frame: its length; accepted: how many; else 0 |

/// Length of a record, in bytes.
pub(super) const RECORD_BYTES: usize = 8;

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Record {
    /// A frame follows.
    Frame {
        /// Its length.
        bytes: u32,
        /// Wakes a receiver that armed for solicited completions only.
        solicited: bool,
        /// Asks for what [`Record::Acknowledge`] asks for, once the frame is accepted.
        acknowledge: bool,
    },
    /// More frames met a receive that they fit.
    Accepted {
        /// How many, at least one.
        count: u32,
    },
    /// The oldest frame that was not accepted is refused, and every frame after it is skipped
    /// until [`Record::Again`].
    Refused(Refusal),
    /// The frames that follow start again at the refused one.
    Again,
    /// Asks for an acknowledgement now, and not only with the next frame.
    Acknowledge,
}

/// Flags of a frame.
const SOLICITED: u8 = 1;
const ACKNOWLEDGE: u8 = 2;

/// Why a frame was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It found no receive (PV-5).
    NotReady,
    /// It found a receive that is too short (PV-6); the refusing queue pair has ended.
    TooLong,
}

impl Record {
    pub(super) fn encode(self) -> [u8; RECORD_BYTES] {
        let (kind, flag, value) = match self {
            Record::Frame { bytes, solicited, acknowledge } => {
                let solicited = if solicited { SOLICITED } else { 0 };
                let acknowledge = if acknowledge { ACKNOWLEDGE } else { 0 };
                (1, solicited | acknowledge, bytes)
            }
            Record::Accepted { count } => (2, 0, count),
            Record::Refused(Refusal::NotReady) => (3, 1, 0),
            Record::Refused(Refusal::TooLong) => (3, 2, 0),
            Record::Again => (4, 0, 0),
            Record::Acknowledge => (5, 0, 0),
        };
        let [a, b, c, d] = value.to_le_bytes();
        [kind, flag, 0, 0, a, b, c, d]
    }

    /// `None` when the bytes are no record.
    pub(super) fn decode(record: &[u8; RECORD_BYTES]) -> Option<Self> {
        let [kind, flag, 0, 0, a, b, c, d] = *record else { return None };
        match (kind, flag, u32::from_le_bytes([a, b, c, d])) {
            (1, 0..=3, bytes) => Some(Record::Frame {
                bytes,
                solicited: flag & SOLICITED != 0,
                acknowledge: flag & ACKNOWLEDGE != 0,
            }),
            (2, 0, count @ 1..) => Some(Record::Accepted { count }),
            (3, 1, 0) => Some(Record::Refused(Refusal::NotReady)),
            (3, 2, 0) => Some(Record::Refused(Refusal::TooLong)),
            (4, 0, 0) => Some(Record::Again),
            (5, 0, 0) => Some(Record::Acknowledge),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_decoded_is_what_was_encoded(
            kind in 0..7u8,
            flag in 0..5u8,
            zero in 0..2u8,
            value in prop_oneof![0..3u32, any::<u32>()],
        ) {
            let [a, b, c, d] = value.to_le_bytes();
            let bytes = [kind, flag, 0, zero, a, b, c, d];
            if let Some(record) = Record::decode(&bytes) {
                prop_assert_eq!(record.encode(), bytes);
            }
        }
    }

    #[test]
    fn every_record_is_read_back() {
        for record in [
            Record::Frame { bytes: 0, solicited: false, acknowledge: false },
            Record::Frame { bytes: 1, solicited: false, acknowledge: true },
            Record::Frame { bytes: u32::MAX, solicited: true, acknowledge: false },
            Record::Frame { bytes: u32::MAX, solicited: true, acknowledge: true },
            Record::Accepted { count: 1 },
            Record::Refused(Refusal::NotReady),
            Record::Refused(Refusal::TooLong),
            Record::Again,
            Record::Acknowledge,
        ] {
            assert_eq!(Record::decode(&record.encode()), Some(record));
        }
    }
}
