//! One side of a link: handles frames that arrive, and is polled for frames to send.
//!
//! - **LK-1 confirm first**: the first frame of each side is a CONFIRM as long as a frame can be;
//!   so a path that loses large frames is found before the link is used. Nothing else is sent
//!   before the peer's has come.
//! - **LK-2 counted when done**: a frame counts as consumed when it was dispatched, a slot posted
//!   in its place, and every refusal it caused is written (FA-2). So a credit always stands for a
//!   posted slot.
//! - **LK-3 goodbye last**: GOODBYE is sent when nothing waits; after it a side sends only credit.
//!   A side is done when its goodbye is acknowledged and the peer's is reported.

use std::collections::VecDeque;
use std::time::Instant;

use super::age::Age;
use super::credit::{Class, CreditSettings, FIRST_COUNT, Ledger};
use super::fate::{Consumed, InFlight, Refused, Sent};
use super::fetches::Fetches;
use super::fragment::Assembly;
use super::header::{
    ALL_MAILBOXES, FRAME_HEADER, RECORD_HEADER, RECORD_HEADER_TIMED, RecordHeader, RecordKind,
};
use super::loans::NotLent;
use super::trip::Trip;
use super::window::{Count, Report};
use crate::limits;
use crate::memory::Lease;
use crate::mutants::planted;
use crate::proto::error::{OpenRefusal, Refusal, Violation};

mod event;
mod receive;
mod transmit;

pub(crate) use event::{Arrival, Body, Event};
pub(crate) use transmit::Transmit;

/// The driver's part of the protocol.
pub(crate) struct LinkProtocol {
    ledger: Ledger,
    in_flight: InFlight,
    /// Refusals that are to be written.
    refusals: VecDeque<Refused>,
    /// Refusals that were written, with the frame that carries them, until the peer has it.
    told: VecDeque<(u32, Refused)>,
    /// Frames dispatched whose slots are posted again.
    dispatched: u32,
    incoming: Incoming,
    age: Age,
    trip: Trip,
    /// The count that this side tells the peer in its CONFIRM (WI-4).
    carried: Count,
    control: VecDeque<(RecordHeader, Vec<u8>)>,
    /// Answers to OPEN in `control`.
    open_answers: usize,
    sizes: Sizes,
    handshake: Handshake,
    probe: bool,
    /// Messages wait for credits.
    uncredited: bool,
    distrusted: bool,
}

/// Large messages that have not come whole.
#[derive(Default)]
struct Incoming {
    /// Time at which the peer was last to be told at once of a frame with a tail.
    told: Option<Instant>,
    /// The fragmented message and the fragmented answer of which parts have come.
    assemblies: [Option<Assembly>; 2],
    fetches: Fetches,
}

/// Sizes both sides know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Longest frame.
    pub(crate) frame_max: usize,
    /// Longest message this side takes.
    pub(crate) message_max: u32,
    /// Longest tail of a frame (PV-12).
    pub(crate) tail_max: usize,
}

/// Beginning and end of the exchange.
#[derive(Default)]
struct Handshake {
    confirm_sent: bool,
    confirm_received: bool,
    leave: bool,
    /// Something is still to be said before the goodbye.
    held: bool,
    goodbye_sent: Option<u32>,
    goodbye_received: Option<u32>,
}

impl LinkProtocol {
    /// Creates one side of a link that starts now; `carried` of the peer's messages wait here from
    /// earlier links.
    pub(crate) fn new(
        credit: CreditSettings,
        sizes: Sizes,
        carried: Count,
        start: Instant,
    ) -> Self {
        LinkProtocol {
            ledger: Ledger::new(credit),
            in_flight: InFlight::default(),
            refusals: VecDeque::new(),
            told: VecDeque::new(),
            dispatched: FIRST_COUNT,
            incoming: Incoming::default(),
            age: Age::new(start),
            trip: Trip::default(),
            carried,
            control: VecDeque::new(),
            open_answers: 0,
            sizes,
            handshake: Handshake::default(),
            probe: false,
            uncredited: false,
            distrusted: false,
        }
    }

