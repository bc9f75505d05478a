//! The reading side of a data connection: bytes into posted slots, records into events.
//!
//! The rest of a frame is read straight into its slot, what follows it into a buffer of its own, in
//! one call; from there it is copied once. Every length is checked before a byte is moved (TC-4).

use std::io::{self, IoSliceMut};

use tokio::net::TcpStream;

use super::queues::Queues;
use super::record::{RECORD_BYTES, Record, Refusal};
use super::stream;
use crate::limits::{TCP_FRAME_BYTES_MAX, TCP_READ_AHEAD_BYTES};

/// What a queue pair has read.
pub(super) struct Input {
    ahead: Box<[u8]>,
    /// The bytes of `ahead` that are read and not yet used.
    start: usize,
    end: usize,
    expect: Expect,
    /// A frame was refused: frames are skipped until the peer starts again (TC-3).
    refusing: bool,
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
    /// The rest of a frame that nobody takes.
    Skip {
        left: u32,
    },
}

/// What was found in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The oldest receive is filled.
    Arrived { bytes: u32, solicited: bool, acknowledge: bool },
    /// A frame found no receive; it and those after it are skipped.
    NotReady,
    /// A frame found a receive that is too short.
    TooLong,
    /// The peer accepted so many sends.
    Accepted(u32),
    /// The peer refused the oldest send.
    Refused(Refusal),
    /// The peer needs to know at once what was accepted.
    Asked,
    /// The bytes are none that a queue pair writes.
    Garbage,
}

impl Input {
    pub(super) fn new() -> Self {
        Input {
            ahead: vec![0; TCP_READ_AHEAD_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            expect: Expect::Record,
            refusing: false,
        }
    }

    /// Reads once. To be called when [`next`](Self::next) has found nothing more.
    pub(super) fn read(&mut self, stream: &TcpStream, queues: &mut Queues) -> io::Result<usize> {
        // Less than a record is left over: a few bytes.
        self.ahead.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let ahead = &mut self.ahead[self.end..];
        if let Expect::Frame { filled, bytes, .. } = &mut self.expect
            && let Some(slot) = queues.next_recv()
        {
            let rest = &mut slot[*filled as usize..*bytes as usize];
            let rest_bytes = rest.len();
            let read = stream::read(stream, &mut [IoSliceMut::new(rest), IoSliceMut::new(ahead)])?;
            *filled += read.min(rest_bytes) as u32;
            self.end += read.saturating_sub(rest_bytes);
            return Ok(read);
        }
        let read = stream::read(stream, &mut [IoSliceMut::new(ahead)])?;
        self.end += read;
        Ok(read)
    }

    /// Takes bytes as [`read`](Self::read) would; gives how many there was room for.
    #[cfg(any(test, feature = "fuzz"))]
    pub(super) fn feed(&mut self, bytes: &[u8]) -> usize {
        self.ahead.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let fed = bytes.len().min(self.ahead.len() - self.end);
        self.ahead[self.end..self.end + fed].copy_from_slice(&bytes[..fed]);
        self.end += fed;
        fed
    }

    /// The next event in what was read. Not to be called again after [`Event::TooLong`] or
    /// [`Event::Garbage`].
    pub(super) fn next(&mut self, queues: &mut Queues) -> Option<Event> {
        loop {
            let unused = &self.ahead[self.start..self.end];
            match &mut self.expect {
                Expect::Record => {
                    let record = Record::decode(unused.first_chunk()?);
                    self.start += RECORD_BYTES;
                    if let Some(event) = self.on_record(record, queues) {
                        return Some(event);
                    }
                }
                Expect::Skip { left } => {
                    let skipped = unused.len().min(*left as usize);
                    self.start += skipped;
                    *left -= skipped as u32;
                    if *left > 0 {
                        return None;
                    }
                    self.expect = Expect::Record;
                }
                Expect::Frame { filled, bytes, solicited, acknowledge } => {
                    let copied = unused.len().min((*bytes - *filled) as usize);
                    let at = *filled as usize;
                    queues.next_recv()?[at..at + copied].copy_from_slice(&unused[..copied]);
                    self.start += copied;
                    *filled += copied as u32;
                    if *filled < *bytes {
                        return None;
                    }
                    let (bytes, solicited, acknowledge) = (*bytes, *solicited, *acknowledge);
                    let event = Event::Arrived { bytes, solicited, acknowledge };
                    self.expect = Expect::Record;
                    return Some(event);
                }
            }
        }
    }

    fn on_record(&mut self, record: Option<Record>, queues: &mut Queues) -> Option<Event> {
        match record {
            Some(Record::Frame { bytes, .. }) if bytes > TCP_FRAME_BYTES_MAX => {
                Some(Event::Garbage)
            }
            Some(Record::Frame { bytes, .. }) if self.refusing => {
                self.expect = Expect::Skip { left: bytes };
                None
            }
            Some(Record::Frame { bytes, solicited, acknowledge }) => match queues.next_recv() {
                None => {
                    self.refusing = true;
                    self.expect = Expect::Skip { left: bytes };
                    Some(Event::NotReady)
                }
                Some(slot) if slot.len() < bytes as usize => Some(Event::TooLong),
                Some(_) => {
                    self.expect = Expect::Frame { filled: 0, bytes, solicited, acknowledge };
                    None
                }
            },
            Some(Record::Again) if self.refusing => {
                self.refusing = false;
                None
            }
            Some(Record::Accepted { count }) => Some(Event::Accepted(count)),
            Some(Record::Refused(refusal)) => Some(Event::Refused(refusal)),
            Some(Record::Acknowledge) => Some(Event::Asked),
            Some(Record::Again) | None => Some(Event::Garbage),
        }
    }
}
