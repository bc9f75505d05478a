//! What `window/model.rs` needs of an [`Outbound`]: to tell two states apart, and to plant the
//! faults that it has to find.

use std::hash::{Hash, Hasher};

use super::{Count, Outbound, Room};

impl Hash for Outbound<()> {
    /// Everything that decides what happens next. The two maps say nothing that the slabs do not.
    fn hash<H: Hasher>(&self, to: &mut H) {
        for (key, outlet) in &self.outlets {
            (key, outlet).hash(to);
        }
        self.outlets.vacant_key().hash(to);
        for (key, port) in &self.ports {
            (key, port).hash(to);
        }
        self.ports.vacant_key().hash(to);
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

impl Outbound<()> {
    /// What is outstanding over the link, and in all its open ports together (OB-2).
    pub(crate) fn outstanding(&self) -> (Count, Count) {
        let mut sum = Count::default();
        for (_, port) in self.ports.iter().filter(|(_, port)| !port.closed) {
            sum.add(port.window.outstanding().messages, port.window.outstanding().bytes);
        }
        (self.link_window.window.outstanding(), sum)
    }

    /// Messages queued or without a fate.
    pub(crate) fn uses(&self) -> u32 {
        self.ports.iter().map(|(_, port)| port.uses).sum()
    }

    /// What is outstanding at an open mailbox.
    pub(crate) fn outstanding_at(&self, index: u32) -> Count {
        self.by_mailbox
            .get(&index)
            .map_or(Count::default(), |key| self.ports[*key as usize].window.outstanding())
    }

    /// A fault: what was released is outstanding again.
    pub(crate) fn forget_release(&mut self, count: Count) {
        self.link_window.window.sent.add(count.messages, count.bytes);
    }

    /// A fault: the link's window binds a mailbox with nothing outstanding, too.
    pub(crate) fn binds_all(&mut self, port: u32, bytes: u32) -> bool {
        let room = self.link_window.window.room(bytes);
        if !room {
            self.say_blocked(port, Room::NotInLink);
        }
        !room
    }
}
