//! The queues of committed messages, in the order of service.
//!
//! - **LA-1 order**: messages of one mailbox leave in commit order, sizes mixed: while a mailbox
//!   has messages in the bulk queue, its small ones queue there too; and a bulk message starts only
//!   when everything that was in the eager queue before it has left.
//! - **LA-2 no allocation**: bytes of small messages lie behind each other in one buffer per lane,
//!   reused. What a burst made of it beyond [`KEPT`] is given back when the lane is empty.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::header::{RecordHeader, RecordKind};
use crate::memory::Buffer;

/// One committed message or answer, without its bytes.
#[derive(Debug, Clone)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Entry {
    /// TELL, ASK, SIGNAL or REPLY.
    pub(crate) kind: RecordKind,
    /// The mailbox it goes to; unused for an answer.
    pub(crate) mailbox: u32,
    pub(crate) ordinal: u16,
    /// Of an ask or an answer; of a tell whose sender waits for its fate; else 0.
    pub(crate) correlation: u64,
    /// Which message, for its fate.
    pub(crate) message: u128,
    /// Of an ask: when its asker gives up.
    pub(crate) deadline: Option<Instant>,
}

impl Entry {
    /// Whether it is an ask whose asker has given up by now.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// The record header it is sent with now, to an opened mailbox: an ask says how long its asker
    /// still waits.
    pub(crate) fn header(&self, (mailbox, generation): (u32, u32), now: Instant) -> RecordHeader {
        let left = |deadline: Instant| {
            let left = deadline.saturating_duration_since(now).as_micros();
            u64::try_from(left).unwrap_or(u64::MAX)
        };
        let deadline = self.deadline.filter(|_| self.kind == RecordKind::Ask);
        RecordHeader {
            mailbox,
            generation,
            ordinal: self.ordinal,
            // Who waits for the fate of a tell is no business of the peer's.
            correlation: if self.kind == RecordKind::Tell { 0 } else { self.correlation },
            deadline_us: deadline.map(left),
            ..RecordHeader::new(self.kind)
        }
    }
}

/// Small messages, first in first out.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Lane {
    entries: VecDeque<Queued>,
    /// LA-2: grows to what once waited, and is used again.
    bytes: Vec<u8>,
    /// Where the first entry's bytes begin.
    start: usize,
    /// The number of the next entry.
    next: u64,
}

/// An entry of a lane.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
struct Queued {
    entry: Entry,
    len: u32,
    /// Counts the entries of the lane.
    number: u64,
}

/// Bytes that may lie unused in front before they are moved over.
const SLACK: usize = 64 * 1024;
/// Bytes of memory that an empty lane keeps.
const KEPT: usize = 256 * 1024;

impl Lane {
    pub(crate) fn push(&mut self, entry: Entry, bytes: &[u8]) {
        if self.entries.is_empty() || self.start > SLACK.max(self.bytes.len() / 2) {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
        let (len, number) = (bytes.len() as u32, self.next);
        self.entries.push_back(Queued { entry, len, number });
        self.next += 1;
    }

    /// How many messages there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The next message and its bytes.
    pub(crate) fn front(&self) -> Option<(&Entry, &[u8])> {
        let Queued { entry, len, .. } = self.entries.front()?;
        Some((entry, &self.bytes[self.start..self.start + *len as usize]))
    }

    pub(crate) fn pop(&mut self) -> Option<Entry> {
        let Queued { entry, len, .. } = self.entries.pop_front()?;
        self.start += len as usize;
        self.shrink();
        Some(entry)
    }

    /// Takes out the entries that `leaves` chooses, wherever they are; they come to `to`.
    pub(crate) fn take_out(&mut self, leaves: impl Fn(&Entry) -> bool, to: &mut Vec<Entry>) {
        let (mut read, mut written) = (self.start, self.start);
        self.entries.retain(|queued| {
            let bytes = read..read + queued.len as usize;
            read = bytes.end;
            if leaves(&queued.entry) {
                to.push(queued.entry.clone());
                return false;
            }
            self.bytes.copy_within(bytes, written);
            written += queued.len as usize;
            true
        });
        self.bytes.truncate(written);
        self.shrink();
    }

    fn shrink(&mut self) {
        if self.entries.is_empty() && self.bytes.capacity() > KEPT {
            self.bytes = Vec::new();
            self.start = 0;
            self.entries.shrink_to(KEPT / size_of::<Queued>());
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A mark that has [`passed`](Self::passed) when all that is queued now has left.
    pub(crate) fn mark(&self) -> u64 {
        self.next
    }

    pub(crate) fn passed(&self, mark: u64) -> bool {
        self.entries.front().is_none_or(|first| first.number >= mark)
    }
}

/// A message that is larger than a slot, or waits behind one that is.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Bulk {
    pub(crate) entry: Entry,
    pub(crate) body: Arc<Buffer>,
    /// Of the eager lane: what must leave first (LA-1).
    pub(crate) mark: u64,
    /// Bytes that have left.
    pub(crate) sent: usize,
}

impl Bulk {
    pub(crate) fn remaining(&self) -> &[u8] {
        &self.body[self.sent..]
    }
}

#[cfg(test)]
impl std::hash::Hash for Lane {
    /// What is queued; nothing of what has left.
    fn hash<H: std::hash::Hasher>(&self, to: &mut H) {
        for Queued { entry, len, .. } in &self.entries {
            (entry, len).hash(to);
        }
        self.entries.len().hash(to);
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
            let mark = lane.mark();
            prop_assert!(lane.passed(mark));
            for (i, step) in steps.iter().enumerate() {
                match step {
                    Some(len) => {
                        let bytes = vec![i as u8; *len];
                        lane.push(entry(i as u16), &bytes);
                        oracle.push_back((i as u16, bytes));
                    }
                    None => {
                        let front = lane.front().map(|(e, b)| (e.ordinal, b.to_vec()));
                        prop_assert_eq!(front, oracle.pop_front());
                        lane.pop();
                    }
                }
                if i % 50 == 49 {
                    let mut out = Vec::new();
                    lane.take_out(|entry| entry.ordinal % 3 == 0, &mut out);
                    prop_assert!(out.iter().all(|entry| entry.ordinal % 3 == 0));
                    let before = oracle.len();
                    oracle.retain(|(ordinal, _): &(u16, Vec<u8>)| ordinal % 3 != 0);
                    prop_assert_eq!(out.len(), before - oracle.len());
                }
                prop_assert_eq!(lane.is_empty(), oracle.is_empty());
                prop_assert!(oracle.is_empty() || !lane.passed(lane.mark()));
            }
        }
    }
}
