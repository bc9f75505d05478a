//! The reader of frames: checks each record and turns it into events.

use std::time::{Duration, Instant};

use super::{Arrival, Body, Event, Incoming, LinkProtocol};
use crate::limits;
use crate::memory::TailRoom;
use crate::mutants::planted;
use crate::note::Note;
use crate::proto::error::{OpenRefusal, Refusal, Violation};
use crate::proto::fate::is_before;
use crate::proto::fragment::Assembly;
use crate::proto::frame::{FrameReader, Record, Tells};
use crate::proto::header::{ALL_MAILBOXES, RecordHeader, RecordKind, Stream};
use crate::proto::remote_mailbox::decode_request;
use crate::proto::send_queue::SendQueue;
#[cfg(feature = "steps")]
use crate::proto::steps;
use crate::proto::window::{Count, Report};
use crate::steps::step;

/// Time after which the peer is told at once that a frame with a tail was consumed.
const TOLD_EVERY: Duration = Duration::from_millis(100);

impl LinkProtocol {
    /// Returns the memory for the tail of a frame, `bytes` long. All frames before it were handled,
    /// and no other frame is handled before it.
    pub(crate) fn tail_room(&mut self, frame: &[u8], bytes: usize) -> Result<TailRoom, Violation> {
        let (header, mut reader) = FrameReader::new(frame, bytes)?;
        while let Some(record) = reader.read(header.records)? {
            if record.header.tail && record.header.kind == RecordKind::Fragment {
                let stream = Stream::of(record.header.ordinal)? as usize;
                let assembly = self.incoming.assemblies[stream].as_mut();
                return assembly.ok_or(Violation::Fragment)?.room(bytes);
            }
        }
        Err(Violation::Record)
    }

    /// Reads one frame, with the memory that its tail was read into. Appends its events to
    /// `events`, to be handled in order before
    /// [`handle_dispatched`](LinkProtocol::handle_dispatched) is called and the next frame is read.
    pub(crate) fn handle_frame<W>(
        &mut self,
        (frame, tail): (&[u8], Option<TailRoom>),
        out: &mut SendQueue<W>,
        events: &mut Vec<Event<W>>,
        now: Instant,
    ) -> Result<(), Violation> {
        let number = self.ledger.received();
        let tail = self.incoming.take_back(tail);
        let (header, mut reader) = FrameReader::new(frame, tail)?;
        let answer_now = header.answer_now | (tail > 0 && self.incoming.is_long_untold(now));
        self.ledger.arrive(header.consumed, answer_now)?;
        self.trip.arrived(number, header.short, self.ledger.ring(), now);
        let age = self.age.arrive(header.clock_ms, now);
        let arrived = Arrived { number, now, age };
        step!(any(header.records == 0).then_some(crate::steps::Step::CreditReceived));
        if !self.handshake.confirm_received && header.records != 1 {
            return Err(Violation::Confirm);
        }
        loop {
            // Most records of most frames; a fault of one is found below.
            if !reader.is_at_end()
                && self.takes_messages()
                && let Some(tells) = reader.read_tells(header.records, self.sizes.message_max)
            {
                step!(any RecordHeader::new(RecordKind::Tell).received());
                events.push(Event::Tells(Tells { at: (number, tells.at.1), ..tells }));
            }
            let Some(record) = reader.read(header.records)? else { break };
            if !self.handshake.confirm_received {
                self.handle_confirm(frame, &record, out, events)?;
                continue;
            }
            self.handle_record(&arrived, frame, record, out, events)?;
        }
        events.extend(out.take_unsendable().into_iter().map(Event::Unsent));
        // Refusals in this very frame were handled above (FA-2).
        while let Some(sent) = self.in_flight.acknowledge(header.consumed) {
            out.settle_all(sent.mailbox, sent.count);
            if sent.what.confirm() != 0 {
                step!(Acknowledged);
                events.push(Event::Delivered(sent.what.confirm()));
            }
        }
        while self.told.pop_front_if(|(frame, _)| is_before(*frame, header.consumed)).is_some() {}
        if planted!(DoubleDispatch) && number.is_multiple_of(8) {
            repeat_delivery(events);
        }
        Ok(())
    }

    /// Returns true if the peer may send messages now.
    fn takes_messages(&self) -> bool {
        self.handshake.confirm_received && self.handshake.goodbye_received.is_none()
    }

