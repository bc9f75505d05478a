//! The frame that the floors send over a socket: a header of 16 bytes and a payload.

use std::io;

/// Bytes of a header.
pub(crate) const HEADER: usize = 16;

/// Bytes from which on a payload is not copied together with others.
pub(crate) const LARGE: usize = 64 << 10;

/// Longest payload that is taken.
const PAYLOAD_MAX: usize = 1 << 30;

/// The request that a frame makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Counts it; no answer.
    Tell,
    /// Asks for the same payload.
    Echo,
    /// Asks for the length of the payload.
    Weigh,
    /// Asks for the number of tells so far.
    Handled,
    /// Answers another frame.
    Answer,
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// A number that the asker chooses; the answer has the same.
    pub(crate) id: u32,
    pub(crate) payload: usize,
}

impl Header {
    pub(crate) fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0] = self.kind as u8;
        bytes[4..8].copy_from_slice(&self.id.to_le_bytes());
        bytes[8..].copy_from_slice(&(self.payload as u64).to_le_bytes());
        bytes
    }

    /// Returns the number that answers the frame, if it asks for one. `handled` counts earlier
    /// tells.
    pub(crate) fn number(&self, handled: u64) -> Option<[u8; 8]> {
        let number = match self.kind {
            Kind::Weigh => self.payload as u64,
            Kind::Handled => handled,
            Kind::Tell | Kind::Echo | Kind::Answer => return None,
        };
        Some(number.to_le_bytes())
    }

    /// Reads a header from the start of `bytes`. Returns `None` when not all of it is there yet.
    pub(crate) fn read(bytes: &[u8]) -> io::Result<Option<Self>> {
        let Some((bytes, _)) = bytes.split_first_chunk::<HEADER>() else { return Ok(None) };
        let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let kinds = [Kind::Tell, Kind::Echo, Kind::Weigh, Kind::Handled, Kind::Answer];
        let kind = kinds.into_iter().find(|kind| *kind as u8 == bytes[0]);
        let id = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let length = bytes[8..].iter().rev().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
        let payload = usize::try_from(length).ok().filter(|length| *length <= PAYLOAD_MAX);
        Ok(Some(Header {
            kind: kind.ok_or_else(|| invalid("a frame of no known kind"))?,
            id,
            payload: payload.ok_or_else(|| invalid("a frame that is too long"))?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        for kind in [Kind::Tell, Kind::Echo, Kind::Weigh, Kind::Handled, Kind::Answer] {
            let header = Header { kind, id: 0xfedc_ba98, payload: 64 << 20 };
            assert_eq!(Header::read(&header.to_bytes()).unwrap(), Some(header));
        }
        assert_eq!(Header::read(&[0; HEADER - 1]).unwrap(), None);
        assert!(Header::read(&[0xff; HEADER]).is_err());
    }
}