    /// Returns the largest payload that fits a frame alone, for frames of this length; with a note
    /// it may not.
    pub(crate) fn eager_max(frame_max: usize) -> usize {
        frame_max - FRAME_HEADER - RECORD_HEADER_TIMED
    }

    /// Returns true if messages wait for credits.
    pub(crate) fn waits_for_credits(&self) -> bool {
        self.uncredited
    }

    /// Returns the number of slots that this side has posted, or will have when it has caught up.
    pub(crate) fn ring(&self) -> u32 {
        self.ledger.ring()
    }

    /// Returns the number of slots that the peer has said it posted.
    #[cfg(test)]
    pub(crate) fn peer_ring(&self) -> u32 {
        self.ledger.peer_ring()
    }

    /// Returns true if the peer was short of credits when it sent its last frame, and more slots
    /// would let it send more in the same time; said once.
    pub(crate) fn take_shortage(&mut self) -> bool {
        let small = self.ring() as usize * self.sizes.frame_max < limits::RING_BYTES_SMALL;
        self.trip.take_shortage(small)
    }

    /// Grows the ring by `slots` slots, which are posted, and tells the peer (CR-6).
    pub(crate) fn grow(&mut self, slots: u32) {
        self.ledger.grow(slots);
        self.trip.grown();
        if planted!(LostGrant) {
            return;
        }
        self.control(RecordHeader { total: slots, ..RecordHeader::new(RecordKind::Grant) });
    }

    /// Returns true if a frame could be sent that carries no message: an answer, or less.
    pub(crate) fn may_send_urgent(&self) -> bool {
        self.ledger.may_send(Class::Control)
    }

    /// Returns true if the peer has consumed every frame that was sent.
    pub(crate) fn is_quiet(&self) -> bool {
        self.handshake.confirm_received && self.ledger.sent() == self.ledger.acknowledged()
    }

    /// Returns the frames sent, as the wrapping count that starts shortly before the wrap-around.
    pub(crate) fn frames_sent(&self) -> u32 {
        self.ledger.sent()
    }

    /// Returns how many fragmented messages and answers there are of which parts have come.
    pub(crate) fn assembling(&self) -> usize {
        self.incoming.assemblies.iter().flatten().count()
    }

    /// Returns true if what this side's mailboxes have to say may be written now. As long as not,
    /// it stays where it is, where later news takes the place of earlier.
    pub(crate) fn takes_control(&self) -> bool {
        self.control.is_empty()
            && self.ledger.may_send(Class::Control)
            && self.handshake.goodbye_sent.is_none()
    }

    /// Holds the goodbye back, as long as there is something that is to be said before it.
    pub(crate) fn hold_goodbye(&mut self, held: bool) {
        self.handshake.held = held;
    }

    /// Takes the result of fetching a message that the peer had lent.
    pub(crate) fn fetched(&mut self, number: u16, fetched: Result<Lease, NotLent>) {
        if let Some(answer) = self.incoming.fetches.done(number, fetched) {
            self.control(answer);
        }
    }

    /// Counts the frame handled last as dispatched, a slot posted in its place (LK-2).
    pub(crate) fn handle_dispatched(&mut self) {
        self.dispatched = self.ledger.received();
    }

    /// Queues the refusal of a message of the frame handled last.
    pub(crate) fn refuse(&mut self, at: (u32, u16), refusal: Refusal) {
        if !planted!(LostRefusal) {
            self.refusals.push_back(Refused { frame: at.0, place: at.1, refusal });
        }
    }

    /// Queues a record that this node's own mailboxes bound.
    pub(crate) fn control(&mut self, header: RecordHeader) {
        self.control_with(header, &[]);
    }

    /// Queues a control record with a payload, which fits every frame.
    pub(crate) fn control_with(&mut self, header: RecordHeader, payload: &[u8]) {
        self.control.push_back((header, payload.to_vec()));
    }

    /// Queues the refusal of an OPEN.
    pub(crate) fn open_refused(
        &mut self,
        correlation: u64,
        refusal: &OpenRefusal,
    ) -> Result<(), Violation> {
        let (ordinal, found) = refusal.encode();
        let kind = RecordKind::OpenRefused;
        let header = RecordHeader { correlation, ordinal, ..RecordHeader::new(kind) };
        self.answer_open()?;
        self.control_with(header, found);
        Ok(())
    }

