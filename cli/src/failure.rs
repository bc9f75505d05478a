//! The reasons for which a command fails, each in one sentence that says what to do.

use std::time::Duration;

use ringpost::net::{InvalidEnvironment, LinkCause};
use ringpost::region::RegionError;
use ringpost::spawn::SpawnError;
use ringpost::{AskError, StartError, TellError};

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
    /// The other side refused a request or could not do it.
    #[error("the other side says: {0}")]
    OtherSide(String),
    /// An ask was not answered.
    #[error("the other side did not answer: {0}")]
    Ask(#[from] AskError),
    /// A message was not sent.
    #[error("a message was not sent: {0}")]
    Tell(#[from] TellError<()>),
    /// An operation on a region was not done.
    #[error("an operation on the region of the other side failed: {0}")]
    Region(RegionError),
    /// The region's atomic operations are done for clients that are linked by another fabric.
    #[error(
        "what is atomic on the region is done by another device or processor, for another \
         `ringpost perf` that runs now: wait for its end, or leave `fetch_add` and \
         `compare_exchange` out by --only"
    )]
    OtherExecutor,
    /// The other side does not know the request.
    #[error(
        "{peer} is of an older release, whose `ringpost perf serve` {lacks}: start that of this \
         release ({}) there, or leave such rows out by --only and --sizes",
        env!("CARGO_PKG_VERSION")
    )]
    Older {
        /// The name of the other node.
        peer: String,
        /// The thing that it does not do.
        lacks: &'static str,
    },
    /// More is to be read or written at once than there is.
    #[error(
        "{bytes} bytes are more than the region of the other side has, which are {region}: leave \
         larger sizes out, or the region by --only"
    )]
    BeyondRegion {
        /// The bytes that are to be read or written.
        bytes: usize,
        /// The bytes that there are.
        region: usize,
    },
    /// Operations on a region take too long.
    #[error(
        "the operations on the region did not end within {limit:?}: look at the log of the other \
         side with RUST_LOG=info"
    )]
    Stalled {
        /// The time that they had.
        limit: Duration,
    },
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
    /// An answer has the wrong size, which is a bug of Ringpost.
    #[error("an answer has {got} bytes, and should have {expected}: report it")]
    WrongAnswer {
        /// The bytes that it has.
        got: usize,
        /// The bytes that it should have.
        expected: usize,
    },
    /// The region has other bytes than were written, which is a bug of Ringpost.
    #[error("the region has another byte at {at} than was written there: report it")]
    WrongBytes {
        /// The place of the first one.
        at: usize,
    },
    /// A word of the region has lost an addition, which is a bug of Ringpost.
    #[error("a word of the region is {found}, and should be {least} or more: report it")]
    WrongWord {
        /// Its value.
        found: u64,
        /// The value that it had.
        least: u64,
    },
    /// The file of hosts cannot be used.
    #[error("the hosts in {file} cannot be used: {why}")]
    Hosts {
        /// The file.
        file: String,
        /// The reason.
        why: String,
    },
    /// There are more ranks than hosts.
    #[error("there are {hosts} hosts for {ranks} ranks: name one `host:port` for each rank")]
    TooFewHosts {
        /// The hosts of the file.
        hosts: usize,
        /// The ranks that are to be started.
        ranks: usize,
    },
    /// The program of the ranks cannot be started.
    #[error("{program} cannot be started: {why}; give the path of a program that is there")]
    NotStarted {
        /// The program.
        program: String,
        /// The reason, as the system says it.
        why: std::io::Error,
    },
    /// The system failed: mostly standard output was closed.
    #[error("the system failed: {0}")]
    System(#[from] std::io::Error),
}

impl From<RegionError> for Failure {
    fn from(error: RegionError) -> Self {
        match error {
            RegionError::OtherExecutor(_) => Failure::OtherExecutor,
            error => Failure::Region(error),
        }
    }
}