    fn handle_confirm<W>(
        &mut self,
        frame: &[u8],
        record: &Record,
        out: &mut SendQueue<W>,
        events: &mut Vec<Event<W>>,
    ) -> Result<(), Violation> {
        if record.header.kind != RecordKind::Confirm || frame.len() != self.sizes.frame_max {
            return Err(Violation::Confirm);
        }
        step!(ConfirmReceived);
        self.handshake.confirm_received = true;
        out.carry(Count { messages: record.header.total, bytes: record.header.correlation });
        events.push(Event::Confirmed);
        Ok(())
    }

    fn handle_record<W>(
        &mut self,
        arrived: &Arrived,
        frame: &[u8],
        record: Record,
        out: &mut SendQueue<W>,
        events: &mut Vec<Event<W>>,
    ) -> Result<(), Violation> {
        let header = record.header;
        let bytes = &frame[record.payload.clone()];
        if self.handshake.goodbye_received.is_some() && header.kind != RecordKind::Refusal {
            return Err(Violation::Goodbye);
        }
        step!(any header.received());
        match header.kind {
            RecordKind::Tell | RecordKind::Ask | RecordKind::Reply | RecordKind::Fragment => {
                self.handle_message(arrived, frame, &record, out, events)?;
            }
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
                let refusal = OpenRefusal::decode(header.ordinal, bytes)?;
                out.handle_open_refused(header.correlation, refusal)?;
            }
            RecordKind::Closed => {
                out.handle_closed((header.mailbox, header.generation), header.ordinal, bytes)?;
            }
            RecordKind::Window => {
                let taken = Count { messages: header.total, bytes: header.correlation };
                let report = Report { taken, doublings: header.ordinal };
                out.handle_window(header.mailbox, header.generation, report)?;
            }
            RecordKind::Blocked if header.mailbox == ALL_MAILBOXES => {
                events.push(Event::LinkBlocked)
            }
            RecordKind::Blocked => events
                .push(Event::Blocked { mailbox: header.mailbox, generation: header.generation }),
            RecordKind::Refusal => self.handle_refusal(&header, events)?,
            RecordKind::Cancel => out.open_asks.cancel(header.correlation),
            RecordKind::Grant => {
                self.ledger.grow_peer(header.total)?;
                events.push(Event::Granted(header.total));
            }
            RecordKind::Lend | RecordKind::Fetched | RecordKind::Unlent => {
                self.handle_loan(&header, out, events)?;
            }
            RecordKind::Probe => {}
            RecordKind::Confirm => return Err(Violation::Confirm),
            RecordKind::Goodbye => {
                self.incoming.check_end()?;
                out.handle_goodbye();
                self.handshake.goodbye_received = Some(arrived.number);
                self.handshake.leave = true;
                events.push(Event::Goodbye);
            }
        }
        Ok(())
    }

    fn handle_loan<W>(
        &mut self,
        header: &RecordHeader,
        out: &mut SendQueue<W>,
        events: &mut Vec<Event<W>>,
    ) -> Result<(), Violation> {
        let fetches = &mut self.incoming.fetches;
        match header.kind {
            RecordKind::Fetched => out.handle_fetched(header.ordinal, header.total)?,
            RecordKind::Unlent => drop(fetches.take(header.ordinal.into())?),
            // The peer finds out by the goodbye that no answer comes.
            _ if self.handshake.goodbye_sent.is_some() => {}
            _ => events.push(Event::Lent(fetches.begin(header, self.sizes.message_max)?)),
        }
        Ok(())
    }

    /// Handles a message or an answer, or a part of one.
    fn handle_message<W>(
        &mut self,
        arrived: &Arrived,
        frame: &[u8],
        record: &Record,
        out: &mut SendQueue<W>,
        events: &mut Vec<Event<W>>,
    ) -> Result<(), Violation> {
        let Record { header, place, ref payload } = *record;
        let bytes = &frame[payload.clone()];
        if header.kind == RecordKind::Fragment {
            let assembly = &mut self.incoming.assemblies[Stream::of(header.ordinal)? as usize];
            let added = assembly.as_mut().ok_or(Violation::Fragment)?;
            let last = if header.tail {
                added.add_tail(header.payload as usize)?
            } else {
                added.add(bytes)?
            };
            step!(any steps::part_received(last));
            let Some(whole) = assembly.take_if(|_| last) else { return Ok(()) };
            let (first, deadline, body) = whole.finish();
            return arrived.whole(place, (&first, deadline), Body::Whole(body.into()), out, events);
        }
        let deadline = arrived.deadline(&header);
        if header.lent {
            let body = Body::Fetched(self.incoming.fetches.take(header.total)?);
            return arrived.whole(place, (&header, deadline), body, out, events);
        }
        if header.total == 0 {
            if bytes.len() > self.sizes.message_max as usize {
                return Err(Violation::Fragment);
            }
            let body = Body::Part(payload.clone());
            return arrived.whole(place, (&header, deadline), body, out, events);
        }
        let assembly = &mut self.incoming.assemblies[stream_of(header.kind) as usize];
        if assembly.is_some() {
            return Err(Violation::Fragment);
        }
        *assembly = Some(Assembly::begin(header, deadline, bytes, self.sizes.message_max)?);
        Ok(())
    }

    fn handle_refusal<W>(
        &mut self,
        header: &RecordHeader,
        events: &mut Vec<Event<W>>,
    ) -> Result<(), Violation> {
        let place = u16::try_from(header.generation).map_err(|_| Violation::Refusal)?;
        let refusal = Refusal::of(header.ordinal)?;
        let sent = self.in_flight.refuse(header.mailbox, place)?;
        events.push(Event::Refused(sent, refusal));
        Ok(())
    }
}

