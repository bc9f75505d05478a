//! The events that reading a frame gives the driver.

use std::ops::Range;
use std::time::Instant;

use crate::memory::{Buffer, Lease};
use crate::note::Note;
use crate::open_request::OpenRequest;
use crate::proto::error::Refusal;
use crate::proto::fate::Sent;
use crate::proto::fetches::Lent;
use crate::proto::frame::Tells;
use crate::proto::header::{record_bytes, record_ordinal};
use crate::proto::lanes::Entry;

/// One thing that a frame asks the driver to do; they are done in order. `W` is the waiter for an
/// answer.
#[derive(Debug)]
pub(crate) enum Event<W> {
    /// The peer's CONFIRM came: the link may be used.
    Confirmed,
    /// A message for a mailbox.
    Deliver(Arrival),
    /// Tells for a mailbox.
    Tells(Tells),
    /// An answer to an ask whose asker still waits; `code` is 0, or stands for it.
    Reply { waiter: W, code: u16, body: Body },
    /// A signal to a mailbox; `windowed`: it came in the order of messages and took room as one.
    Signal { mailbox: u32, generation: u32, signal: u16, windowed: bool },
    /// The peer wants a mailbox.
    Open { correlation: u64, request: OpenRequest },
    /// The peer waits for the window of this mailbox.
    Blocked { mailbox: u32, generation: u32 },
    /// The peer waits for the link's window.
    LinkBlocked,
    /// A message of this side was refused.
    Refused(Sent, Refusal),
    /// A message of this side will not be sent: its mailbox closed while it waited.
    Unsent(Entry),
    /// A tell of this side was delivered, and its sender waits to hear so.
    Delivered(u64),
    /// The peer added this many slots to its ring.
    Granted(u32),
    /// The peer has lent a message: it is to be fetched.
    Lent(Lent),
    /// The peer said goodbye.
    Goodbye,
}

/// A message that arrived.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// The frame it ended in, and its record's place: what a refusal names.
    pub(crate) at: (u32, u16),
    pub(crate) mailbox: u32,
    pub(crate) generation: u32,
    pub(crate) ordinal: u16,
    /// The number of an ask, under which it is answered; `None` for a tell.
    pub(crate) correlation: Option<u64>,
    /// Time at which its asker gives up, by this side's clock.
    pub(crate) deadline: Option<Instant>,
    pub(crate) note: Option<Note>,
    pub(crate) body: Body,
}

impl Tells {
    /// Returns each of them, as it lies in its frame.
    pub(crate) fn each<'a>(&self, frame: &'a [u8]) -> impl Iterator<Item = Arrival> + use<'a> {
        let ((number, first), (mailbox, generation)) = (self.at, self.place);
        let mut start = self.start;
        (0..self.count.messages as u16).map(move |n| {
            let record = &frame[start..];
            let (bytes, payload) = record_bytes(record);
            let arrival = Arrival {
                at: (number, first + n),
                mailbox,
                generation,
                ordinal: record_ordinal(record),
                correlation: None,
                deadline: None,
                note: None,
                body: Body::Part(start + payload.start..start + payload.end),
            };
            start += bytes;
            arrival
        })
    }
}

/// The place of the bytes of an arrival.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// In the frame.
    Part(Range<usize>),
    /// Put together from fragments. Its memory is kept when it is dropped, not freed: that may be
    /// under the link's lock.
    Whole(Buffer),
    /// Where they were fetched to.
    Fetched(Lease),
}

impl Body {
    pub(crate) fn len(&self) -> usize {
        match self {
            Body::Part(range) => range.len(),
            Body::Whole(bytes) => bytes.len(),
            Body::Fetched(bytes) => bytes.len(),
        }
    }
}
