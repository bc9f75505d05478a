//! Putting what waits into a frame, in the order of service: control, answers, messages.

use super::{Outbound, Queues};
use crate::proto::credit::Class;
use crate::proto::fate::Sent;
use crate::proto::frame::FrameWriter;
use crate::proto::header::{RecordHeader, RecordKind};
use crate::proto::lanes::{Bulk, Entry};
#[cfg(feature = "steps")]
use crate::proto::steps;
use crate::steps::step;

/// A committed message that will not be sent, because its mailbox closed while it waited.
#[derive(Debug, Clone)]
pub(crate) struct Dropped(pub(crate) Entry);

/// Fewest bytes of a fragment worth a record, unless fewer are left.
const FRAGMENT_MIN: usize = 512;

/// What one call of [`Outbound::fill`] did.
#[derive(Default)]
pub(crate) struct Filled {
    /// The lowest class that was written.
    pub(crate) class: Option<Class>,
    /// Messages and answers whose last record was written.
    pub(crate) messages: u32,
}

impl Filled {
    fn wrote(&mut self, class: Class) {
        self.class = Some(self.class.map_or(class, |c| c.min(class)));
    }
}

impl Outbound {
    /// Whether anything waits.
    pub(crate) fn is_empty(&self) -> bool {
        let q = &self.queues;
        q.control.is_empty()
            && q.replies.is_empty()
            && q.eager.is_empty()
            && q.bulk.is_empty()
            && q.bulk_replies.is_empty()
            && q.current.is_none()
    }

    /// Writes what fits and is at least of class `allowed`. Messages whose last record was written
    /// go to `sent`, with `frame` as their frame; those whose mailbox closed to `dropped`.
    pub(crate) fn fill(
        &mut self,
        writer: &mut FrameWriter<'_>,
        allowed: Class,
        frame: u32,
        sent: &mut impl FnMut(Sent),
        dropped: &mut Vec<Dropped>,
    ) -> Filled {
        let mut filled = Filled::default();
        if allowed <= Class::Control {
            self.fill_control(writer, &mut filled);
        }
        if allowed <= Class::Reply && self.queues.control.is_empty() {
            self.fill_replies(writer, &mut filled);
        }
        if allowed <= Class::Data && self.queues.control.is_empty() {
            let bulk_first = self.queues.bulk_turn;
            for bulk in [bulk_first, !bulk_first] {
                if bulk {
                    self.fill_bulk(writer, frame, sent, dropped, &mut filled);
                } else {
                    self.fill_eager(writer, frame, sent, dropped, &mut filled);
                }
            }
            if filled.class == Some(Class::Data) {
                self.queues.bulk_turn = !bulk_first;
            }
        }
        filled
    }

    fn fill_control(&mut self, writer: &mut FrameWriter<'_>, filled: &mut Filled) {
        while let Some((header, payload)) = self.queues.control.front() {
            if !writer.fits(header, payload.len()) {
                return;
            }
            writer.push(*header, payload);
            filled.wrote(Class::Control);
            self.queues.control.pop_front();
        }
    }

    fn fill_replies(&mut self, writer: &mut FrameWriter<'_>, filled: &mut Filled) {
        while let Some((entry, bytes)) = self.queues.replies.front() {
            let header = entry.header(0, 0);
            if !writer.fits(&header, bytes.len()) {
                break;
            }
            writer.push(header, bytes);
            filled.wrote(Class::Reply);
            filled.messages += 1;
            self.queues.replies.pop();
        }
        if self.queues.current.is_none() {
            self.queues.current = self.queues.bulk_replies.pop_front();
        }
        let is_reply = |bulk: &Bulk| bulk.entry.kind == RecordKind::Reply;
        if self.queues.current.as_ref().is_some_and(is_reply)
            && let Some(done) = self.queues.fill_part((0, 0), writer, Class::Reply, filled)
            && done.is_some()
        {
            filled.messages += 1;
        }
    }

