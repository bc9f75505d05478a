//! What senders wait for.

use crate::proto::outbound::Outbound;

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

/// What a sender at an outlet waits for.
pub(super) fn waits_for(outbound: &Outbound, outlet: u32) -> WaitsFor {
    match outbound.port(outlet) {
        None => WaitsFor::Opening,
        // How large its message is, only the sender knows: the smallest finds room first.
        Some((_, port)) if !port.window.room(1) => WaitsFor::MailboxWindow,
        Some(_) if !outbound.link_has_room(1) => WaitsFor::LinkWindow,
        Some((_, port)) if port.blocked => WaitsFor::MailboxWindow,
        Some(_) => WaitsFor::Turn,
    }
}
