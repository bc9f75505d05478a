//! The offer of each side of a queue pair for one-sided access: how many reads the side's devices
//! serve at once for a peer, then an offer as for frames.

use crate::fabric::FabricError;
#[cfg(test)]
use crate::fabric::verbs::offer::Address;
use crate::fabric::verbs::offer::Offer;
use crate::limits::VERBS_READS_MAX;

/// The first bytes of every such offer.
const MAGIC: [u8; 3] = *b"RO\x01";

/// The offer of one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::fabric::verbs) struct OneSidedOffer {
    /// Reads and atomic operations of the peer that may be under way: 1 to [`VERBS_READS_MAX`].
    pub(super) reads: u8,
    pub(super) offer: Offer,
}

impl OneSidedOffer {
    /// Returns how many of `own` reads a side that is made this offer may have under way: a power
    /// of two, since devices round other numbers.
    pub(super) fn takes(&self, own: u8) -> u8 {
        let most = own.min(self.reads);
        most.checked_ilog2().map_or(0, |log| 1 << log)
    }

    /// Returns the first address, for a test that puts another queue pair there.
    #[cfg(test)]
    pub(in crate::fabric::verbs) fn address(&mut self) -> &mut Address {
        &mut self.offer.addresses[0]
    }

    pub(in crate::fabric::verbs) fn encode(&self) -> Vec<u8> {
        [&MAGIC[..], &[self.reads], &self.offer.encode()].concat()
    }

    /// # Errors
    /// [`FabricError::Offer`] when the bytes are not such an offer, with all of its numbers in
    /// range.
    pub(in crate::fabric::verbs) fn decode(bytes: &[u8]) -> Result<Self, FabricError> {
        let wrong = FabricError::Offer("it is not one of one-sided access by verbs");
        let Some((&[magic @ .., reads], offer)) = bytes.split_first_chunk::<4>() else {
            return Err(wrong);
        };
        if magic != MAGIC {
            return Err(wrong);
        }
        if !(1..=VERBS_READS_MAX).contains(&reads) {
            return Err(FabricError::Offer("its number of reads is out of range"));
        }
        let offer = Offer::decode(offer)?;
        if !offer.avoid.is_empty() {
            return Err(FabricError::Offer("it names ways to avoid"));
        }
        Ok(OneSidedOffer { reads, offer })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fabric::verbs::offer::Kind;
    use crate::limits::{OFFER_BYTES_MAX, VERBS_ADDRESSES_MAX};

    fn fullest() -> OneSidedOffer {
        let address = Address {
            kind: Kind::RoceV6,
            gid: [0xfd; 16],
            lid: u16::MAX,
            prefix: 64,
            mtu: 5,
            on_the_way: true,
            rail: 3,
            pkey: 0xffff,
            queue_pair: 0xff_ffff,
            first_packet: 0xff_ffff,
        };
        let addresses = vec![address; VERBS_ADDRESSES_MAX];
        let offer = Offer { dialled: [1; 16], addresses, avoid: Vec::new() };
        OneSidedOffer { reads: VERBS_READS_MAX, offer }
    }

    #[test]
    fn the_fullest_offer_fits_and_comes_back() {
        let all = fullest();
        let bytes = all.encode();
        assert!(bytes.len() <= OFFER_BYTES_MAX, "{}", bytes.len());
        assert_eq!(OneSidedOffer::decode(&bytes).unwrap(), all);
        Offer::decode(&bytes).expect_err("no queue pair for frames is connected with one of these");
        OneSidedOffer::decode(&all.offer.encode()).unwrap_err();
    }

    /// An offer of no reads, of more than any side offers, or with ways to avoid, is refused.
    #[test]
    fn numbers_out_of_range_are_refused() {
        for reads in [0, VERBS_READS_MAX + 1, u8::MAX] {
            let offer = OneSidedOffer { reads, ..fullest() };
            let refused = OneSidedOffer::decode(&offer.encode()).unwrap_err().to_string();
            assert!(refused.contains("number of reads"), "{refused}");
        }
        let mut avoiding = fullest();
        avoiding.offer.addresses.truncate(1);
        avoiding.offer.avoid = vec![7];
        OneSidedOffer::decode(&avoiding.encode()).unwrap_err();
    }

    #[test]
    fn reads_under_way_are_a_power_of_two_that_both_sides_can_do() {
        let takes = |own, reads| OneSidedOffer { reads, ..fullest() }.takes(own);
        let taken = [(16, 16), (16, 5), (3, 16), (1, 1), (7, 9)].map(|(a, b)| takes(a, b));
        assert_eq!(taken, [16, 4, 2, 1, 4]);
    }

    proptest! {
        /// VB-4: any bytes are refused, or decode to an offer that encodes to the same bytes.
        #[test]
        fn any_bytes_are_refused_or_in_range(
            tail in proptest::collection::vec(any::<u8>(), 0..260),
            cut in 0..260usize,
            (place, byte) in (0..223usize, any::<u8>()),
        ) {
            let mut changed = fullest().encode();
            let place = place % changed.len();
            changed[place] = byte;
            let headed = [&MAGIC[..], &tail].concat();
            for bytes in [&tail[..], &headed, &changed, &changed[..cut.min(changed.len())]] {
                if let Ok(offer) = OneSidedOffer::decode(bytes) {
                    assert!((1..=VERBS_READS_MAX).contains(&offer.reads));
                    assert_eq!(offer.encode(), bytes);
                }
            }
        }
    }
}
