//! The credit ledger: one counter, which is credit and acknowledgement.
//!
//! Frames are counted, not numbered: a fabric keeps their order. Each frame carries `consumed`, how
//! many of the peer's frames this side has dispatched and posted a fresh slot for.
//!
//! - **CR-1 conservation**: credits + frames not yet reported consumed = the peer's ring.
//! - **CR-2 reserve**: a frame of each class leaves enough credits for the classes that need fewer:
//!   data needs `R + 1`, replies `min(3, R + 1)`, control 2, a credit-only frame 1.
//! - **CR-6 growing**: a ring only grows; its owner posts and counts the slots before it says so.
//!
//! A credit-only frame returns at least one credit, so the two sides can never both be without. No
//! side answers a lone credit-only frame, because one unreported frame is below the threshold and
//! only data, probes and goodbyes ask for an answer. A peer's count never goes back and never
//! passes the frames sent to it.
//!
//! `2 <= threshold <= ring - R` and `R >= 1` make these rules hold together; other settings are
//! refused. The model in `credit/model.rs` explores all interleavings on this very type.

#[cfg(test)]
mod model;

use crate::limits;
use crate::mutants::planted;
use crate::proto::error::Violation;

/// The class of a frame, by the frames it may starve: the lowest class of its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Class {
    /// Messages.
    Data,
    /// Answers.
    Reply,
    /// Openings, windows, signals, goodbyes.
    Control,
    /// Nothing but refusals and the count.
    Credit,
}

/// The settings by which one side counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CreditSettings {
    /// Slots the peer has posted for this side's frames.
    pub(crate) peer_ring: u32,
    /// Slots this side has posted.
    pub(crate) ring: u32,
    /// R: credits that data never takes.
    pub(crate) reserve: u32,
    /// Unreported frames at which a credit-only frame is sent.
    pub(crate) threshold: u32,
}

/// Settings that could deadlock or storm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("rings of {} and {} slots with a reserve of {} and a threshold of {} can stall",
    .0.ring, .0.peer_ring, .0.reserve, .0.threshold)]
pub(crate) struct InvalidCredit(pub(crate) CreditSettings);

impl CreditSettings {
    /// Returns settings with this reserve, but at most a quarter of the smaller ring, so that both
    /// sides reckon with the same bound whatever their profiles.
    pub(crate) fn new(peer_ring: u32, ring: u32, reserve: u32) -> Result<Self, InvalidCredit> {
        let reserve = reserve.min(peer_ring.min(ring) / 4);
        CreditSettings { peer_ring, ring, reserve, threshold: threshold(ring) }.check()
    }

    fn check(self) -> Result<Self, InvalidCredit> {
        let sound = self.reserve >= 1
            && self.ring > self.reserve
            && self.peer_ring > self.reserve
            && self.threshold >= 2
            && self.threshold <= self.ring - self.reserve;
        if sound { Ok(self) } else { Err(InvalidCredit(self)) }
    }
}

/// Returns the unreported frames at which a ring of `ring` slots is reported: a quarter; in a small
/// ring half and two, but not more than [`REPORTED_FEWEST`].
fn threshold(ring: u32) -> u32 {
    (ring / 4).max((ring / 2 + 2).min(REPORTED_FEWEST))
}

/// The frames of a message of 64 KiB, and one for credits before it, are reported with its answer:
/// they are not worth a frame of their own, which the peer would have to report in turn.
const REPORTED_FEWEST: u32 = 12;

/// The number at which both counts start, so that every link passes the wrap-around early.
pub(crate) const FIRST_COUNT: u32 = 0u32.wrapping_sub(64);

/// One side's counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Ledger {
    settings: CreditSettings,
    /// Frames sent.
    sent: u32,
    /// Sent frames that the peer reported consumed.
    acknowledged: u32,
    /// Frames that arrived.
    received: u32,
    /// Frames that arrived and were dispatched and replaced by a fresh slot, their refusals
    /// written.
    consumed: u32,
    /// The value of `consumed` that the peer was told last.
    reported: u32,
    /// The peer asked for an answer.
    answer_now: bool,
}

impl Ledger {
    pub(crate) fn new(settings: CreditSettings) -> Self {
        Ledger {
            settings,
            sent: FIRST_COUNT,
            acknowledged: FIRST_COUNT,
            received: FIRST_COUNT,
            consumed: FIRST_COUNT,
            reported: FIRST_COUNT,
            answer_now: false,
        }
    }

