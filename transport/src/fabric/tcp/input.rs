//! The reading side of a data connection: bytes into posted slots.
//!
//! The rest of a frame is read straight into its slot, and in the same call what follows: after a
//! long frame into the [places](Places) of more such frames, else into a buffer of its own, from
//! where it is copied once. Every length is checked before a byte is moved (TC-4).

use std::io::{self, IoSliceMut};
use std::ops::ControlFlow;

use super::places::{Buffers, Places};
use super::prefix::{PREFIX_BYTES, Prefix};
use super::queues::Queues;
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
    Prefix,
    /// The rest of a frame for the oldest receive.
    Frame {
        filled: u32,
        bytes: u32,
        solicited: bool,
    },
}

/// An event that was found in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The oldest receive is filled.
    Arrived { bytes: u32, solicited: bool },
    /// A frame has no receive that it fits (TC-3).
    Overrun,
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
            expect: Expect::Prefix,
        }
    }

    /// Reads once. To be called when [`next`](Self::next) has found nothing more.
    pub(super) fn read(
        &mut self,
        stream: &mut DataStream,
        queues: &mut Queues,
    ) -> io::Result<usize> {
        self.read_with(queues, |buffers| {
            let room = buffers.iter().map(|buffer| buffer.len()).sum();
            stream.read(buffers, room)
        })
    }

    /// Takes bytes as [`read`](Self::read) would; gives how many there was room for.
    #[cfg(any(test, feature = "fuzz"))]
    pub(super) fn feed(&mut self, mut bytes: &[u8], queues: &mut Queues) -> usize {
        self.read_with(queues, |buffers| io::Read::read_vectored(&mut bytes, buffers))
            .expect("a slice is read without an error")
    }

    fn read_with(
        &mut self,
        queues: &mut Queues,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        // Less than a prefix is left over: a few bytes.
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
        let placed = self.places.push(begun, self.expected.bytes, slots, room, &mut buffers);
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

    /// Returns the next event in the bytes read. Not to be called again after [`Event::Overrun`] or
    /// [`Event::Garbage`].
    pub(super) fn next(&mut self, queues: &mut Queues) -> Option<Event> {
        loop {
            let step = match self.expect {
                Expect::Prefix if !self.places.is_empty() => self.take_placed_prefix(queues),
                Expect::Prefix => self.take_prefix(queues),
                Expect::Frame { .. } => self.fill(queues),
            };
            if let ControlFlow::Break(event) = step {
                return event;
            }
        }
    }

    /// Takes a prefix that was read into its place, before the frame that follows it.
    fn take_placed_prefix(&mut self, queues: &mut Queues) -> Step {
        let Some(prefix) = self.places.take_prefix() else {
            self.start = 0;
            self.end = self.places.move_prefix(&mut self.ahead);
            return MISSING;
        };
        let step = self.begin_frame(prefix, queues);
        self.leave_places(queues);
        step
    }

    fn take_prefix(&mut self, queues: &mut Queues) -> Step {
        let Some(prefix) = self.ahead[self.start..self.end].first_chunk() else { return MISSING };
        let prefix = *prefix;
        self.start += PREFIX_BYTES;
        self.begin_frame(prefix, queues)
    }

    /// Copies the bytes read of the current frame into the oldest receive.
    fn fill(&mut self, queues: &mut Queues) -> Step {
        let unused = &self.ahead[self.start..self.end];
        let Expect::Frame { filled, bytes, solicited } = &mut self.expect else {
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
        let (bytes, solicited) = (*bytes, *solicited);
        self.expected.note(bytes as usize);
        self.expect = Expect::Prefix;
        ControlFlow::Break(Some(Event::Arrived { bytes, solicited }))
    }

    /// Handles the bytes after a prefix that was read into its place: the bytes of a frame stay if
    /// they lie where they belong. The rest is moved.
    fn leave_places(&mut self, queues: &Queues) {
        let Expect::Frame { filled, bytes, .. } = &mut self.expect else { return };
        let taken = self.places.take_frame(*bytes as usize);
        *filled = taken as u32;
        if !self.places.expected(*bytes as usize) && !self.places.is_empty() {
            self.start = 0;
            self.end = self.places.move_rest(taken, queues, &mut self.ahead);
        }
    }

    /// Checks the length of the next frame (TC-3, TC-4).
    fn begin_frame(&mut self, prefix: [u8; PREFIX_BYTES], queues: &mut Queues) -> Step {
        let Prefix { bytes, solicited } = Prefix::decode(prefix);
        if bytes > TCP_FRAME_BYTES_MAX {
            return ControlFlow::Break(Some(Event::Garbage));
        }
        if queues.next_recv().is_none_or(|slot| slot.len() < bytes as usize) {
            return ControlFlow::Break(Some(Event::Overrun));
        }
        self.expect = Expect::Frame { filled: 0, bytes, solicited };
        ControlFlow::Continue(())
    }
}
