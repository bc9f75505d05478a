//! The reasons for which one side refuses a connection, as it tells the other.

use super::codec::Malformed;

/// A reason that one side tells the other, by its number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Rejection {
    /// The key does not fit.
    #[error(
        "the cluster secrets differ, or only one side has one: give all nodes the same; to change \
         it, have all nodes accept the new one first"
    )]
    WrongSecret = 1,
    /// Another live node has the name.
    #[error("another live node has the same name: give each node its own")]
    DuplicateNodeName = 2,
    /// Another connection between the two nodes was chosen.
    #[error("the two nodes are linked already, or about to be")]
    DialRace = 3,
    /// No fabric that both can use could be connected.
    #[error("no fabric that both nodes have could be connected")]
    NoCommonFabric = 4,
    /// Something arrived that does not follow the protocol.
    #[error("what arrived does not follow the protocol")]
    Garbage = 5,
    /// A step took too long.
    #[error("the other side did not answer in time")]
    TooSlow = 6,
    /// Too many connections are still proving themselves.
    #[error("too many connections at once")]
    Busy = 7,
    /// The node is shutting down.
    #[error("the node is shutting down")]
    ShuttingDown = 8,
    /// The peer's address has as many links to this node as one may have.
    #[error(
        "too many links from one address: if so many nodes share it, raise `links_per_source_max` \
         where they dial"
    )]
    TooManyLinks = 9,
}

impl Rejection {
    const ALL: [Rejection; 9] = [
        Rejection::WrongSecret,
        Rejection::DuplicateNodeName,
        Rejection::DialRace,
        Rejection::NoCommonFabric,
        Rejection::Garbage,
        Rejection::TooSlow,
        Rejection::Busy,
        Rejection::ShuttingDown,
        Rejection::TooManyLinks,
    ];

    /// Returns its number on the wire.
    pub(super) fn code(self) -> u8 {
        self as u8
    }

    /// Returns it in a word, for metrics.
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

    /// Returns the reason of this number.
    pub(super) fn from_code(code: u8) -> Result<Self, Malformed> {
        let rejection = Rejection::ALL.into_iter().find(|rejection| rejection.code() == code);
        let what = "reason for a refusal";
        rejection.ok_or(Malformed::Number { what, value: code.into() })
    }
}
