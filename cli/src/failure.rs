//! The reasons for which a command fails, each in one sentence that says what to do.

use ringpost::{AskError, InvalidEnvironment, LinkCause, SpawnError, StartError, TellError};

/// A reason for which a command fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A variable of the environment is wrong.
    #[error(transparent)]
    Environment(#[from] InvalidEnvironment),
    /// The node of this program does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// There is no link to the other side.
    #[error("no link to {address}: {why}; {remedy}")]
    Unreached {
        /// The address that was dialled.
        address: String,
        /// The reason, as the node says it.
        why: String,
        /// The first thing to do about it.
        remedy: &'static str,
    },
    /// There is a node, and it does not serve this program.
    #[error(
        "the node {node} at {address} does not answer as `ringpost perf serve` does ({why}): start \
         that there, of the same release"
    )]
    NotServing {
        /// The address that was dialled.
        address: String,
        /// The name of the node.
        node: String,
        /// The reason, as the look-up says it.
        why: String,
    },
    /// The link ended while it was used.
    #[error("the link to {peer} was lost: {cause}; if the other side was stopped, start it again")]
    Lost {
        /// The name of the other node.
        peer: String,
        /// The cause of its end.
        cause: LinkCause,
    },
    /// The other side could not do what it was asked for.
    #[error("the other side says: {0}")]
    OtherSide(String),
    /// An ask was not answered.
    #[error("the other side did not answer: {0}")]
    Ask(#[from] AskError),
    /// A message was not sent.
    #[error("a message was not sent: {0}")]
    Tell(#[from] TellError<()>),
    /// An actor of this side does not start.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The counts of both sides differ, which is a bug of Ringpost.
    #[error("{sent} messages were sent and {handled} handled, on a link that stands: report it")]
    Miscount {
        /// Messages that this side sent.
        sent: u64,
        /// Messages that the other side handled.
        handled: u64,
    },
    /// An answer is not what was asked for, which is a bug of Ringpost.
    #[error("an answer has {got} bytes, and should have {expected}: report it")]
    WrongAnswer {
        /// The bytes that it has.
        got: usize,
        /// The bytes that it should have.
        expected: usize,
    },
    /// The system failed: mostly standard output was closed.
    #[error("the system failed: {0}")]
    System(#[from] std::io::Error),
}
