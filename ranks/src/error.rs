//! The errors of joining a world and of using it; each says what happened and what can be done.

use std::fmt;
use std::time::Duration;

use ringpost::StartError;
use ringpost::spawn::SpawnError;

use crate::packet::Head;

/// Writes the text of an error as its `Debug`, too: a `main` that returns it prints a sentence.
macro_rules! debug_by_display {
    ($($error:ident),+) => {$(
        impl fmt::Debug for $error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )+};
}

debug_by_display!(JoinError, WorldError, Mismatch);

/// A world that could not be joined. The worlds and ranks that were there before are as they were.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The name of the job cannot be one.
    #[error(
        "the job is called {job:?}, but must be 1 to 40 ASCII letters, digits, `.`, `_` and `-`"
    )]
    InvalidJob {
        /// The name, or the beginning of it.
        job: String,
    },
    /// The world is to have no rank, or too many.
    #[error("the world is to have {size} ranks, but must have 1 to 4096")]
    InvalidSize {
        /// The ranks that it is to have.
        size: usize,
    },
    /// The rank is past the end.
    #[error("this rank is to be number {rank}, but a world of {size} ranks has 0 to {}", size - 1)]
    InvalidRank {
        /// The number.
        rank: usize,
        /// The ranks of the world.
        size: usize,
    },
    /// The builder lacks a setting.
    #[error("the world cannot be joined: {what}")]
    Incomplete {
        /// The missing setting, and the method that gives it.
        what: &'static str,
    },
    /// A variable of the environment is missing or wrong.
    #[error(
        "the environment variable {variable} is {value}, but must be {must}: start the program \
        with `ringpost run`, or set it"
    )]
    Environment {
        /// The variable.
        variable: &'static str,
        /// Its value in quotation marks, or that it is not set.
        value: String,
        /// The form that it must have.
        must: &'static str,
    },
    /// This node already has a rank of a world of this name.
    #[error(
        "this node has a rank of a world `{job}` already: drop that world first, or give this one \
        another name"
    )]
    AlreadyHere {
        /// The name of the world.
        job: String,
    },
    /// Another rank joins a world of this name that is to have another number of ranks.
    #[error(
        "the node {node} joins a world `{job}` of {theirs} ranks, and this one is to have {ours}: \
        give both the same size, or give the worlds different names"
    )]
    OtherSize {
        /// The name of the world.
        job: String,
        /// The node of the other rank.
        node: String,
        /// The ranks that its world is to have.
        theirs: usize,
        /// The ranks that this world is to have.
        ours: usize,
    },
    /// Another rank joins with another window.
    #[error(
        "the node {node} keeps {theirs} bytes of messages, and this one {ours}: give all ranks the \
        same `window`"
    )]
    OtherWindow {
        /// The node of the other rank.
        node: String,
        /// Its window, in bytes.
        theirs: usize,
        /// The window of this rank, in bytes.
        ours: usize,
    },
    /// Another rank has this number.
    #[error(
        "the node {node} is rank {rank} of the world `{job}`: start each rank once, with a number \
        of its own"
    )]
    NumberTaken {
        /// The name of the world.
        job: String,
        /// The number.
        rank: usize,
        /// The node that has it.
        node: String,
    },
    /// The world has all its ranks, and this one is not among them.
    #[error(
        "the world `{job}` has its {size} ranks already, and this one is none of them: wait for \
        its end, or give this one another name"
    )]
    Full {
        /// The name of the world.
        job: String,
        /// Its ranks.
        size: usize,
    },
    /// Not all ranks have come in time.
    #[error(
        "after {waited:?} the world `{job}` of {size} ranks still misses {missing}: start them, \
        and check that they are told of the same job and of each other's addresses"
    )]
    TimedOut {
        /// The name of the world.
        job: String,
        /// The ranks that it is to have.
        size: usize,
        /// The time that was waited.
        waited: Duration,
        /// The ranks that are missing.
        missing: Missing,
    },
    /// A rank died before all ranks were linked.
    #[error(
        "rank {rank} of the world `{job}` has ended while ranks joined: start it, and join again"
    )]
    Died {
        /// The name of the world.
        job: String,
        /// The rank.
        rank: usize,
    },
    /// The node of this rank could not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The actor of this rank could not start.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

/// The ranks that a join misses.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// The ranks of these numbers.
    Ranks(Vec<usize>),
    /// So many ranks, whose numbers their arrival gives.
    Count(usize),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::Count(count) => write!(f, "{count} of them"),
            Missing::Ranks(ranks) => {
                let numbers = ranks.iter().map(ToString::to_string).collect::<Vec<_>>();
                write!(f, "the ranks {}", numbers.join(", "))
            }
        }
    }
}