    fn fill_eager(
        &mut self,
        writer: &mut FrameWriter<'_>,
        frame: u32,
        sent: &mut impl FnMut(Sent),
        dropped: &mut Vec<Dropped>,
        filled: &mut Filled,
    ) {
        while let Some((entry, bytes)) = self.queues.eager.front() {
            let port = &self.ports[entry.port as usize];
            if port.closed {
                dropped.extend(self.queues.eager.pop().map(Dropped));
                continue;
            }
            let header = entry.header(port.index, port.generation);
            if !writer.fits(&header, bytes.len()) {
                return;
            }
            let place = writer.push(header, bytes);
            filled.wrote(Class::Data);
            filled.messages += 1;
            if let Some(entry) = self.queues.eager.pop() {
                sent(in_flight(&entry, frame, place));
            }
        }
    }

    /// The next part of the fragmented message, and small ones that queued behind large ones.
    fn fill_bulk(
        &mut self,
        writer: &mut FrameWriter<'_>,
        frame: u32,
        sent: &mut impl FnMut(Sent),
        dropped: &mut Vec<Dropped>,
        filled: &mut Filled,
    ) {
        loop {
            if self.queues.current.is_none() {
                // A large answer that waits is next: answers go before messages.
                if !self.queues.bulk_replies.is_empty() {
                    return;
                }
                let passed = |bulk: &Bulk| self.queues.eager.passed(bulk.mark);
                if !self.queues.bulk.front().is_some_and(passed) {
                    return;
                }
                self.queues.current = self.queues.bulk.pop_front();
            }
            let Some(current) = &self.queues.current else { return };
            if current.entry.kind == RecordKind::Reply {
                return;
            }
            let key = current.entry.port as usize;
            if self.ports[key].closed && current.sent == 0 {
                self.ports[key].bulk -= 1;
                dropped.extend(self.queues.current.take().map(|bulk| Dropped(bulk.entry)));
                continue;
            }
            let to = (self.ports[key].index, self.ports[key].generation);
            match self.queues.fill_part(to, writer, Class::Data, filled) {
                Some(Some((entry, place))) => {
                    self.ports[key].bulk -= 1;
                    filled.messages += 1;
                    sent(in_flight(&entry, frame, place));
                }
                Some(None) | None => return,
            }
        }
    }

    /// What waits when the link ends: it was not sent.
    pub(crate) fn end(&mut self) -> Vec<Entry> {
        let mut all = Vec::new();
        let q = &mut self.queues;
        // A large message of which parts were sent cannot have been dispatched: it has no end.
        all.extend(q.current.take().into_iter().chain(q.bulk.drain(..)).map(|b| b.entry));
        while let Some(entry) = q.eager.pop() {
            all.push(entry);
        }
        all.retain(|entry| entry.kind != RecordKind::Reply);
        all
    }
}

impl Queues {
    /// Writes the next part of the current fragmented message. `None`: no room; `Some(None)`: a
    /// part that is not the last; `Some(Some(..))`: the last, and its place.
    fn fill_part(
        &mut self,
        to: (u32, u32),
        writer: &mut FrameWriter<'_>,
        class: Class,
        filled: &mut Filled,
    ) -> Option<Option<(Entry, u16)>> {
        let bulk = self.current.as_mut()?;
        let left = bulk.remaining().len();
        let header = if bulk.sent == 0 {
            bulk.entry.header(to.0, to.1)
        } else {
            RecordHeader::new(RecordKind::Fragment)
        };
        if !writer.fits(&header, left.min(FRAGMENT_MIN)) {
            return None;
        }
        let part = left.min(writer.room(&header));
        let total = if bulk.sent == 0 && part < left { left as u32 } else { 0 };
        let place = writer.push(RecordHeader { total, ..header }, &bulk.remaining()[..part]);
        step!(written steps::part_sent(bulk.sent == 0, part == left));
        bulk.sent += part;
        filled.wrote(class);
        if part < left {
            return Some(None);
        }
        let done = self.current.take()?;
        Some(Some((done.entry, place)))
    }
}

fn in_flight(entry: &Entry, frame: u32, place: u16) -> Sent {
    Sent {
        frame,
        place,
        port: entry.port,
        message: entry.message,
        correlation: if entry.kind == RecordKind::Ask { entry.correlation } else { 0 },
        confirm: if entry.kind == RecordKind::Tell { entry.correlation } else { 0 },
    }
}
