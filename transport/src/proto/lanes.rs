//! The queues of committed messages, in the order of service.
//!
//! - **LA-1 order**: messages of one mailbox leave in commit order, sizes mixed: while a mailbox
//!   has messages in the bulk queue, its small ones queue there too; and a bulk message starts only
//!   when everything that was in the eager queue before it has left.
//!
//! Small messages lie behind each other in one buffer per lane, reused, as the records that they
//! will be in a frame. Memory beyond [`KEPT`] that a burst took is given back when the lane is
//! empty. Tells that follow each other and differ only in their bytes are a *run*: they share one
//! entry, so that they move into a frame in one piece, and so does the record of their fates. A
//! tell whose sender waits for its fate, and everything that is not a tell, has an entry of its
//! own.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use rkyv::util::AlignedVec;

use super::header::{RECORD_HEADER, RecordHeader, RecordKind, record_bytes};
use super::loans::Lending;
use super::window::Count;
use crate::memory::Buffer;
use crate::note::Note;

/// One committed message or answer, without its bytes.
#[derive(Debug, Clone)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Entry {
    /// TELL, ASK, SIGNAL or REPLY.
    pub(crate) kind: RecordKind,
    /// The mailbox it goes to; unused for an answer.
    pub(crate) mailbox: u32,
    pub(crate) ordinal: u16,
    /// The number of an ask or an answer, or of the sender that waits for a tell's fate; 1 for a
    /// signal; else 0.
    pub(crate) correlation: u64,
    /// The identity of the message, for its fate.
    pub(crate) message: u128,
    /// Time at which the asker of an ask gives up.
    pub(crate) deadline: Option<Instant>,
}

impl Entry {
    /// Returns true if it is an ask whose asker has given up by now.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Returns the record header it is sent with now, to an opened mailbox: an ask says how long
    /// its asker still waits.
    pub(crate) fn header(&self, place: (u32, u32), now: Instant) -> RecordHeader {
        let left = |deadline: Instant| {
            let left = deadline.saturating_duration_since(now).as_micros();
            u64::try_from(left).unwrap_or(u64::MAX)
        };
        let deadline = self.deadline.filter(|_| self.kind == RecordKind::Ask);
        RecordHeader { deadline_us: deadline.map(left), ..self.timeless_header(place) }
    }

    /// Returns the header as [`header`](Self::header) does, but without the time that an asker
    /// still waits.
    #[inline]
    fn timeless_header(&self, (mailbox, generation): (u32, u32)) -> RecordHeader {
        RecordHeader {
            mailbox,
            generation,
            ordinal: self.ordinal,
            // The number of a sender that waits for its fate stays on this node.
            correlation: if self.kind == RecordKind::Tell { 0 } else { self.correlation },
            ..RecordHeader::new(self.kind)
        }
    }
}

/// Small messages, first in first out.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Lane {
    runs: VecDeque<Run>,
    /// The records of the runs: grows to what once waited, and is used again.
    bytes: Vec<u8>,
    /// The place in `bytes` at which the first run's records begin.
    start: usize,
    /// Messages in all runs.
    len: usize,
    /// The number of the next message.
    next: u64,
}

/// Messages of a lane that share an entry.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
struct Run {
    entry: Entry,
    part: Part,
    /// The number of its first message, counted over all messages of the lane.
    number: u64,
}

impl Run {
    /// Returns true if a tell with just these properties may share the entry.
    #[inline]
    fn is_of(&self, mailbox: u32, ordinal: u16, message: u128) -> bool {
        let Entry { kind, correlation, .. } = self.entry;
        kind == RecordKind::Tell
            && correlation == 0
            && self.entry.mailbox == mailbox
            && self.entry.ordinal == ordinal
            && self.entry.message == message
    }
}

/// A number of messages from the beginning of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// The messages, and the bytes of their payloads.
    pub(crate) count: Count,
    /// Bytes of their records.
    pub(crate) bytes: usize,
}

/// The first run of a lane.
pub(crate) struct Front<'a> {
    pub(crate) entry: &'a Entry,
    part: Part,
    records: &'a [u8],
}

impl<'a> Front<'a> {
    /// Returns all of the run.
    pub(crate) fn whole(&self) -> Part {
        self.part
    }

