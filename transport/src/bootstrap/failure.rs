//! The reasons for which a connection between two nodes came to nothing, so that both can say it.

use std::io;

use super::codec::Malformed;
use super::message::Message;
use super::rejection::Rejection;
use super::version::Versions;

/// The reason for which a connection ended before or while it carried messages.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// This node does not want it.
    #[error("refused: {0}")]
    Rejected(Rejection),
    /// The peer does not want it.
    #[error("refused by the peer: {0}")]
    RejectedByPeer(Rejection),
    /// There is no version that both speak.
    #[error(
        "this node speaks protocol version {ours}, the other {theirs}: run the same release of \
         Ringpost on both"
    )]
    VersionMismatch {
        /// This node's range.
        ours: Versions,
        /// The peer's.
        theirs: Versions,
    },
    /// The dialler's first message was made for another connection.
    #[error("its first message was made for another connection: it was recorded and sent again")]
    Stale,
    /// The peer is this very node.
    #[error("it is this node itself")]
    SelfConnection,
    /// The peer sent something that does not follow the protocol.
    #[error("the peer broke the protocol: {0}")]
    Malformed(#[from] Malformed),
    /// The peer closed the connection.
    #[error("the connection was closed")]
    Closed,
    /// The connection failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Failure {
    /// Returns the failure of a peer that said something that does not belong here.
    pub(crate) fn unexpected(message: &Message) -> Self {
        Failure::Malformed(Malformed::Unexpected(message.name()))
    }

    /// Returns what to tell the peer, when there is something to tell.
    pub(crate) fn answer(&self) -> Option<Rejection> {
        match self {
            Failure::Rejected(rejection) => Some(*rejection),
            Failure::Malformed(_) => Some(Rejection::Garbage),
            // A stranger learns no more than that it is one.
            Failure::Stale => Some(Rejection::WrongSecret),
            // The peer knows: it said so, or it can tell from what both sides sent, or is gone.
            Failure::RejectedByPeer(_)
            | Failure::VersionMismatch { .. }
            | Failure::SelfConnection
            | Failure::Closed
            | Failure::Io(_) => None,
        }
    }

    /// Returns true if what the peer sent first is not what nodes send.
    pub(crate) fn is_of_no_node(&self) -> bool {
        matches!(self, Failure::Malformed(Malformed::Preface(_) | Malformed::NotBootstrap))
    }

    /// Returns it in a word, for metrics: the same for a refusal of this side and of the peer.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Failure::Rejected(why) | Failure::RejectedByPeer(why) => why.label(),
            Failure::VersionMismatch { .. } => "version",
            Failure::Stale => "stale",
            Failure::SelfConnection => "self",
            Failure::Malformed(_) => "garbage",
            Failure::Closed => "closed",
            Failure::Io(_) => "io",
        }
    }

    /// Returns true if it only means that another connection between the same nodes was chosen.
    pub(crate) fn is_dial_race(&self) -> bool {
        matches!(
            self,
            Failure::Rejected(Rejection::DialRace) | Failure::RejectedByPeer(Rejection::DialRace)
        )
    }
}
