//! The mailboxes of this node that the peer has opened, and the accounts of its messages in these
//! and other mailboxes.

use std::sync::Arc;

use crate::accounts::Accounts;
use crate::cause::Violation;
use crate::driver_signals::Taken;
use crate::host::Inbox;
use crate::link::{CloseNotice, LinkHandle, Receipt};
use crate::proto::inlet::Inlets;
use crate::proto::remote_mailbox::Description;
use crate::proto::window::{Count, LinkRecvWindow, RecvWindow, Report, WindowSize};

/// One opened mailbox.
pub(super) struct Inlet {
    pub(super) inbox: Arc<dyn Inbox>,
    accepted: usize,
    window: RecvWindow,
    account: u32,
    /// The account's counter, for the receipts of what arrives.
    taken: Arc<Taken>,
}

/// The opened mailboxes of one link, and the accounts of its peer.
pub(super) struct Mailboxes {
    inlets: Inlets<Inlet>,
    accounts: Accounts,
    size: WindowSize,
    link_window: LinkRecvWindow,
    /// Messages and bytes that were taken from mailboxes that are not open, since the link began;
    /// and the part of them that the peer was told of.
    unopened: Count,
    unopened_told: Count,
    /// Accounts to be looked at because the peer began to wait, each once; and a flag that it waits
    /// for the link's window, so that all are.
    wanted: Vec<u32>,
    all_wanted: bool,
}

impl Mailboxes {
    /// Creates the mailboxes of a new link; `accounts` are from earlier ones.
    pub(super) fn new(size: WindowSize, link_window_bytes: u32, accounts: Accounts) -> Self {
        let link_window = LinkRecvWindow::new(link_window_bytes, accounts.waiting());
        Mailboxes {
            inlets: Inlets::new(),
            accounts,
            size,
            link_window,
            unopened: Count::default(),
            unopened_told: Count::default(),
            wanted: Vec::new(),
            all_wanted: false,
        }
    }

    /// Opens a mailbox, unless it is open; gives its place and description.
    pub(super) fn open(
        &mut self,
        link: &Arc<LinkHandle>,
        inbox: Arc<dyn Inbox>,
    ) -> ((u32, u32), Vec<u8>) {
        let (size, id, accepted) = (self.size, inbox.id(), inbox.accepted());
        let count = accepted.len();
        let describe = |carried| Description { window: size, carried, id, accepted }.encode();
        if let Some((key, account)) = self.accounts.of_inbox(id) {
            if let Some(index) = account.open_as {
                // The first answer has told of the messages that wait.
                return ((index, self.inlets.generation(index)), describe(Count::default()));
            }
            // Messages taken until now are off the link's window, not the mailbox's.
            self.report_unopened(key);
        }
        let (inlets, accounts) = (&mut self.inlets, &mut self.accounts);
        let mut carried = Count::default();
        let place = inlets.open_with(|index| {
            let (account, waiting) = accounts.open(id, index, size, link.signals());
            carried = waiting;
            let window = RecvWindow::new(size, waiting);
            let (inbox, taken) = (inbox.clone(), accounts.taken(account));
            Inlet { inbox, accepted: count, window, account, taken }
        });
        inbox.on_close(CloseNotice::new(link, id));
        (place, describe(carried))
    }

    /// Returns the mailbox of a message, or `None` when it closed since.
    pub(super) fn find(&self, place: (u32, u32)) -> Result<Option<&Inlet>, Violation> {
        self.inlets.find(place.0, place.1)
    }

    /// Records a message's arrival in the link's window and in its mailbox's. Returns how many
    /// messages the mailbox accepts, and the receipt; `None` when the mailbox closed since.
    pub(super) fn arrive(
        &mut self,
        place: (u32, u32),
        bytes: u32,
    ) -> Result<Option<(usize, Receipt)>, Violation> {
        let Some(inlet) = self.inlets.find_mut(place.0, place.1)? else { return Ok(None) };
        inlet.window.arrive(bytes, &mut self.link_window)?;
        Ok(Some((inlet.accepted, Receipt::new(inlet.taken.clone(), bytes))))
    }

