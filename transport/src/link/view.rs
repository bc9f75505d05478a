//! What a link looks like at one moment.

use super::{Link, State};
use crate::mailbox::OpenRequest;
use crate::proto::outbound::Outbound;

/// What a link looks like at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkView {
    /// The fabric that carries it.
    pub fabric: &'static str,
    /// Messages and answers that are committed and not in a frame yet: they wait for credits, for
    /// room in the send queue, or for those before them.
    pub queued: usize,
    /// Receive slots that are leased: the messages in them wait in mailboxes, or are kept by
    /// whoever took them.
    pub leased: usize,
    /// Senders that wait, by mailbox, the longest line first.
    pub waiting: Vec<Waiting>,
}

/// Senders that wait at one mailbox of the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The mailbox.
    pub request: OpenRequest,
    /// How many.
    pub senders: usize,
    /// For what.
    pub for_what: WaitsFor,
}

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
}

impl Link {
    /// What it looks like now.
    pub(crate) fn view(&self) -> LinkView {
        let state = self.state.lock();
        let State { outbound, lines, gauge, .. } = &*state;
        let mut waiting: Vec<Waiting> = lines
            .lengths()
            .filter_map(|(outlet, senders)| {
                let request = outbound.request(outlet)?.clone();
                Some(Waiting { request, senders, for_what: waits_for(outbound, outlet) })
            })
            .collect();
        waiting.sort_by_key(|line| std::cmp::Reverse(line.senders));
        let (queued, leased) = (outbound.queued(), gauge.leased());
        LinkView { fabric: self.fabric, queued, leased, waiting }
    }
}

fn waits_for(outbound: &Outbound, outlet: u32) -> WaitsFor {
    match outbound.port(outlet) {
        None => WaitsFor::Opening,
        // How large its message is, only the sender knows: the smallest finds room first.
        Some((_, port)) if !port.window.room(1) => WaitsFor::MailboxWindow,
        Some(_) if !outbound.link_has_room(1) => WaitsFor::LinkWindow,
        Some((_, port)) if port.blocked => WaitsFor::MailboxWindow,
        Some(_) => WaitsFor::Turn,
    }
}