    /// Returns the payload of the first message.
    pub(crate) fn payload(&self) -> &'a [u8] {
        let (_, payload) = record_bytes(self.records);
        &self.records[payload]
    }

    /// Returns the part of the run that fits into `records` records and `bytes` bytes.
    pub(crate) fn fitting(&self, records: u16, bytes: usize) -> Part {
        if self.part.bytes <= bytes && self.part.count.messages <= u32::from(records) {
            return self.part;
        }
        let (mut fits, mut payloads) = (Part::default(), 0);
        while fits.count.messages < self.part.count.messages.min(records.into()) {
            let (record, payload) = record_bytes(&self.records[fits.bytes..]);
            if fits.bytes + record > bytes {
                break;
            }
            fits.count.messages += 1;
            fits.bytes += record;
            payloads += payload.len();
        }
        fits.count.bytes = payloads as u64;
        fits
    }

    /// Returns the records of a part of the run.
    pub(crate) fn records(&self, part: Part) -> &'a [u8] {
        &self.records[..part.bytes]
    }
}

/// Bytes that may lie unused in front before they are moved over.
const SLACK: usize = 64 * 1024;
/// Bytes of memory that an empty lane keeps.
const KEPT: usize = 256 * 1024;

impl Lane {
    /// Appends a message; `place` is the place of its mailbox at the peer.
    pub(crate) fn push(&mut self, entry: Entry, place: (u32, u32), payload: &[u8]) {
        if entry.kind == RecordKind::Tell && entry.correlation == 0 {
            let Entry { mailbox, ordinal, message, .. } = entry;
            self.push_tell((mailbox, ordinal, message), place, payload);
        } else {
            let bytes = payload.len() as u32;
            let header = RecordHeader { payload: bytes, ..entry.timeless_header(place) };
            let part = self.write(&header.encoded(), payload);
            self.push_run(entry, part);
        }
    }

    /// Puts a tell at the end whose sender does not wait for its fate: mailbox, ordinal and message
    /// as in an [`Entry`].
    #[inline(always)]
    pub(crate) fn push_tell(
        &mut self,
        (mailbox, ordinal, message): (u32, u16, u128),
        place: (u32, u32),
        payload: &[u8],
    ) {
        let kind = RecordKind::Tell;
        let header = RecordHeader {
            mailbox: place.0,
            generation: place.1,
            ordinal,
            payload: payload.len() as u32,
            ..RecordHeader::new(kind)
        };
        let part = self.write(&header.encoded(), payload);
        match self.runs.back_mut() {
            // Their numbers follow each other, unless messages between them were taken out.
            Some(last)
                if last.is_of(mailbox, ordinal, message)
                    && last.number + u64::from(last.part.count.messages) + 1 == self.next =>
            {
                last.part.count.add(1, part.count.bytes);
                last.part.bytes += part.bytes;
            }
            _ => {
                let (correlation, deadline) = (0, None);
                let entry = Entry { kind, mailbox, ordinal, correlation, message, deadline };
                self.push_run(entry, part);
            }
        }
    }

    #[cold]
    fn push_run(&mut self, entry: Entry, part: Part) {
        // The message has its number already.
        let number = self.next - 1;
        self.runs.push_back(Run { entry, part, number });
    }

    /// Writes the record of the next message.
    #[inline(always)]
    fn write(&mut self, header: &[u8; RECORD_HEADER], payload: &[u8]) -> Part {
        if self.runs.is_empty() || self.start > SLACK.max(self.bytes.len() / 2) {
            self.make_room();
        }
        let before = self.bytes.len();
        self.bytes.reserve(RECORD_HEADER + payload.len() + 16);
        self.bytes.extend_from_slice(header);
        self.bytes.extend_from_slice(payload);
        let end = self.bytes.len().next_multiple_of(16);
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.next += 1;
        self.len += 1;
        let count = Count { messages: 1, bytes: payload.len() as u64 };
        Part { count, bytes: end - before }
    }

    #[cold]
    fn make_room(&mut self) {
        self.bytes.drain(..self.start);
        self.start = 0;
    }

