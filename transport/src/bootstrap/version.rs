//! The versions of the protocol that a node speaks.

use std::fmt;

use super::codec::Malformed;

/// Bytes of a range of versions.
pub(super) const VERSIONS_BYTES: usize = 2;

/// The versions of the protocol that this build speaks; no other place states them. Raise them with
/// every change to what docs/WIRE.md describes that an older node would misread, including changes
/// to frames and to fabrics' offers: nodes exchange versions before anything else, so two releases
/// refuse each other with an error that names both ranges.
pub(crate) const VERSIONS: Versions = Versions { min: 5, max: 5 };

/// A range of versions, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Versions {
    /// The oldest.
    pub(super) min: u8,
    /// The newest.
    pub(super) max: u8,
}

impl Versions {
    pub(super) fn encode(self) -> [u8; VERSIONS_BYTES] {
        [self.min, self.max]
    }

    pub(super) fn decode([min, max]: [u8; VERSIONS_BYTES]) -> Result<Self, Malformed> {
        if min == 0 || min > max {
            return Err(Malformed::Number { what: "range of versions", value: min.into() });
        }
        Ok(Versions { min, max })
    }

    /// Returns true if there is a version in both; the newest such is spoken.
    pub(super) fn meet(self, other: Versions) -> bool {
        self.min <= other.max && other.min <= self.max
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max {
            write!(f, "{}", self.min)
        } else {
            write!(f, "{} to {}", self.min, self.max)
        }
    }
}
