//! The memory that a node's links may take beyond what each starts with.
//!
//! Of a [`Budget`] a link takes at most as much as it leaves to others. Each of eight links with
//! rings of the largest size finds enough, and each later one half of the rest, however greedy the
//! earlier ones are. Bytes come back when their memory is freed, which leased slots delay beyond
//! the end of their link. If each peer has an [`Account`] of a budget, a peer that has nothing may
//! take all that is left, and its bytes count for it whichever of its links took them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that all links of a node share. Created with the node; links take of it when their rings
/// grow.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: u64,
    left: AtomicU64,
    /// How often a request was refused.
    refused: AtomicU64,
}

impl Budget {
    pub(crate) fn new(bytes: u64) -> Self {
        Budget { bytes, left: AtomicU64::new(bytes), refused: AtomicU64::new(0) }
    }

    /// Returns how many bytes there are in all.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns how many bytes are taken now.
    pub(crate) fn taken(&self) -> u64 {
        self.bytes - self.left.load(Ordering::Relaxed)
    }

    /// Takes `bytes` bytes for a link that took `earlier` before, if at least as much as it then
    /// has is left. Relaxed: the number stands for nothing but itself.
    pub(crate) fn take(self: &Arc<Self>, bytes: u64, earlier: u64) -> Option<BudgetShare> {
        let own = earlier.checked_add(bytes)?;
        self.take_or_note(bytes, |left| left >= own)
    }

    /// Returns how often a request was refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn take_or_note(
        self: &Arc<Self>,
        bytes: u64,
        may_leave: impl Fn(u64) -> bool,
    ) -> Option<BudgetShare> {
        let taken = self.take_if(bytes, may_leave);
        if taken.is_none() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    fn take_if(
        self: &Arc<Self>,
        bytes: u64,
        may_leave: impl Fn(u64) -> bool,
    ) -> Option<BudgetShare> {
        let less = |left: u64| left.checked_sub(bytes).filter(|left| may_leave(*left));
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok()?;
        Some(BudgetShare { budget: self.clone(), account: None, bytes })
    }
}

/// The bytes of a budget that one peer has, over one link after the other and one queue pair after
/// the other. Its clones are the same account.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    budget: Arc<Budget>,
    taken: Arc<AtomicU64>,
}

impl Account {
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Account { budget: budget.clone(), taken: Arc::default() }
    }

    /// Returns how many bytes the peer has.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Returns the budget that it is of.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Takes `bytes` bytes as [`Budget::take`] does; a peer that has none may take all that is
    /// left.
    pub(crate) fn take(&self, bytes: u64) -> Option<BudgetShare> {
        self.take_beside(bytes, 0)
    }

    /// Takes bytes as [`take`](Self::take) does, but does not count `free` of the peer's bytes.
    pub(crate) fn take_beside(&self, bytes: u64, free: u64) -> Option<BudgetShare> {
        let earlier = self.taken().saturating_sub(free);
        let share = match earlier {
            0 => self.budget.take_or_note(bytes, |_| true),
            _ => self.budget.take(bytes, earlier),
        };
        share.map(|share| self.note(share))
    }

    /// Takes `bytes` bytes if as much as the peer then has is left to others. A refusal is not
    /// counted: no memory is freed for it.
    pub(crate) fn take_spare(&self, bytes: u64) -> Option<BudgetShare> {
        let own = self.taken().checked_add(bytes)?;
        self.budget.take_if(bytes, |left| left >= own).map(|share| self.note(share))
    }

    fn note(&self, mut share: BudgetShare) -> BudgetShare {
        self.taken.fetch_add(share.bytes, Ordering::Relaxed);
        share.account = Some(self.taken.clone());
        share
    }
}

/// Bytes that were taken from a budget, and go back to it when this is dropped: kept with the
/// memory that they stand for.
#[derive(Debug)]
pub(crate) struct BudgetShare {
    budget: Arc<Budget>,
    /// The count of the account that took them.
    account: Option<Arc<AtomicU64>>,
    bytes: u64,
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        if let Some(account) = &self.account {
            account.fetch_sub(self.bytes, Ordering::Relaxed);
        }
        self.budget.left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever links take and give back, the sum is exact and within the budget, none takes
        /// more than it leaves, and a link that has nothing finds half of the rest.
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

        /// Accounts: whatever peers take and give back, each account has the bytes of its
        /// shares, and an account that has some leaves as much to the others.
        #[test]
        fn an_account_leaves_others_as_much_as_it_has(
            bytes in 1u64..10_000,
            steps in proptest::collection::vec((0usize..5, 1u64..4_000, 0usize..8), 0..200),
        ) {
            let budget = Arc::new(Budget::new(bytes));
            let accounts: [Account; 5] = std::array::from_fn(|_| Account::new(&budget));
            let mut held: [Vec<BudgetShare>; 5] = Default::default();
            for (peer, more, ends) in steps {
                if ends < held[peer].len() {
                    held[peer].swap_remove(ends);
                }
                let (left, own) = (bytes - budget.taken(), accounts[peer].taken());
                // Another link of the same peer.
                let (account, refused) = (accounts[peer].clone(), budget.refused());
                let is_spare = ends == 7;
                let taken = if is_spare { account.take_spare(more) } else { account.take(more) };
                let takes_all = own == 0 && !is_spare;
                let fits = if takes_all { more <= left } else { own + 2 * more <= left };
                prop_assert_eq!(taken.is_some(), fits);
                prop_assert_eq!(budget.refused() - refused, u64::from(!fits && !is_spare));
                held[peer].extend(taken);
                let sums = held.each_ref().map(|of| of.iter().map(|it| it.bytes).sum::<u64>());
                prop_assert_eq!(sums, accounts.each_ref().map(Account::taken));
                prop_assert_eq!(budget.taken(), sums.iter().sum::<u64>());
            }
            drop(held);
            prop_assert_eq!((budget.taken(), accounts[0].taken()), (0, 0));
        }
    }
}
