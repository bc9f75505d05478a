//! The reading side of a data connection: bytes into posted slots, records into events.
//!
//! The rest of a frame is read straight into its slot, and in the same call what follows: after a
//! long frame into the [places](Places) of more such frames, else into a buffer of its own, from
//! where it is copied once. Every length is checked before a byte is moved (TC-4).

use std::io::{self, IoSliceMut};
use std::ops::ControlFlow;

use super::places::{Buffers, Places};
use super::queues::Queues;
use super::record::{RECORD_BYTES, Record, Refusal};
use super::stream::DataStream;
use crate::limits::{TCP_EXPECTED_BYTES, TCP_FRAME_BYTES_MAX, TCP_READ_AHEAD_BYTES};

/// The bytes that a queue pair has read.
pub(super) struct Input {
    ahead: Box<[u8]>,
    /// The bytes of `ahead` that are read and not yet used.
    start: usize,
    end: usize,
    places: Places,
    expected: Expected,
    expect: Expect,
    /// A frame was refused: frames are skipped until the peer starts again (TC-3).
    refusing: bool,
}

/// The length that the next frames probably have: the longest one so far, unless many shorter
/// frames have come since.
struct Expected {
    /// Only frames from this length on are expected to be followed by others of their length.
    long: usize,
    /// 0 when no length is expected.
    bytes: usize,
    /// Shorter frames in a row.
    shorter: u32,
}

/// Shorter frames after which no length is expected: the end of a large message, and a few others.
const SHORTER_MAX: u32 = 8;

impl Expected {
    fn note(&mut self, bytes: usize) {
        if bytes >= self.long.max(self.bytes) {
            (self.bytes, self.shorter) = (bytes, 0);
        } else if self.shorter < SHORTER_MAX {
            self.shorter += 1;
        } else {
            self.bytes = 0;
        }
    }
}

#[derive(Clone, Copy)]
enum Expect {
    Record,
    /// The rest of a frame for the oldest receive.
    Frame {
        filled: u32,
        bytes: u32,
        solicited: bool,
        acknowledge: bool,
    },
    /// The rest of a frame that has no receive.
    Skip {
        left: u32,
    },
}

/// An event that was found in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The oldest receive is filled.
    Arrived { bytes: u32, solicited: bool, acknowledge: bool },
    /// A frame found no receive; it and those after it are skipped.
    NotReady,
    /// A frame found a receive that is too short.
    TooLong,
    /// The peer accepted this many sends.
    Accepted(u32),
    /// The peer refused the oldest send.
    Refused(Refusal),
    /// The peer asks for an acknowledgement at once.
    Asked,
    /// Bytes that no queue pair writes.
    Garbage,
}

/// The result of a step through the bytes read: go on, or stop with an event, or stop because more
/// bytes are needed.
type Step = ControlFlow<Option<Event>>;

/// The step that stops because more bytes are needed.
const MISSING: Step = ControlFlow::Break(None);

