//! The filler of frames, in the order of service: control, small answers, then in turn
//! small messages, the large message under way and the large answer under way.

use std::time::Instant;

use super::{Queues, SendQueue, Turn};
use crate::mutants::planted;
use crate::note::Note;
use crate::proto::credit::Class;
use crate::proto::fate::{Sent, What};
use crate::proto::frame::FrameWriter;
use crate::proto::header::{RecordHeader, RecordKind, Stream};
use crate::proto::lanes::{Bulk, Entry};
use crate::proto::loans::{Lending, Loans};
#[cfg(feature = "steps")]
use crate::proto::steps;
use crate::proto::window::Count;
use crate::steps::step;

/// The code of an answer that was made and is not sent, because its asker does not wait for it any
/// more.
pub(crate) const REPLY_EXPIRED: u16 = 0xfffb;

/// Frames with small answers and no message after which small answers wait until messages, if there
/// are any, were written.
const ANSWERED_MAX: u8 = 3;
/// Fewest bytes of a fragment worth a record, unless fewer are left.
const FRAGMENT_MIN: usize = 512;
/// Fewest bytes of a fragment that go as a tail: to gather fewer costs as much as to copy them.
const TAIL_MIN: usize = if cfg!(test) { 256 } else { 1024 };

/// The frame that [`SendQueue::fill`] writes into, and what results from it.
pub(crate) struct Filling<'a, 'slot> {
    pub(crate) writer: &'a mut FrameWriter<'slot>,
    /// The frame's number.
    pub(crate) frame: u32,
    pub(crate) now: Instant,
    /// Messages whose last record was written.
    pub(crate) sent: &'a mut dyn FnMut(Sent),
    /// Asks that were not written, because their askers have given up.
    pub(crate) dropped: &'a mut Vec<Entry>,
    /// The lowest class that was written.
    pub(crate) class: Option<Class>,
    /// Messages and answers whose last record was written.
    pub(crate) messages: u32,
}

impl Filling<'_, '_> {
    fn wrote(&mut self, class: Class) {
        self.class = Some(self.class.map_or(class, |c| c.min(class)));
    }

    fn control(&mut self, header: RecordHeader, payload: &[u8]) -> bool {
        let fits = self.writer.fits(&header, payload.len());
        if fits {
            self.writer.push(header, payload);
            self.wrote(Class::Control);
        }
        fits
    }
}

/// The messages that were committed up to some moment: see [`SendQueue::fence`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fence {
    /// The mark in the eager lane.
    eager: u64,
    /// Large messages that were ever queued.
    bulk: u64,
}

impl<W> SendQueue<W> {
    /// Returns a fence that [passes](Self::has_passed) when all messages that are committed now
    /// were written, or are not sent.
    pub(crate) fn fence(&self) -> Fence {
        Fence { eager: self.queues.eager.mark(), bulk: self.queues.bulk_count }
    }

    pub(crate) fn has_passed(&self, fence: Fence) -> bool {
        let q = &self.queues;
        // The one under way may have passed others.
        let mut first = q.message.iter().chain(q.bulk.front());
        q.eager.passed(fence.eager) && first.all(|first| first.number >= fence.bulk)
    }

    /// Returns true if nothing waits that could be written, or lent, now.
    pub(crate) fn is_empty(&self) -> bool {
        let has_none = self.has_no_control() && self.queues.replies.is_empty() && !self.has_data();
        has_none && !self.has_to_lend()
    }

    /// Returns true if nothing waits, not even for the peer's answer to a loan.
    pub(crate) fn is_finished(&self) -> bool {
        let q = &self.queues;
        let has_large = q.message.is_some() || q.reply.is_some();
        let waits = has_large || !q.bulk.is_empty() || !q.bulk_replies.is_empty();
        self.is_empty() && !waits && self.queues.loans.is_empty()
    }

    fn has_no_control(&self) -> bool {
        let q = &self.queues;
        q.control.is_empty() && q.signals.is_empty() && q.cancels.is_empty()
    }

    /// Writes what fits and is at least of class `allowed`.
    pub(crate) fn fill(&mut self, allowed: Class, to: &mut Filling<'_, '_>) {
        if allowed <= Class::Control {
            self.fill_control(to);
        }
        if !self.has_no_control() {
            return;
        }
        let (data, waits, yields) = (allowed <= Class::Data, self.has_data(), self.yields());
        let mut answered = 0;
        if allowed <= Class::Reply && !yields {
            answered += self.fill_replies(to);
        }
        if data {
            self.fill_data(to);
        }
        if yields && data {
            answered += self.fill_replies(to);
        }
        if !waits || to.class == Some(Class::Data) {
            self.queues.answered = 0;
        } else if answered > 0 {
            self.queues.answered = self.queues.answered.saturating_add(1);
        }
    }

