//! Doing what a frame asks for.

use std::time::Duration;

use rkyv::util::AlignedVec;
use tokio::time::Instant;

use super::Driver;
use super::turn::Frame;
use crate::cause::{Fate, OpenRefusal, Refusal, Violation};
use crate::host::Delivery;
use crate::link::{Counters, Dirty, Receipt, Replier, ReplyLoss};
use crate::mailbox::OpenRequest;
use crate::memory::Payload;
use crate::mutants::planted;
use crate::proto::fate::Sent;
use crate::proto::header::{RecordHeader, RecordKind};
use crate::proto::lanes::Entry;
use crate::proto::link::{Arrival, Body, Event};
use crate::steps::step;

/// Returns the instant that is `us` microseconds from now; `None` where the clock ends before.
fn instant_in(us: u64) -> Option<Instant> {
    Instant::now().checked_add(Duration::from_micros(us))
}

impl Driver {
    /// Does what a frame asks for, as far as it could be `read`.
    pub(super) fn dispatch_all(
        &mut self,
        read: Result<(), Violation>,
        events: &mut Vec<Event>,
        frame: &Frame<'_>,
    ) -> Result<(), Violation> {
        let mut result = read;
        for event in events.drain(..) {
            match event {
                // After a violation nothing of the frame is done, but what it refused is refused.
                Event::Refused(sent, refusal) => self.refused(&sent, refusal),
                Event::Delivered(confirm) => self.link.delivered(confirm),
                event if result.is_ok() => result = self.dispatch(event, frame),
                _ => {}
            }
        }
        result
    }

    fn dispatch(&mut self, event: Event, frame: &Frame<'_>) -> Result<(), Violation> {
        match event {
            Event::Confirmed => self.confirmed(),
            Event::Deliver(arrival) => self.deliver(arrival, frame)?,
            Event::Reply { correlation, code, body } => {
                Counters::add(&self.link.counters().messages_received, 1);
                let answer = match code {
                    0 => Ok(self.payload(body, frame)),
                    code => Err(ReplyLoss::Failed(code)),
                };
                self.link.answer(correlation, answer);
            }
            Event::Signal { mailbox, generation, signal, windowed } => {
                self.signal((mailbox, generation), signal, windowed)?;
            }
            Event::Open { correlation, request } => self.open(correlation, &request)?,
            Event::Blocked { mailbox, generation } => {
                if let Some(inlet) = self.mailboxes.find((mailbox, generation))? {
                    inlet.end.with_window(|window| window.block());
                }
            }
            Event::LinkBlocked => {
                self.link.set_peer_blocked(true);
                self.mailboxes.want_news();
            }
            // Done already, whatever else the frame has.
            Event::Refused(..) | Event::Delivered(_) => {}
            Event::Goodbye => self.link.stop_commits(),
        }
        Ok(())
    }

    /// DR-2: what a mailbox may be sent is bounded, so nothing here waits.
    fn deliver(&mut self, arrival: Arrival, frame: &Frame<'_>) -> Result<(), Violation> {
        let Arrival { at, mailbox, generation, ordinal, correlation, deadline_us, body } = arrival;
        let Some(inlet) = self.mailboxes.find((mailbox, generation))? else {
            self.proto.refuse(at, Refusal::Closed);
            return Ok(());
        };
        if usize::from(ordinal) >= inlet.accepted {
            return Err(Violation::Unknown);
        }
        let (inbox, end) = (inlet.inbox.clone(), inlet.end.clone());
        let bytes = body.len() as u32;
        self.mailboxes.arrive(&end, bytes)?;
        Counters::add(&self.link.counters().messages_received, 1);
        let delivery = Delivery {
            ordinal,
            payload: self.payload(body, frame),
            replier: correlation.map(|c| Replier::new(self.link.clone(), c)),
            deadline: deadline_us.and_then(instant_in),
            receipt: Receipt::new(end, bytes),
        };
        match inbox.deliver(delivery) {
            Ok(()) => step!(Queued),
            Err(refusal) => self.proto.refuse(at, refusal),
        }
        Ok(())
    }

    /// The bytes of an arrival: where they lie, or copied out of a slot that is posted again.
    fn payload(&self, body: Body, frame: &Frame<'_>) -> Payload {
        match (body, frame) {
            (Body::Whole(bytes), _) => Payload::owned(bytes),
            (Body::Part(range), Frame::Leased(lease)) => Payload::leased((*lease).clone(), range),
            (Body::Part(range), Frame::Lent(frame)) => {
                Counters::add(&self.link.counters().copied_out, 1);
                let mut copy = AlignedVec::with_capacity(range.len());
                copy.extend_from_slice(&frame[range]);
                Payload::owned(copy)
            }
        }
    }

    fn signal(&mut self, place: (u32, u32), signal: u16, windowed: bool) -> Result<(), Violation> {
        let Some(inlet) = self.mailboxes.find(place)? else { return Ok(()) };
        let (inbox, end) = (inlet.inbox.clone(), inlet.end.clone());
        if windowed {
            self.mailboxes.arrive(&end, 0)?;
            drop(Receipt::new(end, 0));
        }
        inbox.signal(signal);
        Ok(())
    }

    fn open(&mut self, correlation: u64, request: &OpenRequest) -> Result<(), Violation> {
        match self.reports.host.open(&self.reports.peer, request) {
            Ok(inbox) => {
                let (place, description) = self.mailboxes.open(&self.link, inbox);
                self.proto.opened(correlation, place, &description)
            }
            Err(refusal) => {
                let ordinal = match refusal {
                    OpenRefusal::NoSuchMailbox => 1,
                    OpenRefusal::WrongKind => 2,
                };
                self.proto.open_refused(correlation, ordinal)
            }
        }
    }

    /// A message of this side was refused by the peer.
    fn refused(&self, sent: &Sent, refusal: Refusal) {
        Counters::add(&self.link.counters().refusals, 1);
        let letter = self.link.settle(sent.port, sent.message, sent.confirm);
        if sent.correlation != 0 {
            self.link.answer(sent.correlation, Err(ReplyLoss::Refused(refusal)));
        } else {
            let fate = Err(Fate::Refused(refusal));
            self.reports.settle(letter, if planted!(RefusedIsDelivered) { Ok(()) } else { fate });
        }
    }

    /// A message was not sent, because its mailbox closed while it waited in a lane.
    pub(super) fn settle_dropped(&self, entry: &Entry) {
        let is_tell = entry.kind == RecordKind::Tell;
        let confirm = if is_tell { entry.correlation } else { 0 };
        let letter = self.link.settle(entry.port, entry.message, confirm);
        match entry.kind {
            RecordKind::Ask => {
                let refused = Err(ReplyLoss::Refused(Refusal::Closed));
                self.link.answer(entry.correlation, refused);
            }
            _ => self.reports.settle(letter, Err(Fate::Refused(Refusal::Closed))),
        }
    }

    /// Turns dirty marks into records.
    pub(super) fn report_windows(&mut self) {
        self.mailboxes.mark_wanted_news();
        let Dirty { windows, closed } = self.link.take_dirty();
        for place in closed {
            if self.mailboxes.close(place) {
                let (mailbox, generation) = place;
                let kind = RecordKind::Closed;
                self.proto.control(RecordHeader { mailbox, generation, ..RecordHeader::new(kind) });
            }
        }
        for index in windows {
            if let Some((place, taken)) = self.mailboxes.report(index) {
                self.link.set_peer_blocked(false);
                self.proto.report_window(place, taken);
            }
        }
    }
}