/// An operation of a world that failed.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorldError {
    /// A rank of the world has died: its process or its node, or messages of it were lost with a
    /// link. With the number of this rank: the others have lost it, and it has to join a new world.
    #[error("rank {rank} has died: go on in a world of the living, which `shrink` makes")]
    Died {
        /// The rank.
        rank: usize,
    },
    /// A rank has left the world before it took part.
    #[error("rank {rank} has left the world: let every rank make the same calls before it ends")]
    Left {
        /// The rank.
        rank: usize,
    },
    /// A rank has revoked the world.
    #[error("the world was revoked: go on in a world of the living, which `shrink` makes")]
    Revoked,
    /// This rank has left the world, or its node is shutting down.
    #[error("this rank has left the world, or its node is shutting down: join a new one")]
    Closed,
    /// Two ranks called different collective operations, or one with different arguments.
    #[error(transparent)]
    Mismatch(Box<Mismatch>),
    /// A rank has given a collective operation up.
    #[error(
        "rank {rank} gave up collective operation {sequence}: its arguments were wrong, or its \
        future was dropped; await each to its end"
    )]
    Abandoned {
        /// The rank.
        rank: usize,
        /// The number of the operation on this world.
        sequence: u64,
    },
    /// There is no such rank.
    #[error("there is no rank {rank}: the world has the ranks 0 to {}", size - 1)]
    NoSuchRank {
        /// The rank.
        rank: usize,
        /// The ranks of the world.
        size: usize,
    },
    /// A slice has another length than the operation needs.
    #[error("{what} has {found} elements, and needs {needed}")]
    WrongLength {
        /// The slice.
        what: &'static str,
        /// The elements that it has.
        found: usize,
        /// The elements that it needs.
        needed: usize,
    },
    /// The message has elements of another type; it is still there.
    #[error(
        "the message with tag {tag} of rank {rank} has elements of another type ({bytes} bytes \
        each): receive it with the type that was sent"
    )]
    WrongType {
        /// The rank that sent it.
        rank: usize,
        /// Its tag.
        tag: u32,
        /// The size of its elements; 0 if it is a typed value.
        bytes: usize,
    },
    /// The message is longer than the slice that it was to fill; it is still there.
    #[error(
        "the message with tag {tag} of rank {rank} has {elements} elements, and there is room for \
        {room}: receive it with a longer slice"
    )]
    Truncated {
        /// The rank that sent it.
        rank: usize,
        /// Its tag.
        tag: u32,
        /// Its elements.
        elements: usize,
        /// The elements of the slice.
        room: usize,
    },
    /// The message is too long.
    #[error("a message has {bytes} bytes, and may have {limit}: send it in parts")]
    TooLong {
        /// Its bytes.
        bytes: usize,
        /// The bytes that one may have.
        limit: usize,
    },
    /// Sends of ranks waited for each other in a circle, and for 4 s no rank of it received a
    /// message. Nothing shows that none of them would have received later: the message was not
    /// sent, and may be sent again.
    #[error(
        "the send to rank {rank} waits for room, and so do sends of the other ranks in a circle, \
        and none of them has received for seconds: receive first on one of them, or at the same \
        time (`join!`)"
    )]
    LockedUp {
        /// The rank that it was for.
        rank: usize,
    },
    /// A value could not be archived or read back.
    #[error("the value could not be archived or read back: {0}")]
    Archive(String),
}

/// The first two calls of a collective operation that were found to differ.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "collective operation {sequence} differs: rank {rank} called {call}, and rank {other} \
    {other_call}; let all ranks make the same calls in the same order"
)]
#[non_exhaustive]
pub struct Mismatch {
    /// The number of the operation on this world.
    pub sequence: u64,
    /// One rank.
    pub rank: usize,
    /// Its call, with its root, length and element.
    pub call: String,
    /// Another rank.
    pub other: usize,
    /// Its call.
    pub other_call: String,
}

impl Mismatch {
    pub(crate) fn error(sequence: u64, one: (u32, Head), other: (u32, Head)) -> WorldError {
        WorldError::Mismatch(Box::new(Mismatch {
            sequence,
            rank: one.0 as usize,
            call: format!("{:?}", one.1),
            other: other.0 as usize,
            other_call: format!("{:?}", other.1),
        }))
    }
}
