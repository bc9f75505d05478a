//! The errors, one type per operation; each says what happened and what can be done.

mod allocate;
mod region;
mod remote_spawn;
mod too_few_answers;

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use ringpost_transport::cause::{LinkCause, NodeDown};
use ringpost_transport::id::InvalidNodeName;
use ringpost_transport::limits::archive_bytes_max;

use crate::address::{Address, InvalidActorName};

pub use allocate::{AllocateError, HandOverCause, HandOverError, ReleaseError};
pub use region::{RegionError, WriteAndTellError};
pub use remote_spawn::{OfferError, RemoteSpawnCause, RemoteSpawnError};
pub use too_few_answers::TooFewAnswers;

/// An error of the user, passed on unchanged.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The reason why a message was not sent. A failed `tell` or `try_send` returns the message with
/// it; an `ask` drops its message. [`is_retryable`](Cause::is_retryable) says whether trying again
/// can help.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// The mailbox has no room. Only returned from `try_tell` and `try_send`, and from a `tell` of
    /// an actor to itself.
    #[error(
        "the mailbox is full: try again later; `tell` waits for room, except in an actor that \
        tells itself"
    )]
    MailboxFull,
    /// The actor has stopped or is stopping. (While this node shuts down, the cause for its own
    /// actors is `Shutdown` instead.)
    #[error(
        "the actor has stopped: look its name up again if another one may have taken its place"
    )]
    Stopped,
    /// There is no actor with this name or identity.
    #[error("there is no such actor: it ended, was never started, or its node was restarted")]
    NoSuchActor,
    /// The actor has another type than the reference.
    #[error(
        "the actor is a `{found}`, not a `{asked}`: check the name, and that both programs take \
        the type from the same crate or give it `#[actor(name = ..)]`"
    )]
    WrongActorType {
        /// The type's name in the reference: [`Actor::NAME`](crate::Actor::NAME).
        asked: &'static str,
        /// The name of the actor's type. From another node, its first 128 bytes.
        found: Arc<str>,
    },
    /// The actor's node is down: it could not be reached, or left, and was not linked since. For a
    /// node that was never linked, or whose link was closed because it was idle,
    /// [`down_after`](crate::net::Profile::down_after) counts from the first send. After each send
    /// that fails with this cause, the node is dialled for another `down_after`.
    #[error(
        "the actor's node is unreachable, {0}: it is dialled again; try again later, or send with \
        `wait_for_link`"
    )]
    NodeUnreachable(NodeDown),
    /// The actor lives on another node, and this node has no network.
    #[error(
        "the actor is on another node, and this one reaches none: start it with `listen` or `seeds`"
    )]
    NoNetwork,
    /// The actor's node was built with another layout of this message or its reply, which is not an
    /// earlier version that [`#[message]`](macro@crate::message) declares.
    #[error("the actor's node was built with another layout of this message: build both alike")]
    SchemaMismatch,
    /// The actor has no handler for this message.
    #[error("the actor does not accept this message: add a handler, or check whom it is sent to")]
    NotAccepted,
    /// The archive is larger than the limit.
    #[error(
        "the archive of the message has {bytes} bytes, and a `message_bytes_max` of {limit} leaves \
        it {}: split the message, or raise that in the profiles of both nodes",
        archive_bytes_max(u32::try_from(*.limit).unwrap_or(u32::MAX))
    )]
    TooLarge {
        /// Bytes of the archive: the user's data, and the overhead of lengths, pointers and
        /// padding.
        bytes: usize,
        /// The smaller `message_bytes_max` of the two nodes, in bytes of the user; an archive may
        /// be larger by 256 bytes and a thousandth.
        limit: usize,
    },
    /// The message or its reply cannot leave its node, and the actor is on another one.
    #[error(
        "the message or its reply stays on its node, and the actor is on another one: send it \
        where the actor is"
    )]
    LocalOnly,
    /// The archive could not be written.
    #[error("the message could not be archived: {0}")]
    Archive(String),
    /// The first send over a link looks the actor up on its node, and this has not finished yet
    /// (`try_tell`, `try_send`).
    #[error("the actor is being looked up on its node: try again in a moment; `tell` waits")]
    Opening,
    /// There is no link to the actor's node (`try_tell`, `try_send`), or it was lost before an ask
    /// had left this node.
    #[error("there was no usable link to the actor's node: try again later; `tell` waits for one")]
    LinkDown,
    /// An actor asked itself, and would have waited for its own answer.
    #[error("an actor cannot wait for its own answer: call the method, or tell it the message")]
    SelfAsk,
    /// An actor asked an actor that waits for its answer, directly or through others, on any nodes:
    /// all of them would wait for a time-out. The text names them.
    #[error(
        "actors would wait for each other ({0}): have one of them answer later (`ReplyTo`), or \
        send from a task of its own (`Context::spawn_task`)"
    )]
    Cycle(Arc<str>),
    /// There was no room, or no link, before the time-out of the `tell` or `ask`.
    #[error("it could not be sent within its time-out: try again later")]
    Timeout,
    /// The maximum number of asks of that node is pending on a link.
    #[error("too many asks of the actor's node are pending: wait for some answers first")]
    TooManyAsks,
    /// The actor's node is shutting down: it has announced this, or is closing its links. Another
    /// run of it may accept the message.
    #[error(
        "the actor's node is shutting down: try again by the actor's name when the node is back, \
        or elsewhere"
    )]
    Leaving,
    /// This node is shutting down, or its runtime has ended: it sends nothing any more.
    #[error("this node is shutting down: nothing more is sent from it")]
    Shutdown,
}

