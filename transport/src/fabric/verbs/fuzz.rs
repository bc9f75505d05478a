//! Offers of a peer that says anything.

use super::offer::{Offer, ways};
use super::one_sided::FuzzedOffer;

/// Reads `input` as the peer's offer, and pairs its addresses with themselves; then as one of
/// one-sided access.
pub fn offers(input: &[u8]) {
    if let Ok(offer) = Offer::decode(input) {
        // VB-4: a decoded offer encodes to the same bytes.
        assert_eq!(offer.encode(), input);
        for way in ways(&offer, &offer) {
            let count = offer.addresses.len();
            assert!(way.dialler < count && way.acceptor < count && (1..=5).contains(&way.mtu));
        }
    }
    if let Ok(offer) = FuzzedOffer::decode(input) {
        assert_eq!(offer.encode(), input);
    }
}