    /// Returns how many messages there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the next messages.
    pub(crate) fn front(&self) -> Option<Front<'_>> {
        let Run { entry, part, .. } = self.runs.front()?;
        let records = &self.bytes[self.start..self.start + part.bytes];
        Some(Front { entry, part: *part, records })
    }

    /// Takes out the next message.
    pub(crate) fn pop(&mut self) -> Option<Entry> {
        let front = self.front()?;
        let (entry, part) = (front.entry.clone(), front.fitting(1, front.part.bytes));
        self.advance(part);
        Some(entry)
    }

    /// Takes out a part of the first run.
    pub(crate) fn advance(&mut self, part: Part) {
        let Some(run) = self.runs.front_mut() else { return };
        run.part.count = run.part.count.since(part.count);
        run.part.bytes -= part.bytes;
        run.number += u64::from(part.count.messages);
        self.start += part.bytes;
        self.len -= part.count.messages as usize;
        if run.part.count.messages == 0 {
            self.runs.pop_front();
            self.shrink();
        }
    }

    /// Takes out the messages whose entries `leaves` chooses, wherever they are; they come to `to`.
    pub(crate) fn take_out(&mut self, leaves: impl Fn(&Entry) -> bool, to: &mut Vec<Entry>) {
        let (mut read, mut written) = (self.start, self.start);
        self.runs.retain(|run| {
            let records = read..read + run.part.bytes;
            read = records.end;
            if leaves(&run.entry) {
                let count = run.part.count.messages as usize;
                self.len -= count;
                to.extend(std::iter::repeat_n(&run.entry, count).cloned());
                return false;
            }
            self.bytes.copy_within(records, written);
            written += run.part.bytes;
            true
        });
        self.bytes.truncate(written);
        self.shrink();
    }

    fn shrink(&mut self) {
        if self.runs.is_empty() && self.bytes.capacity() > KEPT {
            self.bytes = Vec::new();
            self.start = 0;
            self.runs.shrink_to(KEPT / size_of::<Run>());
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns a mark that has [`passed`](Self::passed) when all that is queued now has left.
    pub(crate) fn mark(&self) -> u64 {
        self.next
    }

    pub(crate) fn passed(&self, mark: u64) -> bool {
        self.runs.front().is_none_or(|first| first.number >= mark)
    }
}

/// A message that is larger than a slot, or has a note, or waits behind such a message.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Bulk {
    pub(crate) entry: Entry,
    /// Travels with its first part.
    pub(crate) note: Option<Note>,
    pub(crate) body: Arc<Buffer>,
    /// The mark in the eager lane: messages before it must leave first (LA-1).
    pub(crate) mark: u64,
    /// How many large messages were queued before it.
    pub(crate) number: u64,
    /// Bytes that have left.
    pub(crate) sent: usize,
    pub(crate) lending: Lending,
}

impl Bulk {
    /// Creates a message of which nothing has left, with no other before it. Takes the memory of
    /// `archive`, or a copy if the bytes are to be `copied`: few of them may lie in much memory.
    pub(crate) fn new(
        (entry, note): (Entry, Option<Note>),
        archive: &mut AlignedVec<16>,
        copied: bool,
    ) -> Self {
        let mut body = AlignedVec::new();
        if copied {
            body.extend_from_slice(archive);
        } else {
            body = std::mem::take(archive);
        }
        let body: Arc<Buffer> = Arc::new(body.into());
        Bulk { entry, note, body, mark: 0, number: 0, sent: 0, lending: Lending::Parts }
    }

    pub(crate) fn remaining(&self) -> &[u8] {
        &self.body[self.sent..]
    }
}

