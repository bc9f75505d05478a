//! Offers of a peer that says anything.

use super::offer::{Offer, pairs};

/// Reads `input` as the peer's offer, and pairs its addresses with themselves.
pub fn offers(input: &[u8]) {
    if let Ok(offer) = Offer::decode(input) {
        // VB-4: what is read is what is said.
        assert_eq!(offer.encode(), input);
        for (ours, theirs) in pairs(&offer, &offer) {
            assert!(ours < offer.addresses.len() && theirs < offer.addresses.len());
        }
    }
}