    /// Returns true if small answers wait until a message was written. They go first, but now and
    /// then they leave the frame to messages, and the credits too: answers need fewer, and where
    /// credits come back one at a time they would take each before there are enough for a message.
    /// Frames that bring credits back are still sent, so there will be enough (CR-2).
    pub(super) fn yields(&self) -> bool {
        self.queues.answered >= ANSWERED_MAX && self.has_data()
    }

    /// Returns true if anything waits that needs the credits of a message.
    fn has_data(&self) -> bool {
        let q = &self.queues;
        !q.eager.is_empty()
            || q.message.is_some()
            || q.reply.is_some()
            || (!q.bulk.is_empty() && self.next_message(None).is_some())
            || (!q.bulk_replies.is_empty() && self.next_reply().is_some())
    }

    /// Returns true if a message may be lent now, so that it does not go in parts.
    pub(super) fn may_lend(&self, bulk: &Bulk) -> bool {
        bulk.lending == Lending::Undecided && self.queues.loans.has_room(bulk.body.len())
    }

    fn fill_data(&mut self, to: &mut Filling<'_, '_>) {
        // Each goes first in every third frame, and takes what the others leave in the rest: behind
        // a tail nothing.
        let turn = self.queues.turn;
        let mut next = turn;
        for _ in 0..3 {
            match next {
                Turn::Small => self.fill_eager(to),
                Turn::Messages => self.fill_messages(to),
                Turn::Replies => self.fill_bulk_replies(to),
            }
            next = next.next();
        }
        if to.class == Some(Class::Data) {
            self.queues.turn = turn.next();
        }
    }

    fn fill_control(&mut self, to: &mut Filling<'_, '_>) {
        while let Some((header, payload)) = self.queues.control.front() {
            if !to.control(*header, payload) {
                return;
            }
            let Some((header, _)) = self.queues.control.pop_front() else { return };
            if header.kind == RecordKind::Open {
                self.asked(header.correlation);
            }
        }
        while let Some((key, signal)) = self.queues.signals.front().copied() {
            let mailbox = &mut self.mailboxes[key as usize];
            let header = RecordHeader {
                mailbox: mailbox.index,
                generation: mailbox.generation,
                ordinal: signal,
                ..RecordHeader::new(RecordKind::Signal)
            };
            // A mailbox that closed takes no signals.
            if !mailbox.closed && !to.control(header, &[]) {
                return;
            }
            mailbox.urgent.retain(|waiting| *waiting != signal);
            self.queues.signals.pop_front();
            self.settle(key);
        }
        while let Some(correlation) = self.queues.cancels.front().copied() {
            let kind = RecordKind::Cancel;
            if !to.control(RecordHeader { correlation, ..RecordHeader::new(kind) }, &[]) {
                return;
            }
            self.queues.cancels.pop_front();
        }
    }

    /// Returns how many were written.
    fn fill_replies(&mut self, to: &mut Filling<'_, '_>) -> usize {
        let before = self.queues.replies.len();
        while let Some(front) = self.queues.replies.front() {
            let (entry, bytes) = (front.entry, front.payload());
            let correlation = entry.correlation;
            let wanted = entry.ordinal != 0 || self.open_asks.is_wanted(correlation, to.now);
            let mut header = entry.header((0, 0), to.now);
            let (len, mut payload) = (bytes.len(), bytes);
            if !wanted {
                (header.ordinal, payload) = (REPLY_EXPIRED, &[]);
            }
            if !to.writer.fits(&header, payload.len()) {
                break;
            }
            to.writer.push(header, payload);
            to.wrote(Class::Reply);
            to.messages += 1;
            self.queues.reply_bytes -= len;
            self.queues.replies.pop();
            self.open_asks.close(correlation);
        }
        before - self.queues.replies.len()
    }

    fn fill_eager(&mut self, to: &mut Filling<'_, '_>) {
        while let Some(front) = self.queues.eager.front() {
            if self.is_unwanted(front.entry, to.now) {
                let bytes = front.payload().len() as u32;
                if let Some(entry) = self.queues.eager.pop() {
                    self.drop_entry(entry, bytes, to);
                }
                continue;
            }
            let (part, place);
            if front.entry.deadline.is_some() {
                let mailbox = &self.mailboxes[front.entry.mailbox as usize];
                let header = front.entry.header((mailbox.index, mailbox.generation), to.now);
                if !to.writer.fits(&header, front.payload().len()) {
                    return;
                }
                part = front.whole();
                place = to.writer.push(header, front.payload());
            } else {
                // The records are sent as the commit wrote them.
                let (records, bytes) = to.writer.room_for_records();
                part = front.fitting(records, bytes);
                if part.count.messages == 0 {
                    return;
                }
                place = to.writer.push_records(part.count.messages as u16, front.records(part));
                step!(written RecordHeader::new(front.entry.kind).sent());
            }
            to.wrote(Class::Data);
            let entry = front.entry.clone();
            self.queues.eager.advance(part);
            self.sent(&entry, part.count, place, to);
        }
    }

