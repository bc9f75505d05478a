//! Plain values of messages: their elements, which ones a receive takes, and which one it took.

use bytemuck::Pod;

/// Elements of messages and collective operations: plain data, such as numbers, arrays of them, and
/// structs with `#[derive(Pod)]`. Their bytes are sent unchanged, so all ranks need the same byte
/// order. Every [`Pod`] that threads may share is one.
pub trait Plain: Pod + Send + Sync {}

impl<T: Pod + Send + Sync> Plain for T {}

/// The ranks whose messages a receive takes. A `usize` is the source of that number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Messages of this rank only.
    Rank(usize),
    /// Messages of any rank.
    Any,
}

impl Source {
    pub(crate) fn takes(self, from: usize) -> bool {
        self == Source::Any || self == Source::Rank(from)
    }
}

impl From<usize> for Source {
    fn from(rank: usize) -> Self {
        Source::Rank(rank)
    }
}

/// The tags of the messages that a receive takes. A `u32` is that tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// Messages with this tag only.
    Is(u32),
    /// Messages with any tag.
    Any,
}

impl Tag {
    pub(crate) fn takes(self, tag: u32) -> bool {
        self == Tag::Any || self == Tag::Is(tag)
    }
}

impl From<u32> for Tag {
    fn from(tag: u32) -> Self {
        Tag::Is(tag)
    }
}

/// Where a message came from, and how long it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The rank that sent it.
    pub source: usize,
    /// Its tag.
    pub tag: u32,
    /// Its bytes: of elements their number by their size, of a typed value its archive.
    pub bytes: usize,
}
