//! The content of the stream of a data connection: frames, each after a prefix.
//!
//! A prefix is a little-endian number of four bytes: the length of the frame without its tail, and
//! in the two highest bits whether the frame is solicited and whether it has a tail. With a tail,
//! the tail's length follows in four more bytes.

use arrayvec::ArrayVec;

/// Longest prefix, in bytes.
pub(super) const PREFIX_BYTES_MAX: usize = 8;

const SOLICITED: u32 = 1 << 31;
const TAIL: u32 = 1 << 30;

/// The prefix of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Prefix {
    /// Length of the frame without its tail, in bytes.
    pub(super) bytes: u32,
    /// Length of its tail, in bytes; 0 if it has none.
    pub(super) tail: u32,
    /// Wakes a receiver that armed for solicited completions only.
    pub(super) solicited: bool,
}

impl Prefix {
    pub(super) fn encode(self) -> ArrayVec<u8, PREFIX_BYTES_MAX> {
        let solicited = if self.solicited { SOLICITED } else { 0 };
        let tail = if self.tail > 0 { TAIL } else { 0 };
        let first = self.bytes | solicited | tail;
        let number = u64::from(self.tail) << 32 | u64::from(first);
        let mut encoded = ArrayVec::from(number.to_le_bytes());
        if tail == 0 {
            encoded.truncate(PREFIX_BYTES_MAX / 2);
        }
        encoded
    }

    /// Returns the prefix at the front of `bytes`, and its length; `None` if it is not whole. Its
    /// lengths are to be checked.
    pub(super) fn decode(bytes: &[u8]) -> Option<(Self, usize)> {
        let number = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes);
        let (first, rest) = bytes.split_first_chunk()?;
        let first = number(first);
        let has_tail = first & TAIL != 0;
        let tail = if has_tail { number(rest.first_chunk()?) } else { 0 };
        let len = if has_tail { PREFIX_BYTES_MAX } else { PREFIX_BYTES_MAX / 2 };
        let bytes = first & !(SOLICITED | TAIL);
        Some((Prefix { bytes, tail, solicited: first & SOLICITED != 0 }, len))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_prefix_is_read_back(
            bytes in 0..TAIL,
            tail in prop_oneof![Just(0), any::<u32>()],
            solicited: bool,
        ) {
            let prefix = Prefix { bytes, tail, solicited };
            let encoded = prefix.encode();
            let len = encoded.len();
            prop_assert_eq!(Prefix::decode(&encoded), Some((prefix, len)));
            prop_assert_eq!(Prefix::decode(&encoded[..len - 1]), None);
        }
    }
}