    /// Queues OPENED, in as many records as its description needs.
    pub(crate) fn opened(
        &mut self,
        correlation: u64,
        place: (u32, u32),
        description: &[u8],
    ) -> Result<(), Violation> {
        self.answer_open()?;
        let part_max = self.sizes.frame_max - FRAME_HEADER - RECORD_HEADER;
        let parts = description.chunks(part_max);
        let last = parts.len() - 1;
        for (i, part) in parts.enumerate() {
            let header = RecordHeader {
                more: i < last,
                correlation,
                mailbox: place.0,
                generation: place.1,
                ..RecordHeader::new(RecordKind::Opened)
            };
            self.control.push_back((header, part.to_vec()));
        }
        Ok(())
    }

    /// Counts an answer to an OPEN. A peer that asks for more than it may and takes no answers is
    /// cut off.
    fn answer_open(&mut self) -> Result<(), Violation> {
        if self.open_answers >= limits::OPENS_MAX {
            return Err(Violation::Flood);
        }
        self.open_answers += 1;
        Ok(())
    }

    /// Queues a report of messages taken from mailboxes that are not open on this link.
    pub(crate) fn report_unopened(&mut self, taken: Count) {
        self.report_window((ALL_MAILBOXES, 0), Report { taken, doublings: 0 });
    }

    /// Queues a window report. (The driver makes them from dirty marks just before it transmits, so
    /// there is at most one per mailbox.)
    pub(crate) fn report_window(&mut self, place: (u32, u32), report: Report) {
        let header = RecordHeader {
            mailbox: place.0,
            generation: place.1,
            correlation: report.taken.bytes,
            ordinal: report.doublings,
            total: report.taken.messages,
            ..RecordHeader::new(RecordKind::Window)
        };
        self.control.push_back((header, Vec::new()));
    }

    /// Makes the next frame ask for an answer.
    pub(crate) fn probe(&mut self) {
        self.probe = true;
    }

    /// Says goodbye as soon as nothing waits.
    pub(crate) fn leave(&mut self) {
        self.handshake.leave = true;
    }

    /// Returns true if the goodbye exchange is complete (LK-3).
    pub(crate) fn is_done(&self) -> bool {
        let after = |count: u32, frame: u32| {
            let past = count.wrapping_sub(frame);
            past > 0 && past < u32::MAX / 2
        };
        let Handshake { goodbye_sent, goodbye_received, .. } = self.handshake;
        goodbye_sent.is_some_and(|frame| after(self.ledger.acknowledged(), frame))
            && goodbye_received.is_some_and(|frame| after(self.ledger.reported(), frame))
    }

    /// Returns true if this side said goodbye: it answers nothing any more.
    pub(crate) fn has_left(&self) -> bool {
        self.handshake.goodbye_sent.is_some()
    }

    /// Returns true if the peer said goodbye.
    pub(crate) fn peer_left(&self) -> bool {
        self.handshake.goodbye_received.is_some()
    }

    /// Records that the peer broke the protocol: nothing it could rely on is said any more.
    pub(crate) fn distrust(&mut self) {
        self.distrusted = true;
    }

    /// Returns true if the peer broke the protocol.
    pub(crate) fn is_distrusted(&self) -> bool {
        self.distrusted
    }

    /// Ends the protocol. Returns this side's messages in doubt, and the report on the peer's,
    /// unless it broke the protocol.
    pub(crate) fn end(&mut self) -> (Vec<Sent>, Option<Consumed>) {
        let mut count = self.ledger.received();
        let told = self.told.drain(..).map(|(_, refused)| refused);
        let mut refusals: Vec<_> = told.chain(self.refusals.drain(..)).collect();
        if planted!(OverstatedWord) {
            count = count.wrapping_add(1);
        }
        if planted!(UnderstatedWord) {
            count = count.wrapping_sub(1);
        }
        if planted!(WordWithoutRefusals) {
            refusals.clear();
        }
        let report = (!self.distrusted).then_some(Consumed { count, refusals });
        let doubts =
            if planted!(ForgottenFate) { Vec::new() } else { self.in_flight.end().collect() };
        (doubts, report)
    }
}