    /// Records a frame that is about to be posted; gives the count it carries.
    pub(crate) fn post(&mut self, class: Class) -> u32 {
        assert!(self.may_send(class), "CR-2: {class:?} with {} credits", self.credits());
        self.sent = self.sent.wrapping_add(1);
        self.reported = self.consumed;
        self.answer_now = false;
        self.consumed
    }

    /// Records an arrival, with the count it carried and whether it asks for an answer. Gives how
    /// many of this side's frames the peer newly reports.
    pub(crate) fn arrive(&mut self, peer_count: u32, answer_now: bool) -> Result<u32, Violation> {
        if self.received.wrapping_sub(self.reported) >= self.settings.ring {
            return Err(Violation::CreditOverrun);
        }
        // Neither back nor past the frames sent.
        let news = peer_count.wrapping_sub(self.acknowledged);
        if news > self.in_flight() {
            return Err(Violation::Count);
        }
        self.received = self.received.wrapping_add(1);
        if planted!(DeafWithoutCredit) && self.credits() == 0 {
            return Ok(0);
        }
        self.acknowledged = peer_count;
        self.answer_now |= answer_now;
        Ok(news)
    }

    /// Records that the frames up to `count` were dispatched, their slots posted again and their
    /// refusals written.
    pub(crate) fn consume_to(&mut self, count: u32) {
        debug_assert!(
            count.wrapping_sub(self.consumed) <= self.received.wrapping_sub(self.consumed)
        );
        self.consumed = count;
    }

    /// Returns how many frames may still be sent, of the highest class.
    pub(crate) fn credits(&self) -> u32 {
        self.settings.peer_ring - self.in_flight()
    }

    /// Returns true if a frame of this class may be sent (CR-2).
    pub(crate) fn may_send(&self, class: Class) -> bool {
        let reserve = if planted!(NoReserve) { 0 } else { self.settings.reserve };
        match class {
            Class::Data => self.credits() > reserve,
            Class::Reply => self.credits() >= (reserve + 1).min(3),
            Class::Control => self.credits() >= 2,
            Class::Credit => self.credits() >= 1 && self.unreported() >= 1,
        }
    }

    /// Returns true if a frame is to be sent although there is nothing to say in it.
    pub(crate) fn credit_due(&self) -> bool {
        let unreported = self.unreported();
        unreported >= self.settings.threshold || (self.answer_now && unreported >= 1)
    }

    /// Records that the peer posted more receives (CR-6): at least one, and not more than a ring
    /// may have.
    pub(crate) fn grow_peer(&mut self, slots: u32) -> Result<(), Violation> {
        let ring = self.settings.peer_ring.saturating_add(slots);
        if slots == 0 || ring > limits::RING_SLOTS_MAX {
            return Err(Violation::Count);
        }
        self.settings.peer_ring = ring;
        Ok(())
    }

    /// Records that this side posted more receives, of which the peer is to be told by a GRANT
    /// (CR-6).
    pub(crate) fn grow(&mut self, slots: u32) {
        self.settings.ring += slots;
        self.settings.threshold = threshold(self.settings.ring);
    }

    /// Returns the number of slots that this side has posted, or will have when it has caught up.
    pub(crate) fn ring(&self) -> u32 {
        self.settings.ring
    }

    /// Returns the number of slots of the peer that it has told of.
    #[cfg(test)]
    pub(crate) fn peer_ring(&self) -> u32 {
        self.settings.peer_ring
    }

    /// Returns the count of frames sent so far.
    pub(crate) fn sent(&self) -> u32 {
        self.sent
    }

    /// Returns the count of frames that arrived so far.
    pub(crate) fn received(&self) -> u32 {
        self.received
    }

    /// Returns what the peer has reported.
    pub(crate) fn acknowledged(&self) -> u32 {
        self.acknowledged
    }

    /// Returns what the peer was told.
    pub(crate) fn reported(&self) -> u32 {
        self.reported
    }

    fn in_flight(&self) -> u32 {
        self.sent.wrapping_sub(self.acknowledged)
    }

    fn unreported(&self) -> u32 {
        self.consumed.wrapping_sub(self.reported)
    }
}
