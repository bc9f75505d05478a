//! The content of the stream of a data connection: frames, each after a prefix of four bytes.
//!
//! A prefix is a little-endian number: the length of the frame in bytes, and in the highest bit
//! whether the frame is solicited.

/// Length of a prefix, in bytes.
pub(super) const PREFIX_BYTES: usize = 4;

const SOLICITED: u32 = 1 << 31;

/// The prefix of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Prefix {
    /// Length of the frame, in bytes.
    pub(super) bytes: u32,
    /// Wakes a receiver that armed for solicited completions only.
    pub(super) solicited: bool,
}

impl Prefix {
    pub(super) fn encode(self) -> [u8; PREFIX_BYTES] {
        let solicited = if self.solicited { SOLICITED } else { 0 };
        (self.bytes | solicited).to_le_bytes()
    }

    /// The length is to be checked: it may be anything below 2 GiB.
    pub(super) fn decode(prefix: [u8; PREFIX_BYTES]) -> Self {
        let number = u32::from_le_bytes(prefix);
        Prefix { bytes: number & !SOLICITED, solicited: number & SOLICITED != 0 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_prefix_is_read_back(bytes: [u8; PREFIX_BYTES]) {
            prop_assert_eq!(Prefix::decode(bytes).encode(), bytes);
        }
    }
}
