//! The messages that the ranks of a world send each other.

use std::any::type_name;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use ringpost::prelude::*;

/// A part of a message or of a collective operation. The bytes come first, so that they lie at the
/// beginning of the archive, where they are aligned for every element.
#[message(name = "ringpost.ranks.Packet")]
pub(crate) struct Packet {
    pub(crate) bytes: Vec<u8>,
    /// The rank that sent it, which proves that by the key.
    pub(crate) from: u32,
    pub(crate) key: u64,
    /// Packets and notes that were sent to the same rank before, at least.
    pub(crate) sent: u64,
    /// Where `bytes` begin in the whole.
    pub(crate) at: u64,
    /// Bytes of the whole.
    pub(crate) total: u64,
    pub(crate) to: Target,
}

/// The destination of a packet at its rank.
#[message(name = "ringpost.ranks.Target")]
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    /// A message, which a receive takes.
    Message { tag: u32, element: Element },
    /// A step of the collective operation of this number.
    Step { sequence: u64, step: u32, head: Head },
}

/// The type of the elements of a message.
#[message(name = "ringpost.ranks.Element")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Element {
    /// A hash of its name and size.
    pub(crate) id: u64,
    /// Bytes of one; 0 of a typed value.
    pub(crate) size: u32,
}

impl Element {
    /// Returns the type of plain elements.
    pub(crate) fn of<T>() -> Self {
        const { assert!(size_of::<T>() > 0, "elements have bytes") };
        let size = size_of::<T>() as u32;
        Element { id: hash(&(type_name::<T>(), size)), size }
    }

    /// Returns the type of a value that crosses as an archive.
    pub(crate) fn value<V>() -> Self {
        Element { id: hash(&(type_name::<V>(), "archive")), size: 0 }
    }
}

/// The description of a collective call, sent with each step: all ranks have to send the same.
#[message(name = "ringpost.ranks.Head")]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: u8,
    pub(crate) root: u32,
    pub(crate) element: Element,
    /// Elements, where all ranks have to give as many; else 0.
    pub(crate) length: u64,
    /// A hash of the reduction's type; 0 where there is none.
    pub(crate) operation: u64,
}

/// The names of the collective operations, by `Head::kind`.
const KINDS: [&str; 16] = [
    "barrier",
    "broadcast",
    "scatter",
    "scatterv",
    "gather",
    "gatherv",
    "all_gather",
    "all_gatherv",
    "all_to_all",
    "all_to_allv",
    "reduce",
    "all_reduce",
    "reduce_scatter",
    "scan",
    "exclusive_scan",
    "split",
];

impl Head {
    /// Describes an operation of one of the `KINDS`.
    pub(crate) fn new(kind: &str, root: usize, element: Element, length: usize) -> Self {
        let kind = KINDS.iter().position(|name| *name == kind).unwrap_or(KINDS.len());
        Head { kind: kind as u8, root: root as u32, element, length: length as u64, operation: 0 }
    }

    /// Adds the type of the reduction.
    pub(crate) fn with<O>(mut self) -> Self {
        self.operation = hash(&type_name::<O>());
        self
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = KINDS.get(usize::from(self.kind)).unwrap_or(&"unknown");
        let Element { id, size } = self.element;
        write!(f, "{kind}(root {}, {} elements of {size} bytes", self.root, self.length)?;
        write!(f, ", type {:08x}, operation {:08x})", id >> 32, self.operation >> 32)
    }
}

/// Returns a hash that is the same in all processes of one build.
fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Reads what a packet is part of.
pub(crate) fn target(packet: &View<Packet>) -> Target {
    let element = |element: &ArchivedElement| Element {
        id: element.id.to_native(),
        size: element.size.to_native(),
    };
    match &packet.to {
        ArchivedTarget::Message { tag, element: of } => {
            Target::Message { tag: tag.to_native(), element: element(of) }
        }
        ArchivedTarget::Step { sequence, step, head } => Target::Step {
            sequence: sequence.to_native(),
            step: step.to_native(),
            head: Head {
                kind: head.kind,
                root: head.root.to_native(),
                element: element(&head.element),
                length: head.length.to_native(),
                operation: head.operation.to_native(),
            },
        },
    }
}

/// A message about the world itself. `from` is the rank that sent it, which proves that by the key.
#[message(name = "ringpost.ranks.Control")]
#[derive(Debug, Clone)]
pub(crate) struct Control {
    pub(crate) from: u32,
    pub(crate) key: u64,
    /// Packets and notes that were sent to the same rank before, at least.
    pub(crate) sent: u64,
    pub(crate) what: Note,
}

/// Asks a rank whether it has told this proof to the rank of this number.
#[message(name = "ringpost.ranks.Confirm")]
#[derive(Debug)]
pub(crate) struct Confirm {
    pub(crate) rank: u32,
    pub(crate) proof: u64,
}

/// The control messages of ranks.
#[message(name = "ringpost.ranks.Note")]
#[derive(Debug, Clone)]
pub(crate) enum Note {
    /// Says nothing but its own `sent`, after a link was made again.
    Check,
    /// Returns room for messages to the sender, in bytes.
    Credit { bytes: u64 },
    /// Says that a send waits for room.
    Wanted,
    /// Looks for a circle of ranks whose sends wait for each other.
    Circle { origin: u32, number: u64 },
    /// Ends a collective operation on all ranks.
    Abort { sequence: u64, cause: Abort },
    /// Says that a rank has died.
    Died { rank: u32 },
    /// Ends all operations of the world.
    Revoked,
    /// Says that the rank leaves, and the number of its first collective operation that is not
    /// over.
    Left { floor: u64 },
    /// Gives a rank's part in an agreement to its coordinator.
    Vote { number: u64, flag: bool, died: Vec<u32> },
    /// Tells the outcome of an agreement.
    Decided { number: u64, flag: bool, died: Vec<u32> },
}

/// Why a collective operation was ended.
#[message(name = "ringpost.ranks.Abort")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Abort {
    /// Two ranks called different operations, or with different arguments.
    Mismatch { rank: u32, head: Head, other: u32, other_head: Head },
    /// A rank gave the operation up: it dropped its future, or its arguments were wrong.
    Abandoned { rank: u32 },
}
