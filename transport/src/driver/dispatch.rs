//! Dispatch: carries out the requests of a frame, and reports messages taken from mailboxes.

use std::ops::Range;

use super::pipe::Pipe;
use super::turn::Frame;
use super::{Driver, Phase};
use crate::cause::{Fate, Refusal, Violation};
use crate::driver_signals::Dirty;
use crate::host::{Deliveries, Delivery, Tells};
use crate::link::{Asker, Counters, Replier, ReplyLoss};
use crate::memory::{Payload, buffer};
use crate::mutants::planted;
use crate::open_request::OpenRequest;
use crate::proto::fate::{Sent, What};
use crate::proto::frame;
use crate::proto::header::{RecordHeader, RecordKind};
use crate::proto::link::{Arrival, Body, Event};
use crate::steps::step;

/// Messages of one frame that are for one mailbox and came one after the other: queued together.
#[derive(Default)]
pub(super) struct Run {
    mailbox: (u32, u32),
    deliveries: Vec<Deliveries>,
    /// Number of these messages.
    count: u64,
    /// The tells, each row of them by its frame and its places in it, as refusals name them.
    tells: Vec<(u32, Range<u16>)>,
}

impl Driver {
    /// Does what a frame asks for, as far as it could be `read`.
    pub(super) fn dispatch_all(
        &mut self,
        pipe: &mut Pipe,
        read: Result<(), Violation>,
        events: &mut Vec<Event<Asker>>,
        frame: &Frame<'_>,
    ) -> Result<(), Violation> {
        let mut result = read;
        for event in events.drain(..) {
            if !matches!(event, Event::Deliver(_) | Event::Tells(_)) {
                self.deliver_run(pipe);
            }
            // After a violation, the frame still settles the fates of this side's messages, and
            // does nothing else.
            if result.is_ok()
                || matches!(event, Event::Refused(..) | Event::Unsent(_) | Event::Delivered(_))
            {
                let done = self.dispatch(pipe, event, frame);
                result = result.and(done);
            }
        }
        // The messages ahead of a violation are delivered, too.
        self.deliver_run(pipe);
        result
    }

    fn dispatch(
        &mut self,
        pipe: &mut Pipe,
        event: Event<Asker>,
        frame: &Frame<'_>,
    ) -> Result<(), Violation> {
        match event {
            Event::Deliver(arrival) => self.deliver(pipe, arrival, frame)?,
            Event::Tells(tells) => self.deliver_tells(pipe, &tells, frame)?,
            Event::Refused(sent, refusal) => {
                self.refused(&sent, refusal, pipe.proto.peer_left())?;
            }
            Event::Unsent(entry) => {
                if let Some(tell) = self.link.drop_unsent(&entry) {
                    self.reports.settle(tell, Err(Fate::Refused(Refusal::Closed)));
                }
            }
            Event::Delivered(confirm) => self.link.delivered(confirm),
            Event::Confirmed => drop(self.phase.send_replace(Phase::Confirmed)),
            Event::Reply { waiter, code, body } => {
                Counters::add(&self.link.counters().messages_received, 1);
                let answer = match code {
                    0 => Ok(self.payload(body, frame)),
                    code => Err(ReplyLoss::Failed(code)),
                };
                self.link.answer(waiter, answer);
            }
            Event::Signal { mailbox, generation, signal, windowed } => {
                self.signal((mailbox, generation), signal, windowed)?;
            }
            Event::Open { correlation, request } => self.open(pipe, correlation, &request)?,
            Event::Blocked { mailbox, generation } => {
                self.mailboxes.block((mailbox, generation))?;
            }
            Event::LinkBlocked => {
                self.link.signals().set_peer_blocked(true);
                self.mailboxes.block_all();
            }
            Event::Granted(slots) => {
                self.growth.grow_sends(pipe, self.link.counters(), slots);
            }
            Event::Lent(lent) => self.link.fetch(lent),
            Event::Goodbye => self.link.stop_commits(),
        }
        Ok(())
    }

