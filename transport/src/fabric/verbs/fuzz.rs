//! Offers of a peer that says anything.

use super::offer::{Offer, choose};

/// Reads `input` as the peer's offer, and chooses a pair of addresses from it and itself.
pub fn offers(input: &[u8]) {
    if let Ok(offer) = Offer::decode(input) {
        // VB-4: what is read is what is said.
        assert_eq!(offer.encode(), input);
        if let Some((ours, theirs)) = choose(&offer, &offer) {
            assert!(ours < offer.addresses.len() && theirs < offer.addresses.len());
        }
    }
}