impl Cause {
    /// Returns true if the message may be accepted later: by the same actor, by another actor that
    /// has its name then, or by the next run of its node. The message was certainly not handled, so
    /// no retry can make it handled twice. A reference that is bound to one actor stays bound:
    /// after `Stopped`, `NoSuchActor` and `Leaving`, retry by the name, or look the name up again.
    ///
    /// Returns false if a retry of this program cannot help, although nothing was sent in this case
    /// either. So a program that retries ends when its own node shuts down: then sends to an ended
    /// actor of that node, or over a link that says goodbye, fail with `Shutdown`.
    pub fn is_retryable(&self) -> bool {
        match self {
            Cause::MailboxFull
            | Cause::Stopped
            | Cause::NoSuchActor
            | Cause::NodeUnreachable(_)
            | Cause::Opening
            | Cause::LinkDown
            | Cause::Timeout
            | Cause::TooManyAsks
            | Cause::Leaving => true,
            Cause::WrongActorType { .. }
            | Cause::NoNetwork
            | Cause::SchemaMismatch
            | Cause::NotAccepted
            | Cause::TooLarge { .. }
            | Cause::LocalOnly
            | Cause::Archive(_)
            | Cause::SelfAsk
            | Cause::Cycle(_)
            | Cause::Shutdown => false,
        }
    }
}

/// A message that was not sent, with the cause.
///
/// To pass the error on with `?` if the message is not `Sync`, or not wanted there, drop the
/// message: `actor.tell(m).await.map_err(TellError::without_message)?`.
#[derive(Clone, PartialEq, Eq)]
pub struct TellError<M> {
    /// The message, untouched.
    pub message: M,
    /// The reason why it was not sent.
    pub cause: Cause,
}

impl<M> TellError<M> {
    /// Returns true if sending the message again can help, as [`Cause::is_retryable`] says.
    pub fn is_retryable(&self) -> bool {
        self.cause.is_retryable()
    }

    /// Drops the message.
    pub fn without_message(self) -> TellError<()> {
        self.map(drop)
    }

    /// Maps the message to another value.
    pub fn map<N>(self, f: impl FnOnce(M) -> N) -> TellError<N> {
        TellError { message: f(self.message), cause: self.cause }
    }
}

impl<M> fmt::Display for TellError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not sent: {}", self.cause)
    }
}

impl<M> Error for TellError<M> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

/// An ask that got no answer, with its cause.
#[derive(Clone, PartialEq, Eq)]
pub struct AskError {
    /// The reason why there is no answer.
    pub cause: AskCause,
    asked: Box<AskDetails>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct AskDetails {
    actor: Address,
    message: &'static str,
    /// The ask timed out, and the node was never linked: the text says so.
    is_node_unknown: bool,
}

impl AskError {
    pub(crate) fn new(cause: AskCause, actor: Address, message: &'static str) -> Self {
        AskError { cause, asked: Box::new(AskDetails { actor, message, is_node_unknown: false }) }
    }