impl Incoming {
    /// Returns true, now and then, if the peer is to be told of a frame at once: over a slow path
    /// frames with tails take so long that it would believe this node gone.
    fn is_long_untold(&mut self, now: Instant) -> bool {
        let is_long = |told: Instant| now.saturating_duration_since(told) >= TOLD_EVERY;
        let is_due = self.told.is_none_or(is_long);
        if is_due {
            self.told = Some(now);
        }
        is_due
    }

    /// Takes back the memory of a tail, and returns its length.
    fn take_back(&mut self, room: Option<TailRoom>) -> usize {
        let Some(room) = room else { return 0 };
        let bytes = room.len();
        let mut assemblies = self.assemblies.iter_mut().flatten();
        if let Some(assembly) = assemblies.find(|assembly| assembly.gave_room()) {
            assembly.take_back(room);
        }
        bytes
    }

    /// Checks that nothing large is under way, at the goodbye of the peer.
    fn check_end(&self) -> Result<(), Violation> {
        if self.assemblies.iter().any(Option::is_some) {
            return Err(Violation::Fragment);
        }
        if self.fetches.is_empty() { Ok(()) } else { Err(Violation::Loan) }
    }
}

fn stream_of(kind: RecordKind) -> Stream {
    if kind == RecordKind::Reply { Stream::Replies } else { Stream::Messages }
}

/// The frame that is read.
struct Arrived {
    number: u32,
    now: Instant,
    /// Time that it took to arrive, beyond what frames usually take.
    age: Duration,
}

impl Arrived {
    /// Handles a message or an answer that is complete.
    fn whole<W>(
        &self,
        place: u16,
        (header, deadline): (&RecordHeader, Option<Instant>),
        body: Body,
        out: &mut SendQueue<W>,
        events: &mut Vec<Event<W>>,
    ) -> Result<(), Violation> {
        let RecordHeader { kind, correlation, ordinal, mailbox, generation, .. } = *header;
        if kind == RecordKind::Reply {
            // An answer that no asker waits for any more is dropped here.
            let waiter = out.asks.answer(correlation);
            events.extend(waiter.map(|waiter| Event::Reply { waiter, code: ordinal, body }));
            return Ok(());
        }
        let ask = kind == RecordKind::Ask;
        if ask == (correlation == 0) {
            return Err(Violation::Record);
        }
        if ask {
            // From now on it is to be answered.
            out.open_asks.open(correlation, deadline)?;
        }
        events.push(Event::Deliver(Arrival {
            at: (self.number, place),
            mailbox,
            generation,
            ordinal,
            correlation: ask.then_some(correlation),
            deadline,
            note: header.note.map(Note::new),
            body,
        }));
        Ok(())
    }

    /// Returns the deadline of an ask by this node's clock: the time that was left when its record
    /// was written, less the age of the frame.
    fn deadline(&self, header: &RecordHeader) -> Option<Instant> {
        let left = Duration::from_micros(header.deadline_us?).min(limits::DEADLINE_MAX);
        let age = if planted!(FreshDeadline) { Duration::ZERO } else { self.age };
        Some(self.now + left.saturating_sub(age))
    }
}

/// Repeats a delivery: the planted bug `DoubleDispatch`.
fn repeat_delivery<W>(events: &mut Vec<Event<W>>) {
    let again = match events.last() {
        Some(Event::Deliver(last)) => {
            let (note, body) = (last.note.clone(), last.body.clone());
            Event::Deliver(Arrival { note, body, ..*last })
        }
        Some(Event::Tells(last)) => Event::Tells(last.clone()),
        _ => return,
    };
    events.push(again);
}