    /// Puts a message that arrived to those before it, if they are for the same mailbox.
    fn deliver(
        &mut self,
        pipe: &mut Pipe,
        arrival: Arrival,
        frame: &Frame<'_>,
    ) -> Result<(), Violation> {
        let Arrival { at, mailbox, generation, ordinal, correlation, deadline, note, body } =
            arrival;
        let place = (mailbox, generation);
        self.begin_run(pipe, place);
        if correlation.is_some() && pipe.proto.has_left() {
            // It crossed with the goodbye of this side, and must not be begun: no answer could be
            // sent.
            pipe.proto.refuse(at, Refusal::Closed);
            return Ok(());
        }
        let Some((accepted, receipt)) = self.mailboxes.arrive(place, body.len() as u32)? else {
            self.refuse(pipe, at, correlation, Refusal::Closed);
            return Ok(());
        };
        if usize::from(ordinal) >= accepted {
            return Err(Violation::Unknown);
        }
        let delivery = Delivery {
            ordinal,
            payload: self.payload(body, frame),
            replier: correlation.map(|c| Replier::new(self.link.clone(), c)),
            deadline: deadline.map(Into::into),
            note,
            receipt,
        };
        self.run.deliveries.push(Deliveries::One(delivery));
        self.run.count += 1;
        if correlation.is_none() {
            self.run.tells.push((at.0, at.1..at.1 + 1));
        }
        Ok(())
    }

    /// Puts tells that arrived behind each other to what arrived before them.
    fn deliver_tells(
        &mut self,
        pipe: &mut Pipe,
        tells: &frame::Tells,
        frame: &Frame<'_>,
    ) -> Result<(), Violation> {
        self.begin_run(pipe, tells.place);
        let lease = match frame {
            Frame::Lent(bytes) => return self.deliver_each(pipe, tells, bytes, frame),
            Frame::Leased(lease) => *lease,
        };
        let Some((accepted, taken)) = self.mailboxes.arrive_all(tells.place, tells.count)? else {
            return self.deliver_each(pipe, tells, lease, frame);
        };
        let count = tells.count.messages as u16;
        let deliveries = Tells::new(lease.clone(), tells.start, count, taken.clone());
        if usize::from(tells.ordinal_max) >= accepted {
            return Err(Violation::Unknown);
        }
        let (number, first) = tells.at;
        self.run.deliveries.push(Deliveries::Tells(deliveries));
        self.run.count += u64::from(count);
        self.run.tells.push((number, first..first + count));
        Ok(())
    }

    /// Delivers tells as [`deliver_tells`](Self::deliver_tells) does, but one by one: their slot is
    /// not leased, or the mailbox is idle or has closed.
    fn deliver_each(
        &mut self,
        pipe: &mut Pipe,
        tells: &frame::Tells,
        bytes: &[u8],
        frame: &Frame<'_>,
    ) -> Result<(), Violation> {
        tells.each(bytes).try_for_each(|arrival| self.deliver(pipe, arrival, frame))
    }

    /// Ends the run of messages before this one, if they are for another mailbox.
    fn begin_run(&mut self, pipe: &mut Pipe, place: (u32, u32)) {
        if self.run.mailbox != place {
            self.deliver_run(pipe);
            self.run.mailbox = place;
        }
    }

    /// Queues the run of messages in their mailbox. The messages that may come for a
    /// mailbox are bounded, so nothing here waits.
    fn deliver_run(&mut self, pipe: &mut Pipe) {
        let Run { mailbox, deliveries, count, tells } = &mut self.run;
        if deliveries.is_empty() {
            return;
        }
        Counters::add(&self.link.counters().messages_received, std::mem::take(count));
        // It was found when the messages of the run were, and nothing closes it in between.
        let refusal = match self.mailboxes.find(*mailbox) {
            Ok(Some(inlet)) => inlet.inbox.deliver(deliveries).err(),
            _ => Some(Refusal::Closed),
        };
        match refusal {
            None => step!(Queued),
            Some(refusal) => {
                for (frame, places) in tells.drain(..) {
                    places.for_each(|place| pipe.proto.refuse((frame, place), refusal));
                }
            }
        }
        // The replier of an ask that was refused tells its asker.
        deliveries.clear();
        tells.clear();
    }

    /// Tells the peer that a message is not delivered: of a tell by a REFUSAL, of an ask by its
    /// answer, as long as there are answers.
    fn refuse(&self, pipe: &mut Pipe, at: (u32, u16), correlation: Option<u64>, refusal: Refusal) {
        match correlation {
            Some(correlation) => self.link.refuse_ask(correlation),
            None => pipe.proto.refuse(at, refusal),
        }
    }

