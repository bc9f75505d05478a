//! Writing frames: which records the next one has, in which order, and if there is credit for it.

use std::time::Instant;

use super::{Handshake, LinkProtocol};
use crate::memory::Tail;
use crate::mutants::planted;
use crate::proto::credit::{Class, FIRST_COUNT};
use crate::proto::fate::Sent;
use crate::proto::frame::{FrameWriter, Head};
use crate::proto::header::{RecordHeader, RecordKind};
use crate::proto::lanes::Entry;
use crate::proto::send_queue::{Filling, SendQueue};
use crate::steps::step;

/// A frame to post.
#[derive(Debug)]
pub(crate) struct Transmit {
    /// Bytes of the slot.
    pub(crate) bytes: usize,
    /// The part of a large message that stays where it is.
    pub(crate) tail: Option<Tail>,
    pub(crate) class: Class,
    pub(crate) messages: u32,
}

impl Transmit {
    /// Returns the length of the frame in bytes.
    pub(crate) fn frame_bytes(&self) -> usize {
        self.bytes + self.tail.as_ref().map_or(0, |tail| tail.len())
    }
}

impl LinkProtocol {
    /// Returns the next frame, written into `slot`; `None` when there is nothing to send or no
    /// credit for it. Asks that are not sent, because their askers have given up, go to `dropped`.
    pub(crate) fn poll_transmit<W>(
        &mut self,
        out: &mut SendQueue<W>,
        slot: &mut [u8],
        dropped: &mut Vec<Entry>,
        now: Instant,
    ) -> Option<Transmit> {
        if self.ledger.credits() == 0 || self.is_idle(out) {
            self.note_stall(out);
            return None;
        }
        let slot = &mut slot[..self.sizes.frame_max];
        // LK-1.
        if !self.handshake.confirm_sent {
            self.handshake.confirm_sent = true;
            return Some(self.transmit_confirm(slot, now));
        }
        if !self.handshake.confirm_received {
            return None;
        }
        let frame = self.ledger.sent();
        let mut writer = FrameWriter::new(slot).with_tail(self.sizes.tail_max);
        self.write_refusals(&mut writer);
        let mut answer_now = false;
        let mut class = if writer.is_empty() { None } else { Some(Class::Credit) };
        let mut messages = 0;
        if self.handshake.goodbye_sent.is_none()
            && let Some(allowed) = self.allowed()
        {
            let control = self.write_control(&mut writer);
            class = control.or(class);
            if self.control.is_empty() {
                let in_flight = &mut self.in_flight;
                let mut sent = |sent: Sent| {
                    answer_now |= sent.what.confirm() != 0;
                    in_flight.push(sent);
                };
                let (writer, sent) = (&mut writer, &mut sent);
                let mut to = Filling { writer, frame, now, sent, dropped, class, messages: 0 };
                out.fill(allowed, &mut to);
                (class, messages) = (to.class, to.messages);
            }
            answer_now |= self.write_last(out, &mut writer, &mut class, frame);
        }
        if class.is_none() && self.ledger.credit_due() {
            class = Some(Class::Credit);
        }
        let Some(class) = class.filter(|class| self.ledger.may_send(*class)) else {
            self.note_stall(out);
            return None;
        };
        // A frame without messages helps no message that waits.
        self.uncredited &= class != Class::Data;
        step!(written(class == Class::Credit).then_some(crate::steps::Step::CreditSent));
        let before = self.ledger.reported();
        let consumed = self.ledger.post(class);
        if consumed != before {
            self.trip.reported(before.wrapping_add(self.ledger.ring()), now);
        }
        let clock_ms = self.age.clock_ms(now);
        let short = !self.ledger.may_send(Class::Data) && !out.is_empty();
        let head = Head { answer_now, short, consumed, clock_ms };
        let tail = writer.tail();
        Some(Transmit { bytes: writer.finish(head), tail, class, messages })
    }

    /// Returns true if nothing at all waits to be sent, not even credits that are due.
    pub(crate) fn is_idle<W>(&mut self, out: &SendQueue<W>) -> bool {
        let Handshake { confirm_sent, leave, held, goodbye_sent, .. } = self.handshake;
        let idle = confirm_sent
            && out.is_empty()
            && self.control.is_empty()
            && self.refusals.is_empty()
            && !self.probe
            && (!leave || held || goodbye_sent.is_some());
        if idle {
            self.uncredited &= planted!(StaleStall);
            self.count_consumed();
        }
        idle && !self.ledger.credit_due()
    }

