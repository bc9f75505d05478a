//! Snapshots of links.

use std::time::Duration;

use tokio::time::Instant;

use super::wait_queue::{Line, Waited, WaitsFor};
use super::{LinkHandle, State};
use crate::open_request::OpenRequest;
use crate::proto::send_queue::Room;

/// A snapshot of a link: its queued messages, the leases of its slots, and the senders that wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkView {
    /// The fabric that carries it.
    pub fabric: &'static str,
    /// True if messages are encrypted and authenticated on their way.
    pub encrypted: bool,
    /// Messages and answers that are committed and not in a frame yet: they wait for credits, for a
    /// free send slot, or for those before them.
    pub queued: usize,
    /// Time for which they have waited for credits, if they do.
    pub uncredited: Option<Duration>,
    /// Receive slots that are leased: the messages in them wait in mailboxes, or are kept by
    /// the receivers that took them.
    pub leased: usize,
    /// Senders that wait, by mailbox, the longest line first.
    pub waiting: Vec<Waiting>,
}

/// Senders that wait at one mailbox of the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The mailbox.
    pub request: OpenRequest,
    /// Number of these senders.
    pub senders: usize,
    /// The thing that they wait for.
    pub for_what: WaitsFor,
    /// Time for which the first of them has waited.
    pub longest: Duration,
}

/// Something that waits for long.
pub(crate) struct Stall {
    /// The line, which tells it from other stalls of the link; `None` for a wait for credits.
    pub(crate) line: Option<Line>,
    /// The mailbox at which senders wait; `None` for a wait for credits.
    pub(crate) mailbox: Option<OpenRequest>,
    /// Number of senders that wait.
    pub(crate) senders: usize,
    pub(crate) for_what: WaitsFor,
    /// Time since which the first one waits.
    pub(crate) since: Instant,
}

impl LinkHandle {
    /// Returns a snapshot of the link.
    pub(crate) fn view(&self) -> LinkView {
        let mut state = self.state.lock();
        let lines: Vec<Waited> = state.waiting.lines().collect();
        let mut waiting: Vec<Waiting> = lines
            .into_iter()
            .filter_map(|Waited { line, senders, since }| {
                let (request, for_what) = state.waits_at(line)?;
                Some(Waiting { request, senders, for_what, longest: since.elapsed() })
            })
            .collect();
        waiting.sort_by_key(|line| std::cmp::Reverse(line.senders));
        let uncredited = state.uncredited.map(|since| since.elapsed());
        let (fabric, encrypted) = (self.fabric, self.encrypted);
        let (queued, leased) = (state.send_queue.queued(), state.gauge.leased());
        LinkView { fabric, encrypted, queued, uncredited, leased, waiting }
    }

    /// Returns the waits that have lasted at least `patience`. Costs little where there are none.
    pub(crate) fn stalls(&self, patience: Duration) -> Vec<Stall> {
        let mut state = self.state.lock();
        let long = |since: &Instant| since.elapsed() >= patience;
        let credits = state.uncredited.filter(long).map(|since| Stall {
            line: None,
            mailbox: None,
            senders: 0,
            for_what: WaitsFor::Credits,
            since,
        });
        let lines: Vec<Waited> = state.waiting.lines().filter(|l| long(&l.since)).collect();
        let lines = lines.into_iter().filter_map(|Waited { line, senders, since }| {
            let (mailbox, for_what) = state.waits_at(line)?;
            Some(Stall { line: Some(line), mailbox: Some(mailbox), senders, for_what, since })
        });
        credits.into_iter().chain(lines).collect()
    }
}

impl State {
    /// Returns the mailbox at which senders wait, and what for.
    pub(super) fn waits_at(&mut self, line: Line) -> Option<(OpenRequest, WaitsFor)> {
        match line {
            Line::Opening(outlet) | Line::Closing(outlet) => {
                Some((self.send_queue.request(outlet)?.clone(), WaitsFor::Opening))
            }
            Line::Room(mailbox) => {
                let first = self.waiting.first(line)?;
                let for_what = match self.room(mailbox, self.waiting.want(first).bytes) {
                    Room::NotInMailbox => WaitsFor::MailboxWindow,
                    Room::NotInLink => WaitsFor::LinkWindow,
                    Room::Yes => WaitsFor::Turn,
                };
                Some(((*self.send_queue.request_of(mailbox)).clone(), for_what))
            }
        }
    }
}