    /// Returns the bytes of an arrival: where they lie, or copied out of a slot that is posted
    /// again.
    fn payload(&self, body: Body, frame: &Frame<'_>) -> Payload {
        match (body, frame) {
            (Body::Whole(bytes), _) => Payload::owned(bytes),
            (Body::Fetched(lease), _) => {
                let bytes = lease.len();
                Payload::leased(lease, 0..bytes)
            }
            (Body::Part(range), Frame::Leased(lease)) => Payload::leased((*lease).clone(), range),
            (Body::Part(range), Frame::Lent(frame)) => {
                Counters::add(&self.link.counters().copied_out, 1);
                let mut copy = buffer::take(range.len());
                copy.extend_from_slice(&frame[range]);
                Payload::owned(copy)
            }
        }
    }

    fn signal(&mut self, place: (u32, u32), signal: u16, windowed: bool) -> Result<(), Violation> {
        if windowed {
            drop(self.mailboxes.arrive(place, 0)?);
        }
        if let Some(inlet) = self.mailboxes.find(place)? {
            inlet.inbox.signal(signal);
        }
        Ok(())
    }

    fn open(
        &mut self,
        pipe: &mut Pipe,
        correlation: u64,
        request: &OpenRequest,
    ) -> Result<(), Violation> {
        match self.reports.host.open(&self.reports.peer, request) {
            Ok(inbox) => {
                let (place, description) = self.mailboxes.open(&self.link, inbox);
                pipe.proto.opened(correlation, place, &description)
            }
            Err(refusal) => pipe.proto.open_refused(correlation, &refusal),
        }
    }

    /// Settles a message of this side that the peer refused. An ask that is refused is answered
    /// instead until the peer `has_left`, so before that a REFUSAL of one breaks the protocol.
    fn refused(&self, sent: &Sent, refusal: Refusal, has_left: bool) -> Result<(), Violation> {
        Counters::add(&self.link.counters().refusals, 1);
        let (message, confirm) = match sent.what {
            What::Tell { message, confirm } => (message, confirm),
            What::Ask { correlation } if has_left => {
                self.link.settle_ask(sent.mailbox, correlation, refusal);
                return Ok(());
            }
            What::Ask { .. } | What::Signal => return Err(Violation::Refusal),
        };
        let tell = self.link.settle(sent.mailbox, message, confirm);
        let fate = Err(Fate::Refused(refusal));
        self.reports.settle(tell, if planted!(RefusedIsDelivered) { Ok(()) } else { fate });
        Ok(())
    }

    /// Returns true if the first mailbox that closed can be reported now: what this side committed
    /// before it closed was written, in frames that went before.
    pub(super) fn may_close(&self) -> bool {
        self.closing.front().is_some_and(|(_, _, fence)| self.link.has_passed(*fence))
    }

    /// Turns dirty marks into records, if records can be written. If not, returns false, and the
    /// marks stay, each at most once.
    pub(super) fn report_windows(&mut self, pipe: &mut Pipe) -> bool {
        if !pipe.proto.takes_control() {
            // One of the marks left may say that a mailbox closed.
            pipe.proto.hold_goodbye(true);
            return false;
        }
        let signals = self.link.signals();
        let Dirty { mut taken, closed } = signals.take();
        if !closed.is_empty() {
            let fence = self.link.fence();
            self.closing.extend(closed.into_iter().map(|(inbox, reason)| (inbox, reason, fence)));
        }
        while self.may_close()
            && let Some((inbox, reason, _)) = self.closing.pop_front()
        {
            if let Some((mailbox, generation)) = self.mailboxes.close(inbox) {
                let ordinal = reason.code;
                let kind = RecordKind::Closed;
                let header =
                    RecordHeader { mailbox, generation, ordinal, ..RecordHeader::new(kind) };
                pipe.proto.control_with(header, reason.text_bytes());
            }
        }
        pipe.proto.hold_goodbye(!self.closing.is_empty());
        taken.append(&mut self.mailboxes.take_wanted());
        let (urgent, mut reported) = (signals.peer_blocked(), false);
        for account in taken {
            if let Some((place, report)) = self.mailboxes.report(account, urgent) {
                pipe.proto.report_window(place, report);
                reported = true;
            }
        }
        if let Some(count) = self.mailboxes.take_unopened() {
            pipe.proto.report_unopened(count);
            reported = true;
        }
        // A peer for which it was not enough says again that it waits.
        if urgent && reported {
            signals.set_peer_blocked(false);
        }
        true
    }
}
