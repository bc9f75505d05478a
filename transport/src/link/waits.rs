//! What senders wait for.

use super::State;
use super::wait_queue::Line;
use crate::mailbox::OpenRequest;
use crate::proto::outbound::Room;

/// What a sender waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaitsFor {
    /// The peer has not answered yet whether there is such a mailbox.
    Opening,
    /// The mailbox is full, as far as this node may fill it.
    MailboxWindow,
    /// All mailboxes of the peer together are.
    LinkWindow,
    /// Its turn: there is room, and those before it take it first.
    Turn,
    /// Credits: the ring of the peer is full. Only of what was committed, see
    /// [`LinkView::queued`](super::LinkView::queued).
    Credits,
}

impl State {
    /// The mailbox at which senders wait, and what for.
    pub(super) fn waits_at(&mut self, line: Line) -> Option<(OpenRequest, WaitsFor)> {
        match line {
            Line::Outlet(outlet) | Line::Closing(outlet) => {
                Some((self.outbound.request(outlet)?.clone(), WaitsFor::Opening))
            }
            Line::Port(port) => {
                let first = self.waiting.first(line)?;
                let for_what = match self.outbound.room(port, self.waiting.want(first).bytes) {
                    Room::NotInMailbox => WaitsFor::MailboxWindow,
                    Room::NotInLink => WaitsFor::LinkWindow,
                    Room::Yes => WaitsFor::Turn,
                };
                Some(((*self.outbound.request_of(port)).clone(), for_what))
            }
        }
    }
}
