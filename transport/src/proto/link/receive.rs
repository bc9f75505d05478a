//! What arrives.

use super::{Arrival, Body, Event, Link, refusal_of};
use crate::cause::{OpenRefusal, Violation};
use crate::mutants::planted;
use crate::proto::fate::is_before;
use crate::proto::fragment::Assembly;
use crate::proto::frame::{FrameReader, Record};
use crate::proto::header::{ALL_MAILBOXES, RecordHeader, RecordKind};
use crate::proto::outbound::Outbound;
use crate::proto::outlet::decode_request;
#[cfg(feature = "steps")]
use crate::proto::steps;
use crate::proto::window::Count;
use crate::steps::step;

impl Link {
    /// Reads one frame. Appends what is to be done to `events`, to be done in order before
    /// [`handle_dispatched`](Link::handle_dispatched) is called and the next frame is read.
    pub(crate) fn handle_frame(
        &mut self,
        frame: &[u8],
        out: &mut Outbound,
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        let number = self.ledger.received();
        let (header, mut reader) = FrameReader::new(frame)?;
        self.ledger.arrive(header.consumed, header.answer_now)?;
        step!(any(header.records == 0).then_some(crate::steps::Step::CreditReceived));
        if !self.handshake.confirm_received && header.records != 1 {
            return Err(Violation::Confirm);
        }
        while let Some(record) = reader.read(header.records)? {
            if !self.handshake.confirm_received {
                self.handle_confirm(frame, &record, events)?;
                continue;
            }
            self.handle_record(number, frame, record, out, events)?;
        }
        // Refusals in this very frame were handled above (FA-2).
        while let Some(sent) = self.in_flight.acknowledge(header.consumed) {
            out.settle(sent.port);
            if sent.confirm != 0 {
                step!(Acknowledged);
                events.push(Event::Delivered(sent.confirm));
            }
        }
        while self.told.pop_front_if(|(frame, _)| is_before(*frame, header.consumed)).is_some() {}
        if planted!(DoubleDispatch) && number.is_multiple_of(8) {
            repeat_delivery(events);
        }
        Ok(())
    }

    fn handle_confirm(
        &mut self,
        frame: &[u8],
        record: &Record,
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        if record.header.kind != RecordKind::Confirm || frame.len() != self.sizes.frame_max {
            return Err(Violation::Confirm);
        }
        step!(ConfirmReceived);
        self.handshake.confirm_received = true;
        events.push(Event::Confirmed);
        Ok(())
    }

    fn handle_record(
        &mut self,
        number: u32,
        frame: &[u8],
        record: Record,
        out: &mut Outbound,
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        let Record { header, place, payload } = record;
        let bytes = &frame[payload.clone()];
        if self.handshake.goodbye_received.is_some() && header.kind != RecordKind::Refusal {
            return Err(Violation::Goodbye);
        }
        step!(any header.received());
        match header.kind {
            RecordKind::Tell | RecordKind::Ask | RecordKind::Reply if header.total != 0 => {
                // FR-1.
                if self.assembly.is_some() {
                    return Err(Violation::Fragment);
                }
                self.assembly = Some(Assembly::begin(header, bytes, self.sizes.message_max)?);
            }
            RecordKind::Tell | RecordKind::Ask | RecordKind::Reply => {
                if payload.len() > self.sizes.message_max as usize {
                    return Err(Violation::Fragment);
                }
                events.push(arrival((number, place), &header, Body::Part(payload))?);
            }
            RecordKind::Fragment => self.handle_fragment((number, place), bytes, events)?,
            RecordKind::Signal => events.push(Event::Signal {
                mailbox: header.mailbox,
                generation: header.generation,
                signal: header.ordinal,
                windowed: header.correlation != 0,
            }),
            RecordKind::Open => {
                let correlation = header.correlation;
                events.push(Event::Open { correlation, request: decode_request(bytes)? });
            }
            RecordKind::Opened => out.handle_opened(&header, bytes)?,
            RecordKind::OpenRefused => {
                out.handle_open_refused(header.correlation, open_refusal_of(header.ordinal)?)?;
            }
            RecordKind::Closed => out.handle_closed(header.mailbox, header.generation)?,
            RecordKind::Window => {
                let taken = Count { messages: header.total, bytes: header.correlation };
                out.handle_window(header.mailbox, header.generation, taken)?;
            }
            RecordKind::Blocked if header.mailbox == ALL_MAILBOXES => {
                events.push(Event::LinkBlocked)
            }
            RecordKind::Blocked => events
                .push(Event::Blocked { mailbox: header.mailbox, generation: header.generation }),
            RecordKind::Refusal => self.handle_refusal(&header, events)?,
            RecordKind::Probe => {}
            RecordKind::Confirm => return Err(Violation::Confirm),
            RecordKind::Goodbye => {
                if self.assembly.is_some() {
                    return Err(Violation::Fragment);
                }
                self.handshake.goodbye_received = Some(number);
                self.handshake.leave = true;
                events.push(Event::Goodbye);
            }
        }
        Ok(())
    }

    fn handle_fragment(
        &mut self,
        at: (u32, u16),
        part: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        let assembly = self.assembly.as_mut().ok_or(Violation::Fragment)?;
        let last = assembly.add(part)?;
        step!(any steps::part_received(last));
        if last && let Some(assembly) = self.assembly.take() {
            let (first, body) = assembly.finish();
            events.push(arrival(at, &first, Body::Whole(body))?);
        }
        Ok(())
    }

    fn handle_refusal(
        &mut self,
        header: &RecordHeader,
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        let place = u16::try_from(header.generation).map_err(|_| Violation::Refusal)?;
        let refusal = refusal_of(header.ordinal)?;
        let sent = self.in_flight.refuse(header.mailbox, place)?;
        events.push(Event::Refused(sent, refusal));
        Ok(())
    }
}

fn open_refusal_of(code: u16) -> Result<OpenRefusal, Violation> {
    match code {
        1 => Ok(OpenRefusal::NoSuchMailbox),
        2 => Ok(OpenRefusal::WrongKind),
        _ => Err(Violation::Opening),
    }
}

fn arrival(at: (u32, u16), header: &RecordHeader, body: Body) -> Result<Event, Violation> {
    Ok(match header.kind {
        RecordKind::Reply => {
            Event::Reply { correlation: header.correlation, code: header.ordinal, body }
        }
        kind => {
            let ask = kind == RecordKind::Ask;
            if ask == (header.correlation == 0) {
                return Err(Violation::Record);
            }
            Event::Deliver(Arrival {
                at,
                mailbox: header.mailbox,
                generation: header.generation,
                ordinal: header.ordinal,
                correlation: ask.then_some(header.correlation),
                deadline_us: header.deadline_us,
                body,
            })
        }
    })
}

/// The planted bug `DoubleDispatch`.
fn repeat_delivery(events: &mut Vec<Event>) {
    let Some(Event::Deliver(last)) = events.last() else { return };
    let again = Arrival { body: last.body.clone(), ..*last };
    events.push(Event::Deliver(again));
}