    /// Writes the next part of the large message under way, and small ones that queued behind large
    /// ones.
    fn fill_messages(&mut self, to: &mut Filling<'_, '_>) {
        loop {
            if self.queues.message.is_none() {
                if self.queues.bulk.is_empty() {
                    return;
                }
                if planted!(OneStream) && self.queues.reply.is_some() {
                    return;
                }
                let Some(place) = self.next_message(Some(to.now)) else { return };
                let Queues { bulk, loans, message, .. } = &mut self.queues;
                *message = Self::take_large(loans, bulk, place);
            }
            let Some(bulk) = &self.queues.message else { return };
            let key = bulk.entry.mailbox as usize;
            // A message that was begun is sent to its end.
            if bulk.sent == 0 && self.is_unwanted(&bulk.entry, to.now) {
                self.mailboxes[key].bulk -= 1;
                if let Some(Bulk { entry, body, lending, .. }) = self.queues.message.take() {
                    self.forgo_loan(lending);
                    self.drop_entry(entry, body.len() as u32, to);
                }
                continue;
            }
            let Some(bulk) = &mut self.queues.message else { return };
            let at = (self.mailboxes[key].index, self.mailboxes[key].generation);
            match write(bulk, &mut self.queues.loans, at, Stream::Messages, to) {
                Part::Last(place) => {
                    self.mailboxes[key].bulk -= 1;
                    if let Some(Bulk { entry, body, .. }) = self.queues.message.take() {
                        let count = Count { messages: 1, bytes: body.len() as u64 };
                        self.sent(&entry, count, place, to);
                    }
                }
                Part::NotLast => {
                    if let Some(Bulk { entry, .. }) = &self.queues.message
                        && entry.kind == RecordKind::Ask
                    {
                        self.asks.leaves(entry.correlation);
                    }
                    return;
                }
                Part::NoRoom => return,
            }
        }
    }

    fn fill_bulk_replies(&mut self, to: &mut Filling<'_, '_>) {
        loop {
            if self.queues.reply.is_none() {
                if self.queues.bulk_replies.is_empty() {
                    return;
                }
                if planted!(OneStream) && self.queues.message.is_some() {
                    return;
                }
                let Some(place) = self.next_reply() else { return };
                let Queues { bulk_replies, loans, reply, .. } = &mut self.queues;
                *reply = Self::take_large(loans, bulk_replies, place);
            }
            let Some(bulk) = &mut self.queues.reply else { return };
            let (correlation, lending) = (bulk.entry.correlation, bulk.lending);
            let unwanted = !self.open_asks.is_wanted(correlation, to.now);
            let part = if bulk.sent == 0 && unwanted {
                let expired = Entry { ordinal: REPLY_EXPIRED, ..bulk.entry.clone() };
                let header = expired.header((0, 0), to.now);
                if to.writer.fits(&header, 0) {
                    to.wrote(Class::Data);
                    let place = to.writer.push(header, &[]);
                    self.forgo_loan(lending);
                    Part::Last(place)
                } else {
                    Part::NoRoom
                }
            } else {
                write(bulk, &mut self.queues.loans, (0, 0), Stream::Replies, to)
            };
            match part {
                Part::Last(_) => {
                    to.messages += 1;
                    let done = self.queues.reply.take();
                    self.queues.reply_bytes -= done.map_or(0, |done| done.body.len());
                    self.open_asks.close(correlation);
                }
                Part::NotLast | Part::NoRoom => return,
            }
        }
    }

    /// Returns true if it is an ask whose asker has given up, or is about to.
    pub(super) fn is_unwanted(&self, entry: &Entry, now: Instant) -> bool {
        self.is_given_up(entry) || (entry.kind == RecordKind::Ask && entry.is_late(now))
    }

    /// Returns true if it is an ask whose asker has given up.
    pub(super) fn is_given_up(&self, entry: &Entry) -> bool {
        entry.kind == RecordKind::Ask && !self.asks.is_wanted(entry.correlation)
    }