    /// Returns the lowest class that may be sent, if any but credit.
    fn allowed(&self) -> Option<Class> {
        [Class::Data, Class::Reply, Class::Control].into_iter().find(|c| self.ledger.may_send(*c))
    }

    fn transmit_confirm(&mut self, slot: &mut [u8], now: Instant) -> Transmit {
        let mut writer = FrameWriter::new(slot);
        let header = RecordHeader {
            total: self.carried.messages,
            correlation: self.carried.bytes,
            ..RecordHeader::new(RecordKind::Confirm)
        };
        let padding = vec![0; writer.room(&header)];
        writer.push(header, &padding);
        let consumed = self.ledger.post(Class::Control);
        let clock_ms = self.age.clock_ms(now);
        let bytes = writer.finish(Head { consumed, clock_ms, ..Head::default() });
        Transmit { bytes, tail: None, class: Class::Control, messages: 0 }
    }

    /// Writes refusals; the frames that now have all of theirs written count as consumed (LK-2).
    fn write_refusals(&mut self, writer: &mut FrameWriter<'_>) {
        let carrier = self.ledger.sent();
        while let Some(refused) = self.refusals.front() {
            let header = RecordHeader {
                mailbox: refused.frame,
                generation: refused.place.into(),
                ordinal: refused.refusal as u16,
                ..RecordHeader::new(RecordKind::Refusal)
            };
            if !writer.fits(&header, 0) {
                break;
            }
            writer.push(header, &[]);
            self.told.extend(self.refusals.pop_front().map(|refused| (carrier, refused)));
            if planted!(EarlyAcknowledgement) {
                break;
            }
        }
        self.count_consumed();
    }

    /// Counts the frames that have all their refusals written (LK-2): to be acknowledged with the
    /// next frame.
    fn count_consumed(&mut self) {
        let written = self.refusals.is_empty() || planted!(EarlyAcknowledgement);
        let first = self.refusals.front().filter(|_| !written);
        let mut count = first.map_or(self.dispatched, |refused| refused.frame);
        if planted!(CreditLeak) {
            count = count.wrapping_sub(count.wrapping_sub(FIRST_COUNT) / 16);
        }
        self.ledger.consume_to(count);
    }

    fn write_control(&mut self, writer: &mut FrameWriter<'_>) -> Option<Class> {
        let mut class = None;
        while let Some((header, payload)) = self.control.front() {
            if !writer.fits(header, payload.len()) {
                break;
            }
            writer.push(*header, payload);
            class = Some(Class::Control);
            let answer = matches!(header.kind, RecordKind::Opened | RecordKind::OpenRefused);
            self.open_answers -= usize::from(answer && !header.more);
            if header.kind == RecordKind::Fetched {
                self.incoming.fetches.answered(header.ordinal);
            }
            self.control.pop_front();
        }
        class
    }

    /// Writes a probe, and the goodbye when nothing else waits; returns true if the frame wants an
    /// answer.
    fn write_last<W>(
        &mut self,
        out: &SendQueue<W>,
        writer: &mut FrameWriter<'_>,
        class: &mut Option<Class>,
        frame: u32,
    ) -> bool {
        let mut push = |kind| {
            let header = RecordHeader::new(kind);
            let fits = writer.fits(&header, 0);
            if fits {
                writer.push(header, &[]);
                *class = Some(class.map_or(Class::Control, |c| c.min(Class::Control)));
            }
            fits
        };
        let mut answer_now = false;
        if self.probe && push(RecordKind::Probe) {
            self.probe = false;
            answer_now = true;
        }
        let leaves = self.handshake.leave && !self.handshake.held;
        let is_last = leaves && self.control.is_empty() && out.is_finished();
        if is_last && push(RecordKind::Goodbye) {
            self.handshake.goodbye_sent = Some(frame);
            self.incoming.fetches.stop();
            answer_now = true;
        }
        answer_now
    }

    fn note_stall<W>(&mut self, out: &SendQueue<W>) {
        self.uncredited = !out.is_empty() && self.handshake.confirm_received;
    }
}
