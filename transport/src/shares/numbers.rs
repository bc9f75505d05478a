//! The numbers of shares, which a node recognises when they come back.

use std::collections::VecDeque;

use crate::cause::NotShared;
use crate::entropy::Entropy;
use crate::id::ShareId;
use crate::limits::LEASES_REVOKED_KEPT;
use crate::noise;

/// Bits of a number that count the shares of its node, and say in the last bit whether it is of a
/// lease. The others prove that the node gave it.
const COUNT_BITS: u32 = 40;

/// Gives the numbers of a node's shares, and says of other numbers why they lead to no share
/// (SM-4). It is under the lock of the shares.
pub(super) struct Numbers {
    entropy: Entropy,
    key: [u8; 32],
    given: u64,
    /// The last leases that were revoked before their time, by their counts.
    revoked: VecDeque<u64>,
}

impl Numbers {
    pub(super) fn new(entropy: Entropy) -> Self {
        let mut key = [0; 32];
        entropy.fill(&mut key);
        Numbers { entropy, key, given: 0, revoked: VecDeque::new() }
    }

    /// Returns a number that was not given before.
    pub(super) fn give(&mut self, is_lease: bool) -> ShareId {
        if self.given >> (COUNT_BITS - 1) > 0 {
            // Those of the old key are unknown when they end.
            *self = Numbers::new(self.entropy.clone());
        }
        let count = self.given << 1 | u64::from(is_lease);
        self.given += 1;
        self.number(count)
    }

    /// Takes note that a lease was revoked before its time.
    pub(super) fn note_revoked(&mut self, id: ShareId) {
        self.revoked.truncate(LEASES_REVOKED_KEPT - 1);
        self.revoked.push_front(count_of(id));
    }

    /// Returns the reason why a number is of no share (any more).
    pub(super) fn ended(&self, id: ShareId) -> NotShared {
        let count = count_of(id);
        if count >> 1 >= self.given || self.number(count) != id {
            NotShared::Unknown
        } else if count & 1 == 0 || self.revoked.contains(&count) {
            NotShared::Revoked
        } else {
            NotShared::Expired
        }
    }

    fn number(&self, count: u64) -> ShareId {
        let hash = noise::hash(&[&self.key, &count.to_le_bytes()]);
        let proof = hash.iter().take(16).fold(0, |proof, byte| proof << 8 | u128::from(*byte));
        ShareId(proof << COUNT_BITS | u128::from(count))
    }
}

fn count_of(id: ShareId) -> u64 {
    (id.0 & ((1 << COUNT_BITS) - 1)) as u64
}
