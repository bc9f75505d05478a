//! Accounts of what a peer has waiting in the mailboxes of this node: a message counts once,
//! whatever link, and whatever run of the peer, it came by.
//!
//! Owned by the driver of the peer's link, and kept in its
//! [`Unresolved`](crate::unresolved::Unresolved) between links.
//!
//! - **AC-1 once**: a message counts from its arrival until it is taken, even after its link has
//!   ended; a new link begins with the rest, and the peer is not forgotten before (MS-9).
//!
//! Between links there are accounts only of mailboxes in which messages wait.

use std::collections::HashMap;
use std::sync::Arc;

use crate::driver_signals::{DriverSignals, Packed, Taken};
use crate::proto::window::{Count, WindowSize};

/// The accounts of one peer.
#[derive(Default)]
pub(crate) struct Accounts {
    all: slab::Slab<Account>,
    by_inbox: HashMap<u64, u32>,
}

/// The account of one mailbox: the messages and bytes that wait there.
pub(crate) struct Account {
    inbox: u64,
    pub(crate) taken: Arc<Taken>,
    /// The value of `taken` at the last look.
    seen: Packed,
    /// Messages and bytes that wait, kept while no link has the mailbox open.
    waiting: Count,
    /// The index under which the link has it open.
    pub(crate) open_as: Option<u32>,
}

impl Accounts {
    /// Returns how much waits in all mailboxes that no link has open.
    pub(crate) fn waiting(&self) -> Count {
        let mut sum = Count::default();
        for (_, account) in &self.all {
            sum.add(account.waiting.messages, account.waiting.bytes);
        }
        sum
    }

    /// Opens the account of a mailbox. Returns its key and how much waits there.
    pub(crate) fn open(
        &mut self,
        inbox: u64,
        open_as: u32,
        size: WindowSize,
        signals: &Arc<DriverSignals>,
    ) -> (u32, Count) {
        let key = *self.by_inbox.entry(inbox).or_insert_with(|| {
            let entry = self.all.vacant_entry();
            let key = entry.key() as u32;
            let (taken, seen) = (Taken::new(signals, key, size), Packed::default());
            entry.insert(Account { inbox, taken, seen, waiting: Count::default(), open_as: None });
            key
        });
        let account = &mut self.all[key as usize];
        account.open_as = Some(open_as);
        (key, std::mem::take(&mut account.waiting))
    }

    /// Returns the counter of messages taken from a mailbox whose account [was opened](Self::open).
    pub(crate) fn taken(&self, key: u32) -> Arc<Taken> {
        self.all[key as usize].taken.clone()
    }

    /// Returns the account of this key, if there is one.
    pub(crate) fn get(&mut self, key: u32) -> Option<&mut Account> {
        self.all.get_mut(key as usize)
    }

    /// Returns the account of a mailbox and its key, if there is one.
    pub(crate) fn of_inbox(&mut self, inbox: u64) -> Option<(u32, &mut Account)> {
        let key = *self.by_inbox.get(&inbox)?;
        Some((key, self.all.get_mut(key as usize)?))
    }

    /// Removes the account of a mailbox that closed: nothing waits there any more.
    pub(crate) fn remove(&mut self, key: u32) {
        if let Some(account) = self.all.try_remove(key as usize) {
            self.by_inbox.remove(&account.inbox);
        }
    }

    /// Records that the link ended, and how much still waits in the mailbox.
    pub(crate) fn close(&mut self, key: u32, waiting: Count) {
        if let Some(account) = self.all.get_mut(key as usize) {
            (account.open_as, account.waiting) = (None, waiting);
        }
    }

    /// Returns true if there is no account.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the keys of all accounts.
    pub(crate) fn keys(&self) -> Vec<u32> {
        self.all.iter().map(|(key, _)| key as u32).collect()
    }

    /// Updates all counts, and removes the accounts of mailboxes in which nothing waits.
    pub(crate) fn sweep(&mut self) {
        for key in self.keys() {
            let Some(account) = self.get(key) else { continue };
            account.harvest();
            if account.waiting == Count::default() && account.open_as.is_none() {
                self.remove(key);
            }
        }
    }
}

impl Account {
    /// Returns how much was taken since the last call. While the mailbox is not open, subtracts it
    /// from the count of waiting messages.
    pub(crate) fn harvest(&mut self) -> Count {
        let news = self.taken.harvest(&mut self.seen);
        if self.open_as.is_none() {
            self.waiting = self.waiting.since(news);
        }
        news
    }

    /// Records that the peer was told of everything that was [harvested](Self::harvest).
    pub(crate) fn reported(&self) {
        self.taken.reported(self.seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: WindowSize = WindowSize { messages: 4, bytes: 400 };

    fn count(messages: u32, bytes: u64) -> Count {
        Count { messages, bytes }
    }

    /// AC-1.
    // Promised in docs/SEMANTICS.md.
    #[test]
    fn what_waits_is_counted_once_across_links() {
        let signals = Arc::new(DriverSignals::new());
        let mut accounts = Accounts::default();
        let (key, carried) = accounts.open(1, 0, SIZE, &signals);
        assert_eq!(carried, Count::default());
        let account = accounts.get(key).unwrap();
        let taken = account.taken.clone();
        taken.take(10);
        assert_eq!(accounts.get(key).unwrap().harvest(), count(1, 10));
        accounts.close(key, count(2, 50));
        taken.take(20);

        accounts.sweep();
        assert_eq!(accounts.waiting(), count(1, 30), "taken between the links");
        let (key, carried) = accounts.open(1, 5, SIZE, &signals);
        assert_eq!((carried, accounts.waiting()), (count(1, 30), Count::default()));
        taken.take(30);
        assert_eq!(accounts.get(key).unwrap().harvest(), count(1, 30));
        accounts.close(key, Count::default());
        accounts.sweep();
        assert!(accounts.is_empty(), "nothing waits");
    }
}
