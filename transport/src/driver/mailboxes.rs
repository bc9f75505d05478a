//! The mailboxes of this node that the peer has opened.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cause::Violation;
use crate::host::Inbox;
use crate::link::{CloseNotice, InletEnd, Link};
use crate::proto::inlet::Inlets;
use crate::proto::outlet::Description;
use crate::proto::window::{Count, LinkRecvWindow, RecvWindow, WindowSize};

/// One opened mailbox.
pub(super) struct Inlet {
    pub(super) inbox: Arc<dyn Inbox>,
    pub(super) end: Arc<InletEnd>,
    pub(super) accepted: usize,
}

/// All of one link.
pub(super) struct Mailboxes {
    inlets: Inlets<Inlet>,
    by_inbox: HashMap<u64, u32>,
    size: WindowSize,
    link_window: LinkRecvWindow,
    news_wanted: bool,
}

impl Mailboxes {
    pub(super) fn new(size: WindowSize, link_window_bytes: u32) -> Self {
        Mailboxes {
            inlets: Inlets::new(),
            by_inbox: HashMap::new(),
            size,
            link_window: LinkRecvWindow::new(link_window_bytes),
            news_wanted: false,
        }
    }

    /// Opens a mailbox, unless it is open; gives its place and description.
    pub(super) fn open(
        &mut self,
        link: &Arc<Link>,
        inbox: Arc<dyn Inbox>,
    ) -> ((u32, u32), Vec<u8>) {
        let accepted = inbox.accepted();
        let description = Description { window: self.size, accepted };
        let bytes = description.encode();
        if let Some(index) = self.by_inbox.get(&inbox.id()) {
            return ((*index, self.inlets.generation(*index)), bytes);
        }
        let id = inbox.id();
        let window = RecvWindow::new(self.size);
        let accepted = description.accepted.len();
        // The index is known only when the place is taken; the end needs it.
        let place = self.inlets.open_with(|index| Inlet {
            inbox: inbox.clone(),
            end: InletEnd::new(link.clone(), index, window),
            accepted,
        });
        self.by_inbox.insert(id, place.0);
        inbox.on_close(CloseNotice::new(link, place));
        (place, bytes)
    }

    /// The mailbox of a message, or `None` when it closed since.
    pub(super) fn find(&self, place: (u32, u32)) -> Result<Option<&Inlet>, Violation> {
        self.inlets.find(place.0, place.1)
    }

    /// Records a message's arrival in the link's window and in its mailbox's.
    pub(super) fn arrive(&mut self, end: &InletEnd, bytes: u32) -> Result<(), Violation> {
        self.link_window.arrive(bytes, end.with_window(|window| window.is_idle()))?;
        end.with_window(|window| window.arrive(bytes))
    }

    /// Closes a mailbox; says whether it was open under this generation.
    pub(super) fn close(&mut self, place: (u32, u32)) -> bool {
        if self.inlets.at(place.0).is_none() || self.inlets.generation(place.0) != place.1 {
            return false;
        }
        let Some((inlet, _)) = self.inlets.close(place.0) else { return false };
        self.by_inbox.remove(&inlet.inbox.id());
        self.link_window.report(inlet.end.with_window(|window| window.unreported()));
        true
    }

    /// The report of a mailbox's window, if it has news; and its generation.
    pub(super) fn report(&mut self, index: u32) -> Option<((u32, u32), Count)> {
        let inlet = self.inlets.at(index)?;
        let (news, taken) = inlet.end.report();
        self.link_window.report(news);
        Some(((index, self.inlets.generation(index)), taken?))
    }

    /// The peer waits for the link's window: every mailbox with news is to be reported.
    pub(super) fn want_news(&mut self) {
        self.news_wanted = true;
    }

    /// Marks the mailboxes with news, once for all that wanted them.
    pub(super) fn mark_wanted_news(&mut self) {
        if std::mem::take(&mut self.news_wanted) {
            for (_, inlet) in self.inlets.iter() {
                inlet.end.with_window(|_| ());
            }
        }
    }
}
