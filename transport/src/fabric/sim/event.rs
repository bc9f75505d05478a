//! The events of an instant of virtual time.

use std::io;
use std::task::Waker;

use super::super::Status;

/// A node's name, interned.
pub(super) type NodeId = usize;
/// A queue pair of the world; numbers are never used twice.
pub(super) type Number = usize;
/// One direction of a stream.
pub(super) type PipeId = u64;

/// An event of the heap.
#[derive(Debug)]
pub(super) enum Event {
    /// Both ends have called `connect`: this one may send.
    Connected { number: Number },
    /// The peer is gone: `connect` fails.
    Refused { number: Number },
    /// A frame reaches the other end.
    Arrive(Frame),
    /// A frame that found no receive is tried again.
    RnrTimer { number: Number },
    /// All sends before `index` were accepted, and so was this one, or it ends with `error`.
    Answer { number: Number, index: u64, error: Option<Status> },
    /// A sender has tried long enough to get rid of this send.
    RetryOut { number: Number, oldest: u64 },
    /// An end learns without sending that the other is gone.
    PeerGone { number: Number },
    /// A notification for nothing.
    Spurious { number: Number },
    /// Bytes reach the reader of a stream.
    Bytes { pipe: PipeId, bytes: Vec<u8> },
    /// The end of the stream reaches the reader.
    Fin { pipe: PipeId },
    /// An end of a stream breaks.
    Break { pipe: PipeId, end: PipeEnd, kind: io::ErrorKind },
    /// A dial reaches the address.
    Dial { dial: u64 },
    /// The answer to a dial reaches the dialler.
    Dialed { dial: u64 },
    /// A sleeper wakes.
    Wake(Waker),
}

/// A frame on its way.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) from: Number,
    pub(super) to: Number,
    pub(super) index: u64,
    pub(super) bytes: Box<[u8]>,
    pub(super) solicited: bool,
    /// How often it may still find no receive.
    pub(super) rnr_tries: u8,
    /// How its send ends although it arrives.
    pub(super) fails: Option<Status>,
}

/// Which end of one direction of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PipeEnd {
    Reader,
    Writer,
}