    /// Records the arrival of several messages at once, as [`arrive`](Self::arrive) does of one, if
    /// that comes to the same; returns `None` if not.
    pub(super) fn arrive_all(
        &mut self,
        place: (u32, u32),
        count: Count,
    ) -> Result<Option<(usize, &Arc<Taken>)>, Violation> {
        let Some(inlet) = self.inlets.find_mut(place.0, place.1)? else { return Ok(None) };
        let arrived = inlet.window.arrive_all(count, &mut self.link_window);
        Ok(arrived.then_some((inlet.accepted, &inlet.taken)))
    }

    /// Records that the peer waits for the window of a mailbox.
    pub(super) fn block(&mut self, place: (u32, u32)) -> Result<(), Violation> {
        let Some(inlet) = self.inlets.find_mut(place.0, place.1)? else { return Ok(()) };
        if inlet.window.block() {
            if let Some(account) = self.accounts.get(inlet.account) {
                account.taken.block();
            }
            self.wanted.push(inlet.account);
        }
        Ok(())
    }

    /// Records that the peer waits for the link's window.
    pub(super) fn block_all(&mut self) {
        self.all_wanted = true;
    }

    /// Returns the accounts to be looked at because the peer began to wait.
    pub(super) fn take_wanted(&mut self) -> Vec<u32> {
        let wanted = std::mem::take(&mut self.wanted);
        if std::mem::take(&mut self.all_wanted) { self.accounts.keys() } else { wanted }
    }

    /// Closes a mailbox; gives its place, if it was open.
    pub(super) fn close(&mut self, inbox: u64) -> Option<(u32, u32)> {
        let (key, account) = self.accounts.of_inbox(inbox)?;
        let (mut inlet, generation) = self.inlets.close(account.open_as?)?;
        let index = account.open_as?;
        inlet.window.close(&mut self.link_window);
        self.accounts.remove(key);
        Some((index, generation))
    }

    /// Counts messages taken from the mailbox of an account. Returns its place and the report, if
    /// one is due.
    pub(super) fn report(&mut self, key: u32, urgent: bool) -> Option<((u32, u32), Report)> {
        let account = self.accounts.get(key)?;
        let Some(index) = account.open_as else {
            self.report_unopened(key);
            return None;
        };
        let news = account.harvest();
        let inlet = self.inlets.at_mut(index)?;
        inlet.window.take(news);
        if !inlet.window.due(urgent) {
            return None;
        }
        let report = inlet.window.report(&mut self.link_window)?;
        account.reported();
        Some(((index, self.inlets.generation(index)), report))
    }

    /// Updates the link's window with messages taken from a mailbox that is not open.
    fn report_unopened(&mut self, key: u32) {
        let Some(account) = self.accounts.get(key) else { return };
        let news = account.harvest();
        account.reported();
        self.unopened.add(news.messages, news.bytes);
        self.link_window.report(news);
    }

    /// Returns how much was taken from mailboxes that are not open, if the peer does not know it
    /// yet.
    pub(super) fn take_unopened(&mut self) -> Option<Count> {
        let news = self.unopened != self.unopened_told;
        self.unopened_told = self.unopened;
        news.then_some(self.unopened)
    }

    /// Ends the link's use of the mailboxes. Returns the accounts of the messages left in them, for
    /// the next link.
    pub(super) fn end(&mut self) -> Accounts {
        let mut accounts = std::mem::take(&mut self.accounts);
        for (_, inlet) in self.inlets.iter_mut() {
            let Some(account) = accounts.get(inlet.account) else { continue };
            inlet.window.take(account.harvest());
            account.reported();
            accounts.close(inlet.account, inlet.window.waiting());
        }
        accounts.sweep();
        accounts
    }
}
