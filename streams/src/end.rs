//! How a connection ends, and the errors that say so.

use std::error::Error;
use std::fmt;
use std::io;

use ringpost::spawn::SpawnError;
use ringpost::{ActorExit, AskCause, AskError, Cause, LookupError};

/// Implements `Debug` of errors by their `Display`: a program whose `main` returns an error prints
/// its `Debug`.
macro_rules! debug_by_display {
    ($($error:ident $(<$of:ident>)?),+) => {$(
        impl $(<$of>)? ::std::fmt::Debug for $error $(<$of>)? {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Display::fmt(self, f)
            }
        }
    )+};
}

/// The cause for which a connection ended. It is reported after the last message that arrived.
/// Messages can be missing only after [`Lost`](EndCause::Lost), [`Gone`](EndCause::Gone),
/// [`Violation`](EndCause::Violation) and [`Abandoned`](EndCause::Abandoned).
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndCause {
    /// The peer closed its side in order: nothing is missing.
    #[error("the peer has closed the connection")]
    Closed,
    /// The peer's program dropped its side without closing it: all messages arrived, and it may
    /// have had more to send. Of a byte stream: it left bytes unread, or a panic dropped it.
    #[error("the peer has dropped the connection without closing it")]
    Dropped,
    /// The peer takes no messages any more. Its own messages still arrive.
    #[error("the peer does not read from the connection any more")]
    NotReading,
    /// A link between the two nodes was lost, and messages of the connection with it.
    #[error("messages were lost with the link between the nodes: connect again")]
    Lost,
    /// The actor at the peer's end has ended, or its node is down.
    #[error("the peer's end of the connection is gone ({0}): connect again")]
    Gone(ActorExit),
    /// This program dropped a `read_into` while the peer wrote to the region: bytes are missing.
    #[error("a read into a region was given up while the peer wrote to it: connect again")]
    Abandoned,
    /// A message came that no peer of this version sends. The text names the fault.
    #[error("the connection was broken off since its protocol was broken: {0}")]
    Violation(&'static str),
    /// This node is shutting down, or its runtime is.
    #[error("this node is shutting down")]
    Shutdown,
}

impl ConnectError {
    /// Returns why a listener could not be asked.
    pub(crate) fn of_lookup(error: LookupError) -> Self {
        match error {
            LookupError::NotFound { cause, .. } if is_mismatch(&cause) => ConnectError::Mismatch,
            error => ConnectError::Lookup(error),
        }
    }

    /// Returns why a listener gave no answer.
    pub(crate) fn of_ask(error: AskError) -> Self {
        match &error.cause {
            AskCause::NotSent(cause) if is_mismatch(cause) => ConnectError::Mismatch,
            _ => ConnectError::Ask(error),
        }
    }
}

fn is_mismatch(cause: &Cause) -> bool {
    matches!(cause, Cause::NotAccepted | Cause::SchemaMismatch | Cause::WrongActorType { .. })
}

impl EndCause {
    /// Returns the cause for which nothing more can be sent, if the connection has ended for it.
    pub(crate) fn of_unsent(cause: &Cause) -> Option<EndCause> {
        Some(match cause {
            Cause::Stopped | Cause::Leaving => EndCause::Gone(ActorExit::Stopped),
            Cause::NoSuchActor => EndCause::Gone(ActorExit::NoActor),
            Cause::NodeUnreachable(_) => EndCause::Gone(ActorExit::NodeDown),
            Cause::Shutdown => EndCause::Shutdown,
            _ => return None,
        })
    }

    /// Returns the kind that an `io::Error` of it has.
    pub(crate) fn kind(&self) -> io::ErrorKind {
        match self {
            EndCause::Closed | EndCause::NotReading => io::ErrorKind::BrokenPipe,
            EndCause::Dropped | EndCause::Lost | EndCause::Gone(_) => {
                io::ErrorKind::ConnectionReset
            }
            EndCause::Violation(_) => io::ErrorKind::InvalidData,
            EndCause::Shutdown | EndCause::Abandoned => io::ErrorKind::ConnectionAborted,
        }
    }
}

/// A message was not sent over a channel. It comes back with the cause.
#[derive(Clone, PartialEq, Eq)]
pub struct SendError<M> {
    /// The message, untouched.
    pub message: M,
    /// Why it was not sent.
    pub cause: SendCause,
}

/// Why a message was not sent over a channel.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendCause {
    /// The peer is behind, or there is no link at the moment: only from
    /// [`try_send`](crate::channel::Sender::try_send).
    #[error("there is no room now: `send` waits for it")]
    Full,
    /// The connection has ended.
    #[error(transparent)]
    Ended(EndCause),
    /// This message cannot be sent, since it is too large, say. Others can.
    #[error("the message cannot be sent: {0}")]
    Refused(#[source] Cause),
}

impl<M> fmt::Display for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not sent: {}", self.cause)
    }
}

impl<M> Error for SendError<M> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

/// No connection could be made.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// There is no listener of that name, or its node is out of reach.
    #[error("no listener: {0}")]
    Lookup(#[source] LookupError),
    /// The listener is one for other messages, or for channels in place of streams.
    #[error("the listener takes other messages: check the name, and the types of both directions")]
    Mismatch,
    /// The listener gave no answer. After a time-out it may be that its program accepts too
    /// slowly.
    #[error("the listener does not answer: {0}")]
    Ask(#[source] AskError),
    /// The listener was closed meanwhile.
    #[error("the listener does not accept any more")]
    Closed,
    /// This node is shutting down.
    #[error("this end cannot be made: {0}")]
    Spawn(#[source] SpawnError),
}

/// A byte stream has failed. It is inside of the `io::Error` that the stream returns:
/// `error.get_ref()` and `downcast_ref::<StreamError>()` lead to it.
#[derive(Clone, PartialEq, Eq)]
pub struct StreamError {
    /// Why.
    pub cause: EndCause,
    /// The number of written bytes that the peer's program has certainly read. It may have read
    /// more.
    pub read_by_peer: u64,
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StreamError { cause, read_by_peer } = self;
        write!(
            f,
            "{cause}; of what was written here the peer has certainly read {read_by_peer} bytes"
        )
    }
}

impl Error for StreamError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

impl From<EndCause> for io::Error {
    fn from(cause: EndCause) -> io::Error {
        io::Error::new(cause.kind(), cause)
    }
}

impl From<StreamError> for io::Error {
    fn from(error: StreamError) -> io::Error {
        io::Error::new(error.cause.kind(), error)
    }
}

debug_by_display!(EndCause, SendError<M>, SendCause, ConnectError, StreamError);

pub(crate) use debug_by_display;