impl Input {
    /// Frames from the length `long` on are expected to be followed by others of their length.
    pub(super) fn new(long: usize) -> Self {
        Input {
            ahead: vec![0; TCP_EXPECTED_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            places: Places::new(),
            expected: Expected { long, bytes: 0, shorter: 0 },
            expect: Expect::Record,
            refusing: false,
        }
    }

    /// Reads once. To be called when [`next`](Self::next) has found nothing more. `lead`: the
    /// peer's next bytes will probably begin with an acceptance.
    pub(super) fn read(
        &mut self,
        stream: &mut DataStream,
        queues: &mut Queues,
        lead: bool,
    ) -> io::Result<usize> {
        self.read_with(queues, lead, |buffers| {
            let room = buffers.iter().map(|buffer| buffer.len()).sum();
            stream.read(buffers, room)
        })
    }

    /// Takes bytes as [`read`](Self::read) would; gives how many there was room for.
    #[cfg(any(test, feature = "fuzz"))]
    pub(super) fn feed(&mut self, mut bytes: &[u8], queues: &mut Queues, lead: bool) -> usize {
        self.read_with(queues, lead, |buffers| io::Read::read_vectored(&mut bytes, buffers))
            .expect("a slice is read without an error")
    }

    fn read_with(
        &mut self,
        queues: &mut Queues,
        lead: bool,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        // Less than a record is left over: a few bytes.
        self.ahead.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let mut slots = queues.recvs_mut();
        let mut buffers = Buffers::new();
        let (mut rest, mut filling) = (0, None);
        if let Expect::Frame { filled, bytes, .. } = &mut self.expect
            && let Some(slot) = slots.next()
        {
            let unfilled = &mut slot[*filled as usize..*bytes as usize];
            rest = unfilled.len();
            buffers.push(unfilled);
            filling = Some(filled);
        }
        // A frame that was begun shows that there is much to read, and how the stream goes on.
        let room = if rest > 0 { self.ahead.len() } else { TCP_READ_AHEAD_BYTES };
        let (begun, ahead) = self.ahead.split_at_mut(self.end);
        let expected = if self.refusing { 0 } else { self.expected.bytes };
        let first = (lead && rest == 0, &*begun, expected);
        let placed = self.places.push(first, slots, room, &mut buffers);
        if !placed {
            let most = ahead.len().min(TCP_READ_AHEAD_BYTES);
            buffers.push(&mut ahead[..most]);
        }
        let read = read(buffers.get())?;
        // The buffers borrow fields that are updated next.
        drop(buffers);
        if let Some(filled) = filling {
            *filled += read.min(rest) as u32;
        }
        let more = read.saturating_sub(rest);
        if placed {
            self.places.add(self.end + more);
            self.end = 0;
        } else {
            self.end += more;
        }
        Ok(read)
    }

    /// Returns the next event in the bytes read. Not to be called again after [`Event::TooLong`] or
    /// [`Event::Garbage`].
    pub(super) fn next(&mut self, queues: &mut Queues) -> Option<Event> {
        loop {
            let step = match self.expect {
                Expect::Record if !self.places.is_empty() => self.take_placed_record(queues),
                Expect::Record => self.take_record(queues),
                Expect::Skip { left } => self.skip(left),
                Expect::Frame { .. } => self.fill(queues),
            };
            if let ControlFlow::Break(event) = step {
                return event;
            }
        }
    }

    /// Takes a record that was read into its place, before the frame that follows it.
    fn take_placed_record(&mut self, queues: &mut Queues) -> Step {
        let Some(record) = self.places.take_record() else {
            self.start = 0;
            self.end = self.places.move_record(&mut self.ahead);
            return MISSING;
        };
        let step = self.handle_record(Record::decode(&record), queues);
        self.leave_places(queues);
        step
    }

    fn take_record(&mut self, queues: &mut Queues) -> Step {
        let Some(record) = self.ahead[self.start..self.end].first_chunk() else { return MISSING };
        let record = Record::decode(record);
        self.start += RECORD_BYTES;
        self.handle_record(record, queues)
    }

    /// Skips the bytes read of a frame of which `left` bytes are still to be skipped.
    fn skip(&mut self, left: u32) -> Step {
        let skipped = (self.end - self.start).min(left as usize);
        self.start += skipped;
        let left = left - skipped as u32;
        if left > 0 {
            self.expect = Expect::Skip { left };
            return MISSING;
        }
        self.expect = Expect::Record;
        ControlFlow::Continue(())
    }

    /// Copies the bytes read of the current frame into the oldest receive.
    fn fill(&mut self, queues: &mut Queues) -> Step {
        let unused = &self.ahead[self.start..self.end];
        let Expect::Frame { filled, bytes, solicited, acknowledge } = &mut self.expect else {
            return ControlFlow::Continue(());
        };
        let copied = unused.len().min((*bytes - *filled) as usize);
        let at = *filled as usize;
        let Some(receive) = queues.next_recv() else { return MISSING };
        receive[at..at + copied].copy_from_slice(&unused[..copied]);
        self.start += copied;
        *filled += copied as u32;
        if *filled < *bytes {
            return MISSING;
        }
        let (bytes, solicited, acknowledge) = (*bytes, *solicited, *acknowledge);
        self.expected.note(bytes as usize);
        self.expect = Expect::Record;
        ControlFlow::Break(Some(Event::Arrived { bytes, solicited, acknowledge }))
    }

    /// Handles the bytes after a record that was read into its place: the bytes of a frame stay if
    /// they lie where they belong. The rest is moved.
    fn leave_places(&mut self, queues: &Queues) {
        let (mut taken, mut as_expected) = (0, self.places.is_lead());
        if let Expect::Frame { filled, bytes, .. } = &mut self.expect {
            (taken, as_expected) = self.places.take_frame(*bytes as usize);
            *filled = taken as u32;
        }
        if !as_expected && !self.places.is_empty() {
            self.start = 0;
            self.end = self.places.move_rest(taken, queues, &mut self.ahead);
        }
    }

    fn handle_record(&mut self, record: Option<Record>, queues: &mut Queues) -> Step {
        let event = match record {
            Some(Record::Frame { bytes, .. }) if bytes > TCP_FRAME_BYTES_MAX => Event::Garbage,
            Some(Record::Frame { bytes, .. }) if self.refusing => {
                self.expect = Expect::Skip { left: bytes };
                return ControlFlow::Continue(());
            }
            Some(Record::Frame { bytes, solicited, acknowledge }) => match queues.next_recv() {
                None => {
                    self.refusing = true;
                    self.expect = Expect::Skip { left: bytes };
                    Event::NotReady
                }
                Some(slot) if slot.len() < bytes as usize => Event::TooLong,
                Some(_) => {
                    self.expect = Expect::Frame { filled: 0, bytes, solicited, acknowledge };
                    return ControlFlow::Continue(());
                }
            },
            Some(Record::Again) if self.refusing => {
                self.refusing = false;
                return ControlFlow::Continue(());
            }
            Some(Record::Accepted { count }) => Event::Accepted(count),
            Some(Record::Refused(refusal)) => Event::Refused(refusal),
            Some(Record::Acknowledge) => Event::Asked,
            Some(Record::Again) | None => Event::Garbage,
        };
        ControlFlow::Break(Some(event))
    }
}