#[cfg(test)]
impl std::hash::Hash for Lane {
    /// Hashes the queued messages; nothing of the bytes that have left.
    fn hash<H: std::hash::Hasher>(&self, to: &mut H) {
        for run in &self.runs {
            (&run.entry, run.part.count).hash(to);
        }
        // The headers say how long each message is.
        self.bytes[self.start..].hash(to);
        self.runs.len().hash(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(ordinal: u16) -> Entry {
        let kind = RecordKind::Tell;
        Entry { kind, mailbox: 0, ordinal, correlation: 0, message: 0, deadline: None }
    }

    proptest! {
        /// The oracle is a queue of owned messages, of which now and then some leave out of turn.
        #[test]
        fn a_lane_is_a_queue(
            steps in proptest::collection::vec(proptest::option::of(0usize..9000), 1..200),
        ) {
            let mut lane = Lane::default();
            let mut oracle = VecDeque::new();
            let mut marks = Vec::new();
            prop_assert!(lane.passed(lane.mark()));
            for (i, step) in steps.iter().enumerate() {
                match step {
                    Some(len) => {
                        let bytes = vec![i as u8; *len];
                        // Some share an entry with the one before.
                        let ordinal = (i / 4) as u16;
                        lane.push(entry(ordinal), (0, 1), &bytes);
                        oracle.push_back((ordinal, bytes, i));
                    }
                    None => {
                        let front = lane.front().map(|f| (f.entry.ordinal, f.payload().to_vec()));
                        let next = oracle.pop_front().map(|(ordinal, bytes, _)| (ordinal, bytes));
                        prop_assert_eq!(front, next);
                        lane.pop();
                    }
                }
                if i % 20 == 10 {
                    marks.push((lane.mark(), i));
                }
                if i % 50 == 49 {
                    let mut out = Vec::new();
                    lane.take_out(|entry| entry.ordinal % 3 == 0, &mut out);
                    prop_assert!(out.iter().all(|entry| entry.ordinal % 3 == 0));
                    let before = oracle.len();
                    oracle.retain(|(ordinal, ..): &(u16, Vec<u8>, usize)| ordinal % 3 != 0);
                    prop_assert_eq!(out.len(), before - oracle.len());
                }
                // A mark has passed when all that was before it has left.
                for (mark, at) in &marks {
                    let before = oracle.iter().any(|(_, _, pushed)| pushed <= at);
                    prop_assert_eq!(lane.passed(*mark), !before);
                }
                prop_assert_eq!(lane.is_empty(), oracle.is_empty());
                prop_assert_eq!(lane.len(), oracle.len());
                prop_assert!(oracle.is_empty() || !lane.passed(lane.mark()));
            }
        }
    }

    #[test]
    fn an_empty_lane_has_given_back_what_a_burst_made_of_it() {
        let mut lane = Lane::default();
        for ordinal in 0..50_000 {
            lane.push(entry(ordinal), (0, 1), &[7; 100]);
        }
        assert!(lane.bytes.capacity() > 4_000_000 && lane.runs.capacity() >= 50_000);
        while lane.pop().is_some() {}
        assert!(lane.bytes.capacity() <= KEPT, "{}", lane.bytes.capacity());
        assert!(lane.runs.capacity() * size_of::<Run>() <= KEPT);
    }

    /// If a run fits in part, its first records fit, whole.
    #[test]
    fn a_run_leaves_in_parts() {
        let mut lane = Lane::default();
        for bytes in [0, 20, 1, 32] {
            lane.push(entry(7), (3, 4), &vec![bytes as u8; bytes]);
        }
        lane.push(entry(8), (3, 4), &[]);
        let fitting = |lane: &Lane, records, bytes| {
            let part = lane.front().unwrap().fitting(records, bytes);
            (part.count.messages, part.count.bytes, part.bytes)
        };
        assert_eq!(fitting(&lane, 9, 32 + 63), (1, 0, 32));
        assert_eq!(fitting(&lane, 9, 32 + 64), (2, 20, 96));
        assert_eq!(fitting(&lane, 1, 999), (1, 0, 32));
        assert_eq!(fitting(&lane, 9, 999), (4, 53, 32 + 64 + 48 + 64), "the last is another one's");
        let mark = lane.mark();
        let part = lane.front().unwrap().fitting(3, 999);
        let records = lane.front().unwrap().records(part).to_vec();
        let (header, len) = RecordHeader::decode(&records[32..]).unwrap();
        assert_eq!((header.payload, header.mailbox, header.generation, len), (20, 3, 4, 32));
        assert_eq!(records[64..84], [20; 20]);
        lane.advance(part);
        assert_eq!(
            (lane.len(), fitting(&lane, 9, 999), lane.passed(mark)),
            (2, (1, 32, 64), false)
        );
        assert_eq!(lane.pop().map(|entry| entry.ordinal), Some(7));
        assert_eq!(lane.pop().map(|entry| entry.ordinal), Some(8));
        assert!(lane.is_empty() && lane.passed(mark));
    }

    #[test]
    fn whatever_has_a_fate_of_its_own_has_an_entry_of_its_own() {
        let mut lane = Lane::default();
        let confirmed = |correlation| Entry { correlation, ..entry(0) };
        let ask = |correlation| Entry { kind: RecordKind::Ask, ..confirmed(correlation) };
        let other = Entry { message: 1, ..entry(0) };
        let elsewhere = Entry { mailbox: 1, ..entry(0) };
        let all = [confirmed(1), confirmed(1), entry(0), ask(1), ask(1), other, elsewhere];
        for entry in &all {
            lane.push(entry.clone(), (0, 1), &[]);
        }
        assert_eq!((lane.runs.len(), lane.len()), (all.len(), all.len()));
    }
}
