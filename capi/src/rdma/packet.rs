//! The packets that contexts send each other, beside the messages of their programs.

use ringpost::message;
use ringpost::region::RemoteRegion;

/// A packet between two contexts, which have a channel for packets beside their messages.
#[message(name = "ringpost_capi::Packet")]
pub(super) enum Packet {
    /// The first one, both ways: the client's number for the connection, and the sender's memory.
    Hello { session: u64, memory: RemoteRegion<u8> },
    /// In place of the server's `Hello`.
    Refused { why: String },
    /// The sender's part in a collective.
    Part { operation: Operation, bytes: Vec<u8> },
    /// The server's outcome for a client, when all parts have come.
    Outcome { bytes: Vec<u8> },
    /// In place of the outcome.
    Failed { why: String },
}

/// Which collective a part belongs to: the same one at both sides, or both fail.
#[message(name = "ringpost_capi::Operation")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Operation {
    /// A [`Collective`], as a number.
    pub(super) collective: u8,
    /// Of a reduction: which one, and of which type.
    pub(super) reduction: u8,
    pub(super) element: u8,
    /// Bytes of one part.
    pub(super) size: u64,
}

/// The collectives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Collective {
    AllToAll,
    Barrier,
    Gather,
    Scatter,
    AllGather,
    AllReduce,
}

const NAMES: [&str; 6] =
    ["an all-to-all", "a barrier", "a gather", "a scatter", "an all-gather", "an all-reduce"];

impl Operation {
    pub(super) fn new(collective: Collective, size: usize) -> Self {
        Operation { collective: collective as u8, reduction: 0, element: 0, size: size as u64 }
    }

    /// Returns a description for people.
    pub(super) fn text(self) -> String {
        let name = NAMES.get(usize::from(self.collective)).unwrap_or(&"an unknown collective");
        match self.reduction {
            0 => format!("{name} of {} bytes each", self.size),
            reduction => format!(
                "{name} of {} bytes, operation {reduction}, type {}",
                self.size, self.element
            ),
        }
    }
}
