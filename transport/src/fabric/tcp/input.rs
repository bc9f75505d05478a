//! The reading side of a data connection: bytes into posted slots, and tails into the memory of
//! the owner.
//!
//! The rest of a frame, or of its tail, is read straight to where it belongs, and in the same call
//! what follows into a buffer of its own, from where it is copied once. After a tail only the next
//! frame is read ahead, and not its tail. Every length is checked before a byte is moved (TC-4).

use std::io::{self, IoSliceMut};

use super::prefix::Prefix;
use super::queues::Queues;
use super::stream::DataStream;
use crate::limits::{
    TCP_FRAME_BYTES_MAX, TCP_READ_AHEAD_BYTES, TCP_READ_AHEAD_BYTES_TAIL, TCP_TAIL_BYTES_MAX,
};
use crate::memory::TailRoom;

/// The bytes that a queue pair has read.
pub(super) struct Input {
    ahead: Box<[u8]>,
    /// The bytes of `ahead` that are read and not yet used.
    start: usize,
    end: usize,
    expect: Expect,
    /// The prefix of the frame that is read, or was read last.
    frame: Prefix,
    /// The tail that was read last.
    tail: Option<TailRoom>,
}

/// The part of a frame that comes next.
enum Expect {
    Prefix,
    /// The rest of a frame for the oldest receive; the number is the bytes that are there.
    Frame(usize),
    /// A tail that waits for memory.
    Room,
    /// The rest of a tail; the number is the bytes that are there.
    Tail(TailRoom, usize),
}

impl Expect {
    /// Returns the memory for the bytes that come next, and the number of those before; `None` if
    /// they are a prefix, or wait for memory.
    fn unfilled<'a>(
        &'a mut self,
        frame: Prefix,
        queues: &'a mut Queues,
    ) -> Option<(&'a mut [u8], &'a mut usize)> {
        match self {
            Expect::Prefix | Expect::Room => None,
            Expect::Frame(filled) => {
                Some((&mut queues.next_recv()?[*filled..frame.bytes as usize], filled))
            }
            Expect::Tail(room, filled) => Some((&mut room.bytes_mut()[*filled..], filled)),
        }
    }
}

/// An event that was found in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The oldest receive is filled.
    Arrived { bytes: u32, solicited: bool },
    /// The tail of the frame in the oldest receive waits for memory.
    TailWanted,
    /// A frame has no receive that it fits (TC-3).
    Overrun,
    /// Bytes that no queue pair writes.
    Garbage,
}

impl Input {
    pub(super) fn new() -> Self {
        Input {
            ahead: vec![0; TCP_READ_AHEAD_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            expect: Expect::Prefix,
            frame: Prefix { bytes: 0, tail: 0, solicited: false },
            tail: None,
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
        let most = match self.frame.tail {
            0 => self.ahead.len(),
            _ => self.end + TCP_READ_AHEAD_BYTES_TAIL,
        };
        let ahead = IoSliceMut::new(&mut self.ahead[self.end..most]);
        let Some((rest, filled)) = self.expect.unfilled(self.frame, queues) else {
            let read = read(&mut [ahead])?;
            self.end += read;
            return Ok(read);
        };
        let length = rest.len();
        let read = read(&mut [IoSliceMut::new(rest), ahead])?;
        *filled += read.min(length);
        self.end += read.saturating_sub(length);
        Ok(read)
    }

    /// Returns the next event in the bytes read. Not to be called again after [`Event::Overrun`] or
    /// [`Event::Garbage`].
    pub(super) fn next(&mut self, queues: &mut Queues) -> Option<Event> {
        if matches!(self.expect, Expect::Prefix) {
            let (prefix, len) = Prefix::decode(&self.ahead[self.start..self.end])?;
            self.start += len;
            if let Some(event) = self.begin(prefix, queues) {
                return Some(event);
            }
        }
        let (rest, filled) = self.expect.unfilled(self.frame, queues)?;
        let unused = &self.ahead[self.start..self.end];
        let copied = unused.len().min(rest.len());
        rest[..copied].copy_from_slice(&unused[..copied]);
        let is_whole = copied == rest.len();
        *filled += copied;
        self.start += copied;
        is_whole.then(|| self.end_part())
    }

    /// Checks the lengths of the next frame (TC-3, TC-4).
    fn begin(&mut self, frame: Prefix, queues: &mut Queues) -> Option<Event> {
        if frame.bytes > TCP_FRAME_BYTES_MAX || frame.tail > TCP_TAIL_BYTES_MAX {
            return Some(Event::Garbage);
        }
        if queues.next_recv().is_none_or(|slot| slot.len() < frame.bytes as usize) {
            return Some(Event::Overrun);
        }
        self.frame = frame;
        self.expect = Expect::Frame(0);
        None
    }

    /// The frame without its tail is whole, or its tail is.
    fn end_part(&mut self) -> Event {
        let Prefix { bytes, tail, solicited } = self.frame;
        let expect = std::mem::replace(&mut self.expect, Expect::Prefix);
        if let Expect::Tail(room, _) = expect {
            self.tail = Some(room);
        } else if tail > 0 {
            self.expect = Expect::Room;
            return Event::TailWanted;
        }
        Event::Arrived { bytes, solicited }
    }

    /// Returns the lengths of the frame in the oldest receive and of its tail, if the tail waits
    /// for memory.
    pub(super) fn tail_wanted(&self) -> Option<(usize, usize)> {
        let waits = matches!(self.expect, Expect::Room);
        waits.then_some((self.frame.bytes as usize, self.frame.tail as usize))
    }

    /// Gives memory for the tail that waits for it.
    pub(super) fn put_tail_room(&mut self, room: TailRoom) {
        assert_eq!(self.tail_wanted().map(|(_, tail)| tail), Some(room.len()), "it is wanted");
        self.expect = Expect::Tail(room, 0);
    }

    /// Takes the tail that was read last.
    pub(super) fn take_tail(&mut self) -> Option<TailRoom> {
        self.tail.take()
    }
}
