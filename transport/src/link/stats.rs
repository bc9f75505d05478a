//! Counters of what a link has carried.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::wait_queue::WaitsFor;
use crate::proto::loans::LoanCounts;

/// Counts of what a link, or all links to a node, have carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkStats {
    /// Frames sent.
    pub frames_sent: u64,
    /// Frames received.
    pub frames_received: u64,
    /// Messages and answers sent.
    pub messages_sent: u64,
    /// Messages and answers received.
    pub messages_received: u64,
    /// Bytes of frames sent.
    pub bytes_sent: u64,
    /// Bytes of frames received.
    pub bytes_received: u64,
    /// Frames sent that only returned credits.
    pub credit_frames_sent: u64,
    /// Times a sender found no room in a window and waited.
    pub window_stalls: u64,
    /// Times messages had to wait for credits.
    pub credit_stalls: u64,
    /// Time that senders, and their committed messages, waited.
    pub waits: WaitStats,
    /// Messages that the peer refused.
    pub refusals: u64,
    /// Payloads that were copied out because no receive slot was spare.
    pub copied_out: u64,
    /// Growth of the receive ring.
    pub rings: RingStats,
    /// Fragmented messages of which parts had come when the link ended.
    pub fragments_cut: u64,
    /// Messages and answers that one node lends and the other one reads.
    pub fetches: FetchStats,
    /// Times the count of sent frames wrapped around (it starts close before it).
    pub count_wraps: u64,
}

/// The large messages and answers of a link that one node lends and the other one reads; part of
/// [`LinkStats`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FetchStats {
    /// Those of the peer that were read from its memory.
    pub fetched: u64,
    /// Messages and answers that the peer had lent, and that came in parts after all.
    pub refused: u64,
    /// Loans of this node.
    pub loans: LoanStats,
}

/// The messages and answers of a link that are long enough to be lent: how many were, and why
/// others went in parts; part of [`FetchStats`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoanStats {
    /// Messages and answers that the peer was told to read.
    pub lent: u64,
    /// Bytes of those.
    pub lent_bytes: u64,
    /// Of those, the ones whose memory the peer does not need any more: it has read it, or refused
    /// to.
    pub returned: u64,
    /// Loans that the peer refused to read: its node lands as much as it may, or its device failed.
    pub not_fetched: u64,
    /// Messages that went in parts because there was no queue pair for one-sided access yet.
    pub not_ready: u64,
    /// Messages that went in parts because this link, or this node, lent as much as it may.
    pub no_room: u64,
    /// Messages that went in parts because their memory could not be registered.
    pub not_registered: u64,
    /// Messages that went in parts untried, since others had not been registered or read before.
    pub paused: u64,
}

/// Time that the senders of a link, and their committed messages, waited; part of [`LinkStats`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitStats {
    /// Microseconds that senders waited in line for a mailbox, to be opened or to have room in its
    /// window; here and below summed over senders, each when its wait ends.
    pub mailbox_us: u64,
    /// Microseconds that senders waited in line for the link's window.
    pub link_us: u64,
    /// Microseconds that committed messages waited for credits.
    pub credit_us: u64,
}

/// Growth of the receive rings of a link, or of all links to a node; part of [`LinkStats`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RingStats {
    /// Times a ring grew.
    pub growths: u64,
    /// Times a ring or its send slots could not grow for want of memory.
    pub growths_refused: u64,
    /// Rings that grew to the most slots that their profile allows.
    pub at_bound: u64,
}

/// The messages, answers among them, that a link has carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Carried {
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

macro_rules! counters {
    ($($name:ident => $($at:ident).+),* $(,)?) => {
        /// The counters behind [`LinkStats`].
        #[derive(Default)]
        pub(crate) struct Counters { $(pub(crate) $name: AtomicU64),* }

        impl Counters {
            /// Returns how many messages have been carried so far.
            pub(crate) fn carried(&self) -> Carried {
                Carried {
                    sent: self.messages_sent.load(Ordering::Relaxed),
                    received: self.messages_received.load(Ordering::Relaxed),
                }
            }

            pub(super) fn read(&self) -> LinkStats {
                let mut stats = LinkStats::default();
                $(stats.$($at).+ = self.$name.load(Ordering::Relaxed);)*
                stats
            }
        }

        impl LinkStats {
            /// Returns each counter with the name of its metric.
            pub(crate) fn metrics(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((concat!("ringpost_link_", stringify!($name), "_total"), self.$($at).+)),*]
                    .into_iter()
            }
        }

        impl std::ops::AddAssign for LinkStats {
            fn add_assign(&mut self, other: LinkStats) {
                $(self.$($at).+ += other.$($at).+;)*
            }
        }
    };
}

counters!(
    frames_sent => frames_sent,
    frames_received => frames_received,
    messages_sent => messages_sent,
    messages_received => messages_received,
    bytes_sent => bytes_sent,
    bytes_received => bytes_received,
    credit_frames_sent => credit_frames_sent,
    window_stalls => window_stalls,
    credit_stalls => credit_stalls,
    mailbox_wait_us => waits.mailbox_us,
    link_wait_us => waits.link_us,
    credit_wait_us => waits.credit_us,
    refusals => refusals,
    copied_out => copied_out,
    ring_growths => rings.growths,
    ring_growths_refused => rings.growths_refused,
    rings_at_bound => rings.at_bound,
    fragments_cut => fragments_cut,
    messages_fetched => fetches.fetched,
    fetches_refused => fetches.refused,
    messages_lent => fetches.loans.lent,
    bytes_lent => fetches.loans.lent_bytes,
    loans_returned => fetches.loans.returned,
    loans_not_fetched => fetches.loans.not_fetched,
    loans_not_ready => fetches.loans.not_ready,
    loans_no_room => fetches.loans.no_room,
    loans_not_registered => fetches.loans.not_registered,
    loans_paused => fetches.loans.paused,
    count_wraps => count_wraps,
);

impl Counters {
    /// Adds to a counter. Relaxed is enough: nothing is derived from one counter about another.
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }

    /// Counts what became of messages that may be lent.
    pub(super) fn add_loans(&self, counts: &LoanCounts) {
        for (counter, count) in [
            (&self.messages_lent, counts.lent),
            (&self.bytes_lent, counts.lent_bytes),
            (&self.loans_returned, counts.returned),
            (&self.loans_not_fetched, counts.not_fetched),
            (&self.loans_not_ready, counts.not_ready),
            (&self.loans_no_room, counts.full),
            (&self.loans_not_registered, counts.not_registered),
            (&self.loans_paused, counts.paused),
        ] {
            Self::add(counter, count);
        }
    }

    /// Counts a wait that has ended.
    pub(super) fn waited(&self, for_what: WaitsFor, how_long: Duration) {
        let counter = match for_what {
            // A sender behind others waits for the mailbox, as they do.
            WaitsFor::Opening | WaitsFor::MailboxWindow | WaitsFor::Turn => &self.mailbox_wait_us,
            WaitsFor::LinkWindow => &self.link_wait_us,
            WaitsFor::Credits => &self.credit_wait_us,
        };
        Self::add(counter, how_long.as_micros() as u64);
    }
}