    /// Returns the same error with the remark that no node of that name has been linked.
    pub(crate) fn of_unknown_node(mut self) -> Self {
        self.asked.is_node_unknown = true;
        self
    }

    /// Returns true if the error remarks that no node of that name has been linked.
    pub(crate) fn is_of_unknown_node(&self) -> bool {
        self.asked.is_node_unknown
    }

    /// Returns the address of the asked actor.
    pub fn actor(&self) -> &Address {
        &self.asked.actor
    }

    /// Returns the name of the message.
    pub fn message(&self) -> &'static str {
        self.asked.message
    }

    /// Returns true if asking again can help and cannot make the message handled twice. After
    /// [`NotBegun::Stopped`], ask by the name, or look the name up again.
    pub fn is_retryable(&self) -> bool {
        self.cause.is_retryable()
    }
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ask of {} to {}: {}", self.message(), self.actor(), self.cause)?;
        if self.asked.is_node_unknown {
            write_unknown(f, self.actor().node())?;
        }
        Ok(())
    }
}

/// Writes that no node of this name has been linked: the name may be misspelt.
fn write_unknown(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    write!(f, "; no node `{name}` has been linked yet: check the name, and the seeds")
}

impl Error for AskError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.source()
    }
}

/// The reason why an ask got no answer.
///
/// [`NotSent`](AskCause::NotSent) and [`NotBegun`](AskCause::NotBegun) mean that the message was
/// certainly never handled. With every other cause, it was handled or may have been.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskCause {
    /// The message was not sent.
    #[error("not sent: {0}")]
    NotSent(#[source] Cause),
    /// The message was sent, and the actor certainly never begins it: asking again, or asking
    /// another actor, cannot make it handled twice.
    #[error("sent, but never begun: {0}")]
    NotBegun(#[source] NotBegun),
    /// No answer came in time. On this node the handler had begun, and may still run; on another
    /// node the message may have been handled, may be handled later, or never.
    #[error(
        "no answer came in time: the message may have been handled, or may be later; a longer \
        `timeout` waits longer"
    )]
    Timeout,
    /// The handler began, and its [`ReplyTo`](crate::ReplyTo) was lost in a panic: of the handler,
    /// or of a task or another handler that got it.
    #[error("the handler, or what it passed the ask on to, panicked before there was an answer")]
    Panicked,
    /// The handler began, but gave no answer: its actor was killed, failed, or ended while it kept
    /// the [`ReplyTo`](crate::ReplyTo); or the `ReplyTo` was dropped; or the actor that the ask was
    /// forwarded to did not answer. (If that actor certainly never begins it, the cause is
    /// [`NotBegun`](AskCause::NotBegun).)
    #[error(
        "the handler began and gave no answer, because its actor ended, its `ReplyTo` was dropped, \
        or the actor that the ask was forwarded to did not answer: where an actor ended or did not \
        answer, the log of its node says more (a `ReplyTo` that is dropped while its actor runs \
        leaves no line there)"
    )]
    NoReply,
    /// The link was lost; it is unknown if the message was handled.
    #[error("the link to the actor's node was lost ({0}): the message may have been handled")]
    LinkDown(LinkCause),
    /// The message was handled, but the reply is larger than one of the two nodes accepts.
    #[error(
        "the reply is larger than one of the two nodes takes: raise `message_bytes_max` in both \
        profiles, or ask for less"
    )]
    ReplyTooLarge,
    /// The message was handled, but the reply could not be archived, or its archive is invalid.
    #[error(
        "the reply could not be archived, or is no archive where it arrived: the log of the \
        actor's node says why, or that of this one"
    )]
    InvalidReply,
}

impl AskCause {
    /// Returns true if asking again can help and cannot make the message handled twice. After
    /// [`NotBegun::Stopped`], ask by the name, or look the name up again.
    ///
    /// Returns false if the message was handled or may have been: only the program knows whether it
    /// may be handled again.
    pub fn is_retryable(&self) -> bool {
        match self {
            AskCause::NotSent(cause) => cause.is_retryable(),
            AskCause::NotBegun(why) => why.is_retryable(),
            AskCause::Timeout
            | AskCause::Panicked
            | AskCause::NoReply
            | AskCause::LinkDown(_)
            | AskCause::ReplyTooLarge
            | AskCause::InvalidReply => false,
        }
    }
}

