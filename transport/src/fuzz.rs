//! The readers of a peer's bytes, as functions that take any bytes and never panic: the bodies of
//! `tests/run fuzz`, and of property tests here. The first bytes of each say how to begin.

pub use crate::bootstrap::fuzz::{handshakes, messages};
pub use crate::fabric::tcp::fuzz::{seals, streams};
#[cfg(feature = "verbs")]
pub use crate::fabric::verbs::fuzz::offers;
pub use crate::proto::fuzz::frames;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn no_bytes_of_a_peer_make_their_reader_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
        ) {
            frames(&bytes);
            messages(&bytes);
            streams(&bytes);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_of_a_stranger_make_a_handshake_panic_or_pass_a_seal(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
        ) {
            handshakes(&bytes);
            seals(&bytes);
        }
    }
}
