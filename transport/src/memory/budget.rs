//! The memory that a node's links may take beyond what each starts with.
//!
//! - **ME-7 shared growth**: of a [`Budget`] a link takes at most as much as it leaves to others.
//!   Each of eight links with rings of the largest size finds enough, and each later one half of
//!   what is left, however greedy those before it are. Bytes that were taken come back when their
//!   memory is freed, which leased slots delay beyond the end of their link.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that all links of a node share. Created with the node; links take of it when their rings
/// grow.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: u64,
    left: AtomicU64,
}

impl Budget {
    pub(crate) fn new(bytes: u64) -> Self {
        Budget { bytes, left: AtomicU64::new(bytes) }
    }

    /// Returns how many bytes are taken now.
    pub(crate) fn taken(&self) -> u64 {
        self.bytes - self.left.load(Ordering::Relaxed)
    }

    /// Takes so many bytes for a link that took `earlier` before, if as much as it has then is left
    /// (ME-7). Relaxed: the number stands for nothing but itself.
    pub(crate) fn take(self: &Arc<Self>, bytes: u64, earlier: u64) -> Option<BudgetShare> {
        let own = earlier.checked_add(bytes)?;
        let less = |left: u64| left.checked_sub(bytes).filter(|left| *left >= own);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok()?;
        Some(BudgetShare { budget: self.clone(), bytes })
    }
}

/// Bytes that were taken from a budget, and go back to it when this is dropped: kept with the
/// memory that they stand for.
#[derive(Debug)]
pub(crate) struct BudgetShare {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.budget.left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// ME-7: whatever links take and give back, the sum is exact and within the budget, none
        /// takes more than it leaves, and a link that has nothing finds half of what is left.
        #[test]
        fn a_link_leaves_others_as_much_as_it_takes(
            bytes in 0u64..10_000,
            steps in proptest::collection::vec((0usize..12, 0u64..4_000, any::<bool>()), 0..200),
        ) {
            let budget = Arc::new(Budget::new(bytes));
            let mut links: [Vec<BudgetShare>; 12] = Default::default();
            let sum = |of: &[BudgetShare]| of.iter().map(|taken| taken.bytes).sum::<u64>();
            for (link, more, ends) in steps {
                if ends {
                    links[link].clear();
                }
                let (left, own) = (bytes - budget.taken(), sum(&links[link]));
                let taken = budget.take(more, own);
                prop_assert_eq!(taken.is_some(), own + 2 * more <= left);
                links[link].extend(taken);
                prop_assert_eq!(budget.taken(), links.iter().map(|own| sum(own)).sum::<u64>());
                prop_assert!(budget.taken() <= bytes);
            }
        }
    }
}
