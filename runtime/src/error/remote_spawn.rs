//! The errors of actors that are spawned on other nodes.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use ringpost_transport::id::InvalidNodeName;

use super::{AskCause, Cause};
use crate::address::InvalidActorName;

/// The reason why a type was not offered to other nodes.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OfferError {
    /// Another offered type has the same name.
    #[error("another type named `{0}` is offered already: give one `#[actor(name = ..)]`")]
    OtherType(&'static str),
    /// The type is being withdrawn.
    #[error("`{0}` is being withdrawn: offer it again when `Node::withdraw` has returned")]
    Withdrawing(&'static str),
    /// The node is shutting down.
    #[error("this node is shutting down: it offers nothing any more")]
    Shutdown,
}

/// An actor that was not spawned on another node, or may not have been, with the cause.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteSpawnError {
    /// The reason why there is no reference to it.
    pub cause: RemoteSpawnCause,
    node: Arc<str>,
    actor: &'static str,
    /// The spawn timed out, and the node was never linked: the text says so.
    is_node_unknown: bool,
}

impl RemoteSpawnError {
    pub(crate) fn new(cause: RemoteSpawnCause, node: Arc<str>, actor: &'static str) -> Self {
        RemoteSpawnError { cause, node, actor, is_node_unknown: false }
    }

    /// Returns the same error with the remark that no node of that name has been linked.
    pub(crate) fn of_unknown_node(mut self) -> Self {
        self.is_node_unknown = true;
        self
    }

    /// Returns the name of the node that was asked.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Returns the name of the actor's type.
    pub fn actor(&self) -> &'static str {
        self.actor
    }

    /// Returns true if the actor may live on that node, or may be spawned later: look its name up.
    pub fn may_be_spawned(&self) -> bool {
        matches!(self.cause, RemoteSpawnCause::Unanswered(_))
    }

    /// Returns true if the actor was certainly not spawned, and trying again can help:
    /// [`RemoteSpawnCause::is_retryable`] says when.
    pub fn is_retryable(&self) -> bool {
        self.cause.is_retryable()
    }
}

impl fmt::Display for RemoteSpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spawn of a `{}` on {}: {}", self.actor, self.node, self.cause)?;
        if self.is_node_unknown {
            super::write_unknown(f, &self.node)?;
        }
        Ok(())
    }
}

impl Error for RemoteSpawnError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.source()
    }
}

/// The reason why there is no reference to an actor on another node.
///
/// After all causes but [`Unanswered`](RemoteSpawnCause::Unanswered), such an actor certainly
/// neither runs nor will run.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteSpawnCause {
    /// The text cannot be a node's name.
    #[error(transparent)]
    InvalidNode(#[from] InvalidNodeName),
    /// The text cannot be an actor's name.
    #[error(transparent)]
    InvalidName(#[from] InvalidActorName),
    /// That node does not offer actors of this type.
    #[error(
        "that node does not offer it: call `Node::offer` there, and take the type from the same \
        crate or give it `#[actor(name = ..)]`"
    )]
    NotOffered,
    /// That node does not offer it any more: it was [withdrawn](crate::Node::withdraw), or that
    /// node is shutting down and has not announced this yet.
    #[error("that node offers it no more: spawn it elsewhere, or when it is offered there again")]
    Withdrawn,
    /// That node was built with other arguments of this type.
    #[error("that node was built with another layout of the arguments: build both alike")]
    OtherArguments,
    /// The bytes that arrived there are not an archive of the arguments.
    #[error("that node found the archive of the arguments invalid: build both nodes alike")]
    InvalidArguments,
    /// [`Offered::create`](crate::spawn::Offered::create) failed, with this text.
    #[error("it could not be made of these arguments: {0}")]
    Refused(String),
    /// [`on_start`](crate::Actor::on_start) failed, with this text. The name is free again.
    #[error("the actor could not start: {0}")]
    Start(String),
    /// `create` or `on_start` panicked, with this message. The name is free again.
    #[error("the actor panicked while it was made or started: {0}")]
    Panicked(String),
    /// The actor was killed before it had started. The name is free again.
    #[error("the actor was killed before it had started")]
    Killed,
    /// An actor of this name lives on that node.
    #[error(
        "the name `{0}` is taken there: choose another, look it up, or stop the actor that has it"
    )]
    NameTaken(String),
    /// The maximum number of actors of this type lives there for other nodes:
    /// [`Offered::LIVING_MAX`](crate::spawn::Offered::LIVING_MAX).
    #[error(
        "{0} actors of this type live there for other nodes, and no more may: stop some first, or \
        raise `LIVING_MAX`"
    )]
    TooMany(u64),
    /// That node is shutting down.
    #[error("that node is shutting down: spawn it elsewhere, or when the node is back")]
    Leaving,
    /// The node was not asked, or gave up before it began the spawn.
    #[error("not spawned: {0}")]
    NotSent(#[source] Cause),
    /// The actor was placed there, but this node could not watch it first, so it was not told to
    /// begin: it ends there without having run. Until that node learns this, at the latest at the
    /// time-out of the spawn, the name is taken, and trying again may return
    /// [`NameTaken`](RemoteSpawnCause::NameTaken).
    #[error("it was placed and never begins, and its name may be taken for a while: {0}")]
    NotBegun(#[source] Cause),
    /// The node was asked, and it is not known if the actor was spawned.
    #[error("it may have been spawned, or may be later, so look its name up: {0}")]
    Unanswered(#[source] AskCause),
}

ringpost_transport::debug_by_display!(OfferError, RemoteSpawnError, RemoteSpawnCause);

impl RemoteSpawnCause {
    /// Returns true if the actor was certainly not spawned, and trying again can help: at once on
    /// another node; on the same node later, after growing pauses, when it
    ///
    /// - offers the type ([`NotOffered`](Self::NotOffered), for example right after its start, or
    ///   [`Withdrawn`](Self::Withdrawn));
    /// - has fewer actors of the type ([`TooMany`](Self::TooMany)), because some were stopped;
    /// - is back ([`Leaving`](Self::Leaving), or [`NotSent`](Self::NotSent) and
    ///   [`NotBegun`](Self::NotBegun) with a cause that is
    ///   [retryable](crate::Cause::is_retryable)); after `NotBegun` the name may be taken there
    ///   until the time-out of the spawn.
    pub fn is_retryable(&self) -> bool {
        match self {
            RemoteSpawnCause::NotOffered
            | RemoteSpawnCause::Withdrawn
            | RemoteSpawnCause::TooMany(_)
            | RemoteSpawnCause::Leaving => true,
            RemoteSpawnCause::NotSent(cause) | RemoteSpawnCause::NotBegun(cause) => {
                cause.is_retryable()
            }
            RemoteSpawnCause::InvalidNode(_)
            | RemoteSpawnCause::InvalidName(_)
            | RemoteSpawnCause::OtherArguments
            | RemoteSpawnCause::InvalidArguments
            | RemoteSpawnCause::Refused(_)
            | RemoteSpawnCause::Start(_)
            | RemoteSpawnCause::Panicked(_)
            | RemoteSpawnCause::Killed
            | RemoteSpawnCause::NameTaken(_)
            | RemoteSpawnCause::Unanswered(_) => false,
        }
    }
}
