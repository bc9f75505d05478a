//! The parts of a [`SendQueue`] that `window/model.rs` needs: what tells two states apart, and the
//! faults that the model has to find.

use std::hash::{Hash, Hasher};

use super::{Count, Room, SendQueue};

impl Hash for SendQueue<()> {
    /// Everything that decides what happens next. The maps say nothing that the slabs do not.
    fn hash<H: Hasher>(&self, to: &mut H) {
        for (key, outlet) in &self.outlets {
            (key, outlet).hash(to);
        }
        self.outlets.vacant_key().hash(to);
        for (key, mailbox) in &self.mailboxes {
            (key, mailbox).hash(to);
        }
        self.mailboxes.vacant_key().hash(to);
        self.link_window.hash(to);
        self.openings.hash(to);
        let q = &self.queues;
        (&q.control, &q.replies, &q.eager).hash(to);
        for bulk in q.message.iter().chain(&q.bulk) {
            (&bulk.entry, bulk.sent, q.eager.passed(bulk.mark)).hash(to);
        }
        (q.message.is_some(), q.turn as u8).hash(to);
        let replies = q.bulk_replies.len() + q.reply.iter().count() + q.signals.len();
        assert_eq!(replies + q.cancels.len(), 0, "the model only tells");
        assert!(
            self.notices.is_empty() && !self.closing && !self.leaving,
            "the model has taken them"
        );
    }
}

impl SendQueue<()> {
    /// Returns how much is outstanding on the link, and at all its open mailboxes (OB-2).
    pub(crate) fn outstanding(&self) -> (Count, Count) {
        let mut sum = Count::default();
        for (_, mailbox) in self.mailboxes.iter().filter(|(_, mailbox)| !mailbox.closed) {
            sum.add(mailbox.window.outstanding().messages, mailbox.window.outstanding().bytes);
        }
        (self.link_window.window.outstanding(), sum)
    }

    /// Messages queued or without a fate.
    pub(crate) fn uses(&self) -> u32 {
        self.mailboxes.iter().map(|(_, mailbox)| mailbox.uses).sum()
    }

    /// Returns how much is outstanding at an open mailbox.
    pub(crate) fn outstanding_at(&self, index: u32) -> Count {
        self.by_mailbox
            .get(&index)
            .map_or(Count::default(), |key| self.mailboxes[*key as usize].window.outstanding())
    }

    /// A fault: released messages are outstanding again.
    pub(crate) fn forget_release(&mut self, count: Count) {
        self.link_window.window.sent.add(count.messages, count.bytes);
    }

    /// A fault: the link's window binds a mailbox with nothing outstanding, too.
    pub(crate) fn binds_all(&mut self, mailbox: u32, bytes: u32) -> bool {
        let room = self.link_window.window.room(bytes);
        if !room {
            self.say_blocked(mailbox, Room::NotInLink);
        }
        !room
    }
}
