//! Why one side refuses a connection, as it tells the other.

use super::codec::Malformed;

/// A reason that one side tells the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Rejection {
    /// The key does not fit.
    #[error(
        "the cluster secrets differ, or only one side has one: give all nodes the same; to change \
         it, have all nodes accept the new one first"
    )]
    WrongSecret,
    /// Another live node has the name.
    #[error("another live node has the same name: give each node its own")]
    DuplicateNodeName,
    /// Another connection between the two nodes was chosen.
    #[error("the two nodes are linked already, or about to be")]
    DialRace,
    /// No fabric that both can use could be connected.
    #[error("no fabric that both nodes have could be connected")]
    NoCommonFabric,
    /// Something arrived that does not follow the protocol.
    #[error("what arrived does not follow the protocol")]
    Garbage,
    /// A step took too long.
    #[error("the other side was too slow")]
    TooSlow,
    /// Too many connections are still proving themselves.
    #[error("too many connections at once")]
    Busy,
    /// The node is shutting down.
    #[error("the node is shutting down")]
    ShuttingDown,
    /// The peer's address has as many links to this node as one may have.
    #[error(
        "too many links from one address: if so many nodes share it, raise `links_per_source_max` \
         where they dial"
    )]
    TooManyLinks,
}

impl Rejection {
    /// Returns its number on the wire.
    pub(super) fn code(self) -> u8 {
        match self {
            Rejection::WrongSecret => 1,
            Rejection::DuplicateNodeName => 2,
            Rejection::DialRace => 3,
            Rejection::NoCommonFabric => 4,
            Rejection::Garbage => 5,
            Rejection::TooSlow => 6,
            Rejection::Busy => 7,
            Rejection::ShuttingDown => 8,
            Rejection::TooManyLinks => 9,
        }
    }

    /// In a word, for metrics.
    pub(super) fn label(self) -> &'static str {
        match self {
            Rejection::WrongSecret => "wrong_secret",
            Rejection::DuplicateNodeName => "duplicate_name",
            Rejection::DialRace => "dial_race",
            Rejection::NoCommonFabric => "no_common_fabric",
            Rejection::Garbage => "garbage",
            Rejection::TooSlow => "too_slow",
            Rejection::Busy => "busy",
            Rejection::ShuttingDown => "shutting_down",
            Rejection::TooManyLinks => "too_many_links",
        }
    }

    pub(super) fn from_code(code: u8) -> Result<Self, Malformed> {
        Ok(match code {
            1 => Rejection::WrongSecret,
            2 => Rejection::DuplicateNodeName,
            3 => Rejection::DialRace,
            4 => Rejection::NoCommonFabric,
            5 => Rejection::Garbage,
            6 => Rejection::TooSlow,
            7 => Rejection::Busy,
            8 => Rejection::ShuttingDown,
            9 => Rejection::TooManyLinks,
            other => {
                return Err(Malformed::Number {
                    what: "reason for a refusal",
                    value: other.into(),
                });
            }
        })
    }
}