    fn drop_entry(&mut self, entry: Entry, bytes: u32, to: &mut Filling<'_, '_>) {
        self.unreserve(entry.mailbox, bytes);
        to.dropped.push(entry);
    }

    /// Records that the last record of a message was written, or the records of several alike, the
    /// first of them at `place`: they are in flight.
    fn sent(&mut self, entry: &Entry, count: Count, place: u16, to: &mut Filling<'_, '_>) {
        to.messages += count.messages;
        self.mailboxes[entry.mailbox as usize].window.wrote(count);
        if entry.kind == RecordKind::Ask && self.asks.sent(entry.correlation) {
            self.queues.cancels.push_back(entry.correlation);
        }
        let what = match entry.kind {
            RecordKind::Tell => What::Tell { message: entry.message, confirm: entry.correlation },
            RecordKind::Ask => What::Ask { correlation: entry.correlation },
            _ => What::Signal,
        };
        let (frame, mailbox, count) = (to.frame, entry.mailbox, count.messages as u16);
        (to.sent)(Sent { frame, place, count, mailbox, what });
    }

    /// Takes out the messages that wait when the link ends: none was sent. Returns beside them all
    /// memory of the queues, answers included, which is to be dropped without the link's lock.
    pub(crate) fn end(&mut self) -> (Vec<Entry>, impl Sized + use<W>) {
        let mut queues = std::mem::take(&mut self.queues);
        // A large message of which parts were sent cannot have been dispatched: it has no end.
        let large = queues.message.iter().chain(&queues.bulk);
        let mut all: Vec<_> = large.map(|bulk| bulk.entry.clone()).collect();
        while let Some(entry) = queues.eager.pop() {
            all.push(entry);
        }
        (all, queues)
    }
}

/// The part of a large message or answer that was written.
enum Part {
    NoRoom,
    NotLast,
    /// The last part, at this place in the frame.
    Last(u16),
}

impl Turn {
    fn next(self) -> Self {
        match self {
            Turn::Small => Turn::Messages,
            Turn::Messages => Turn::Replies,
            Turn::Replies => Turn::Small,
        }
    }
}

/// Writes a large message or answer that the peer has fetched, or else the next part of it.
fn write(
    bulk: &mut Bulk,
    loans: &mut Loans,
    at: (u32, u32),
    stream: Stream,
    to: &mut Filling<'_, '_>,
) -> Part {
    let header = first_header(bulk, at, to.now);
    if let Lending::Loan(_) = bulk.lending {
        if !to.writer.fits(&header, 0) {
            return Part::NoRoom;
        }
        let fetched = loans.end(bulk.lending);
        bulk.lending = Lending::Parts;
        if let Some(number) = fetched {
            let header = RecordHeader { lent: true, total: number.into(), ..header };
            to.wrote(Class::Data);
            return Part::Last(to.writer.push(header, &[]));
        }
    }
    write_part(bulk, header, stream, to)
}

/// Returns the header of the first record of a large message or answer.
fn first_header(bulk: &Bulk, at: (u32, u32), now: Instant) -> RecordHeader {
    let note = bulk.note.as_ref().map(Note::bytes);
    RecordHeader { note, ..bulk.entry.header(at, now) }
}

/// Writes the next part of a large message or answer.
fn write_part(
    bulk: &mut Bulk,
    first: RecordHeader,
    stream: Stream,
    to: &mut Filling<'_, '_>,
) -> Part {
    let left = bulk.remaining().len();
    let header = if bulk.sent == 0 {
        first
    } else {
        RecordHeader { ordinal: stream as u16, ..RecordHeader::new(RecordKind::Fragment) }
    };
    // The receiver has memory for a tail once it knows of the message.
    let tail = if bulk.sent > 0 { left.min(to.writer.tail_max()) } else { 0 };
    let is_tail = tail >= TAIL_MIN;
    if !to.writer.fits(&header, if is_tail { 0 } else { left.min(FRAGMENT_MIN) }) {
        return Part::NoRoom;
    }
    let part = if is_tail { tail } else { left.min(to.writer.room(&header)) };
    let total = if bulk.sent == 0 && part < left { left as u32 } else { 0 };
    let header = RecordHeader { total, ..header };
    let place = if is_tail {
        to.writer.push_tail(header, &bulk.body, bulk.sent..bulk.sent + part)
    } else {
        to.writer.push(header, &bulk.remaining()[..part])
    };
    step!(written steps::part_sent(bulk.sent == 0, part == left));
    bulk.sent += part;
    to.wrote(Class::Data);
    if part < left { Part::NotLast } else { Part::Last(place) }
}