/// The reason why an actor never begins an ask that was sent to it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum NotBegun {
    /// The actor ended while the message waited in its mailbox or was on its way there; or the
    /// actor that it was forwarded to had ended, or the node of that actor was out of reach.
    #[error(
        "the actor stopped first: look its name up again if another one may have taken its place, \
        and ask that"
    )]
    Stopped,
    /// The actor had not begun the message when the ask timed out; or an actor that it was
    /// forwarded to had no link or no room in time. An asker on another node mostly gets
    /// [`AskCause::Timeout`], because it does not wait for that node to report this.
    #[error(
        "the actor did not come to it within the time-out of the ask: ask again later, or with a \
        longer `timeout`"
    )]
    Timeout,
    /// The bytes that arrived at the actor's node are not an archive of the message.
    #[error("the actor's node found the message's archive invalid: build both nodes alike")]
    InvalidArchive,
}

impl NotBegun {
    /// Returns true if asking again can help, as [`AskCause::is_retryable`] says.
    pub fn is_retryable(&self) -> bool {
        match self {
            NotBegun::Stopped | NotBegun::Timeout => true,
            NotBegun::InvalidArchive => false,
        }
    }
}

/// The reason why an actor was not spawned.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// An actor with this name lives on the node.
    #[error("the name `{0}` is taken: choose another, or stop the actor that has it")]
    NameTaken(String),
    /// The actor with this name has another type (`actor_or_spawn`).
    #[error(transparent)]
    WrongType(LookupError),
    /// The text cannot be a name.
    #[error(transparent)]
    InvalidName(#[from] InvalidActorName),
    /// `on_start` failed. The name is free again.
    #[error("the actor could not start: {0}")]
    Start(#[source] BoxError),
    /// `on_start` panicked. The name is free again.
    #[error("the actor panicked while it started: {0}")]
    Panicked(Arc<str>),
    /// The actor was killed while it started. The name is free again.
    #[error("the actor was killed while it started")]
    Killed,
    /// The node is shutting down.
    #[error("this node is shutting down")]
    Shutdown,
    /// The supervisor that should start it did not answer
    /// ([`start_child`](crate::ActorRef::start_child)).
    #[error("no supervisor: {0}")]
    NoSupervisor(#[source] AskError),
}

/// The reason why an actor was not found.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// The part before the `/` is not a node's name.
    #[error(transparent)]
    InvalidNode(#[from] InvalidNodeName),
    /// The part after the `/` is not an actor's name.
    #[error(transparent)]
    InvalidName(#[from] InvalidActorName),
    /// There is no such actor, it has another type, or its node cannot be reached.
    #[error("{path}: {cause}")]
    NotFound {
        /// The path that was looked up, with its node.
        path: String,
        /// The reason why it was not found.
        #[source]
        cause: Cause,
    },
    /// The actor does not serve the protocol ([`reference`](crate::Node::reference)).
    #[error(
        "{path} does not serve the protocol `{protocol}`, for its message `{message}`: {cause}"
    )]
    NotServed {
        /// The path that was looked up, with its node.
        path: String,
        /// The protocol's name.
        protocol: &'static str,
        /// The first message of the protocol that the actor does not accept.
        message: &'static str,
        /// The reason: [`NotAccepted`](Cause::NotAccepted) or
        /// [`SchemaMismatch`](Cause::SchemaMismatch).
        #[source]
        cause: Box<Cause>,
    },
}

ringpost_transport::debug_by_display!(
    Cause,
    TellError<M>,
    AskError,
    AskCause,
    NotBegun,
    SpawnError,
    LookupError
);

impl LookupError {
    /// Returns true if another look-up can help: the node may be back, or the actor spawned, later.
    pub fn is_retryable(&self) -> bool {
        self.cause().is_some_and(Cause::is_retryable)
    }

    /// Returns the reason why the actor was not found, or `None` if the path itself is wrong.
    pub fn cause(&self) -> Option<&Cause> {
        match self {
            LookupError::NotFound { cause, .. } => Some(cause),
            LookupError::NotServed { cause, .. } => Some(cause),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
